"""RESPONSE: one answer on its way back. wire.md 7.3.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|M|N| RESPONSE|   N key suffix present, M mapping
+-+-+-+---------+
% request id z32%   of the REQUEST on this transport
+---------------+
% key scope z16 %   0 without suffix is legal for ERR
+---------------+
~ [key suffix]  ~   if N
+---------------+
~ [extensions]  ~   if Z: QoS 0x21, Timestamp 0x42, ResponderId 0x43, TsStack 0x47
+---------------+
~ REPLY or ERR  ~
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.data import error, reply
from elea.wire.data.error import Err
from elea.wire.data.reply import Reply
from elea.wire.describe import add_extensions, key_tree
from elea.wire.dialect import Dialect
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Known, Tree, flags_of
from elea.wire.fields import QOS_DEFAULT, Stamp, WireExpr, key_flags, read_key, write_key
from elea.wire.shared_extensions import (
    QOS,
    TIMESTAMP,
    TS_STACK,
    EntityRef,
    TimestampStack,
    add_qos,
    add_timestamp,
    add_ts_stack,
    describe_entity,
    read_entity,
    read_qos,
    read_timestamp,
    read_ts_stack,
    write_entity,
)

ID: Final = 0x1B
NAME: Final = "RESPONSE"
FLAGS: Final = "ZMN"
RESPONDER: Final = 0x43
EXTENSIONS: Final = ExtensionTable(
    NAME, QOS, TIMESTAMP, Known(RESPONDER, "responder", describe_entity), TS_STACK
)


@dataclass(slots=True)
class Response:
    """One answer under way."""

    id: int
    key: WireExpr
    body: Reply | Err
    qos: int = QOS_DEFAULT
    responder: EntityRef | None = None
    timestamp: Stamp | None = None
    ts_stack: TimestampStack | None = None
    extras: Extras | None = None


def encode(writer: Writer, response: Response) -> None:
    """Write a RESPONSE."""
    chain = _chain(response)
    writer.u8(ID | key_flags(response.key) | flags_of(chain, response.extras))
    writer.z64(response.id)
    write_key(writer, response.key)
    chain.write(writer)
    if isinstance(response.body, Reply):
        reply.encode(writer, response.body)
    else:
        error.encode(writer, response.body)


def decode(reader: Reader, header: int) -> Response:
    """Read a RESPONSE after its header."""
    request_id = reader.z32("request id")
    key = read_key(reader, header)
    qos = QOS_DEFAULT
    responder: EntityRef | None = None
    timestamp: Stamp | None = None
    ts_stack: TimestampStack | None = None
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        kind = chain.header
        if kind == QOS.header:
            qos = read_qos(chain)
        elif kind == RESPONDER:
            body = chain.body()
            responder = read_entity(body)
            body.finish("responder id")
        elif kind == TIMESTAMP.header:
            timestamp = read_timestamp(chain)
        elif kind == TS_STACK.header and reader.dialect is Dialect.ECLIPSE:
            ts_stack = read_ts_stack(chain)
        else:
            chain.keep()
    extras = chain.extras()
    answer = _read_body(reader)
    return Response(request_id, key, answer, qos, responder, timestamp, ts_stack, extras)


def describe(response: Response) -> Tree:
    """A RESPONSE as a tree."""
    tree: Tree = {"msg": NAME, "id": response.id, "key": key_tree(response.key)}
    add_extensions(tree, _chain(response), EXTENSIONS, response.extras)
    body = response.body
    tree["body"] = reply.describe(body) if isinstance(body, Reply) else error.describe(body)
    return tree


def _read_body(reader: Reader) -> Reply | Err:
    header = reader.u8("header")
    kind = header & 0x1F
    trace = reader.trace
    body: Reply | Err
    if kind == reply.ID:
        if trace is not None:
            trace.header(reply.NAME, reply.FLAGS, header)
        body = reply.decode(reader, header)
    elif kind == error.ID:
        if trace is not None:
            trace.header(error.NAME, error.FLAGS, header)
        body = error.decode(reader, header)
    else:
        raise reader.error(f"RESPONSE holds REPLY (0x04) or ERR (0x05), got 0x{kind:02x}")
    if trace is not None:
        trace.leave()
    return body


def _chain(response: Response) -> Chain:
    chain = Chain(response.extras)
    add_qos(chain, response.qos)
    add_timestamp(chain, response.timestamp)
    if response.responder is not None:
        writer = Writer()
        write_entity(writer, response.responder.zid, response.responder.eid)
        chain.body(RESPONDER, writer)
    add_ts_stack(chain, response.ts_stack)
    return chain
