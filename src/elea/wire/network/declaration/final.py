"""D_FINAL: the current state asked for by an INTEREST has been told. wire.md 7.6.5.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|X|X| D_FINAL |
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

ID: Final = 0x1A
NAME: Final = "D_FINAL"
_RESERVED: Final = 0x60
_TABLE: Final = ExtensionTable(NAME)


@dataclass(slots=True)
class DeclareFinal:
    """The end of a snapshot."""

    extras: Extras | None = None


def encode(writer: Writer, message: DeclareFinal) -> None:
    """Write a D_FINAL."""
    chain = Chain(message.extras)
    writer.u8(ID | flags_of(chain, message.extras))
    chain.write(writer)


def decode(reader: Reader, header: int) -> DeclareFinal:
    """Read a D_FINAL after its header."""
    return DeclareFinal(no_extensions(reader, _TABLE, header, _RESERVED))


def describe(message: DeclareFinal) -> Tree:
    """A D_FINAL as a tree."""
    tree: Tree = {"msg": NAME}
    add_extensions(tree, Chain(message.extras), _TABLE, message.extras)
    return tree
