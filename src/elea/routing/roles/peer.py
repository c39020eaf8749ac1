"""The peer: a mesh of peers and gateways to the north, clients to the south."""

from __future__ import annotations

from typing import Final

from elea.routing.regions import (
    CLIENT,
    CLIENTS,
    LOCAL,
    NORTH_PEERS,
    PEER,
    ROUTER,
    SOUTH_PEERS,
    Placement,
)
from elea.routing.roles.role import Role

PEER_ROLE: Final = Role(
    whatami=PEER,
    regions=(NORTH_PEERS, SOUTH_PEERS, CLIENTS, LOCAL),
    placements={
        ROUTER: Placement(NORTH_PEERS, gateway=True),
        PEER: Placement(NORTH_PEERS),
        CLIENT: Placement(CLIENTS),
    },
    gossips=True,
    ends_future=False,
)
