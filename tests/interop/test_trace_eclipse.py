"""`elea trace` and `elea top` where routers of Eclipse Zenoh are on the way."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from tests.interop.ends import ECLIPSE, ELEA, eventually, free_endpoint, session
from tests.unit.daemon.rig import options, running

from elea.cli.main import main

TOLD = {"adminspace/enabled": True}
Capture = pytest.CaptureFixture[str]


def settled(
    arguments: list[str], capsys: Capture, enough: Callable[[list[dict[str, object]]], bool]
) -> None:
    """Run a command until it prints what is waited for."""
    lines: list[dict[str, object]] = []

    def look() -> bool:
        main(arguments)
        lines[:] = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        return enough(lines)

    assert eventually(look), lines


def settle(endpoint: str, key: str) -> None:
    """Wait until a subscription from behind an Eclipse router is known at `endpoint`.

    A router of Eclipse that is asked for successors between learning of another router and drawing
    its trees panics (1.10.2, network.rs `successor_entry`), and reads from that link no more. It
    passes on declarations of the other router by those trees.
    """
    with session(ELEA, "client", connect=endpoint) as asking:
        publisher = asking.declare_publisher(key)
        assert eventually(lambda: publisher.matching_status.matching)


def test_a_way_through_an_eclipse_router(capsys: Capture) -> None:
    middle = free_endpoint()
    with (
        session(ECLIPSE, "router", listen=middle, more={"id": "e1", **TOLD}),
        running(options(id="a1", connect=(middle,))) as near,
        running(options(id="a2", connect=(middle,))) as far,
        session(ECLIPSE, "client", connect=middle, more={"id": "c1"}) as beside,
        session(ECLIPSE, "client", connect=far.locators()[0], more={"id": "c2"}) as behind,
    ):
        kept = [beside.declare_subscriber("k/**"), behind.declare_subscriber("k/x")]
        kept += [behind.declare_publisher("k/y"), behind.declare_subscriber("behind")]
        settle(near.locators()[0], "behind")
        way = [(0, "a1"), (1, "e1"), (2, "c1"), (2, "a2"), (3, "c2")]
        arguments = ["trace", "k/x", "--json", "--connect", near.locators()[0]]

        def same(lines: list[dict[str, object]]) -> bool:
            return sorted((one["depth"], one["zid"]) for one in lines) == sorted(way)

        settled(arguments, capsys, same)
        assert main(arguments) == 0
        told = {one["zid"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
        assert "no Elea node" in told["e1"]["note"]
        assert (told["c1"]["takes"], told["c1"]["why"]) == (True, ["subscriber k/**"])
        assert (told["c2"]["takes"], told["c2"]["why"]) == (True, ["subscriber k/x"])
        backwards = ["trace", "k/y", "--action", "subscribe", "--json"]
        backwards += ["--connect", near.locators()[0]]
        settled(backwards, capsys, lambda lines: lines[-1]["why"] == ["publisher k/y"])
        assert len(kept) == 4


def test_an_eclipse_router_that_does_not_tell(capsys: Capture) -> None:
    endpoint = free_endpoint()
    with session(ECLIPSE, "router", listen=endpoint, more={"id": "e1"}):
        assert main(["trace", "k/x", "--connect", endpoint]) == 1
        shown = capsys.readouterr()
        assert shown.out.startswith("node e1; does not answer")
        assert "1 node on the way does not answer: what happens there is not known" in shown.err


@pytest.mark.parametrize("name", [ELEA, ECLIPSE])
def test_a_peer_that_tells_names_its_application(name: str, capsys: Capture) -> None:
    with (
        running(options(id="a1")) as gate,
        session(name, "peer", connect=gate.locators()[0], more={"id": "b1", **TOLD}) as peer,
        session(ECLIPSE, "client", connect=gate.locators()[0], more={"id": "c1"}) as client,
    ):
        kept = [peer.declare_subscriber("k/x"), client.declare_publisher("k/x")]
        arguments = ["trace", "k/x", "--json", "--connect", gate.locators()[0]]
        way = [(0, "a1", False), (1, "b1", False), (2, "b1", True)]

        def same(lines: list[dict[str, object]]) -> bool:
            return [(one["depth"], one["zid"], one["local"]) for one in lines] == way

        settled(arguments, capsys, same)
        assert main([*arguments, "--from", "c1"]) == 0
        backwards = [*arguments, "--action", "subscribe", "--from", "b1"]
        settled(backwards, capsys, lambda lines: lines[-1]["why"] == ["publisher k/x"])
        assert len(kept) == 2


@pytest.mark.parametrize("name", [ELEA, ECLIPSE])
def test_a_peer_is_where_a_way_ends(name: str, capsys: Capture) -> None:
    with (
        running(options(id="a1")) as gate,
        session(name, "peer", connect=gate.locators()[0], more={"id": "b1"}) as peer,
    ):
        kept = peer.declare_subscriber("k/x")
        arguments = ["trace", "k/x", "--json", "--connect", gate.locators()[0]]
        settled(arguments, capsys, lambda lines: lines[-1]["zid"] == "b1")
        assert main(arguments) == 0
        last = json.loads(capsys.readouterr().out.splitlines()[-1])
        assert (last["whatami"], last["takes"]) == ("peer", True)
        assert str(kept.key_expr) == "k/x"


def test_an_eclipse_router_is_shown_without_counters(capsys: Capture) -> None:
    endpoint = free_endpoint()
    with (
        session(ECLIPSE, "router", listen=endpoint, more={"id": "e1", **TOLD}),
        session(ECLIPSE, "client", connect=endpoint, more={"id": "c1"}),
    ):
        quick = ["--interval", "0.2", "--connect", endpoint]
        assert main(["top", "--once", *quick]) == 0
        node, _, _, row = capsys.readouterr().out.splitlines()
        assert node.startswith("router e1  1 session")
        assert row.split() == ["-", "-", "router", "e1", "client", "c1", *["-"] * 4, "tcp"]
        assert main(["top", "--once", "--json", *quick]) == 0
        [shown] = json.loads(capsys.readouterr().out)["nodes"]
        assert [one["zid"] for one in shown["sessions"]] == ["c1"]
