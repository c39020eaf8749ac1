"""PUT: a value for a key. wire.md 8.1.

 7 6 5 4 3 2 1 0
+-+-+-+-+-+-+-+-+
|Z|E|T|  PUT    |   T timestamp present, E encoding present
+-+-+-+---------+
~ [timestamp]   ~   if T
+---------------+
~ [encoding]    ~   if E; absent means zenoh/bytes
+---------------+
~ [extensions]  ~   if Z: SourceInfo 0x41, Shm 0x12, Attachment 0x43
+---------------+
~ payload       ~   <u8;z32>; a slice list if Shm
+---------------+
"""

from __future__ import annotations

from typing import Final

from elea.hints import mypyc_attr
from elea.wire.buffer import Reader, Writer
from elea.wire.describe import add_extensions, encoding_tree, octets, stamp_tree
from elea.wire.extensions import Chain, ChainReader, ExtensionTable, Extras, Known, Tree, flags_of
from elea.wire.fields import (
    FLAG_Z,
    Stamp,
    WireEncoding,
    read_encoding,
    read_stamp,
    write_encoding,
    write_stamp,
)
from elea.wire.shared_extensions import (
    SOURCE_INFO,
    SourceRef,
    add_attachment,
    add_source_info,
    attachment,
    read_source_info,
    write_source,
)
from elea.wire.shm import Slice, read_slices, slices_tree, write_slices

ID: Final = 0x01
NAME: Final = "PUT"
FLAGS: Final = "ZET"
FLAG_T: Final = 0x20
FLAG_E: Final = 0x40

SHM: Final = 0x12
ATTACHMENT: Final = 0x43
EXTENSIONS: Final = ExtensionTable(NAME, SOURCE_INFO, Known(SHM, "shm"), attachment(ATTACHMENT))


@mypyc_attr(acyclic=True)
class Put:
    """A value. `slices` stands instead of `payload` when it lies in shared memory."""

    __slots__ = ("attachment", "encoding", "extras", "payload", "slices", "source", "timestamp")

    def __init__(
        self,
        payload: bytes,
        timestamp: Stamp | None = None,
        encoding: WireEncoding | None = None,
        attachment: bytes | None = None,
        source: SourceRef | None = None,
        slices: tuple[Slice, ...] | None = None,
        extras: Extras | None = None,
    ) -> None:
        self.payload = payload
        self.timestamp = timestamp
        self.encoding = encoding
        self.attachment = attachment
        self.source = source
        self.slices = slices
        self.extras = extras

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Put)
            and self.payload == other.payload
            and self.timestamp == other.timestamp
            and self.encoding == other.encoding
            and self.attachment == other.attachment
            and self.source == other.source
            and self.slices == other.slices
            and self.extras == other.extras
        )

    def __hash__(self) -> int:
        raise TypeError("messages are not hashable")

    def __repr__(self) -> str:
        return (
            f"Put({self.payload!r}, timestamp={self.timestamp!r}, encoding={self.encoding!r}, "
            f"attachment={self.attachment!r}, source={self.source!r}, slices={self.slices!r}, "
            f"extras={self.extras!r})"
        )


def encode(writer: Writer, put: Put) -> None:
    """Write a PUT."""
    timestamp = put.timestamp
    encoding = put.encoding
    header = ID
    if timestamp is not None:
        header |= FLAG_T
    if encoding is not None:
        header |= FLAG_E
    source = put.source
    chain: Chain | None = None
    if put.attachment is not None or put.slices is not None or put.extras is not None:
        source = None
        chain = _chain(put)
        header |= flags_of(chain, put.extras)
    elif source is not None:
        header |= FLAG_Z
    writer.u8(header)
    if timestamp is not None:
        write_stamp(writer, timestamp)
    if encoding is not None:
        write_encoding(writer, encoding)
    if chain is not None:
        chain.write(writer)
    elif source is not None:  # a sample with a number and nothing else, as most with a number are
        body = Writer()
        write_source(body, source)
        writer.u8(SOURCE_INFO.header)
        writer.block(body.to_bytes())
    if put.slices is not None:
        write_slices(writer, put.slices)
    else:
        writer.block(put.payload)


def decode(reader: Reader, header: int) -> Put:
    """Read a PUT after its header."""
    timestamp = read_stamp(reader) if header & FLAG_T else None
    encoding = read_encoding(reader) if header & FLAG_E else None
    if header & FLAG_Z:
        if reader.peek() != ATTACHMENT or reader.trace is not None:
            return _decode_extended(reader, header, timestamp, encoding)
        # By far the most frequent chain: an attachment and nothing else.
        reader.u8("extension")
        attached = reader.take(reader.z32("extension length"), "attachment")
        payload = reader.last(reader.z32("payload length"), "payload")
        return Put(payload, timestamp, encoding, attached)
    return Put(reader.last(reader.z32("payload length"), "payload"), timestamp, encoding)


def describe(put: Put) -> Tree:
    """A PUT as a tree."""
    tree: Tree = {"msg": NAME}
    if put.timestamp is not None:
        tree["timestamp"] = stamp_tree(put.timestamp)
    if put.encoding is not None:
        tree["encoding"] = encoding_tree(put.encoding)
    add_extensions(tree, _chain(put), EXTENSIONS, put.extras)
    if put.slices is not None:
        tree["slices"] = slices_tree(put.slices)
    else:
        tree["payload"] = octets(put.payload)
    return tree


def _decode_extended(
    reader: Reader, header: int, timestamp: Stamp | None, encoding: WireEncoding | None
) -> Put:
    chain = ChainReader(reader, EXTENSIONS, header)
    put = Put(b"", timestamp, encoding)
    shm = False
    while chain.next():
        kind = chain.header
        if kind == ATTACHMENT:
            put.attachment = chain.block("attachment")
        elif kind == 0x41:
            put.source = read_source_info(chain)
        elif kind == SHM:
            shm = True
        else:
            chain.keep()
    put.extras = chain.extras()
    if shm:
        put.slices = read_slices(reader)
    else:
        put.payload = reader.last(reader.z32("payload length"), "payload")
    return put


def _chain(put: Put) -> Chain:
    chain = Chain(put.extras)
    add_source_info(chain, put.source)
    if put.slices is not None:
        chain.add(SHM)
    add_attachment(chain, ATTACHMENT, put.attachment)
    return chain
