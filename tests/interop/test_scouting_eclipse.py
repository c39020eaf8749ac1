"""Elea and Eclipse nodes find each other: by multicast, by gossip, and in multicast groups.

Everything happens on loopback, each test in a group of its own.
"""

from __future__ import annotations

import itertools
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import ModuleType
from typing import Any

import pytest
import zenoh
from tests.interop.ends import free_endpoint

import elea

WAIT_S = 20
MODULES: dict[str, ModuleType] = {"elea": elea, "eclipse": zenoh}
PAIRS = [("elea", "eclipse"), ("eclipse", "elea"), ("elea", "elea")]
PASSIVE: dict[str, object] = {
    "scouting/multicast/autoconnect": [],
    "scouting/gossip/autoconnect": [],
}
TRIOS = [trio for trio in itertools.product(MODULES, repeat=3) if "elea" in trio]


def config(name: str, **settings: object) -> Any:
    made = MODULES[name].Config()
    for key, value in {
        "listen/endpoints": ["tcp/127.0.0.1:0"],
        "scouting/multicast/enabled": False,
        "scouting/multicast/interface": "lo",
        "transport/shared_memory/enabled": False,
        **settings,
    }.items():
        made.insert_json5(key.replace("__", "/"), json.dumps(value))
    return made


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def eventually(condition: Callable[[], object]) -> bool:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True


class Nodes:
    """The nodes of one test, in one scouting group."""

    def __init__(self, closing: ExitStack) -> None:
        self._closing = closing
        self.scouting: dict[str, object] = {
            "scouting/multicast/enabled": True,
            "scouting/multicast/address": f"224.0.0.224:{free_port()}",
        }

    def open(self, name: str, **settings: object) -> Any:
        """A session that scouts."""
        return self.silent(name, **{**self.scouting, **settings})

    def silent(self, name: str, **settings: object) -> Any:
        """A session that does not."""
        return self._closing.enter_context(MODULES[name].open(config(name, **settings)))

    def scout(self, name: str, what: str) -> Callable[[], set[tuple[str, str]]]:
        """A search; what it has found so far."""
        heard: list[Any] = []
        search = MODULES[name].scout(heard.append, what=what, config=config(name, **self.scouting))
        self._closing.callback(search.stop)
        return lambda: {(str(hello.whatami), str(hello.zid)) for hello in heard}


@pytest.fixture
def nodes() -> Iterator[Nodes]:
    with ExitStack() as closing:
        yield Nodes(closing)


def neighbours(session: Any) -> set[str]:
    info = session.info
    return {str(zid) for zid in (*info.peers_zid(), *info.routers_zid())}


def zid(session: Any) -> str:
    return str(session.info.zid())


def connected(*sessions: Any) -> bool:
    """Whether each is connected to all others, by one transport each."""
    return all(
        neighbours(one) == {zid(other) for other in sessions if other is not one}
        for one in sessions
    )


def talk(source: Any, target: Any) -> bool:
    """Whether what one publishes arrives at the other."""
    got: list[str] = []
    with target.declare_subscriber(f"test/{zid(source)}", lambda sample: got.append("x")):
        return eventually(lambda: (source.put(f"test/{zid(source)}", "x"), got)[1])


@pytest.mark.line("S36", "S37")
@pytest.mark.parametrize(("asker", "asked"), PAIRS)
def test_a_scout_finds_who_has_the_role(asker: str, asked: str, nodes: Nodes) -> None:
    peer = nodes.open(asked)
    wanted, unwanted = nodes.scout(asker, "peer|client"), nodes.scout(asker, "router")
    assert eventually(wanted)
    assert wanted() == {("peer", zid(peer))}
    assert unwanted() == set()


@pytest.mark.line("S36")
def test_elea_scouts_routers_and_their_locators(nodes: Nodes) -> None:
    router = nodes.open("eclipse", mode="router")
    found = elea.scout(what="router", config=config("elea", **nodes.scouting))
    hello = found.recv(timeout=WAIT_S)
    found.stop()
    assert (hello.whatami, str(hello.zid)) == (elea.WhatAmI.ROUTER, zid(router))
    [locator] = hello.locators
    assert locator.startswith("tcp/127.0.0.1:")


