"""Subregions: whom a node has south of it by its configuration (behaviour.md 0.4)."""

from __future__ import annotations

from elea.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """What is known of a node before it is placed."""

    zid: bytes
    whatami: int
    interfaces: tuple[str, ...] = ()  # of this host, that its link goes through
    region_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Matches who has all that is asked for; None asks for nothing.

    Example:
        >>> plant = Filter(roles=0b010, region_names=frozenset({"plant"}))
        >>> plant.matches(Newcomer(zid=b"1", whatami=1, region_name="plant"))
        True
        >>> plant.matches(Newcomer(zid=b"1", whatami=1))
        False
    """

    roles: int | None = None  # the bits of SCOUT
    interfaces: frozenset[str] | None = None
    zids: frozenset[bytes] | None = None
    region_names: frozenset[str] | None = None
    negated: bool = False

    def matches(self, who: Newcomer) -> bool:
        """Whether the filter takes a node in."""
        found = (
            (self.zids is None or who.zid in self.zids)
            # A link whose interface is not known goes through none that is not listed.
            and (self.interfaces is None or self.interfaces.issuperset(who.interfaces))
            and (self.roles is None or bool(self.roles >> who.whatami & 1))
            and (self.region_names is None or who.region_name in self.region_names)
        )
        return found is not self.negated


# One of them is enough; without a list everybody belongs, with an empty one nobody.
Subregion = tuple[Filter, ...] | None


def subregion_of(subregions: tuple[Subregion, ...], who: Newcomer) -> int | None:
    """The first subregion that a node belongs to; None: it is north."""
    for index, filters in enumerate(subregions):
        if filters is None or any(one.matches(who) for one in filters):
            return index
    return None
