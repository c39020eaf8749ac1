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
from elea.store.log.schema import RowKind, from_columns, times_of
from elea.store.recorder.windows import NO_ROWS, Gap, Identity
from elea.timestamp import Timestamp

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
    return from_columns(zip(*map(_values, rows), strict=True)) if rows else NO_ROWS


def _values(row: Row) -> tuple[object, ...]:
    stamp = row.timestamp
    time_us, hlc = (None, None) if stamp is None else times_of(stamp.time.value)
    return (
        *(row.key, int(row.kind), row.payload, row.attachment, row.encoding),
        *(time_us, hlc, None if stamp is None else str(stamp.id)),
        *(row.identity or (None, None, None)),
        *(row.qos, row.received_us),
    )
