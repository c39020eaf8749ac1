"""Batches of samples as Arrow tables: what `elea.handlers.ArrowBatches` hands to applications."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.encoding import Encoding
from elea.ids import ZenohId
from elea.session.columns_hot import Columns
from elea.store.log.schema import SCHEMA, TIME

# Made once: where no pandas is installed pyarrow looks for it each time it is given a plain value,
# which takes longer than all that is done with it.
_MISSING: Final = pa.scalar(-1, pa.int32())
_IS_THERE: Final = pa.scalar(1, pa.int8())
_HALF: Final = pa.scalar(32, pa.uint64())
_LOW: Final = pa.scalar(0xFFFF_FFFF, pa.uint64())
_MICROSECONDS: Final = pa.scalar(1_000_000, pa.uint64())
_NO_ID: Final = pa.scalar(None, pa.int32())
_NO_NUMBER: Final = pa.scalar(None, pa.int64())
_NO_TIME: Final = pa.scalar(None, TIME)
_NO_OCTETS: Final = pa.scalar(None, pa.binary())


def record_batch(rows: Columns) -> pa.RecordBatch:
    """What was gathered, as one batch of `SCHEMA`."""
    count: int = rows.rows_count
    hlc, hlc_id, ts = _stamps(rows, count)
    zid, eid, sn = _sources(rows, count)
    return pa.RecordBatch.from_arrays(
        [
            _texts(rows.key_ids.getvalue(), list(rows.keys), count),
            _numbers(pa.int8(), rows.kinds.getvalue(), count),
            _octets(rows.payload_ends.getvalue(), rows.payloads.getvalue(), count),
            _attachments(rows, count),
            _texts(
                rows.encoding_ids.getvalue(),
                [str(Encoding.from_parts(id, schema or None)) for id, schema in rows.encodings],
                count,
            ),
            ts,
            hlc,
            hlc_id,
            zid,
            eid,
            sn,
            _numbers(pa.int8(), rows.qos.getvalue(), count),
            _numbers(TIME, rows.received.getvalue(), count),
        ],
        schema=SCHEMA,
    )


def _numbers(type: pa.DataType, data: bytes, count: int) -> pa.Array:
    return pa.Array.from_buffers(type, count, [None, pa.py_buffer(data)])


def _octets(ends: bytes, data: bytes, count: int) -> pa.Array:
    offsets = pa.py_buffer(b"\0\0\0\0" + ends)
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(data)])


def _texts(ids: bytes, texts: list[str], count: int) -> pa.Array:
    indices = _numbers(pa.int32(), ids, count)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _texts_or_none(ids: pa.Array, texts: list[str]) -> pa.Array:
    indices = pc.if_else(pc.equal(ids, _MISSING), _NO_ID, ids)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _stamps(rows: Columns, count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Timestamp, clock and time of day."""
    if not rows.stamped:
        return pa.nulls(count, pa.int64()), _no_texts(count), pa.nulls(count, TIME)
    ids = _numbers(pa.int32(), rows.clock_ids.getvalue(), count)
    missing = pc.equal(ids, _MISSING)
    bits = _numbers(pa.uint64(), rows.times.getvalue(), count)
    seconds = pc.shift_right(bits, _HALF)
    fraction = pc.bit_wise_and(bits, _LOW)
    below = pc.shift_right(pc.multiply(fraction, _MICROSECONDS), _HALF)
    times = pc.add(pc.multiply(seconds, _MICROSECONDS), below)
    return (
        pc.if_else(missing, _NO_NUMBER, bits.view(pa.int64())),
        _texts_or_none(ids, [str(ZenohId(clock)) for clock in rows.clocks]),
        pc.if_else(missing, _NO_TIME, times.view(TIME)),
    )


def _sources(rows: Columns, count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Who published, and its number there."""
    if not rows.sourced:
        return _no_texts(count), pa.nulls(count, pa.int64()), pa.nulls(count, pa.int64())
    ids = _numbers(pa.int32(), rows.zid_ids.getvalue(), count)
    missing = pc.equal(ids, _MISSING)
    return (
        _texts_or_none(ids, [str(ZenohId(zid)) for zid in rows.zids]),
        pc.if_else(missing, _NO_NUMBER, _numbers(pa.int64(), rows.eids.getvalue(), count)),
        pc.if_else(missing, _NO_NUMBER, _numbers(pa.int64(), rows.sns.getvalue(), count)),
    )


def _attachments(rows: Columns, count: int) -> pa.Array:
    if not rows.attached:
        return pa.nulls(count, pa.binary())
    found = _octets(rows.attachment_ends.getvalue(), rows.attachments.getvalue(), count)
    flags = _numbers(pa.int8(), rows.attachment_flags.getvalue(), count)
    return pc.if_else(pc.equal(flags, _IS_THERE), found, _NO_OCTETS)


def _no_texts(count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.nulls(count, pa.int32()), pa.array([], pa.string()))
