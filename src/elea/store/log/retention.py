"""Retention: which segments go, and whether somebody still wanted them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from elea.store.log.consumers import Consumer
from elea.store.log.segment import stem_of
from elea.store.log.settings import LogSettings

_NS: Final = 1_000_000_000
# A segment with more blocks than these is shorter with larger ones, however they are compressed.
_BLOCKS_COUNT: Final = 16
_BLOCK_LEN: Final = 512 * 1024


@dataclass(frozen=True, slots=True)
class Kept:
    """A closed segment that is on disk."""

    shard: int
    first_seq: int
    end_seq: int
    appended_ns: int  # when its last row was appended, by the writer's clock
    length: int  # of all its files
    blocks_count: int
    closed_ns: int  # when it was written to last
    packed: bool = False

    @property
    def stem(self) -> str:
        """The name of its files."""
        return stem_of(self.shard, self.first_seq, packed=self.packed)


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A segment that goes, and the rows of it that consumers had not read."""

    segment: Kept
    reason: str
    unread: tuple[tuple[str, int], ...] = ()  # consumer, rows


def to_trim(
    segments: Sequence[Kept],
    used_len: int,
    live: Sequence[Consumer],
    settings: LogSettings,
    now_ns: int,
) -> list[Trimmed]:
    """What goes now, the oldest of each shard first, so that no hole appears.

    Args:
        segments: Closed ones only, of each shard in order.
        used_len: Octets of the whole log.
        live: Consumers whose lease lasts.
    """
    appended = _appended_ns(segments, now_ns)
    queues: dict[int, list[Kept]] = {}
    for segment in segments:
        queues.setdefault(segment.shard, []).append(segment)
    trimmed = []
    while queues:
        shard = min(queues, key=lambda one: (appended[queues[one][0].stem], one))
        oldest = queues[shard].pop(0)
        unread = tuple(
            (one.name, oldest.end_seq - max(oldest.first_seq, seq))
            for one in live
            if (seq := one.offsets.get(shard, 0)) < oldest.end_seq
        )
        age_ns = now_ns - appended[oldest.stem]
        reason = _reason(oldest, used_len, settings, age_ns, live=bool(live), unread=bool(unread))
        if reason is not None:
            trimmed.append(Trimmed(oldest, reason, unread))
            used_len -= oldest.length
        if reason is None or not queues[shard]:
            del queues[shard]
    return trimmed


def is_short_of_room(used_len: int, space: tuple[int, int], settings: LogSettings) -> bool:
    """Whether the log has used half of what it may, or the disk is nearly as full as it may become.

    Args:
        used_len: Octets of the whole log.
        space: Octets of the disk, and how many are free.
    """
    total, free = space
    bounds = [one for one in (settings.quota_len, settings.retain_len) if one is not None]
    if any(2 * used_len > bound for bound in bounds):
        return True
    return free < 2 * total * settings.low_water_percent / 100


def to_pack(
    segments: Sequence[Kept], settings: LogSettings, now_ns: int, age_ns: int
) -> Kept | None:
    """Which segment is written once more now, with few large blocks; the oldest first.

    Args:
        segments: Closed ones only.
        age_ns: How long ago its last row came, at least.
    """
    if settings.packing == "none":
        return None
    due = [
        one
        for one in segments
        if abs(now_ns - one.closed_ns) >= age_ns  # the clock may have been set back
        and not one.packed
        and _is_worth_packing(one, settings)
    ]
    return min(due, key=lambda one: (one.appended_ns, one.first_seq), default=None)


def _appended_ns(segments: Sequence[Kept], now_ns: int) -> dict[str, int]:
    """When segments were appended, by the names of their files.

    The clock of the writer may have been set back. What it says was appended in the future counts
    as old as what comes after it in its shard, or as new: one such segment would keep all of them.
    """
    found: dict[str, int] = {}
    later: dict[int, int] = {}  # by shard
    for one in reversed(segments):
        is_past = one.appended_ns <= now_ns
        known_ns = one.appended_ns if is_past else later.get(one.shard, now_ns)
        found[one.stem] = later[one.shard] = known_ns
    return found


def _is_worth_packing(segment: Kept, settings: LogSettings) -> bool:
    if settings.packing != settings.compression:
        return True
    return segment.blocks_count > _BLOCKS_COUNT + segment.length // _BLOCK_LEN


def _reason(
    segment: Kept, used_len: int, settings: LogSettings, age_ns: int, *, live: bool, unread: bool
) -> str | None:
    if settings.retain_len is not None and used_len > settings.retain_len:
        return f"the log has {used_len} octets, {settings.retain_len} are retained"
    if unread:
        return None
    retained_ns = settings.retain_age_ns
    if retained_ns is not None and age_ns > retained_ns:
        return f"its rows were appended more than {retained_ns / _NS:g} s ago"
    if settings.retain_consumed and live:
        return "every consumer has read it"
    return None
