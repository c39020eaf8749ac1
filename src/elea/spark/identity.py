"""Identity of the rows of a sink: made of what they are, so that every attempt gives the same.

Spark does not promise the order of rows after a shuffle: a task that is tried again may have them
in another one. So entity and number of a row are made of its digest, and of how many equal rows of
its partition came before it. The timestamp is the row's own, or that of the batch and a little more
by the digest. Numbers are spread over some entities, as recorders remember a bounded number of
ranges of each.

Where the order is the same in every attempt, rows may be numbered by position: then numbers rise
as rows are sent, as subscribers that look for gaps expect it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from elea.errors import MissingDependencyError
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.provenance import SourceInfo
from elea.timestamp import NTP64, Timestamp

try:  # `import elea.spark` begins here
    import pyarrow as pa
except ModuleNotFoundError as error:
    # Still an ImportError, for programs that do without Spark where it is not installed.
    text = str(MissingDependencyError("elea.spark", "spark"))
    raise ModuleNotFoundError(text, name=error.name) from None

ANY_KEY_EID: Final = 0x8000_0000  # from here on numbers are of any key: what is not heard is no gap
CONTENT: Final = "content"
POSITION: Final = "position"
_ENTITIES_COUNT: Final = 64  # over which the rows of a partition are spread
_DIGEST_LEN: Final = 16
_SN_BITS: Final = 31  # half of what there is: numbers that far apart would count as begun anew
_STAMP_BITS: Final = 20  # of 2^-32 s: up to a quarter of a millisecond
_NTP64_MASK: Final = 2**64 - 1
_MICROSECONDS: Final = pa.timestamp("us", tz="UTC")
_USED: Final = ("key", "payload", "kind", "encoding", "attachment")


class Number(NamedTuple):
    """Entity and number of a row, and how much later than the batch its timestamp is."""

    entity: int
    sn: int
    later: int


class Row(NamedTuple):
    """A row of a sink, as it came; `stamp` is the 64 bits of its timestamp."""

    key: str | None
    payload: bytes | None
    kind: int | None
    encoding: str | None
    attachment: bytes | None
    stamp: int | None
    stamp_id: str | None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the rows of a partition come from.

    Args:
        name: Of the write, or of query and batch: the same in every attempt.
        partition: The number of the partition.
        at_ns: The time of the batch, the same in every attempt; None: not known, so that rows
            without a timestamp are stamped by the router.
    """

    name: str
    partition: int
    at_ns: int | None = None

    @property
    def zid(self) -> ZenohId:
        """As which the rows are published."""
        digest = hashlib.sha256(f"{self.name}/{self.partition}".encode()).digest()
        return ZenohId(digest[:15] + b"\x01")

    def source(self, number: Number) -> SourceInfo:
        """The source of a row."""
        eid = EntityId(ANY_KEY_EID + number.entity)
        return SourceInfo(EntityGlobalId(self.zid, eid), number.sn)

    def stamp(self, row: Row, number: Number) -> Timestamp | None:
        """The timestamp of a row."""
        if row.stamp is not None:
            id = self.zid if row.stamp_id is None else ZenohId.parse(row.stamp_id)
            return Timestamp(NTP64.from_value(row.stamp), id)
        if self.at_ns is None:
            return None
        value = NTP64.from_nanos(self.at_ns).value + number.later
        return Timestamp(NTP64.from_value(value), self.zid)


def numbered(
    batches: Iterator[pa.RecordBatch], numbering: str = CONTENT
) -> Iterator[tuple[Number, Row]]:
    """Rows in their order, each with its number."""
    rows = (row for batch in batches for row in rows_of(batch))
    if numbering == POSITION:
        for position, row in enumerate(rows):
            yield Number(position >> _SN_BITS, position & (2**_SN_BITS - 1), position), row
        return
    counts: dict[bytes, int] = {}
    taken: set[int] = set()
    for row in rows:
        digest = digest_of(*_parts(row))
        count = counts[digest] = counts.get(digest, 0) + 1
        value = int.from_bytes(digest if count == 1 else digest_of(digest, b"%d" % count), "big")
        later, value = value % 2**_STAMP_BITS, value >> _STAMP_BITS
        value %= _ENTITIES_COUNT << _SN_BITS
        while value in taken:  # of another row: rare
            value = (value + 1) % (_ENTITIES_COUNT << _SN_BITS)
        taken.add(value)
        yield Number(value >> _SN_BITS, value & (2**_SN_BITS - 1), later), row


def rows_of(batch: pa.RecordBatch) -> Iterator[Row]:
    """The rows of a batch."""
    columns = [_values(batch, name) for name in _USED]
    for key, payload, kind, encoding, attachment, *stamp in zip(
        *columns, *_stamps(batch), strict=True
    ):
        yield Row(key, _octets(payload), kind, encoding, _octets(attachment), *stamp)


def digest_of(*parts: bytes | None) -> bytes:
    """A digest of parts, of which each may be missing.

    Example:
        >>> digest_of(b"ab", b"c") == digest_of(b"a", b"bc"), digest_of(b"") == digest_of(None)
        (False, False)
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_LEN)
    for part in parts:
        digest.update(b"-" if part is None else b"%d:" % len(part))
        digest.update(part or b"")
    return digest.digest()


def batch_time_ns(checkpoint: str | Path, batch: int) -> int | None:
    """When a batch of a query was planned, as its checkpoint says; None: it cannot be read here."""
    path = str(checkpoint).removeprefix("file://").removeprefix("file:")
    try:
        _, about, *_ = (Path(path) / "offsets" / str(batch)).read_text("utf-8").splitlines()
        return int(json.loads(about)["batchTimestampMs"]) * 1_000_000
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parts(row: Row) -> Iterator[bytes | None]:
    for value in row:
        yield value if value is None or isinstance(value, bytes) else str(value).encode()


def _stamps(batch: pa.RecordBatch) -> tuple[Sequence[int | None], Sequence[str | None]]:
    """By row, the 64 bits of its timestamp, and whose clock that is."""
    hlcs, ids = (_values(batch, name) for name in ("hlc", "hlc_id"))
    times: Sequence[int | None] = [None] * batch.num_rows
    if "ts" in batch.schema.names and pa.types.is_timestamp(batch.schema.field("ts").type):
        times = batch.column("ts").cast(_MICROSECONDS).cast(pa.int64()).to_pylist()
    stamps: list[int | None] = []
    for hlc, time_us in zip(hlcs, times, strict=True):
        if isinstance(hlc, int):
            stamps.append(hlc & _NTP64_MASK)
        else:
            stamps.append(None if time_us is None else NTP64.from_nanos(time_us * 1_000).value)
    known = [id if isinstance(hlc, int) else None for hlc, id in zip(hlcs, ids, strict=True)]
    return stamps, known


def _values(batch: pa.RecordBatch, name: str) -> Sequence[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    values: list[Any] = batch.column(name).to_pylist()
    return values


def _octets(value: object) -> bytes | None:
    return value.encode() if isinstance(value, str) else value  # type: ignore[return-value]
