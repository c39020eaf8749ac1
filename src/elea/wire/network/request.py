"""REQUEST: a query on its way to queryables. wire.md 7.2.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|M|N| REQUEST |   N key suffix present, M mapping
+-+-+-+---------+
% request id z32%   chosen by the sender of this hop
+---------------+
% key scope z16 %
+---------------+
~ [key suffix]  ~   if N
+---------------+
~ [extensions]  ~   if Z: QoS 0x21, Timestamp 0x42, NodeId 0x33, Target 0x34, Budget 0x25,
+---------------+         Timeout 0x26, TsStack 0x47
~ QUERY         ~
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.data import query as query_message
from elea.wire.data.query import Query
from elea.wire.describe import add_extensions, key_tree
from elea.wire.dialect import Dialect
from elea.wire.extensions import (
    Chain,
    ChainReader,
    ExtensionTable,
    Extras,
    Known,
    Tree,
    Value,
    flags_of,
)
from elea.wire.fields import QOS_DEFAULT, Stamp, WireExpr, key_flags, read_key, write_key
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
    describe_value,
    read_node_id,
    read_qos,
    read_timestamp,
    read_ts_stack,
)

ID: Final = 0x1C
NAME: Final = "REQUEST"
FLAGS: Final = "ZMN"
TARGET: Final = 0x34
BUDGET: Final = 0x25
TIMEOUT: Final = 0x26
TARGET_BEST_MATCHING: Final = 0
TARGET_NAMES: Final = ("best_matching", "all", "all_complete")


def _describe_target(value: Value, reader: Reader) -> Tree:
    assert isinstance(value, int)
    return {"value": value, "target": TARGET_NAMES[value]}


EXTENSIONS: Final = ExtensionTable(
    NAME,
    QOS,
    TIMESTAMP,
    Known(TARGET, "target", _describe_target),
    Known(BUDGET, "budget", describe_value),
    Known(TIMEOUT, "timeout", describe_value),
    NODE_ID,
    TS_STACK,
)


@dataclass(slots=True)
class Request:
    """A query under way. `budget` 0 means no limit; `timeout_ms` None the receiver's own."""

    id: int
    key: WireExpr
    body: Query
    qos: int = QOS_DEFAULT
    target: int = TARGET_BEST_MATCHING
    budget: int = 0
    timeout_ms: int | None = None
    timestamp: Stamp | None = None
    node_id: int = 0
    ts_stack: TimestampStack | None = None
    extras: Extras | None = None


def encode(writer: Writer, request: Request) -> None:
    """Write a REQUEST."""
    chain = _chain(request)
    writer.u8(ID | key_flags(request.key) | flags_of(chain, request.extras))
    writer.z64(request.id)
    write_key(writer, request.key)
    chain.write(writer)
    query_message.encode(writer, request.body)


def decode(reader: Reader, header: int) -> Request:
    """Read a REQUEST after its header."""
    request = Request(reader.z32("request id"), read_key(reader, header), Query())
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        kind = chain.header
        if kind == QOS.header:
            request.qos = read_qos(chain)
        elif kind == TARGET:
            request.target = _read_target(chain)
        elif kind == TIMEOUT:
            request.timeout_ms = chain.z64("timeout, milliseconds")
        elif kind == BUDGET:
            request.budget = chain.bounded("budget", 32, 0)
        elif kind == NODE_ID.header:
            request.node_id = read_node_id(chain)
        elif kind == TIMESTAMP.header:
            request.timestamp = read_timestamp(chain)
        elif kind == TS_STACK.header and reader.dialect is Dialect.ECLIPSE:
            request.ts_stack = read_ts_stack(chain)
        else:
            chain.keep()
    request.extras = chain.extras()
    body_header = reader.u8("header")
    if body_header & 0x1F != query_message.ID:
        raise reader.error(f"REQUEST holds QUERY (0x03), got 0x{body_header & 0x1F:02x}")
    if reader.trace is not None:
        reader.trace.header(query_message.NAME, query_message.FLAGS, body_header)
    request.body = query_message.decode(reader, body_header)
    if reader.trace is not None:
        reader.trace.leave()
    return request


def describe(request: Request) -> Tree:
    """A REQUEST as a tree."""
    tree: Tree = {"msg": NAME, "id": request.id, "key": key_tree(request.key)}
    add_extensions(tree, _chain(request), EXTENSIONS, request.extras)
    tree["body"] = query_message.describe(request.body)
    return tree


def _read_target(chain: ChainReader) -> int:
    target = chain.z64("target", TARGET_BEST_MATCHING)
    if target >= len(TARGET_NAMES):
        raise chain.reader.error(f"target is {target}, legal are 0 to {len(TARGET_NAMES) - 1}")
    chain.reader.meaning(TARGET_NAMES[target])
    return target


def _chain(request: Request) -> Chain:
    chain = Chain(request.extras)
    add_qos(chain, request.qos)
    add_timestamp(chain, request.timestamp)
    chain.add(TARGET, request.target, present=request.target != TARGET_BEST_MATCHING)
    chain.add(BUDGET, request.budget, present=request.budget != 0)
    if request.timeout_ms is not None:
        chain.add(TIMEOUT, request.timeout_ms)
    add_node_id(chain, request.node_id)
    add_ts_stack(chain, request.ts_stack)
    return chain
