"""Transport: the association with one neighbour, over one link or more. behaviour.md 1.7-1.10, 2.

Its owner gives it batches, messages and the time, and takes batches and events:

    send        a network message in; it is in a batch when the call returns, or it is not taken
    pull        the next batch for a link, ready to be written
    receive_batch, handle_timer, remove_link, close    events out

All links share the queues and the sequence numbers. Each priority is served by one link as long as
that link lives: a receiver drops what is overtaken, so one conduit must not travel on two links.
Each link has its own lease. The last link to go takes the transport with it.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from elea.answers import DROPPED
from elea.limits import DEFAULT_LIMITS, Limits
from elea.records import replace
from elea.transport.batching import TxQueues
from elea.transport.events import (
    NO_EVENTS,
    Events,
    FrameSink,
    KeepAliveDue,
    LinkLost,
    TransportClosed,
    TransportEvent,
)
from elea.transport.lease import Lease
from elea.transport.negotiation import Agreed
from elea.transport.reassembly import FragmentPool, Reassembly
from elea.transport.receive import Reception
from elea.transport.sequence import Received
from elea.transport.settings import DEFAULT_SETTINGS, TransportSettings
from elea.transport.stats import PRIORITIES_COUNT, TransportStats
from elea.wire import compression
from elea.wire.codec import NetworkMessage, encode_one
from elea.wire.dialect import Dialect
from elea.wire.framing import PREFIX_LEN, PREFIX_LEN_LOW_LATENCY, StreamDecoder
from elea.wire.transport.close import Close, CloseReason, reason_name
from elea.wire.transport.keepalive import KeepAlive


class Phase(Enum):
    """How far a transport is from its end."""

    OPEN = "open"
    CLOSING = "closing"  # what was sent before goes out, then CLOSE
    CLOSED = "closed"


class _Link:
    """One link of a transport."""

    __slots__ = (
        "agreed",
        "close_sent",
        "keep_alive",
        "lease",
        "limits",
        "prefix_len",
        "rewrap",
    )

    def __init__(
        self, agreed: Agreed, *, stream: bool, now_ns: int, limits: Limits, keep_alives: int
    ) -> None:
        self.agreed = agreed
        self.lease = Lease(
            own_ms=agreed.own_lease_ms,
            peer_ms=agreed.peer_lease_ms,
            now_ns=now_ns,
            limits=limits,
            steady=agreed.low_latency,
            keep_alives=keep_alives,
        )
        # A compressed batch never unpacks to more than a batch may hold (T08).
        self.limits = replace(limits, decompressed_len=agreed.batch_len)
        self.prefix_len = _prefix_len(agreed, stream=stream)
        # Batches wait as plain streams carry them; any other link needs them wrapped anew.
        self.rewrap = agreed.compression or not stream
        self.keep_alive = False
        self.close_sent = False

    def wrap(self, batch: bytes) -> bytes:
        """`batch` as this link carries it: compression header, then the length in front."""
        if self.agreed.compression:
            batch = compression.pack(batch)
        return len(batch).to_bytes(self.prefix_len, "little") + batch if self.prefix_len else batch


class Transport:
    """One neighbour.

    Args:
        agreed: What the handshake of the first link agreed.
        limits: The node's bounds.
        pool: What the node's conversations hold for unfinished messages, together.
        dialect: How messages are written and read.
        settings: How this side sends.

    Example:
        >>> from elea.transport.negotiation import Agreed
        >>> agreed = Agreed(
        ...     peer_zid=b"a", peer_whatami=0, batch_len=65_535, sn_mask=0x0FFF_FFFF, qos=True,
        ...     patch=1, low_latency=False, compression=False, own_lease_ms=10_000,
        ...     peer_lease_ms=10_000, own_initial_sn=7, peer_initial_sn=9, opener=True,
        ... )
        >>> transport = Transport(agreed)
        >>> transport.add_link(1, agreed, now_ns=0)
        >>> [event] = transport.handle_timer(now_ns=2_500_000_000)
        >>> event, transport.pull(1, now_ns=2_500_000_000)
        (KeepAliveDue(link_id=1), b'\\x01\\x00\\x04')
    """

    __slots__ = (
        "_carriers",
        "_close_message",
        "_limits",
        "_links",
        "_prefix_len",
        "_rx",
        "_settings",
        "_tx",
        "_wake_ns",
        "agreed",
        "phase",
        "stats",
    )

    def __init__(
        self,
        agreed: Agreed,
        *,
        limits: Limits = DEFAULT_LIMITS,
        pool: FragmentPool | None = None,
        dialect: Dialect = Dialect.ECLIPSE,
        settings: TransportSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.agreed = agreed
        self._settings = settings
        self.phase = Phase.OPEN
        self.stats = TransportStats()
        self._limits = limits
        self._links: dict[int, _Link] = {}  # oldest first
        self._prefix_len = _prefix_len(agreed, stream=True)
        self._carriers: set[int] = set()  # links that messages went over, lost ones too
        self._close_message = b""
        self._wake_ns: int | None = None
        self._tx = TxQueues(
            batch_len=agreed.batch_len,
            prefix_len=self._prefix_len,
            qos=agreed.qos,
            mask=agreed.sn_mask,
            initial_sn=agreed.own_initial_sn,
            bare=agreed.low_latency,
            queue_lens=settings.queue_lens or (limits.tx_queue_len,) * PRIORITIES_COUNT,
            batching=settings.batching,
            stats=self.stats,
            dialect=dialect,
        )
        self._rx = Reception(
            numbers=Received(agreed.sn_mask, agreed.peer_initial_sn, self.stats),
            reassembly=Reassembly(
                mask=agreed.sn_mask,
                patch=agreed.patch,
                limits=limits,
                stats=self.stats,
                pool=pool,
            ),
            qos=agreed.qos,
            bare=agreed.low_latency,
            limits=limits,
            stats=self.stats,
            dialect=dialect,
        )

    # Links

    @property
    def link_ids(self) -> list[int]:
        """The links, oldest first."""
        return list(self._links)

    def add_link(self, link_id: int, agreed: Agreed, now_ns: int, *, stream: bool = True) -> None:
        """Let a link join whose handshake agreed on the same parameters (`Agreed.joins`)."""
        assert self.phase is Phase.OPEN
        link = _Link(
            agreed,
            stream=stream,
            now_ns=now_ns,
            limits=self._limits,
            keep_alives=self._settings.keep_alives,
        )
        self._links[link_id] = link
        self._arrange()
        self._wake_by(link.lease.next_timer_ns)

    def remove_link(self, link_id: int, reason: str) -> Events:
        """Forget a link that failed; TransportClosed if it was the last."""
        if self._links.pop(link_id, None) is None:
            return NO_EVENTS
        if not self._links:
            self._end()
            return (TransportClosed(reason, by_peer=False),)
        self._arrange()
        if self.phase is Phase.CLOSING and self._all_said():
            self._end()
        return NO_EVENTS

    def has_carried(self, link_id: int) -> bool:
        """Whether more than keep-alives went over a link: its loss may have lost messages."""
        return link_id in self._carriers

    def is_silent(self, now_ns: int) -> bool:
        """Whether no link brought the keep-alive that was due."""
        leases = [link.lease for link in self._links.values()]
        return not [lease for lease in leases if not lease.is_silent(now_ns)]

    def hold_link(self, link_id: int, held: bool, now_ns: int) -> None:
        """A link is not read for now: it does not expire. Or it is read again."""
        link = self._links.get(link_id)
        if link is not None:
            link.lease.hold(held, now_ns)
            self._wake_by(link.lease.next_timer_ns)

    def _arrange(self) -> None:
        """Fit the queues to the links there are."""
        # A priority may move to any link, so batches must fit every one of them. Those that wait
        # go on the link they were made for, unless it is gone.
        self._tx.resize(min(self._room(link) for link in self._links.values()))
        for priority in self._tx.priorities():
            if self._tx.link_of(priority) not in self._links:
                link_id = self._best_link(priority)
                self._tx.assign(priority, link_id, self._room(self._links[link_id]))

    def _room(self, link: _Link) -> int:
        """The longest batch that a link can carry, counted as batches wait."""
        agreed = link.agreed
        if agreed.low_latency:
            return agreed.batch_len + self._prefix_len  # there the length in front does not count
        wrapping = link.prefix_len + (1 if agreed.compression else 0)
        return agreed.batch_len - wrapping + self._prefix_len

    def _best_link(self, priority: int) -> int:
        """The link for a priority: the narrowest range that holds it, then the oldest (2.9)."""

        def width(link_id: int) -> int:
            restricted = self._links[link_id].agreed.qos_link
            if restricted is None or restricted.priorities is None:
                return 8
            first, last = restricted.priorities
            return last - first if first <= priority <= last else 9

        return min(self._links, key=width)

    # Receiving

    def receive_batch(
        self,
        link_id: int,
        batch: bytes,
        now_ns: int,
        sink: FrameSink,
        start: int = 0,
        stop: int = -1,
    ) -> Events:
        """Take a batch from a link: `batch`, or what stands from `start` to `stop` in it.

        A batch from a link that is gone means nothing.

        Raises:
            ProtocolError: if the batch is none, or must not be sent here. The link is to be closed
                without a word, and `remove_link` called.
        """
        link = self._links.get(link_id)
        if link is None:
            return NO_EVENTS
        link.lease.heard(now_ns)
        self.stats.received_batches += 1
        if stop < 0:
            stop = len(batch)
        self.stats.received_octets += stop - start
        if self.phase is not Phase.OPEN:
            return NO_EVENTS
        if link.agreed.compression and stop > start:
            batch = compression.unpack(batch[start:stop], limits=link.limits)
            start, stop = 0, len(batch)
        if stop - start != len(_KEEP_ALIVE) or batch[start:stop] != _KEEP_ALIVE:
            self._carriers.add(link_id)
        while self._rx.behind:  # with what another link brought: all in its order
            closed = self._rx.resume(sink, now_ns)
            if closed is not None:
                return self._receive_close(link_id, closed)
        closed = self._rx.batch(batch, sink, now_ns, start, stop)
        if self._rx.reassembly.pending_len:
            self._wake_by(now_ns + self._limits.fragment_idle_ns)
        return NO_EVENTS if closed is None else self._receive_close(link_id, closed)

    @property
    def behind(self) -> bool:
        """Whether a batch was read in part: its sink asked for `resume`."""
        return self._rx.behind

    def resume(self, link_id: int, now_ns: int, sink: FrameSink) -> Events:
        """Go on with such a batch; as `receive_batch`."""
        if not self._rx.behind or self.phase is not Phase.OPEN:
            return NO_EVENTS
        closed = self._rx.resume(sink, now_ns)
        return NO_EVENTS if closed is None else self._receive_close(link_id, closed)

    def _receive_close(self, link_id: int, message: Close) -> Events:
        # A session that is closed in order says "generic", which is no reason to tell of.
        reason = "closed by the peer"
        if message.reason != CloseReason.GENERIC:
            reason = f"{reason}: {reason_name(message.reason)}"
        gone = list(self._links) if message.whole_transport else [link_id]
        events: list[TransportEvent] = []
        for one in gone:
            # A sink may have removed the link while it took what stood before CLOSE.
            if self._links.pop(one, None) is not None:
                events.append(LinkLost(one, reason, by_peer=True))
        if not events:
            return NO_EVENTS
        if self._links:
            self._arrange()
        else:
            self._end()
            events.append(TransportClosed(reason, by_peer=True, close_reason=message.reason))
        return tuple(events)

    # Sending

    def send(self, message: NetworkMessage, reliable: bool, now_ns: int) -> int:
        """Put a message into a batch: SENT, DROPPED, or REFUSED if it has to wait."""
        if self.phase is not Phase.OPEN:
            self.stats.dropped_closed += 1
            return DROPPED
        return self._tx.send(message, reliable)

    def pull(self, link_id: int, now_ns: int) -> bytes | None:
        """The next batch to write to a link, or None if there is nothing to say."""
        parts: list[bytes | memoryview] = []
        return b"".join(parts) if self.pull_into(link_id, now_ns, parts) else None

    def pull_into(self, link_id: int, now_ns: int, parts: list[bytes | memoryview]) -> bool:
        """As `pull`, into a list of what is to be written; whether there was a batch."""
        link = self._links.get(link_id)
        if link is None or link.close_sent:
            return False
        if link.keep_alive and link.agreed.low_latency:
            self._last_words(link, parts)
        elif link.rewrap:
            batch = self._tx.pull(link_id)
            if batch is not None:
                self._carriers.add(link_id)
                parts.append(link.wrap(batch[self._prefix_len :]))
            elif not self._last_words(link, parts):
                return False
        elif self._tx.pull_into(link_id, parts):
            self._carriers.add(link_id)
        elif not self._last_words(link, parts):
            return False
        link.keep_alive = False
        link.lease.said(now_ns)
        return True

    def _last_words(self, link: _Link, parts: list[bytes | memoryview]) -> bool:
        """What is said when there are no messages: CLOSE, or a sign of life; whether there is."""
        if self.phase is Phase.CLOSING:
            parts.append(self._pull_close(link))
        elif link.keep_alive:
            parts.append(link.wrap(_KEEP_ALIVE))
        else:
            return False
        return True

    @property
    def qos(self) -> bool:
        """Whether priorities have queues of their own."""
        return self.agreed.qos

    @property
    def queues(self) -> TxQueues:
        """The queues behind `send`, for a caller that sends often and knows the phase."""
        return self._tx

    @property
    def pending_len(self) -> int:
        """Octets that wait to be pulled."""
        return self._tx.pending_len()

    @property
    def queue_len(self) -> int:
        """How many bytes may be queued for the priority that may queue most."""
        return self._tx.queue_len

    @property
    def express_pending(self) -> bool:
        """Whether something that must not wait for company waits."""
        return self._tx.express_pending

    def wants_pull(self, link_id: int) -> bool:
        """Whether `pull(link_id)` would give a batch."""
        link = self._links.get(link_id)
        if link is None or link.close_sent:
            return False
        return self.phase is Phase.CLOSING or link.keep_alive or self._tx.waits_for(link_id)

    # Closing

    def close(self, close_reason: int, now_ns: int, *, flush: bool = True) -> None:
        """End the transport: pull what was sent before, then CLOSE, from every link.

        `closed` tells when all is said; `handle_timer` ends it when a link does not take it in
        time. Without `flush`, what was sent before is dropped.
        """
        if self.phase is not Phase.OPEN:
            return
        self.phase = Phase.CLOSING
        self._close_message = encode_one(Close(close_reason))
        waits_ns = [link.lease.interval_ns for link in self._links.values()]
        self._wake_ns = now_ns + min([self._limits.close_flush_ns, *waits_ns])
        if not flush:
            self._tx.clear()

    @property
    def closed(self) -> bool:
        """Whether the transport has ended and its links can be closed."""
        return self.phase is Phase.CLOSED

    def _pull_close(self, link: _Link) -> bytes:
        link.close_sent = True
        if self._all_said():
            self._end()
        return link.wrap(self._close_message)

    def _all_said(self) -> bool:
        return all(link.close_sent for link in self._links.values())

    # Time

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called, or None if there is nothing to wait for.

        It may be earlier than anything is due: batches that come and go meanwhile put things off.
        """
        return self._wake_ns

    def handle_timer(self, now_ns: int) -> Events:
        """Do what is due: keep-alives, silent links, unfinished messages, an overdue close."""
        if self._wake_ns is None or now_ns < self._wake_ns:
            return NO_EVENTS
        if self.phase is Phase.CLOSING:
            self._end()
            return (TransportClosed("closed here, not everything was sent", by_peer=False),)
        self._rx.reassembly.handle_timer(now_ns)
        events: list[TransportEvent] = []
        for link_id, link in list(self._links.items()):
            if link.lease.expired(now_ns):
                reason = "nothing arrived for the peer's lease"
                events.append(LinkLost(link_id, reason, by_peer=False))
                events += self.remove_link(link_id, reason)
            elif link.lease.keep_alive_due(now_ns):
                link.keep_alive = True
                events.append(KeepAliveDue(link_id))
        if self._links:
            timers_ns = [link.lease.next_timer_ns for link in self._links.values()]
            idle_ns = self._rx.reassembly.next_timer_ns()
            self._wake_ns = min(timers_ns if idle_ns is None else [*timers_ns, idle_ns])
        return tuple(events)

    def _wake_by(self, timer_ns: int) -> None:
        if self._wake_ns is None or timer_ns < self._wake_ns:
            self._wake_ns = timer_ns

    def _end(self) -> None:
        self.phase = Phase.CLOSED
        self._wake_ns = None
        self._rx.reassembly.forget_all()


_KEEP_ALIVE: Final = encode_one(KeepAlive())


def adapt_stream(stream: StreamDecoder, agreed: Agreed, limits: Limits) -> None:
    """Let a stream cut batches as `agreed` has it, from the first one after the handshake."""
    stream.low_latency = agreed.low_latency
    # Eclipse Zenoh sends low-latency units of any length, although it refuses what is longer than
    # a batch: we send none of those and take what we would take in fragments.
    stream.batch_len_max = (
        limits.message_len if agreed.low_latency else agreed.batch_len - PREFIX_LEN
    )


def _prefix_len(agreed: Agreed, *, stream: bool) -> int:
    if not stream:
        return 0
    return PREFIX_LEN_LOW_LATENCY if agreed.low_latency else PREFIX_LEN
