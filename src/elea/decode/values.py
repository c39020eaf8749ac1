"""Kinds of decoded values, and the one kind that Python does not have."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from elea.records import dataclass


class Kind(Enum):
    """What a value is, as far as predicates tell values apart."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    FLOAT = "float"
    TEXT = "text"
    ENUMERATION = "enumeration"
    STRUCTURE = "structure"
    LIST = "list"
    BYTES = "bytes"


@dataclass(frozen=True, slots=True)
class Enumerator:
    """A value of an enumeration: it compares with integers, and with the names of its kind."""

    number: int
    members: Mapping[str, int]
