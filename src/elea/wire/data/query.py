"""QUERY: what a REQUEST asks. wire.md 8.3.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|P|C|  QUERY  |   C consolidation present, P parameters present
+-+-+-+---------+
% [consolidation] % if C: z64; absent means Auto
+---------------+
~ [parameters]  ~   if P: <utf8;z64>
+---------------+
~ [extensions]  ~   if Z: SourceInfo 0x41, Shm 0x04, QueryBody 0x43, Attachment 0x45
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import CONSOLIDATION_NAMES, add_extensions, encoding_tree, octets
from elea.wire.extensions import (
    Chain,
    ChainReader,
    ExtensionTable,
    Extras,
    Known,
    Tree,
    Value,
    flags_of,
)
from elea.wire.fields import WireEncoding, read_encoding, write_encoding
from elea.wire.shared_extensions import (
    SOURCE_INFO,
    SourceRef,
    add_attachment,
    add_source_info,
    attachment,
    read_source_info,
)
from elea.wire.shm import Slice, read_slices, write_slices

ID: Final = 0x03
NAME: Final = "QUERY"
FLAGS: Final = "ZPC"
FLAG_C: Final = 0x20
FLAG_P: Final = 0x40

BODY: Final = 0x43
SHM: Final = 0x04
ATTACHMENT: Final = 0x45
CONSOLIDATION_AUTO: Final = 0


def _describe_body(value: Value, reader: Reader) -> Tree:
    return {
        "encoding": encoding_tree(read_encoding(reader)),
        "payload": octets(reader.rest("payload")),
    }


# Shm must immediately precede the body it speaks of (wire.md 2.19).
EXTENSIONS: Final = ExtensionTable(
    NAME,
    SOURCE_INFO,
    Known(SHM, "shm"),
    Known(BODY, "body", _describe_body),
    attachment(ATTACHMENT),
)


@dataclass(slots=True)
class QueryBody:
    """The value a query carries; `slices` instead of `payload` if it lies in shared memory.

    With slices, Eclipse 1.10 declares the length of the data they point to, not of the extension:
    `declared_len` keeps it.
    """

    encoding: WireEncoding
    payload: bytes
    slices: tuple[Slice, ...] | None = None
    declared_len: int | None = None


@dataclass(slots=True)
class Query:
    """Parameters and value of a query; an unknown `consolidation` reads as Auto further up."""

    consolidation: int = CONSOLIDATION_AUTO
    parameters: str = ""
    body: QueryBody | None = None
    attachment: bytes | None = None
    source: SourceRef | None = None
    extras: Extras | None = None


def encode(writer: Writer, query: Query) -> None:
    """Write a QUERY."""
    chain = _chain(query)
    header = ID | flags_of(chain, query.extras)
    if query.consolidation != CONSOLIDATION_AUTO:
        header |= FLAG_C
    if query.parameters:
        header |= FLAG_P
    writer.u8(header)
    if header & FLAG_C:
        writer.z64(query.consolidation)
    if header & FLAG_P:
        writer.text(query.parameters)
    chain.write(writer)


def decode(reader: Reader, header: int) -> Query:
    """Read a QUERY after its header."""
    query = Query()
    if header & FLAG_C:
        query.consolidation = reader.z64("consolidation")
        reader.meaning(consolidation_name(query.consolidation))
    if header & FLAG_P:
        query.parameters = reader.utf8(reader.z64("parameters length"), "parameters")
    chain = ChainReader(reader, EXTENSIONS, header)
    shm = False
    while chain.next():
        if shm and chain.header != BODY:
            break
        if chain.header == BODY:
            query.body = _read_body(chain, shm)
        elif chain.header == ATTACHMENT:
            query.attachment = chain.block("attachment")
        elif chain.header == SOURCE_INFO.header:
            query.source = read_source_info(chain)
        elif chain.header != SHM:
            chain.keep()
        shm = chain.header == SHM
    if shm:
        raise reader.error("QUERY: Shm must stand immediately before the body it speaks of")
    query.extras = chain.extras()
    return query


def describe(query: Query) -> Tree:
    """A QUERY as a tree."""
    tree: Tree = {"msg": NAME}
    if query.consolidation != CONSOLIDATION_AUTO:
        tree["consolidation"] = query.consolidation
        tree["consolidation_name"] = consolidation_name(query.consolidation)
    if query.parameters:
        tree["parameters"] = query.parameters
    add_extensions(tree, _chain(query), EXTENSIONS, query.extras)
    return tree


def consolidation_name(value: int) -> str:
    """The name of a consolidation mode; unknown ones read as Auto (wire.md 2.17)."""
    return CONSOLIDATION_NAMES[value if value < len(CONSOLIDATION_NAMES) else CONSOLIDATION_AUTO]


def _read_body(chain: ChainReader, shm: bool) -> QueryBody:
    if not shm:
        body = chain.body()
        encoding = read_encoding(body)
        return QueryBody(encoding, body.rest("query payload"))
    # With shared memory the declared length is not reliable: the slices delimit themselves.
    reader = chain.reader
    declared_len = reader.z32("extension length")
    start = reader.pos
    encoding = read_encoding(reader)
    slices = read_slices(reader)
    honest = declared_len == reader.pos - start
    return QueryBody(encoding, b"", slices, None if honest else declared_len)


def _chain(query: Query) -> Chain:
    chain = Chain(query.extras)
    add_source_info(chain, query.source)
    body = query.body
    if body is not None:
        writer = Writer()
        write_encoding(writer, body.encoding)
        if body.slices is not None:
            chain.add(SHM)
            write_slices(writer, body.slices)
        else:
            writer.raw(body.payload)
        chain.body(BODY, writer, body.declared_len)
    add_attachment(chain, ATTACHMENT, query.attachment)
    return chain