@pytest.mark.line("S37")
@pytest.mark.parametrize("asker", MODULES)
def test_who_does_not_listen_is_not_found(asker: str, nodes: Nodes) -> None:
    nodes.open("elea", scouting__multicast__listen=False)
    seen = nodes.open("elea", id="a1")
    found = nodes.scout(asker, "peer")
    assert eventually(found)
    assert found() == {("peer", zid(seen))}


@pytest.mark.line("S40")
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_peers_find_each_other(first: str, second: str, nodes: Nodes) -> None:
    one, two = nodes.open(first), nodes.open(second)
    assert eventually(lambda: connected(one, two))
    assert talk(one, two)
    assert talk(two, one)
    assert connected(one, two)


@pytest.mark.line("S40")
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_one_side_that_connects_is_enough(first: str, second: str, nodes: Nodes) -> None:
    one, two = nodes.open(first, **PASSIVE), nodes.open(second)
    assert eventually(lambda: connected(one, two))
    three = nodes.open("elea", **PASSIVE)  # nobody but the second looks for it
    assert eventually(lambda: neighbours(two) == {zid(one), zid(three)})


@pytest.mark.line("S41")
@pytest.mark.parametrize(("lesser", "greater"), PAIRS)
def test_the_greater_id_connects(lesser: str, greater: str, nodes: Nodes) -> None:
    """Ids compare by their octets on the wire: 102 is 02 01, 201 is 01 02."""
    strategy = {"scouting/multicast/autoconnect_strategy": "greater-zid"}
    two = nodes.open(greater, id="102", **strategy)
    one = nodes.open(lesser, id="201", **strategy)
    assert eventually(lambda: connected(one, two))
    [link] = two.info.links()
    hellos = elea.scout(what="peer", config=config("elea", **nodes.scouting))
    found = next(hello for hello in hellos if str(hello.zid) == "201")
    hellos.stop()
    assert [str(link.dst)] == list(found.locators)


@pytest.mark.line("S38")
@pytest.mark.parametrize(
    ("client", "server", "mode"),
    [
        ("elea", "eclipse", "router"),
        ("elea", "eclipse", "peer"),
        ("elea", "elea", "peer"),
        ("eclipse", "elea", "peer"),
    ],
)
def test_a_client_without_endpoints(client: str, server: str, mode: str, nodes: Nodes) -> None:
    found = nodes.open(server, mode=mode)
    asking = nodes.open(client, mode="client", listen__endpoints=[])
    assert neighbours(asking) == {zid(found)}
    assert talk(asking, found)
    assert talk(found, asking)


def test_a_client_takes_one_router_of_two(nodes: Nodes) -> None:
    routers = {zid(nodes.open("eclipse", mode="router")) for _ in range(2)}
    client = nodes.open("elea", mode="client")
    assert len(neighbours(client)) == 1
    assert neighbours(client) < routers


def test_a_client_looks_for_another_router_when_its_own_is_lost(nodes: Nodes) -> None:
    with zenoh.open(config("eclipse", mode="router", **nodes.scouting)):
        client = nodes.open("elea", mode="client")
    assert eventually(lambda: not neighbours(client))
    router = nodes.open("eclipse", mode="router")
    assert eventually(lambda: neighbours(client) == {zid(router)})
    assert talk(client, router)


@pytest.mark.parametrize("other", MODULES)
def test_a_peer_that_comes_back_is_found_again(other: str, nodes: Nodes) -> None:
    seeker = nodes.open("elea")
    with MODULES[other].open(config(other, **nodes.scouting, **PASSIVE)) as first:
        assert eventually(lambda: connected(seeker, first))
    assert eventually(lambda: not neighbours(seeker))
    second = nodes.open(other, **PASSIVE)
    assert eventually(lambda: connected(seeker, second))


def hub_of(nodes: Nodes, name: str, **settings: object) -> tuple[Any, str]:
    """A peer, and where to connect to it."""
    endpoint = free_endpoint()
    return nodes.silent(name, listen__endpoints=[endpoint], **settings), endpoint


