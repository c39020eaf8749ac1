"""Advanced publishers and subscribers of Elea with those of Eclipse Zenoh, both ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest
import zenoh.ext
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    Taken,
    eclipse_router,
    eventually,
    free_endpoint,
    matched,
    module_of,
    pair,
    port_of,
    replies_to,
    session,
)
from tests.interop.recording_proxy import RecordingProxy

import elea.ext

line = pytest.mark.line
each_way = pytest.mark.parametrize("publishing", [ELEA, ECLIPSE])


def ext_of(made: Any) -> Any:
    return elea.ext if module_of(made) is elea else zenoh.ext


def ordered(publishing: str, ends: tuple[Any, Any]) -> tuple[Any, Any]:
    """The publishing session, then the subscribing one."""
    ours, theirs = ends
    return (ours, theirs) if publishing == ELEA else (theirs, ours)


def published(
    made: Any, key: str, *, cache: int, heartbeat: float | None = None, sporadic: bool = False
) -> Any:
    """An advanced publisher that numbers, caches and is detected."""
    ext = ext_of(made)
    beats: dict[str, float | None] = {"heartbeat": None, "sporadic_heartbeat": None}
    beats["sporadic_heartbeat" if sporadic else "heartbeat"] = heartbeat
    return ext.declare_advanced_publisher(
        made,
        key,
        congestion_control=module_of(made).CongestionControl.BLOCK,
        cache=ext.CacheConfig(cache),
        sample_miss_detection=ext.MissDetectionConfig(**beats),
        publisher_detection=True,
    )


def subscribed(made: Any, key: str, got: Taken, **options: Any) -> Any:
    return ext_of(made).declare_advanced_subscriber(made, key, got, **options)


def numbers(first: int, end: int) -> list[bytes]:
    return [str(number).encode() for number in range(first, end)]


@contextmanager
def at_a_router(publishing: str) -> Iterator[tuple[Any, Any]]:
    with (
        eclipse_router() as (_, endpoint),
        session(ELEA, "client", connect=endpoint) as ours,
        session(ECLIPSE, "client", connect=endpoint) as theirs,
    ):
        yield ordered(publishing, (ours, theirs))


@contextmanager
def as_peers(publishing: str) -> Iterator[tuple[Any, Any]]:
    with pair(ELEA) as ends:
        yield ordered(publishing, ends)


PLACES = {"at a router": at_a_router, "as peers": as_peers}
each_place = pytest.mark.parametrize("place", PLACES)


@line("A174", "A175")
@each_way
@each_place
@pytest.mark.parametrize(
    ("history", "first"),
    [({}, 0), ({"max_samples": 3}, 7), ({"max_age": 600}, 0)],
    ids=["all", "the last three", "by age"],
)
def test_history_comes_before_what_is_published_now(
    place: str, publishing: str, history: dict[str, Any], first: int
) -> None:
    with PLACES[place](publishing) as (here, there):
        publisher = published(here, "a174", cache=100)
        for number in numbers(0, 10):
            publisher.put(number)
        got = Taken()
        known = here.declare_publisher("a174")
        assert eventually(lambda: cached(there, "a174") == 10)
        subscriber = subscribed(there, "a174", got, history=ext_of(there).HistoryConfig(**history))
        assert got.reach(10 - first)
        assert matched(known)
        for number in numbers(10, 15):
            publisher.put(number)
        assert got.reach(15 - first)
        assert got.payloads == numbers(first, 15)
        subscriber.undeclare()
        publisher.undeclare()


def cached(asker: Any, key: str) -> int:
    """How many samples the caches that are known here hold."""
    names = module_of(asker)
    return len(
        list(
            replies_to(
                asker.get,
                f"{key}/@adv/**?_anyke",
                target=names.QueryTarget.ALL,
                consolidation=names.ConsolidationMode.NONE,
            )
        )
    )


@contextmanager
def breakable(publishing: str) -> Iterator[tuple[Any, Any, RecordingProxy]]:
    """Two peers, the publishing one listens, and what is between them."""
    endpoint = free_endpoint()
    subscribing = ECLIPSE if publishing == ELEA else ELEA
    fast = {"connect/retry": {"period_init_ms": 100, "period_max_ms": 100}}
    with (
        RecordingProxy(port_of(endpoint)) as proxy,
        session(publishing, "peer", listen=endpoint) as here,
        session(subscribing, "peer", connect=proxy.endpoint, more=fast) as there,
    ):
        yield here, there, proxy


def lose(
    publisher: Any, known: Any, here: Any, proxy: RecordingProxy, payloads: list[bytes]
) -> None:
    """Publish while the subscriber cannot be reached, and is `known` to be away."""
    proxy.refuse()
    proxy.cut(0)
    assert eventually(lambda: here.info.transports() == [])
    assert matched(known, by_somebody=False)
    for payload in payloads:
        publisher.put(payload)
    proxy.admit()
    assert eventually(lambda: len(here.info.transports()) == 1)


@line("A176")
@each_way
def test_lost_samples_are_recovered_in_order(publishing: str) -> None:
    with breakable(publishing) as (here, there, proxy):
        publisher = published(here, "a176", cache=100)
        known = here.declare_publisher("a176")
        got, missed = Taken(), Taken()
        recovery = ext_of(there).RecoveryConfig(periodic_queries=None, heartbeat=True)
        subscriber = subscribed(there, "a176", got, recovery=recovery)
        listener = subscriber.sample_miss_listener(missed)
        assert matched(known)
        for number in numbers(0, 5):
            publisher.put(number)
        assert got.reach(5)
        lose(publisher, known, here, proxy, numbers(5, 9))
        assert matched(known)
        publisher.put(b"9")
        assert got.reach(10)
        assert got.payloads == numbers(0, 10)
        assert missed.items == []
        listener.undeclare()
        subscriber.undeclare()
        publisher.undeclare()


@line("A176")
@each_way
def test_samples_that_nobody_has_any_more_are_reported(publishing: str) -> None:
    with breakable(publishing) as (here, there, proxy):
        publisher = published(here, "a176/few", cache=2)
        known = here.declare_publisher("a176/few")
        got, missed = Taken(), Taken()
        recovery = ext_of(there).RecoveryConfig(periodic_queries=None, heartbeat=True)
        subscriber = subscribed(there, "a176/few", got, recovery=recovery)
        listener = subscriber.sample_miss_listener(missed)
        assert matched(known)
        publisher.put(b"0")
        assert got.reach(1)
        lose(publisher, known, here, proxy, numbers(1, 6))
        assert matched(known)
        publisher.put(b"6")
        assert eventually(lambda: b"6" in got.payloads)
        assert eventually(lambda: sum(one.nb for one in missed.items) == 4)
        assert got.payloads == [b"0", b"5", b"6"]
        assert {str(one.source.zid) for one in missed.items} == {str(publisher.id.zid)}
        listener.undeclare()
        subscriber.undeclare()
        publisher.undeclare()


@line("A177")
@each_way
@pytest.mark.parametrize("sporadic", [False, True], ids=["periodic", "sporadic"])
def test_a_heartbeat_recovers_the_last_sample(publishing: str, sporadic: bool) -> None:
    with breakable(publishing) as (here, there, proxy):
        publisher = published(here, "a177", cache=10, heartbeat=1.0, sporadic=sporadic)
        known = here.declare_publisher("a177")
        got = Taken()
        recovery = ext_of(there).RecoveryConfig(periodic_queries=None, heartbeat=True)
        subscriber = subscribed(there, "a177", got, recovery=recovery)
        assert matched(known)
        publisher.put(b"0")
        assert got.reach(1)
        lose(publisher, known, here, proxy, numbers(1, 4))
        assert got.reach(4)
        assert got.payloads == numbers(0, 4)
        subscriber.undeclare()
        publisher.undeclare()


@line("A176")
@each_way
def test_periodic_questions_recover_the_last_sample(publishing: str) -> None:
    with breakable(publishing) as (here, there, proxy):
        publisher = published(here, "a176/ask", cache=10)
        known = here.declare_publisher("a176/ask")
        got = Taken()
        recovery = ext_of(there).RecoveryConfig(
            periodic_queries=timedelta(seconds=0.2), heartbeat=None
        )
        subscriber = subscribed(there, "a176/ask", got, recovery=recovery)
        assert matched(known)
        publisher.put(b"0")
        assert got.reach(1)
        lose(publisher, known, here, proxy, numbers(1, 4))
        assert got.reach(4)
        assert got.payloads == numbers(0, 4)
        subscriber.undeclare()
        publisher.undeclare()


@line("A178")
@each_way
def test_the_history_of_a_late_publisher_is_fetched(publishing: str) -> None:
    endpoint = free_endpoint()
    subscribing = ECLIPSE if publishing == ELEA else ELEA
    with ExitStack() as stack:
        there = stack.enter_context(session(subscribing, "peer", listen=endpoint))
        got = Taken()
        history = ext_of(there).HistoryConfig(detect_late_publishers=True)
        subscriber = subscribed(there, "a178", got, history=history)
        # Its samples are published before it is connected.
        gate = stack.enter_context(RecordingProxy(port_of(endpoint)))
        gate.refuse()
        fast = {"connect/retry": {"period_init_ms": 100, "period_max_ms": 100}}
        here = stack.enter_context(session(publishing, "peer", connect=gate.endpoint, more=fast))
        publisher = published(here, "a178", cache=10)
        for number in numbers(0, 3):
            publisher.put(number)
        gate.admit()
        assert got.reach(3)
        assert got.payloads == numbers(0, 3)
        subscriber.undeclare()
        publisher.undeclare()


@line("A179")
@each_way
def test_publishers_and_subscribers_are_seen_by_their_tokens(publishing: str) -> None:
    with as_peers(publishing) as (here, there):
        subscriber = subscribed(there, "a179", Taken(), subscriber_detection=True)
        detected = Taken()
        detecting = subscriber.detect_publishers(detected, history=True)
        publisher = published(here, "a179", cache=1)

        def tokens(asker: Any, side: str) -> list[list[str]]:
            found = replies_to(asker.liveliness().get, f"a179/@adv/{side}/**")
            return [str(one.ok.key_expr).split("/") for one in found]

        assert eventually(lambda: len(tokens(there, "pub")) == 1)
        assert eventually(lambda: len(tokens(here, "sub")) == 1)
        [pub], [sub] = tokens(there, "pub"), tokens(here, "sub")
        assert pub[3:] == [str(publisher.id.zid), str(publisher.id.eid), "_"]
        assert sub[3:] == [str(subscriber.id.zid), str(subscriber.id.eid), "_"]
        assert eventually(lambda: len(detected) == 1)
        publisher.undeclare()
        assert eventually(lambda: [kind for _, kind in detected.changes] == ["PUT", "DELETE"])
        detecting.undeclare()
        subscriber.undeclare()
