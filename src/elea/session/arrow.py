"""Batches of samples as Arrow tables: what `elea.handlers.ArrowBatches` hands to applications."""

from __future__ import annotations

import struct
from array import array
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.encoding import Encoding
from elea.ids import ZenohId
from elea.session.columns import Columns
from elea.store.log.schema import SCHEMA, TIME
from elea.store.log.single import Single

# Made once: where no pandas is installed pyarrow looks for it each time it is given a plain value,
# which takes longer than all that is done with it.
_MISSING: Final = pa.scalar(-1, pa.int32())
_MISSING_OCTETS: Final = b"\xff\xff\xff\xff"
_FEW_COUNT: Final = 16  # rows that are counted with sooner than a kernel is called
_TEXTS_COUNT: Final = 256  # that are remembered
_FRACTION: Final = 0xFFFF_FFFF
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
                [_encoding_text(id, schema) for id, schema in rows.encodings],
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


def single(rows: Columns) -> Single:
    """The only row of what was gathered."""
    time_us = hlc = clock = zid = eid = sn = attachment = None
    if rows.stamped:
        octets = rows.times.getvalue()
        bits = int.from_bytes(octets, "little")
        hlc = int.from_bytes(octets, "little", signed=True)
        time_us = (bits >> 32) * 1_000_000 + ((bits & _FRACTION) * 1_000_000 >> 32)
        clock = _zid_text(next(iter(rows.clocks)))
    if rows.sourced:
        zid = _zid_text(next(iter(rows.zids)))
        eid = int.from_bytes(rows.eids.getvalue(), "little")
        sn = int.from_bytes(rows.sns.getvalue(), "little")
    if rows.attached:
        attachment = rows.attachments.getvalue()
    return Single(
        next(iter(rows.keys)),
        rows.kinds.getvalue()[0],
        rows.payloads.getvalue(),
        attachment,
        _encoding_text(*next(reversed(rows.encodings))),  # a batch begins with the usual one
        *(time_us, hlc, clock, zid, eid, sn),
        int.from_bytes(rows.qos.getvalue(), "little", signed=True),
        int.from_bytes(rows.received.getvalue(), "little", signed=True),
    )


def _numbers(type: pa.DataType, data: bytes, count: int) -> pa.Array:
    return pa.Array.from_buffers(type, count, [None, pa.py_buffer(data)])


def _octets(ends: bytes, data: bytes, count: int) -> pa.Array:
    offsets = pa.py_buffer(b"\0\0\0\0" + ends)
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets, pa.py_buffer(data)])


def _texts(ids: bytes, texts: list[str], count: int) -> pa.Array:
    if count == 1:
        return _text(texts[int.from_bytes(ids, "little")])
    indices = _numbers(pa.int32(), ids, count)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


@lru_cache(_TEXTS_COUNT)
def _text(text: str) -> pa.Array:
    """One row. Samples that come one by one mostly have what the one before had."""
    return pa.array([text], pa.string()).dictionary_encode()


@lru_cache(_TEXTS_COUNT)
def _encoding_text(id: int, schema: bytes) -> str:
    return str(Encoding.from_parts(id, schema or None))


@lru_cache(_TEXTS_COUNT)
def _zid_text(zid: bytes) -> str:
    return str(ZenohId(zid))


def _texts_or_none(ids: pa.Array, texts: list[str]) -> pa.Array:
    indices = pc.if_else(pc.equal(ids, _MISSING), _NO_ID, ids)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts, pa.string()))


def _all_there(ids: bytes) -> bool:
    """Whether no row is without one of these; False also where that is not seen at a glance."""
    return _MISSING_OCTETS not in ids


def _stamps(rows: Columns, count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Timestamp, clock and time of day."""
    if not rows.stamped:
        return pa.nulls(count, pa.int64()), _no_texts(count), pa.nulls(count, TIME)
    data, id_data = rows.times.getvalue(), rows.clock_ids.getvalue()
    clocks = [_zid_text(clock) for clock in rows.clocks]
    bits = _numbers(pa.int64(), data, count)
    times = _times_of_day(data, count)
    if _all_there(id_data):
        return bits, _texts(id_data, clocks, count), times
    ids = _numbers(pa.int32(), id_data, count)
    missing = pc.equal(ids, _MISSING)
    return (
        pc.if_else(missing, _NO_NUMBER, bits),
        _texts_or_none(ids, clocks),
        pc.if_else(missing, _NO_TIME, times),
    )


def _times_of_day(data: bytes, count: int) -> pa.Array:
    """Microseconds since 1970, of the 64 bits of timestamps."""
    if count <= _FEW_COUNT:
        micros = array("q")
        for (one,) in struct.iter_unpack("<Q", data):
            micros.append((one >> 32) * 1_000_000 + ((one & _FRACTION) * 1_000_000 >> 32))
        return _numbers(TIME, micros.tobytes(), count)
    bits = _numbers(pa.uint64(), data, count)
    seconds = pc.shift_right(bits, _HALF)
    fraction = pc.bit_wise_and(bits, _LOW)
    below = pc.shift_right(pc.multiply(fraction, _MICROSECONDS), _HALF)
    return pc.add(pc.multiply(seconds, _MICROSECONDS), below).view(TIME)


def _sources(rows: Columns, count: int) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Who published, and its number there."""
    if not rows.sourced:
        return _no_texts(count), pa.nulls(count, pa.int64()), pa.nulls(count, pa.int64())
    id_data = rows.zid_ids.getvalue()
    zids = [_zid_text(zid) for zid in rows.zids]
    eids = _numbers(pa.int64(), rows.eids.getvalue(), count)
    sns = _numbers(pa.int64(), rows.sns.getvalue(), count)
    if _all_there(id_data):
        return _texts(id_data, zids, count), eids, sns
    ids = _numbers(pa.int32(), id_data, count)
    missing = pc.equal(ids, _MISSING)
    return (
        _texts_or_none(ids, zids),
        pc.if_else(missing, _NO_NUMBER, eids),
        pc.if_else(missing, _NO_NUMBER, sns),
    )


def _attachments(rows: Columns, count: int) -> pa.Array:
    if not rows.attached:
        return pa.nulls(count, pa.binary())
    found = _octets(rows.attachment_ends.getvalue(), rows.attachments.getvalue(), count)
    flags = _numbers(pa.int8(), rows.attachment_flags.getvalue(), count)
    return pc.if_else(pc.equal(flags, _IS_THERE), found, _NO_OCTETS)


def _no_texts(count: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.nulls(count, pa.int32()), pa.array([], pa.string()))
