"""Why nothing arrives: each verdict of a network that is made so."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

import pytest
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import ask, client_of, options, root_of, running

import elea
from elea.daemon.daemon import Daemon
from elea.operate import checks
from elea.operate.admin_space import AdminSpace, Hop, Neighbour, Node, Refusal, Sources
from elea.operate.checks import FAILED, OK, UNKNOWN, Check, Diagnosis, diagnose
from elea.operate.walk import Step

DENIED = (
    'access_control:{enabled:true,default_permission:"allow",rules:[{id:"own keys",'
    'permission:"deny",flows:["ingress"],messages:["put"],key_exprs:["fleet/**"]}],'
    'subjects:[{id:"all"}],policies:[{rules:["own keys"],subjects:["all"]}]}'
)


@contextmanager
def network(*cfg: str) -> Iterator[tuple[Daemon, elea.Session, elea.Session]]:
    """A router and two clients."""
    with (
        running(options(*cfg)) as daemon,
        client_of(daemon) as sender,
        client_of(daemon) as taker,
    ):
        yield daemon, sender, taker


def verdict(daemon: Daemon, key: str) -> Check:
    return diagnose(AdminSpace(daemon.session, 5, with_own=True), key).verdict


def declared(daemon: Daemon, kind: str, key: str) -> bool:
    return eventually(lambda: ask(daemon.session, f"{root_of(daemon)}/{kind}/{key}"))


def test_a_key_that_is_none() -> None:
    with running(options()) as daemon:
        found = verdict(daemon, "fleet//pose")
        assert (found.name, found.state) == ("key", FAILED)
        assert "offset 6" in found.text


def test_no_publisher_and_the_nearest_keys() -> None:
    with network() as (daemon, sender, _):
        publisher = sender.declare_publisher("fleet/r7/Pose")
        assert declared(daemon, "publisher", "fleet/r7/Pose")
        found = verdict(daemon, "fleet/r7/pose")
        assert (found.name, found.state) == ("publisher", FAILED)
        assert "fleet/r7/Pose" in found.text
        publisher.undeclare()


def test_no_subscriber() -> None:
    with network() as (daemon, sender, _):
        publisher = sender.declare_publisher("fleet/r7/pose")
        assert declared(daemon, "publisher", "fleet/r7/pose")
        found = verdict(daemon, "fleet/r7/pose")
        assert (found.name, found.state) == ("subscriber", FAILED)
        publisher.undeclare()


def test_nothing_wrong_and_a_silent_publisher() -> None:
    with network() as (daemon, sender, taker):
        publisher = sender.declare_publisher("fleet/r7/pose")
        with taker.declare_subscriber("fleet/*/pose", lambda _: publisher.put("answered")):
            assert declared(daemon, "subscriber", "fleet/*/pose")
            found = verdict(daemon, "fleet/r7/pose")
            assert (found.name, found.state) == ("samples", UNKNOWN)
            publisher.put("begin")  # from now on each sample is followed by another one
            assert eventually(lambda: verdict(daemon, "fleet/r7/pose").state == OK)


def test_a_rule_that_refuses() -> None:
    with network(DENIED) as (daemon, sender, taker):
        publisher = sender.declare_publisher("fleet/r7/pose")
        with taker.declare_subscriber("fleet/*/pose", lambda _: None):
            assert declared(daemon, "subscriber", "fleet/*/pose")
            assert declared(daemon, "publisher", "fleet/r7/pose")
            found = verdict(daemon, "fleet/r7/pose")
            assert (found.name, found.state) == ("rules", FAILED)
            assert "own keys" in found.text
            publisher.undeclare()


def test_a_put_without_a_publisher_that_a_rule_refused() -> None:
    """The verdict was that nobody publishes: a node saw the put, and refused it."""
    with network(DENIED) as (daemon, sender, _):
        sender.put("fleet/r7/pose", "1")
        assert eventually(lambda: verdict(daemon, "fleet/r7/pose").name == "refusals")
        found = verdict(daemon, "fleet/r7/pose")
        assert found.state == FAILED
        assert found.text.startswith("rule 'own keys' at router")
        assert " put fleet/r7/pose: refused " in found.text


def test_a_refusal_of_long_ago_is_told_and_is_no_verdict() -> None:
    space = Told([], [])
    Told.told_refusals[:] = [
        Refusal("aa", "put", "fleet/*", "own keys", "b1", time.time() - 3_600),
        Refusal("aa", "put", "other", "", "b1", time.time()),
    ]
    found = [one for one in diagnose(space, "fleet/r7").checks if one.name == "refusals"]
    Told.told_refusals.clear()
    assert [one.state for one in found] == [OK]
    assert "refused once, 3600 s ago" in found[0].text


class Told(AdminSpace):
    """What nodes would tell."""

    def __init__(self, nodes: list[Node], sources: list[Sources]) -> None:
        self._told_nodes, self._told_sources = nodes, sources
        self.left_out = ""

    def nodes(self, *, stats: bool = False) -> list[Node]:
        return self._told_nodes

    def sources(self, key_expr: str) -> Iterator[Sources]:
        yield from self._told_sources

    def refusals(self) -> list[Refusal]:
        return self.told_refusals

    told_refusals: ClassVar[list[Refusal]] = []


def test_two_islands(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [
        Node("aa", "router", "left", "", [], [Neighbour("a1", "client", [])]),
        Node("bb", "router", "right", "", [], [Neighbour("b1", "client", [])]),
    ]
    sources = [Sources("aa", "publisher", "k", ["a1"]), Sources("bb", "subscriber", "k", ["b1"])]
    monkeypatch.setattr(checks, "_follow", lambda *_: [])
    monkeypatch.setattr(checks, "_seen", lambda *_: Check("samples", OK, ""))
    found = diagnose(Told(nodes, sources), "k").verdict
    assert (found.name, found.state) == ("path", FAILED)
    assert "not connected" in found.text


def test_the_first_check_that_failed_is_the_verdict() -> None:
    several = [Check("a", OK, ""), Check("b", UNKNOWN, ""), Check("c", FAILED, "")]
    assert Diagnosis("k", several).verdict.name == "c"
    assert Diagnosis("k", several[:2]).verdict.name == "b"
    assert Diagnosis("k", several[:1]).verdict.name == "a"


def test_a_slow_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = iter((3, 10))

    def follow(*_: object) -> list[tuple[str, list[tuple[int, Step]]]]:
        hop = Hop("b1", "client", [], counters={"dropped_messages": next(counts)})
        return [("a1", [(0, Step(hop, takes=True))])]

    nodes = [
        Node("aa", "router", "gate", "", [], [Neighbour(z, "client", []) for z in ("a1", "b1")])
    ]
    sources = [Sources("aa", "publisher", "k", ["a1"]), Sources("aa", "subscriber", "k", ["b1"])]
    monkeypatch.setattr(checks, "_follow", follow)
    monkeypatch.setattr(checks, "_seen", lambda *_: Check("samples", OK, ""))
    found = diagnose(Told(nodes, sources), "k").verdict
    assert (found.name, found.state) == ("queues", FAILED)
    assert "7 dropped" in found.text
