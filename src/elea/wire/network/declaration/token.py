"""D_TOKEN and U_TOKEN: something is alive, and no longer. wire.md 7.6.3, 7.6.4.

Their octets are laid out as in `entity` and `undeclaration`; D_TOKEN defines no extension.
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.extensions import Chain, ExtensionTable, Extras, Tree, no_extensions
from elea.wire.fields import WireExpr
from elea.wire.network.declaration import entity, undeclaration
from elea.wire.network.declaration.wire_expr import WIRE_EXPR

ID_DECLARE: Final = 0x06
ID_UNDECLARE: Final = 0x07
NAME_DECLARE: Final = "D_TOKEN"
NAME_UNDECLARE: Final = "U_TOKEN"
_TABLE_DECLARE: Final = ExtensionTable(NAME_DECLARE)
_TABLE_UNDECLARE: Final = ExtensionTable(NAME_UNDECLARE, WIRE_EXPR)


@dataclass(slots=True)
class DeclareToken:
    """Something named `key` is alive."""

    id: int
    key: WireExpr
    extras: Extras | None = None


@dataclass(slots=True)
class UndeclareToken:
    """It is gone. With id 0 and a key: a token this transport never heard of."""

    id: int
    key: WireExpr | None = None
    extras: Extras | None = None


def encode_declare(writer: Writer, message: DeclareToken) -> None:
    """Write a D_TOKEN."""
    chain = Chain(message.extras)
    entity.write(writer, ID_DECLARE, message.id, message.key, chain, message.extras)


def decode_declare(reader: Reader, header: int) -> DeclareToken:
    """Read a D_TOKEN after its header."""
    entity_id, key = entity.read(reader, header)
    return DeclareToken(entity_id, key, no_extensions(reader, _TABLE_DECLARE, header, 0))


def describe_declare(message: DeclareToken) -> Tree:
    """A D_TOKEN as a tree."""
    chain = Chain(message.extras)
    return entity.tree_of(_TABLE_DECLARE, message.id, message.key, chain, message.extras)


def encode_undeclare(writer: Writer, message: UndeclareToken) -> None:
    """Write a U_TOKEN."""
    undeclaration.write(writer, ID_UNDECLARE, message.id, message.key, message.extras)


def decode_undeclare(reader: Reader, header: int) -> UndeclareToken:
    """Read a U_TOKEN after its header."""
    return UndeclareToken(*undeclaration.read(reader, _TABLE_UNDECLARE, header))


def describe_undeclare(message: UndeclareToken) -> Tree:
    """A U_TOKEN as a tree."""
    return undeclaration.tree_of(_TABLE_UNDECLARE, message.id, message.key, message.extras)
