"""DECLARE: one declaration on its way. wire.md 7.6.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|X|I| DECLARE |   I: part of the answer to an INTEREST
+-+-+-+---------+
% [interest_id] %   if I: z32
+---------------+
~ [extensions]  ~   if Z: QoS 0x21, Timestamp 0x42, NodeId 0x33
+---------------+
~ declaration   ~   exactly one, with a header octet of its own: `declaration/`
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Tree, flags_of
from elea.wire.fields import QOS_DEFAULT, Stamp
from elea.wire.network.declaration import codec as declaration
from elea.wire.network.declaration.codec import Declaration
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

ID: Final = 0x1E
NAME: Final = "DECLARE"
FLAGS: Final = "Z-I"
FLAG_I: Final = 0x20
RESERVED: Final = 0x40
EXTENSIONS: Final = ExtensionTable(NAME, QOS, TIMESTAMP, NODE_ID)


@dataclass(slots=True)
class Declare:
    """One declaration; `interest_id` names the INTEREST it answers, if it answers one."""

    body: Declaration
    interest_id: int | None = None
    qos: int = QOS_DEFAULT
    timestamp: Stamp | None = None
    node_id: int = 0
    extras: Extras | None = None


def encode(writer: Writer, declare: Declare) -> None:
    """Write a DECLARE."""
    chain = _chain(declare)
    header = ID | flags_of(chain, declare.extras)
    if declare.interest_id is not None:
        writer.u8(header | FLAG_I)
        writer.z64(declare.interest_id)
    else:
        writer.u8(header)
    chain.write(writer)
    declaration.encode(writer, declare.body)


def decode(reader: Reader, header: int) -> Declare:
    """Read a DECLARE after its header."""
    interest_id = reader.z32("interest id") if header & FLAG_I else None
    qos = QOS_DEFAULT
    timestamp: Stamp | None = None
    node_id = 0
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        if chain.header == QOS.header:
            qos = read_qos(chain)
        elif chain.header == TIMESTAMP.header:
            timestamp = read_timestamp(chain)
        elif chain.header == NODE_ID.header:
            node_id = read_node_id(chain)
        else:
            chain.keep()
    extras = chain.extras(header & RESERVED)
    return Declare(declaration.decode(reader), interest_id, qos, timestamp, node_id, extras)


def describe(declare: Declare) -> Tree:
    """A DECLARE as a tree."""
    tree: Tree = {"msg": NAME}
    if declare.interest_id is not None:
        tree["interest_id"] = declare.interest_id
    add_extensions(tree, _chain(declare), EXTENSIONS, declare.extras)
    tree["body"] = declaration.describe(declare.body)
    return tree


def _chain(declare: Declare) -> Chain:
    chain = Chain(declare.extras)
    add_qos(chain, declare.qos)
    add_timestamp(chain, declare.timestamp)
    add_node_id(chain, declare.node_id)
    return chain
