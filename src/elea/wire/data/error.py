"""ERR: a query that failed. wire.md 8.5.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|E|X|  ERR    |   E encoding present
+-+-+-+---------+
~ [encoding]    ~   if E
+---------------+
~ [extensions]  ~   if Z: SourceInfo 0x41, Shm 0x12
+---------------+
~ payload       ~   <u8;z32>, also with Shm
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions, encoding_tree, octets
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Known, Tree, flags_of
from elea.wire.fields import WireEncoding, read_encoding, write_encoding
from elea.wire.shared_extensions import SOURCE_INFO, SourceRef, add_source_info, read_source_info

ID: Final = 0x05
NAME: Final = "ERR"
FLAGS: Final = "ZE-"
FLAG_E: Final = 0x40
RESERVED: Final = 0x20
SHM: Final = 0x12
EXTENSIONS: Final = ExtensionTable(NAME, SOURCE_INFO, Known(SHM, "shm"))


@dataclass(slots=True)
class Err:
    """Why a query failed, in the queryable's own words."""

    payload: bytes
    encoding: WireEncoding | None = None
    source: SourceRef | None = None
    shm: bool = False
    extras: Extras | None = None


def encode(writer: Writer, err: Err) -> None:
    """Write an ERR."""
    chain = _chain(err)
    header = ID | flags_of(chain, err.extras)
    writer.u8(header | FLAG_E if err.encoding is not None else header)
    if err.encoding is not None:
        write_encoding(writer, err.encoding)
    chain.write(writer)
    writer.block(err.payload)


def decode(reader: Reader, header: int) -> Err:
    """Read an ERR after its header."""
    err = Err(b"", read_encoding(reader) if header & FLAG_E else None)
    chain = ChainReader(reader, EXTENSIONS, header)
    while chain.next():
        if chain.header == SOURCE_INFO.header:
            err.source = read_source_info(chain)
        elif chain.header == SHM:
            err.shm = True
        else:
            chain.keep()
    err.extras = chain.extras(header & RESERVED)
    err.payload = reader.last(reader.z32("payload length"), "payload")
    return err


def describe(err: Err) -> Tree:
    """An ERR as a tree."""
    tree: Tree = {"msg": NAME}
    if err.encoding is not None:
        tree["encoding"] = encoding_tree(err.encoding)
    add_extensions(tree, _chain(err), EXTENSIONS, err.extras)
    tree["payload"] = octets(err.payload)
    return tree


def _chain(err: Err) -> Chain:
    chain = Chain(err.extras)
    add_source_info(chain, err.source)
    if err.shm:
        chain.add(SHM)
    return chain
