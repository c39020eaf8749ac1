"""The extension chain: read, skip, keep, refuse mandatory unknowns, write back. wire.md 2.4.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|ENC|M|  ID   |   Z another extension follows, M mandatory
    +-+---+-+-------+
    ~     body      ~   ENC 00 Unit: nothing, 01 Z64: z64, 10 ZBuf: <u8;z32>, 11 undecodable
    +---------------+

An extension is identified by bits 6:0 of its header: id, M and ENC together. A message module
lists the ones it knows in a `table`, in the order they are written; what else a chain held, and an
order that is not ours, is kept in `Extras`, so that any chain is written back as it came.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.errors import DecodeError
from elea.records import dataclass
from elea.wire.buffer import Reader, Writer
from elea.wire.fields import FLAG_Z

FLAG_MANDATORY: Final = 0x10
ENC_MASK: Final = 0x60
ENC_UNIT: Final = 0x00
ENC_Z64: Final = 0x20
ENC_ZBUF: Final = 0x40
ENC_NAMES: Final = {ENC_UNIT: "unit", ENC_Z64: "z64", ENC_ZBUF: "zbuf"}

_RANK_UNKNOWN: Final = 1_000  # unknown ones are written after all known ones

Tree = dict[str, object]
Value = int | bytes | None


@dataclass(slots=True)
class Extension:
    """An extension as octets: `header` without Z; `value` None, an integer or a body.

    `declared_len` is written instead of the body's length where a sender is known to lie about it.
    """

    header: int
    value: Value = None
    declared_len: int | None = None

    @property
    def mandatory(self) -> bool:
        """Whether a receiver that does not know it must refuse the message."""
        return bool(self.header & FLAG_MANDATORY)


@dataclass(slots=True)
class Extras:
    """What a message held that has no field of its own.

    `order` lists the headers of the chain when it is not the one we would write: another order, or
    a default written out. `reserved` holds reserved bits of the message's header that were set.
    """

    order: bytes = b""
    unknown: tuple[Extension, ...] = ()
    reserved: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """One extension that a message defines: its header, its name, its value for people and JSON."""

    header: int
    name: str
    describe: Callable[[Value, Reader], Tree] | None = None


class ExtensionTable:
    """The extensions one message kind defines, in the order they are written."""

    __slots__ = ("known", "message", "rank")

    def __init__(self, message: str, *known: Known) -> None:
        self.message = message
        self.known: dict[int, Known] = {one.header: one for one in known}
        self.rank: dict[int, int] = {one.header: rank for rank, one in enumerate(known)}


class ChainReader:
    """Walks the chain of one message. `header` is the current extension's, without Z."""

    __slots__ = (
        "_count",
        "_explicit",
        "_more",
        "_order",
        "_unknown",
        "header",
        "reader",
        "table",
    )

    def __init__(self, reader: Reader, table: ExtensionTable, message_header: int) -> None:
        self.reader = reader
        self.table = table
        self.header = 0
        self._more = bool(message_header & FLAG_Z)
        self._order = bytearray()
        self._unknown: list[Extension] = []
        self._explicit = 0  # one bit per header whose default value was written out
        self._count = 0

    def next(self) -> bool:
        """Step to the next extension; its body must then be read or kept."""
        trace = self.reader.trace
        if trace is not None and self._count:
            trace.leave()
        if not self._more:
            return False
        self._count += 1
        bound = self.reader.limits.extensions_count
        if self._count > bound:
            raise self.reader.error(f"{self.table.message} has more than {bound} extensions")
        octet = self.reader.u8("extension")
        self._more = bool(octet & FLAG_Z)
        self.header = octet & 0x7F
        if self.header in self._order and self.header in self.table.rank:
            # Repeated although it must not be: the last one wins, in its place (wire.md 2.4).
            self._order.remove(self.header)
            self._explicit &= ~(1 << self.header)
        self._order.append(self.header)
        if trace is not None:
            self._trace_header(octet)
        return True

    def z64(self, field: str, default: int = -1) -> int:
        """The value of a Z64 extension; `default` is what its absence means."""
        value = self.reader.z64(field)
        if value == default:
            self._explicit |= 1 << self.header
        return value

    def bounded(self, field: str, bits: int, default: int = -1) -> int:
        """The value of a Z64 extension that must stay below 2^bits."""
        value = self.z64(field, default)
        if value >> bits:
            raise self.reader.too_wide(field, value, bits)
        return value

    def body(self) -> Reader:
        """A Reader over the body of a ZBuf extension; call its `finish` when done."""
        length = self.reader.z32("extension length")
        return self.reader.window(length, "extension body")

    def block(self, field: str) -> bytes:
        """The body of a ZBuf extension as octets."""
        return self.reader.take(self.reader.z32("extension length"), field)

    def keep(self, *, lenient: bool = False) -> None:
        """Keep an extension this message does not know; refuse it if it is mandatory."""
        header = self.header
        if header & FLAG_MANDATORY and not lenient:
            raise DecodeError(
                f"{self.table.message}: unknown mandatory extension 0x{header:02x}",
                self.reader.pos - 1,
            )
        self._unknown.append(Extension(header, read_value(self.reader, header, "extension value")))

    def extras(self, reserved: int = 0) -> Extras | None:
        """What has to be kept beside the fields, if anything."""
        ranks = [self.table.rank.get(header, _RANK_UNKNOWN) for header in self._order]
        odd = self._explicit or ranks != sorted(ranks)
        if not (odd or self._unknown or reserved):
            return None
        return Extras(bytes(self._order) if odd else b"", tuple(self._unknown), reserved)

    def _trace_header(self, octet: int) -> None:
        trace = self.reader.trace
        assert trace is not None
        known = self.table.known.get(self.header)
        encoding = ENC_NAMES.get(self.header & ENC_MASK, "reserved")
        trace.extension(
            known.name if known else "unknown",
            f"Z={octet >> 7} enc={encoding} M={octet >> 4 & 1} id=0x{octet & 0x0F:x}",
        )


