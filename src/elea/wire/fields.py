"""Composite fields as they appear in messages: wire expression, timestamp, encoding, identifiers.

These are wire values: a `WireExpr` may name an alias nobody declared, a `Stamp` is octets and a
number. They become `KeyExpr` and `Timestamp` further up, where there is a table to look them up in.
"""

from __future__ import annotations

from typing import Final

from elea.errors import DecodeError
from elea.hints import mypyc_attr
from elea.limits import SCHEMA_LEN_MAX
from elea.wire.buffer import Reader, Writer, check_zid

FLAG_N: Final = 0x20  # a key suffix follows
FLAG_M: Final = 0x40  # the scope is an alias of the sender
FLAG_Z: Final = 0x80  # an extension chain follows

PRIORITY_DEFAULT: Final = 5
QOS_DEFAULT: Final = 0x05  # Data, drop, not express
QOS_DECLARE: Final = 0x08  # Control, block: what DECLARE, INTEREST and OAM carry
QOS_REQUEST: Final = 0x0D  # Data, block: what REQUEST and its answers carry


@mypyc_attr(acyclic=True)
class WireExpr:
    """A key expression on the wire (wire.md 2.9): the text of alias `scope`, then `suffix`."""

    __slots__ = ("scope", "sender", "suffix")

    def __init__(self, scope: int, suffix: str = "", sender: bool = True) -> None:
        self.scope = scope
        self.suffix = suffix
        self.sender = sender  # M: whose table `scope` refers to, the sender's or the receiver's

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, WireExpr)
            and self.scope == other.scope
            and self.suffix == other.suffix
            and self.sender == other.sender
        )

    def __hash__(self) -> int:
        return hash((self.scope, self.suffix, self.sender))

    def __repr__(self) -> str:
        return f"WireExpr({self.scope}, {self.suffix!r}, sender={self.sender})"

    def __reduce__(self) -> tuple[type[WireExpr], tuple[int, str, bool]]:
        return (WireExpr, (self.scope, self.suffix, self.sender))


@mypyc_attr(acyclic=True)
class Stamp:
    """A timestamp on the wire (wire.md 2.7): NTP64 time and the clock's identifier."""

    __slots__ = ("id", "time")

    def __init__(self, time: int, id: bytes) -> None:
        self.time = time
        self.id = id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stamp) and self.time == other.time and self.id == other.id

    def __hash__(self) -> int:
        return hash((self.time, self.id))

    def __repr__(self) -> str:
        return f"Stamp({self.time}, {self.id!r})"

    def __reduce__(self) -> tuple[type[Stamp], tuple[int, bytes]]:
        return (Stamp, (self.time, self.id))


@mypyc_attr(acyclic=True)
class WireEncoding:
    """An encoding on the wire (wire.md 2.8): a table id and a schema, empty if there is none."""

    __slots__ = ("id", "schema")

    def __init__(self, id: int, schema: bytes = b"") -> None:
        self.id = id
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, WireEncoding) and self.id == other.id and self.schema == other.schema
        )

    def __hash__(self) -> int:
        return hash((self.id, self.schema))

    def __repr__(self) -> str:
        return f"WireEncoding({self.id}, {self.schema!r})"

    def __reduce__(self) -> tuple[type[WireEncoding], tuple[int, bytes]]:
        return (WireEncoding, (self.id, self.schema))


def read_key(reader: Reader, header: int) -> WireExpr:
    """A key whose N and M flags stand in `header`."""
    scope = reader.z16("key scope")
    suffix = ""
    if header & FLAG_N:
        suffix = reader.utf8(reader.z16("key suffix length"), "key suffix")
    return WireExpr(scope, suffix, (header & FLAG_M) != 0)


def key_flags(key: WireExpr) -> int:
    """The N and M flags that `key` asks of its message's header."""
    flags = FLAG_M if key.sender else 0
    if key.suffix:
        flags |= FLAG_N
    return flags


def write_key(writer: Writer, key: WireExpr) -> None:
    """A key; its flags are in the header already."""
    writer.z64(key.scope)
    if key.suffix:
        writer.text(key.suffix)


def read_stamp(reader: Reader) -> Stamp:
    """A timestamp."""
    time = reader.z64("timestamp time")
    length = reader.z8("timestamp id length")
    at = reader.pos
    return Stamp(time, check_zid(reader.take(length, "timestamp id"), at))


def write_stamp(writer: Writer, stamp: Stamp) -> None:
    """A timestamp."""
    writer.z64(stamp.time)
    writer.block(stamp.id)


def read_encoding(reader: Reader) -> WireEncoding:
    """An encoding. Eclipse keeps 16 bits of an id that has more, and so do we (wire.md 2.2)."""
    value = reader.z32("encoding")
    if value & 1 == 0:
        return WireEncoding(value >> 1 & 0xFFFF)
    schema = reader.take(reader.z8("encoding schema length"), "encoding schema")
    return WireEncoding(value >> 1 & 0xFFFF, schema)


def write_encoding(writer: Writer, encoding: WireEncoding) -> None:
    """An encoding."""
    if not encoding.schema:
        writer.z64(encoding.id << 1)
        return
    if len(encoding.schema) > SCHEMA_LEN_MAX:
        raise ValueError(
            f"an encoding schema has at most {SCHEMA_LEN_MAX} octets, got {len(encoding.schema)}"
        )
    writer.z64(encoding.id << 1 | 1)
    writer.block(encoding.schema)


def read_zid(reader: Reader, length: int) -> bytes:
    """An identifier of `length` octets, least significant first."""
    at = reader.pos
    return check_zid(reader.take(length, "zid"), at)


def read_role(reader: Reader, flags: int) -> int:
    """The 2-bit role index of HELLO, INIT and JOIN, from their flags octet."""
    role = flags & 0x03
    if role == 3:
        raise DecodeError("role index 3 is reserved, legal are 0 to 2", reader.pos - 1)
    return role