@pytest.mark.line("S42", "S43", "S46")
@pytest.mark.parametrize("trio", TRIOS, ids="-".join)
def test_three_peers_become_a_mesh_by_gossip(trio: tuple[str, str, str], nodes: Nodes) -> None:
    hub, endpoint = hub_of(nodes, trio[0])
    one, two = (nodes.silent(name, connect__endpoints=[endpoint]) for name in trio[1:])
    assert eventually(lambda: connected(hub, one, two))
    assert talk(one, two)
    assert talk(two, one)


@pytest.mark.line("S42", "S43")
@pytest.mark.parametrize("hub", MODULES)
@pytest.mark.parametrize(("active", "passive"), PAIRS)
def test_one_side_that_heeds_gossip_is_enough(
    hub: str, active: str, passive: str, nodes: Nodes
) -> None:
    """Checklist 42 and 43."""
    session, endpoint = hub_of(nodes, hub)
    first = nodes.silent(passive, connect__endpoints=[endpoint], scouting__gossip__autoconnect=[])
    second = nodes.silent(active, connect__endpoints=[endpoint])
    assert eventually(lambda: connected(session, first, second))


@pytest.mark.line("S43", "S45")
def test_peers_of_a_router_become_a_mesh(nodes: Nodes) -> None:
    router, endpoint = hub_of(nodes, "eclipse", mode="router")
    one, two = (nodes.silent(name, connect__endpoints=[endpoint]) for name in MODULES)
    assert eventually(lambda: connected(one, two, router))


@pytest.mark.line("P112")
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_multicast_group(first: str, second: str, nodes: Nodes) -> None:
    group = f"udp/224.0.0.225:{free_port()}#iface=lo"
    one = nodes.silent(first, listen__endpoints=[group])
    two = nodes.silent(second, listen__endpoints=[group])

    def members(session: Any) -> set[str]:
        return {str(one.zid) for one in session.info.transports() if one.is_multicast}

    assert eventually(lambda: members(one) == {zid(two)} and members(two) == {zid(one)})
    assert talk(one, two)
    assert talk(two, one)
    assert neighbours(one) == set()  # members of a group are not connected
    [link] = one.info.links()
    assert str(link.group) == group.partition("#")[0]
    two.close()
    assert eventually(lambda: members(one) == set())


@pytest.mark.line("P112")
@pytest.mark.parametrize("name", MODULES)
def test_a_large_sample_in_a_multicast_group(name: str, nodes: Nodes) -> None:
    """It takes several datagrams, which the other side puts together again."""
    group = f"udp/224.0.0.225:{free_port()}#iface=lo"
    one = nodes.silent("elea", listen__endpoints=[group])
    other = nodes.silent(name, listen__endpoints=[group])
    payload = bytes(range(256)) * 100
    got: list[bytes] = []
    other.declare_subscriber("large", lambda sample: got.append(bytes(sample.payload)))
    assert eventually(lambda: (one.put("large", payload), payload in got)[1])


@pytest.mark.parametrize("line", list(itertools.product(MODULES, repeat=2)), ids="-".join)
@pytest.mark.parametrize("seeker", MODULES)
def test_gossip_over_several_hops(seeker: str, line: tuple[str, str], nodes: Nodes) -> None:
    """The ends of a line learn of each other, though the one between cannot be reached."""
    if "elea" not in (seeker, *line):
        seeker = "elea"
    multihop: dict[str, object] = {"scouting/gossip/multihop": True}
    first, there = hub_of(nodes, line[0], **multihop, **PASSIVE)
    last, here = hub_of(nodes, line[1], **multihop, **PASSIVE)
    between = nodes.silent(
        "elea",
        listen__endpoints=[],
        connect__endpoints=[there, here],
        **multihop,
        **PASSIVE,
    )
    assert eventually(lambda: neighbours(between) == {zid(first), zid(last)})
    newcomer = nodes.silent(seeker, connect__endpoints=[here], **multihop)
    assert eventually(lambda: neighbours(newcomer) == {zid(first), zid(last)})
