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
    ROUTERS,
    SOUTH_PEERS,
    UPSTREAM,
    Placement,
    Region,
    south,
)
from elea.routing.roles.client import CLIENT_ROLE
from elea.routing.roles.peer import PEER_ROLE
from elea.routing.roles.role import Role
from elea.routing.roles.router import ROUTER_ROLE
from elea.routing.roles.subregions import Filter, Newcomer


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
        (ROUTER_ROLE, ROUTER, BOUND_SOUTH, Placement(ROUTERS)),
        (ROUTER_ROLE, PEER, BOUND_SOUTH, None),
    ],
)
def test_placement(
    role: Role, whatami: int, bound: int | None, placement: Placement | None
) -> None:
    assert role.place(whatami, bound) == placement


GATE = PEER_ROLE.with_subregions((None,))
HUB = ROUTER_ROLE.with_subregions((None, None))


@pytest.mark.parametrize(
    ("role", "whatami", "bound", "chosen", "placement"),
    [
        # South is south, unless the other side has us there too, or it is no place for its role.
        (GATE, PEER, None, SOUTH_PEERS, Placement(SOUTH_PEERS)),
        (GATE, PEER, BOUND_NORTH, SOUTH_PEERS, Placement(SOUTH_PEERS)),
        (GATE, PEER, BOUND_SOUTH, SOUTH_PEERS, None),
        (GATE, CLIENT, None, CLIENTS, Placement(CLIENTS)),
        (GATE, ROUTER, None, south(0, ROUTER), None),
        (HUB, PEER, None, south(1, PEER), Placement(south(1, PEER))),
        # North, by the roles.
        (GATE, PEER, None, NORTH_PEERS, Placement(NORTH_PEERS)),
        (GATE, ROUTER, None, NORTH_PEERS, Placement(NORTH_PEERS, gateway=True)),
        (GATE, CLIENT, None, NORTH_PEERS, None),
        (HUB, ROUTER, None, ROUTERS, Placement(ROUTERS)),
        (HUB, PEER, None, ROUTERS, None),
        # North, and they say so too: equals alone.
        (GATE, PEER, BOUND_NORTH, NORTH_PEERS, Placement(NORTH_PEERS)),
        (GATE, ROUTER, BOUND_NORTH, NORTH_PEERS, None),
        # North, and they have us in their south.
        (GATE, PEER, BOUND_SOUTH, NORTH_PEERS, Placement(NORTH_PEERS, gateway=True)),
        (HUB, ROUTER, BOUND_SOUTH, ROUTERS, Placement(ROUTERS)),
        (HUB, PEER, BOUND_SOUTH, ROUTERS, None),
    ],
)
def test_placement_by_configuration(
    role: Role, whatami: int, bound: int | None, chosen: Region, placement: Placement | None
) -> None:
    assert role.place(whatami, bound, chosen) == placement


WHO = Newcomer(zid=b"1", whatami=PEER, interfaces=("eth0",), region_name="plant")


@pytest.mark.parametrize(
    ("one", "found"),
    [
        (Filter(), True),
        (Filter(roles=0b010), True),
        (Filter(roles=0b101), False),
        (Filter(zids=frozenset({b"1", b"2"})), True),
        (Filter(zids=frozenset({b"2"})), False),
        (Filter(interfaces=frozenset({"eth0", "lo"})), True),
        (Filter(interfaces=frozenset({"lo"})), False),
        (Filter(region_names=frozenset({"plant"})), True),
        (Filter(region_names=frozenset({"yard"})), False),
        (Filter(roles=0b010, region_names=frozenset({"yard"})), False),
        (Filter(roles=0b010, region_names=frozenset({"yard"}), negated=True), True),
        (Filter(negated=True), False),
    ],
)
def test_filters(one: Filter, found: bool) -> None:
    assert one.matches(WHO) is found


def test_the_first_subregion_that_matches_is_taken() -> None:
    yard = Filter(region_names=frozenset({"yard"}))
    role = PEER_ROLE.with_subregions(((yard,), (), (yard, Filter(roles=0b010)), None))
    assert role.choose(WHO) == south(2, PEER)
    assert role.choose(Newcomer(zid=b"2", whatami=CLIENT)) == south(3, CLIENT)
    assert PEER_ROLE.choose(WHO) is None
    assert PEER_ROLE.with_subregions(()).choose(WHO) == NORTH_PEERS
