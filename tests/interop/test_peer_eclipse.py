"""An Elea peer among Eclipse peers, routers and clients: who hears whom, and how often."""

from __future__ import annotations

import functools
from contextlib import ExitStack
from typing import Any

import pytest
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    Taken,
    alive,
    eclipse_router,
    eventually,
    exchange,
    free_endpoint,
    has_been_told,
    matched,
    port_of,
    replies_to,
    say,
    session,
    sessions_at,
    zid_of,
)
from tests.interop.recording_proxy import RecordingProxy

from elea.wire.conversation import Direction

line = pytest.mark.line
QUIET = {"transport/link/tx/lease": 60_000}  # a loss is noticed by its sign, not by silence


def numbered(count: int) -> list[bytes]:
    return [str(number).encode() for number in range(count)]


@line("P97")
def test_nothing_is_relayed_between_two_eclipse_peers() -> None:
    endpoint = free_endpoint()
    with (
        session(ELEA, "peer", listen=endpoint) as ours,
        session(ECLIPSE, "peer", connect=endpoint) as one,
        session(ECLIPSE, "peer", connect=endpoint) as other,
    ):
        got, seen = Taken(), Taken()
        other.declare_subscriber("p97/**", got)
        other.declare_queryable("p97/q", lambda query: query.reply("p97/q", b"no"))
        other.liveliness().declare_subscriber("p97/t/*", seen)
        token = one.liveliness().declare_token("p97/t/1")
        publisher = one.declare_publisher("p97/a")
        ours_seen = Taken()
        ours.liveliness().declare_subscriber("p97/t/*", ours_seen, history=True)
        assert ours_seen.reach(1)
        assert eventually(lambda: say(ours, "p97/ours", got))
        one.put("p97/a", b"1")
        publisher.put(b"2")
        assert list(replies_to(one.get, "p97/q")) == []
        exchange(ours, one, "sync97/1")
        exchange(ours, other, "sync97/2")
        assert {str(sample.key_expr) for sample in got.items} == {"p97/ours"}
        assert seen.changes == []
        assert not publisher.matching_status.matching
        token.undeclare()


@line("P100")
@pytest.mark.parametrize("below", [ELEA, ECLIPSE])
def test_a_peer_reaches_the_clients_of_its_router(below: str) -> None:
    with (
        eclipse_router() as (router, endpoint),
        session(ELEA, "peer", connect=endpoint) as ours,
        session(below, "client", connect=endpoint) as client,
    ):
        exchange(ours, client, "p100")
        for queryable, querier in ((ours, client), (client, ours)):
            served = queryable.declare_queryable(
                "p100/q", lambda query: query.reply("p100/q", b"1")
            )
            asking = querier.declare_querier("p100/q")
            assert matched(asking)
            assert [bytes(one.ok.payload) for one in replies_to(asking.get)] == [b"1"]
            served.undeclare()
            asking.undeclare()
        assert sessions_at(router)[zid_of(ours)]["whatami"] == "peer"


@line("P103")
def test_a_peer_reached_in_two_ways_gets_each_sample_once() -> None:
    endpoint = free_endpoint()
    with (
        eclipse_router() as (_, at_router),
        session(ELEA, "peer", listen=endpoint, connect=at_router) as ours,
        session(ECLIPSE, "peer", connect=[endpoint, at_router]) as theirs,
    ):
        for source, target in ((ours, theirs), (theirs, ours)):
            got = Taken()
            subscriber = target.declare_subscriber("p103", got)
            publisher = source.declare_publisher("p103")
            assert matched(publisher)
            for number in numbered(200):
                source.put("p103", number)
            assert got.reach(200)
            exchange(ours, theirs, "p103/sync")
            assert got.payloads == numbered(200)
            subscriber.undeclare()
            publisher.undeclare()


@line("P104", "P107")
def test_eclipse_clients_are_served_among_each_other_and_beyond() -> None:
    endpoint = free_endpoint()
    with (
        session(ECLIPSE, "peer", listen=free_endpoint()) as nobody,
        session(ELEA, "peer", listen=endpoint) as ours,
        session(ECLIPSE, "peer", connect=endpoint) as peer,
        session(ECLIPSE, "client", connect=endpoint) as one,
        session(ECLIPSE, "client", connect=endpoint) as other,
    ):
        assert nobody.info.peers_zid() == []
        for first, second in ((one, other), (one, ours), (one, peer)):
            exchange(first, second, "p104")
            for answering, asking in ((first, second), (second, first)):
                check_queries(answering, asking)
                check_tokens(answering, asking)


