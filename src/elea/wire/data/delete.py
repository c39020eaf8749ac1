"""DEL: the end of a key's value. wire.md 8.2.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|X|T|  DEL    |   T timestamp present
+-+-+-+---------+
~ [timestamp]   ~   if T
+---------------+
~ [extensions]  ~   if Z: SourceInfo 0x41, Attachment 0x42
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions, stamp_tree
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Tree, flags_of
from elea.wire.fields import FLAG_Z, Stamp, read_stamp, write_stamp
from elea.wire.shared_extensions import (
    SOURCE_INFO,
    SourceRef,
    add_attachment,
    add_source_info,
    attachment,
    read_source_info,
)

ID: Final = 0x02
NAME: Final = "DEL"
FLAGS: Final = "Z-T"
FLAG_T: Final = 0x20
RESERVED: Final = 0x40

ATTACHMENT: Final = 0x42  # PUT has its attachment under 0x43
EXTENSIONS: Final = ExtensionTable(NAME, SOURCE_INFO, attachment(ATTACHMENT))


@dataclass(slots=True)
class Del:
    """A deletion."""

    timestamp: Stamp | None = None
    attachment: bytes | None = None
    source: SourceRef | None = None
    extras: Extras | None = None


def encode(writer: Writer, delete: Del) -> None:
    """Write a DEL."""
    chain = _chain(delete)
    header = ID | flags_of(chain, delete.extras)
    writer.u8(header | FLAG_T if delete.timestamp is not None else header)
    if delete.timestamp is not None:
        write_stamp(writer, delete.timestamp)
    chain.write(writer)


def decode(reader: Reader, header: int) -> Del:
    """Read a DEL after its header."""
    delete = Del(read_stamp(reader) if header & FLAG_T else None)
    if not header & (FLAG_Z | RESERVED):
        return delete
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        if chain.header == SOURCE_INFO.header:
            delete.source = read_source_info(chain)
        elif chain.header == ATTACHMENT:
            delete.attachment = chain.block("attachment")
        else:
            chain.keep()
    delete.extras = chain.extras(header & RESERVED)
    return delete


def describe(delete: Del) -> Tree:
    """A DEL as a tree."""
    tree: Tree = {"msg": NAME}
    if delete.timestamp is not None:
        tree["timestamp"] = stamp_tree(delete.timestamp)
    add_extensions(tree, _chain(delete), EXTENSIONS, delete.extras)
    return tree


def _chain(delete: Del) -> Chain:
    chain = Chain(delete.extras)
    add_source_info(chain, delete.source)
    add_attachment(chain, ATTACHMENT, delete.attachment)
    return chain
