"""PUT or DEL: the body of PUSH and REPLY."""

from __future__ import annotations

from elea.wire.buffer import Reader, Writer
from elea.wire.data import delete, put
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.extensions import Tree

SampleBody = Put | Del


def encode(writer: Writer, body: SampleBody) -> None:
    """Write a PUT or a DEL."""
    if isinstance(body, Put):
        put.encode(writer, body)
    else:
        delete.encode(writer, body)


def decode(reader: Reader, inside: str) -> SampleBody:
    """Read a PUT or a DEL, header included."""
    header = reader.u8("header")
    kind = header & 0x1F
    body: SampleBody
    if kind == put.ID:
        if reader.trace is not None:
            reader.trace.header(put.NAME, put.FLAGS, header)
        body = put.decode(reader, header)
    elif kind == delete.ID:
        if reader.trace is not None:
            reader.trace.header(delete.NAME, delete.FLAGS, header)
        body = delete.decode(reader, header)
    else:
        raise reader.error(f"{inside} holds PUT (0x01) or DEL (0x02), got 0x{kind:02x}")
    if reader.trace is not None:
        reader.trace.leave()
    return body


def describe(body: SampleBody) -> Tree:
    """A PUT or a DEL as a tree."""
    return put.describe(body) if isinstance(body, Put) else delete.describe(body)
