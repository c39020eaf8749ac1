"""Less common things that Eclipse nodes do at `elea router`."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import zenoh
from tests.interop.daemon import Router, alive_at, answered, asked, elea_router, linked, texts
from tests.interop.ends import (
    ECLIPSE,
    WAIT_S,
    Taken,
    eventually,
    exchange,
    matched,
    session,
    watching,
    zid_of,
)

line = pytest.mark.line
BLOCK = zenoh.CongestionControl.BLOCK
ALL = zenoh.QueryTarget.ALL
SOON: dict[str, object] = {
    "transport/link/tx/lease": 1_000,
    "connect/timeout_ms": -1,
    "connect/exit_on_failure": False,
    "connect/retry": {"period_init_ms": 100, "period_max_ms": 500, "period_increase_factor": 1.5},
}


@pytest.fixture(scope="module")
def router() -> Iterator[Router]:
    with elea_router() as running:
        yield running


def client(endpoint: str, **more: object) -> Any:
    return session(ECLIPSE, "client", connect=endpoint, more=more)


@pytest.fixture
def pair(router: Router) -> Iterator[tuple[Any, Any]]:
    with client(router.endpoint) as one, client(router.endpoint) as other:
        yield one, other


def test_verbatim_chunks_match_themselves_alone(pair: tuple[Any, Any]) -> None:
    source, target = pair
    everything = linked(source, target, "v1/**")
    verbatim = linked(source, target, "v1/@a/**")
    everything.items.clear()
    for key in ("v1/@a/x", "v1/@b/x", "v1/a/x", "v1/end"):
        source.put(key, b"", congestion_control=BLOCK)
    assert eventually(lambda: ("v1/end", "PUT") in everything.changes)
    assert [key for key, _ in everything.changes] == ["v1/a/x", "v1/end"]
    assert verbatim.changes == [("v1/@a/x", "PUT")]


def test_publications_on_many_keys_at_once(pair: tuple[Any, Any]) -> None:
    source, target = pair
    got = linked(source, target, "w1/a/b")
    for key in ("w1/*/b", "w1/**", "w1/a/c", "w1/$*a/b"):
        source.put(key, b"", congestion_control=BLOCK)
    source.delete("w1/a/*", congestion_control=BLOCK)
    assert got.reach(4)
    assert got.changes[-1] == ("w1/a/*", "DELETE")
    assert [kind for _, kind in got.changes] == ["PUT", "PUT", "PUT", "DELETE"]


def test_namespaces_of_clients(router: Router, pair: tuple[Any, Any]) -> None:
    outside, _ = pair
    with client(router.endpoint, namespace="site/1") as inside:
        got = Taken()
        outside.declare_subscriber("site/1/k", got)
        assert eventually(lambda: inside.put("k", b"1") or got.reach(1, 0.2))
        assert {key for key, _ in got.changes} == {"site/1/k"}
        heard = Taken()
        inside.declare_subscriber("*", heard)
        assert eventually(lambda: outside.put("site/1/n", b"1") or heard.reach(1, 0.2))
        assert {key for key, _ in heard.changes} == {"n"}
        inside.declare_queryable("q", lambda query: query.reply("q", "inside"))
        assert answered(outside, "site/1/q", ["inside"])


def test_a_token_of_two_is_gone_with_the_second(router: Router, pair: tuple[Any, Any]) -> None:
    watcher, holder = pair
    with client(router.endpoint) as other:
        seen = watching(watcher, holder, "two")
        tokens = [one.liveliness().declare_token("two/t") for one in (holder, other)]
        assert eventually(lambda: alive_at(watcher, "two/*") == ["two/t"])
        tokens[0].undeclare()
        marker = holder.liveliness().declare_token("two/marker")
        assert eventually(lambda: ("two/marker", "PUT") in seen.changes)
        assert ("two/t", "DELETE") not in seen.changes
        tokens[1].undeclare()
        assert eventually(lambda: ("two/t", "DELETE") in seen.changes)
        marker.undeclare()


def test_a_token_that_comes_again_and_again(pair: tuple[Any, Any]) -> None:
    watcher, holder = pair
    seen = watching(watcher, holder, "again")
    for _ in range(20):
        holder.liveliness().declare_token("again/t").undeclare()
    assert eventually(lambda: len(seen) == 40)
    assert seen.changes == [("again/t", "PUT"), ("again/t", "DELETE")] * 20


def test_many_declarations_of_one_client(router: Router, pair: tuple[Any, Any]) -> None:
    source, _ = pair
    with client(router.endpoint) as holder:
        got = Taken()
        for number in range(1_000):
            holder.declare_subscriber(f"many/{number}", got)
        publisher = source.declare_publisher("many/999")
        assert matched(publisher)
        source.put("many/*", b"all", congestion_control=BLOCK)
        assert got.reach(1_000)
    assert matched(publisher, by_somebody=False)


def test_many_sources_at_once(router: Router, pair: tuple[Any, Any]) -> None:
    """Each keeps its order; nothing that may not be dropped is."""
    first, target = pair
    got = linked(first, target, "mix/*")
    with ExitStack() as stack:
        sources = [stack.enter_context(client(router.endpoint)) for _ in range(5)]

        def publish(number: int) -> None:
            publisher = sources[number].declare_publisher(f"mix/{number}", congestion_control=BLOCK)
            for turn in range(200):
                publisher.put(b"%d" % turn + b"." * (turn * 37 % 5_000))

        threads = [threading.Thread(target=publish, args=(number,)) for number in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got.reach(1_000)
    for number in range(5):
        mine = [one for one in got.items if str(one.key_expr) == f"mix/{number}"]
        turns = [int(bytes(one.payload).partition(b".")[0]) for one in mine]
        assert turns == list(range(200))


def test_questions_asked_by_answerers(pair: tuple[Any, Any]) -> None:
    """A queryable that has to ask somebody else first."""
    one, other = pair

    def relay(query: Any) -> None:
        found = texts(asked(other, "deep/source"))
        query.reply("deep/relay", ",".join(found))
        query.drop()

    def answer(query: Any) -> None:
        threading.Thread(target=relay, args=(query,)).start()

    other.declare_queryable("deep/relay", answer)
    one.declare_queryable("deep/source", lambda query: query.reply("deep/source", "far"))
    assert answered(one, "deep/relay", ["far"])


def test_a_client_leaves_with_questions_open(router: Router, pair: tuple[Any, Any]) -> None:
    _, holder = pair
    held: list[Any] = []
    holder.declare_queryable("open/q", held.append)
    with client(router.endpoint) as asker:
        assert eventually(
            lambda: asker.get("open/q", lambda reply: None, timeout=60) is None and held
        )
    for query in held:
        query.reply("open/q", "too late")
        query.drop()
    holder.declare_queryable("open/other", lambda query: query.reply("open/other", "yes"))
    with client(router.endpoint) as asker:
        assert answered(asker, "open/other", ["yes"])


def test_clients_know_their_router(router: Router, pair: tuple[Any, Any]) -> None:
    for one in pair:
        assert [str(zid) for zid in one.info.routers_zid()] == [router.zid]
        assert list(one.info.peers_zid()) == []


def test_a_frozen_router_is_left_and_found_again() -> None:
    with (
        elea_router(more={"transport/link/tx/lease": 1_000}) as router,
        client(router.endpoint, **SOON) as one,
        client(router.endpoint, **SOON) as other,
    ):
        exchange(one, other, "k")
        publisher = one.declare_publisher("k")
        got = Taken()
        other.declare_subscriber("k", got)
        assert matched(publisher)
        router.process.send_signal(signal.SIGSTOP)
        try:
            assert matched(publisher, by_somebody=False)
        finally:
            router.process.send_signal(signal.SIGCONT)
        assert matched(publisher)
        assert eventually(lambda: publisher.put(b"again") or got.reach(1, 0.2))


def test_a_triangle_of_router_processes_delivers_once() -> None:
    """Two Elea processes and an Eclipse router, each linked to both others."""
    with ExitStack() as stack:
        first = stack.enter_context(elea_router())
        second = stack.enter_context(elea_router(connect=[first.endpoint]))
        ends = [first.endpoint, second.endpoint]
        third = stack.enter_context(session(ECLIPSE, "router", connect=ends))
        clients = [stack.enter_context(client(end)) for end in ends]
        nodes = [*clients, third]
        takers = []
        for node in nodes:
            takers.append(Taken())
            node.declare_subscriber("tri/*", takers[-1])

        def round_of(text: bytes, wait_s: float) -> list[list[tuple[str, bytes]]]:
            """Everybody publishes once; what each gets in a while, sorted."""
            for taker in takers:
                taker.items.clear()
            for number, node in enumerate(nodes):
                node.put(f"tri/{number}", text, congestion_control=BLOCK)
            eventually(lambda: all(len(taker) >= 3 for taker in takers), wait_s)
            eventually(lambda: any(len(taker) > 3 for taker in takers), 0.2)
            got = ([(str(s.key_expr), bytes(s.payload)) for s in taker.items] for taker in takers)
            return [sorted(one) for one in got]

        def once(text: bytes) -> list[list[tuple[str, bytes]]]:
            return [[(f"tri/{number}", text) for number in range(3)]] * 3

        # Links and trees are not there at once, and while they change a sample may come twice.
        assert eventually(lambda: all(round_of(b"probe", 1) == once(b"probe") for _ in range(2)))
        assert round_of(b"now", WAIT_S) == once(b"now")


def test_a_router_with_an_id_that_is_there_is_refused() -> None:
    with (
        elea_router(zid="a1") as router,
        session(ECLIPSE, "router", connect=router.endpoint, more={"id": "b1"}) as first,
        client(router.endpoint) as below,
    ):
        exchange(first, below, "k")
        stubborn = {"id": "b1", "connect/timeout_ms": 0, "connect/exit_on_failure": True}
        with (
            pytest.raises(zenoh.ZError),
            session(ECLIPSE, "router", connect=router.endpoint, more=stubborn),
        ):
            pass
        exchange(first, below, "k")
        assert zid_of(first) == "b1"
