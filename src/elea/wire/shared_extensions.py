"""Extensions that several messages define: QoS, Timestamp, NodeId, TsStack, SourceInfo, Attachment.

Spec: wire.md 2.12 to 2.15 and 2.18. Their headers, bodies and descriptions; which message has which
stands in the message's own file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from elea.limits import TIMESTAMP_STACK_COUNT_MAX
from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import octets, stamp_tree
from elea.wire.extensions import Chain, ChainReader, Known, Tree, Value
from elea.wire.fields import QOS_DEFAULT, Stamp, read_stamp, read_zid, write_stamp

PRIORITY_NAMES: Final = (
    "Control",
    "RealTime",
    "InteractiveHigh",
    "InteractiveLow",
    "DataHigh",
    "Data",
    "DataLow",
    "Background",
)


@dataclass(slots=True)
class EntityRef:
    """An entity of a node: EntityGlobalId on the wire."""

    zid: bytes
    eid: int


@dataclass(slots=True)
class SourceRef:
    """Who produced a sample, and its number there: SourceInfo on the wire."""

    zid: bytes
    eid: int
    sn: int


@dataclass(slots=True)
class StackRecord:
    """One passage of an instrumented message: `stamp` is octets of the application if bit 7."""

    flags: int
    stamp: bytes


@dataclass(slots=True)
class TimestampStack:
    """The passages of an instrumented message, oldest first.

    They stay octets until they are asked for: most nodes only pass them on, and 255 of them would
    cost twenty times their length as objects.
    """

    conf_flags: int
    count: int
    packed: bytes

    @classmethod
    def of(cls, conf_flags: int, records: Iterable[StackRecord]) -> TimestampStack:
        """The stack of these passages."""
        writer = Writer()
        count = 0
        for one in records:
            writer.u8(one.flags)
            writer.block(one.stamp)
            count += 1
        return cls(conf_flags, count, writer.to_bytes())

    @property
    def records(self) -> Iterator[StackRecord]:
        """The passages, one by one."""
        reader = Reader(self.packed)
        return (_read_stack_record(reader) for _ in range(self.count))


# QoS of network messages.


def _describe_qos(value: Value, reader: Reader) -> Tree:
    assert isinstance(value, int)
    return {
        "priority": value & 0x07,
        "dont_drop": bool(value & 0x08),
        "express": bool(value & 0x10),
        "block_first": bool(value & 0x20),
    }


QOS: Final = Known(0x21, "qos", _describe_qos)


def read_qos(chain: ChainReader) -> int:
    """The QoS octet of a network message."""
    value = chain.bounded("QoS", 8, QOS_DEFAULT)
    if chain.reader.trace is not None:
        chain.reader.meaning(
            f"priority {value & 7} ({PRIORITY_NAMES[value & 7]}), "
            f"{'block' if value & 8 else 'block first' if value & 32 else 'drop'}"
            f"{', express' if value & 16 else ''}"
        )
    return value


def add_qos(chain: Chain, qos: int) -> None:
    """The QoS octet, unless it is the default."""
    chain.add(QOS.header, qos, present=qos != QOS_DEFAULT)


# Priority of transport messages.


def _describe_priority(value: Value, reader: Reader) -> Tree:
    assert isinstance(value, int)
    return {"priority": value & 0x07}


PRIORITY: Final = Known(0x31, "qos", _describe_priority)


# Timestamp of network messages.


def _describe_stamp(value: Value, reader: Reader) -> Tree:
    return stamp_tree(read_stamp(reader))


TIMESTAMP: Final = Known(0x42, "timestamp", _describe_stamp)


def read_timestamp(chain: ChainReader) -> Stamp:
    """A timestamp in an extension body."""
    body = chain.body()
    stamp = read_stamp(body)
    body.finish("timestamp extension")
    return stamp


def add_timestamp(chain: Chain, stamp: Stamp | None) -> None:
    """A timestamp, if there is one."""
    if stamp is not None:
        body = Writer()
        write_stamp(body, stamp)
        chain.body(TIMESTAMP.header, body)


# NodeId: the router at which a message entered the router network.


def describe_value(value: Value, reader: Reader) -> Tree:
    """An integer without further structure."""
    return {"value": value}


NODE_ID: Final = Known(0x33, "node_id", describe_value)


def read_node_id(chain: ChainReader) -> int:
    """The psid of the entry router in the sender's numbering; 0 is the sender itself."""
    return chain.bounded("node id", 16, 0)


