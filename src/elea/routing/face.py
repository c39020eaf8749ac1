"""Face: one neighbour, one multicast group or one local session, as routing sees it.

What other modules keep per face they keep themselves, by face id; the lists here are what the
neighbour and this node have told each other (behaviour.md 3.11).
"""

from __future__ import annotations

from elea.records import dataclass, field
from elea.routing.id_space import ID_MAX, IdSpace
from elea.routing.regions import LOCAL, Bound, Region, RegionKind
from elea.routing.resources import Aliases

EntityKey = int | str  # how a declaration is found again: its id, or its key where the id is 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceSpec:
    """Who is at the other end.

    Args:
        zid: The neighbour's id, in wire order.
        whatami: Its role: 0 router, 1 peer, 2 client.
        region: Where `Role.place` put it; `regions.LOCAL` for a session of this process.
        gateway: Whether it has this node in one of its south regions.
        multicast: Whether the face is a group: one face for all its members.
        local: Whether it is a session of this process.
        elea: Whether it keeps the rules of the specification for interests, as Elea nodes do,
            where Eclipse Zenoh departs from them.
        request_id_max: The largest request id that was agreed on.
    """

    zid: bytes
    whatami: int
    region: Region
    gateway: bool = False
    multicast: bool = False
    local: bool = False
    elea: bool = False
    request_id_max: int = ID_MAX


def local_face(zid: bytes, whatami: int) -> FaceSpec:
    """The face of a session of this process."""
    return FaceSpec(zid=zid, whatami=whatami, region=LOCAL, local=True, elea=True)


@dataclass(slots=True, eq=False)
class Face:
    """One face while it is open."""

    id: int
    spec: FaceSpec
    aliases: Aliases
    # What it declared to us, per kind: how it named it, to the key.
    remote: tuple[dict[EntityKey, str], ...] = field(default_factory=lambda: ({}, {}, {}))
    # The keys that we declared to it, per kind; their ids stand in the entries of the tables.
    told: tuple[dict[str, None], ...] = field(default_factory=lambda: ({}, {}, {}))
    declared_count: int = 0
    ready: bool = False  # a peer's D_FINAL for id 0, or a gateway's first link state, has arrived
    leaving: bool = False  # its transport is gone, and what it declared goes in turns
    overflowed: bool = False  # it declared more than we keep: what it has is not known any more
    ids: IdSpace = field(default_factory=IdSpace)  # entities and interests, numbered together
    request_ids: IdSpace = field(default_factory=IdSpace)

    @property
    def region(self) -> Region:
        return self.spec.region

    @property
    def is_north(self) -> bool:
        return self.spec.region.bound is Bound.NORTH

    @property
    def is_broker(self) -> bool:
        return self.spec.region.kind is RegionKind.BROKER

    @property
    def is_router(self) -> bool:
        """Whether it is a router of the network that this node is a router of."""
        return self.spec.region.kind is RegionKind.ROUTER

    @property
    def is_south_peer(self) -> bool:
        """Whether it is a peer, or a group of peers, that this node is a gateway of."""
        region = self.spec.region
        return region.kind is RegionKind.PEER and region.bound is Bound.SOUTH

    @property
    def is_mutual(self) -> bool:
        """Whether both sides see the other north and push all they have (behaviour.md 4.7)."""
        region = self.spec.region
        return (
            region.kind is RegionKind.PEER
            and region.bound is Bound.NORTH
            and not self.spec.gateway
            and not self.spec.multicast
        )

    def next_id(self) -> int:
        """A number for an entity or an interest that we declare."""
        number = self.ids.take()
        assert number is not None  # declarations and interests are bounded far below
        return number
