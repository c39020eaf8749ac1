"""Role: the regions of a node and who is placed where (behaviour.md 0.4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elea.routing.regions import BOUND_NORTH, BOUND_SOUTH, Placement, Region, RegionKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """What distinguishes one role from another, as data."""

    whatami: int
    regions: tuple[Region, ...]
    placements: Mapping[int, Placement]  # by the neighbour's role; absent ones are refused
    gossips: bool
    ends_future: bool  # whether an interest in the future alone is answered with D_FINAL

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

    def place(self, whatami: int, remote_bound: int | None = None) -> Placement | None:
        """Where a neighbour belongs, or None if the two must not talk.

        Args:
            whatami: The neighbour's role.
            remote_bound: What its OPEN said, if it said anything: 0 puts this node north of it,
                1 south, which makes the neighbour a gateway of this node.
        """
        placement = self.placements.get(whatami)
        if placement is None or remote_bound is None:
            return placement
        if remote_bound == BOUND_SOUTH:
            return Placement(self.north, gateway=True)
        # "You are north of me" from a node that would be our gateway contradicts itself.
        return None if remote_bound != BOUND_NORTH or placement.gateway else placement
