"""Qualities: what markers and properties say about how data is to be handled (12.4, 15.1, 16)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from elea.encoding import Encoding
from elea.errors import EleaError
from elea.xrce.buffer import Reader
from elea.xrce.names import Resource
from elea.xrce.properties import (
    DURABILITY,
    ENCODING,
    PRIORITY,
    RELIABILITY,
)
from elea.xrce.status import RefusedError, Status

PROPERTY_NAME: Final = "property"
_RELIABILITY: Final = {"reliable": True, "unreliable": False}


class Level(IntEnum):
    """How long data lives: with its writer, with the service, or longer than that."""

    VOLATILE = 0
    TRANSIENT = 1
    PERSISTENT = 2


_LEVELS: Final = {level.name.lower(): level for level in Level}


@dataclass(slots=True, frozen=True)
class Qualities:
    """What is known of a resource; None is not said."""

    reliable: bool | None = None
    offered: Level | None = None  # by who writes
    requested: Level | None = None  # by who reads
    encoding: Encoding | None = None
    priority: int | None = None

    @classmethod
    def of(cls, resource: Resource | None, said: Mapping[int, bytes], id_: int) -> Qualities:
        """What the markers of a resource and a list of properties say together.

        Raises:
            RefusedError: A marker is unknown (6), a value is none, or they disagree (5).
        """
        markers = resource.markers if resource is not None else ()
        if not markers and not said:
            return NOTHING_SAID
        levels = [_LEVELS[marker] for marker in markers if marker in _LEVELS]
        reliable = {_RELIABILITY[marker] for marker in markers if marker in _RELIABILITY}
        if len(levels) + len(reliable) < len(markers):
            known = ", ".join(sorted([*_LEVELS, *_RELIABILITY]))
            text = f"a marker of {', '.join(markers)} is unknown; known are {known}"
            raise RefusedError(Status.UNSUPPORTED, id_, text)
        level = _octet(said, DURABILITY, max(Level), id_)
        if level is not None:
            if levels and level not in levels:
                text = f"property {DURABILITY} says {level}, the marker something else"
                raise RefusedError(Status.INVALID, id_, text)
            levels = levels or [Level(level)]
        ordered = _octet(said, RELIABILITY, 1, id_)
        if ordered is not None:
            reliable.add(bool(ordered))
        if len(reliable) > 1:
            raise RefusedError(Status.INVALID, id_, "it is said to be reliable, and not to be")
        return cls(
            reliable=next(iter(reliable), None),
            offered=max(levels, default=None),
            requested=min(levels, default=None),
            encoding=_encoding(said.get(ENCODING)),
            priority=_priority(said.get(PRIORITY)),
        )

    def over(self, other: Qualities) -> Qualities:
        """These, and what they do not say as the other has it."""
        if other is NOTHING_SAID:
            return self
        if self is NOTHING_SAID:
            return other
        return Qualities(
            reliable=other.reliable if self.reliable is None else self.reliable,
            offered=other.offered if self.offered is None else self.offered,
            requested=other.requested if self.requested is None else self.requested,
            encoding=self.encoding or other.encoding,
            priority=self.priority or other.priority,
        )


NOTHING_SAID: Final = Qualities()


def is_read_only(resource: Resource) -> bool:
    """Whether it is the properties of another resource (2.5)."""
    return resource.path.endswith(f"/{PROPERTY_NAME}")


def _octet(said: Mapping[int, bytes], property_id: int, largest: int, id_: int) -> int | None:
    value = said.get(property_id)
    if not value:  # too short is not said
        return None
    if value[0] > largest:
        text = f"property {property_id} is {value[0]}; legal are 0 to {largest}"
        raise RefusedError(Status.INVALID, id_, text)
    return value[0]


def _encoding(value: bytes | None) -> Encoding | None:
    """Property 3: the number of an encoding and its schema; what is neither is not said."""
    if not value:
        return None
    try:
        reader = Reader(value)
        number = reader.nat("encoding")
        schema = reader.octets("schema") if not reader.at_end() else b""
        return Encoding.from_parts(number, schema or None)
    except EleaError:
        return None


def _priority(value: bytes | None) -> int | None:
    return value[0] if value and 1 <= value[0] <= 7 else None
