"""All conduits of one session: messages get their numbers here, and are put in order here.

A conduit is a best-effort and a reliable channel each way. Conduit 0 is there from the beginning;
another one begins, per direction, with the first message that is marked with it (10.1). Ids belong
to who sends the data, so an AckNack carries the id of the conduit it is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias, TypeVar

from elea.limits import DEFAULT_LIMITS, Limits
from elea.xrce.channel.besteffort import BestEffortReceiver
from elea.xrce.channel.receiver import MASK_BITS, ReliableReceiver
from elea.xrce.channel.rtt import RTO_MIN_NS, RoundTrip
from elea.xrce.channel.sender import SYNCH_MAX_NS, ReliableSender, Window
from elea.xrce.channel.serial import BITS_DEFAULT, Serial
from elea.xrce.channel.zero import digest
from elea.xrce.closing import CloseReason, violation
from elea.xrce.encode import encode
from elea.xrce.framing import Marked, conduit_marker
from elea.xrce.message_records import (
    AckNack,
    BatchedData,
    Declare,
    Frag,
    Pull,
    StreamData,
    Synch,
    WriteData,
)

Numbered: TypeAlias = Declare | StreamData | BatchedData | WriteData | Pull
NUMBERED: Final = (Declare, StreamData, BatchedData, WriteData, Pull)
SYNCHS_COUNT: Final = 30  # at least, before a peer is believed to acknowledge nothing
_DISTINCT: Final = 8  # this part of all numbers may be under way at once
_STALL_NS: Final = 30_000_000_000  # without progress, towards a peer whose lease is infinite


@dataclass(slots=True)
class _Outgoing:
    conduit: int
    reliable: ReliableSender
    best_effort_sn: int = 0


@dataclass(slots=True)
class IncomingConduit:
    """One direction of a conduit."""

    conduit: int
    reliable: ReliableReceiver[Marked]
    best_effort: BestEffortReceiver | None = None  # from the first message on
    # The digests of the messages 0 and 1 that came last; -1 if none did.
    zero: int = -1
    one: int = -1

    def note(self, sn: int, message: bytes) -> None:
        """A new message came that has one of these numbers."""
        if sn == 0:
            self.zero = digest(message)
        else:
            self.one = digest(message)

    def is_copy(self, sn: int, message: bytes) -> bool:
        """Whether a message is equal to the one that came last with its number, 0 or 1."""
        return sn <= 1 and digest(message) == (self.one if sn else self.zero)


_Conduit = TypeVar("_Conduit", _Outgoing, IncomingConduit)


@dataclass(slots=True)
class Conduits:
    """Both directions of every conduit of a session.

    `lease_ns` is the peer's, 0 if it is infinite. `mask_bits` is how many messages one AckNack may
    ask for: with wide masks everything that is missing is asked for at once. `window` is what may
    be under way to the peer; what our own limits allow, if it is not given.
    """

    bits: int = BITS_DEFAULT
    lease_ns: int = 0
    limits: Limits = DEFAULT_LIMITS
    mask_bits: int = MASK_BITS
    window: Window | None = None
    round_trip: RoundTrip = field(default_factory=RoundTrip)
    stray_acks_count: int = 0  # about conduits that were never used
    _serial: Serial = field(init=False)
    # Mostly there is one, and a dictionary takes 232 octets.
    _outgoing: list[_Outgoing] = field(init=False, default_factory=list)
    _incoming: list[IncomingConduit] = field(init=False, default_factory=list)
    _best_effort_out: list[bytes] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._serial = Serial.of(self.bits)

    # Sending.

    def send(
        self,
        make: Callable[[int], Numbered],
        now_ns: int,
        *,
        conduit: int = 0,
        fragment: Callable[[int], Frag] | None = None,
        flush: bool = False,
    ) -> bool:
        """Send what `make` makes of its sequence number, on the reliable channel if it says so.

        Returns:
            False if the window is full: nothing was sent, and the caller has to try again once
            `receive` has said that there is room.
        """
        channel = _of(self._outgoing, conduit) or self._begin(conduit)
        message = make(channel.reliable.next_sn)
        if not is_reliable(message):
            sn = channel.best_effort_sn
            channel.best_effort_sn = self._serial.after(sn)
            markers = encode(fragment(sn)) if fragment is not None else b""
            self._best_effort_out = self._best_effort_out or []
            self._best_effort_out.append(_lead(conduit) + markers + encode(make(sn)))
            return True
        markers = encode(fragment(channel.reliable.next_sn)) if fragment is not None else b""
        octets = encode(message)
        if not channel.reliable.has_room(len(markers) + len(octets)):
            channel.reliable.wait_for_room()
            return False
        channel.reliable.send(octets, now_ns, markers=markers, flush=flush)
        return True

    def data_to_send(self) -> list[bytes]:
        """Messages with their markers. Any number of them, in this order, may share a frame."""
        out = self.best_effort_to_send()
        for sending in self._outgoing:
            out += sending.reliable.data_to_send()
        for receiving in self._incoming:
            out += [
                _lead(receiving.conduit) + encode(ack) for ack in receiving.reliable.acks_to_send()
            ]
        return out

    def best_effort_to_send(self) -> list[bytes]:
        """Those of them that nobody acknowledges, if they go another way."""
        out, self._best_effort_out = self._best_effort_out, None
        return out or []

    def _begin(self, conduit: int) -> _Outgoing:
        window = self.window or window_of(self.limits)
        # A copy that is overtaken must not be taken for a message of the next round of numbers.
        distinct_count = self._serial.modulus // _DISTINCT
        window = window._replace(flight_count=min(window.flight_count, distinct_count))
        # A session ends if nothing is acknowledged for a lease: that is not to be bad luck.
        allowed_ns = max((self.lease_ns or _STALL_NS) // SYNCHS_COUNT, RTO_MIN_NS)
        sender = ReliableSender(
            self._serial,
            self.round_trip,
            window,
            lead=_lead(conduit),
            synch_max_ns=min(allowed_ns, SYNCH_MAX_NS),
        )
        begun = _Outgoing(conduit, sender)
        self._outgoing.append(begun)
        return begun

    # Receiving.

    def receive(self, marked: Marked, length: int, now_ns: int) -> list[Marked]:
        """A message of `length` octets came; what is to be processed now, in order.

        Raises:
            DecodeError: Its number does not fit the session's length.
            RemoteProtocolError: Its conduit is none that we accept; `close_reason` says 5.
        """
        message = marked.message
        if isinstance(message, AckNack):
            self._acknack(marked.conduit, message, now_ns)
            return []
        if not isinstance(message, Synch | Declare | StreamData | BatchedData | WriteData | Pull):
            return [marked]  # it belongs to no channel, whatever its marker says
        channel = _of(self._incoming, marked.conduit) or self._accept(marked.conduit)
        if isinstance(message, Synch):
            if message.reliable:
                return channel.reliable.synch(message, now_ns)
            self._best_effort(channel).synch(message.sn)
            return []
        if is_reliable(message):
            if message.sn <= 1 and channel.reliable.is_new(message.sn):
                channel.note(message.sn, encode(message))
            return channel.reliable.receive(message.sn, marked, length, now_ns, answer=message.sync)
        taken = self._best_effort(channel).receive(message.sn, now_ns)
        return [marked] if taken else []

    def _best_effort(self, channel: IncomingConduit) -> BestEffortReceiver:
        if channel.best_effort is None:
            channel.best_effort = BestEffortReceiver(self._serial, self.lease_ns)
        return channel.best_effort

    def incoming(self, conduit: int) -> IncomingConduit | None:
        """What comes by a conduit, if anything came by it."""
        return _of(self._incoming, conduit)

    def _acknack(self, conduit: int, message: AckNack, now_ns: int) -> None:
        channel = _of(self._outgoing, conduit)
        if channel is None:
            self.stray_acks_count += 1
        else:
            channel.reliable.acknack(message, now_ns)

    def _accept(self, conduit: int) -> IncomingConduit:
        if conduit >= self.limits.xrce_conduits_count:
            legal = f"0 to {self.limits.xrce_conduits_count - 1} are accepted"
            raise violation(CloseReason.PARAMETER, f"conduit {conduit}; {legal}")
        # Not `ReliableReceiver[Marked](...)`, which would keep that with each of them.
        reliable: ReliableReceiver[Marked] = ReliableReceiver(
            self._serial,
            self.round_trip,
            store_count=self.limits.xrce_store_count,
            store_len=self.limits.xrce_store_len,
            mask_bits=self.mask_bits,
        )
        begun = IncomingConduit(conduit, reliable)
        self._incoming.append(begun)
        return begun

    # Time.

    def handle_timer(self, now_ns: int, *, asleep: bool = False) -> None:
        """Do what is due; a peer that is asleep is only answered."""
        for part in self._timed(asleep=asleep):
            part.handle_timer(now_ns)

    def next_timer_ns(self, *, asleep: bool = False) -> int | None:
        """When `handle_timer` wants to be called."""
        parts = self._timed(asleep=asleep)
        due = [at for part in parts if (at := part.next_timer_ns()) is not None]
        return min(due, default=None)

    def wake(self, now_ns: int) -> None:
        """The peer hears us again: what it has not acknowledged is asked about now."""
        for sending in self._outgoing:
            sending.reliable.wake(now_ns)

    def _timed(self, *, asleep: bool) -> Iterator[ReliableSender | ReliableReceiver[Marked]]:
        if not asleep:
            for sending in self._outgoing:
                yield sending.reliable
        for receiving in self._incoming:
            yield receiving.reliable

    # What a session wants to know.

    def is_stalled(self, now_ns: int) -> bool:
        """Whether a peer has acknowledged nothing for so long that the session should end."""
        allowed_ns = self.lease_ns or _STALL_NS
        since = (one.reliable.progress_ns for one in self._outgoing)
        return any(at is not None and now_ns - at > allowed_ns for at in since)

    @property
    def unacknowledged_count(self) -> int:
        """Messages that wait for the peer."""
        return sum(one.reliable.unacknowledged_count for one in self._outgoing)

    @property
    def resent_count(self) -> int:
        """Messages that had to be sent again."""
        return sum(one.reliable.resent_count for one in self._outgoing)

    @property
    def dropped_count(self) -> int:
        """Best-effort messages that came late, or again."""
        channels = (one.best_effort for one in self._incoming)
        return sum(one.dropped_count for one in channels if one is not None)

    @property
    def gap_count(self) -> int:
        """Messages that will never be delivered, because the peer no longer had them."""
        return sum(one.reliable.gap_count for one in self._incoming)


def _of(conduits: list[_Conduit], number: int) -> _Conduit | None:
    for one in conduits:
        if one.conduit == number:
            return one
    return None


def is_reliable(message: Numbered) -> bool:
    """The channel of a message: Declare and Pull have no choice (6.2)."""
    return isinstance(message, Declare | Pull) or message.reliable


def window_of(limits: Limits, store: tuple[int, int | None] | None = None) -> Window:
    """What may be under way to a peer that stores so many messages and octets that come too early.

    Half of the messages, so that as many can wait behind one that was lost.
    """
    ours = Window(limits.xrce_window_count, limits.xrce_window_len, limits.xrce_flight_count)
    if store is None:
        return ours
    count, length = max(store[0], 1), ours.kept_len if store[1] is None else max(store[1], 1)
    return Window(
        min(ours.kept_count, count),
        min(ours.kept_len, length),
        min(ours.flight_count, (count + 1) // 2),
    )


def _lead(conduit: int) -> bytes:
    return encode(conduit_marker(conduit)) if conduit else b""