class Chain:
    """The extensions of one message about to be written or described, in wire order.

    Add each known one in table order; `present` says whether it would be written by itself. A
    default that stood in the chain as it came is written again.
    """

    __slots__ = ("_absent", "_extras", "items")

    def __init__(self, extras: Extras | None) -> None:
        self._extras = extras
        self.items: list[Extension] = []
        self._absent: list[Extension] = []

    def add(self, header: int, value: Value = None, *, present: bool = True) -> None:
        """Append one extension."""
        (self.items if present else self._absent).append(Extension(header, value))

    def body(self, header: int, writer: Writer, declared_len: int | None = None) -> None:
        """Append a ZBuf extension whose body has been written to `writer`."""
        self.items.append(Extension(header, writer.to_bytes(), declared_len))

    def arrange(self) -> list[Extension]:
        """All extensions in the order they are written."""
        extras = self._extras
        if extras is None:
            return self.items
        pending = [*self.items, *extras.unknown]
        if not extras.order:
            return pending
        absent = self._absent.copy()
        ordered: list[Extension] = []
        for header in extras.order:
            one = _pop(pending, header) or _pop(absent, header)
            if one is not None:
                ordered.append(one)
        return ordered + pending

    def write(self, writer: Writer) -> None:
        """Write the chain; the message's Z flag is `bool(chain)`."""
        arranged = self.arrange()
        last = len(arranged) - 1
        for index, one in enumerate(arranged):
            writer.u8(one.header | (FLAG_Z if index < last else 0))
            if one.declared_len is not None and isinstance(one.value, bytes):
                writer.z64(one.declared_len)
                writer.raw(one.value)
            else:
                write_value(writer, one.value)

    def __bool__(self) -> bool:
        return bool(self.arrange())


def read_value(reader: Reader, header: int, field: str) -> Value:
    """The body that the ENC bits of `header` announce: of an extension, or of an OAM."""
    encoding = header & ENC_MASK
    if encoding == ENC_UNIT:
        return None
    if encoding == ENC_Z64:
        return reader.z64(field)
    if encoding == ENC_ZBUF:
        return reader.take(reader.z32(f"{field} length"), field)
    raise reader.error(f"{field}: encoding 0b11 is reserved")


def write_value(writer: Writer, value: Value) -> None:
    """A body; its ENC bits are in the header already."""
    if isinstance(value, int):
        writer.z64(value)
    elif value is not None:
        writer.block(value)


def encoding_of(value: object) -> int:
    """The ENC bits that a body asks for."""
    if value is None:
        return ENC_UNIT
    return ENC_Z64 if isinstance(value, int) else ENC_ZBUF


def _pop(pending: list[Extension], header: int) -> Extension | None:
    for index, one in enumerate(pending):
        if one.header == header:
            return pending.pop(index)
    return None


def flags_of(chain: Chain, extras: Extras | None) -> int:
    """The Z flag and the reserved bits that a message's header takes from its extensions."""
    flags = FLAG_Z if chain else 0
    return flags | extras.reserved if extras is not None else flags


def no_extensions(
    reader: Reader, table: ExtensionTable, header: int, reserved: int
) -> Extras | None:
    """Read the chain of a message that defines no extension."""
    if not header & FLAG_Z:
        # Spelled out, because a batch may hold 65 535 messages that end here.
        return Extras(reserved=header & reserved) if header & reserved else None
    chain = ChainReader(reader, table, header)
    while chain.next():
        chain.keep()
    return chain.extras(header & reserved)


def decode_chain(reader: Reader, what: str) -> tuple[Extension, ...]:
    """A bare chain that fills its Reader, as the body of the Auth extension does."""
    table = ExtensionTable(what)
    chain = ChainReader(reader, table, FLAG_Z)
    while chain.next():
        chain.keep(lenient=True)
    reader.finish(what)
    extras = chain.extras()
    return extras.unknown if extras is not None else ()


def encode_chain(extensions: tuple[Extension, ...]) -> bytes:
    """The octets of a bare chain."""
    chain = Chain(None)
    for one in extensions:
        chain.add(one.header, one.value)
    writer = Writer()
    chain.write(writer)
    return writer.to_bytes()
