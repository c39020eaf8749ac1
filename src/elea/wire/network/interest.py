"""INTEREST: ask for declarations, once or from now on. wire.md 7.7.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|Mod| INTEREST|   Mod 00 Final, 01 Current, 10 Future, 11 CurrentFuture
+-+---+---------+
%   id : z32    %
+---------------+
|A|M|N|R|T|Q|S|K|   if Mod != Final
+---------------+
% key scope z16 %   if Mod != Final and R
+---------------+
~ [key suffix]  ~   if Mod != Final and R and N
+---------------+
~ [extensions]  ~   if Z: QoS 0x21, Timestamp 0x42, NodeId 0x33
+---------------+
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions, key_tree
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Tree, flags_of
from elea.wire.fields import QOS_DEFAULT, Stamp, WireExpr, key_flags, read_key, write_key
from elea.wire.shared_extensions import (
    NODE_ID,
    QOS,
    TIMESTAMP,
    add_node_id,
    add_qos,
    add_timestamp,
    read_node_id,
    read_qos,
    read_timestamp,
)

ID: Final = 0x19
NAME: Final = "INTEREST"
FLAGS: Final = "ZFC"  # bits 6 and 5 together are the mode: Future and Current
EXTENSIONS: Final = ExtensionTable(NAME, QOS, TIMESTAMP, NODE_ID)

OPTION_KEYEXPRS: Final = 0x01
OPTION_SUBSCRIBERS: Final = 0x02
OPTION_QUERYABLES: Final = 0x04
OPTION_TOKENS: Final = 0x08
OPTION_RESTRICTED: Final = 0x10
OPTION_AGGREGATE: Final = 0x80
_KINDS: Final = OPTION_KEYEXPRS | OPTION_SUBSCRIBERS | OPTION_QUERYABLES | OPTION_TOKENS
_KEY_FLAGS: Final = 0x60  # M and N stand at the bits they have in a message header
_NAMES: Final = ("keyexprs", "subscribers", "queryables", "tokens")


class InterestMode(IntEnum):
    """When declarations are wanted; the value is that of the header's two mode bits."""

    FINAL = 0
    CURRENT = 1
    FUTURE = 2
    CURRENT_FUTURE = 3


@dataclass(slots=True)
class Interest:
    """What is wanted. `options` holds the K, S, Q, T and A bits; `key` restricts, if given."""

    id: int
    mode: InterestMode
    options: int = 0
    key: WireExpr | None = None
    qos: int = QOS_DEFAULT
    timestamp: Stamp | None = None
    node_id: int = 0
    extras: Extras | None = None


def encode(writer: Writer, interest: Interest) -> None:
    """Write an INTEREST."""
    chain = _chain(interest)
    writer.u8(ID | interest.mode << 5 | flags_of(chain, interest.extras))
    writer.z64(interest.id)
    if interest.mode is not InterestMode.FINAL:
        options = interest.options & (_KINDS | OPTION_AGGREGATE)
        if interest.key is None:
            writer.u8(options)
        else:
            writer.u8(options | OPTION_RESTRICTED | key_flags(interest.key))
            write_key(writer, interest.key)
    chain.write(writer)


def decode(reader: Reader, header: int) -> Interest:
    """Read an INTEREST after its header."""
    mode = InterestMode(header >> 5 & 3)
    reader.meaning(f"mode {mode.name.lower()}")
    interest = Interest(reader.z32("interest id"), mode)
    if interest.mode is not InterestMode.FINAL:
        options = reader.u8("options")
        reader.meaning(", ".join(_option_names(options)))
        interest.options = options & (_KINDS | OPTION_AGGREGATE)
        if options & OPTION_RESTRICTED:
            interest.key = read_key(reader, options & _KEY_FLAGS)
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        if chain.header == QOS.header:
            interest.qos = read_qos(chain)
        elif chain.header == TIMESTAMP.header:
            interest.timestamp = read_timestamp(chain)
        elif chain.header == NODE_ID.header:
            interest.node_id = read_node_id(chain)
        else:
            chain.keep()
    interest.extras = chain.extras()
    return interest


def describe(interest: Interest) -> Tree:
    """An INTEREST as a tree."""
    tree: Tree = {"msg": NAME, "id": interest.id, "mode": interest.mode.name.lower()}
    if interest.mode is not InterestMode.FINAL:
        tree["options"] = [name for name in _option_names(interest.options) if name in _NAMES]
        tree["aggregate"] = bool(interest.options & OPTION_AGGREGATE)
        if interest.key is not None:
            tree["key"] = key_tree(interest.key)
    add_extensions(tree, _chain(interest), EXTENSIONS, interest.extras)
    return tree


def _option_names(options: int) -> list[str]:
    names = [name for bit, name in enumerate(_NAMES) if options >> bit & 1]
    if options & OPTION_RESTRICTED:
        names.append("restricted")
    if options & OPTION_AGGREGATE:
        names.append("aggregate")
    return names


def _chain(interest: Interest) -> Chain:
    chain = Chain(interest.extras)
    add_qos(chain, interest.qos)
    add_timestamp(chain, interest.timestamp)
    add_node_id(chain, interest.node_id)
    return chain
