"""Which module decodes and encodes which message; batches, one message at a time.

A batch is a flat sequence: transport messages, and after each FRAME the network messages it
carries. `BatchDecoder` yields them one by one, because a batch of two-octet messages would cost
tens of times its length if all its objects lived at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.limits import DEFAULT_LIMITS, Limits
from elea.wire.buffer import Reader, Writer
from elea.wire.dialect import Dialect
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
from elea.wire.network.push import decode as decode_push
from elea.wire.network.push import encode as encode_push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal
from elea.wire.trace import Trace
from elea.wire.transport import close, fragment, frame, init, join, keepalive
from elea.wire.transport import oam as transport_oam
from elea.wire.transport import open as open_message
from elea.wire.transport.close import Close
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import Frame
from elea.wire.transport.frame import decode as decode_frame
from elea.wire.transport.init import Init
from elea.wire.transport.join import Join
from elea.wire.transport.keepalive import KeepAlive
from elea.wire.transport.oam import TransportOam
from elea.wire.transport.open import Open

NetworkMessage = Push | Request | Response | ResponseFinal | Declare | Interest | Oam
TransportMessage = Init | Open | Close | KeepAlive | Frame | Fragment | TransportOam | Join
Message = NetworkMessage | TransportMessage

# Network ids and transport ids are disjoint: that is how the end of a FRAME is recognised.
NETWORK_ID_MIN: Final = 0x19
_ID_MASK: Final = 0x1F
_ID_PUSH: Final = 0x1D
_ID_FRAME: Final = 0x05

NETWORK: Final[dict[int, tuple[str, str, Callable[[Reader, int], NetworkMessage]]]] = {
    push.ID: (push.NAME, push.FLAGS, push.decode),
    request.ID: (request.NAME, request.FLAGS, request.decode),
    response.ID: (response.NAME, response.FLAGS, response.decode),
    response_final.ID: (response_final.NAME, response_final.FLAGS, response_final.decode),
    declare.ID: (declare.NAME, declare.FLAGS, declare.decode),
    interest.ID: (interest.NAME, interest.FLAGS, interest.decode),
    oam.ID: (oam.NAME, oam.FLAGS, oam.decode),
}

TRANSPORT: Final[dict[int, tuple[str, str, Callable[[Reader, int], TransportMessage]]]] = {
    transport_oam.ID: (transport_oam.NAME, transport_oam.FLAGS, transport_oam.decode),
    init.ID: ("INIT", init.FLAGS, init.decode),
    open_message.ID: ("OPEN", open_message.FLAGS, open_message.decode),
    close.ID: (close.NAME, close.FLAGS, close.decode),
    keepalive.ID: (keepalive.NAME, keepalive.FLAGS, keepalive.decode),
    frame.ID: (frame.NAME, frame.FLAGS, frame.decode),
    fragment.ID: (fragment.NAME, fragment.FLAGS, fragment.decode),
    join.ID: (join.NAME, join.FLAGS, join.decode),
}


def decode_network(reader: Reader) -> NetworkMessage:
    """Read one network message, header included."""
    header = reader.u8("header")
    kind = header & _ID_MASK
    if reader.trace is None:
        if kind == _ID_PUSH:
            return decode_push(reader, header)
        entry = NETWORK.get(kind)
        if entry is None:
            raise reader.error(f"0x{kind:02x} is no network message")
        return entry[2](reader, header)
    entry = NETWORK.get(kind)
    if entry is None:
        raise reader.error(f"0x{kind:02x} is no network message")
    reader.trace.header(entry[0], entry[1], header)
    message = entry[2](reader, header)
    reader.trace.leave()
    return message


def decode_transport(reader: Reader) -> TransportMessage:
    """Read one transport message, header included; a FRAME up to its first network message."""
    header = reader.u8("header")
    kind = header & _ID_MASK
    if reader.trace is None and kind == _ID_FRAME:
        return decode_frame(reader, header)
    entry = TRANSPORT.get(kind)
    if entry is None:
        raise reader.error(f"0x{kind:02x} is no transport message")
    if reader.trace is not None:
        reader.trace.header(entry[0], entry[1], header)
    message = entry[2](reader, header)
    if reader.trace is not None:
        reader.trace.leave()
    return message


def decode_one(
    data: bytes, limits: Limits = DEFAULT_LIMITS, dialect: Dialect = Dialect.ECLIPSE
) -> NetworkMessage:
    """The network message that `data` holds, as reassembled from fragments.

    Octets after it are ignored (wire.md 5.10).
    """
    return decode_network(Reader(data, 0, -1, limits, dialect))


def encode_one(message: Message, dialect: Dialect = Dialect.ECLIPSE) -> bytes:
    """The octets of one message."""
    writer = Writer(dialect)
    encode(writer, message)
    return writer.to_bytes()


class BatchDecoder:
    """Decodes one batch, message by message.

    `bare` allows network messages outside a FRAME, as low-latency transports send them. Octets
    after an INIT or OPEN are ignored, as every node does; `ignored` counts them.
    """

    __slots__ = ("_bare", "_done", "_in_frame", "ignored", "reader")

    def __init__(
        self,
        data: bytes,
        limits: Limits = DEFAULT_LIMITS,
        dialect: Dialect = Dialect.ECLIPSE,
        trace: Trace | None = None,
        bare: bool = False,
    ) -> None:
        self.reader = Reader(data, 0, -1, limits, dialect, trace)
        self.ignored = 0
        self._bare = bare
        self._in_frame = False
        self._done = False

    def next(self) -> Message | None:
        """The next message, or None at the end of the batch.

        Raises:
            DecodeError: if the octets are no message; the decoder must not be used further.
        """
        reader = self.reader
        octet = reader.peek()
        if octet < 0 or self._done:
            return None
        kind = octet & _ID_MASK
        trace = reader.trace
        if kind >= NETWORK_ID_MIN:
            if not self._in_frame and not self._bare:
                raise reader.error(f"network message 0x{kind:02x} outside a FRAME")
            return decode_network(reader)
        if trace is not None and self._in_frame:
            trace.leave()
        message = decode_transport(reader)
        self._in_frame = isinstance(message, Frame)
        if trace is not None and self._in_frame:
            trace.depth += 1
        if isinstance(message, (Init, Open)):
            self._done = True
            self.ignored = reader.remaining()
        return message


def encode(writer: Writer, message: Message) -> None:
    """Write one message; the network messages of a Frame are written after it, one by one."""
    if isinstance(message, Push):
        encode_push(writer, message)
    elif isinstance(message, Frame):
        frame.encode(writer, message)
    elif isinstance(message, Declare):
        declare.encode(writer, message)
    elif isinstance(message, Request):
        request.encode(writer, message)
    elif isinstance(message, Response):
        response.encode(writer, message)
    elif isinstance(message, ResponseFinal):
        response_final.encode(writer, message)
    elif isinstance(message, Fragment):
        fragment.encode(writer, message)
    elif isinstance(message, KeepAlive):
        keepalive.encode(writer, message)
    elif isinstance(message, Interest):
        interest.encode(writer, message)
    elif isinstance(message, Oam):
        oam.encode(writer, message)
    elif isinstance(message, Close):
        close.encode(writer, message)
    elif isinstance(message, Init):
        init.encode(writer, message)
    elif isinstance(message, Open):
        open_message.encode(writer, message)
    elif isinstance(message, Join):
        join.encode(writer, message)
    else:
        transport_oam.encode(writer, message)