def add_node_id(chain: Chain, node_id: int) -> None:
    """The NodeId, unless it is 0."""
    chain.add(NODE_ID.header, node_id, present=node_id != 0)


# TsStack: instrumentation.


def _read_stack(body: Reader) -> TimestampStack:
    conf_flags = body.u8("stack flags")
    if conf_flags == 0:
        raise body.error("timestamp stack flags must not be zero")
    count = body.z64("stack count")
    if count > TIMESTAMP_STACK_COUNT_MAX:
        raise body.error(
            f"a timestamp stack holds at most {TIMESTAMP_STACK_COUNT_MAX} records, got {count}"
        )
    start = body.pos
    for _ in range(count):
        _read_stack_record(body)
    body.finish("timestamp stack")
    return TimestampStack(conf_flags, count, body.data[start : body.pos])


def _read_stack_record(body: Reader) -> StackRecord:
    flags = body.u8("record flags")
    return StackRecord(flags, body.take(body.z64("record length"), "record timestamp"))


def _describe_stack(value: Value, reader: Reader) -> Tree:
    stack = _read_stack(reader)
    records: list[Tree] = [
        {"flags": one.flags, "timestamp": octets(one.stamp)} for one in stack.records
    ]
    return {"conf_flags": stack.conf_flags, "records": records}


TS_STACK: Final = Known(0x47, "ts_stack", _describe_stack)


def read_ts_stack(chain: ChainReader) -> TimestampStack:
    """The passages recorded so far."""
    return _read_stack(chain.body())


def add_ts_stack(chain: Chain, stack: TimestampStack | None) -> None:
    """The passages, if the message is instrumented."""
    if stack is None:
        return
    body = Writer()
    body.u8(stack.conf_flags)
    body.z64(stack.count)
    body.raw(stack.packed)
    chain.body(TS_STACK.header, body)


# Entities: ResponderId and SourceInfo.


def read_entity(body: Reader) -> EntityRef:
    """A zid and an entity id."""
    flags = body.u8("zid length")
    zid = read_zid(body, 1 + (flags >> 4))
    return EntityRef(zid, body.z32("entity id"))


def write_entity(writer: Writer, zid: bytes, eid: int) -> None:
    """A zid and an entity id."""
    writer.u8(len(zid) - 1 << 4)
    writer.raw(zid)
    writer.z64(eid)


def describe_entity(value: Value, reader: Reader) -> Tree:
    """An EntityGlobalId."""
    entity = read_entity(reader)
    return {"zid": entity.zid.hex(), "eid": entity.eid}


def _read_source(body: Reader) -> SourceRef:
    entity = read_entity(body)
    source = SourceRef(entity.zid, entity.eid, body.z32("source sn"))
    body.finish("source info")
    return source


def _describe_source(value: Value, reader: Reader) -> Tree:
    source = _read_source(reader)
    return {"zid": source.zid.hex(), "eid": source.eid, "sn": source.sn}


SOURCE_INFO: Final = Known(0x41, "source_info", _describe_source)


def read_source_info(chain: ChainReader) -> SourceRef:
    """Who produced the sample."""
    return _read_source(chain.body())


def add_source_info(chain: Chain, source: SourceRef | None) -> None:
    """Who produced the sample, if it says so."""
    if source is not None:
        body = Writer()
        write_source(body, source)
        chain.body(SOURCE_INFO.header, body)


def write_source(writer: Writer, source: SourceRef) -> None:
    """The body of SourceInfo."""
    write_entity(writer, source.zid, source.eid)
    writer.z64(source.sn)


# Attachment: its id differs per message.


def describe_octets(value: Value, reader: Reader) -> Tree:
    """A body without further structure."""
    assert isinstance(value, bytes)
    return {"value": octets(value)}


def attachment(header: int) -> Known:
    """The Attachment extension under a message's own id."""
    return Known(header, "attachment", describe_octets)


def add_attachment(chain: Chain, header: int, value: bytes | None) -> None:
    """An attachment, if there is one; an empty one is one."""
    if value is not None:
        chain.add(header, value)
