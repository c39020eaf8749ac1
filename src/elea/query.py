"""How a query is delivered and how its replies are merged (wire.md 2.17)."""

from __future__ import annotations

from enum import Enum
from typing import ClassVar, Self

from elea.records import dataclass


class QueryTarget(Enum):
    """Which of the matching queryables get a query; the values travel."""

    BEST_MATCHING = 0  # one complete queryable if there is any, else all
    ALL = 1
    ALL_COMPLETE = 2
    DEFAULT = BEST_MATCHING

    def __int__(self) -> int:
        return int(self.value)

    __repr__ = Enum.__str__


class ConsolidationMode(Enum):
    """What happens to several replies with one key; the values travel.

    A mode can be called and is its own result: `QueryConsolidation.mode` is a property in the stubs
    of zenoh-python and a method in its wheel, and programs were written for both.
    """

    AUTO = 0  # chosen by the selector: none for a time range, else latest
    NONE = 1  # all are delivered
    MONOTONIC = 2  # delivered at once, unless a newer one with that key was before
    LATEST = 3  # held back to the end, only the newest per key is delivered
    DEFAULT = AUTO

    def __call__(self) -> Self:
        return self

    def __int__(self) -> int:
        return int(self.value)

    __repr__ = Enum.__str__


class ReplyKeyExpr(Enum):
    """Which keys the replies to a query may have."""

    ANY = 0
    MATCHING_QUERY = 1
    DEFAULT = MATCHING_QUERY

    def __int__(self) -> int:
        return int(self.value)

    __repr__ = Enum.__str__


@dataclass(frozen=True, slots=True)
class QueryConsolidation:
    """A consolidation mode, as `get` accepts it."""

    mode: ConsolidationMode

    AUTO: ClassVar[QueryConsolidation]
    DEFAULT: ClassVar[QueryConsolidation]

    def __post_init__(self) -> None:
        if not isinstance(self.mode, ConsolidationMode):
            raise TypeError(f"expected a ConsolidationMode, got {type(self.mode).__name__}")


QueryConsolidation.AUTO = QueryConsolidation.DEFAULT = QueryConsolidation(ConsolidationMode.AUTO)
