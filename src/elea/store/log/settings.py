"""What the owner of a log may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from elea.errors import InvalidValueError
from elea.limits import DEFAULT_LIMITS

COMPRESSIONS: Final = ("zstd", "lz4", "none")
_HOUR_NS: Final = 3_600_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How a log is written, and how much of it is kept.

    Args:
        shards_count: Rows are spread over so many shards, by key. Fixed when the log is made.
        segment_len: A segment that has so many octets is closed and the next one begun,
        segment_age_ns: and one whose first row is so old.
        compression: Of blocks as they are written: "zstd", "lz4" or "none". Without it readers copy
            nothing.
        packing: How closed segments are compressed when they are written once more, with few large
            blocks: "zstd", "lz4", or "none" if they are to stay as they are.
        pack_age_ns: How long after its last row that is. Sooner, if the log has used half of
            `quota_len` or `retain_len`.
        retain_len: The oldest segments go when all together have more octets. Wins over consumers;
            what they had not read is told as data loss.
        retain_age_ns: Segments whose rows were all appended longer ago go, unless a consumer still
            needs them. Timestamps of publishers do not matter.
        retain_consumed: Segments go as soon as every consumer has committed them.
        quota_len: Refuse rows when the log has so many octets.
        low_water_percent: Of the disk, that stays free: refuse rows before that.
    """

    shards_count: int = 1
    segment_len: int = 128 * 1024 * 1024
    segment_age_ns: int = _HOUR_NS
    compression: str = "none"
    packing: str = "zstd"
    pack_age_ns: int = _HOUR_NS // 6
    retain_len: int | None = None
    retain_age_ns: int | None = None
    retain_consumed: bool = False
    quota_len: int | None = None
    low_water_percent: float = 5.0

    def __post_init__(self) -> None:
        shards_max = DEFAULT_LIMITS.log_shards_count
        if not 1 <= self.shards_count <= shards_max:
            raise InvalidValueError(
                "shards_count", f"saw {self.shards_count}; legal are 1 to {shards_max}"
            )
        for name, value in (("compression", self.compression), ("packing", self.packing)):
            if value not in COMPRESSIONS:
                legal = ", ".join(COMPRESSIONS)
                raise InvalidValueError(name, f"saw {value!a}; legal are {legal}")
        if self.pack_age_ns < 0:
            raise InvalidValueError("pack_age_ns", f"saw {self.pack_age_ns}; legal are 0 and more")
        if self.segment_len < 1 or self.segment_age_ns < 1:
            raise InvalidValueError(
                "segment_len, segment_age_ns",
                f"saw {self.segment_len} and {self.segment_age_ns}; legal are numbers from 1",
            )
        if not 0 <= self.low_water_percent <= 100:
            raise InvalidValueError(
                "low_water_percent", f"saw {self.low_water_percent}; legal are 0 to 100"
            )
