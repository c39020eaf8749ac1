"""D_QUERYABLE and U_QUERYABLE: queries on a key are answered, and no longer. wire.md 7.6.3, 7.6.4.

Their octets are laid out as in `entity` and `undeclaration`.

    D_QUERYABLE extension QueryableInfo 0x21, z64:
    bit 0 complete, bits 23:8 distance; in the specification's dialect the distance from bit 1 on.
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.dialect import Dialect
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Known, Tree, Value
from elea.wire.fields import WireExpr
from elea.wire.network.declaration import entity, undeclaration
from elea.wire.network.declaration.wire_expr import WIRE_EXPR

ID_DECLARE: Final = 0x04
ID_UNDECLARE: Final = 0x05
NAME_DECLARE: Final = "D_QUERYABLE"
NAME_UNDECLARE: Final = "U_QUERYABLE"

INFO: Final = 0x21


def _describe_info(value: Value, reader: Reader) -> Tree:
    assert isinstance(value, int)
    complete, distance = _unpack(value, Dialect.ECLIPSE)
    return {"complete": complete, "distance": distance}


_TABLE_DECLARE: Final = ExtensionTable(NAME_DECLARE, Known(INFO, "info", _describe_info))
_TABLE_UNDECLARE: Final = ExtensionTable(NAME_UNDECLARE, WIRE_EXPR)


@dataclass(slots=True)
class DeclareQueryable:
    """The sender answers queries whose key intersects `key`; `complete` ones know all of it."""

    id: int
    key: WireExpr
    complete: bool = False
    distance: int = 0
    extras: Extras | None = None


@dataclass(slots=True)
class UndeclareQueryable:
    """The queryable is gone; `key` is given between routers."""

    id: int
    key: WireExpr | None = None
    extras: Extras | None = None


def encode_declare(writer: Writer, message: DeclareQueryable) -> None:
    """Write a D_QUERYABLE."""
    chain = _chain(message, writer.dialect)
    entity.write(writer, ID_DECLARE, message.id, message.key, chain, message.extras)


def decode_declare(reader: Reader, header: int) -> DeclareQueryable:
    """Read a D_QUERYABLE after its header."""
    entity_id, key = entity.read(reader, header)
    message = DeclareQueryable(entity_id, key)
    chain = ChainReader(reader, _TABLE_DECLARE, header)
    while chain.next():
        if chain.header == INFO:
            value = chain.bounded("queryable info", 24, 0)
            message.complete, message.distance = _unpack(value, reader.dialect)
            reader.meaning(f"complete={message.complete} distance={message.distance}")
        else:
            chain.keep()
    message.extras = chain.extras()
    return message


def describe_declare(message: DeclareQueryable) -> Tree:
    """A D_QUERYABLE as a tree."""
    chain = _chain(message, Dialect.ECLIPSE)
    return entity.tree_of(_TABLE_DECLARE, message.id, message.key, chain, message.extras)


def encode_undeclare(writer: Writer, message: UndeclareQueryable) -> None:
    """Write a U_QUERYABLE."""
    undeclaration.write(writer, ID_UNDECLARE, message.id, message.key, message.extras)


def decode_undeclare(reader: Reader, header: int) -> UndeclareQueryable:
    """Read a U_QUERYABLE after its header."""
    return UndeclareQueryable(*undeclaration.read(reader, _TABLE_UNDECLARE, header))


def describe_undeclare(message: UndeclareQueryable) -> Tree:
    """A U_QUERYABLE as a tree."""
    return undeclaration.tree_of(_TABLE_UNDECLARE, message.id, message.key, message.extras)


def _unpack(info: int, dialect: Dialect) -> tuple[bool, int]:
    shift = 8 if dialect is Dialect.ECLIPSE else 1
    return bool(info & 1), info >> shift & 0xFFFF


def _chain(message: DeclareQueryable, dialect: Dialect) -> Chain:
    shift = 8 if dialect is Dialect.ECLIPSE else 1
    info = message.distance << shift | message.complete
    chain = Chain(message.extras)
    chain.add(INFO, info, present=info != 0)
    return chain
