"""Network: who is linked to whom, told on from node to node (behaviour.md 6.2, 6.3).

Each node describes itself, with its links, under a number that grows; descriptions flood the
network, newest wins. A node that no chain of links leads to any more is forgotten. Nodes are named
by numbers of the sender's choice, which it introduces together with their ids.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import Final

from elea.records import dataclass, field
from elea.routing.context import Context
from elea.routing.effects import Candidate
from elea.routing.face import Face
from elea.routing.linkstate.graph import Graph
from elea.wire.fields import QOS_DECLARE
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam

_SELF: Final = 0
_PSID_MAX: Final = 0xFFFF  # NodeId has sixteen bits
_ROUTER_BIT: Final = 1
_FREE_COST: Final = 1_000  # links told of, times those who are told on: less needs no rest
_REST_NS: Final = 5_000  # after each of them, which takes about a microsecond


@dataclass(slots=True, eq=False)
class NetworkNode:
    """What is known of one node."""

    psid: int  # our number for it
    zid: bytes
    whatami: int  # as a bit
    sn: int = 0  # 0: only mentioned so far
    locators: tuple[str, ...] | None = None
    links: dict[bytes, int] = field(default_factory=dict)  # to their weight; 0: not set
    gateway: bool = False


@dataclass(slots=True, eq=False)
class NetworkNeighbour:
    """A face that takes part."""

    face: Face
    psids: dict[int, bytes] = field(default_factory=dict)  # its numbers, to the nodes they name


class Network:
    """The nodes of one network; a subclass says what they are used for."""

    __slots__ = ("_context", "_free_psids", "_mentioned", "neighbours", "nodes", "own")

    def __init__(self, context: Context, mentioned: int) -> None:
        self._context = context
        self._mentioned = mentioned  # the role of a node that is only mentioned as a link
        self.own = NetworkNode(_SELF, context.zid, 1 << context.role.whatami, 1, ())
        self.nodes: dict[bytes, NetworkNode] = {context.zid: self.own}
        self._free_psids: list[int] = []  # a heap of those below the largest one in use
        self.neighbours: dict[int, NetworkNeighbour] = {}  # by face id

    def is_empty(self) -> bool:
        """Whether no neighbour is remembered."""
        return not self.neighbours and len(self.nodes) == 1

    def set_locators(self, locators: tuple[str, ...]) -> None:
        """Where this node listens; everybody is told when it changes."""
        if locators != self.own.locators:
            self.own.locators = locators
            self.own.sn += 1
            self._tell([], [self.own])

    def links(self) -> dict[bytes, dict[bytes, int]]:
        """What every node tells of its links, as of now: not changed when they change."""
        # Links of other nodes are replaced when they change, and never changed themselves.
        found = {zid: node.links for zid, node in self.nodes.items()}
        found[self.own.zid] = dict(self.own.links)
        return found

    def graph(self) -> Graph:
        """Every node that was told of, and the links that both their ends tell of."""
        return Graph(list(self.nodes), self.links())

    def open_face(self, face: Face) -> None:
        """A neighbour joined: tell it of everybody, and everybody else of it."""
        if not face.is_north or face.spec.multicast:
            return
        new = face.spec.zid not in self.nodes
        node = self._node(face.spec.zid)
        if node is None:
            return
        node.whatami = 1 << face.spec.whatami
        node.gateway = face.spec.gateway
        self.own.links[node.zid] = self.weight_to(node.zid)
        self.own.sn += 1
        self._tell([node] if new else [], [self.own])
        joined = self.neighbours[face.id] = NetworkNeighbour(face, {0: face.spec.zid})
        everybody = LinkStateList(self._record(one, zid=True) for one in self.nodes.values())
        self._send(joined, everybody)
        self.changed()

    def close_face(self, face: Face) -> None:
        """A neighbour left, and perhaps others that were reached through it."""
        if self.neighbours.pop(face.id, None) is None:
            return
        if all(one.face.spec.zid != face.spec.zid for one in self.neighbours.values()):
            self.own.links.pop(face.spec.zid, None)
        gone = self._prune()
        self.own.sn += 1
        self._tell([], [self.own])
        self.changed()
        self.removed(gone)

    def receive(self, face: Face, states: LinkStateList) -> bool:
        """A neighbour told of nodes; False if it has no business doing so."""
        sender = self.neighbours.get(face.id)
        if sender is None:
            return False
        new: dict[bytes, NetworkNode] = {}
        updated: dict[bytes, NetworkNode] = {}
        introduced: list[bytes] = []
        heard = list(states)
        self._charge(face, heard)
        for state in heard:  # numbers first: links may name nodes that are described later
            known = state.psid in sender.psids or len(sender.psids) < self._nodes_count_max
            if state.zid is not None and known:
                introduced.append(state.zid)
                sender.psids[state.psid] = state.zid
        for state in heard:
            zid = state.zid or sender.psids.get(state.psid)
            if zid == self.own.zid:
                self._hear_of_self(state)
            elif zid is not None:
                self._hear(zid, state, sender, new, updated)
        gone = self._prune()
        self._tell(
            [one for one in new.values() if one.zid in self.nodes],
            [one for one in updated.values() if one.zid in self.nodes and one.zid not in new],
            sender,
        )
        if new or updated or gone:
            self.changed()
        self.removed(gone)
        self.introduced(sender, introduced)
        return True

    # What differs between networks.

    def weight_to(self, zid: bytes) -> int:
        """The configured weight of a link of this node; 0: none."""
        return 0

    def hears(self, neighbour: NetworkNeighbour) -> bool:
        """Whether a neighbour is told anything at all."""
        return True

    def tells_locators(self, node: NetworkNode) -> bool:
        """Whether neighbours are told where a node listens."""
        return True

    def changed(self) -> None:
        """Nodes or links came or went."""

    def removed(self, nodes: list[NetworkNode]) -> None:
        """Nodes are out of reach, and forgotten."""

    def introduced(self, by: NetworkNeighbour, zids: list[bytes]) -> None:
        """A neighbour said which numbers it gave to nodes; it had not known them before."""

    # Inside.

    @property
    def _nodes_count_max(self) -> int:
        return min(self._context.limits.gossip_nodes_count, _PSID_MAX)

    def _node(self, zid: bytes) -> NetworkNode | None:
        """A node of the table; a new one, under the smallest free number, if there is room."""
        node = self.nodes.get(zid)
        if node is None and len(self.nodes) < self._nodes_count_max:
            free = self._free_psids  # with those in use, all numbers up to the largest in use
            psid = heapq.heappop(free) if free else len(self.nodes)
            node = self.nodes[zid] = NetworkNode(psid, zid, self._mentioned)
        return node

    def _charge(self, face: Face, heard: list[LinkState]) -> None:
        """Whoever tells much is read again after a rest: its news cost a share of the time."""
        cost = sum(1 + len(state.links) for state in heard) * (1 + len(self.neighbours))
        if cost > _FREE_COST:
            debts = self._context.debts
            debts[face.id] = debts.get(face.id, 0) + cost * _REST_NS

    def _hear_of_self(self, state: LinkState) -> None:
        """A description of this node that is newer than its own: of an earlier life."""
        if state.sn > self.own.sn:
            self.own.sn = state.sn + 1
            self._tell([], [self.own])

    def _hear(
        self,
        zid: bytes,
        state: LinkState,
        sender: NetworkNeighbour,
        new: dict[bytes, NetworkNode],
        updated: dict[bytes, NetworkNode],
    ) -> None:
        unknown = zid not in self.nodes
        node = self._node(zid)
        if node is None or not (unknown or state.sn > node.sn):
            return
        (updated if node.sn else new)[zid] = node
        if state.sn <= node.sn:
            return
        node.sn = state.sn
        node.whatami = _ROUTER_BIT if state.whatami is None else state.whatami
        node.gateway = state.gateway
        weights = state.weights or [0] * len(state.links)
        node.links = {
            sender.psids[psid]: weight
            for psid, weight in zip(state.links, weights, strict=True)
            if psid in sender.psids
        }
        for link in node.links:
            # Whoever is told of this node must know those too, or would forget its links to them.
            mentioned = None if link in self.nodes else self._node(link)
            if mentioned is not None:
                new[link] = mentioned
        if state.locators is not None:
            node.locators = state.locators
            if state.locators and zid != sender.face.spec.zid:
                self._context.candidates[zid] = Candidate(
                    zid, node.whatami >> 1, state.locators, sender.face.id
                )

    def _prune(self) -> list[NetworkNode]:
        """Forget whom no chain of links leads to."""
        reached = {self.own.zid}
        waiting = [self.own]
        while waiting:
            for zid in waiting.pop().links:
                node = self.nodes.get(zid)
                if node is not None and zid not in reached:
                    reached.add(zid)
                    waiting.append(node)
        gone = [node for zid, node in self.nodes.items() if zid not in reached]
        for node in gone:
            del self.nodes[node.zid]
            heapq.heappush(self._free_psids, node.psid)
            self._context.candidates.pop(node.zid, None)
        return gone

    def _tell(
        self,
        new: Iterable[NetworkNode],
        updated: Iterable[NetworkNode],
        sender: NetworkNeighbour | None = None,
    ) -> None:
        """New nodes to everybody, whom it tells our numbers; news to all but who knows them."""
        introductions = [self._record(one, zid=True) for one in new]
        news = {one.zid: self._record(one, zid=False) for one in updated}
        # Made and encoded once for all: one message may tell of a network, and many be told on.
        everything = LinkStateList([*introductions, *news.values()])
        for neighbour in self.neighbours.values():
            zid = neighbour.face.spec.zid
            if neighbour is sender:
                self._send(neighbour, LinkStateList(introductions))
            elif zid in news:
                others = [record for one, record in news.items() if one != zid]
                self._send(neighbour, LinkStateList([*introductions, *others]))
            else:
                self._send(neighbour, everything)

    def _record(self, node: NetworkNode, *, zid: bool) -> LinkState:
        links = [(self.nodes[one].psid, w) for one, w in node.links.items() if one in self.nodes]
        weights = [weight for _, weight in links]
        return LinkState(
            node.psid,
            node.sn,
            node.zid if zid else None,
            node.whatami,
            node.locators if self.tells_locators(node) else None,
            [psid for psid, _ in links],
            weights if any(weights) else None,
            gateway=node.gateway,
        )

    def _send(self, to: NetworkNeighbour, states: LinkStateList) -> None:
        if len(states) and self.hears(to):
            message = Oam(ID_LINKSTATE, states, QOS_DECLARE)
            self._context.output.send(to.face.id, message, True)
