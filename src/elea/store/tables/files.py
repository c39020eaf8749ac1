"""The files of a table: what each holds, and which of them a question needs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import PurePosixPath
from typing import Any, Final, Self
from uuid import UUID

from elea.errors import InvalidValueError
from elea.timestamp import NTP64

ALL_KEYS: Final = "**"
SORTED: Final = "sorted-"  # how the names of files begin that compaction made


@dataclass(frozen=True, slots=True)
class Stats:
    """What is in a file, for readers who look for something. None: not known, so it may be there.

    Times are microseconds since 1970: of timestamps, and of when rows were received, which counts
    for rows without timestamp.
    """

    key_min: str | None = None
    key_max: str | None = None
    ts_min: int | None = None
    ts_max: int | None = None
    received_min: int | None = None
    received_max: int | None = None
    unstamped_count: int | None = None  # rows without timestamp

    def may_have(self, key_expr: str, since: int, until: int) -> bool:
        """Whether there may be a key that matches, at a time of that range of microseconds."""
        prefix = prefix_of(key_expr)
        length = None if prefix == key_expr else len(prefix)
        if self.key_min is not None and self.key_min[:length] > prefix:
            return False
        if self.key_max is not None and self.key_max[:length] < prefix:
            return False
        if self.unstamped_count is None:
            return True
        if _meet(self.ts_min, self.ts_max, since, until):
            return True
        return self.unstamped_count > 0 and _meet(
            self.received_min, self.received_max, since, until
        )


def _meet(low: int | None, high: int | None, since: int, until: int) -> bool:
    """Whether a range that is known has a moment of another."""
    return low is not None and high is not None and low <= until and high >= since


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file.

    Args:
        path: Below the table, with `/`.
        date: The day of its rows, as the name of its partition.
        bucket: Its other partition, if the table has buckets.
    """

    path: str
    rows_count: int
    octets_count: int
    date: str
    bucket: str | None = None
    stats: Stats = Stats()

    @property
    def is_sorted(self) -> bool:
        """Whether compaction made it."""
        return PurePosixPath(self.path).name.startswith(SORTED)

    def to_json(self) -> str:
        """As it travels from who wrote it to who commits it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The same.

        Raises:
            InvalidValueError: it is no file.
        """
        try:
            value = json.loads(text)
            return cls(**(value | {"stats": Stats(**value["stats"])}))
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidValueError("file of a table", f"saw {text[:200]!a}") from error


@dataclass(frozen=True, slots=True)
class Part:
    """Rows of one shard, from a number to before another, and the files that hold them."""

    log_id: UUID
    shard: int
    first: int
    end: int
    files: tuple[DataFile, ...]

    def to_rows(self) -> list[dict[str, object]]:
        """As it travels from who wrote it to who commits it: a row for each file, or one."""
        place = {"log": str(self.log_id), "shard": self.shard, "lo": self.first, "hi": self.end}
        rows: list[dict[str, object]] = [
            {**place, "rows": one.rows_count, "bytes": one.octets_count, "file": one.to_json()}
            for one in self.files
        ]
        return rows or [{**place}]


def parts_of(rows: Iterable[Mapping[str, Any]]) -> list[Part]:
    """The same.

    Raises:
        InvalidValueError: a row names no file.
    """
    found: dict[tuple[str, int, int, int], list[DataFile]] = {}
    for row in rows:
        files = found.setdefault((row["log"], row["shard"], row["lo"], row["hi"]), [])
        if row.get("file") is not None:
            files.append(DataFile.from_json(row["file"]))
    return [
        Part(UUID(log), shard, first, end, tuple(files))
        for (log, shard, first, end), files in found.items()
    ]


def pruned(
    files: Iterable[DataFile], key_expr: str = ALL_KEYS, since: int = 0, until: int = 2**64
) -> list[DataFile]:
    """The files that may have rows of keys that match, of a span of time.

    Args:
        since: The 64 bits of a timestamp, from which on rows are wanted,
        until: and from which on no more are.
    """
    # One more at either end: who wrote `ts` may have rounded otherwise.
    low = microseconds(since) - 1
    high = microseconds(min(until, 2**64 - 1)) + 1
    return [file for file in files if file.stats.may_have(key_expr, low, high)]


def prefix_of(key_expr: str) -> str:
    """How every key begins that an expression matches.

    Example:
        >>> prefix_of("fleet/*/imu"), prefix_of("a/b"), prefix_of("**"), prefix_of("a/x$*")
        ('fleet', 'a/b', '', 'a/x')
    """
    wild = min((at for at in map(key_expr.find, "*$") if at >= 0), default=-1)
    return key_expr if wild < 0 else key_expr[:wild].removesuffix("/")


def microseconds(stamp: int) -> int:
    """The 64 bits of a timestamp as microseconds since 1970, rounded down."""
    return NTP64.from_value(stamp).as_nanos() // 1_000
