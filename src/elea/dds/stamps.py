"""Stamps and attachments: how time, writer and life cycle travel beside a sample (dds.md 12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from elea.decode.property_list import (
    SERIALIZED_KEY,
    number,
    read_number,
    read_properties,
    write_properties,
)

NANOS: Final = 1_000_000_000
AHEAD_NS_MAX: Final = 100_000_000  # a source time further ahead is not used as a stamp (D-542)
WRITE_AHEAD_NS_MAX: Final = 10 * NANOS  # nor written to DDS (D-543)
_NTP64_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF

STATUS: Final = 1
SOURCE_TIME: Final = 3
WRITER: Final = 5
DISPOSED: Final = 1
UNREGISTERED: Final = 2

_GUID_LEN: Final = 16


def ntp64_of(nanoseconds: int) -> int:
    """Return the 64 bits of a time, rounded down to 2^-32 s."""
    return (nanoseconds << 32) // NANOS


def nanos_of(time: int) -> int:
    """Return nanoseconds since 1970 of an NTP64 time; inverse of `ntp64_of`."""
    return -(-time * NANOS >> 32)


class WriterClock:
    """Stamps of one DDS writer: source times, made distinct (D-541, D-542)."""

    __slots__ = ("_last", "_source_ns", "guid")

    def __init__(self, guid: bytes) -> None:
        self.guid = guid
        self._last = -1
        self._source_ns = -1

    def stamp(self, source_ns: int, now_ns: int) -> int | None:
        """Return the NTP64 time of the next sample; None: the source time cannot be used."""
        if not 0 < source_ns <= now_ns + AHEAD_NS_MAX:
            return None
        time = (source_ns << 32) // NANOS
        if time > _NTP64_MAX:
            return None
        if source_ns == self._source_ns:
            time = self._last + 1
        self._source_ns = source_ns
        self._last = time
        return time


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a sample of the bridge says beside its payload (D-544)."""

    status: int = 0
    source_ns: int | None = None
    writer: bytes | None = None
    key: bytes | None = None  # serialised, with its header of four bytes

    def to_bytes(self) -> bytes:
        """Return the property list; empty if there is nothing to say.

        Example:
            >>> Attachment(status=DISPOSED).to_bytes().hex()
            '01010101'
        """
        found = []
        if self.status:
            found.append((STATUS, bytes((self.status,))))
        if self.source_ns is not None:
            found.append((SOURCE_TIME, number(self.source_ns)))
        if self.writer is not None:
            found.append((WRITER, self.writer))
        if self.key is not None:
            found.append((SERIALIZED_KEY, self.key))
        return write_properties(found) if found else b""

    @classmethod
    def read(cls, data: bytes) -> Attachment | None:
        """Return what a property list says; None if it is malformed. Unknown ids are ignored."""
        try:
            properties = read_properties(data)
            status = properties.get(STATUS, b"\0")
            source = properties.get(SOURCE_TIME)
            writer = properties.get(WRITER)
            key = properties.get(SERIALIZED_KEY)
            if len(status) != 1 or (writer is not None and len(writer) != _GUID_LEN):
                return None
            if key is not None and len(key) < 4:
                return None
            source_ns = None
            if source is not None:
                source_ns, end = read_number(source, 0)
                if end != len(source):
                    return None
        except ValueError:
            return None
        return cls(status[0], source_ns, writer, key)


def source_time(attachment: Attachment | None, stamp: int | None, now_ns: int) -> tuple[int, bool]:
    """Return the source time to write, and whether one too far ahead was replaced (D-543)."""
    if attachment is not None and attachment.source_ns is not None:
        time = attachment.source_ns
    elif stamp is not None:
        time = nanos_of(stamp)
    else:
        return now_ns, False
    if time > now_ns + WRITE_AHEAD_NS_MAX:
        return now_ns, True
    return time, False
