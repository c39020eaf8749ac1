"""D_SUBSCRIBER and U_SUBSCRIBER: samples of a key are wanted, and no longer. wire.md 7.6.3, 7.6.4.

Their octets are laid out as in `entity` and `undeclaration`; D_SUBSCRIBER defines no extension.
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.extensions import Chain, ExtensionTable, Extras, Tree, no_extensions
from elea.wire.fields import WireExpr
from elea.wire.network.declaration import entity, undeclaration
from elea.wire.network.declaration.wire_expr import WIRE_EXPR

ID_DECLARE: Final = 0x02
ID_UNDECLARE: Final = 0x03
NAME_DECLARE: Final = "D_SUBSCRIBER"
NAME_UNDECLARE: Final = "U_SUBSCRIBER"
_TABLE_DECLARE: Final = ExtensionTable(NAME_DECLARE)
_TABLE_UNDECLARE: Final = ExtensionTable(NAME_UNDECLARE, WIRE_EXPR)


@dataclass(slots=True)
class DeclareSubscriber:
    """The sender wants samples whose key intersects `key`."""

    id: int
    key: WireExpr
    extras: Extras | None = None


@dataclass(slots=True)
class UndeclareSubscriber:
    """The subscriber is gone; `key` is given between routers."""

    id: int
    key: WireExpr | None = None
    extras: Extras | None = None


def encode_declare(writer: Writer, message: DeclareSubscriber) -> None:
    """Write a D_SUBSCRIBER."""
    chain = Chain(message.extras)
    entity.write(writer, ID_DECLARE, message.id, message.key, chain, message.extras)


def decode_declare(reader: Reader, header: int) -> DeclareSubscriber:
    """Read a D_SUBSCRIBER after its header."""
    entity_id, key = entity.read(reader, header)
    return DeclareSubscriber(entity_id, key, no_extensions(reader, _TABLE_DECLARE, header, 0))


def describe_declare(message: DeclareSubscriber) -> Tree:
    """A D_SUBSCRIBER as a tree."""
    chain = Chain(message.extras)
    return entity.tree_of(_TABLE_DECLARE, message.id, message.key, chain, message.extras)


def encode_undeclare(writer: Writer, message: UndeclareSubscriber) -> None:
    """Write a U_SUBSCRIBER."""
    undeclaration.write(writer, ID_UNDECLARE, message.id, message.key, message.extras)


def decode_undeclare(reader: Reader, header: int) -> UndeclareSubscriber:
    """Read a U_SUBSCRIBER after its header."""
    return UndeclareSubscriber(*undeclaration.read(reader, _TABLE_UNDECLARE, header))


def describe_undeclare(message: UndeclareSubscriber) -> Tree:
    """A U_SUBSCRIBER as a tree."""
    return undeclaration.tree_of(_TABLE_UNDECLARE, message.id, message.key, message.extras)
