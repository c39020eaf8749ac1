"""Line: the samples of one route that wait to be written to DDS, bounded (D-452, D-457).

Threads of the session add by `Intake`, the DDS thread takes. Compiled: what `Intake` costs is a
third of the CPU of the direction (D-902).
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from elea.encoding import Encoding
from elea.lazy_sample import Sample
from elea.limits import Limits
from elea.provenance import SampleKind

HELD_S: Final = 2.0  # delivery of a sample that may not be dropped is held back so long

_CDR_IDS: Final = (Encoding.APPLICATION_CDR.id, Encoding.ZENOH_BYTES.id)

ADDED: Final = 0
ADDED_FIRST: Final = 1  # the DDS thread is to be told
FULL: Final = 2


class Item(NamedTuple):
    """A sample that waits to be written."""

    key: str
    payload: bytes | None  # None: a deletion
    time: int  # NTP64 of its stamp; 0: it has none
    clock: bytes  # the id of its stamp
    attachment: bytes | None


class Line:
    """A queue with a bound on samples and on bytes.

    One thread adds at a time, the DDS thread takes: each counts the bytes it moved, so that adding
    to a line with room needs no lock.
    """

    def __init__(self, limits: Limits) -> None:
        self._items: deque[Item] = deque()
        self._added_len = 0
        self._taken_len = 0
        self._count_max = limits.dds_line_count
        self._len_max = limits.dds_line_len
        self._room = threading.Condition()
        self._waiting_count = 0  # threads of the session that wait for room
        self._is_told = False  # the DDS thread knows that there is something
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._items)

    def try_add(self, item: Item, length: int) -> int:
        """Add a sample if there is room: ADDED, ADDED_FIRST or FULL."""
        items, added_len = self._items, self._added_len + length
        if (
            len(items) >= self._count_max
            or added_len - self._taken_len > self._len_max
            or self._is_closed
        ):
            return FULL
        self._added_len = added_len
        items.append(item)
        if self._is_told:  # looked at after the sample is there: `take` clears it before it takes
            return ADDED
        self._is_told = True
        return ADDED_FIRST

    def add(self, item: Item, length: int, *, waits: bool, drops_oldest: bool) -> tuple[int, int]:
        """Add a sample to a full line: how it went, and how many others were dropped for it.

        Args:
            item: The sample.
            length: Of its payload.
            waits: Whether to wait for room, at most `HELD_S`.
            drops_oldest: Whether it takes the place of the oldest if there is no room.
        """
        with self._room:
            if waits and self._is_full(length):
                self._waiting_count += 1
                self._room.wait_for(lambda: self._is_closed or not self._is_full(length), HELD_S)
                self._waiting_count -= 1
            dropped = 0
            while self._is_full(length) and drops_oldest and self._items:
                with suppress(IndexError):  # the DDS thread took it meanwhile
                    self._added_len -= _length(self._items.popleft())
                    dropped += 1
            if self._is_closed or self._is_full(length):
                return FULL, dropped
            self._added_len += length
            self._items.append(item)
            told, self._is_told = self._is_told, True
            return (ADDED if told else ADDED_FIRST), dropped

    def take(self, count_max: int) -> list[Item]:
        """Take samples off the front; the next `try_add` tells again."""
        self._is_told = False
        items = self._items
        found: list[Item] = []
        pop, add = items.popleft, found.append
        with suppress(IndexError):  # one who adds to a full line may drop the oldest
            for _ in range(min(count_max, len(items))):
                add(pop())
        self._taken_len += sum([len(one.payload) for one in found if one.payload is not None])
        if self._waiting_count:  # it may find the line full again, and wait on
            with self._room:
                self._room.notify_all()
        return found

    def put_back(self, items: list[Item]) -> None:
        """Return samples to the front."""
        self._items.extendleft(reversed(items))
        self._taken_len -= sum(map(_length, items))

    def close(self) -> None:
        """Take no more; threads that wait are let go."""
        with self._room:
            self._is_closed = True
            self._room.notify_all()

    def _is_full(self, length: int) -> bool:
        """Whether there is no room; a sample longer than the line fits an empty one."""
        waiting_len = self._added_len - self._taken_len
        too_long = waiting_len + length > self._len_max and bool(self._items)
        return len(self._items) >= self._count_max or too_long


class IntakeOwner(Protocol):
    """What an intake needs of its route."""

    def home(self) -> frozenset[bytes]:
        """Return the prefixes of the participants of the own domain (D-632)."""

    def is_own(self, source: tuple[bytes, int]) -> bool:
        """Whether a sample is one that the bridge put."""

    def shows_delete(self, key: str) -> bool:
        """Whether access rules let a deletion pass (D-814)."""

    def refuse(self, reason: str) -> None:
        """Count a sample that is not written."""

    def add_to_full(self, item: Item, length: int, sample: Sample) -> int:
        """Add a sample to a line without room: ADDED, ADDED_FIRST or FULL."""

    def wake(self) -> None:
        """Tell the DDS thread that there is something."""


class Intake:
    """Takes the samples of a key into the line of its route; for threads of the session.

    Args:
        line: Of the route.
        owner: The route.
        checks_encoding: Whether only CDR passes (D-458).
        len_max: Longer payloads are refused.
    """

    def __init__(
        self, line: Line, owner: IntakeOwner, *, checks_encoding: bool, len_max: int
    ) -> None:
        self._line = line
        self._owner = owner
        self._checks_encoding = checks_encoding
        self._len_max = len_max
        self._clock = b""  # of the sample before, which is not of the own domain
        self._home: frozenset[bytes] = frozenset()

    def receive(self, sample: Sample) -> None:
        """Take a sample."""
        owner = self._owner
        source = sample.raw_source
        if source is not None and owner.is_own(source):
            return
        stamp = sample.raw_stamp
        time, clock = 0, b""
        if stamp is not None:
            time, clock = stamp.time, stamp.id
            home = owner.home()
            if clock != self._clock or home is not self._home:
                if clock[:12] in home:
                    owner.refuse("D-632")
                    return
                self._clock, self._home = clock, home
        if self._checks_encoding and sample.encoding.id not in _CDR_IDS:
            owner.refuse("encoding")
            return
        beside = sample.attachment
        payload = None if sample.kind is SampleKind.DELETE else sample.payload.to_bytes()
        if payload is None and not owner.shows_delete(sample.key_text):
            owner.refuse("access rules")
            return
        length = 0 if payload is None else len(payload)
        if length > self._len_max:
            owner.refuse("too large")
            return
        attachment = None if beside is None else beside.to_bytes()
        item = Item(sample.key_text, payload, time, clock, attachment)
        result = self._line.try_add(item, length)
        if result == FULL:
            result = owner.add_to_full(item, length, sample)
        if result == ADDED_FIRST:
            owner.wake()


def _length(item: Item) -> int:
    return 0 if item.payload is None else len(item.payload)
