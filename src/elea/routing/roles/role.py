"""Role: the regions of a node and who is placed where (behaviour.md 0.4)."""

from __future__ import annotations

from collections.abc import Mapping

from elea.records import dataclass, replace
from elea.routing.regions import (
    BOUND_NORTH,
    BOUND_SOUTH,
    CLIENT,
    LOCAL,
    PEER,
    Bound,
    Placement,
    Region,
    RegionKind,
    south,
)
from elea.routing.roles.subregions import Newcomer, Subregion, subregion_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What distinguishes one role from another, as data."""

    whatami: int
    regions: tuple[Region, ...]
    placements: Mapping[int, Placement]  # by the neighbour's role; absent ones are refused
    gossips: bool
    ends_future: bool  # whether an interest in the future alone is answered with D_FINAL
    subregions: tuple[Subregion, ...] | None = None  # by configuration; None: by roles alone

    @property
    def north(self) -> Region:
        """The region that everything below is declared to."""
        return self.regions[0]

    @property
    def groups(self) -> Region:
        """Where multicast groups belong: among peers."""
        if self.north.kind is not RegionKind.ROUTER:
            return self.north
        return next(region for region in self.regions if region.kind is RegionKind.PEER)

    @property
    def has_peers_below(self) -> bool:
        """Whether peers may have this node as their gateway."""
        return self.north.kind is RegionKind.ROUTER or self.subregions is not None

    def with_subregions(self, subregions: tuple[Subregion, ...]) -> Role:
        """This role with subregions of a configuration instead of those of its own."""
        # A router's multicast groups are in the first, even if nobody else is.
        count = max(len(subregions), 1)
        below = (south(index, role) for index in range(count) for role in (PEER, CLIENT))
        return replace(self, regions=(self.north, *below, LOCAL), subregions=subregions)

    def choose(self, who: Newcomer) -> Region | None:
        """Where the configuration wants a node; None if it leaves that to the roles."""
        if self.subregions is None:
            return None
        index = subregion_of(self.subregions, who)
        return self.north if index is None else south(index, who.whatami)

    def place(
        self, whatami: int, remote_bound: int | None = None, chosen: Region | None = None
    ) -> Placement | None:
        """Where a neighbour belongs, or None if the two must not talk.

        Args:
            whatami: The neighbour's role.
            remote_bound: What its OPEN said, if it said anything: 0 puts this node north of it,
                1 south, which makes the neighbour a gateway of this node.
            chosen: What `choose` said.
        """
        automatic = self.placements.get(whatami)
        if chosen is None:
            return self._told(automatic, remote_bound)
        if chosen.bound is Bound.SOUTH:
            fits = remote_bound != BOUND_SOUTH and chosen in self.regions
            return Placement(chosen) if fits else None
        if remote_bound == BOUND_SOUTH:
            return self._told(automatic, remote_bound)
        if automatic is None or automatic.region.bound is Bound.SOUTH:
            return None
        if remote_bound == BOUND_NORTH:
            return Placement(self.north) if whatami == self.whatami else None
        return automatic

    def _told(self, automatic: Placement | None, bound: int | None) -> Placement | None:
        """The placement by roles, unless the other side's configuration says otherwise."""
        if automatic is None or bound is None:
            return automatic
        if bound == BOUND_SOUTH and self.north.kind is RegionKind.ROUTER:
            # To routers below it a router tells everything, as to any other: it is not asked.
            return automatic if automatic.region == self.north else None
        if bound == BOUND_SOUTH:
            return Placement(self.north, gateway=True)
        # "You are north of me" from a node that would be our gateway contradicts itself.
        return None if bound != BOUND_NORTH or automatic.gateway else automatic
