"""RESPONSE_FINAL: no more answers will come for a request. wire.md 7.4.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|X|X| RES_FIN |
+-+-+-+---------+
% request id z32%
+---------------+
~ [extensions]  ~   if Z: QoS 0x21, Timestamp 0x42
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Tree, flags_of
from elea.wire.fields import FLAG_Z, QOS_DEFAULT, Stamp
from elea.wire.shared_extensions import (
    QOS,
    TIMESTAMP,
    add_qos,
    add_timestamp,
    read_qos,
    read_timestamp,
)

ID: Final = 0x1A
NAME: Final = "RESPONSE_FINAL"
FLAGS: Final = "Z--"
RESERVED: Final = 0x60
EXTENSIONS: Final = ExtensionTable(NAME, QOS, TIMESTAMP)


@dataclass(slots=True)
class ResponseFinal:
    """The end of a request's answers."""

    id: int
    qos: int = QOS_DEFAULT
    timestamp: Stamp | None = None
    extras: Extras | None = None


def encode(writer: Writer, final: ResponseFinal) -> None:
    """Write a RESPONSE_FINAL."""
    chain = _chain(final)
    writer.u8(ID | flags_of(chain, final.extras))
    writer.z64(final.id)
    chain.write(writer)


def decode(reader: Reader, header: int) -> ResponseFinal:
    """Read a RESPONSE_FINAL after its header."""
    final = ResponseFinal(reader.z32("request id"))
    if not header & (FLAG_Z | RESERVED):
        return final
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        if chain.header == QOS.header:
            final.qos = read_qos(chain)
        elif chain.header == TIMESTAMP.header:
            final.timestamp = read_timestamp(chain)
        else:
            chain.keep()
    final.extras = chain.extras(header & RESERVED)
    return final


def describe(final: ResponseFinal) -> Tree:
    """A RESPONSE_FINAL as a tree."""
    tree: Tree = {"msg": NAME, "id": final.id}
    add_extensions(tree, _chain(final), EXTENSIONS, final.extras)
    return tree


def _chain(final: ResponseFinal) -> Chain:
    chain = Chain(final.extras)
    add_qos(chain, final.qos)
    add_timestamp(chain, final.timestamp)
    return chain
