"""Regions: groups of neighbours that are treated alike (behaviour.md 0.4).

A region is data. What happens in one follows from its kind and from where it lies; the roles say
which regions a node has and who is placed where.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from elea.records import dataclass

ROUTER: Final = 0  # the role indices of INIT
PEER: Final = 1
CLIENT: Final = 2

BOUND_NORTH: Final = 0  # OPEN's RemoteBound: "you are north of me"
BOUND_SOUTH: Final = 1  # "you are south of me"


class RegionKind(Enum):
    """How messages travel inside a region and across its edge."""

    BROKER = "broker"  # a star: any face to any other face
    CLIENT = "client"  # one face upstream
    PEER = "peer"  # a full mesh is assumed: nothing from one face to another
    ROUTER = "router"  # a link-state network with one tree per source


class Bound(Enum):
    """Where a region lies, seen from this node."""

    NORTH = "north"
    SOUTH = "south"
    LOCAL = "local"


@dataclass(frozen=True, slots=True)
class Region:
    """A group of faces. The name is its identity within a node."""

    name: str
    kind: RegionKind
    bound: Bound


_WORDS: Final = ("router", "peer", "client")  # by role
_SOUTH_KINDS: Final = (RegionKind.ROUTER, RegionKind.PEER, RegionKind.BROKER)


def south(index: int, whatami: int) -> Region:
    """The neighbours of a role in a subregion, named as Eclipse Zenoh does.

    Example:
        >>> south(1, PEER).name
        'south:1:peer'
    """
    return Region(f"south:{index}:{_WORDS[whatami]}", _SOUTH_KINDS[whatami], Bound.SOUTH)


LOCAL: Final = Region("local", RegionKind.BROKER, Bound.LOCAL)
CLIENTS: Final = south(0, CLIENT)
SOUTH_PEERS: Final = south(0, PEER)
UPSTREAM: Final = Region("north", RegionKind.CLIENT, Bound.NORTH)
ROUTERS: Final = Region("north", RegionKind.ROUTER, Bound.NORTH)
NORTH_PEERS: Final = Region("north", RegionKind.PEER, Bound.NORTH)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a neighbour belongs, and whether it has us in one of its south regions."""

    region: Region
    gateway: bool = False
