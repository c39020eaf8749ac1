"""Gossip over several hops: everybody tells on what he was told (behaviour.md 6.3, 6.7).

`scouting/gossip/multihop`. Each node describes itself, with its links, under a number that grows;
descriptions flood the network, newest wins. A node that no chain of links leads to any more is
forgotten. All nodes of the network have to be set to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from elea.routing.context import Context
from elea.routing.effects import Candidate
from elea.routing.face import Face
from elea.routing.graph import Graph
from elea.wire.fields_hot import QOS_DECLARE
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam

_SELF: Final = 0
_WEIGHT: Final = 100.0  # of a link of which nobody tells more


@dataclass(slots=True, eq=False)
class _Node:
    psid: int  # our number for it
    zid: bytes
    whatami: int = 1 << 1  # as a bit; what is only mentioned as a link is taken for a peer
    sn: int = 0  # 0: only mentioned so far
    locators: tuple[str, ...] | None = None
    links: dict[bytes, None] = field(default_factory=dict)
    gateway: bool = False


@dataclass(slots=True, eq=False)
class _Neighbour:
    face: Face
    psids: dict[int, bytes] = field(default_factory=dict)  # its numbers, to the nodes they name


class MultihopGossip:
    """What this node knows of the network; driven as `elea.routing.gossip.Gossip` is."""

    __slots__ = (
        "_neighbours",
        "_nodes",
        "_nodes_count_max",
        "_output",
        "_own",
        "_target",
        "candidates",
    )

    def __init__(self, context: Context) -> None:
        self._output = context.output
        self._nodes_count_max = context.limits.gossip_nodes_count
        self._target = context.settings.gossip_target
        self._own = _Node(_SELF, context.zid, 1 << context.role.whatami, 1, ())
        self._nodes: dict[bytes, _Node] = {context.zid: self._own}
        self._neighbours: dict[int, _Neighbour] = {}  # by face id
        self.candidates: dict[bytes, Candidate] = {}

    def is_empty(self) -> bool:
        """Whether no neighbour is remembered; candidates wait to be fetched."""
        return not self._neighbours and len(self._nodes) == 1

    def set_locators(self, locators: tuple[str, ...]) -> None:
        """Where this node listens; everybody is told when it changes."""
        if locators != self._own.locators:
            self._own.locators = locators
            self._own.sn += 1
            self._tell([], [self._own])

    def graph(self) -> Graph:
        """Every node that was told of, and the links that both its ends tell of."""
        nodes = list(self._nodes.values())
        place = {node.zid: index for index, node in enumerate(nodes)}
        graph = Graph([node.zid for node in nodes])
        for node in nodes:
            for zid in node.links:
                other = self._nodes.get(zid)
                if other is not None and node.zid in other.links and place[zid] < place[node.zid]:
                    graph.edges[place[node.zid], place[zid]] = _WEIGHT
        return graph

    def open_face(self, face: Face) -> None:
        """A neighbour joined: tell it of everybody, and everybody else of it."""
        if not face.is_north or face.spec.multicast:
            return
        new = face.spec.zid not in self._nodes
        node = self._node(face.spec.zid)
        if node is None:
            return
        node.whatami = 1 << face.spec.whatami
        node.gateway = face.spec.gateway
        self._own.links[node.zid] = None
        self._own.sn += 1
        self._tell([node] if new else [], [self._own])
        joined = self._neighbours[face.id] = _Neighbour(face)
        self._send(joined, [self._record(one, zid=True) for one in self._nodes.values()])

    def close_face(self, face: Face) -> None:
        """A neighbour left, and perhaps others that were reached through it."""
        if self._neighbours.pop(face.id, None) is None:
            return
        if all(one.face.spec.zid != face.spec.zid for one in self._neighbours.values()):
            self._own.links.pop(face.spec.zid, None)
        self._prune()
        self._own.sn += 1
        self._tell([], [self._own])

    def receive(self, face: Face, states: LinkStateList) -> bool:
        """A neighbour told of nodes; False if it has no business doing so."""
        sender = self._neighbours.get(face.id)
        if sender is None:
            return False
        new: list[_Node] = []
        updated: list[_Node] = []
        heard = list(states)
        for state in heard:  # numbers first: links may name nodes that are described later
            known = state.psid in sender.psids or len(sender.psids) < self._nodes_count_max
            if state.zid is not None and known:
                sender.psids[state.psid] = state.zid
        for state in heard:
            zid = state.zid or sender.psids.get(state.psid)
            if zid is None or zid == self._own.zid:
                continue
            unknown = zid not in self._nodes
            node = self._node(zid)
            if node is None:
                continue
            if unknown or state.sn > node.sn:
                (updated if node.sn else new).append(node)
            if state.sn > node.sn:
                self._update(node, state, sender)
        self._prune()
        self._tell(
            [one for one in new if one.zid in self._nodes],
            [one for one in updated if one.zid in self._nodes],
            sender,
        )
        return True

    def take_candidates(self) -> list[Candidate]:
        """Nodes heard of since the last call, that this node is not connected to."""
        connected = {one.face.spec.zid for one in self._neighbours.values()}
        found = [one for one in self.candidates.values() if one.zid not in connected]
        self.candidates.clear()
        return found

    def _node(self, zid: bytes) -> _Node | None:
        """A node of the table; a new one if there is room."""
        node = self._nodes.get(zid)
        if node is None and len(self._nodes) < self._nodes_count_max:
            used = {one.psid for one in self._nodes.values()}
            psid = next(number for number in range(len(used) + 1) if number not in used)
            node = self._nodes[zid] = _Node(psid, zid)
        return node

    def _update(self, node: _Node, state: LinkState, sender: _Neighbour) -> None:
        node.sn = state.sn
        node.whatami = 1 if state.whatami is None else state.whatami  # absent means router
        node.gateway = state.gateway
        links = [sender.psids[psid] for psid in state.links if psid in sender.psids]
        node.links = dict.fromkeys(links)
        for zid in links:
            self._node(zid)
        if state.locators is not None:
            node.locators = state.locators
            if state.locators and node.zid != sender.face.spec.zid:
                self.candidates[node.zid] = Candidate(
                    node.zid, node.whatami >> 1, state.locators, sender.face.id
                )

    def _prune(self) -> None:
        """Forget whom no chain of links leads to."""
        reached = {self._own.zid}
        waiting = [self._own]
        while waiting:
            for zid in waiting.pop().links:
                node = self._nodes.get(zid)
                if node is not None and zid not in reached:
                    reached.add(zid)
                    waiting.append(node)
        for zid in [one for one in self._nodes if one not in reached]:
            del self._nodes[zid]
            self.candidates.pop(zid, None)

    def _tell(
        self, new: list[_Node], updated: list[_Node], sender: _Neighbour | None = None
    ) -> None:
        """New nodes to everybody, whom it tells our numbers; news to all but who knows them."""
        for neighbour in self._neighbours.values():
            records = [self._record(one, zid=True) for one in new]
            if neighbour is not sender:
                zid = neighbour.face.spec.zid
                records += [self._record(one, zid=False) for one in updated if one.zid != zid]
            if records:
                self._send(neighbour, records)

    def _record(self, node: _Node, *, zid: bool) -> LinkState:
        links = [self._nodes[one].psid for one in node.links if one in self._nodes]
        return LinkState(
            node.psid,
            node.sn,
            node.zid if zid else None,
            node.whatami,
            node.locators,
            links,
            gateway=node.gateway,
        )

    def _send(self, to: _Neighbour, records: list[LinkState]) -> None:
        if self._target >> to.face.spec.whatami & 1:
            message = Oam(ID_LINKSTATE, LinkStateList(records), QOS_DECLARE)
            self._output.send(to.face.id, message, True)
