"""Rows of a log as samples; the other way is that of the recorder."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

import pyarrow as pa

from elea.encoding import Encoding
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.provenance import SourceInfo
from elea.store.log.schema import RowKind
from elea.timestamp import NTP64, Timestamp

_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
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


def compacted(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch whose dictionaries hold what its rows have, and no text of rows that were left out.

    Example:
        >>> texts = pa.array(["a", "secret"]).dictionary_encode()
        >>> batch = compacted(pa.record_batch({"key": texts}).slice(0, 1))
        >>> batch.column("key").dictionary.to_pylist()
        ['a']
    """
    columns = [
        one.dictionary_decode().dictionary_encode().cast(one.type)
        if pa.types.is_dictionary(one.type)
        else one
        for one in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


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


@lru_cache(4_096)
def _id(text: str) -> ZenohId:
    return ZenohId.parse(text)


@lru_cache(1_024)
def encoding_of(text: str) -> Encoding:
    """The encoding that a row names."""
    return Encoding(text)
