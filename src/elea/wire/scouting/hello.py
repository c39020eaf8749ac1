"""HELLO: here I am, and here is how to reach me. wire.md 4.2.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|X|L|  HELLO  |
+-+-+-+---------+
| version : u8  |
+---------------+
|zid_len|X|X|wai|   wai: role index
+---------------+
~ zid : [u8]    ~
+---------------+
~ [locators]    ~   if L: z64 count, then <utf8;z8> each
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
from elea.wire.fields import read_role, read_zid
from elea.wire.locators import read_locators, write_locators
from elea.wire.transport.init import VERSION

ID: Final = 0x02
NAME: Final = "HELLO"
FLAGS: Final = "Z-L"
RESERVED: Final = 0x40
FLAG_L: Final = 0x20
EXTENSIONS: Final = ExtensionTable(NAME)


@dataclass(slots=True)
class Hello:
    """An answer to SCOUT. No `locators` list: the datagram's source address is the locator."""

    zid: bytes
    whatami: int
    locators: tuple[str, ...] | None = None
    version: int = VERSION
    extras: Extras | None = None


def encode(writer: Writer, hello: Hello) -> None:
    """Write a HELLO."""
    chain = Chain(hello.extras)
    header = ID | flags_of(chain, hello.extras)
    writer.u8(header | FLAG_L if hello.locators is not None else header)
    writer.u8(hello.version)
    writer.u8(len(hello.zid) - 1 << 4 | hello.whatami)
    writer.raw(hello.zid)
    if hello.locators is not None:
        write_locators(writer, hello.locators)
    chain.write(writer)


def decode(reader: Reader, header: int) -> Hello:
    """Read a HELLO after its header."""
    version = reader.u8("version")
    flags = reader.u8("zid length and role")
    whatami = read_role(reader, flags)
    reader.meaning(f"{(flags >> 4) + 1} octet(s), {ROLE_NAMES[whatami]}")
    zid = read_zid(reader, 1 + (flags >> 4))
    locators = read_locators(reader) if header & FLAG_L else None
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        chain.keep(lenient=True)
    return Hello(zid, whatami, locators, version, chain.extras(header & RESERVED))


def describe(hello: Hello) -> Tree:
    """A HELLO as a tree."""
    tree: Tree = {
        "msg": NAME,
        "version": hello.version,
        "whatami": ROLE_NAMES[hello.whatami],
        "zid": hello.zid.hex(),
    }
    if hello.locators is not None:
        tree["locators"] = list(hello.locators)
    add_extensions(tree, Chain(hello.extras), EXTENSIONS, hello.extras)
    return tree
