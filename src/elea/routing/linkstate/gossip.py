"""Gossip: peers telling of peers, so that a mesh grows from one contact (behaviour.md 6.7).

Single hop: a node tells of itself and of those it is connected to. It hands on what a neighbour
says of itself, never what a neighbour says of others. Everything heard of a node that can be
reached is a candidate to connect to.
"""

from __future__ import annotations

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
_FIRST_SN: Final = 1


@dataclass(slots=True)
class _Neighbour:
    face: Face
    psid: int
    locators: tuple[str, ...] | None = None
    sn: int = 0
    psids: dict[int, bytes] = field(default_factory=dict)  # its numbers, to the nodes they name


class Gossip:
    """What this node knows of nodes around it."""

    __slots__ = (
        "_candidates",
        "_locators",
        "_neighbours",
        "_nodes_count_max",
        "_output",
        "_sn",
        "_target",
        "_whatami",
        "_zid",
    )

    def __init__(self, context: Context) -> None:
        self._candidates = context.candidates
        self._zid = context.zid
        self._whatami = context.role.whatami
        self._output = context.output
        self._nodes_count_max = context.limits.gossip_nodes_count
        self._target = context.settings.gossip_target
        self._locators: tuple[str, ...] = ()
        self._sn = _FIRST_SN
        self._neighbours: dict[int, _Neighbour] = {}  # by face id

    def is_empty(self) -> bool:
        """Whether no neighbour is remembered."""
        return not self._neighbours

    def set_locators(self, locators: tuple[str, ...]) -> None:
        """Where this node listens; neighbours are told when it changes."""
        if locators == self._locators:
            return
        self._locators = locators
        self._sn += 1
        for neighbour in self._neighbours.values():
            self._send(neighbour, [self._own_record(neighbour, zid=False)])

    def graph(self) -> Graph:
        """This node and its neighbours; over one hop nobody tells of links."""
        return Graph([self._zid, *(one.face.spec.zid for one in self._neighbours.values())])

    def open_face(self, face: Face) -> None:
        """A neighbour joined: tell it of everybody, and the gateways of it."""
        if not face.is_north or face.spec.multicast:
            return
        used = {one.psid for one in self._neighbours.values()}
        psid = next(number for number in range(1, len(used) + 2) if number not in used)
        joined = self._neighbours[face.id] = _Neighbour(face, psid)
        self._sn += 1
        for neighbour in self._neighbours.values():
            if neighbour is not joined and neighbour.face.spec.gateway:
                records = [self._record(joined), self._own_record(neighbour, zid=False)]
                self._send(neighbour, records)
        records = [self._own_record(joined, zid=True)]
        records += [self._record(one) for one in self._neighbours.values() if one is not joined]
        self._send(joined, records)

    def close_face(self, face: Face) -> None:
        """A neighbour left. If it was a gateway, the others are told: they may have to forward.

        Eclipse says nothing; there, what the lost gateway forwarded is lost until it is back.
        """
        if self._neighbours.pop(face.id, None) is None:
            return
        self._sn += 1
        if face.spec.gateway:
            for neighbour in self._neighbours.values():
                if neighbour.face.spec.gateway:
                    self._send(neighbour, [self._own_record(neighbour, zid=False)])

    def receive(self, face: Face, states: LinkStateList) -> bool:
        """A neighbour told of nodes; False if it has no business doing so."""
        sender = self._neighbours.get(face.id)
        if sender is None:
            return False
        for state in states:
            zid = state.zid
            if zid is None:
                zid = sender.psids.get(state.psid)
            elif len(sender.psids) < self._nodes_count_max or state.psid in sender.psids:
                sender.psids[state.psid] = zid
            if zid is None or zid == self._zid:
                continue
            if zid == face.spec.zid:
                self._sender_said(sender, state)
            elif state.locators:
                self._offer(zid, state.whatami, state.locators, face.id)
        return True

    def _sender_said(self, sender: _Neighbour, state: LinkState) -> None:
        """What a neighbour says of itself is handed on, if it is news."""
        if state.sn <= sender.sn:
            return
        sender.sn = state.sn
        if state.locators is None or state.locators == sender.locators:
            return
        sender.locators = state.locators
        for neighbour in self._neighbours.values():
            if neighbour is not sender:
                self._send(neighbour, [self._record(sender)])

    def _offer(
        self, zid: bytes, whatami: int | None, locators: tuple[str, ...], face_id: int
    ) -> None:
        if len(self._candidates) < self._nodes_count_max or zid in self._candidates:
            role = 0 if whatami is None else whatami >> 1  # absent means router
            self._candidates[zid] = Candidate(zid, role, locators, face_id)

    def _own_record(self, to: _Neighbour, *, zid: bool) -> LinkState:
        """This node. Only gateways are told of its links: they choose by them who forwards."""
        links = [one.psid for one in self._neighbours.values()] if to.face.spec.gateway else []
        return LinkState(
            _SELF,
            self._sn,
            self._zid if zid else None,
            1 << self._whatami,
            self._locators,
            links,
        )

    def _record(self, one: _Neighbour) -> LinkState:
        spec = one.face.spec
        return LinkState(
            one.psid,
            one.sn,
            spec.zid,
            1 << spec.whatami,
            one.locators,
            gateway=spec.gateway,
        )

    def _send(self, to: _Neighbour, records: list[LinkState]) -> None:
        if self._target >> to.face.spec.whatami & 1:
            message = Oam(ID_LINKSTATE, LinkStateList(records), QOS_DECLARE)
            self._output.send(to.face.id, message, True)
