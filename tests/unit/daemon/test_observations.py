"""What the admin space tells those who ask by name: traffic by key, events, the audit."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import ask, client_of, options, read, root_of, running

import elea
from elea.daemon.audit import verify
from elea.daemon.daemon import Daemon

DENY = (
    'access_control:{enabled:true,default_permission:"allow",rules:[{id:"no doors",'
    'permission:"deny",flows:["ingress"],messages:["put"],key_exprs:["door/**"]}],'
    'subjects:[{id:"all"}],policies:[{rules:["no doors"],subjects:["all"]}]}'
)


def counted(session: Any, daemon: Daemon) -> dict[str, int]:
    return {row[0]: row[1] for row in read(session, f"{root_of(daemon)}/keys")["keys"]}


@pytest.mark.parametrize("rules", [(), (DENY,)], ids=["fast way", "with access rules"])
def test_traffic_is_counted_by_key_from_the_first_question_on(rules: tuple[str, ...]) -> None:
    with (
        running(options(*rules)) as daemon,
        client_of(daemon) as sender,
        client_of(daemon) as taker,
        taker.declare_subscriber("**", elea.handlers.FifoChannel(1_000)) as taken,
        sender.declare_publisher("f/a") as publisher,
    ):
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put("before")
        assert taken.recv().payload.to_string() == "before"  # so the daemon has passed it on
        assert counted(taker, daemon) == {}  # it begins now
        for _ in range(20):
            publisher.put("12345")
        sender.put("f/b", b"x" * 100_000)  # in fragments
        assert eventually(lambda: counted(taker, daemon) == {"f/a": 20, "f/b": 1})
        told = read(taker, f"{root_of(daemon)}/keys?top=1;by=bytes")
        [[key, messages, octets, age_s]] = told["keys"]
        assert (key, messages, told["left_out"]) == ("f/b", 1, 1)
        assert octets >= 100_000
        assert 0 <= age_s < 60
        root = root_of(daemon)
        [(key, payload)] = ask(taker, f"{root}/keys/f/a").items()
        assert key == f"{root}/keys/f/a"
        assert json.loads(payload)["messages"] == 20
        assert len(ask(taker, f"{root}/keys/f/*")) == 2
        assert len(ask(taker, f"{root}/keys/**")) == 2


def test_nothing_is_counted_for_those_who_ask_for_everything() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        root = root_of(daemon)
        for selector in (f"{root}/**", "@/**", "@/*/**"):
            keys = [key.removeprefix(root) for key in ask(client, selector)]
            assert not {"/keys", "/events", "/audit"} & {*keys}
        node: Any = daemon.session._context.driver.node
        assert not node.traffic.active


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        ("keys?top=no", "invalid top"),
        ("keys?by=name", "expected one of rate, bytes, age"),
        ("events?after=-1", "invalid after"),
        ("audit?max=1001", "expected a whole number up to 1000"),
    ],
)
def test_what_is_no_number_is_refused(part: str, reason: str) -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        [reply] = client.get(f"{root_of(daemon)}/{part}")
        assert reply.err is not None
        assert reason in reply.err.payload.to_string()


def test_events_and_audit_tell_who_came_and_what_was_refused() -> None:
    with running(options(DENY)) as daemon, client_of(daemon) as client:
        root = root_of(daemon)
        client.put("door/1", "open")

        def refused() -> list[dict[str, Any]]:
            told = read(client, f"{root}/events")
            return [one for one in told["events"] if one["event"] == "refused"]

        assert eventually(refused)
        [one] = refused()
        assert (one["action"], one["key"], one["rule"]) == ("put", "door/1", "no doors")
        told = read(client, f"{root}/events")
        joined = [one for one in told["events"] if one["event"] == "joined"]
        assert [one["zid"] for one in joined] == [str(client.zid())]
        last = told["last"]
        assert read(client, f"{root}/events?after={last}")["events"] == []
        newest = read(client, f"{root}/events?max=1")
        assert [one["n"] for one in newest["events"]] == [last]
        assert newest["left_out"] == last - 1
        audit = read(client, f"{root}/audit")
        assert (audit["broken"], audit["lost"]) == (None, 0)
        lines = [one["line"] for one in audit["lines"]]
        assert verify(lines) is None
        assert "door/1" in lines[-1]
        assert "open" not in json.loads(lines[-1])  # no payload


def test_a_node_tells_its_time() -> None:
    with running(options()) as daemon, client_of(daemon) as client:
        stats = read(client, f"{root_of(daemon)}?_stats")["stats"]
        assert stats["time"] > 1_700_000_000


def test_a_session_without_a_daemon_tells_of_its_traffic_and_has_no_audit() -> None:
    with running(options()) as daemon:
        config = {
            "mode": "peer",
            "adminspace": {"enabled": True},
            "connect": {"endpoints": [daemon.locators()[0]]},
            "listen": {"endpoints": []},
        }
        with elea.open(config) as peer, client_of(daemon) as client:
            root = f"@/{peer.zid()}/peer"
            assert eventually(lambda: ask(client, root))
            assert read(client, f"{root}/keys")["keys"] == []
            assert ask(client, f"{root}/audit") == {}
            assert read(client, f"{root}/events")["events"] == []
