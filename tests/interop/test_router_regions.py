"""`gateway/south`: peers that are gateways of peers, routers with several subregions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import zenoh
from tests.interop.daemon import answered, linked
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    Taken,
    _replies,
    alive,
    eventually,
    exchange,
    free_endpoint,
    session,
)

import elea

line = pytest.mark.line
each_gateway = pytest.mark.parametrize("gateway", [ELEA, ECLIPSE])
each_south = pytest.mark.parametrize("below", [ELEA, ECLIPSE])


def subregions(*names: str) -> dict[str, object]:
    """A setting: a subregion for each region name; everybody else is north."""
    return {"gateway": {"south": [{"filters": [{"region_names": [name]}]} for name in names]}}


class Nodes:
    """Nodes around one gateway, connected to it."""

    def __init__(self, stack: ExitStack, endpoint: str) -> None:
        self._stack = stack
        self._endpoint = endpoint

    def join(self, name: str, mode: str = "peer", **more: Any) -> Any:
        made = session(name, mode, connect=self._endpoint, more=more)
        return self._stack.enter_context(made)


@contextmanager
def around(name: str, mode: str, *regions: str) -> Iterator[Nodes]:
    endpoint = free_endpoint()
    with (
        session(name, mode, listen=endpoint, more=subregions(*regions)),
        ExitStack() as stack,
    ):
        yield Nodes(stack, endpoint)


def talk(one: Any, other: Any) -> None:
    """Samples both ways, a query and a token: across regions all of it passes."""
    exchange(one, other, "k")
    other.declare_queryable("q", lambda query: query.reply("q", "answer"))
    assert eventually(
        lambda: [r.ok.payload.to_string() for r in _replies(one, "q", timeout=5)] == ["answer"]
    )
    token = other.liveliness().declare_token("t/other")
    assert alive(one, "t/*", ["t/other"])
    token.undeclare()
    assert alive(one, "t/*", [])


def hears_nothing(source: Any, target: Any, witness: Any) -> bool:
    """Whether what the witness gets of a source does not get to the target as well."""
    got, passed = Taken(), Taken()
    target.declare_subscriber("silence", got)
    witness.declare_subscriber("silence", passed)
    assert eventually(lambda: source.put("silence", b"1") or passed.reach(1, 0.1))
    return len(got) == 0


@line("R160c")
@each_gateway
@each_south
def test_a_peer_is_the_gateway_of_peers(gateway: str, below: str) -> None:
    with around(gateway, "peer", "plant") as nodes:
        north = nodes.join(ECLIPSE if gateway == ELEA else ELEA)
        south = nodes.join(below, region_name="plant")
        other = nodes.join(ECLIPSE, region_name="plant")
        talk(south, north)
        talk(north, south)
        assert hears_nothing(south, other, north)  # one region: they are to be connected


@line("R160c")
@each_gateway
@pytest.mark.parametrize("mode", ["peer", "router"])
def test_subregions_reach_each_other(gateway: str, mode: str) -> None:
    with around(gateway, mode, "plant", "yard") as nodes:
        plant = nodes.join(ECLIPSE, region_name="plant")
        beside = nodes.join(ELEA, region_name="plant")
        yard = nodes.join(ELEA, region_name="yard")
        talk(plant, yard)
        talk(yard, plant)
        assert hears_nothing(plant, beside, yard)


@line("R160c")
@each_gateway
def test_clients_of_subregions(gateway: str) -> None:
    with around(gateway, "router", "plant", "yard") as nodes:
        one = nodes.join(ECLIPSE, "client", region_name="plant")
        other = nodes.join(ELEA, "client", region_name="yard")
        peer = nodes.join(ECLIPSE, region_name="yard")
        talk(one, other)
        talk(other, peer)


@line("R160c")
def test_a_router_below_a_router() -> None:
    hub, here, there = free_endpoint(), free_endpoint(), free_endpoint()
    plant = {"region_name": "plant"}
    with (
        session(ECLIPSE, "router", listen=hub, more=subregions("plant")),
        session(ELEA, "router", listen=here, connect=hub, more=plant),
        session(ECLIPSE, "router", listen=there, connect=hub),
        session(ECLIPSE, "client", connect=here) as below,
        session(ECLIPSE, "client", connect=there) as north,
        session(ECLIPSE, "peer", connect=hub, more=plant) as beside,
    ):
        talk(below, north)
        talk(north, below)
        talk(below, beside)


@line("R160c")
@each_gateway
def test_who_is_nowhere_is_refused(gateway: str) -> None:
    """A router that has its clients in a subregion by name has no place for others."""
    endpoint = free_endpoint()
    other = ECLIPSE if gateway == ELEA else ELEA
    with (
        session(gateway, "router", listen=endpoint, more=subregions("plant")),
        session(other, "client", connect=endpoint, more={"region_name": "plant"}) as inside,
    ):
        got = linked(inside, inside, "k")

        def outside_is_heard() -> bool:
            try:
                with session(other, "client", connect=endpoint) as outside:
                    outside.put("k", b"1")
                    return got.reach(1, 0.5)
            except (elea.ZError, zenoh.ZError):
                return False

        assert not outside_is_heard()


@line("R160c")
@pytest.mark.parametrize("names", [(ELEA, ECLIPSE), (ECLIPSE, ELEA)])
def test_of_two_gateways_one_carries(names: tuple[str, str]) -> None:
    gossip = {"scouting/gossip/enabled": True, "scouting/gossip/autoconnect": []}
    endpoints = [free_endpoint(), free_endpoint(), free_endpoint()]
    below = {**subregions("plant"), **gossip}
    with (
        session(names[0], "peer", listen=endpoints[0], more=below),
        session(names[1], "peer", listen=endpoints[1], connect=endpoints[0], more=below),
        session(ECLIPSE, "peer", connect=endpoints[:2], more=gossip) as north,
        session(
            ECLIPSE, "peer", connect=endpoints[:2], more={**gossip, "region_name": "plant"}
        ) as south,
    ):
        for source, target in ((south, north), (north, south)):
            got = Taken()
            subscriber = target.declare_subscriber("k", got)

            def once(source: Any = source, got: Taken = got) -> bool:
                got.items.clear()
                source.put("k", b"1")
                return got.reach(1, 0.3) and not got.reach(2, 0.2)

            assert eventually(once)
            subscriber.undeclare()
        north.declare_queryable("q", lambda query: query.reply("q", "answer"))
        assert answered(south, "q", ["answer"])
