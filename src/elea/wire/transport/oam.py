"""OAM of the transport layer: none is defined, receivers ignore them. wire.md 5.11.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|ENC|   OAM   |   ENC 00 Unit, 01 Z64, 10 ZBuf
+-+---+---------+
%   id : z16    %
+---------------+
~ [extensions]  ~   if Z: QoS 0x31
+---------------+
~   body        ~   Unit: nothing; Z64: z64; ZBuf: <u8;z64>
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions, octets
from elea.wire.extensions import (
    ENC_NAMES,
    Chain,
    ChainReader,
    ExtensionTable,
    Extras,
    Tree,
    Value,
    encoding_of,
    flags_of,
    read_value,
    write_value,
)
from elea.wire.fields import PRIORITY_DEFAULT
from elea.wire.shared_extensions import PRIORITY

ID: Final = 0x00
NAME: Final = "T_OAM"
FLAGS: Final = "Z--"
EXTENSIONS: Final = ExtensionTable(NAME, PRIORITY)


@dataclass(slots=True)
class TransportOam:
    """An operation between neighbours."""

    id: int
    body: Value = None
    priority: int = PRIORITY_DEFAULT
    extras: Extras | None = None


def encode(writer: Writer, oam: TransportOam) -> None:
    """Write an OAM."""
    chain = _chain(oam)
    writer.u8(ID | encoding_of(oam.body) | flags_of(chain, oam.extras))
    writer.z64(oam.id)
    chain.write(writer)
    write_value(writer, oam.body)


def decode(reader: Reader, header: int) -> TransportOam:
    """Read an OAM after its header."""
    oam = TransportOam(reader.z16("OAM id"))
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        if chain.header == PRIORITY.header:
            oam.priority = chain.bounded("priority", 3, PRIORITY_DEFAULT)
        else:
            chain.keep()
    oam.extras = chain.extras()
    oam.body = read_value(reader, header, "OAM body")
    return oam


def describe(oam: TransportOam) -> Tree:
    """An OAM as a tree."""
    tree: Tree = {"msg": NAME, "id": oam.id}
    add_extensions(tree, _chain(oam), EXTENSIONS, oam.extras)
    tree["enc"] = ENC_NAMES[encoding_of(oam.body)]
    if oam.body is not None:
        tree["value"] = octets(oam.body) if isinstance(oam.body, bytes) else oam.body
    return tree


def _chain(oam: TransportOam) -> Chain:
    chain = Chain(oam.extras)
    chain.add(PRIORITY.header, oam.priority, present=oam.priority != PRIORITY_DEFAULT)
    return chain
