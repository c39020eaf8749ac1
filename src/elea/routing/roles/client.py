"""The client: one neighbour upstream, everything below is declared to it."""

from __future__ import annotations

from typing import Final

from elea.routing.regions import CLIENT, LOCAL, PEER, ROUTER, UPSTREAM, Placement
from elea.routing.roles.role import Role

CLIENT_ROLE: Final = Role(
    whatami=CLIENT,
    regions=(UPSTREAM, LOCAL),
    placements={
        ROUTER: Placement(UPSTREAM, gateway=True),
        PEER: Placement(UPSTREAM, gateway=True),
    },
    gossips=False,
    ends_future=False,
)
