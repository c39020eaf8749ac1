"""GroupTransport: a transport without handshake, to everybody in a multicast group. wire.md 6.

Each member says JOIN at once, every 2.5 seconds, and soon after a newcomer said it: who it is, what
it speaks, its lease, and the next sequence number of each conduit. A member is known by the source
address of its datagrams; until its first acceptable JOIN nothing else from there counts. What a
member does wrong costs the datagram, never the group: addresses are easily forged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.answers import DROPPED
from elea.errors import InvalidValueError, ProtocolError, RemoteProtocolError
from elea.ids import Rng
from elea.limits import BATCH_LEN_MIN, DEFAULT_LIMITS, Limits
from elea.records import dataclass
from elea.transport.batching import TxQueues
from elea.transport.events import (
    NO_GROUP_EVENTS,
    FrameSink,
    GroupEvent,
    GroupEvents,
    JoinDue,
    MemberJoined,
    MemberLost,
)
from elea.transport.lease import NS_PER_MS, Lease
from elea.transport.negotiation import PATCH, SN_MASKS
from elea.transport.reassembly import Reassembly
from elea.transport.receive import Reception
from elea.transport.sequence import PRIORITY_DEFAULT, Received
from elea.transport.settings import DEFAULT_SETTINGS, TransportSettings
from elea.transport.stats import PRIORITIES_COUNT, TransportStats
from elea.wire import compression
from elea.wire.buffer import Reader
from elea.wire.codec import NetworkMessage, decode_transport, encode_one
from elea.wire.dialect import Dialect
from elea.wire.transport import join as join_message
from elea.wire.transport.close import Close, reason_name
from elea.wire.transport.init import RESOLUTION_DEFAULT, VERSION
from elea.wire.transport.join import BATCH_LEN_DEFAULT, Join, NextSn

_LINK: Final = 0  # the one link of the queues
# A newcomer hears nothing of us before our next JOIN. It comes soon, but not from all members at
# the same moment, and not for every newcomer of a crowd.
_WELCOME_SPREAD_NS: Final = 5_000_000  # per member
_WELCOME_PAUSE_NS: Final = 100_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOffer:
    """What this node says in JOIN. All members of a group must agree on the last four."""

    zid: bytes
    whatami: int
    lease_ms: int = 10_000
    join_interval_ms: int = 2_500
    batch_len: int = BATCH_LEN_DEFAULT
    resolution: int = RESOLUTION_DEFAULT
    qos: bool = False
    compression: bool = False

    def __post_init__(self) -> None:
        if not BATCH_LEN_MIN <= self.batch_len <= BATCH_LEN_DEFAULT:
            raise InvalidValueError(
                "offer",
                f"a group's batch has {BATCH_LEN_MIN} to {BATCH_LEN_DEFAULT} octets, "
                f"got {self.batch_len}",
            )
        if min(self.lease_ms, self.join_interval_ms) < 1:
            raise InvalidValueError("offer", "lease and interval have at least 1 ms")
        if self.compression and not compression.available():
            raise InvalidValueError("offer", "compression needs its library: elea[compression]")


class _Member:
    """Another node of the group."""

    __slots__ = ("lease", "rx", "terms", "whatami", "zid")

    def __init__(self, join: Join, lease: Lease, rx: Reception) -> None:
        self.zid = join.zid
        self.whatami = join.whatami
        self.terms = _terms(join)
        self.lease = lease
        self.rx = rx


class GroupTransport:
    """All neighbours of one multicast group.

    Args:
        offer: What this node is.
        rng: Where the first sequence number comes from.
        sinks: Who takes the messages of the member at a source address. It is asked for a new
            member's sink before MemberJoined is returned, because a datagram may hold both.
        now_ns: The time; a first JOIN is ready to be pulled.
        limits: The node's bounds.
        dialect: How messages are written and read.
        settings: How this side sends.
    """

    __slots__ = (
        "_dialect",
        "_fragments_len",
        "_join_ns",
        "_joined_ns",
        "_limits",
        "_mask",
        "_members",
        "_offer",
        "_pending",
        "_sinks",
        "_tx",
        "_wake_ns",
        "closed",
        "stats",
    )

    def __init__(
        self,
        offer: GroupOffer,
        rng: Rng,
        sinks: Callable[[str], FrameSink],
        now_ns: int,
        *,
        limits: Limits = DEFAULT_LIMITS,
        dialect: Dialect = Dialect.ECLIPSE,
        settings: TransportSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.closed = False
        self.stats = TransportStats()
        self._offer = offer
        self._sinks = sinks
        self._dialect = dialect
        self._limits = limits
        self._fragments_len = 0  # of all members: one sender can pretend to be many (T05)
        self._mask = SN_MASKS[offer.resolution & 3]
        self._members: dict[str, _Member] = {}
        self._tx = TxQueues(
            batch_len=offer.batch_len - (1 if offer.compression else 0),
            prefix_len=0,
            qos=offer.qos,
            mask=self._mask,
            initial_sn=int.from_bytes(rng(4), "little") & self._mask,
            bare=False,
            queue_lens=settings.queue_lens or (limits.tx_queue_len,) * PRIORITIES_COUNT,
            batching=settings.batching,
            stats=self.stats,
            dialect=dialect,
        )
        for priority in self._tx.priorities():
            self._tx.assign(priority, _LINK, offer.batch_len)
        self._join_ns = now_ns  # when to say JOIN
        self._joined_ns = now_ns  # when it was said last
        self._pending: list[bytes] = []  # JOIN or CLOSE, before or after what is queued
        self._announce(now_ns)
        self._wake_ns = self._join_ns

    @property
    def members(self) -> dict[str, bytes]:
        """Who is there: source address to identifier."""
        return {source: member.zid for source, member in self._members.items()}

    @property
    def qos(self) -> bool:
        """Whether priorities have queues of their own."""
        return self._offer.qos

    @property
    def queues(self) -> TxQueues:
        """The queues behind `send`, for a caller that sends often and knows it is not closed."""
        return self._tx

    # Sending

    def send(self, message: NetworkMessage, reliable: bool, now_ns: int) -> int:
        """Put a message for everybody into a batch: SENT, DROPPED or REFUSED."""
        if self.closed:
            self.stats.dropped_closed += 1
            return DROPPED
        return self._tx.send(message, reliable)

    def pull(self, now_ns: int) -> bytes | None:
        """The next datagram for the group, or None."""
        batch = None if self._pending and not self.closed else self._tx.pull(_LINK)
        if batch is None:
            if not self._pending:
                return None
            batch = self._pending.pop(0)
        return compression.pack(batch) if self._offer.compression else batch

    @property
    def queue_len(self) -> int:
        """How many octets may wait per priority."""
        return self._tx.queue_len

    @property
    def pending_len(self) -> int:
        """Octets that wait to be pulled."""
        return self._tx.pending_len() + sum(map(len, self._pending))

    @property
    def express_pending(self) -> bool:
        """Whether something that must not wait for company waits."""
        return self._tx.express_pending

    def close(self, close_reason: int) -> None:
        """Leave: pull what was sent before, then CLOSE."""
        if not self.closed:
            self.closed = True
            self._pending = [encode_one(Close(close_reason))]

    # Receiving

    def receive_batch(self, source: str, batch: bytes, now_ns: int) -> GroupEvents:
        """Take a datagram that came from `source`. Nothing in it raises."""
        self.stats.received_batches += 1
        self.stats.received_octets += len(batch)
        events: list[GroupEvent] = []
        try:
            if self._offer.compression and batch:
                batch = compression.unpack(batch, limits=self._limits)
            self._receive(source, batch, now_ns, events)
        except ProtocolError:
            self.stats.undecodable_batches += 1
        return tuple(events) if events else NO_GROUP_EVENTS

    def _receive(self, source: str, batch: bytes, now_ns: int, events: list[GroupEvent]) -> None:
        while batch and batch[0] & 0x1F == join_message.ID:
            reader = Reader(batch, limits=self._limits, dialect=self._dialect)
            message = decode_transport(reader)
            assert isinstance(message, Join)
            self._receive_join(source, message, now_ns, events)
            batch = reader.rest("batch")
        member = self._members.get(source)
        if member is None:
            return
        member.lease.heard(now_ns)
        before_len = member.rx.reassembly.pending_len
        try:
            closed = member.rx.batch(batch, self._sinks(source), now_ns)
        finally:
            self._account(member, before_len)
        if closed is not None:
            events.append(self._lose(source, f"it left: {reason_name(closed.reason)}", True))

    def _receive_join(self, source: str, join: Join, now_ns: int, events: list[GroupEvent]) -> None:
        known = self._members.get(source)
        if known is not None:
            if (known.zid, known.whatami, known.terms) != (join.zid, join.whatami, _terms(join)):
                raise RemoteProtocolError("a member became another one")
            return
        if (
            join.zid == self._offer.zid
            or _terms(join) != self._terms()
            or len(self._members) >= self._limits.group_members_count
        ):
            return
        lease = Lease(
            own_ms=self._offer.lease_ms, peer_ms=join.lease_ms, now_ns=now_ns, limits=self._limits
        )
        self._members[source] = _Member(join, lease, self._reception(join))
        self._join_ns = min(self._join_ns, self._welcome_ns(now_ns))
        self._wake_ns = min(self._wake_ns, self._join_ns, lease.expires_ns)
        events.append(MemberJoined(source, join.zid, join.whatami))

    def _welcome_ns(self, now_ns: int) -> int:
        """When a newcomer hears of us; members differ in it by their ids."""
        place = self._offer.zid[0] * len(self._members) * _WELCOME_SPREAD_NS // 256
        return max(now_ns + place, self._joined_ns + _WELCOME_PAUSE_NS)

    def _reception(self, join: Join) -> Reception:
        numbers = Received(self._mask, 0)
        announced = {PRIORITY_DEFAULT: join.next_sn}
        if join.qos is not None:
            announced = dict(enumerate(join.qos))
        for priority, next_sn in announced.items():
            numbers.start(priority, True, next_sn.reliable)
            numbers.start(priority, False, next_sn.best_effort)
        return Reception(
            numbers=numbers,
            reassembly=Reassembly(
                mask=self._mask,
                patch=min(PATCH, join.patch),
                limits=self._limits,
                stats=self.stats,
            ),
            qos=self._offer.qos,
            bare=False,
            limits=self._limits,
            stats=self.stats,
            dialect=self._dialect,
        )

    def _account(self, member: _Member, before_len: int) -> None:
        """Count the unfinished messages of all; while they are too many, the slowest gives up."""
        self._fragments_len += member.rx.reassembly.pending_len - before_len
        while self._fragments_len > self._limits.fragments_len:
            busy = [one.rx.reassembly for one in self._members.values()]
            slowest = min(
                (one for one in busy if one.pending_len), key=lambda one: one.next_timer_ns() or 0
            )
            self._fragments_len -= slowest.pending_len
            slowest.clear()
        idle_ns = member.rx.reassembly.next_timer_ns()
        if idle_ns is not None:
            self._wake_ns = min(self._wake_ns, idle_ns)

    def _lose(self, source: str, reason: str, by_peer: bool) -> MemberLost:
        member = self._members.pop(source)
        self._fragments_len -= member.rx.reassembly.pending_len
        return MemberLost(source, member.zid, reason, by_peer)

    # Time

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called; None once the group was left.

        It may be earlier than anything is due: what arrives in the meantime puts things off.
        """
        return None if self.closed else self._wake_ns

    def handle_timer(self, now_ns: int) -> GroupEvents:
        """Do what is due: JOIN, silent members, messages nobody finished."""
        if self.closed or now_ns < self._wake_ns:
            return NO_GROUP_EVENTS
        events: list[GroupEvent] = []
        if now_ns >= self._join_ns:
            self._announce(now_ns)
            events.append(JoinDue())
        self._wake_ns = self._join_ns
        for source, member in list(self._members.items()):
            before_len = member.rx.reassembly.pending_len
            member.rx.reassembly.handle_timer(now_ns)
            self._account(member, before_len)
            if member.lease.expired(now_ns):
                events.append(self._lose(source, "nothing arrived for its lease", False))
            else:
                self._wake_ns = min(self._wake_ns, member.lease.expires_ns)
        return tuple(events)

    # JOIN

    def _announce(self, now_ns: int) -> None:
        """Have a JOIN go before everything that is queued."""
        offer = self._offer
        self._joined_ns = now_ns
        self._join_ns = now_ns + offer.join_interval_ms * NS_PER_MS
        whole_seconds = offer.lease_ms % 1_000 == 0
        pairs = [self._next_sn(priority) for priority in self._tx.priorities()]
        join = Join(
            offer.zid,
            offer.whatami,
            offer.lease_ms // 1_000 if whole_seconds else offer.lease_ms,
            NextSn(0, 0) if offer.qos else pairs[0],
            lease_in_seconds=whole_seconds,
            resolution=offer.resolution,
            batch_len=offer.batch_len,
            qos=tuple(pairs) if offer.qos else None,
            patch=PATCH,
        )
        self._pending = [encode_one(join)]

    def _next_sn(self, priority: int) -> NextSn:
        return NextSn(self._tx.next_sn(priority, True), self._tx.next_sn(priority, False))

    def _terms(self) -> tuple[int, int, int, bool]:
        return (VERSION, self._offer.resolution, self._offer.batch_len, self._offer.qos)


def _terms(join: Join) -> tuple[int, int, int, bool]:
    """What all members of a group must have in common."""
    return (join.version, join.resolution, join.batch_len, join.qos is not None)
