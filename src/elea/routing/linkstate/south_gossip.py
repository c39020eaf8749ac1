"""Gossip of a gateway towards the peers below it (behaviour.md 6.7).

It introduces the peers of a region to each other and says nothing of itself. What a peer says of
its links tells which other gateways it is connected to: of those, one forwards for it (behaviour.md
5.5).
"""

from __future__ import annotations

from elea.records import dataclass, field
from elea.routing.context import Context
from elea.routing.effects import Candidate
from elea.routing.face import Face
from elea.routing.regions import PEER
from elea.wire.fields import QOS_DECLARE
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam


@dataclass(slots=True, eq=False)
class _Peer:
    face: Face
    psid: int  # our number for it
    sn: int = 0
    locators: tuple[str, ...] | None = None
    psids: dict[int, bytes] = field(default_factory=dict)  # its numbers, to the nodes they name
    gateways: set[bytes] = field(default_factory=set)  # nodes that it says are its gateways
    links: tuple[bytes, ...] = ()


class SouthGossip:
    """What a gateway knows of the peers below it."""

    __slots__ = ("_candidates", "_context", "_peers")

    def __init__(self, context: Context) -> None:
        self._context = context
        self._candidates = context.candidates
        self._peers: dict[int, _Peer] = {}  # by face id

    def is_empty(self) -> bool:
        """Whether no peer is remembered."""
        return not self._peers

    def open_face(self, face: Face) -> None:
        """A peer joined: tell it of the others, even if there are none."""
        if face.spec.whatami != PEER or face.is_north or face.spec.multicast:
            return
        used = {one.psid for one in self._peers.values()}
        psid = next(number for number in range(1, len(used) + 2) if number not in used)
        joined = _Peer(face, psid)
        self._send(joined, [_record(one) for one in self._beside(joined)])
        self._peers[face.id] = joined

    def close_face(self, face: Face) -> None:
        """A peer left; nobody is told."""
        self._peers.pop(face.id, None)

    def receive(self, face: Face, states: LinkStateList) -> bool:
        """A peer told of nodes; False if it has no business doing so."""
        sender = self._peers.get(face.id)
        if sender is None:
            return False
        count_max = self._context.limits.gossip_nodes_count
        heard = list(states)
        for state in heard:  # numbers first: links may name nodes that are described later
            if state.zid is not None and (
                state.psid in sender.psids or len(sender.psids) < count_max
            ):
                sender.psids[state.psid] = state.zid
        before = self.gateways(face)
        for state in heard:
            zid = state.zid or sender.psids.get(state.psid)
            if zid is None or zid == self._context.zid:
                continue
            if zid == face.spec.zid:
                self._sender_said(sender, state)
                continue
            if state.gateway and len(sender.gateways) < count_max:
                sender.gateways.add(zid)
            elif not state.gateway:
                sender.gateways.discard(zid)
            if state.locators and (zid in self._candidates or len(self._candidates) < count_max):
                role = 0 if state.whatami is None else state.whatami >> 1  # absent means router
                self._candidates[zid] = Candidate(zid, role, state.locators, face.id)
        if self.gateways(face) != before:
            self._context.tables.routes_changed()
        return True

    def gateways(self, face: Face) -> frozenset[bytes]:
        """The other gateways that a peer below this one is connected to, as far as it has told."""
        peer = self._peers.get(face.id)
        if peer is None:
            return frozenset()
        return frozenset(peer.links) & peer.gateways

    def _sender_said(self, sender: _Peer, state: LinkState) -> None:
        """What a peer says of itself; where it listens is handed on."""
        if state.sn <= sender.sn:
            return
        sender.sn = state.sn
        if len(state.links):
            found = (sender.psids.get(psid) for psid in state.links)
            sender.links = tuple(zid for zid in found if zid is not None)
        if state.locators is None or state.locators == sender.locators:
            return
        sender.locators = state.locators
        for peer in self._beside(sender):
            self._send(peer, [_record(sender)])

    def _beside(self, peer: _Peer) -> list[_Peer]:
        """The other peers of its region."""
        region = peer.face.region
        others = self._peers.values()
        return [one for one in others if one is not peer and one.face.region == region]

    def _send(self, to: _Peer, records: list[LinkState]) -> None:
        if self._context.settings.gossip_target >> to.face.spec.whatami & 1:
            message = Oam(ID_LINKSTATE, LinkStateList(records), QOS_DECLARE)
            self._context.output.send(to.face.id, message, True)


def _record(peer: _Peer) -> LinkState:
    spec = peer.face.spec
    return LinkState(peer.psid, peer.sn, spec.zid, 1 << spec.whatami, peer.locators)
