"""KEEP_ALIVE: nothing to say, still here. wire.md 5.6.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|X|X| K_ALIVE |
+-+-+-+---------+
~ [extensions]  ~   if Z; none defined
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions
from elea.wire.extensions import Chain, ExtensionTable, Extras, Tree, flags_of, no_extensions

ID: Final = 0x04
NAME: Final = "KEEP_ALIVE"
FLAGS: Final = "Z--"
RESERVED: Final = 0x60
EXTENSIONS: Final = ExtensionTable(NAME)


@dataclass(slots=True)
class KeepAlive:
    """A sign of life."""

    extras: Extras | None = None


def encode(writer: Writer, message: KeepAlive) -> None:
    """Write a KEEP_ALIVE."""
    chain = Chain(message.extras)
    writer.u8(ID | flags_of(chain, message.extras))
    chain.write(writer)


def decode(reader: Reader, header: int) -> KeepAlive:
    """Read a KEEP_ALIVE after its header."""
    return KeepAlive(no_extensions(reader, EXTENSIONS, header, RESERVED))


def describe(message: KeepAlive) -> Tree:
    """A KEEP_ALIVE as a tree."""
    tree: Tree = {"msg": NAME}
    add_extensions(tree, Chain(message.extras), EXTENSIONS, message.extras)
    return tree
