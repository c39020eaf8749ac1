"""The receiving end of a reliable channel (11.2).

Messages are delivered in order, once. What comes too early is stored, if there is room, and what is
missing is asked for; a Synch tells of messages that were lost without a trace. Only when the peer
says that it no longer has a message is it given up, and counted as a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from elea.xrce.channel.rtt import RoundTrip
from elea.xrce.channel.serial import Serial
from elea.xrce.message_records import AckNack, Synch

ACK_COUNT: Final = 64  # messages that may wait for one acknowledgement
ACK_NS: Final = 100_000_000
MASK_BITS: Final = 31  # of those sent to peers we know nothing about; any are understood
RESTART_NS: Final = 2_000_000_000
AGAIN_COUNT: Final = 5  # requests in a row without news; then the peer's Synch is waited for
SPREAD: Final = 8  # requests of one round trip, if there is always something new to ask for

_Item = TypeVar("_Item")
_NOTHING: Final[dict[int, Any]] = {}  # shared by all that store nothing, and never changed


@dataclass(slots=True)
class _Stored(Generic[_Item]):
    item: _Item
    length: int


class ReliableReceiver(Generic[_Item]):
    """One direction of one conduit."""

    __slots__ = (
        "_acknowledge_ns",
        "_again_count",
        "_ask_ns",
        "_due",
        "_mask_bits",
        "_placed",
        "_round_trip",
        "_stale_since_ns",
        "_store_count",
        "_store_len",
        "_stored",
        "_stored_len",
        "_top_sn",
        "_unacknowledged_count",
        "asked_ns",
        "duplicates_count",
        "expected_sn",
        "gap_count",
        "ignored_count",
        "progress_ns",
        "serial",
        "unstored_count",
    )

    def __init__(
        self,
        serial: Serial,
        round_trip: RoundTrip,
        *,
        store_count: int,
        store_len: int,
        mask_bits: int = MASK_BITS,
    ) -> None:
        self.expected_sn = 0
        self.duplicates_count = 0
        self.unstored_count = 0  # too early, and no room: they will be asked for again
        self.gap_count = 0  # messages the peer no longer had
        self.ignored_count = 0  # numbers that make no sense
        self.asked_ns: int | None = None  # when something was asked for last
        self.progress_ns = 0  # when something was delivered last
        self.serial = serial
        self._round_trip = round_trip
        self._store_count = store_count
        self._store_len = store_len
        self._mask_bits = mask_bits
        self._top_sn = 0  # the highest number known to exist, plus one
        self._placed = False  # a Synch or a delivery has fixed where the numbers are
        self._stored: dict[int, _Stored[_Item]] = _NOTHING
        self._stored_len = 0
        self._ask_ns: int | None = None  # when to ask next
        self._again_count = 0
        self._unacknowledged_count = 0
        self._acknowledge_ns: int | None = None
        self._stale_since_ns: int | None = None
        self._due = False  # the peer is to be told where we are

    def receive(
        self, sn: int, item: _Item, length: int, now_ns: int, *, answer: bool
    ) -> list[_Item]:
        """A message came; what can be delivered now, in order."""
        ahead = self.serial.distance(self.serial.check(sn), self.expected_sn)
        delivered: list[_Item] = []
        beyond = self.serial.distance(sn, self._top_sn)  # above 0: something before it is missing
        if ahead < 0:
            self.duplicates_count += 1
        elif ahead >= self.serial.window_max:  # no sender is so far ahead: a very late one
            self.ignored_count += 1
        else:
            self._stale_since_ns = None
            self._raise_top(self.serial.after(sn))
            if ahead == 0:
                self._placed = True
                self.progress_ns = now_ns
                delivered.append(item)
                self.expected_sn = self.serial.after(sn)
                delivered += self._followers()
            else:
                self._store(sn, item, length)
        self._unacknowledged_count += 1
        # A gap that was filled has held the window of the peer: it is told soon, too.
        self._answer(now_ns, at_once=answer, news=beyond > 0 or len(delivered) > 1)
        return delivered

    def is_new(self, sn: int) -> bool:
        """Whether a number is one of those that are, or will be, expected."""
        ahead = self.serial.distance(sn, self.expected_sn)
        return 0 <= ahead < self.serial.window_max and sn not in self._stored

    def is_restart(self, sn: int, now_ns: int) -> bool:
        """Whether a Synch with this number would be believed although it is from before."""
        since_ns = self._stale_since_ns
        stale = self._placed and self.serial.distance(sn, self.expected_sn) < 0
        return stale and since_ns is not None and now_ns - since_ns >= RESTART_NS

    def synch(self, message: Synch, now_ns: int) -> list[_Item]:
        """The peer says which number comes next, and how far back it can go."""
        sn, count = self.serial.check(message.sn), message.count or 0
        if count >= self.serial.half - 1:
            self.ignored_count += 1
            return []
        first = self.serial.after(sn, -count)
        delivered: list[_Item] = []
        if not self._placed or self.serial.distance(first, self.expected_sn) > 0:
            delivered = self._skip_to(first, sn)
        elif self.serial.distance(sn, self.expected_sn) < 0:
            self._stale(first, sn, now_ns)
        else:
            self._stale_since_ns = None
            self._raise_top(sn)
        self._answer(now_ns, at_once=message.sync, news=False)
        return delivered

    def handle_timer(self, now_ns: int) -> None:
        """Send the acknowledgement that has waited for more, or ask again."""
        due_ns = self.next_timer_ns()
        if due_ns is not None and now_ns >= due_ns:
            self._again_count += 1
            self._acknowledge(now_ns)

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called."""
        if self._ask_ns is None or self._acknowledge_ns is None:
            return self._ask_ns if self._acknowledge_ns is None else self._acknowledge_ns
        return min(self._ask_ns, self._acknowledge_ns)

    def acks_to_send(self) -> list[AckNack]:
        """What to tell the peer: where we are now, if anything asked for it."""
        if not self._due:
            return []
        self._due = False
        known = self.serial.distance(self._top_sn, self.expected_sn)
        if known <= 0:
            return [AckNack(sn=self.expected_sn)]
        mask = 0
        for bit in range(min(known - 1, self._mask_bits)):
            if self.serial.after(self.expected_sn, bit + 1) not in self._stored:
                mask |= 1 << bit
        return [AckNack(sn=self.expected_sn, mask=mask)]

    def stored_from(self, sn: int) -> list[tuple[_Item, int]]:
        """What is stored from a number on without a gap, and how long each is."""
        found = []
        while (stored := self._stored.get(sn)) is not None:
            found.append((stored.item, stored.length))
            sn = self.serial.after(sn)
        return found

    # Where the numbers are.

    def _raise_top(self, sn: int) -> None:
        if self.serial.distance(sn, self._top_sn) > 0:
            self._top_sn = sn

    def _skip_to(self, first: int, sn: int) -> list[_Item]:
        """What is before `first` will not come any more."""
        if self._placed:
            skipped = self.serial.distance(first, self.expected_sn)
            self.gap_count += skipped
            for place in range(skipped):
                self._unstore(self.serial.after(self.expected_sn, place))
        else:  # nothing was delivered yet: the channel begins here, wherever we believed it to
            self._top_sn = sn
            for old in list(self._stored):
                if not self.serial.distance(old, first) >= 0:
                    self._unstore(old)
        self._placed = True
        self._stale_since_ns = None
        self.expected_sn = first
        self._raise_top(sn)
        for stored in self._stored:
            self._raise_top(self.serial.after(stored))
        return self._followers()

    def _stale(self, first: int, sn: int, now_ns: int) -> None:
        """A Synch from before what was delivered: it was late, or the peer has started over.

        To believe it at once would deliver messages twice whenever a network changes the order of
        datagrams. A peer that started over goes on saying so, and nothing newer comes from it.
        """
        if self._stale_since_ns is None:
            self._stale_since_ns = now_ns
        elif now_ns - self._stale_since_ns >= RESTART_NS:
            self._stale_since_ns = None
            self.expected_sn, self._top_sn = first, sn
            self._stored = _NOTHING
            self._stored_len = 0

    # The store.

    def _store(self, sn: int, item: _Item, length: int) -> None:
        if sn in self._stored:
            self.duplicates_count += 1
        elif len(self._stored) >= self._store_count or self._stored_len + length > self._store_len:
            self.unstored_count += 1
        else:
            self._stored = self._stored or {}
            self._stored[sn] = _Stored(item, length)
            self._stored_len += length

    def _unstore(self, sn: int) -> _Stored[_Item] | None:
        stored = self._stored.pop(sn, None)
        if stored is not None:
            self._stored_len -= stored.length
        return stored

    def _followers(self) -> list[_Item]:
        found = []
        while (stored := self._unstore(self.expected_sn)) is not None:
            found.append(stored.item)
            self.expected_sn = self.serial.after(self.expected_sn)
        return found

    # What the peer is told.

    def _answer(self, now_ns: int, *, at_once: bool, news: bool) -> None:
        self._again_count = 0
        wanted = news or self.serial.distance(self._top_sn, self.expected_sn) > 0
        if at_once or self._unacknowledged_count >= ACK_COUNT or (wanted and self._due):
            self._acknowledge(now_ns)
        elif wanted:
            wait_ns = self._round_trip.rtt_ns // SPREAD if news else self._again_ns
            due_ns = now_ns if self.asked_ns is None else max(now_ns, self.asked_ns + wait_ns)
            self._ask_ns = due_ns if self._ask_ns is None else min(due_ns, self._ask_ns)
            if self._ask_ns <= now_ns:
                self._acknowledge(now_ns)
        elif self._acknowledge_ns is None and self._unacknowledged_count:
            self._acknowledge_ns = now_ns + ACK_NS

    def _acknowledge(self, now_ns: int) -> None:
        self._due = True
        self._unacknowledged_count = 0
        self._acknowledge_ns = self._ask_ns = None
        if self.serial.distance(self._top_sn, self.expected_sn) > 0:
            self.asked_ns = now_ns
            if self._again_count < AGAIN_COUNT:
                self._ask_ns = now_ns + self._again_ns

    @property
    def _again_ns(self) -> int:
        """What was asked for a round trip ago may come just now; a little later it is late."""
        return self._round_trip.rtt_ns * 9 // 8
