"""Who is who: node identifiers, roles and the numbers that name entities (wire.md 2.5, 2.6, 2.14).

Nothing here draws randomness: a new `ZenohId` is made from octets that the caller's source gives.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Final, NewType, Self

from elea.errors import InvalidValueError
from elea.limits import ZID_LEN_MAX
from elea.records import dataclass

EntityId = NewType("EntityId", int)  # an entity within its node, 32 bits
ExprId = NewType("ExprId", int)  # an alias for a key expression, 16 bits, per face and direction
RequestId = NewType("RequestId", int)  # a query, per face
InterestId = NewType("InterestId", int)  # an interest, per face
FaceId = NewType("FaceId", int)  # a neighbour or the local application, per node

Rng = Callable[[int], bytes]  # n -> n random octets; a seeded one makes a run repeatable

_HEX: Final = re.compile(r"[1-9a-f][0-9a-f]*", re.ASCII)

BytesLike = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True, order=True, repr=False)
class ZenohId:
    """The identity of a node: an unsigned integer of 1 to 16 octets, never zero.

    `octets` are in wire order, least significant first, without most-significant zeros. Ids are
    ordered by these octets from the first, not by the integer: that is what every Zenoh node does
    where a rule says "greater".

    Args:
        bytes: 1 to 16 of them in wire order; zeros at the end are removed.

    Raises:
        InvalidValueError: if there are none, too many, or only zeros.
        TypeError: if it is nothing made of bytes.

    Example:
        >>> ZenohId(bytes.fromhex("a8a7a6a5a4a3a2a1"))
        a1a2a3a4a5a6a7a8
    """

    octets: bytes

    def __init__(self, bytes: BytesLike) -> None:  # the name is zenoh-python's
        if not isinstance(bytes, BytesLike):
            raise TypeError(f"an id is made of bytes, got {type(bytes).__name__}")
        seen = len(bytes)
        if not 1 <= seen <= ZID_LEN_MAX:
            raise InvalidValueError("ZenohId", f"1 to {ZID_LEN_MAX} octets are legal, got {seen}")
        octets = memoryview(bytes).tobytes().rstrip(b"\0")
        if not octets:
            raise InvalidValueError("ZenohId", f"all {seen} octets are zero; an id is never zero")
        object.__setattr__(self, "octets", octets)

    @classmethod
    def from_bytes(cls, octets: BytesLike) -> Self:
        """The id whose wire octets, least significant first, are `octets`."""
        return cls(octets)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The id written as lower-case hexadecimal, most significant digit first, as in a config.

        Raises:
            InvalidValueError: on anything else, upper case and leading zeros included.

        Example:
            >>> ZenohId.parse("a1b2").to_bytes()
            b'\\xb2\\xa1'
        """
        if len(text) > 2 * ZID_LEN_MAX:
            raise InvalidValueError(
                "ZenohId", f"at most {2 * ZID_LEN_MAX} digits are legal, got {len(text)}"
            )
        if not _HEX.fullmatch(text):
            raise InvalidValueError(
                "ZenohId",
                f"{text!a} is not lower-case hexadecimal without leading zeros",
            )
        return cls(bytes.fromhex(text.zfill((len(text) + 1) // 2 * 2))[::-1])

    @classmethod
    def generate(cls, rng: Rng) -> Self:
        """A new id from 128 bits of `rng`."""
        octets = rng(ZID_LEN_MAX)
        if len(octets) != ZID_LEN_MAX:
            raise InvalidValueError("ZenohId", f"the random source gave {len(octets)} octets")
        return cls(octets)

    def to_bytes(self) -> bytes:
        """The octets as they travel, least significant first."""
        return self.octets

    def __bytes__(self) -> bytes:
        return self.octets

    def __int__(self) -> int:
        return int.from_bytes(self.octets, "little")

    def __str__(self) -> str:
        return self.octets[::-1].hex().lstrip("0")

    __repr__ = __str__  # programs print lists of them


class WhatAmI(Enum):
    """The role of a node. The value is its bit in SCOUT and link state; `index` is its other code.

    Example:
        >>> WhatAmI("peer").index, int(WhatAmI.PEER), str(WhatAmI.PEER)
        (1, 2, 'peer')
    """

    ROUTER = 1
    PEER = 2
    CLIENT = 4

    @property
    def index(self) -> int:
        """The 2-bit code of INIT, HELLO and JOIN."""
        return self.value >> 1

    @classmethod
    def from_index(cls, index: int) -> WhatAmI:
        """The role whose 2-bit code is `index`; 3 is reserved and refused."""
        if not 0 <= index <= 2:
            raise InvalidValueError("WhatAmI", f"2-bit codes 0, 1 and 2 are legal, got {index}")
        return cls(1 << index)

    @classmethod
    def _missing_(cls, value: object) -> WhatAmI:
        if isinstance(value, str) and value in _ROLES:
            return _ROLES[value]
        raise InvalidValueError(
            "WhatAmI", f"{str(value)[:40]!a} is no role; legal are router, peer, client"
        )

    def __int__(self) -> int:
        return int(self.value)

    __repr__ = Enum.__str__

    def __or__(self, other: WhatAmI | str) -> WhatAmIMatcher:
        if not isinstance(other, (WhatAmI, str)):
            return NotImplemented
        return WhatAmIMatcher.from_bits(self.value | WhatAmI(other).value)

    __ror__ = __or__

    def __str__(self) -> str:
        return self.name.lower()


_ROLES: Final = {str(role): role for role in WhatAmI}
_ALL_BITS: Final = 0b111


@dataclass(frozen=True, slots=True, init=False)
class WhatAmIMatcher:
    """A set of roles, as scouting asks for them.

    Args:
        matcher: roles joined by `|`, such as "router|peer"; blanks and empty parts are skipped.

    Raises:
        InvalidValueError: if a part is no role.

    Example:
        >>> str(WhatAmIMatcher("peer|router")), WhatAmI.CLIENT in WhatAmIMatcher("peer|router")
        ('router|peer', False)
    """

    bits: int

    def __init__(self, matcher: str | None = None) -> None:
        if matcher is not None and not isinstance(matcher, str):
            raise TypeError(f"roles are a text, got {type(matcher).__name__}")
        bits = 0
        for part in (matcher or "").split("|"):
            name = part.strip()
            if name and name not in _ROLES:
                raise InvalidValueError(
                    "WhatAmIMatcher",
                    f"{name[:40]!a} is no role; legal are router, peer, client",
                )
            bits |= _ROLES[name].value if name else 0
        object.__setattr__(self, "bits", bits)

    @classmethod
    def from_bits(cls, bits: int) -> Self:
        """The matcher with SCOUT's `what` bits; bits above the three roles are ignored."""
        matcher = cls()
        object.__setattr__(matcher, "bits", bits & _ALL_BITS)
        return matcher

    @classmethod
    def empty(cls) -> Self:
        """A matcher that matches no role."""
        return cls()

    def router(self, /) -> Self:
        """This matcher and routers."""
        return self.from_bits(self.bits | WhatAmI.ROUTER.value)

    def peer(self, /) -> Self:
        """This matcher and peers."""
        return self.from_bits(self.bits | WhatAmI.PEER.value)

    def client(self, /) -> Self:
        """This matcher and clients."""
        return self.from_bits(self.bits | WhatAmI.CLIENT.value)

    def is_empty(self, /) -> bool:
        """Whether no role matches."""
        return not self.bits

    def matches(self, /, whatami: WhatAmI | str) -> bool:
        """Whether this role is in the set."""
        if not isinstance(whatami, (WhatAmI, str)):
            raise TypeError(f"a role is a WhatAmI or a text, got {type(whatami).__name__}")
        return bool(self.bits & WhatAmI(whatami).value)

    def __contains__(self, whatami: WhatAmI | str) -> bool:
        return self.matches(whatami)

    def __str__(self) -> str:
        return "|".join(str(role) for role in WhatAmI if self.matches(role))


@dataclass(frozen=True, slots=True, order=True)
class EntityGlobalId:
    """An entity anywhere: the node, and the number of the entity within it (wire.md 2.14)."""

    zid: ZenohId
    eid: EntityId
