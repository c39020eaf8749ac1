"""Elea as a router: Eclipse clients and peers below it, Eclipse routers beside it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from itertools import pairwise, permutations
from typing import Any

import pytest
import zenoh
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    WAIT_S,
    Taken,
    _replies,
    alive,
    eclipse_router,
    eventually,
    exchange,
    free_endpoint,
    has_been_told,
    matched,
    module_of,
    node_of,
    open_session,
    replies_to,
    session,
    sessions_at,
    settings_of,
    watching,
    zid_of,
)

from elea.ids import ZenohId
from elea.routing.tables import Kind

line = pytest.mark.line


@contextmanager
def star(*names: str, mode: str = "client") -> Iterator[tuple[Any, list[Any]]]:
    """An Elea router and nodes connected to it."""
    with ExitStack() as stack:
        endpoint = free_endpoint()
        router = stack.enter_context(session(ELEA, "router", listen=endpoint))
        below = [stack.enter_context(session(name, mode, connect=endpoint)) for name in names]
        yield router, below


@contextmanager
def network(
    names: Sequence[str],
    links: Sequence[tuple[int, int]],
    zids: Sequence[str] = (),
    settings: Mapping[str, object] | None = None,
) -> Iterator[tuple[list[Any], list[str]]]:
    """Routers, each dialling those of its links that are there already."""
    endpoints = [free_endpoint() for _ in names]
    with ExitStack() as stack:
        routers = []
        for number, name in enumerate(names):
            dialled = [endpoints[a] for a, b in links if b == number]
            more = {**(settings or {}), **({"id": zids[number]} if zids else {})}
            made = session(name, "router", listen=endpoints[number], connect=dialled, more=more)
            routers.append(stack.enter_context(made))
        yield routers, endpoints


def line_of(names: Sequence[str]) -> Any:
    return network(names, list(pairwise(range(len(names)))))


def once(source: Any, key: str, takers: Sequence[Taken], text: bytes) -> None:
    """One more sample arrives at every taker, and only one; others may still be on their way."""
    source.put(key, text)
    assert eventually(lambda: all(text in taker.payloads for taker in takers))
    for taker in takers:
        assert [one for one in taker.payloads if one == text] == [text]


def subscribed(nodes: Sequence[Any], key: str) -> list[Taken]:
    takers = [Taken() for _ in nodes]
    for node, taker in zip(nodes, takers, strict=True):
        node.declare_subscriber(key, taker)
    return takers


def all_reach(sources: Sequence[Any], takers: Sequence[Taken], key: str) -> None:
    """Wait until everybody is told of by everybody."""
    for number, source in enumerate(sources):
        others = [one for one in takers if one is not takers[number]] if takers else []

        def arrives(source: Any = source, others: Sequence[Taken] = others) -> bool:
            counts = [len(one) for one in others]
            source.put(key, b"probe")
            return eventually(
                lambda: all(len(o) > c for o, c in zip(others, counts, strict=True)), 0.3
            )

        assert eventually(arrives)


# Clients and peers below.


@line("R113", "R115", "R116", "R117", "R134", "R135")
def test_clients_of_a_router_find_each_other() -> None:
    with star(ECLIPSE, ECLIPSE, ECLIPSE) as (_, (one, two, three)):
        publisher = one.declare_publisher("demo/a")
        assert not publisher.matching_status.matching
        got, other = Taken(), Taken()
        subscriber = two.declare_subscriber("demo/**", got)
        two.declare_subscriber("demo/a", got)
        three.declare_subscriber("elsewhere", other)
        assert matched(publisher)
        publisher.put(b"1")
        assert got.reach(2)  # one message, two subscribers
        subscriber.undeclare()
        two.close()
        assert matched(publisher, by_somebody=False)
        assert len(got) == 2
        assert len(other) == 0


@line("R114", "R119", "R123", "R127")
def test_queries_of_clients_go_to_the_right_ones() -> None:
    with star(ECLIPSE, ECLIPSE, ECLIPSE, ELEA) as (_, (asker, one, two, three)):
        for node, text, complete in ((one, "1", False), (two, "2", True), (three, "3", True)):
            node.declare_queryable(
                "q/**", lambda query, text=text: query.reply("q/a", text), complete=complete
            )
        library = module_of(asker)

        def answers(target: Any) -> set[str]:
            replies = replies_to(
                asker.get, "q/a", target=target, consolidation=library.ConsolidationMode.NONE
            )
            return {one.ok.payload.to_string() for one in replies}

        targets = library.QueryTarget
        assert eventually(lambda: answers(targets.ALL) == {"1", "2", "3"})
        assert answers(targets.ALL_COMPLETE) == {"2", "3"}
        assert len(answers(targets.BEST_MATCHING)) == 1
        assert answers(targets.BEST_MATCHING) <= {"2", "3"}


def owners_count(router: Any, key: str) -> int:
    """How many neighbours of an Elea router have a queryable on exactly this key."""
    with router._context.driver.lock:
        entry = node_of(router).routing.tables.get(Kind.QUERYABLE, key)
        return 0 if entry is None else sum(map(len, entry.owners.values()))


@line("R124", "R125", "R126", "R128", "R130", "R131")
def test_queries_end_once_whatever_happens() -> None:
    with star(ECLIPSE, ECLIPSE, ECLIPSE) as (router, (asker, one, two)):
        assert list(replies_to(asker.get, "nobody", timeout=WAIT_S)) == []
        held: list[Any] = []
        one.declare_queryable("q", held.append)
        two.declare_queryable("q", lambda query: [query.reply("q", str(i)) for i in range(3)])
        assert eventually(lambda: owners_count(router, "q") == 2)
        none = module_of(asker).ConsolidationMode.NONE
        replies = replies_to(asker.get, "q", timeout=WAIT_S, consolidation=none)
        assert eventually(lambda: held)
        one.close()  # its part of the query ends with it
        assert sorted(one.ok.payload.to_string() for one in replies) == ["0", "1", "2"]


@line("R120", "R121", "R122", "R157")
@pytest.mark.parametrize("names", [(ELEA,), (ELEA, ECLIPSE), (ECLIPSE, ELEA)])
def test_liveliness_through_routers(names: tuple[str, ...]) -> None:
    with (
        line_of(names) as (_, endpoints),
        session(ECLIPSE, "client", connect=endpoints[0]) as watcher,
        session(ECLIPSE, "client", connect=endpoints[-1]) as holder,
        session(ELEA, "client", connect=endpoints[-1]) as other,
    ):
        early = holder.liveliness().declare_token("t/early")
        assert alive(watcher, "t/*", ["t/early"])
        seen = watching(watcher, holder, "t")
        tokens = [one.liveliness().declare_token("t/two") for one in (holder, other)]
        assert eventually(lambda: ("t/two", "PUT") in seen.changes)
        early.undeclare()  # never told to who watches
        assert eventually(lambda: ("t/early", "DELETE") in seen.changes)
        tokens[0].undeclare()
        assert alive(watcher, "t/*", ["t/two"])
        other.close()
        assert eventually(lambda: ("t/two", "DELETE") in seen.changes)
        assert seen.changes.count(("t/two", "PUT")) == 1


@line("R136", "R138")
def test_values_are_stamped_and_nothing_else_is_changed() -> None:
    with star(ECLIPSE, ECLIPSE) as (router, (source, target)):
        got = Taken()
        target.declare_subscriber("k", got)
        publisher = source.declare_publisher("k", encoding="text/plain;utf-8")
        assert matched(publisher)
        publisher.put(b"\x00\xff", attachment=b"more")
        publisher.delete()
        assert got.reach(2)
        value, deletion = got.items
        assert str(value.timestamp.get_id()) == zid_of(router)
        assert deletion.timestamp is None
        assert str(value.encoding) == "text/plain;utf-8"
        assert (bytes(value.payload), bytes(value.attachment)) == (b"\x00\xff", b"more")


@line("R137")
def test_timestamps_from_the_future_are_replaced() -> None:
    with star(ECLIPSE, ECLIPSE) as (router, (source, target)):
        got = Taken()
        target.declare_subscriber("k", got)
        publisher = source.declare_publisher("k")
        assert matched(publisher)
        now = source.new_timestamp()
        ahead = zenoh.Timestamp(now.get_time() + timedelta(hours=1), now.get_id())
        for stamp in (now, ahead):
            publisher.put(b"", timestamp=stamp)
        assert got.reach(2)
        kept, replaced = (one.timestamp for one in got.items)
        assert str(kept) == str(now)
        assert str(replaced.get_id()) == zid_of(router)
        assert replaced.get_time() - now.get_time() < timedelta(minutes=30)


@line("R139", "R140", "R141")
def test_peers_reach_clients_and_not_each_other() -> None:
    endpoint = free_endpoint()
    with (
        session(ELEA, "router", listen=endpoint) as router,
        session(ECLIPSE, "peer", connect=endpoint) as one,
        session(ECLIPSE, "peer", connect=endpoint) as two,
        session(ECLIPSE, "client", connect=endpoint) as client,
    ):
        exchange(one, client, "a")
        exchange(two, router, "b")
        got, passed = Taken(), Taken()
        two.declare_subscriber("c", got)
        client.declare_subscriber("c", passed)
        assert eventually(lambda: one.put("c", b"1") or passed.reach(1, 0.1))
        assert len(got) == 0


def knows(one: Any, zid: str) -> bool:
    return zid in {str(other) for other in one.info.peers_zid()}


@line("S44")
def test_a_router_introduces_its_peers() -> None:
    endpoint = free_endpoint()
    gossip = {"scouting/gossip/enabled": True}
    with ExitStack() as stack:
        stack.enter_context(session(ELEA, "router", listen=endpoint, more=gossip))
        peers = [
            stack.enter_context(
                session(name, "peer", listen="tcp/127.0.0.1:0", connect=endpoint, more=gossip)
            )
            for name in (ECLIPSE, ECLIPSE, ELEA)
        ]
        for one, other in permutations(peers, 2):
            assert eventually(partial(knows, one, zid_of(other)))


@line("R129", "R132")
def test_a_hundred_small_things_of_one_client() -> None:
    """Many keys, so that aliases are used both ways, and a queryable that never answers."""
    with star(ECLIPSE, ECLIPSE) as (_, (source, target)):
        got = Taken()
        for number in range(50):
            target.declare_subscriber(f"many/{number}/**", got)
        publishers = [source.declare_publisher(f"many/{number}/x") for number in range(50)]
        assert all(map(matched, publishers))
        for publisher in publishers:
            publisher.put(b"v")
        assert got.reach(50)
        assert len({str(one.key_expr) for one in got.items}) == 50
        held: list[Any] = []
        target.declare_queryable("silent", held.append)
        assert eventually(lambda: list(replies_to(source.get, "silent", timeout=0.2)) and held)


@line("R143")
def test_many_clients() -> None:
    with star(*[ECLIPSE] * 25, *[ELEA] * 25) as (router, clients):
        takers = subscribed(clients, "k")
        all_reach([router], [Taken(), *takers], "k")
        once(router, "k", takers, b"one")


# Networks of routers.


@line("R145", "R147", "R148", "R159")
def test_an_eclipse_router_knows_an_elea_router_and_what_is_below_it() -> None:
    with (
        eclipse_router() as (theirs, endpoint),
        session(ELEA, "client", connect=endpoint) as observer,
    ):
        here = free_endpoint()
        with (
            session(ELEA, "router", listen=here, connect=endpoint) as ours,
            session(ECLIPSE, "client", connect=here) as client,
        ):
            assert eventually(lambda: zid_of(ours) in sessions_at(theirs))
            subscriber = client.declare_subscriber("late/**", Taken())
            client.declare_queryable("late/q", lambda query: None)
            assert eventually(lambda: has_been_told(theirs, "subscriber", "late/**"))
            assert eventually(lambda: has_been_told(theirs, "queryable", "late/q"))
            subscriber.undeclare()
            assert eventually(lambda: not has_been_told(theirs, "subscriber", "late/**"))
            exchange(observer, client, "both")
        assert eventually(lambda: not has_been_told(theirs, "queryable", "late/q"))


@line("R146", "R149", "R150", "R158")
@pytest.mark.parametrize(
    "names",
    [
        (ELEA, ECLIPSE),
        (ECLIPSE, ELEA),
        (ECLIPSE, ELEA, ECLIPSE),
        (ELEA, ECLIPSE, ELEA),
        (ELEA, ELEA, ECLIPSE),
    ],
)
def test_lines_of_routers(names: tuple[str, ...]) -> None:
    with (
        line_of(names) as (_, endpoints),
        session(ECLIPSE, "client", connect=endpoints[0]) as one,
        session(ECLIPSE, "client", connect=endpoints[-1]) as other,
    ):
        exchange(one, other, "a")
        takers = subscribed([one, other], "k")
        all_reach([one, other], takers, "k")
        once(one, "k", [takers[1]], b"there")
        once(other, "k", [takers[0]], b"back")
        other.declare_queryable("q", lambda query: query.reply("q", "answer"))
        assert eventually(
            lambda: [r.ok.payload.to_string() for r in _replies(one, "q")] == ["answer"]
        )


@line("R152")
@pytest.mark.parametrize("seed", range(4))
def test_rings_deliver_once(seed: int) -> None:
    rng = random.Random(seed)
    zids = [f"{rng.getrandbits(128) | 1 << 127:x}" for _ in range(4)]
    ring = [(0, 1), (1, 2), (2, 3), (0, 3)]
    names = [ELEA, ECLIPSE, ELEA, ECLIPSE]
    with network(names, ring, zids) as (_, endpoints), ExitStack() as stack:
        clients = [
            stack.enter_context(session(ELEA, "client", connect=endpoint)) for endpoint in endpoints
        ]
        takers = subscribed(clients, "k")
        all_reach(clients, takers, "k")
        for number, client in enumerate(clients):
            others = [one for one in takers if one is not takers[number]]
            once(client, "k", others, b"%d" % number)
        # What was sent twice would have arrived by now: every client has sent since.
        everybody = [b"%d" % number for number in range(4)]
        assert eventually(lambda: all(set(everybody) <= set(one.payloads) for one in takers))
        for taker in takers:
            assert sorted(one for one in taker.payloads if one != b"probe") == everybody


@line("R153", "R154")
@pytest.mark.parametrize("middle", [ELEA, ECLIPSE])
def test_a_lost_router_is_gone_around(middle: str) -> None:
    """A line with a detour: its middle leaves, the ends find the other way and forget it."""
    endpoints = [free_endpoint() for _ in range(4)]
    with ExitStack() as stack:

        def router(name: str, number: int, *dialled: int) -> Any:
            connect = [endpoints[one] for one in dialled]
            return stack.enter_context(
                session(name, "router", listen=endpoints[number], connect=connect)
            )

        router(ELEA, 0)
        between = router(middle, 1, 0)
        router(ECLIPSE, 2, 0)
        router(ELEA, 3, 1, 2)
        one = stack.enter_context(session(ELEA, "client", connect=endpoints[0]))
        other = stack.enter_context(session(ECLIPSE, "client", connect=endpoints[3]))
        token = between.liveliness().declare_token("between")
        exchange(one, other, "a")
        assert alive(one, "between", ["between"])
        between.close()
        assert alive(one, "between", [])
        exchange(one, other, "b")
        takers = subscribed([other], "k")
        all_reach([one], [Taken(), *takers], "k")
        once(one, "k", takers, b"x")
        del token  # kept until here: a token that nobody holds is gone


@line("R155")
def test_weights_of_eclipse_routers_are_honoured() -> None:
    """A triangle: the direct way is made heavy by the Eclipse end of it."""
    heavy = {"routing/router/linkstate/transport_weights": [{"dst_zid": "a1", "weight": 1_000}]}
    endpoints = [free_endpoint() for _ in range(3)]
    with (
        session(ELEA, "router", listen=endpoints[0], more={"id": "a1"}) as first,
        session(ECLIPSE, "router", listen=endpoints[1], connect=endpoints[0]) as second,
        session(ECLIPSE, "router", listen=endpoints[2], connect=endpoints[:2], more=heavy) as third,
    ):
        node = node_of(first)
        zids = [ZenohId.parse(zid_of(one)).octets for one in (second, third)]

        def hop() -> bytes | None:
            with first._context.driver.lock:
                face = node.routing.network.hop(node.zid, zids[1])
                return None if face is None else face.spec.zid

        assert eventually(lambda: hop() == zids[0])
        takers = subscribed([third], "k")
        all_reach([first], [Taken(), *takers], "k")
        once(first, "k", takers, b"x")


@line("R142")
def test_one_of_two_routers_carries_for_a_peer() -> None:
    gossip = {"scouting/gossip/enabled": True, "scouting/gossip/autoconnect": []}
    names, links = [ELEA, ELEA, ECLIPSE], [(0, 1), (0, 2), (1, 2)]
    with (
        network(names, links, settings=gossip) as (_, endpoints),
        session(ECLIPSE, "peer", connect=endpoints[:2], more=gossip) as peer,
        session(ECLIPSE, "client", connect=endpoints[2]) as client,
    ):
        takers = subscribed([client], "k")
        all_reach([peer], [Taken(), *takers], "k")
        once(peer, "k", takers, b"x")


@line("R160b")
@pytest.mark.parametrize("restarted", [0, 1])
def test_routers_restart(restarted: int) -> None:
    names = [ELEA, ECLIPSE]
    endpoints = [free_endpoint(), free_endpoint()]

    def router(number: int) -> Any:
        other = endpoints[1 - number]
        return open_session(
            names[number], settings_of("router", listen=endpoints[number], connect=other)
        )

    with ExitStack() as stack:
        routers = [router(0), router(1)]
        stack.callback(lambda: [one.close() for one in routers])
        patient = {"connect/timeout_ms": -1, "connect/exit_on_failure": False}
        clients = [
            stack.enter_context(session(ELEA, "client", connect=endpoint, more=patient))
            for endpoint in endpoints
        ]
        exchange(clients[0], clients[1], "a")
        routers[restarted].close()
        routers[restarted] = router(restarted)
        exchange(clients[0], clients[1], "b")
