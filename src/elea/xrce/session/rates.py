"""How often strangers are answered: so many times a second each, and all together (19.3)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

_SECOND_NS: Final = 1_000_000_000
_Member = TypeVar("_Member", bound=Hashable)


class RateLimit:
    """Counts answers by source, second by second."""

    def __init__(self, source_count: int, total_count: int, sources_count: int) -> None:
        self.refused_count = 0
        self._source_count = source_count
        self._total_count = total_count
        self._sources_count = sources_count
        self._second = -1
        self._total = 0
        self._by_source: dict[Hashable, int] = {}

    def allows(self, source: Hashable, now_ns: int) -> bool:
        """Whether to answer; if so, it counts."""
        second = now_ns // _SECOND_NS
        if second != self._second:
            self._second, self._total = second, 0
            self._by_source.clear()
        answered = self._by_source.get(source, 0)
        known = source in self._by_source or len(self._by_source) < self._sources_count
        if not known or answered >= self._source_count or self._total >= self._total_count:
            self.refused_count += 1
            return False
        self._by_source[source] = answered + 1
        self._total += 1
        return True


class Last(Generic[_Member]):
    """A set with a bound: one member more, and the oldest is forgotten."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._members: dict[_Member, None] = {}

    def add(self, member: _Member) -> None:
        """Have a member, as the newest."""
        self.discard(member)
        self._members[member] = None
        if len(self._members) > self._count:
            del self._members[next(iter(self._members))]

    def discard(self, member: _Member) -> None:
        """Have it no more."""
        self._members.pop(member, None)

    def __contains__(self, member: object) -> bool:
        return member in self._members
