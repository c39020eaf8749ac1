"""Rows as samples: a key made of columns, and the row as JSON or CBOR."""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from elea.cbor import dumps
from elea.decode.plain import plain
from elea.errors import EleaError
from elea.keyexpr.template import KeyFormat
from elea.spark.options import Options
from elea.spark.pipelines.definition import Pipeline, Publish

_LOG: Final = logging.getLogger("elea.spark")

# What a sink takes.
SAMPLES: Final = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("payload", pa.binary()),
        pa.field("encoding", pa.string()),
    ]
)
SQL: Final = "`key` STRING, `payload` BINARY, `encoding` STRING"
ENCODINGS: Final = {"json": "application/json", "cbor": "application/cbor"}
_SHOWN: Final = 3  # rows without a key that are told of, in each batch


def samples(rows: pa.Table | pa.RecordBatch, publish: Publish) -> pa.RecordBatch:
    """Rows as a sink takes them, by key and time; those without a key are told of."""
    format = KeyFormat(publish.key)
    encoding = ENCODINGS[publish.encoding]
    times = [one.name for one in rows.schema if pa.types.is_timestamp(one.type)]
    found: list[tuple[str, list[float], bytes]] = []
    dropped: list[str] = []
    for row in rows.to_pylist():
        try:
            key = str(format.build(**{name: _text(row, name) for name in format.fields}))
        except EleaError as error:
            dropped.append(str(error))
            continue
        found.append((key, [_seconds(row[name]) for name in times], payload(row, publish.encoding)))
    for reason in dropped[:_SHOWN]:
        _LOG.error("a row has no key of %s: %s", publish.key, reason)
    if len(dropped) > _SHOWN:
        _LOG.error("%d rows have no key of %s", len(dropped), publish.key)
    found.sort()  # who subscribes to a key is told in the order of time, each time the same
    return pa.RecordBatch.from_arrays(
        [
            pa.array([key for key, _, _ in found], pa.string()),
            pa.array([octets for _, _, octets in found], pa.binary()),
            pa.array([encoding] * len(found), pa.string()),
        ],
        schema=SAMPLES,
    )


def send_rows(
    pipeline: Pipeline,
    table: str,
    publish: Publish,
    rows: pa.Table,
    change: str,
    at_ns: int | None = None,
) -> int:
    """Send rows, and return when the router, or with `ack` a recorder, has them; how many.

    Their source is made of the table, the change and what the rows are, and they are numbered: who
    is told of the same change again drops them, as `elea.spark.once` and recorders do.

    Args:
        change: Of the table, that brought the rows.
        at_ns: The time of the change, the same whenever it is sent.

    Raises:
        LinkError: the router cannot be reached, or the connection broke.
        StoreError: with `ack`: no recorder acknowledged them.
    """
    from elea.spark.sink import send  # late: it needs Spark

    batch = samples(rows, publish)
    if not batch.num_rows:
        return 0
    digest = hashlib.sha256()
    for column in batch.columns[:2]:
        for value in column.to_pylist():
            digest.update(value if isinstance(value, bytes) else value.encode())
    # What the rows are tells apart the changes of a table that was removed and made anew.
    origin = f"{pipeline.name}/{table}/{change}/{digest.hexdigest()}"
    options = Options(sink_options(pipeline, publish)).sink()
    send(options, iter([batch]), origin, 0, at_ns=at_ns)
    return len(batch)


def sink_options(pipeline: Pipeline, publish: Publish) -> dict[str, str]:
    """Options of the sink. Rows come in the same order in every attempt."""
    return {
        **pipeline.reach(),
        "express": str(publish.express).lower(),
        "ack": publish.ack,
        "numbering": "position",
    }


def payload(row: Mapping[str, object], encoding: str) -> bytes:
    """A row as the octets of a sample.

    Example:
        >>> payload({"robot": "r1", "ax": 1.5}, "json")
        b'{"robot":"r1","ax":1.5}'
    """
    shown = plain(dict(row), cbor=encoding == "cbor", zone=UTC)
    if encoding == "cbor":
        return dumps(shown)
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False).encode()


def _seconds(moment: datetime | None) -> float:
    if moment is None:
        return -math.inf
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def _text(row: Mapping[str, object], name: str) -> str:
    """The value of a column as a part of a key.

    Raises:
        EleaError: it is null, or there is no such column.
    """
    value = row.get(name)
    if value is None:
        reason = "is null" if name in row else f"is none of {', '.join(row)}"
        raise EleaError(f"{name} {reason}")
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else str(value)
