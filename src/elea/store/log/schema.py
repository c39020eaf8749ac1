"""The rows of the log, of Arrow deliveries and of tables: one schema for all of them.

Not in a row are its shard and its number there: a block knows the number of its first row, and
readers add both as the columns of `POSITION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.errors import InvalidValueError

TEXTS: Final = pa.dictionary(pa.int32(), pa.string())
TIME: Final = pa.timestamp("us", tz="UTC")
_MICROSECONDS: Final = pa.scalar(1_000_000, pa.uint64())
_COUNTED_WHOLE_LEN: Final = 64 * 1024
_BODY: Final = ("payload", "attachment")
_HALF: Final = pa.scalar(32, pa.uint64())
_ONE: Final = pa.scalar(1, pa.int64())
_NUMBERS: Final = pc.cumulative_sum(pa.repeat(_ONE, 1 << 16), start=-1)  # as most blocks have rows


class RowKind(IntEnum):
    """What a row tells; the values of the column `kind`."""

    PUT = 0
    DELETE = 1
    GAP = 2  # samples of a publisher that are missing: from `sn` on, payload says how many
    DROP = 3  # samples that were received and could not be recorded; payload says how many
    TOKEN_PUT = 4  # a liveliness token appeared
    TOKEN_DELETE = 5  # and vanished


# One row per sample. `hlc` is the 64 bits of the timestamp, of which `ts` is the time of day: its
# sign bit will be set from 2038 on, so order by (`ts`, `hlc`), or by `times`.
SCHEMA: Final = pa.schema(
    [
        pa.field("key", TEXTS, nullable=False),
        pa.field("kind", pa.int8(), nullable=False),  # RowKind
        pa.field("payload", pa.binary(), nullable=False),
        pa.field("attachment", pa.binary()),
        pa.field("encoding", TEXTS, nullable=False),
        pa.field("ts", TIME),
        pa.field("hlc", pa.int64()),
        pa.field("hlc_id", TEXTS),
        pa.field("zid", TEXTS),
        pa.field("eid", pa.int64()),
        pa.field("sn", pa.int64()),
        pa.field("qos", pa.int8(), nullable=False),
        pa.field("recv_ts", TIME, nullable=False),
    ]
)
POSITION: Final = (
    pa.field("shard", pa.int32(), nullable=False),
    pa.field("seq", pa.int64(), nullable=False),
)


def checked(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch that is about to be kept.

    Raises:
        InvalidValueError: its columns are not those of `SCHEMA`, or a row has no time that can be.
    """
    if batch.schema != SCHEMA:
        for seen, legal in zip(batch.schema, SCHEMA, strict=False):
            if seen != legal:
                raise InvalidValueError("rows of a log", f"saw column {seen}; legal is {legal}")
        raise InvalidValueError(
            "rows of a log",
            f"saw the columns {batch.schema.names}; legal are {SCHEMA.names}, in this order",
        )
    if batch.column("hlc").null_count:
        check_received(pc.min(batch.column("recv_ts").view(pa.int64())).as_py())
    return batch


def check_received(first_us: int) -> None:
    """Rows without a timestamp happened when they were received, which is not before 1970.

    Raises:
        InvalidValueError: it is.
    """
    if first_us < 0:
        raise InvalidValueError(
            "rows of a log",
            f"saw a row without hlc whose recv_ts is {first_us} us; legal is 0, which is 1970, and"
            " later: give it a timestamp, or the time at which it was received",
        )


def length_of(batch: pa.RecordBatch) -> int:
    """The octets of rows; of few rows, not more than this.

    To count exactly costs as much as to write a row. Buffers that are small are counted whole.
    """
    whole: int = batch.get_total_buffer_size()
    if whole <= _COUNTED_WHOLE_LEN:
        return whole
    exact: int = batch.nbytes
    return exact


def body_lengths(batch: pa.RecordBatch) -> list[int]:
    """Return the bytes of payload and attachment of each row."""
    payload, attachment = (pc.binary_length(batch.column(name)) for name in _BODY)
    both: list[int] = pc.add(pc.fill_null(payload, 0), pc.fill_null(attachment, 0)).to_pylist()
    return both


def times(batch: pa.RecordBatch) -> pa.Array:
    """When each row happened, as the 64 bits of a timestamp: `hlc`, else when it was received."""
    hlc = batch.column("hlc")
    if hlc.null_count == 0:
        return hlc.view(pa.uint64())
    received = batch.column("recv_ts").view(pa.int64()).cast(pa.uint64())
    seconds = pc.divide(received, _MICROSECONDS)
    below = pc.subtract(received, pc.multiply(seconds, _MICROSECONDS))
    fraction = pc.divide(pc.shift_left(below, _HALF), _MICROSECONDS)
    return pc.coalesce(hlc.view(pa.uint64()), pc.add(pc.shift_left(seconds, _HALF), fraction))


def from_columns(columns: Iterable[Sequence[object]]) -> pa.RecordBatch:
    """Rows of plain values, in the order of `SCHEMA`; times are numbers of microseconds."""
    arrays = []
    for values, field in zip(columns, SCHEMA, strict=True):
        if field.type == TEXTS:
            arrays.append(pa.array(values, pa.string()).dictionary_encode())
        elif field.type == TIME:
            arrays.append(pa.array(values, pa.int64()).view(TIME))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def times_of(bits: int) -> tuple[int, int]:
    """The columns `ts`, in microseconds, and `hlc` of the 64 bits of a timestamp."""
    return bits * 1_000_000 >> 32, bits - (bits >> 63 << 64)


def compact(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows, without texts that no row uses and buffers of other rows."""
    columns = []
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(pa.string()).dictionary_encode()
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of several batches as one batch, each text once."""
    if len(batches) == 1:
        return batches[0]
    [found] = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()
    return found


def placed(batch: pa.RecordBatch, shard: int, seqs: pa.Array | int) -> pa.RecordBatch:
    """Rows with the columns of `POSITION`: of a shard, with their numbers, or numbered from one."""
    count = batch.num_rows
    if isinstance(seqs, int):
        seqs = numbered(seqs, count)
    position = [pa.repeat(pa.scalar(shard, pa.int32()), count), seqs]
    fields = [*batch.schema, *POSITION]
    return pa.RecordBatch.from_arrays([*batch.columns, *position], schema=pa.schema(fields))


def numbered(first: int, count: int) -> pa.Array:
    """So many offsets, from one on."""
    if count > len(_NUMBERS):
        return pc.cumulative_sum(pa.repeat(_ONE, count), start=first - 1)
    return pc.add(_NUMBERS.slice(0, count), pa.scalar(first, pa.int64()))
