"""REPLY: one answer to a query, holding a PUT or a DEL. wire.md 8.4.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|X|C|  REPLY  |   C consolidation present
+-+-+-+---------+
% [consolidation] % if C: z64; absent means Auto
+---------------+
~ [extensions]  ~   if Z; none defined
+---------------+
~ PUT or DEL    ~
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.data import sample
from elea.wire.data.query import CONSOLIDATION_AUTO, consolidation_name
from elea.wire.describe import add_extensions
from elea.wire.extensions import Chain, ExtensionTable, Extras, Tree, flags_of, no_extensions

ID: Final = 0x04
NAME: Final = "REPLY"
FLAGS: Final = "Z-C"
FLAG_C: Final = 0x20
RESERVED: Final = 0x40
EXTENSIONS: Final = ExtensionTable(NAME)


@dataclass(slots=True)
class Reply:
    """One answer."""

    body: sample.SampleBody
    consolidation: int = CONSOLIDATION_AUTO
    extras: Extras | None = None


def encode(writer: Writer, reply: Reply) -> None:
    """Write a REPLY."""
    chain = Chain(reply.extras)
    header = ID | flags_of(chain, reply.extras)
    if reply.consolidation != CONSOLIDATION_AUTO:
        writer.u8(header | FLAG_C)
        writer.z64(reply.consolidation)
    else:
        writer.u8(header)
    chain.write(writer)
    sample.encode(writer, reply.body)


def decode(reader: Reader, header: int) -> Reply:
    """Read a REPLY after its header."""
    consolidation = CONSOLIDATION_AUTO
    if header & FLAG_C:
        consolidation = reader.z64("consolidation")
        reader.meaning(consolidation_name(consolidation))
    extras = no_extensions(reader, EXTENSIONS, header, RESERVED)
    return Reply(sample.decode(reader, NAME), consolidation, extras)


def describe(reply: Reply) -> Tree:
    """A REPLY as a tree."""
    tree: Tree = {"msg": NAME}
    if reply.consolidation != CONSOLIDATION_AUTO:
        tree["consolidation"] = reply.consolidation
        tree["consolidation_name"] = consolidation_name(reply.consolidation)
    add_extensions(tree, Chain(reply.extras), EXTENSIONS, reply.extras)
    tree["body"] = sample.describe(reply.body)
    return tree