def check_queries(answering: Any, asking: Any) -> None:
    queryable = answering.declare_queryable("p104/q", lambda query: query.reply("p104/q", b"1"))
    querier = asking.declare_querier("p104/q")
    assert matched(querier)
    assert [bytes(reply.ok.payload) for reply in replies_to(querier.get)] == [b"1"]
    queryable.undeclare()
    assert matched(querier, by_somebody=False)
    querier.undeclare()


def check_tokens(holder: Any, watching: Any) -> None:
    seen = Taken()
    watcher = watching.liveliness().declare_subscriber("p107/*", seen, history=True)
    token = holder.liveliness().declare_token("p107/1")
    assert eventually(lambda: ("p107/1", "PUT") in seen.changes)
    assert alive(watching, "p107/*", ["p107/1"])
    token.undeclare()
    assert eventually(lambda: ("p107/1", "DELETE") in seen.changes)
    watcher.undeclare()


@line("P106")
def test_eclipse_clients_hear_of_what_they_ask_for_only() -> None:
    endpoint = free_endpoint()
    with (
        session(ELEA, "peer", listen=endpoint) as ours,
        RecordingProxy(port_of(endpoint)) as proxy,
        session(ECLIPSE, "client", connect=proxy.endpoint) as theirs,
    ):
        ours.declare_subscriber("p106/wanted/**", Taken())
        ours.declare_subscriber("p106/other/**", Taken())
        publisher = theirs.declare_publisher("p106/wanted/1")
        assert matched(publisher)
        exchange(ours, theirs, "p106/sync")
        text = str(proxy.said(Direction.ACCEPTOR))
        assert "p106/wanted" in text
        assert "p106/other" not in text


@line("P108")
def test_what_a_lost_client_had_is_withdrawn_at_once() -> None:
    endpoint = free_endpoint()
    with (
        eclipse_router(more=QUIET) as (router, at_router),
        session(ELEA, "peer", listen=endpoint, connect=at_router, more=QUIET) as ours,
        session(ECLIPSE, "peer", connect=endpoint, more=QUIET) as peer,
        RecordingProxy(port_of(endpoint)) as proxy,
        session(ECLIPSE, "client", connect=proxy.endpoint, more=QUIET) as client,
    ):
        seen = Taken()
        peer.liveliness().declare_subscriber("p108/*", seen)
        token = client.liveliness().declare_token("p108/1")
        client.declare_subscriber("p108", Taken())
        publisher = peer.declare_publisher("p108")
        assert matched(publisher)
        assert eventually(lambda: has_been_told(router, "subscriber", "p108"))
        assert seen.reach(1)
        proxy.refuse()
        proxy.cut(0)
        assert seen.reach(2)
        assert seen.changes[-1] == ("p108/1", "DELETE")
        assert matched(publisher, by_somebody=False)
        assert eventually(lambda: not has_been_told(router, "subscriber", "p108"))
        assert len(ours.info.transports()) == 2
        del token


@line("P109", "E15")
@pytest.mark.parametrize("opener", [ELEA, ECLIPSE])
def test_two_peers_that_dial_each_other_go_on_when_their_link_is_cut(opener: str) -> None:
    # Whoever starts last finds the other one there and opens; the first then dials as well.
    ends = {ELEA: free_endpoint(), ECLIPSE: free_endpoint()}
    first = ECLIPSE if opener == ELEA else ELEA
    with ExitStack() as stack:
        proxies = {
            name: stack.enter_context(RecordingProxy(port_of(endpoint)))
            for name, endpoint in ends.items()
        }
        made = {
            name: stack.enter_context(
                session(name, "peer", listen=ends[name], connect=proxies[other].endpoint)
            )
            for name, other in ((first, opener), (opener, first))
        }
        assert eventually(lambda: all(proxy.connections for proxy in proxies.values()))
        once_each(made[ELEA], made[ECLIPSE], "p109/before")
        proxies[first].cut(0)
        once_each(made[ELEA], made[ECLIPSE], "p109/after")
        assert [len(one.info.transports()) for one in made.values()] == [1, 1]


def once_each(one: Any, other: Any, key: str) -> None:
    """Samples pass in both directions, each exactly once, as soon as the nodes are connected."""
    for source, target in ((one, other), (other, one)):
        got = Taken()
        subscriber = target.declare_subscriber(key, got)
        assert eventually(functools.partial(say, source, key, got))
        exchange(source, target, f"{key}/sync")
        got.items.clear()
        for number in numbered(100):
            source.put(key, number)
        assert got.reach(100)
        exchange(source, target, f"{key}/sync")
        assert got.payloads == numbered(100)
        subscriber.undeclare()
