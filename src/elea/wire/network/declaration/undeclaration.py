"""The layout that U_SUBSCRIBER, U_QUERYABLE and U_TOKEN share. wire.md 7.6.4.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|X|X| U_...   |
+-+-+-+---------+
% entity id z32 %
+---------------+
~ [extensions]  ~   if Z: WireExpr 0x5f
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions
from elea.wire.dialect import Dialect
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Tree, flags_of
from elea.wire.fields import FLAG_Z, WireExpr
from elea.wire.network.declaration.wire_expr import WIRE_EXPR, add_wire_expr, read_wire_expr

_RESERVED: Final = 0x60

Fields = tuple[int, WireExpr | None, Extras | None]


def write(
    writer: Writer, id_: int, entity_id: int, key: WireExpr | None, extras: Extras | None
) -> None:
    """Write an undeclaration whose message id is `id_`."""
    chain = _chain(key, extras, writer.dialect)
    writer.u8(id_ | flags_of(chain, extras))
    writer.z64(entity_id)
    chain.write(writer)


def read(reader: Reader, table: ExtensionTable, header: int) -> Fields:
    """Read entity id, key and extras after the header."""
    entity_id = reader.z32("entity id")
    if not header & (FLAG_Z | _RESERVED):
        return entity_id, None, None
    key: WireExpr | None = None
    chain = ChainReader(reader, table, header)
    while chain.next():
        if chain.header == WIRE_EXPR.header:
            key = read_wire_expr(chain)
        else:
            chain.keep()
    return entity_id, key, chain.extras(header & _RESERVED)


def tree_of(
    table: ExtensionTable, entity_id: int, key: WireExpr | None, extras: Extras | None
) -> Tree:
    """An undeclaration as a tree; the table carries its name."""
    tree: Tree = {"msg": table.message, "id": entity_id}
    add_extensions(tree, _chain(key, extras, Dialect.ECLIPSE), table, extras)
    return tree


def _chain(key: WireExpr | None, extras: Extras | None, dialect: Dialect) -> Chain:
    chain = Chain(extras)
    add_wire_expr(chain, key, dialect)
    return chain
