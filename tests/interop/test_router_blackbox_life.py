"""Eclipse nodes that come, go, are killed and crowd at `elea router`, and the router itself."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from typing import Any

import pytest
import zenoh
from tests.interop.child import child
from tests.interop.daemon import alive_at, answered, asked, elea_router, linked
from tests.interop.ends import (
    ECLIPSE,
    WAIT_S,
    Taken,
    eventually,
    exchange,
    free_endpoint,
    matched,
    port_of,
    session,
    settings_of,
    watching,
    zid_of,
)

line = pytest.mark.line
BLOCK = zenoh.CongestionControl.BLOCK
# A client that waits for its router, and comes back to it soon.
PATIENT: dict[str, object] = {
    "connect/timeout_ms": -1,
    "connect/exit_on_failure": False,
    "connect/retry": {"period_init_ms": 100, "period_max_ms": 500, "period_increase_factor": 1.5},
}
GOSSIP = {"scouting/gossip/enabled": True}


def client(endpoint: str, **more: object) -> Any:
    return session(ECLIPSE, "client", connect=endpoint, more=more)


def told(taker: Taken) -> list[bytes]:
    """What arrived, without what was sent to see whether anything does; sorted."""
    return sorted(one for one in taker.payloads if one != b"probe")


# Liveliness and loss.


@line("R120", "R121")
@pytest.mark.parametrize("history", [False, True])
def test_liveliness_is_watched_and_asked_for(history: bool) -> None:
    with (
        elea_router() as router,
        client(router.endpoint) as watcher,
        client(router.endpoint) as holder,
    ):
        early = holder.liveliness().declare_token("t/early")
        assert eventually(lambda: alive_at(watcher, "t/*") == ["t/early"])
        seen = watching(watcher, holder, "t", history=history)
        late = holder.liveliness().declare_token("t/late")
        assert eventually(lambda: ("t/late", "PUT") in seen.changes)
        assert (("t/early", "PUT") in seen.changes) is history
        early.undeclare()
        assert eventually(lambda: ("t/early", "DELETE") in seen.changes)
        assert eventually(lambda: alive_at(watcher, "t/**") == ["t/late"])
        late.undeclare()
        assert eventually(lambda: alive_at(watcher, "**") == [])


@line("R134")
def test_a_killed_client_is_gone_with_all_it_had() -> None:
    with (
        elea_router() as router,
        client(router.endpoint) as watcher,
        child(ECLIPSE, settings_of("client", connect=router.endpoint)) as victim,
    ):
        seen = watching(watcher, watcher, "t", history=True)
        publisher = watcher.declare_publisher("s")
        querier = watcher.declare_querier("q")
        victim.do("token", "t/victim")
        victim.do("subscribe", "s")
        victim.do("keep queries", "q")
        assert eventually(lambda: ("t/victim", "PUT") in seen.changes)
        assert matched(publisher)
        assert matched(querier)
        victim.kill()
        assert eventually(lambda: ("t/victim", "DELETE") in seen.changes)
        assert matched(publisher, by_somebody=False)
        assert matched(querier, by_somebody=False)
        assert asked(watcher, "q") == []
        assert alive_at(watcher, "t/*") == []


def test_a_frozen_client_is_given_up_after_its_lease() -> None:
    lease = {"transport/link/tx/lease": 1_000}
    with (
        elea_router() as router,
        client(router.endpoint) as watcher,
        child(ECLIPSE, settings_of("client", connect=router.endpoint, more=lease)) as victim,
    ):
        victim.do("token", "t/victim")
        assert eventually(lambda: alive_at(watcher, "t/*") == ["t/victim"])
        victim.stop()
        assert eventually(lambda: alive_at(watcher, "t/*") == [])
        victim.go_on()


# Restarts.


@line("E25", "E26")
@pytest.mark.parametrize("good_order", [False, True])
def test_clients_come_back_to_a_restarted_router(good_order: bool) -> None:
    endpoint = free_endpoint()
    with ExitStack() as stack:
        first = stack.enter_context(elea_router(listen=endpoint, zid="a1"))
        source = stack.enter_context(client(endpoint, **PATIENT))
        target = stack.enter_context(client(endpoint, **PATIENT))
        got = linked(source, target, "k/**")
        publisher = source.declare_publisher("k/p")
        target.declare_queryable("q", lambda query: query.reply("q", "answer"))
        token = target.liveliness().declare_token("t/here")
        seen = watching(source, target, "t", history=True)
        if good_order:
            first.stop()
        else:
            first.kill()
        assert matched(publisher, by_somebody=False)
        stack.enter_context(elea_router(listen=endpoint, zid="a1"))
        assert matched(publisher)
        publisher.put(b"again")
        assert eventually(lambda: b"again" in got.payloads)
        assert answered(source, "q", ["answer"])
        assert eventually(lambda: alive_at(source, "t/*") == ["t/here"])
        assert eventually(lambda: seen.changes[-1] == ("t/here", "PUT"))
        del token


@line("R154", "R160b")
def test_a_router_between_routers_restarts() -> None:
    ends = [free_endpoint(), free_endpoint()]
    with ExitStack() as stack:
        for end in ends:
            stack.enter_context(session(ECLIPSE, "router", listen=end))
        one, other = (stack.enter_context(client(end)) for end in ends)
        with elea_router(connect=ends):
            exchange(one, other, "a")
            token = other.liveliness().declare_token("t/far")
            assert eventually(lambda: alive_at(one, "t/*") == ["t/far"])
        assert eventually(lambda: alive_at(one, "t/*") == [])
        with elea_router(connect=ends):
            exchange(one, other, "b")
            assert eventually(lambda: alive_at(one, "t/*") == ["t/far"])
        del token


# Crowds.


@line("R143")
def test_fifty_clients_all_to_all() -> None:
    with ExitStack() as stack:
        router = stack.enter_context(elea_router())
        clients = [stack.enter_context(client(router.endpoint)) for _ in range(50)]
        takers = [linked(clients[-1], clients[0], "all/*")]
        for one in clients[1:]:
            takers.append(Taken())
            one.declare_subscriber("all/*", takers[-1])
        publishers = [
            one.declare_publisher(f"all/{number}", congestion_control=BLOCK)
            for number, one in enumerate(clients)
        ]

        def everybody_is_known() -> bool:
            for taker in takers:
                taker.items.clear()
            clients[0].put("all/probe", b"probe", congestion_control=BLOCK)
            return eventually(lambda: all(takers), 1)

        assert eventually(everybody_is_known)
        for number, publisher in enumerate(publishers):
            assert matched(publisher)
            publisher.put(b"%d" % number)
        expected = sorted(b"%d" % number for number in range(50))
        assert eventually(lambda: all(told(one) == expected for one in takers))


@line("R139", "S44")
def test_peers_and_clients_mixed() -> None:
    """Peers that the router introduces to each other, and a client: everybody once."""
    with ExitStack() as stack:
        router = stack.enter_context(elea_router())
        peers = [
            stack.enter_context(
                session(
                    ECLIPSE,
                    "peer",
                    listen="tcp/127.0.0.1:0",
                    connect=router.endpoint,
                    more=GOSSIP,
                )
            )
            for _ in range(3)
        ]
        nodes = [*peers, stack.enter_context(client(router.endpoint))]
        assert eventually(lambda: all(len(list(one.info.peers_zid())) == 2 for one in peers))
        takers = []
        for node in nodes:
            takers.append(Taken())
            node.declare_subscriber("k/*", takers[-1])
        for number, node in enumerate(nodes):
            others = [taker for taker in takers if taker is not takers[number]]

            def reached(node: Any = node, others: list[Taken] = others) -> bool:
                for taker in takers:
                    taker.items.clear()
                node.put("k/probe", b"probe", congestion_control=BLOCK)
                return eventually(lambda: all(others), 0.5)

            assert eventually(reached)
        for number, node in enumerate(nodes):
            node.put(f"k/{number}", b"%d" % number, congestion_control=BLOCK)
        everybody = [b"0", b"1", b"2", b"3"]
        assert eventually(lambda: all(told(one) == everybody for one in takers))


@line("E14")
def test_a_client_with_an_id_in_use_is_refused() -> None:
    with (
        elea_router() as router,
        client(router.endpoint, id="c1") as first,
        client(router.endpoint) as other,
    ):
        exchange(first, other, "before")
        with pytest.raises(zenoh.ZError), client(router.endpoint, id="c1"):
            pass
        exchange(first, other, "after")
    # When the first is gone the id is free.
    with elea_router() as router:
        for _ in range(2):
            with client(router.endpoint, id="c1") as only:
                assert zid_of(only) == "c1"


def test_a_client_with_the_id_of_the_router_is_refused() -> None:
    with (
        elea_router(zid="a1") as router,
        client(router.endpoint) as one,
        client(router.endpoint) as other,
    ):
        with pytest.raises(zenoh.ZError), client(router.endpoint, id="a1"):
            pass
        exchange(one, other, "k")


# What it tells of itself.


@line("R161", "R162", "R163")
def test_the_admin_space_tells_who_is_there() -> None:
    with elea_router(zid="a1") as router, client(router.endpoint) as asker:

        def node() -> dict[str, Any]:
            found = asked(asker, "@/a1/router")
            return json.loads(found[0].ok.payload.to_bytes()) if found else {"sessions": []}

        assert eventually(lambda: node()["sessions"])
        told = node()
        assert told["zid"] == "a1"
        assert told["locators"] == router.endpoints
        assert [one["peer"] for one in told["sessions"]] == [zid_of(asker)]
        with client(router.endpoint) as other:
            other.declare_subscriber("seen/**", Taken())
            assert eventually(lambda: asked(asker, "@/a1/router/subscriber/seen/**"))
            assert eventually(lambda: len(node()["sessions"]) == 2)
        assert eventually(lambda: len(node()["sessions"]) == 1)
        assert eventually(lambda: not asked(asker, "@/a1/router/subscriber/seen/**"))
        assert asked(asker, "**") == []


def test_downsampling_by_an_eclipse_client() -> None:
    rule = {
        "id": "slow",
        "messages": ["put"],
        "flows": ["egress"],
        "rules": [{"key_expr": "fast/*", "freq": 0.01}],
    }
    with (
        elea_router() as router,
        client(router.endpoint, downsampling=[rule]) as source,
        client(router.endpoint) as target,
    ):
        got = Taken()
        target.declare_subscriber("fast/*", got)
        end = linked(source, target, "end")
        publisher = source.declare_publisher("fast/a", congestion_control=BLOCK)
        assert matched(publisher)
        for number in range(100):
            publisher.put(b"%d" % number)
        source.put("end", b"end", congestion_control=BLOCK)
        assert end.reach(1)
        assert got.reach(1)  # each subscriber of an Eclipse session has a thread of its own
        assert got.payloads == [b"0"]


@line("E11")
def test_silent_connections_are_let_go_and_disturb_nobody() -> None:
    soon = {"transport/unicast/accept_timeout": 1_000}
    with (
        elea_router(more=soon) as router,
        client(router.endpoint) as one,
        client(router.endpoint) as two,
    ):
        address = ("127.0.0.1", port_of(router.endpoint))
        silent = [socket.create_connection(address, timeout=WAIT_S) for _ in range(20)]
        exchange(one, two, "k")
        with client(router.endpoint) as newcomer:
            exchange(one, newcomer, "n")
        for each in silent:
            with each:
                assert each.recv(1) == b""  # the time for its handshake is over
        exchange(one, two, "k")
