"""Connecting again, in which order, and who may: with Eclipse nodes at the other end."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    MODULES,
    Taken,
    _replies,
    alive,
    eclipse_router,
    eventually,
    exchange,
    free_endpoint,
    free_port,
    matched,
    open_session,
    pair,
    port_of,
    say,
    session,
    sessions_at,
    settings_of,
    zid_of,
)
from tests.interop.recording_proxy import RecordingProxy
from tests.link.certificates import certificates

import elea
from elea.wire.conversation import Direction

line = pytest.mark.line
each_mode = pytest.mark.parametrize("mode", ["client", "peer"])


# Connecting again


@line("E25", "E26", "K27")
@each_mode
def test_after_a_restart_of_the_router_everything_works_again(mode: str) -> None:
    endpoint = free_endpoint()
    with ExitStack() as stack:
        first = ExitStack()
        stack.callback(first.close)
        first.enter_context(eclipse_router(endpoint))
        ours = stack.enter_context(session(ELEA, mode, connect=endpoint))
        got, seen = Taken(), Taken()
        ours.declare_subscriber("e25/sub", got)
        ours.declare_queryable("e25/query", lambda query: query.reply(query.key_expr, b"answer"))
        ours_alive = ours.liveliness().declare_token("e25/alive")
        ours.liveliness().declare_subscriber("e25/there/*", seen)
        publisher = ours.declare_publisher("e25/pub")
        first.close()
        assert eventually(lambda: ours.info.transports() == [])
        router, _ = stack.enter_context(eclipse_router(endpoint))
        assert eventually(lambda: zid_of(ours) in sessions_at(router))
        theirs = stack.enter_context(session(ECLIPSE, "client", connect=endpoint))
        heard = Taken()
        theirs.declare_subscriber("e25/pub", heard)
        theirs_alive = theirs.liveliness().declare_token("e25/there/1")
        assert eventually(lambda: say(theirs, "e25/sub", got))
        assert [bytes(one.ok.payload) for one in _replies(theirs, "e25/query")] == [b"answer"]
        assert alive(theirs, "e25/alive", ["e25/alive"])
        assert matched(publisher)
        publisher.put(b"1")
        assert heard.reach(1)
        assert seen.reach(1)
        assert seen.changes == [("e25/there/1", "PUT")]
        for token in (ours_alive, theirs_alive):
            token.undeclare()


@line("E25", "E26", "K27")
@pytest.mark.parametrize("mode", ["client", "peer"])
def test_after_our_restart_an_eclipse_node_works_with_us_again(mode: str) -> None:
    endpoint = free_endpoint()
    retry = {"connect/timeout_ms": -1, "connect/exit_on_failure": False}
    with ExitStack() as stack:
        first = ExitStack()
        stack.callback(first.close)
        first.enter_context(session(ELEA, "peer", listen=endpoint))
        theirs = stack.enter_context(session(ECLIPSE, mode, connect=endpoint, more=retry))
        got = Taken()
        theirs.declare_subscriber("e25/back", got)
        token = theirs.liveliness().declare_token("e25/back/alive")
        first.close()
        ours = stack.enter_context(session(ELEA, "peer", listen=endpoint))
        assert eventually(lambda: say(ours, "e25/back", got))
        assert [str(one.ok.key_expr) for one in ours.liveliness().get("e25/back/*")] == [
            "e25/back/alive"
        ]
        token.undeclare()


@line("E27")
def test_a_client_that_reaches_nobody_fails() -> None:
    with pytest.raises(elea.ZError):
        open_session(ELEA, settings_of("client", connect=free_endpoint()))


@line("E28")
def test_a_client_waits_for_its_router_if_it_is_told_to() -> None:
    endpoint = free_endpoint()
    patient = {"connect/timeout_ms": 60_000, "connect/retry": {"period_init_ms": 100}}
    with RecordingProxy(port_of(endpoint)) as proxy:
        opened: list[Any] = []
        settings = settings_of("client", connect=proxy.endpoint, more=patient)
        thread = threading.Thread(target=lambda: opened.append(open_session(ELEA, settings)))
        thread.start()
        assert eventually(lambda: proxy.refused >= 1)
        with eclipse_router(endpoint):
            thread.join(60)
            [ours] = opened
            ours.close()


@line("E29")
def test_a_client_takes_the_first_endpoint_that_works() -> None:
    nowhere = free_endpoint()
    with (
        eclipse_router() as (one, first),
        eclipse_router() as (two, second),
        session(ELEA, "client", connect=[nowhere, first, second]) as ours,
    ):
        assert [str(zid) for zid in ours.info.routers_zid()] == [zid_of(one)]
        exchange(ours, one, "e29")
        assert sessions_at(two) == {}


@line("E29")
def test_a_client_that_loses_its_router_takes_whichever_there_is() -> None:
    second = free_endpoint()
    with ExitStack() as stack:
        first = ExitStack()
        stack.callback(first.close)
        one, endpoint = first.enter_context(eclipse_router())
        ours = stack.enter_context(session(ELEA, "client", connect=[endpoint, second]))
        assert [str(zid) for zid in ours.info.routers_zid()] == [zid_of(one)]
        two, _ = stack.enter_context(eclipse_router(second))
        first.close()
        assert eventually(lambda: zid_of(ours) in sessions_at(two))
        exchange(ours, two, "e29/again")


@line("E30")
def test_a_peer_opens_although_nobody_is_reached() -> None:
    with session(ELEA, "peer", connect=free_endpoint()) as ours:
        assert ours.info.transports() == []


# Who may connect


CREDENTIALS: dict[str, object] = {
    "transport/auth/usrpwd/user": "alice",
    "transport/auth/usrpwd/password": "wonderland",
}
WRONG = {**CREDENTIALS, "transport/auth/usrpwd/password": "looking-glass"}


@pytest.fixture
def dictionary(tmp_path: Path) -> dict[str, object]:
    path = tmp_path / "credentials.txt"
    path.write_text("bob:builder\nalice:wonderland\n", encoding="utf-8")
    path.chmod(0o600)
    return {"transport/auth/usrpwd/dictionary_file": str(path)}


@line("E31", "E32", "K26")
@pytest.mark.parametrize("listener", [ELEA, ECLIPSE])
def test_the_right_password_opens_a_session(listener: str, dictionary: dict[str, object]) -> None:
    dialler = ELEA if listener == ECLIPSE else ECLIPSE
    settings = {listener: dictionary, dialler: CREDENTIALS}
    with pair(listener, "client", more=settings) as (ours, theirs):
        exchange(ours, theirs, "e31")


@line("E31", "E32", "K26")
@pytest.mark.parametrize("listener", [ELEA, ECLIPSE])
@pytest.mark.parametrize("credentials", [{}, WRONG], ids=["none", "wrong"])
def test_anything_else_is_refused(
    listener: str, credentials: dict[str, object], dictionary: dict[str, object]
) -> None:
    endpoint = free_endpoint()
    dialler = ELEA if listener == ECLIPSE else ECLIPSE
    role = "router" if listener == ECLIPSE else "peer"
    with session(listener, role, listen=endpoint, more=dictionary) as one:
        with pytest.raises(MODULES[dialler].ZError):
            open_session(dialler, settings_of("client", connect=endpoint, more=credentials))
        with session(dialler, "client", connect=endpoint, more=CREDENTIALS) as other:
            exchange(one, other, "e32")


@pytest.fixture
def tls(tmp_path: Path) -> Callable[[str], dict[str, object]]:
    made = certificates()
    texts = {
        "root_ca_certificate": made.root_text,
        "listen_certificate": made.server.certificate_text,
        "listen_private_key": made.server.key_text,
        "connect_certificate": made.client.certificate_text,
        "connect_private_key": made.client.key_text,
    }
    for name, text in texts.items():
        (tmp_path / name).touch(0o600)
        (tmp_path / name).write_text(text)

    def settings(kind: str) -> dict[str, object]:
        left_out = "connect_" if kind == "anonymous" else "-"
        found: dict[str, object] = {
            f"transport/link/tls/{name}": str(tmp_path / name)
            for name in texts
            if not name.startswith(left_out)
        }
        return found | {"transport/link/tls/enable_mtls": kind == "mtls"}

    return settings


@line("E33", "E34", "K25")
@pytest.mark.parametrize("listener", [ELEA, ECLIPSE])
@pytest.mark.parametrize("kind", ["tls", "mtls"])
def test_tls_and_mutual_tls(
    kind: str, listener: str, tls: Callable[[str], dict[str, object]]
) -> None:
    endpoint = f"tls/127.0.0.1:{free_port()}"
    settings = {ELEA: tls(kind), ECLIPSE: tls(kind)}
    with pair(listener, "client", endpoint=endpoint, more=settings) as (ours, theirs):
        exchange(ours, theirs, "e33")


@line("E34")
@pytest.mark.parametrize("listener", [ELEA, ECLIPSE])
def test_mutual_tls_refuses_who_shows_no_certificate(
    listener: str, tls: Callable[[str], dict[str, object]]
) -> None:
    endpoint = f"tls/127.0.0.1:{free_port()}"
    dialler = ELEA if listener == ECLIPSE else ECLIPSE
    role = "router" if listener == ECLIPSE else "peer"
    with session(listener, role, listen=endpoint, more=tls("mtls")) as one:
        with pytest.raises(MODULES[dialler].ZError):
            open_session(dialler, settings_of("client", connect=endpoint, more=tls("anonymous")))
        with session(dialler, "client", connect=endpoint, more=tls("mtls")) as other:
            exchange(one, other, "e34")


@line("E35")
def test_region_names_are_said_if_configured_and_heard() -> None:
    with (
        eclipse_router() as (router, endpoint),
        RecordingProxy(port_of(endpoint)) as proxy,
    ):
        with session(ELEA, "client", connect=proxy.endpoint):
            pass
        with session(ELEA, "client", connect=proxy.endpoint, more={"region_name": "north"}) as ours:
            exchange(ours, router, "e35")
        told = [
            [one["ext"] for one in proxy.said(Direction.INITIATOR, connection)[0]["ext"]]
            for connection in (0, 1)
        ]
        assert [("region_name" in one) for one in told] == [False, True]
    with pair(ELEA, "client", more={ECLIPSE: {"region_name": "south"}}) as (ours, theirs):
        exchange(ours, theirs, "e35/heard")


# Finding others


@line("S39")
def test_a_client_that_finds_nobody_fails() -> None:
    nobody = {
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": f"224.0.0.224:{free_port(socket.SOCK_DGRAM)}",
        "scouting/multicast/interface": "lo",
        "scouting/timeout": 300,
    }
    with pytest.raises(elea.ZError):
        open_session(ELEA, settings_of("client", more=nobody))


@line("S45", "S46")
def test_gossip_of_a_router_without_peers_is_taken() -> None:
    gossip = {"scouting/gossip/enabled": True}
    with (
        eclipse_router(more=gossip) as (router, endpoint),
        RecordingProxy(port_of(endpoint)) as proxy,
        session(ELEA, "peer", connect=proxy.endpoint, more=gossip) as ours,
    ):
        assert eventually(lambda: any(m["msg"] == "OAM" for m in proxy.said(Direction.ACCEPTOR)))
        exchange(ours, router, "s45")
        for turn in range(3):  # nodes that come and go make no further connections
            with session(ECLIPSE, "client", connect=endpoint, more=gossip) as passing:
                exchange(ours, passing, f"s46/{turn}")
        assert proxy.connections == 1
        assert len(ours.info.links()) == 1
