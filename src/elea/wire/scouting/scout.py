"""SCOUT: who is there? wire.md 4.1.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|X|X|  SCOUT  |
+-+-+-+---------+
| version : u8  |
+---------------+
|zid_len|I|what |   what: bitmap of wanted roles; I: zid present
+---------------+
~ [zid]         ~   if I: zid_len + 1 octets
+---------------+
~ [extensions]  ~   if Z; none defined, unknown ones skipped whatever their M bit
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import ROLE_NAMES, add_extensions
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Tree, flags_of
from elea.wire.fields import read_zid
from elea.wire.transport.init import VERSION

ID: Final = 0x01
NAME: Final = "SCOUT"
FLAGS: Final = "Z--"
RESERVED: Final = 0x60
FLAG_I: Final = 0x08
EXTENSIONS: Final = ExtensionTable(NAME)


@dataclass(slots=True)
class Scout:
    """A call for nodes whose role is in the bitmap `what` (1 router, 2 peer, 4 client)."""

    what: int
    zid: bytes | None = None
    version: int = VERSION
    extras: Extras | None = None


def encode(writer: Writer, scout: Scout) -> None:
    """Write a SCOUT."""
    chain = Chain(scout.extras)
    writer.u8(ID | flags_of(chain, scout.extras))
    writer.u8(scout.version)
    if scout.zid is None:
        writer.u8(scout.what)
    else:
        writer.u8(len(scout.zid) - 1 << 4 | FLAG_I | scout.what)
        writer.raw(scout.zid)
    chain.write(writer)


def decode(reader: Reader, header: int) -> Scout:
    """Read a SCOUT after its header."""
    version = reader.u8("version")
    flags = reader.u8("zid length, I and roles")
    reader.meaning(", ".join(_names(flags & 0x07)) or "nobody")
    zid = read_zid(reader, 1 + (flags >> 4)) if flags & FLAG_I else None
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        chain.keep(lenient=True)
    return Scout(flags & 0x07, zid, version, chain.extras(header & RESERVED))


def describe(scout: Scout) -> Tree:
    """A SCOUT as a tree."""
    tree: Tree = {"msg": NAME, "version": scout.version, "what": _names(scout.what)}
    if scout.zid is not None:
        tree["zid"] = scout.zid.hex()
    add_extensions(tree, Chain(scout.extras), EXTENSIONS, scout.extras)
    return tree


def _names(what: int) -> list[str]:
    return [name for bit, name in enumerate(ROLE_NAMES) if what >> bit & 1]
