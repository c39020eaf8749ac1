"""Rows of a log as samples, and samples as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa

from elea.encoding import Encoding
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.provenance import SampleKind, SourceInfo
from elea.qos import QoS
from elea.sample import Sample
from elea.store.log.schema import SCHEMA, TEXTS, TIME, RowKind
from elea.timestamp import NTP64, Timestamp

_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_SIGN: Final = 1 << 63
_MICROSECONDS: Final = 1_000_000
_COLUMNS: Final = (
    *("key", "kind", "payload", "attachment", "encoding"),
    *("hlc", "hlc_id", "zid", "eid", "sn", "qos"),
)


class Row(NamedTuple):
    """One row, in the values that applications know."""

    key: str
    kind: RowKind
    payload: bytes
    attachment: bytes | None
    encoding: Encoding
    timestamp: Timestamp | None
    source_info: SourceInfo | None
    qos: int  # as one octet


def samples_of(batch: pa.RecordBatch | pa.Table) -> Iterator[Row]:
    """The rows of a batch, one by one."""
    columns = [batch.column(name).to_pylist() for name in _COLUMNS]
    for key, kind, payload, attachment, encoding, hlc, clock, zid, eid, sn, qos in zip(
        *columns, strict=True
    ):
        stamp = source = None
        if hlc is not None and clock is not None:
            stamp = Timestamp(NTP64.from_value(hlc & _MASK), _id(clock))
        if zid is not None and eid is not None and sn is not None:
            source = SourceInfo(EntityGlobalId(_id(zid), EntityId(eid)), sn)
        yield Row(
            *(key, RowKind(kind), payload, attachment, encoding_of(encoding), stamp, source),
            qos & 0xFF,
        )


def batch_of(samples: Sequence[Sample], received_ns: Iterable[int]) -> pa.RecordBatch:
    """Samples as rows of `SCHEMA`; `received_ns` is when each came, since 1970."""
    stamps = [sample.timestamp for sample in samples]
    sources = [sample.source_info for sample in samples]
    attachments = [sample.attachment for sample in samples]
    bits = [None if one is None else one.time.value for one in stamps]
    octets = [
        QoS(sample.priority, sample.congestion_control, sample.express).to_octet()
        for sample in samples
    ]
    return pa.RecordBatch.from_arrays(
        [
            _texts([sample.key_text for sample in samples]),
            pa.array([int(sample.kind is SampleKind.DELETE) for sample in samples], pa.int8()),
            pa.array([sample.payload.to_bytes() for sample in samples], pa.binary()),
            pa.array([None if a is None else a.to_bytes() for a in attachments], pa.binary()),
            _texts([str(sample.encoding) for sample in samples]),
            _times([None if b is None else b * _MICROSECONDS >> 32 for b in bits]),
            pa.array([None if b is None else (b ^ _SIGN) - _SIGN for b in bits], pa.int64()),
            _texts([None if one is None else str(one.id) for one in stamps]),
            _texts([None if one is None else str(one.source_id.zid) for one in sources]),
            pa.array([None if s is None else s.source_id.eid for s in sources], pa.int64()),
            pa.array([None if s is None else s.source_sn for s in sources], pa.int64()),
            pa.array([octet - (octet >> 7 << 8) for octet in octets], pa.int8()),
            _times([ns // 1_000 for ns in received_ns]),
        ],
        schema=SCHEMA,
    )


def _texts(values: Iterable[str | None]) -> pa.Array:
    return pa.array(values, pa.string()).dictionary_encode().cast(TEXTS)


def _times(microseconds: list[int | None] | list[int]) -> pa.Array:
    return pa.array(microseconds, pa.int64()).view(TIME)


@lru_cache(4_096)
def _id(text: str) -> ZenohId:
    return ZenohId.parse(text)


@lru_cache(1_024)
def encoding_of(text: str) -> Encoding:
    """The encoding that a row names."""
    return Encoding(text)
