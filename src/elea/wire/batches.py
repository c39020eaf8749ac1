"""Whole batches and datagrams: to and from lists of messages, and as trees.

Lists are for tools and tests. A node decodes with `BatchDecoder`, one message at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from elea.limits import DEFAULT_LIMITS, Limits
from elea.wire.buffer import Reader, Writer
from elea.wire.codec import (
    BatchDecoder,
    Message,
    NetworkMessage,
)
from elea.wire.codec import encode as encode_message
from elea.wire.dialect import Dialect
from elea.wire.extensions import Tree
from elea.wire.network import (
    declare,
    interest,
    oam,
    push,
    request,
    response,
    response_final,
)
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest
from elea.wire.network.oam import Oam
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal
from elea.wire.scouting import hello, scout
from elea.wire.scouting.hello import Hello
from elea.wire.scouting.scout import Scout
from elea.wire.trace import Trace
from elea.wire.transport import close, fragment, frame, init, join, keepalive
from elea.wire.transport import oam as transport_oam
from elea.wire.transport import open as open_message
from elea.wire.transport.close import Close
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import Frame
from elea.wire.transport.init import Init
from elea.wire.transport.join import Join
from elea.wire.transport.keepalive import KeepAlive
from elea.wire.transport.oam import TransportOam
from elea.wire.transport.open import Open

ScoutingMessage = Scout | Hello


def decode_batch(
    data: bytes,
    *,
    limits: Limits = DEFAULT_LIMITS,
    dialect: Dialect = Dialect.ECLIPSE,
    bare: bool = False,
) -> list[Message]:
    """All messages of one batch.

    Raises:
        DecodeError: if the octets are no batch.

    Example:
        >>> decode_batch(bytes.fromhex("04"))
        [KeepAlive(extras=None)]
    """
    decoder = BatchDecoder(data, limits, dialect, None, bare)
    return list(iter(decoder.next, None))


def encode_batch(messages: Iterable[Message], *, dialect: Dialect = Dialect.ECLIPSE) -> bytes:
    """The octets of a batch that holds `messages`."""
    writer = Writer(dialect)
    for message in messages:
        encode_message(writer, message)
    return writer.to_bytes()


def decode_scouting(
    data: bytes,
    *,
    limits: Limits = DEFAULT_LIMITS,
    dialect: Dialect = Dialect.ECLIPSE,
    trace: Trace | None = None,
) -> ScoutingMessage:
    """The SCOUT or HELLO of one datagram; octets after it are ignored (wire.md 4)."""
    reader = Reader(data, limits=limits, dialect=dialect, trace=trace)
    header = reader.u8("header")
    kind = header & 0x1F
    message: ScoutingMessage
    if kind == scout.ID:
        if trace is not None:
            trace.header(scout.NAME, scout.FLAGS, header)
        message = scout.decode(reader, header)
    elif kind == hello.ID:
        if trace is not None:
            trace.header(hello.NAME, hello.FLAGS, header)
        message = hello.decode(reader, header)
    else:
        raise reader.error(f"0x{kind:02x} is no scouting message: SCOUT is 0x01, HELLO is 0x02")
    if trace is not None:
        trace.leave()
    return message


def encode_scouting(message: ScoutingMessage) -> bytes:
    """The datagram that holds a SCOUT or a HELLO."""
    writer = Writer()
    if isinstance(message, Scout):
        scout.encode(writer, message)
    else:
        hello.encode(writer, message)
    return writer.to_bytes()


def describe_batch(messages: Iterable[Message]) -> list[Tree]:
    """The messages of a batch as trees, those of a FRAME inside it."""
    return list(_describe_grouped(messages))


def describe_scouting(message: ScoutingMessage) -> Tree:
    """A SCOUT or a HELLO as a tree."""
    return scout.describe(message) if isinstance(message, Scout) else hello.describe(message)


def describe_network(message: NetworkMessage) -> Tree:
    """A network message as a tree."""
    match message:
        case Push():
            return push.describe(message)
        case Request():
            return request.describe(message)
        case Response():
            return response.describe(message)
        case ResponseFinal():
            return response_final.describe(message)
        case Declare():
            return declare.describe(message)
        case Interest():
            return interest.describe(message)
        case Oam():
            return oam.describe(message)
        case _:
            assert_never(message)


def _describe_grouped(messages: Iterable[Message]) -> Iterator[Tree]:
    payload: list[Tree] | None = None
    for message in messages:
        match message:
            case Frame():
                payload = []
                yield frame.describe(message, payload)
            case Push() | Request() | Response() | ResponseFinal() | Declare() | Interest() | Oam():
                tree = describe_network(message)
                if payload is None:
                    yield tree
                else:
                    payload.append(tree)
            case _:
                payload = None
                yield _describe_transport(message)


def _describe_transport(
    message: Init | Open | Close | KeepAlive | Fragment | TransportOam | Join,
) -> Tree:
    match message:
        case Init():
            return init.describe(message)
        case Open():
            return open_message.describe(message)
        case Close():
            return close.describe(message)
        case KeepAlive():
            return keepalive.describe(message)
        case Fragment():
            return fragment.describe(message)
        case TransportOam():
            return transport_oam.describe(message)
        case Join():
            return join.describe(message)
        case _:
            assert_never(message)
