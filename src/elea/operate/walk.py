"""The way of a key, from node to node along what they tell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from elea.choices import TRACED
from elea.errors import EleaError
from elea.operate.admin_space import AdminSpace, Hop, Node
from elea.query import QueryTarget

STEPS_COUNT_MAX: Final = 10_000  # what is printed; whoever answers could go on for ever
SILENT: Final = "does not answer: it has no admin space (adminspace/enabled), or may not be read"
_LOOP: Final = "it was here before: a loop"
_TWICE: Final = "it is reached another way as well"
_TOLD: Final = "is told of every subscriber"
_INDIRECT: Final = "is no Elea node: shown is what its declarations tell"


@dataclass(slots=True)
class Step:
    """One node that the key gets to."""

    hop: Hop
    parent: Step | None = None
    name: str = ""
    note: str = ""  # what is odd about it
    takes: bool = False  # it is where the way ends: an application wants it
    children: list[Step] = field(default_factory=list)


class Walk:
    """From node to node, along what they tell."""

    def __init__(
        self,
        space: AdminSpace,
        action: str,
        key: str,
        asked: QueryTarget | None = None,
    ) -> None:
        self._space = space
        self._target = "" if asked is None else asked.name.lower()
        self._action = action
        self._key = key
        self._nodes = {one.zid: one for one in space.nodes()}
        self._reached: set[str] = set()
        self._count = 0
        self.left_out = 0

    def start(self, sender: str) -> list[Step]:
        """The nodes that a sender is connected to, or itself if it tells, with all behind them.

        Raises:
            EleaError: nobody knows it.
        """
        info = self._space.session.info
        if sender == self._space.left_out:
            first = [str(one) for one in (*info.routers_zid(), *info.peers_zid())]
        elif sender in self._nodes:
            first = [sender]
        else:
            first = [
                node.zid
                for node in self._nodes.values()
                if any(one.zid == sender for one in node.neighbours)
            ]
        if not first:
            raise EleaError(f"no node that answers knows {sender}: `elea graph` lists them")
        steps = []
        for zid in first:
            role = self._nodes[zid].role if zid in self._nodes else "node"
            steps.append(Step(Hop(zid, role, [])))
        self._follow(steps, sender)
        return steps

    def _follow(self, steps: list[Step], sender: str) -> None:
        """Find what is behind these; no recursion: others decide how deep it goes."""
        waiting = [(one, sender, "") for one in reversed(steps)]
        self._count = len(waiting)
        while waiting:
            step, sender, root = waiting.pop()
            node = self._judge(step)
            if node is None:
                continue
            self._reached.add(node.zid)
            hops = self._hops(node, sender, root, step)
            room = STEPS_COUNT_MAX - self._count
            self.left_out += max(0, len(hops) - room)
            step.children = [Step(one, step) for one in hops[:room]]
            self._count += len(step.children)
            # What comes from elsewhere enters the network of routers at the first of them.
            entered = root or node.zid
            waiting += [(one, node.zid, entered) for one in reversed(step.children)]

    def _judge(self, step: Step) -> Node | None:
        """Say of a step whether the way ends there; the node to ask if it does not."""
        hop = step.hop
        node = self._nodes.get(hop.zid)
        step.name = "" if node is None else node.name
        if hop.refused:
            step.note = f"does not get it: {hop.refused}"
        elif hop.local or hop.group or hop.role == "client":
            step.takes = True
        elif _is_above(step):
            step.note = _LOOP
        elif hop.zid in self._reached:
            step.note = _TWICE
        elif node is None:
            step.takes = hop.role == "peer" and bool(hop.why)
            step.note = "" if step.takes else SILENT
        else:
            return node
        return None

    def _hops(self, node: Node, sender: str, root: str, step: Step) -> list[Hop]:
        """Where a node hands it on to."""
        told = self._space.route(node, self._action, self._key, sender, root, self._target)
        if told is None:
            step.note = _INDIRECT
            hops = self._declared(node, sender, root)
        elif told.refused:
            step.note = f"lets nothing in: {told.refused}"
            return []
        else:
            hops = told.hops
        return [one for one in hops if one.zid != self._space.left_out]

    def _declared(self, node: Node, sender: str, root: str) -> list[Hop]:
        """The same, as far as the declarations that a node knows of tell it."""
        kind = TRACED[self._action]
        found = self._space.owners(node, kind, self._key)
        roles = {one.zid: one.role for one in node.neighbours}
        hops = [
            one
            for one in found
            # Peers of one region hear each other; what routers have is passed on along a tree.
            if one.role != "router"
            and (one.role != "peer" or roles.get(sender) != "peer")
            and (one.zid != sender or sender == node.zid)
        ]
        for one in hops:
            one.local = one.zid == node.zid
        if node.role != "router" and roles.get(sender) in ("router", "peer"):
            return [one for one in hops if one.local or one.role == "client"]
        if node.role != "router":
            above = [one for one in found if one.role == "router"]
            if self._action == "subscribe":
                above = [Hop(zid, role, [_TOLD]) for zid, role in roles.items() if role != "client"]
            return hops + above
        ways = self._space.successors(node, root or node.zid)
        wanted = {one.zid: one.why for one in found if one.role == "router"}
        if self._action == "subscribe":
            wanted = {zid: [_TOLD] for zid in ways}
        routers: dict[str, Hop] = {}
        for zid, why in wanted.items():
            way = ways.get(zid)
            if way is not None and way != sender and zid != node.zid:
                routers.setdefault(way, Hop(way, "router", [])).why.extend(why)
        return hops + list(routers.values())


def _is_above(step: Step) -> bool:
    above = step.parent
    while above is not None:
        if above.hop.zid == step.hop.zid:
            return True
        above = above.parent
    return False


def flat(steps: list[Step], depth: int = 0) -> Iterator[tuple[int, Step]]:
    """All steps with their depths, from the top."""
    waiting = [(depth, one) for one in reversed(steps)]
    while waiting:
        level, step = waiting.pop()
        yield level, step
        waiting += [(level + 1, one) for one in reversed(step.children)]
