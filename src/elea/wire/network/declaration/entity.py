"""The layout that D_SUBSCRIBER, D_QUERYABLE and D_TOKEN share. wire.md 7.6.3.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|M|N| D_...   |   N key suffix present, M mapping
+-+-+-+---------+
% entity id z32 %   0 between routers, where the key is the identity
+---------------+
% key scope z16 %
+---------------+
~ [key suffix]  ~   if N
+---------------+
~ [extensions]  ~   if Z
+---------------+
"""

from __future__ import annotations

from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions, key_tree
from elea.wire.extensions import Chain, ExtensionTable, Extras, Tree, flags_of
from elea.wire.fields import WireExpr, key_flags, read_key, write_key


def write(
    writer: Writer, id_: int, entity_id: int, key: WireExpr, chain: Chain, extras: Extras | None
) -> None:
    """Write a declaration whose message id is `id_`."""
    writer.u8(id_ | key_flags(key) | flags_of(chain, extras))
    writer.z64(entity_id)
    write_key(writer, key)
    chain.write(writer)


def read(reader: Reader, header: int) -> tuple[int, WireExpr]:
    """Read entity id and key after the header; the extensions follow."""
    entity_id = reader.z32("entity id")
    return entity_id, read_key(reader, header)


def tree_of(
    table: ExtensionTable, entity_id: int, key: WireExpr, chain: Chain, extras: Extras | None
) -> Tree:
    """A declaration as a tree; the table carries its name."""
    tree: Tree = {"msg": table.message, "id": entity_id, "key": key_tree(key)}
    add_extensions(tree, chain, table, extras)
    return tree
