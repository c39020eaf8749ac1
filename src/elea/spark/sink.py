"""`write` and `writeStream`: rows become puts and deletes, by each task those of its partition.

A task that is tried again, on another host or after a restart of the query, sends its rows again.
So each sample tells its source: of a stream the query, batch and partition, of a batch the write
and partition; its number is that of the row. `elea.spark.once` and recorders drop what they had.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
)

from elea.errors import ConfigError, EleaError, LinkError
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.provenance import SampleKind, SourceInfo
from elea.qos import CongestionControl, Priority
from elea.session.handlers import Callback
from elea.session.neighbours import TransportEvent
from elea.session.session import Session, open
from elea.spark.options import Reach, Sink
from elea.spark.sessions import config_of
from elea.spark.tasks import settle
from elea.store.log.ranges import COLUMNS
from elea.store.log.schema import RowKind

_TEXT: Final = (StringType,)
_OCTETS: Final = (BinaryType, StringType)
_NUMBER: Final = (ByteType, ShortType, IntegerType, LongType)
_USED: Final[dict[str, tuple[type[DataType], ...]]] = {
    "key": _TEXT,
    "payload": _OCTETS,
    "kind": _NUMBER,
    "encoding": _TEXT,
    "attachment": _OCTETS,
}
_BARRIER: Final = "@elea/spark/barrier"  # nobody has to answer: the router says that itself
_NEEDED: Final = ("key", "payload")


@dataclass
class Sent(WriterCommitMessage):
    """What a task has sent."""

    puts_count: int
    deletes_count: int


class Writer(DataSourceArrowWriter):
    """`df.write`."""

    def __init__(self, options: Sink, schema: StructType) -> None:
        check_schema(schema)
        self._options = options
        self._write_id = uuid.uuid4().hex  # the same in every attempt of a task

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        return send(self._options, iterator, self._write_id, context.partitionId())


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def __init__(self, options: Sink, schema: StructType) -> None:
        check_schema(schema)
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:  # a later Spark may name them otherwise
            raise EleaError("Spark does not tell query and batch; repeats could not be told apart")
        return send(self._options, iterator, f"{query}/{batch}", context.partitionId())


def check_schema(schema: StructType) -> None:
    """Refuse rows that are no samples, on the driver.

    Raises:
        ConfigError: a column is missing, unknown or of a wrong type; it names the legal ones.
    """
    legal = ", ".join(
        f"{name} ({' or '.join(one().simpleString() for one in types)})"
        for name, types in _USED.items()
    )
    for name in _NEEDED:
        if name not in schema.fieldNames():
            raise ConfigError(f"column {name}", f"is missing; legal are {legal}")
    for field in schema.fields:
        types = _USED.get(field.name)
        if types is not None and not isinstance(field.dataType, types):
            seen = field.dataType.simpleString()
            raise ConfigError(f"column {field.name}", f"is {seen}; legal are {legal}")
        if types is None and field.name not in COLUMNS:  # others of a log's rows may stay
            raise ConfigError(f"column {field.name}", f"is unknown; legal are {legal}")


def send(
    options: Sink, batches: Iterator[pa.RecordBatch], origin: str, partition: int
) -> WriterCommitMessage:
    """Send the rows of a partition, in order, and return when the router has them.

    Raises:
        LinkError: the connection broke meanwhile, so that some may be lost: try again.
        EleaError: a row is no sample.
    """
    settle()
    zid = ZenohId(hashlib.sha256(origin.encode()).digest()[:15] + b"\x01")
    source = EntityGlobalId(zid, EntityId(partition))
    sent = Sent(0, 0)
    breaks: list[TransportEvent] = []
    with open(config_of(options.reach)) as session:
        session.info.declare_transport_events_listener(Callback(breaks.append, indirect=False))
        for batch in batches:
            _send_batch(session, options, batch, source, sent)
        _arrived(session, options.reach)
        is_broken = any(event.kind is SampleKind.DELETE for event in breaks)
        if is_broken or not session.info.transports():
            raise LinkError("the connection to the data space broke while rows were sent")
    return sent


def _arrived(session: Session, reach: Reach) -> None:
    """Wait until the router has what was sent: a question of the lowest priority comes after it.

    Raises:
        LinkError: the router does not say so.
    """
    for reply in session.get(_BARRIER, priority=Priority.BACKGROUND, timeout=reach.timeout_s):
        if reply.err is not None:
            text = reply.err.payload.to_bytes()[:200].decode("utf-8", "replace")
            raise LinkError(f"the router does not tell that it has what was sent: {text}")


def _send_batch(
    session: Session, options: Sink, batch: pa.RecordBatch, source: EntityGlobalId, sent: Sent
) -> None:
    columns = [_values(batch, name) for name in _USED]
    for key, payload, kind, encoding, attachment in zip(*columns, strict=True):
        number = sent.puts_count + sent.deletes_count
        if key is None:
            raise EleaError(f"row {number} of partition {source.eid} has no key")
        common: dict[str, Any] = {
            "attachment": attachment,
            "congestion_control": CongestionControl.BLOCK,
            "express": options.express,
            "source_info": SourceInfo(source, number),
        }
        if kind == RowKind.DELETE:
            session.delete(options.prefix + key, **common)
            sent.deletes_count += 1
            continue
        if kind not in (None, RowKind.PUT):
            reason = f"row {number} of partition {source.eid} is of kind {kind}"
            raise EleaError(f"{reason}; legal are 0 put, 1 delete: filter others out")
        if payload is None:
            raise EleaError(f"row {number} of partition {source.eid} has no payload")
        session.put(options.prefix + key, payload, encoding=encoding or options.encoding, **common)
        sent.puts_count += 1


def _values(batch: pa.RecordBatch, name: str) -> Sequence[Any]:
    if name not in batch.schema.names:
        return [None] * batch.num_rows
    values: list[Any] = batch.column(name).to_pylist()
    return values
