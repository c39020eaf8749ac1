"""Overlap: two mirrors of one writer, while one replaces the other (D-309)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from elea.dds.port import Info, Mirror, Taken
from elea.dds.qos import ReaderClass
from elea.dds.stamps import ntp64_of

RETIRE_NS: Final = 60_000_000_000  # an old mirror of writers that are silent stays so long
SETTLE_NS: Final = 2_000_000_000  # what a writer sent to the old mirror alone may be sent again
SEEN_NS: Final = 1_000_000_000  # samples are remembered so long after the last old mirror
HOLD_NS: Final = 5_000_000_000  # samples of a new mirror wait so long for those before them
_SEEN_COUNT_MAX: Final = 1 << 20
_HELD_COUNT_MAX: Final = 1 << 16

Identity = tuple[int, int]  # the stamp of a sample and a hash of its bytes


def identity_of(payload: bytes, info: Info) -> Identity:
    """Return what tells a sample of a writer from its others.

    Its stamp alone does not: a writer may give several samples one time. States differ from values.
    """
    return identity_by(info.source_timestamp, payload, is_value=info.valid_data)


def identity_by(source_ns: int, payload: bytes, *, is_value: bool) -> Identity:
    """Return the identity of a sample by its time and bytes; those of a state are its key."""
    return ntp64_of(source_ns if is_value else -1 - source_ns), hash(payload)


@dataclass(slots=True)
class Held:
    """Samples of one writer that a new mirror has before the old one has those before them."""

    reader: int  # the new mirror
    end_ns: int
    samples: list[Taken] = field(default_factory=list)
    identities: set[Identity] = field(default_factory=set)

    def add(self, sample: Taken) -> None:
        """Hold one more sample."""
        self.samples.append(sample)
        self.identities.add(identity_of(*sample))


@dataclass(slots=True)
class Retiring:
    """An old mirror reader, read until the new one continues each of its writers.

    A mirror may have samples later than another one that was made after it: what a writer sends
    again comes to each mirror by itself. So the samples of a new mirror are held until the old one
    has brought the first of them; all before it have passed then, and all after it are in the new
    one. Later on a writer learns that the new one is there before it learns that the old one is
    gone: a participant announces both in their order.
    """

    mirror: Mirror
    of: ReaderClass
    end_ns: int
    heard: set[int] = field(default_factory=set)  # handles of writers that the new one continues
    held: dict[int, Held] = field(default_factory=dict)  # by the handle of their writer
    settled_ns: int = 0  # when the last of the writers has settled

    def hear(self, writer: int, now_ns: int) -> None:
        """Notice a writer that the new mirror continues."""
        self.heard.add(writer)
        self.settled_ns = now_ns + SETTLE_NS

    def hold(self, sample: Taken, reader: int, now_ns: int) -> None:
        """Hold a sample of the new mirror."""
        writer = sample[1].publication_handle
        held = self.held.get(writer)
        if held is None:
            held = self.held[writer] = Held(reader, now_ns + HOLD_NS)
        held.add(sample)
        if len(held.samples) >= _HELD_COUNT_MAX:
            held.end_ns = now_ns

    def reached(self, taken: Iterable[Taken]) -> set[int]:
        """Return the writers of whom the old mirror has brought a sample that is held."""
        return {
            info.publication_handle
            for payload, info in taken
            if info.publication_handle in self.held
            and identity_of(payload, info) in self.held[info.publication_handle].identities
        }

    def expired(self, matched: Iterable[int], now_ns: int) -> set[int]:
        """Return the writers whose held samples wait in vain: the old mirror has them no more."""
        there = set(matched)
        end = now_ns >= self.end_ns
        return {
            writer
            for writer, held in self.held.items()
            if end or writer not in there or now_ns >= held.end_ns
        }

    def release(self, writer: int, now_ns: int) -> Held | None:
        """Give the held samples of a writer back: the new mirror continues it."""
        self.hear(writer, now_ns)
        return self.held.pop(writer, None)

    def due_ns(self, now_ns: int) -> int:
        """When something of it ends by time: what is held, settling, the old mirror itself."""
        times = [self.end_ns, *(held.end_ns for held in self.held.values())]
        if self.settled_ns > now_ns:
            times.append(self.settled_ns)
        return min(times)

    def is_replaced(self, matched: Iterable[int], now_ns: int) -> bool:
        """Whether the new mirror has all samples of these writers from now on."""
        if now_ns >= self.end_ns:
            return True
        return now_ns >= self.settled_ns and self.heard.issuperset(matched)


class Overlap:
    """Tells samples apart by writer, source time and bytes, lets each pass once (D-309)."""

    def __init__(self) -> None:
        self._seen: set[tuple[bytes, Identity]] = set()
        self._end_ns = 0

    def extend(self, end_ns: int) -> None:
        """Remember samples until a monotonic time, at least."""
        self._end_ns = max(self._end_ns, end_ns)

    def is_active(self, now_ns: int) -> bool:
        """Whether samples are remembered; forgets them if not."""
        if now_ns < self._end_ns:
            return True
        self._seen.clear()
        return False

    def add(self, writer: bytes, sample: Identity) -> None:
        """Remember a sample that passed before."""
        self._seen.add((writer, sample))

    def has(self, writer: bytes, sample: Identity) -> bool:
        """Whether a sample has passed."""
        return (writer, sample) in self._seen

    def is_first(self, writer: bytes, sample: Identity, *, remembers: bool = True) -> bool:
        """Whether a sample passes; it is remembered, unless another mirror cannot bring it."""
        seen = writer, sample
        if seen in self._seen:
            return False
        if remembers and len(self._seen) < _SEEN_COUNT_MAX:
            self._seen.add(seen)
        return True
