"""PUSH: a PUT or a DEL on its way to subscribers. wire.md 7.1.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|M|N|  PUSH   |   N key suffix present, M mapping
+-+-+-+---------+
% key scope z16 %
+---------------+
~ [key suffix]  ~   if N: <utf8;z16>
+---------------+
~ [extensions]  ~   if Z: QoS 0x21, Timestamp 0x42, NodeId 0x33, TsStack 0x47
+---------------+
~ PUT or DEL    ~
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.hints import mypyc_attr
from elea.wire.buffer import Reader, Writer
from elea.wire.data import sample
from elea.wire.data.delete import Del
from elea.wire.data.put import ID as PUT_ID
from elea.wire.data.put import Put
from elea.wire.data.put import decode as decode_put
from elea.wire.data.put import encode as encode_put
from elea.wire.describe import add_extensions, key_tree
from elea.wire.dialect import Dialect
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Tree, flags_of
from elea.wire.fields import (
    FLAG_Z,
    QOS_DEFAULT,
    Stamp,
    WireExpr,
    key_flags,
    read_key,
    write_key,
)
from elea.wire.shared_extensions import (
    NODE_ID,
    QOS,
    TIMESTAMP,
    TS_STACK,
    TimestampStack,
    add_node_id,
    add_qos,
    add_timestamp,
    add_ts_stack,
    read_node_id,
    read_qos,
    read_timestamp,
    read_ts_stack,
)

ID: Final = 0x1D
NAME: Final = "PUSH"
FLAGS: Final = "ZMN"
EXTENSIONS: Final = ExtensionTable(NAME, QOS, TIMESTAMP, NODE_ID, TS_STACK)
_QOS_ALONE: Final = 0x21  # the QoS extension, none after it


@mypyc_attr(acyclic=True)
class Push:
    """A sample under way. `timestamp` is the network's; the sample's own stands in its body."""

    __slots__ = ("body", "extras", "key", "node_id", "qos", "timestamp", "ts_stack")

    def __init__(
        self,
        key: WireExpr,
        body: Put | Del,
        qos: int = QOS_DEFAULT,
        timestamp: Stamp | None = None,
        node_id: int = 0,
        ts_stack: TimestampStack | None = None,
        extras: Extras | None = None,
    ) -> None:
        self.key = key
        self.body = body
        self.qos = qos
        self.timestamp = timestamp
        self.node_id = node_id
        self.ts_stack = ts_stack
        self.extras = extras

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Push)
            and self.key == other.key
            and self.body == other.body
            and self.qos == other.qos
            and self.timestamp == other.timestamp
            and self.node_id == other.node_id
            and self.ts_stack == other.ts_stack
            and self.extras == other.extras
        )

    def __hash__(self) -> int:
        raise TypeError("messages are not hashable")

    def __repr__(self) -> str:
        return (
            f"Push({self.key!r}, {self.body!r}, qos=0x{self.qos:02x}, "
            f"timestamp={self.timestamp!r}, node_id={self.node_id}, "
            f"ts_stack={self.ts_stack!r}, extras={self.extras!r})"
        )


def encode(writer: Writer, push: Push) -> None:
    """Write a PUSH."""
    key = push.key
    header = ID | key_flags(key)
    if (
        push.timestamp is None
        and push.node_id == 0
        and push.ts_stack is None
        and push.extras is None
    ):
        if push.qos == QOS_DEFAULT:
            writer.u8(header)
            write_key(writer, key)
        else:
            writer.u8(header | FLAG_Z)
            write_key(writer, key)
            writer.u8(_QOS_ALONE)
            writer.z64(push.qos)
    else:
        chain = _chain(push)
        writer.u8(header | flags_of(chain, push.extras))
        write_key(writer, key)
        chain.write(writer)
    body = push.body
    if isinstance(body, Put):
        encode_put(writer, body)
    else:
        sample.encode(writer, body)


def decode(reader: Reader, header: int) -> Push:
    """Read a PUSH after its header."""
    key = read_key(reader, header)
    if header & FLAG_Z:
        return _decode_extended(reader, header, key)
    if reader.trace is None and reader.peek() & 0x1F == PUT_ID:
        return Push(key, decode_put(reader, reader.u8("header")))
    return Push(key, sample.decode(reader, NAME))


def describe(push: Push) -> Tree:
    """A PUSH as a tree."""
    tree: Tree = {"msg": NAME, "key": key_tree(push.key)}
    add_extensions(tree, _chain(push), EXTENSIONS, push.extras)
    tree["body"] = sample.describe(push.body)
    return tree


def _decode_extended(reader: Reader, header: int, key: WireExpr) -> Push:
    if reader.trace is None and reader.peek() == _QOS_ALONE:
        start = reader.pos
        reader.u8("extension")
        qos = reader.z64("QoS")
        if qos != QOS_DEFAULT and qos <= 0xFF:
            return Push(key, sample.decode(reader, NAME), qos)
        # Written out although it is the default, or too wide: the general path knows what to do.
        reader.pos = start
    chain = ChainReader(reader, EXTENSIONS, header)
    qos = QOS_DEFAULT
    timestamp: Stamp | None = None
    node_id = 0
    ts_stack: TimestampStack | None = None
    while chain.next():
        kind = chain.header
        if kind == 0x21:
            qos = read_qos(chain)
        elif kind == 0x33:
            node_id = read_node_id(chain)
        elif kind == 0x42:
            timestamp = read_timestamp(chain)
        elif kind == 0x47 and reader.dialect is Dialect.ECLIPSE:
            ts_stack = read_ts_stack(chain)
        else:
            chain.keep()
    extras = chain.extras()
    return Push(key, sample.decode(reader, NAME), qos, timestamp, node_id, ts_stack, extras)


def _chain(push: Push) -> Chain:
    chain = Chain(push.extras)
    add_qos(chain, push.qos)
    add_timestamp(chain, push.timestamp)
    add_node_id(chain, push.node_id)
    add_ts_stack(chain, push.ts_stack)
    return chain
