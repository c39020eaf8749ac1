"""`write` and `writeStream`: rows become puts and deletes, by each task those of its partition.

A task that is tried again, on another host or after a restart of the query, sends its rows again.
So each sample tells its source: of a stream the query, batch and partition, of a batch the write
and partition; its number and timestamp are made of the row, see `identity`. `elea.spark.once` and
recorders drop what they had. With `ack` = `stored` rows are sent until a recorder has them.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
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

from elea.errors import (
    ConfigError,
    EleaError,
    LimitError,
    LinkError,
    NotRecordedError,
    NotStoredError,
)
from elea.provenance import SampleKind
from elea.qos import CongestionControl, Priority
from elea.session.handlers import Callback
from elea.session.neighbours import TransportEvent
from elea.session.publication import entry_of
from elea.session.session import Session, open
from elea.spark.acknowledged import Acknowledged
from elea.spark.identity import Number, Origin, Row, batch_time_ns, numbered
from elea.spark.options import Reach, Sink
from elea.spark.sessions import check_reached, config_of
from elea.spark.tasks import settle, told_briefly
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


@dataclass
class Failed(WriterCommitMessage):
    """Why a task could not send its rows, nor another attempt could: Spark would try four times."""

    text: str


class Writer(DataSourceArrowWriter):
    """`df.write`."""

    def __init__(self, options: Sink, schema: StructType) -> None:
        check_schema(schema)
        check_reached(options.reach)
        self._options = options
        # The same in every attempt of a task.
        self._write_id = uuid.uuid4().hex
        self._at_ns = time.time_ns()

    @told_briefly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        return _tried(self._options, iterator, self._write_id, partition, self._at_ns)

    @told_briefly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        _check_sent(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream`."""

    def __init__(self, options: Sink, schema: StructType) -> None:
        check_schema(schema)
        check_reached(options.reach)
        self._options = options

    @told_briefly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or batch is None:  # a later Spark may name them otherwise
            raise EleaError("Spark does not tell query and batch; repeats could not be told apart")
        checkpoint = self._options.checkpoint
        at_ns = None if checkpoint is None else batch_time_ns(checkpoint, int(batch))
        origin = f"{query}/{batch}"
        return _tried(self._options, iterator, origin, context.partitionId(), at_ns)

    @told_briefly
    def commit(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: N803 - Spark's name
    ) -> None:
        _check_sent(messages)


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


def _tried(
    options: Sink,
    batches: Iterator[pa.RecordBatch],
    origin: str,
    partition: int,
    at_ns: int | None,
) -> WriterCommitMessage:
    """The same as `send`; an error that would come again is told to the driver, not raised."""
    try:
        return send(options, batches, origin, partition, at_ns=at_ns)
    except EleaError as error:
        if not _is_final(error):
            raise
        return Failed(str(error))


def _is_final(error: EleaError) -> bool:
    """Whether another attempt would fail, too: a row is no sample, or there is no recorder."""
    if isinstance(error, (ValueError, LimitError, NotStoredError)) or type(error) is EleaError:
        return True
    return isinstance(error.__cause__, NotRecordedError)


def _check_sent(messages: list[WriterCommitMessage | None]) -> None:
    """On the driver.

    Raises:
        EleaError: a task could not send its rows.
    """
    failed = [one.text for one in messages if isinstance(one, Failed)]
    if failed:
        more = f" (and {len(failed) - 1} more partitions)" if len(failed) > 1 else ""
        raise EleaError(f"{failed[0]}{more}")


def send(
    options: Sink,
    batches: Iterator[pa.RecordBatch],
    origin: str,
    partition: int,
    *,
    at_ns: int | None = None,
) -> WriterCommitMessage:
    """Send the rows of a partition, in order, and return when the router has them.

    With `ack` = `stored` it returns when recorders have them.

    Args:
        origin: What the rows are of, the same in every attempt.
        at_ns: The time of rows that have none, the same in every attempt.

    Raises:
        LinkError: the connection broke meanwhile, so that some may be lost: try again.
        StoreError: no recorder has some of them, or one refused them.
        EleaError: a row is no sample.
    """
    settle()
    known = Origin(origin, partition, at_ns)
    rows = numbered(batches, options.numbering)
    with open(config_of(options.reach)) as session:
        if options.ack == "stored":
            return _send_stored(session, options, rows, known)
        return _send(session, options, rows, known)


def _send(
    session: Session, options: Sink, rows: Iterator[tuple[Number, Row]], origin: Origin
) -> WriterCommitMessage:
    sent = Sent(0, 0)
    breaks: list[TransportEvent] = []
    session.info.declare_transport_events_listener(Callback(breaks.append, indirect=False))
    for number, row in rows:
        _check(row, sent, origin)
        common: dict[str, Any] = {
            "attachment": row.attachment,
            "congestion_control": CongestionControl.BLOCK,
            "express": options.express,
            "source_info": origin.source(number),
            "timestamp": origin.stamp(row, number),
        }
        key = f"{options.prefix}{row.key}"
        if row.kind == RowKind.DELETE:
            session.delete(key, **common)
            sent.deletes_count += 1
        else:
            assert row.payload is not None
            session.put(key, row.payload, encoding=row.encoding or options.encoding, **common)
            sent.puts_count += 1
    _arrived(session, options.reach)
    is_broken = any(event.kind is SampleKind.DELETE for event in breaks)
    if is_broken or not session.info.transports():
        raise LinkError("the connection to the data space broke while rows were sent")
    return sent


def _send_stored(
    session: Session, options: Sink, rows: Iterator[tuple[Number, Row]], origin: Origin
) -> WriterCommitMessage:
    """The same, until recorders have them; connections may break and come back."""
    sent = Sent(0, 0)
    acknowledged = Acknowledged(session, str(origin.zid), options.reach.timeout_s)
    for number, row in rows:
        _check(row, sent, origin)
        is_delete = row.kind == RowKind.DELETE
        source = origin.source(number)
        entry = entry_of(
            f"{options.prefix}{row.key}",
            None if is_delete else row.payload,
            encoding=row.encoding or options.encoding,
            attachment=row.attachment,
            timestamp=origin.stamp(row, number),
            source_info=source,
            express=options.express,
        )
        acknowledged.put(entry, source)
        sent.deletes_count += is_delete
        sent.puts_count += not is_delete
    acknowledged.finish()
    return sent


def _check(row: Row, sent: Sent, origin: Origin) -> None:
    place = f"row {sent.puts_count + sent.deletes_count} of partition {origin.partition}"
    if row.key is None:
        raise EleaError(f"{place} has no key")
    if row.kind not in (None, RowKind.PUT, RowKind.DELETE):
        raise EleaError(
            f"{place} is of kind {row.kind}; legal are 0 put, 1 delete: filter others out"
        )
    if row.payload is None and row.kind != RowKind.DELETE:
        raise EleaError(f"{place} has no payload")


def _arrived(session: Session, reach: Reach) -> None:
    """Wait until the router has what was sent: a question of the lowest priority comes after it.

    Raises:
        LinkError: the router does not say so.
    """
    for reply in session.get(_BARRIER, priority=Priority.BACKGROUND, timeout=reach.timeout_s):
        if reply.err is not None:
            text = reply.err.payload.to_bytes()[:200].decode("utf-8", "replace")
            raise LinkError(f"the router does not tell that it has what was sent: {text}")
