"""The router: a network of routers to the north, peers and clients to the south."""

from __future__ import annotations

from typing import Final

from elea.routing.regions import (
    CLIENT,
    CLIENTS,
    LOCAL,
    PEER,
    ROUTER,
    ROUTERS,
    SOUTH_PEERS,
    Placement,
)
from elea.routing.roles.role import Role

ROUTER_ROLE: Final = Role(
    whatami=ROUTER,
    regions=(ROUTERS, SOUTH_PEERS, CLIENTS, LOCAL),
    placements={
        ROUTER: Placement(ROUTERS),
        PEER: Placement(SOUTH_PEERS),
        CLIENT: Placement(CLIENTS),
    },
    gossips=True,
    ends_future=True,
)
