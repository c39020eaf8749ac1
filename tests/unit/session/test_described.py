"""A session describes its node under `@/`, if it is told to."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from typing import Any

import pytest
from tests.unit.cli.ends import WAIT_S, eventually, free_endpoint

import elea
from elea import aio
from elea.sim.world import World


def described(endpoint: str, **more: object) -> dict[str, Any]:
    return {
        "mode": "peer",
        "listen": {"endpoints": [endpoint]},
        "adminspace": {"enabled": True},
        **more,
    }


def client(endpoint: str) -> elea.Session:
    return elea.open({"mode": "client", "connect": {"endpoints": [endpoint]}})


def ask(session: elea.Session, selector: str) -> dict[str, bytes]:
    replies = [one.ok for one in session.get(selector, timeout=WAIT_S)]
    return {str(one.key_expr): one.payload.to_bytes() for one in replies if one is not None}


def test_a_session_is_asked_by_others() -> None:
    endpoint = free_endpoint()
    with elea.open(described(endpoint, metadata={"name": "arm"})) as session:
        kept = session.declare_subscriber("k/x")
        with client(endpoint) as asker:
            root = f"@/{session.zid()}/peer"
            shown = json.loads(ask(asker, root)[root])
            assert (shown["metadata"], shown["locators"]) == ({"name": "arm"}, [endpoint])
            assert [one["peer"] for one in shown["sessions"]] == [str(asker.zid())]
            assert f"{root}/subscriber/k/x" in ask(asker, f"{root}/subscriber/**")
            assert (
                b"zenoh_build_info" in ask(asker, f"{root}/metrics?compression=false").popitem()[1]
            )
            assert str(kept.key_expr) == "k/x"


def test_it_answers_its_own_questions() -> None:
    with elea.open(described(free_endpoint())) as session:
        assert list(ask(session, f"@/{session.zid()}/peer")) == [f"@/{session.zid()}/peer"]


def test_without_being_told_to_it_does_not() -> None:
    with elea.open({"mode": "peer", "listen": {"endpoints": []}}) as session:
        assert ask(session, "@/**") == {}


def test_its_configuration_is_not_changed_by_others(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = free_endpoint()
    more = {"adminspace": {"enabled": True, "permissions": {"write": True}}}
    with elea.open(described(endpoint, **more)) as session, client(endpoint) as writer:
        writer.put(f"@/{session.zid()}/peer/config/metadata", "1")
        assert eventually(lambda: "does not change" in caplog.text)
        assert session.config.get_json("metadata") == "null"


def test_a_namespace_and_an_admin_space_do_not_go_together(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with elea.open(described(free_endpoint(), namespace="tenant")) as session:
        assert ask(session, "@/**") == {}
    assert "no admin space" in caplog.text


def test_it_ends_with_the_last_reference() -> None:
    session = elea.open(described(free_endpoint()))
    gone = weakref.ref(session)
    del session
    gc.collect()
    assert gone() is None


def test_on_a_loop() -> None:
    endpoint = free_endpoint()

    async def main() -> dict[str, bytes]:
        async with aio.open(described(endpoint)) as session:
            root = f"@/{session.zid()}/peer"
            found = await asyncio.to_thread(from_outside, root)
            assert found.keys() == {root}
            return found

    def from_outside(root: str) -> dict[str, bytes]:
        with client(endpoint) as asker:
            return ask(asker, root)

    assert json.loads(asyncio.run(main()).popitem()[1])["locators"] == [endpoint]


def test_in_a_simulation() -> None:
    found: list[str] = []

    def program() -> None:
        with elea.open(described("tcp/0.0.0.0:7447")) as session:
            found.extend(ask(session, f"@/{session.zid()}/peer"))

    with World(1) as world:
        running = world.start("a", program)
        assert world.run_until(lambda: running.done, limit_ns=100 * 10**9)
    assert running.failure is None
    assert len(found) == 1
