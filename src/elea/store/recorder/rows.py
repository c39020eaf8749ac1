"""Rows one by one: samples that came as objects, and what the recorder itself has to tell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from elea.encoding import Encoding
from elea.provenance import SampleKind
from elea.qos import CongestionControl, Priority
from elea.sample import Sample
from elea.session.convert import qos_octet
from elea.store.log.schema import SCHEMA, TEXTS, TIME, RowKind
from elea.store.recorder.windows import Gap, Identity
from elea.timestamp import Timestamp

_MICROSECONDS: Final = 1_000_000
_FRACTION: Final = 0xFFFF_FFFF
_SIGN: Final = 1 << 63
_COUNT: Final = str(Encoding.TEXT_PLAIN)  # of gaps and drops: how many, in decimal
_QOS: Final = qos_octet(None, None, None)
_SN_MASK: Final = 0xFFFF_FFFF


class Row(NamedTuple):
    """A row of a log that does not come in a batch."""

    key: str
    kind: RowKind
    payload: bytes
    received_us: int
    attachment: bytes | None = None
    encoding: str = str(Encoding.ZENOH_BYTES)
    timestamp: Timestamp | None = None
    identity: Identity | None = None
    qos: int = _QOS


def sample_row(sample: Sample, received_us: int) -> Row:
    """A sample, as it was received."""
    info, attachment = sample.source_info, sample.attachment
    return Row(
        sample.key_text,
        RowKind.DELETE if sample.kind is SampleKind.DELETE else RowKind.PUT,
        sample.payload.to_bytes(),
        received_us,
        None if attachment is None else attachment.to_bytes(),
        str(sample.encoding),
        sample.timestamp,
        None
        if info is None
        else Identity(str(info.source_id.zid), info.source_id.eid, info.source_sn),
        qos_of(sample.priority, sample.congestion_control, express=sample.express),
    )


def qos_of(priority: Priority, congestion_control: CongestionControl, *, express: bool) -> int:
    """The octet of the column `qos`."""
    return qos_octet(priority, congestion_control, express) & 0x7F


def token_row(key: str, received_us: int, *, is_there: bool) -> Row:
    """A liveliness token came or went."""
    kind = RowKind.TOKEN_PUT if is_there else RowKind.TOKEN_DELETE
    return Row(key, kind, b"", received_us)


def gap_row(gap: Gap, received_us: int) -> Row:
    """Samples of a publisher that nobody has, one number after the other."""
    identity = Identity(*gap.source, gap.start & _SN_MASK)
    payload = str(gap.end - gap.start).encode()
    return Row(gap.key, RowKind.GAP, payload, received_us, encoding=_COUNT, identity=identity)


def drop_row(key: str, count: int, received_us: int) -> Row:
    """Samples that were received, and could not be recorded."""
    return Row(key, RowKind.DROP, str(count).encode(), received_us, encoding=_COUNT)


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as a batch of `SCHEMA`."""
    stamps = [row.timestamp for row in rows]
    bits = [None if stamp is None else stamp.time.value for stamp in stamps]
    zids, eids, sns = zip(*(row.identity or (None, None, None) for row in rows), strict=True)
    columns: tuple[Sequence[object], ...] = (
        [row.key for row in rows],
        [int(row.kind) for row in rows],
        [row.payload for row in rows],
        [row.attachment for row in rows],
        [row.encoding for row in rows],
        [None if one is None else _microseconds(one) for one in bits],
        [None if one is None else one - 2 * (one & _SIGN) for one in bits],
        [None if stamp is None else str(stamp.id) for stamp in stamps],
        zids,
        eids,
        sns,
        [row.qos for row in rows],
        [row.received_us for row in rows],
    )
    return pa.RecordBatch.from_arrays(
        [_array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)],
        schema=SCHEMA,
    )


def _array(values: Sequence[object], type: pa.DataType) -> pa.Array:
    if type == TEXTS:
        return pa.array(values, pa.string()).dictionary_encode()
    if type == TIME:
        return pa.array(values, pa.int64()).view(TIME)
    return pa.array(values, type)


def _microseconds(bits: int) -> int:
    return (bits >> 32) * _MICROSECONDS + (((bits & _FRACTION) * _MICROSECONDS) >> 32)
