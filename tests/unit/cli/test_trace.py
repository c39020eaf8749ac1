"""`elea trace`: against daemons, and against answers that lead nowhere or in circles."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import ask, client_of, options, read, root_of, running

import elea
from elea.cli.main import main
from elea.daemon.daemon import Daemon
from elea.operate import walk

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def chain() -> Iterator[tuple[Daemon, Daemon]]:
    with (
        running(options('metadata:{name: "gate"}', id="a1")) as gate,
        running(options(id="b2", connect=gate.locators())) as lab,
    ):
        yield gate, lab


def at(daemon: Daemon) -> list[str]:
    return ["--connect", daemon.locators()[0], "--timeout", "60"]  # the machine may be busy


def settled(daemon: Daemon, key: str) -> None:
    """Wait until a router knows of something below its own key."""
    path = f"{root_of(daemon)}/{key}"
    with client_of(daemon) as client:
        # A question for k/* is also answered with k/**.
        assert eventually(lambda: path in ask(client, path))


def test_a_sample_over_two_routers(chain: tuple[Daemon, Daemon], capsys: Capture) -> None:
    gate, lab = chain
    with client_of(gate) as near, client_of(lab) as far:
        kept = [near.declare_subscriber("k/**"), far.declare_subscriber("k/*")]
        settled(gate, "subscriber/k/**")
        settled(gate, "subscriber/k/*")
        settled(gate, "route/successor/src/a1/dst/b2")
        assert main(["trace", "k/x", *at(gate)]) == 0
        shown = capsys.readouterr()
        lines = [line.partition("; sent")[0] for line in shown.out.splitlines()]
        assert lines[0] == "router a1 gate"
        assert sorted(lines[1:]) == sorted(
            [
                f"  client {near.zid()}; subscriber k/**",
                "  router b2; subscriber k/*",
                f"    client {far.zid()}; subscriber k/*",
            ]
        )
        assert "2 subscribers for k/x" in shown.err
        assert main(["trace", "k/x", "--from", str(far.zid()), *at(gate)]) == 0
        assert f"client {far.zid()}" not in capsys.readouterr().out  # its own
        assert main(["trace", "k/x", "--from", "b2", *at(gate)]) == 0
        assert capsys.readouterr().out.startswith("router b2\n")
        assert len(kept) == 2


def test_as_json(chain: tuple[Daemon, Daemon], capsys: Capture) -> None:
    gate, lab = chain
    with client_of(lab) as far:
        kept = far.declare_queryable("q", lambda query: query.drop(), complete=True)
        settled(gate, "queryable/q")
        settled(gate, "route/successor/src/a1/dst/b2")
        assert main(["trace", "q", "--action", "get", "--json", *at(gate)]) == 0
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(one["depth"], one["zid"], one["takes"]) for one in lines] == [
            (0, "a1", False),
            (1, "b2", False),
            (2, str(far.zid()), True),
        ]
        assert lines[2]["why"] == ["queryable q (complete)"]
        assert lines[2]["dropped_messages"] == 0
        assert str(kept.key_expr) == "q"


def test_a_subscription_to_who_publishes(chain: tuple[Daemon, Daemon], capsys: Capture) -> None:
    gate, lab = chain
    with client_of(lab) as far:
        kept = far.declare_publisher("p/x")
        settled(lab, "publisher/p/x")
        settled(gate, "route/successor/src/a1/dst/b2")
        assert main(["trace", "p/*", "--action", "subscribe", *at(gate)]) == 0
        shown = capsys.readouterr()
        assert f"    client {far.zid()}; publisher p/x" in shown.out
        assert "1 publisher for p/*" in shown.err
        assert str(kept.key_expr) == "p/x"


def test_an_application_of_the_router_itself(chain: tuple[Daemon, Daemon], capsys: Capture) -> None:
    gate, _ = chain
    with gate.session.declare_subscriber("own"):
        assert main(["trace", "own", *at(gate)]) == 0
    assert "  its own application; subscriber own" in capsys.readouterr().out


def test_nobody_gets_it(chain: tuple[Daemon, Daemon], capsys: Capture) -> None:
    gate, _ = chain
    assert main(["trace", "none", *at(gate)]) == 1
    assert "no subscriber for none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["a//b"], "a//b"),
        (["a", "--from", "ff"], "no node that answers knows ff"),
        (["a", "--from", "x;y"], "--from"),
    ],
)
def test_what_cannot_be_asked(
    arguments: list[str], expected: str, chain: tuple[Daemon, Daemon], capsys: Capture
) -> None:
    assert main(["trace", *arguments, *at(chain[0])]) in (1, 2)
    assert expected in capsys.readouterr().err


def test_a_parameter_that_is_no_id_is_answered_with_an_error() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        [reply] = client.get(f"{root_of(daemon)}/route/put/a?from=zz")
        assert reply.err is not None
        assert "zz" in reply.err.payload.to_string()
        assert read(client, f"{root_of(daemon)}/route/put/a")["hops"] == []


def test_routes_are_told_to_those_only_who_spell_them() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        found = ask(client, f"{root_of(daemon)}/**")
        assert not [key for key in found if "/route/put" in key]


def answering(hops: Callable[[str], list[object]]) -> Callable[[elea.Query], None]:
    """An admin space of nodes b1, b2, ... that hand on as told."""

    def answer(query: elea.Query) -> None:
        with query:
            key = str(query.key_expr)
            for zid in ("b1", "b2", "b3"):
                if query.key_expr.intersects(f"@/{zid}/router"):
                    query.reply(f"@/{zid}/router", json.dumps({"zid": zid, "sessions": []}))
                if key.startswith(f"@/{zid}/router/route/put/"):
                    query.reply(key, json.dumps({"hops": hops(zid)}))

    return answer


def router(zid: str) -> object:
    return {"zid": zid, "whatami": "router", "why": ["subscriber \x1b[31m"]}


NEXT = {"b1": ["b2", "b3"], "b2": ["b1"], "b3": ["b2", "d9"]}


def test_loops_and_silent_nodes_are_told(hub: Hub, capsys: Capture) -> None:
    follow = answering(lambda zid: [router(one) for one in NEXT[zid]])
    with hub.session.declare_queryable("@/**", follow):
        assert main(["trace", "k", "--from", "b1", *hub.connect]) == 1
    shown = capsys.readouterr()
    lines = [line.split(";")[0] + ";" + line.split(";")[-1] for line in shown.out.splitlines()]
    assert lines[0] == "router b1;router b1"
    assert lines[2] == "    router b1; it was here before: a loop"
    assert lines[4] == "    router b2; it is reached another way as well"
    assert lines[5].startswith("    router d9; does not answer")
    assert "elea: 1 node on the way does not answer: what happens there" in shown.err
    assert "\x1b" not in shown.out + shown.err


def test_access_rules_end_a_way(hub: Hub, capsys: Capture) -> None:
    denied = {"allowed": False, "rule": "r1", "why": "denied on k/**"}

    def answer(query: elea.Query) -> None:
        with query:
            key = str(query.key_expr)
            for zid in ("b1", "b2"):
                if query.key_expr.intersects(f"@/{zid}/router"):
                    query.reply(f"@/{zid}/router", "{}")
            client = {"zid": "c1", "whatami": "client", "why": ["subscriber k"]}
            hops = [{**client, "access": denied}, router("b2")]
            if key.startswith("@/b1/router/route/put/"):
                query.reply(key, json.dumps({"hops": hops, "access": {"allowed": True}}))
            if key.startswith("@/b2/router/route/put/"):
                query.reply(key, json.dumps({"hops": [client], "access": {**denied, "rule": None}}))

    with hub.session.declare_queryable("@/**", answer):
        assert main(["trace", "k", "--from", "b1", *hub.connect]) == 1
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.endswith("does not get it: denied on k/** (rule r1)")
    assert second.endswith("lets nothing in: denied on k/**")


def test_what_is_printed_is_bounded(
    hub: Hub, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "STEPS_COUNT_MAX", 10)
    with hub.session.declare_queryable("@/**", answering(lambda _: [router("d9")] * 1_000)):
        assert main(["trace", "k", "--from", "b1", *hub.connect]) == 1
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 10
    assert "991 further nodes are not shown" in shown.err


@pytest.mark.parametrize("hops", [3, [1, "x"], [{"zid": 5, "whatami": [], "why": {}}], [{}]])
def test_answers_that_are_none(hub: Hub, hops: object, capsys: Capture) -> None:
    def answer(query: elea.Query) -> None:
        with query:
            if query.key_expr.intersects("@/b1/router"):
                query.reply("@/b1/router", "{}")
            if str(query.key_expr).startswith("@/b1/router/route"):
                query.reply(str(query.key_expr), json.dumps({"hops": hops}))

    with hub.session.declare_queryable("@/**", answer):
        assert main(["trace", "k", "--from", "b1", *hub.connect]) == 1
    assert "Traceback" not in capsys.readouterr().err
