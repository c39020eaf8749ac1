"""Reader, what is written, and Record: what the generated codec stands on.

Only this module indexes octets. Every read names its field, so that an error says which one failed,
and every length is compared with what remains before anything is cut or kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elea.errors import DecodeError, InvalidValueError, ShortError
from elea.hints import mypyc_attr

if TYPE_CHECKING:
    # Only annotations use it: compiled code gets machine integers for positions, interpreted code
    # needs no package at run time.
    from mypy_extensions import i64

NAT_LEN_MAX: Final = 10  # octets of 2^64-1; padded forms may be as long (5, A-7)


class Reader:
    """A bounds-checked cursor over `data[start:]`."""

    __slots__ = ("data", "end", "pos")

    def __init__(self, data: bytes, start: int = 0) -> None:
        self.data = data
        self.pos: i64 = start
        self.end: i64 = len(data)

    def remaining(self) -> int:
        """Octets not read yet."""
        return self.end - self.pos

    def at_end(self) -> bool:
        """Whether everything was read."""
        return self.pos >= self.end

    def byte(self, field: str) -> int:
        """One octet."""
        pos: i64 = self.pos
        if pos >= self.end:
            raise short(field, pos)
        value: i64 = self.data[pos]
        self.pos = pos + 1
        return value

    def nat(self, field: str) -> int:
        """A number of variable length, below 2^64."""
        pos: i64 = self.pos
        if pos >= self.end:
            raise short(field, pos)
        value: i64 = self.data[pos]
        if value >= 0x80:
            return self._long(field)
        self.pos = pos + 1
        return value

    def wide(self, field: str, bits_max: int) -> int:
        """A number of variable length that may have more than 64 bits."""
        start: i64 = self.pos
        pos: i64 = start
        value: int = 0
        shift: int = 0
        while shift < bits_max + 7:  # one group more, for padding
            if pos >= self.end:
                raise short(field, start)
            octet: int = self.data[pos]
            pos += 1
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                if value >> bits_max:
                    break
                self.pos = pos
                return value
            shift += 7
        raise DecodeError(f"{field} has more than {bits_max} bits", start)

    def octets(self, field: str, len_max: int = -1) -> bytes:
        """A length and that many octets."""
        at = self.pos
        length = self.nat(field)
        if length > len_max and len_max >= 0:
            raise DecodeError(f"{field} has {length} octets, at most {len_max} are legal", at)
        start: i64 = self.pos
        # Compared as plain integers first: an announced length may exceed any machine integer.
        if length > self.remaining():
            raise short(field, start)
        stop: i64 = start + length
        self.pos = stop
        return self.data[start:stop]

    def count(self, field: str, count_max: int = -1) -> int:
        """How many elements follow. They are decoded one by one: nothing is reserved for them."""
        at = self.pos
        count = self.nat(field)
        if count > count_max and count_max >= 0:
            raise DecodeError(f"{field} has {count} elements, at most {count_max} are legal", at)
        return count

    def _long(self, field: str) -> int:
        start: i64 = self.pos
        pos: i64 = start
        low: i64 = 0  # the first eight groups: 56 bits, always a machine integer
        shift: i64 = 0
        while shift < 56:
            if pos >= self.end:
                raise short(field, start)
            octet: i64 = self.data[pos]
            pos += 1
            low |= (octet & 0x7F) << shift
            if octet < 0x80:
                self.pos = pos
                return low
            shift += 7
        value: int = low  # widened: what follows does not fit a machine integer
        for place in (56, 63):
            if pos >= self.end:
                raise short(field, start)
            last: int = self.data[pos]
            pos += 1
            value |= (last & 0x7F) << place
            if last < 0x80:
                if value >> 64:
                    raise DecodeError(f"{field} is {value}, legal is below 2^64", start)
                self.pos = pos
                return value
        raise DecodeError(f"{field} is a number of more than {NAT_LEN_MAX} octets", start)


def short(field: str, at: int) -> ShortError:
    """The error for input that ends inside a field."""
    return ShortError(f"the input ends inside {field}", at)


def put_byte(out: bytearray, value: int, field: str) -> None:
    """Append one octet."""
    if not 0 <= value <= 0xFF:
        raise InvalidValueError(field, f"{value} is no octet, legal are 0 to 255")
    out.append(value)


def put_nat(out: bytearray, value: int, field: str) -> None:
    """Append a number, in its shortest form."""
    if 0 <= value < 0x80:
        out.append(value)
        return
    if not 0 <= value <= 0xFFFFFFFFFFFFFFFF:
        raise InvalidValueError(field, f"{value} is no number below 2^64")
    _put_groups(out, value)


def put_wide(out: bytearray, value: int, field: str, bits_max: int) -> None:
    """Append a number that may have more than 64 bits."""
    if value < 0 or value >> bits_max:
        raise InvalidValueError(field, f"it is negative, or has more than {bits_max} bits")
    _put_groups(out, value)


def _put_groups(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def put_count(out: bytearray, count: int, field: str, count_max: int = -1) -> None:
    """Append how many elements, or octets, follow."""
    if count > count_max and count_max >= 0:
        raise InvalidValueError(field, f"{count} of them, at most {count_max} are legal")
    put_nat(out, count, field)


def put_octets(out: bytearray, value: bytes, field: str, len_max: int = -1) -> None:
    """Append a length and the octets."""
    put_count(out, len(value), field, len_max)
    out += value


def missing(field: str, subject: str) -> InvalidValueError:
    """The error for a value that another member asks for."""
    return InvalidValueError(field, f"it is missing; {subject} asks for it")


def unwanted(field: str, subject: str) -> InvalidValueError:
    """The error for a value that another member rules out."""
    return InvalidValueError(field, f"it is there; {subject} rules it out")


@mypyc_attr(allow_interpreted_subclasses=True)  # codecs of other schemas need not be compiled
class Record:
    """What generated records have in common: equality and a text, by their members."""

    __slots__ = ()

    def members(self) -> tuple[str, ...]:
        """The names of its members, in the order of the definition."""
        return ()

    def tree(self) -> dict[str, object]:
        """The members by name; records inside become trees, too."""
        return {name: _plain(getattr(self, name)) for name in self.members()}

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.tree() == _plain(other)

    def __hash__(self) -> int:
        raise TypeError("messages are not hashable")

    def __repr__(self) -> str:
        members = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.members()])
        return f"{type(self).__name__}({members})"


def _plain(value: object) -> object:
    if isinstance(value, Record):
        return value.tree()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
