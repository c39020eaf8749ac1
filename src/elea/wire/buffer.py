"""Reader and Writer: the only code that indexes bytes.

Every read names its field, so that an error says which one failed and a trace can show it. Lengths
that a peer declares are compared with what remains before anything is cut or kept. A Writer keeps
its pieces apart and joins them once: a payload is copied one time, however many headers precede it.
A Reader of a message that came in pieces does the same with the field that ends it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elea.errors import DecodeError
from elea.limits import DEFAULT_LIMITS, ZID_LEN_MAX, Limits
from elea.wire.dialect import Dialect
from elea.wire.trace import Trace

if TYPE_CHECKING:
    # Only annotations use it: compiled code gets machine integers for positions, interpreted code
    # needs no package at run time.
    from mypy_extensions import i64

OCTETS: Final[list[bytes]] = [bytes((octet,)) for octet in range(256)]
_RUN_LEN: Final = 64
_HEAD_LEN: Final = 1_024  # of a message in pieces: a payload begins within

Piece = bytes | bytearray | memoryview


class Reader:
    """A bounds-checked cursor over `data[start:stop]`."""

    __slots__ = ("_tail", "_tail_len", "data", "dialect", "end", "limits", "pos", "trace")

    def __init__(
        self,
        data: bytes,
        start: int = 0,
        stop: int = -1,
        limits: Limits = DEFAULT_LIMITS,
        dialect: Dialect = Dialect.ECLIPSE,
        trace: Trace | None = None,
    ) -> None:
        self.data = data
        self.pos: i64 = start
        self.end: i64 = len(data) if stop < 0 else stop
        self.limits = limits
        self.dialect = dialect
        self.trace = trace
        self._tail: list[Piece] | None = None  # what comes after `data`, which then ends at `end`
        self._tail_len: i64 = 0

    @staticmethod
    def of_pieces(pieces: list[Piece], limits: Limits, dialect: Dialect) -> Reader:
        """A Reader over pieces, which are joined when they are needed."""
        first = pieces[0]
        reader = Reader(bytes(first[:_HEAD_LEN]), 0, -1, limits, dialect)
        tail: list[Piece] = [memoryview(first)[_HEAD_LEN:]]
        tail.extend(pieces[1:])
        for piece in tail:
            reader._tail_len += len(piece)
        reader._tail = tail
        return reader

    def remaining(self) -> int:
        """Octets not read yet."""
        return self.end - self.pos + self._tail_len

    def peek(self) -> int:
        """The next octet without taking it, or -1 at the end."""
        pos: i64 = self.pos
        if pos >= self.end and not self._gather():
            return -1
        return self.data[pos]

    def u8(self, field: str) -> int:
        """One octet."""
        pos: i64 = self.pos
        if pos >= self.end and not self._gather():
            raise self.short(field, 1)
        value: i64 = self.data[pos]
        self.pos = pos + 1
        if self.trace is not None:
            self.trace.field(pos, pos + 1, field, value)
        return value

    def u16le(self, field: str) -> int:
        """Two octets, little-endian."""
        pos: i64 = self.pos
        if pos + 2 > self.end and (self.remaining() < 2 or not self._gather()):
            raise self.short(field, 2)
        value: i64 = self.data[pos] | self.data[pos + 1] << 8
        self.pos = pos + 2
        if self.trace is not None:
            self.trace.field(pos, pos + 2, field, value)
        return value

    def z64(self, field: str) -> int:
        """A variable-length integer of at most 64 bits."""
        pos: i64 = self.pos
        if pos >= self.end and not self._gather():
            raise self.short(field, 1)
        value: i64 = self.data[pos]
        if value >= 0x80:
            return self._long(field)
        self.pos = pos + 1
        if self.trace is not None:
            self.trace.field(pos, pos + 1, field, value)
        return value

    def z32(self, field: str) -> int:
        """A variable-length integer that must stay below 2^32."""
        value = self.z64(field)
        if value > 0xFFFFFFFF:
            raise self.too_wide(field, value, 32)
        return value

    def z16(self, field: str) -> int:
        """A variable-length integer that must stay below 2^16."""
        value = self.z64(field)
        if value > 0xFFFF:
            raise self.too_wide(field, value, 16)
        return value

    def z8(self, field: str) -> int:
        """A variable-length integer that must stay below 2^8."""
        value = self.z64(field)
        if value > 0xFF:
            raise self.too_wide(field, value, 8)
        return value

    def take(self, length: int, field: str) -> bytes:
        """The next `length` octets."""
        pos: i64 = self.pos
        # Compared as plain integers first: a declared length may exceed any machine integer.
        if length > self.remaining():
            raise self.short(field, length)
        stop: i64 = pos + length
        if stop > self.end:
            self._gather()
        self.pos = stop
        value = self.data[pos:stop]
        if self.trace is not None:
            self.trace.field(pos, stop, field, value)
        return value

    def last(self, length: int, field: str) -> bytes:
        """The next `length` octets, which may be all there are: then pieces are copied once."""
        tail = self._tail
        if tail is None or length != self.remaining():
            return self.take(length, field)
        tail.insert(0, self.data[self.pos :])
        self.end += self._tail_len
        self.pos = self.end
        self._tail = None
        self._tail_len = 0
        return b"".join(tail)

    def rest(self, field: str) -> bytes:
        """All octets that remain."""
        return self.take(self.remaining(), field)

    def utf8(self, length: int, field: str) -> str:
        """The next `length` octets as text."""
        at = self.pos
        raw = self.take(length, field)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise DecodeError(f"{field} is not UTF-8: {error.reason}", at + error.start) from None

    def window(self, length: int, field: str) -> Reader:
        """A Reader over the next `length` octets, which this one steps over."""
        if length > self.remaining():
            raise self.short(field, length)
        start: i64 = self.pos
        if start + length > self.end:
            self._gather()
        self.pos = start + length
        return Reader(self.data, start, self.pos, self.limits, self.dialect, self.trace)

    def finish(self, what: str) -> None:
        """Insist that everything was read."""
        left = self.remaining()
        if left > 0:
            raise DecodeError(f"{what} ends {left} octet(s) before its declared length", self.pos)

    def meaning(self, text: str) -> None:
        """Say, in a trace, what the last field means."""
        if self.trace is not None:
            self.trace.meaning(text)

    def name(self, name: str) -> None:
        """Say, in a trace, what the last field is called once its flags are known."""
        if self.trace is not None:
            self.trace.notes[-1].field = name

    def error(self, reason: str) -> DecodeError:
        """A DecodeError at the current position."""
        return DecodeError(reason, self.pos)

    def short(self, field: str, wanted: int) -> DecodeError:
        """The error for a field that needs more octets than remain."""
        return DecodeError(f"{field} needs {wanted} octet(s), {self.remaining()} remain", self.pos)

    def cut_vle(self, field: str) -> DecodeError:
        """The error for an integer whose continuation is missing."""
        return DecodeError(f"{field}: the input ends inside a variable-length integer", self.end)

    def too_wide(self, field: str, value: int, bits: int) -> DecodeError:
        """The error for an integer that its field cannot hold."""
        return DecodeError(f"{field} is {value}, legal is below 2^{bits}", self.pos)

    def _gather(self) -> bool:
        """Go on with what comes after `data`, if there is any."""
        tail = self._tail
        if tail is None or self._tail_len == 0:
            return False
        tail.insert(0, self.data)
        self.data = b"".join(tail)
        self.end = len(self.data)
        self._tail = None
        self._tail_len = 0
        return True

    def _long(self, field: str) -> int:
        start: i64 = self.pos
        pos: i64 = start
        low: i64 = 0  # the first eight groups: 56 bits, always a machine integer
        shift: i64 = 0
        while shift < 56:
            if pos >= self.end and not self._gather():
                raise self.cut_vle(field)
            octet: i64 = self.data[pos]
            pos += 1
            low |= (octet & 0x7F) << shift
            if octet < 0x80:
                return self._read_long(low, pos, field)
            shift += 7
        if pos >= self.end and not self._gather():
            raise self.cut_vle(field)
        # The ninth octet has no continuation bit: all eight bits are value (wire.md 2.2).
        # Widened first: in compiled code a machine integer would pull the result down to 63 bits.
        top: int = self.data[pos]
        wide: int = low
        return self._read_long(top << 56 | wide, pos + 1, field)

    def _read_long(self, value: int, pos: i64, field: str) -> int:
        if self.trace is not None:
            self.trace.field(self.pos, pos, field, value)
        self.pos = pos
        return value


class Writer:
    """Collects the pieces of a message or batch; `size` is their length so far."""

    __slots__ = ("dialect", "parts", "size")

    def __init__(self, dialect: Dialect = Dialect.ECLIPSE) -> None:
        self.parts: list[bytes] = []
        self.size: i64 = 0
        self.dialect = dialect

    def u8(self, value: int) -> None:
        """One octet."""
        self.parts.append(OCTETS[value])
        self.size += 1

    def u16le(self, value: int) -> None:
        """Two octets, little-endian."""
        self.parts.append(value.to_bytes(2, "little"))
        self.size += 2

    def z64(self, value: int) -> None:
        """A variable-length integer, in its shortest form."""
        if 0 <= value < 0x80:
            self.parts.append(OCTETS[value])
            self.size += 1
        else:
            self._long(value)

    def raw(self, value: bytes) -> None:
        """Octets as they are."""
        self.parts.append(value)
        self.size += len(value)

    def block(self, value: bytes) -> None:
        """A length and that many octets."""
        self.z64(len(value))
        self.parts.append(value)
        self.size += len(value)

    def text(self, value: str) -> None:
        """A length and a text's UTF-8 octets."""
        self.block(value.encode("utf-8"))

    def mark(self) -> int:
        """A position to roll back to."""
        return len(self.parts)

    def rollback(self, mark: int) -> None:
        """Forget what was written since `mark`."""
        for piece in self.parts[mark:]:
            self.size -= len(piece)
        del self.parts[mark:]

    def to_bytes(self) -> bytes:
        """Everything written so far."""
        parts = self.parts
        if len(parts) <= _RUN_LEN:
            return b"".join(parts)
        # join() reserves 80 bytes per piece while it works; in runs, a message of many small
        # integers does not cost a hundred times its length.
        runs = [b"".join(parts[at : at + _RUN_LEN]) for at in range(0, len(parts), _RUN_LEN)]
        return b"".join(runs)

    def _long(self, value: int) -> None:
        if value < 0 or value > 0xFFFFFFFFFFFFFFFF:
            raise ValueError(f"a variable-length integer holds 0 to 2^64-1, got {value}")
        low: i64 = value & 0xFFFFFFFFFFFFFF  # what the first eight octets can hold
        top = value >> 56
        count: i64 = 1
        while count < 9 and (low > 0x7F or top > 0):
            self.parts.append(OCTETS[low & 0x7F | 0x80])
            low >>= 7
            count += 1
        self.parts.append(OCTETS[top if count == 9 else low])
        self.size += count


def check_zid(zid: bytes, at: int) -> bytes:
    """Refuse an identifier that names no node (wire.md 2.5)."""
    if not zid or len(zid) > ZID_LEN_MAX:
        raise DecodeError(f"an identifier has 1 to {ZID_LEN_MAX} octets, got {len(zid)}", at)
    if zid.count(0) == len(zid):
        raise DecodeError("an identifier must not be all zero", at)
    return zid
