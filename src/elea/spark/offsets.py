"""Offsets: how far a query has come in each shard of one log, as Spark keeps it.

    {"v": 1, "log": "<uuid of the log>", "s": {"0": 1234, "1": 998}}

The numbers are those of the next rows. A shard that is not named is at its first row. The end of a
query's first batch also has "b": where that batch begins. Spark asks a query that crashed in its
first batch once more where to begin, and by then `latest` would be somewhere else.
"""

from __future__ import annotations

import heapq
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from elea.errors import InvalidValueError
from elea.json5 import Json

VERSION: Final = 1
_LEGAL: Final = 'legal is {"v": 1, "log": "<uuid>", "s": {"0": 1234}}'


@dataclass(frozen=True, slots=True)
class Offset:
    """A place in a log.

    Example:
        >>> log_id = uuid.UUID(int=7)
        >>> Offset.from_json(Offset(log_id, {0: 5}).to_json()) == Offset(log_id, {0: 5})
        True
    """

    log_id: uuid.UUID
    ends: Mapping[int, int]
    begins: Mapping[int, int] | None = None

    def to_json(self) -> dict[str, Json]:
        """As Spark keeps it."""
        told: dict[str, Json] = {"v": VERSION, "log": str(self.log_id), "s": _texts(self.ends)}
        return told if self.begins is None else told | {"b": _texts(self.begins)}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """What Spark, or a user, gives.

        Raises:
            InvalidValueError: it is no offset, or one of a later version.
        """
        try:
            if not isinstance(value, dict):
                raise ValueError("no object")
            if value["v"] != VERSION:
                raise InvalidValueError("offset", f"saw version {value['v']}; legal is {VERSION}")
            begins = _numbers(value["b"]) if "b" in value else None
            return cls(uuid.UUID(value["log"]), _numbers(value["s"]), begins)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            if isinstance(error, InvalidValueError):
                raise
            raise InvalidValueError("offset", f"saw {value!a}; {_LEGAL}") from error


def _texts(numbers: Mapping[int, int]) -> dict[str, Json]:
    return {str(shard): seq for shard, seq in sorted(numbers.items())}


def _numbers(texts: dict[str, object]) -> dict[int, int]:
    found = {}
    for shard, seq in texts.items():
        if type(seq) is not int or seq < 0:
            raise ValueError("not the number of a row")
        found[int(shard)] = seq
    return found


def shared(starts: Sequence[int], ends: Sequence[int], total_max: int) -> list[int]:
    """Ends for not more than so many rows, over all shards by how much each has waiting.

    Example:
        >>> shared([0, 0], [100, 300], 40)
        [10, 30]
    """
    waiting = [end - start for start, end in zip(starts, ends, strict=True)]
    total = sum(waiting)
    if total <= total_max:
        return list(ends)
    taken = [count * total_max // total for count in waiting]
    left = total_max - sum(taken)
    for shard, count in enumerate(waiting):  # what rounding left: every shard must come forward
        more = min(left, 1, count - taken[shard])
        taken[shard] += more
        left -= more
    return [start + count for start, count in zip(starts, taken, strict=True)]


def cut(ranges: Mapping[int, tuple[int, int]], parts_count: int) -> list[tuple[int, int, int]]:
    """Ranges of shards in so many parts at least, if there are as many rows; long ones in more.

    The same ranges give the same parts.

    Example:
        >>> cut({0: (0, 30), 1: (5, 5), 2: (0, 10)}, 4)
        [(0, 0, 10), (0, 10, 20), (0, 20, 30), (2, 0, 10)]
    """
    counts = {shard: 1 for shard, (first, end) in ranges.items() if end > first}
    # The longest part first; what is one row cannot be cut.
    waiting: list[tuple[float, int]] = [
        (ranges[shard][0] - ranges[shard][1], shard) for shard in counts
    ]
    heapq.heapify(waiting)
    for _ in range(len(counts), parts_count):
        if not waiting or waiting[0][0] >= -1:
            break
        shard = waiting[0][1]
        counts[shard] += 1
        first, end = ranges[shard]
        heapq.heapreplace(waiting, ((first - end) / counts[shard], shard))
    return [
        (shard, *part) for shard, count in counts.items() for part in split(*ranges[shard], count)
    ]


def split(first: int, end: int, parts_count: int) -> list[tuple[int, int]]:
    """A range in so many parts, or fewer if it is short.

    Example:
        >>> split(0, 10, 3)
        [(0, 4), (4, 7), (7, 10)]
    """
    rows_count = end - first
    parts_count = max(1, min(parts_count, rows_count))
    small, larger_count = divmod(rows_count, parts_count)
    parts = []
    for part in range(parts_count):
        stop = first + small + (part < larger_count)
        parts.append((first, stop))
        first = stop
    return parts if rows_count else []
