"""D_KEYEXPR and U_KEYEXPR: an alias for a key expression, and its end. wire.md 7.6.1, 7.6.2.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|N|D_KEYEXPR|             |Z|X|X|U_KEYEXPR|
    +-+-+-+---------+             +-+-+-+---------+
    % expr id : z16 %             % expr id : z16 %
    +---------------+             +---------------+
    % key scope z16 %             ~ [extensions]  ~   if Z; none defined
    +---------------+             +---------------+
    ~ [key suffix]  ~   if N
    +---------------+
    ~ [extensions]  ~   if Z; none defined
    +---------------+

There is no M flag. Always declare with scope 0 and the whole text: implementations disagree on
whose table another scope would mean.
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions, key_tree
from elea.wire.extensions import Chain, ExtensionTable, Extras, Tree, flags_of, no_extensions
from elea.wire.fields import FLAG_N, WireExpr, read_key, write_key

ID_DECLARE: Final = 0x00
ID_UNDECLARE: Final = 0x01
NAME_DECLARE: Final = "D_KEYEXPR"
NAME_UNDECLARE: Final = "U_KEYEXPR"
_RESERVED_DECLARE: Final = 0x40
_RESERVED_UNDECLARE: Final = 0x60
_TABLE_DECLARE: Final = ExtensionTable(NAME_DECLARE)
_TABLE_UNDECLARE: Final = ExtensionTable(NAME_UNDECLARE)


@dataclass(slots=True)
class DeclareKeyExpr:
    """`id` stands for `key` in messages of this sender from now on."""

    id: int
    key: WireExpr
    extras: Extras | None = None


@dataclass(slots=True)
class UndeclareKeyExpr:
    """`id` is free again."""

    id: int
    extras: Extras | None = None


def encode_declare(writer: Writer, message: DeclareKeyExpr) -> None:
    """Write a D_KEYEXPR."""
    chain = Chain(message.extras)
    header = ID_DECLARE | flags_of(chain, message.extras)
    writer.u8(header | FLAG_N if message.key.suffix else header)
    writer.z64(message.id)
    write_key(writer, message.key)
    chain.write(writer)


def decode_declare(reader: Reader, header: int) -> DeclareKeyExpr:
    """Read a D_KEYEXPR after its header."""
    expr_id = reader.z16("expr id")
    key = read_key(reader, header & FLAG_N)
    # Without an M flag there is nothing to remember: one value for all such keys.
    key.sender = True
    return DeclareKeyExpr(
        expr_id, key, no_extensions(reader, _TABLE_DECLARE, header, _RESERVED_DECLARE)
    )


def describe_declare(message: DeclareKeyExpr) -> Tree:
    """A D_KEYEXPR as a tree."""
    tree: Tree = {
        "msg": NAME_DECLARE,
        "id": message.id,
        "key": key_tree(message.key, mapping=False),
    }
    add_extensions(tree, Chain(message.extras), _TABLE_DECLARE, message.extras)
    return tree


def encode_undeclare(writer: Writer, message: UndeclareKeyExpr) -> None:
    """Write a U_KEYEXPR."""
    chain = Chain(message.extras)
    writer.u8(ID_UNDECLARE | flags_of(chain, message.extras))
    writer.z64(message.id)
    chain.write(writer)


def decode_undeclare(reader: Reader, header: int) -> UndeclareKeyExpr:
    """Read a U_KEYEXPR after its header."""
    expr_id = reader.z16("expr id")
    return UndeclareKeyExpr(
        expr_id, no_extensions(reader, _TABLE_UNDECLARE, header, _RESERVED_UNDECLARE)
    )


def describe_undeclare(message: UndeclareKeyExpr) -> Tree:
    """A U_KEYEXPR as a tree."""
    tree: Tree = {"msg": NAME_UNDECLARE, "id": message.id}
    add_extensions(tree, Chain(message.extras), _TABLE_UNDECLARE, message.extras)
    return tree
