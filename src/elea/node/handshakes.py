"""Handshakes: links from their first octet until they are part of a transport, or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.node.admission import Admission
from elea.node.dialling import Dialling
from elea.node.guards import Guards
from elea.node.links import Links, NodeLink
from elea.node.neighbours import Neighbours
from elea.node.ports import LinkInfo
from elea.transport.handshake import Acceptor, Failure, Opener, State
from elea.transport.negotiation import Agreed

TOO_MANY_GUESSES: Final = "too many wrong passwords came from that address"
_OTHER_PARAMETERS: Final = "parameters differ from the first link's"
_CONTRADICTION: Final = "the roles and gateway/south of the two nodes contradict each other"


class Handshakes:
    """Drives the handshakes of a node's links and acts on what they come to.

    Args:
        admission: Decides who may become a neighbour.
        links: Of the node.
        neighbours: Whom a link joins when its handshake is done.
        dialling: Knows which connector made a link.
        guards: Told of logins that were refused.
        next_face_id: Gives a face its number.
    """

    __slots__ = ("_admission", "_dialling", "_guards", "_links", "_neighbours", "_next_face_id")

    def __init__(
        self,
        admission: Admission,
        links: Links,
        neighbours: Neighbours,
        dialling: Dialling,
        guards: Guards,
        next_face_id: Callable[[], int],
    ) -> None:
        self._admission = admission
        self._links = links
        self._neighbours = neighbours
        self._dialling = dialling
        self._guards = guards
        self._next_face_id = next_face_id

    def begin(
        self, link_id: int, info: LinkInfo, connector_id: int | None, now_ns: int, *, opened: bool
    ) -> None:
        """Begin the handshake of a link, `opened` by us or accepted."""
        connector = self._dialling.get(connector_id)
        link = self._admission.begin(link_id, info, connector, now_ns, opened=opened)
        self._links.add(link)
        if link.handshake is None:
            self._links.mark_dirty(link_id)
            self._guards.login_refused(info, TOO_MANY_GUESSES)
            self._links.end(link, TOO_MANY_GUESSES)
        self._advance(link, now_ns)

    def receive(self, link: NodeLink, data: bytes, now_ns: int) -> None:
        """Octets arrived: some of a stream, or one datagram.

        Raises:
            DecodeError: They are no messages.
            RemoteProtocolError: They are messages that must not come now.
        """
        stream = link.stream
        if stream is None:
            self._receive_batch(link, data, now_ns)
            return
        stream.feed(data)
        while link.handshake is not None and stream.next_window():
            self._receive_batch(link, stream.data[stream.start : stream.stop], now_ns)

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        running = [link.handshake for link in self._links.all() if link.handshake is not None]
        times = [handshake.next_timer_ns() for handshake in running]
        return min((time for time in times if time is not None), default=None)

    def handle_timer(self, now_ns: int) -> None:
        """End the handshakes that took too long."""
        for link in self._links.all():
            if link.handshake is not None:
                link.handshake.handle_timer(now_ns)
                self._advance(link, now_ns)

    def _receive_batch(self, link: NodeLink, batch: bytes, now_ns: int) -> None:
        assert link.handshake is not None
        link.handshake.receive_batch(batch, now_ns)
        self._advance(link, now_ns)

    def _advance(self, link: NodeLink, now_ns: int) -> None:
        """Answer questions of a handshake, write what it says, act on its end."""
        handshake = link.handshake
        if handshake is None:
            return
        if isinstance(handshake, Opener) and handshake.state is State.PEER_KNOWN:
            self._admission.opening(link, handshake, now_ns)
        elif isinstance(handshake, Acceptor) and handshake.state is State.ADMITTING:
            self._admission.accepting(link, handshake, now_ns)
        for batch in handshake.outgoing():
            link.write(batch)
            self._links.mark_dirty(link.id)
        if handshake.failure is not None:
            link.handshake = None
            self._fail(link, handshake.failure, now_ns, accepted=isinstance(handshake, Acceptor))
        elif handshake.agreed is not None:
            link.handshake = None
            self._finish(link, handshake.agreed, now_ns)

    def _fail(self, link: NodeLink, failure: Failure, now_ns: int, *, accepted: bool) -> None:
        """Close a link whose handshake came to nothing."""
        self._admission.failed(link, failure, now_ns)
        connector = link.connector
        if connector is not None and connector.expected_zid and not failure.by_peer:
            link.connector = None
            self._dialling.refuted(connector, link.info.remote, failure.reason, now_ns)
        if accepted:
            self._guards.login_refused(link.info, failure.reason)
        self._neighbours.lose(link, failure.reason, now_ns)

    def _finish(self, link: NodeLink, agreed: Agreed, now_ns: int) -> None:
        """Give a link to the neighbour at its other end, who may be new."""
        known = self._neighbours.get(agreed.peer_zid)
        if known is not None:
            if agreed.joins(known.agreed):
                self._neighbours.join(known, link, agreed, now_ns)
            else:
                self._neighbours.lose(link, _OTHER_PARAMETERS, now_ns)
            return
        upstream = self._admission.upstream()
        if upstream is not None:  # two answered at the same time, and a client needs one
            self._admission.leave_to(link, upstream)
            self._links.end(link, "connected already")
            return
        placement = self._admission.place(link.info, agreed)
        if placement is None:
            self._neighbours.lose(link, _CONTRADICTION, now_ns)
            return
        self._neighbours.establish(link, agreed, placement, self._next_face_id(), now_ns)
