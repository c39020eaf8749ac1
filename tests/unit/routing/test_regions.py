"""Where neighbours are placed (behaviour.md 0.4)."""

from __future__ import annotations

import pytest

from elea.routing.regions import (
    BOUND_NORTH,
    BOUND_SOUTH,
    CLIENT,
    CLIENTS,
    NORTH_PEERS,
    PEER,
    ROUTER,
    UPSTREAM,
    Placement,
)
from elea.routing.roles.client import CLIENT_ROLE
from elea.routing.roles.peer import PEER_ROLE
from elea.routing.roles.role import Role


@pytest.mark.parametrize(
    ("role", "whatami", "bound", "placement"),
    [
        (CLIENT_ROLE, ROUTER, None, Placement(UPSTREAM, gateway=True)),
        (CLIENT_ROLE, PEER, None, Placement(UPSTREAM, gateway=True)),
        (CLIENT_ROLE, CLIENT, None, None),
        (CLIENT_ROLE, CLIENT, BOUND_SOUTH, None),
        (CLIENT_ROLE, ROUTER, BOUND_SOUTH, Placement(UPSTREAM, gateway=True)),
        (CLIENT_ROLE, ROUTER, BOUND_NORTH, None),
        (PEER_ROLE, ROUTER, None, Placement(NORTH_PEERS, gateway=True)),
        (PEER_ROLE, PEER, None, Placement(NORTH_PEERS)),
        (PEER_ROLE, CLIENT, None, Placement(CLIENTS)),
        (PEER_ROLE, PEER, BOUND_SOUTH, Placement(NORTH_PEERS, gateway=True)),
        (PEER_ROLE, PEER, BOUND_NORTH, Placement(NORTH_PEERS)),
        (PEER_ROLE, ROUTER, BOUND_NORTH, None),
        (PEER_ROLE, CLIENT, BOUND_NORTH, Placement(CLIENTS)),
        (PEER_ROLE, PEER, 2, None),
    ],
)
def test_placement(
    role: Role, whatami: int, bound: int | None, placement: Placement | None
) -> None:
    assert role.place(whatami, bound) == placement
