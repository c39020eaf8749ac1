"""The sending end of a reliable channel (11.1).

Messages stay, as octets, until they are acknowledged. A Synch at growing intervals makes the loss
of the last ones visible; a request sends them again, their octets unchanged but for S. Two counts
bound what is kept: messages under way, and with them those that the peer has, but cannot deliver
before others. When either is full, `has_room` says so and the writer waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from elea.xrce.channel.rtt import RoundTrip
from elea.xrce.channel.serial import Serial
from elea.xrce.encode import encode
from elea.xrce.message_records import AckNack, Synch

SYNCH_MAX_NS: Final = 1_000_000_000
_NOTHING: Final[list[bytes]] = []  # shared by all that say nothing, and never changed
_FLAG_S: Final = 0x20  # the same bit of every message that has a sequence number


class Window(NamedTuple):
    """What may be kept: messages, their octets, and messages that may be under way at once."""

    kept_count: int
    kept_len: int
    flight_count: int


@dataclass(slots=True)
class _Kept:
    """A message that is not acknowledged yet."""

    markers: bytes
    message: bytearray
    sent_ns: int
    skipped: bool = False  # the last request for it was not honoured
    landed: bool = False  # it is not under way: the peer has it, and misses one before it


class ReliableSender:
    """One direction of one conduit."""

    __slots__ = (
        "_begun",
        "_flight_count",
        "_full_told",
        "_kept",
        "_kept_len",
        "_landed_count",
        "_lead",
        "_out",
        "_probe",
        "_round_trip",
        "_serial",
        "_synch_max_ns",
        "_synch_ns",
        "_synch_wait_ns",
        "_unheard",
        "_window_count",
        "_window_len",
        "ignored_count",
        "next_sn",
        "progress_ns",
        "resent_count",
    )

    def __init__(
        self,
        serial: Serial,
        round_trip: RoundTrip,
        window: Window,
        *,
        lead: bytes = b"",
        synch_max_ns: int = SYNCH_MAX_NS,
    ) -> None:
        self.next_sn = 0
        self.ignored_count = 0  # AckNacks about what was never sent, or long ago
        self.resent_count = 0
        self.progress_ns: int | None = None  # since when nothing was acknowledged; None if idle
        self._serial = serial
        self._round_trip = round_trip
        self._window_count = min(window.kept_count, serial.window_max)
        self._window_len = window.kept_len
        self._flight_count = min(window.flight_count, self._window_count)
        self._lead = lead  # the marker of the conduit, in front of everything
        self._kept: list[_Kept] = []  # a deque takes 760 octets, for each device
        self._kept_len = 0
        self._landed_count = 0  # of those kept
        self._probe: tuple[int, int] | None = None  # a number sent with S, and when
        self._out = _NOTHING
        self._begun = False  # the peer was told where the numbers start
        self._full_told = False
        self._synch_max_ns = synch_max_ns
        self._unheard = False  # nothing was heard since the last Synch
        self._synch_ns = 0  # when a Synch is due, if anything is kept
        self._synch_wait_ns = 0

    @property
    def unacknowledged_count(self) -> int:
        """Messages kept."""
        return len(self._kept)

    @property
    def flight_count(self) -> int:
        """Messages that are under way."""
        return len(self._kept) - self._landed_count

    @property
    def oldest_sn(self) -> int:
        """The first number that is not acknowledged."""
        return self._serial.after(self.next_sn, -len(self._kept))

    def has_room(self, length: int) -> bool:
        """Whether a message of so many octets may be sent now. One always may if none is kept."""
        if not self._kept:
            return True
        return (
            len(self._kept) < self._window_count
            and self.flight_count < self._flight_count
            and self._kept_len + length <= self._window_len
        )

    def wait_for_room(self) -> None:
        """A writer is held up: ask the peer, once, for what would make room."""
        if not self._full_told:
            self._full_told = True
            self._say(self._synch(answer=True))

    def send(
        self, message: bytes, now_ns: int, *, markers: bytes = b"", flush: bool = False
    ) -> None:
        """Number `next_sn` goes out; the message is to have it already."""
        assert self.has_room(len(markers) + len(message))
        if not self._begun:  # a receiver may insist on it (8.4)
            self._begun = True
            self._say(self._synch(answer=False))
        if not self._kept:
            self.progress_ns = now_ns
            self._arm(now_ns)
        kept = _Kept(markers, bytearray(message), now_ns)
        self._kept.append(kept)
        self._kept_len += len(markers) + len(message)
        self.next_sn = self._serial.after(self.next_sn)
        # At three quarters an answer comes in time for the window to move on.
        crossing = self.flight_count == self._flight_count - self._flight_count // 4
        if flush or crossing:
            self._probe = self.next_sn, now_ns
        self._transmit(kept, now_ns, answer=flush or crossing)

    def acknack(self, message: AckNack, now_ns: int) -> bool:
        """The peer says what it has and what it misses; whether there is more room now."""
        done = self._serial.distance(self._serial.check(message.sn), self.oldest_sn)
        if not 0 <= done <= len(self._kept):
            self.ignored_count += 1
            return False
        for kept in self._kept[:done]:
            self._kept_len -= len(kept.markers) + len(kept.message)
            self._landed_count -= kept.landed
        del self._kept[:done]
        self._measure(message.sn, now_ns)
        self._unheard = False
        if done:
            self._full_told = False
            self.progress_ns = now_ns if self._kept else None
            self._arm(now_ns)
        else:  # it answers, so that what is lost are messages: there is no reason to wait longer
            self._synch_wait_ns = max(self._synch_wait_ns // 4, self._round_trip.rto_ns)
            self._synch_ns = min(self._synch_ns, now_ns + self._synch_wait_ns)
        if message.mask is not None:
            self._resend(message.mask * 2 + 1, now_ns)
        return done > 0

    def handle_timer(self, now_ns: int) -> None:
        """Send the Synch that is due. If none was answered, the oldest message goes with it.

        On a bad link that makes one round trip of two: a peer that has the message tells so, and
        does not ask for it first.
        """
        if self._kept and now_ns >= self._synch_ns:
            self._probe = None  # its answer was lost
            self._say(self._synch(answer=True))
            if self._unheard:
                self.resent_count += 1
                self._transmit(self._kept[0], now_ns, answer=True)
            self._unheard = True
            longest_ns = max(self._synch_max_ns, self._round_trip.rto_ns)
            self._synch_wait_ns = min(2 * self._synch_wait_ns, longest_ns, SYNCH_MAX_NS)
            self._synch_ns = now_ns + self._synch_wait_ns

    def wake(self, now_ns: int) -> None:
        """The peer was away: its silence does not count, and a Synch is due."""
        if self._kept:
            self.progress_ns = now_ns
            self._arm(now_ns)
            self._synch_ns = now_ns

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        return self._synch_ns if self._kept else None

    def data_to_send(self) -> list[bytes]:
        """Messages with their markers, in order."""
        out, self._out = self._out, _NOTHING
        return out

    def _arm(self, now_ns: int) -> None:
        self._synch_wait_ns = min(self._round_trip.rto_ns, SYNCH_MAX_NS)
        self._synch_ns = now_ns + self._synch_wait_ns

    def _resend(self, wanted: int, now_ns: int) -> None:
        """Send again what bit 0, the oldest, and the bits above it ask for."""
        fresh_ns = now_ns - self._round_trip.rtt_ns
        chosen: list[_Kept] = []
        known_count = wanted.bit_length()
        for place, kept in enumerate(self._kept):
            asked = bool(wanted >> place & 1)
            # What lies between requests is there; what lies behind them is there, or was lost
            # without a trace, if it was sent long enough ago. Only an acknowledgement binds.
            landed = not asked and (place < known_count or kept.sent_ns <= fresh_ns)
            self._landed_count += landed - kept.landed
            kept.landed = landed
            if not asked:
                continue
            # It may be under way still. To ignore a request once is allowed, twice is not.
            if kept.sent_ns > fresh_ns and not (place == 0 and kept.skipped):
                kept.skipped = True
                continue
            chosen.append(kept)
        for kept in chosen:
            kept.skipped = False
            self.resent_count += 1
            self._probe = None  # which of the two would be answered?
            self._transmit(kept, now_ns, answer=kept is chosen[-1])

    def _measure(self, acknowledged_sn: int, now_ns: int) -> None:
        """An answer to an S is a round trip, if it was not waited for too long (11.3)."""
        if self._probe is None:
            return
        wanted_sn, sent_ns = self._probe
        if self._serial.distance(acknowledged_sn, wanted_sn) >= 0:
            self._probe = None
            self._round_trip.sample(now_ns - sent_ns)

    def _transmit(self, kept: _Kept, now_ns: int, *, answer: bool) -> None:
        kept.sent_ns = now_ns
        first = kept.message[0] | _FLAG_S if answer else kept.message[0]
        self._say(self._lead + kept.markers + bytes((first,)) + kept.message[1:])

    def _say(self, octets: bytes) -> None:
        self._out = self._out or []
        self._out.append(octets)

    def _synch(self, *, answer: bool) -> bytes:
        count = len(self._kept)
        told = count if 0 < count < self._serial.half - 1 else None
        synch = Synch(reliable=True, sync=answer, sn=self.next_sn, count=told)
        return self._lead + encode(synch)
