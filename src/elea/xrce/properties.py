"""Properties: what a list of them says, and the list that says it (16).

A value is a prefix: what follows it is for later versions. Of equal ids the first counts. Odd ids
belong to a vendor, and ours are understood only from a peer that names our vendor code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from elea.errors import DecodeError
from elea.xrce.buffer import Reader, put_count, put_nat, put_octets
from elea.xrce.channel.serial import BITS_DEFAULT, BITS_MAX, BITS_MIN
from elea.xrce.closing import CloseReason, violation
from elea.xrce.declaration_records import Property

VENDOR_CODE: Final = b"\xff\x0e"

PARAMETERS_COUNT_MAX: Final = 100  # %0 to %99

VENDOR: Final = 0
CONDUITS: Final = 2
SEQUENCE_NUMBER_LENGTH: Final = 4
RELIABILITY: Final = 6
DURABILITY: Final = 8
COMMIT_MODE: Final = 10
AUTHENTICATION: Final = 12
CLIENT_HASH: Final = 14
# Ours.
DDS_DESCRIPTION: Final = 1
ENCODING: Final = 3
PARAMETERS: Final = 5
FRAME_LEN: Final = 7
CAPABILITIES: Final = 9
DEPTH: Final = 11
PRIORITY: Final = 13
STORE: Final = 15
MESSAGE_LEN: Final = 17
# What is said first where there is little room; odd ones mean nothing without the vendor code.
_URGENT: Final = (
    SEQUENCE_NUMBER_LENGTH,
    AUTHENTICATION,
    VENDOR,
    FRAME_LEN,
    CAPABILITIES,
    COMMIT_MODE,
    MESSAGE_LEN,
    STORE,
    CONDUITS,
    CLIENT_HASH,
)
_NEEDED: Final = (SEQUENCE_NUMBER_LENGTH, AUTHENTICATION)

# Bits of CAPABILITIES.
ACCEPTS_BATCHES: Final = 1 << 0
ACCEPTS_FRAGMENTS: Final = 1 << 1
SELECTS: Final = 1 << 2
WANTS_PULL_END: Final = 1 << 3
EMPTY_IS_DELETE: Final = 1 << 4
WANTS_PUBLISHERS: Final = 1 << 5


@dataclass(slots=True, frozen=True, kw_only=True)
class SessionProperties:
    """What an Open or an Accept says besides its members."""

    vendor: bytes = b""
    conduits_count: int = 1
    bits: int = BITS_DEFAULT
    commit_mode: int = 0
    authentication: bytes | None = field(default=None, repr=False)  # it is not for logs
    client_hash: bytes | None = None
    frame_len: int | None = None
    capabilities: int = 0
    # Messages that may come too early, and their octets, if these are a bound as well.
    store: tuple[int, int | None] | None = None
    message_len: int | None = None  # the longest payload that it puts together

    @property
    def is_ours(self) -> bool:
        """Whether the peer is of our kind."""
        return self.vendor == VENDOR_CODE

    @classmethod
    def read(cls, properties: Iterable[Property] | None) -> SessionProperties:
        """What a list says.

        Raises:
            RemoteProtocolError: A value is too short (reason 5), or the length of sequence numbers
                is none that can be used (reason 4).
        """
        if not properties:
            return _NOTHING_SAID
        said = first_of_each(properties)
        bits = _needed_nat(said, SEQUENCE_NUMBER_LENGTH, BITS_DEFAULT)
        if not BITS_MIN <= bits <= BITS_MAX:
            legal = f"legal are {BITS_MIN} to {BITS_MAX}"
            text = f"sequence numbers of {bits} bits; {legal}"
            raise violation(CloseReason.SEQUENCE_NUMBER_LENGTH, text)
        vendor = said.get(VENDOR, b"")[:2]
        ours = vendor == VENDOR_CODE
        return cls(
            vendor=vendor,
            conduits_count=_needed_nat(said, CONDUITS, 1),
            bits=bits,
            commit_mode=_needed_nat(said, COMMIT_MODE, 0),
            authentication=said.get(AUTHENTICATION),
            client_hash=said.get(CLIENT_HASH),
            frame_len=nat_in(said.get(FRAME_LEN, b"")) if ours else None,
            capabilities=(nat_in(said.get(CAPABILITIES, b"")) if ours else None) or 0,
            store=_one_or_two_nats(said.get(STORE, b"")) if ours else None,
            message_len=nat_in(said.get(MESSAGE_LEN, b"")) if ours else None,
        )

    def listed(self) -> tuple[Property, ...]:
        """The list that says this; what is the default is left out."""
        numbers = [
            (CONDUITS, self.conduits_count, 1),
            (SEQUENCE_NUMBER_LENGTH, self.bits, BITS_DEFAULT),
            (COMMIT_MODE, self.commit_mode, 0),
            (FRAME_LEN, self.frame_len, None),
            (CAPABILITIES, self.capabilities, 0),
            (MESSAGE_LEN, self.message_len, None),
        ]
        octets = [
            (VENDOR, self.vendor or None),
            (AUTHENTICATION, self.authentication),
            (CLIENT_HASH, self.client_hash),
            (STORE, _nats(self.store) if self.store is not None else None),
        ]
        found = [
            *(Property(id=one, value=value) for one, value in octets if value is not None),
            *(
                Property(id=one, value=nat(value))
                for one, value, default in numbers
                if value is not None and value != default
            ),
        ]
        return tuple(sorted(found, key=lambda one: one.id))


_NOTHING_SAID: Final = SessionProperties()
_NO_PROPERTIES: Final[dict[int, bytes]] = {}  # shared by all that have none; nobody changes it


def fitting(listed: tuple[Property, ...], room: int) -> tuple[Property, ...]:
    """Those of a list that may be said in so many octets, by how much they matter.

    What the session could not be without is said in any case.
    """
    kept: list[Property] = []
    for id_ in _URGENT:
        one = next((one for one in listed if one.id == id_), None)
        if one is None or (id_ % 2 and all(other.id != VENDOR for other in kept)):
            continue
        if id_ in _NEEDED or len(encoded([*kept, one])) <= room:
            kept.append(one)
    return tuple(sorted(kept, key=lambda one: one.id))


def first_of_each(properties: Iterable[Property] | None) -> dict[int, bytes]:
    """Values by id, not to be changed; of equal ids the first counts."""
    if not properties:
        return _NO_PROPERTIES
    said: dict[int, bytes] = {}
    for one in properties or ():
        said.setdefault(one.id, one.value)
    return said


def nat_in(value: bytes) -> int | None:
    """The number a value begins with; None if it is too short for one."""
    try:
        return Reader(value).nat("property")
    except DecodeError:
        return None


def encoded(properties: Iterable[Property]) -> bytes:
    """The list as octets, as `/property` shows it."""
    listed = list(properties)
    out = bytearray()
    put_count(out, len(listed), "properties")
    for one in listed:
        put_nat(out, one.id, "id")
        put_octets(out, one.value, "value")
    return bytes(out)


def texts_in(value: bytes) -> tuple[str, ...] | None:
    """The texts a value begins with; None if it holds no list of them."""
    try:
        reader = Reader(value)
        count = reader.count("texts", PARAMETERS_COUNT_MAX)
        return tuple(reader.octets("text").decode() for _ in range(count))
    except (DecodeError, UnicodeDecodeError):
        return None


def texts(values: Iterable[str]) -> bytes:
    """The value that says these texts."""
    listed = [value.encode() for value in values]
    out = bytearray()
    put_count(out, len(listed), "texts", PARAMETERS_COUNT_MAX)
    for octets in listed:
        put_octets(out, octets, "text")
    return bytes(out)


def _needed_nat(said: dict[int, bytes], one: int, default: int) -> int:
    if one not in said:
        return default
    number = nat_in(said[one])
    if number is None:
        raise violation(CloseReason.PARAMETER, f"property {one} holds no number")
    return number


def _one_or_two_nats(value: bytes) -> tuple[int, int | None] | None:
    first = nat_in(value)
    return None if first is None else (first, nat_in(value[len(nat(first)) :]))


def _nats(values: Iterable[int | None]) -> bytes:
    return b"".join(nat(one) for one in values if one is not None)


def nat(value: int) -> bytes:
    """The value that says this number."""
    out = bytearray()
    put_nat(out, value, "property")
    return bytes(out)
