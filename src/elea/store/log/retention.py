"""Retention: which segments go, and whether somebody still wanted them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from elea.store.log.consumers import Consumer
from elea.store.log.settings import LogSettings

_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A closed segment that is on disk."""

    shard: int
    first_seq: int
    end_seq: int
    time_max: int  # of its rows, as the 64 bits of a timestamp
    length: int  # of all its files


@dataclass(frozen=True, slots=True)
class Trimmed:
    """A segment that goes, and the rows of it that consumers had not read."""

    segment: Kept
    reason: str
    unread: tuple[tuple[str, int], ...] = ()  # consumer, rows


def to_trim(
    segments: Sequence[Kept],
    used_len: int,
    consumers: Sequence[Consumer],
    settings: LogSettings,
    now_ns: int,
) -> list[Trimmed]:
    """What goes now, the oldest of each shard first, so that no hole appears.

    Args:
        segments: Closed ones only, of each shard in order.
        used_len: Octets of the whole log.
    """
    live = [one for one in consumers if one.is_live(now_ns)]
    queues: dict[int, list[Kept]] = {}
    for segment in segments:
        queues.setdefault(segment.shard, []).append(segment)
    trimmed = []
    while queues:
        shard = min(queues, key=lambda one: (queues[one][0].time_max, one))
        oldest = queues[shard].pop(0)
        unread = tuple(
            (one.name, oldest.end_seq - max(oldest.first_seq, seq))
            for one in live
            if (seq := one.offsets.get(shard, 0)) < oldest.end_seq
        )
        reason = _reason(oldest, used_len, settings, now_ns, live=bool(live), unread=bool(unread))
        if reason is not None:
            trimmed.append(Trimmed(oldest, reason, unread))
            used_len -= oldest.length
        if reason is None or not queues[shard]:
            del queues[shard]
    return trimmed


def _reason(
    segment: Kept, used_len: int, settings: LogSettings, now_ns: int, *, live: bool, unread: bool
) -> str | None:
    if settings.retain_len is not None and used_len > settings.retain_len:
        return f"the log has {used_len} octets, {settings.retain_len} are retained"
    if unread:
        return None
    age = settings.retain_age_ns
    if age is not None and (segment.time_max >> 32) * _NS < now_ns - age:
        return f"its rows are older than {age / _NS:g} s"
    if settings.retain_consumed and live:
        return "every consumer has read it"
    return None
