"""Eclipse clients at `elea router`: data and queries, at one router and through chains of two."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest
import zenoh
import zenoh.ext
from tests.interop.daemon import answered, asked, elea_router, linked, texts
from tests.interop.ends import (
    ECLIPSE,
    WAIT_S,
    Taken,
    eventually,
    free_endpoint,
    matched,
    replies_to,
    session,
    word,
    zid_of,
)

LARGE = bytes(range(256)) * 20_000  # 5 MB: fragments on every hop
line = pytest.mark.line
BLOCK = zenoh.CongestionControl.BLOCK
NONE = zenoh.ConsolidationMode.NONE
ALL = zenoh.QueryTarget.ALL

PRIORITIES = ["REAL_TIME", "INTERACTIVE_HIGH", "INTERACTIVE_LOW"]
PRIORITIES += ["DATA_HIGH", "DATA", "DATA_LOW", "BACKGROUND"]

_names = itertools.count()

# The routers in a line: the first client is at the first of them, the second at the last.
CHAINS = {
    "elea": ("elea",),
    "elea-eclipse": ("elea", "eclipse"),
    "eclipse-elea": ("eclipse", "elea"),
    "elea-elea": ("elea", "elea"),
    "eclipse-elea-eclipse": ("eclipse", "elea", "eclipse"),
}


@pytest.fixture(scope="module", params=CHAINS)
def places(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """Where clients connect to: the two ends of a line of routers."""
    endpoints: list[str] = []
    with ExitStack() as stack:
        for name in CHAINS[request.param]:
            if name == "elea":
                router = stack.enter_context(elea_router(connect=endpoints[-1:]))
                endpoints.append(router.endpoint)
            else:
                here = free_endpoint()
                stack.enter_context(session(ECLIPSE, "router", listen=here, connect=endpoints[-1:]))
                endpoints.append(here)
        yield endpoints[0], endpoints[-1]


@pytest.fixture
def ends(places: tuple[str, str]) -> Iterator[tuple[Any, Any]]:
    """Two Eclipse clients, one at each end."""
    with (
        session(ECLIPSE, "client", connect=places[0]) as here,
        session(ECLIPSE, "client", connect=places[1]) as there,
    ):
        yield here, there


@pytest.fixture
def key() -> str:
    """A key that no other test uses."""
    return f"box/{next(_names)}"


# Samples.


@line("R113", "R138")
def test_wildcards_deletes_and_what_travels_with_samples(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    exact = linked(here, there, f"{key}/a")
    one_level = linked(here, there, f"{key}/*")
    any_level = linked(here, there, f"{key}/**")
    inside = linked(here, there, f"{key}/$*a/**")
    # All take it, behind whatever one of them was probed with.
    here.put(f"{key}/a", b"last of probes", congestion_control=BLOCK)
    takers = (exact, one_level, any_level, inside)
    assert eventually(lambda: all(b"last of probes" in taken.payloads for taken in takers))
    for taken in takers:
        taken.items.clear()
    schema = zenoh.Encoding.APPLICATION_JSON.with_schema("pose")
    here.put(
        f"{key}/a", b'{"x": 1}', encoding=schema, attachment=b"\x00with", congestion_control=BLOCK
    )
    here.put(f"{key}/a/b", b"2", congestion_control=BLOCK)
    here.delete(f"{key}/a", attachment=b"why", congestion_control=BLOCK)
    here.put(f"{key}/x", b"", congestion_control=BLOCK)
    assert any_level.reach(4)
    assert any_level.changes == [
        (f"{key}/a", "PUT"),
        (f"{key}/a/b", "PUT"),
        (f"{key}/a", "DELETE"),
        (f"{key}/x", "PUT"),
    ]
    assert one_level.reach(3)
    assert inside.reach(3)
    assert exact.reach(2)
    value, deletion = exact.items
    assert str(value.encoding) == "application/json;pose"
    assert bytes(value.attachment) == b"\x00with"
    assert value.timestamp is not None
    assert bytes(deletion.attachment) == b"why"
    assert any_level.payloads[3] == b""


@line("R138")
@pytest.mark.parametrize("reliability", ["RELIABLE", "BEST_EFFORT"])
def test_every_quality_of_service_arrives(
    reliability: str, ends: tuple[Any, Any], key: str
) -> None:
    here, there = ends
    got = linked(here, there, f"{key}/*")
    sent = []
    for priority in PRIORITIES:
        for congestion in ("DROP", "BLOCK"):
            express = "DATA" in priority
            name = f"{key}/{priority}-{congestion}"
            with here.declare_publisher(
                name,
                priority=getattr(zenoh.Priority, priority),
                congestion_control=getattr(zenoh.CongestionControl, congestion),
                express=express,
                reliability=getattr(zenoh.Reliability, reliability),
            ) as publisher:
                assert matched(publisher)
                publisher.put(b"v")
                sent.append((name, priority, congestion, express))
    assert got.reach(len(sent))
    seen = [
        (str(one.key_expr), word(one.priority), word(one.congestion_control), one.express)
        for one in got.items
    ]
    assert sorted(seen) == sorted(sent)


@line("R149")
def test_large_samples_both_ways_and_in_order(ends: tuple[Any, Any], key: str) -> None:
    for source, target in (ends, ends[::-1]):
        got = linked(source, target, key)
        small = [b"%d" % number for number in range(20)]
        source.put(key, small[0], congestion_control=BLOCK)
        source.put(key, LARGE, congestion_control=BLOCK)
        for text in small[1:]:
            source.put(key, text, congestion_control=BLOCK)
        assert got.reach(21)
        assert got.payloads == [small[0], LARGE, *small[1:]]


def test_a_burst_arrives_whole_and_in_order(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    got = linked(here, there, key)
    publisher = here.declare_publisher(key, congestion_control=BLOCK)
    for number in range(5_000):
        publisher.put(b"%d" % number)
    assert got.reach(5_000)
    assert got.payloads == [b"%d" % number for number in range(5_000)]


def test_subscribers_that_leave_and_come_late(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    publisher = here.declare_publisher(key)
    changes = Taken()
    publisher.declare_matching_listener(changes)
    subscriber = there.declare_subscriber(key, Taken())
    assert changes.reach(1)
    subscriber.undeclare()
    assert changes.reach(2)
    assert [one.matching for one in changes.items] == [True, False]
    got = Taken()
    there.declare_subscriber(f"{key}/**", got)
    assert matched(publisher)
    publisher.put(b"now")
    assert got.reach(1)
    there.close()
    assert matched(publisher, by_somebody=False)


@line("R132", "R138")
def test_declared_keys_and_source_info(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    got = linked(here, there, f"{key}/**")
    declared = here.declare_keyexpr(f"{key}/a/rather/long/key")
    publisher = here.declare_publisher(declared, congestion_control=BLOCK)
    info = zenoh.SourceInfo(publisher.id, 7)
    here.put(declared, b"1", source_info=info, congestion_control=BLOCK)
    publisher.put(b"2", source_info=zenoh.SourceInfo(publisher.id, 8))
    here.undeclare(declared)
    here.put(f"{key}/a/rather/long/key", b"3", congestion_control=BLOCK)
    assert got.reach(3)
    assert got.payloads == [b"1", b"2", b"3"]
    assert [str(one.key_expr) for one in got.items] == [f"{key}/a/rather/long/key"] * 3
    assert [one.source_info and one.source_info.source_sn for one in got.items] == [7, 8, None]
    assert str(got.items[0].source_info.source_id.zid) == zid_of(here)


def test_given_timestamps_are_kept(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    got = linked(here, there, key)
    stamp = here.new_timestamp()
    old = zenoh.Timestamp(stamp.get_time() - timedelta(days=1), stamp.get_id())
    here.put(key, b"", timestamp=stamp, congestion_control=BLOCK)
    here.delete(key, timestamp=old, congestion_control=BLOCK)
    assert got.reach(2)
    assert [str(one.timestamp) for one in got.items] == [str(stamp), str(old)]


def test_advanced_publishers_and_subscribers(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    ext: Any = zenoh.ext
    publisher = ext.declare_advanced_publisher(
        here,
        key,
        congestion_control=BLOCK,
        cache=ext.CacheConfig(5),
        sample_miss_detection=ext.MissDetectionConfig(heartbeat=0.1, sporadic_heartbeat=None),
        publisher_detection=True,
    )
    for number in range(8):
        publisher.put(b"%d" % number)
    # The first question of an Eclipse subscriber reaches caches that are known by then. If a sample
    # that was still on its way comes after the end of that question, older ones that are found
    # later are dropped. Once the cache has answered it is known, and its replies come last.
    kept = [f"{number}" for number in range(3, 8)]
    anything = {"accept_replies": zenoh.ReplyKeyExpr.ANY, "consolidation": NONE}
    assert answered(there, f"{key}/@adv/**", kept, **anything)
    got = Taken()
    subscriber = ext.declare_advanced_subscriber(
        there,
        key,
        got,
        history=ext.HistoryConfig(detect_late_publishers=True),
        recovery=ext.RecoveryConfig(periodic_queries=None, heartbeat=True),
        subscriber_detection=True,
    )
    assert got.reach(5)
    for number in range(8, 12):
        publisher.put(b"%d" % number)
    assert eventually(lambda: got.payloads[-1] == b"11")
    assert got.payloads == [b"%d" % number for number in range(3, 12)]
    found = f"{key}/@adv/sub/{zid_of(there)}/**"
    assert eventually(lambda: bool(list(replies_to(here.liveliness().get, found, timeout=WAIT_S))))
    subscriber.undeclare()


# Queries.


@line("R158")
def test_queries_carry_everything(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    heard: list[tuple[Any, ...]] = []

    def answer(query: Any) -> None:
        payload, attachment = bytes(query.payload), bytes(query.attachment)
        heard.append((str(query.selector), payload, str(query.encoding), attachment))
        query.reply(
            f"{key}/x",
            b"answer",
            encoding=zenoh.Encoding.TEXT_PLAIN.with_schema("utf-8"),
            attachment=b"extra",
        )
        query.drop()

    there.declare_queryable(f"{key}/*", answer)
    selector = f"{key}/x?arg=1;other=a|b"
    options = {"payload": b"\x00\xff", "encoding": "image/png", "attachment": b"sent"}
    assert answered(here, selector, ["answer"], **options)
    assert heard[-1] == (selector, b"\x00\xff", "image/png", b"sent")
    [reply] = asked(here, selector, **options)
    assert str(reply.ok.key_expr) == f"{key}/x"
    assert str(reply.ok.encoding) == "text/plain;utf-8"
    assert bytes(reply.ok.attachment) == b"extra"
    assert str(reply.replier_id.zid) == zid_of(there)


@line("R124", "R129")
def test_errors_deletes_and_silence(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    held: list[Any] = []
    there.declare_queryable(f"{key}/refuse", lambda query: query.reply_err(b"no", encoding="a/b"))
    there.declare_queryable(f"{key}/gone", lambda query: query.reply_del(f"{key}/gone"))
    there.declare_queryable(f"{key}/nothing", lambda query: query.drop())
    there.declare_queryable(f"{key}/silent", held.append)
    assert eventually(lambda: asked(here, f"{key}/refuse"))
    [refusal] = asked(here, f"{key}/refuse")
    assert (bytes(refusal.err.payload), str(refusal.err.encoding)) == (b"no", "a/b")
    assert eventually(lambda: asked(here, f"{key}/gone"))
    [gone] = asked(here, f"{key}/gone")
    assert word(gone.ok.kind) == "DELETE"
    assert asked(here, f"{key}/nothing") == []
    assert asked(here, f"{key}/nobody") == []
    replies: list[Any] = []
    ended = threading.Event()

    def silence() -> bool:
        ended.clear()
        replies.clear()
        handler = zenoh.handlers.Callback(replies.append, ended.set)
        here.get(f"{key}/silent", handler, timeout=0.3)
        return ended.wait(5) and bool(held)

    assert eventually(silence)
    assert all(one.err is not None for one in replies)


@line("R126")
def test_many_and_large_replies(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends

    def answer(query: Any) -> None:
        for number in range(1_000):
            query.reply(f"{key}/{number}", str(number))
        query.reply(f"{key}/large", LARGE)
        query.drop()

    there.declare_queryable(f"{key}/*", answer)
    asked_for = {"consolidation": NONE}
    found: list[Any] = []

    def all_came() -> bool:
        found[:] = asked(here, f"{key}/*", **asked_for)
        return len(found) == 1_001

    assert eventually(all_came)
    by_key = {str(one.ok.key_expr): bytes(one.ok.payload) for one in found}
    assert by_key.pop(f"{key}/large") == LARGE
    assert by_key == {f"{key}/{number}": b"%d" % number for number in range(1_000)}


def test_a_large_question(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    there.declare_queryable(key, lambda query: query.reply(key, str(len(query.payload or b""))))
    assert answered(here, key, [str(len(LARGE))], payload=LARGE)


@line("R127")
def test_targets_and_consolidation(places: tuple[str, str], key: str) -> None:
    with ExitStack() as stack:
        asker, one, two, three = (
            stack.enter_context(session(ECLIPSE, "client", connect=place))
            for place in (places[0], places[0], places[1], places[1])
        )
        for node, text, complete in ((one, "1", False), (two, "2", True), (three, "3", True)):

            def answer(query: Any, text: str = text) -> None:
                query.reply(f"{key}/a", text)
                query.reply(f"{key}/a", text)
                query.drop()

            node.declare_queryable(f"{key}/**", answer, complete=complete)
        everything = {"target": ALL, "consolidation": NONE}
        assert answered(asker, f"{key}/a", list("112233"), **everything)
        complete_ones = {**everything, "target": zenoh.QueryTarget.ALL_COMPLETE}
        assert answered(asker, f"{key}/a", list("2233"), **complete_ones)
        best = {**everything, "target": zenoh.QueryTarget.BEST_MATCHING}
        found = texts(asked(asker, f"{key}/a", **best))
        if places[0] != places[1]:  # the incomplete one is the best, and only, one of its region
            assert found[:2] == ["1", "1"]
            del found[:2]
        assert found in (["2", "2"], ["3", "3"])
        assert eventually(lambda: len(asked(asker, f"{key}/a", target=ALL)) == 1)


def test_queriers_match_and_ask(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    querier = here.declare_querier(f"{key}/a", target=ALL, timeout=5)
    changes = Taken()
    querier.declare_matching_listener(changes)
    queryable = there.declare_queryable(f"{key}/**", lambda query: query.reply(f"{key}/a", "yes"))
    assert changes.reach(1)

    def ask() -> list[str]:
        found: list[Any] = []
        ended = threading.Event()
        querier.get(zenoh.handlers.Callback(found.append, ended.set), parameters="a=1")
        ended.wait(5)
        return texts(found)

    assert eventually(lambda: ask() == ["yes"])
    queryable.undeclare()
    assert changes.reach(2)
    assert [one.matching for one in changes.items] == [True, False]


@line("R128")
def test_a_queryable_that_leaves_ends_its_queries(places: tuple[str, str], key: str) -> None:
    with (
        session(ECLIPSE, "client", connect=places[0]) as asker,
        session(ECLIPSE, "client", connect=places[1]) as leaver,
        session(ECLIPSE, "client", connect=places[1]) as stayer,
    ):
        held: list[Any] = []
        leaver.declare_queryable(key, held.append)
        stayer.declare_queryable(key, lambda query: query.reply(key, "here"))
        replies: list[Any] = []
        ended = threading.Event()

        def ask() -> bool:
            replies.clear()
            handler = zenoh.handlers.Callback(replies.append, ended.set)
            asker.get(key, handler, target=ALL, consolidation=NONE, timeout=60)
            return eventually(lambda: held and replies, 1)

        assert eventually(ask)
        ended.clear()
        leaver.close()
        assert ended.wait(WAIT_S)
        assert texts(replies) == ["here"]


def test_replies_on_other_keys_if_asked_for(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends

    def answer(query: Any) -> None:
        if word(query.accepts_replies()) == "ANY":
            query.reply(f"{key}/elsewhere", "far")
        query.drop()

    there.declare_queryable(f"{key}/q", answer)
    assert answered(here, f"{key}/q?_anyke", ["far"])
    assert asked(here, f"{key}/q") == []


@line("R131")
def test_concurrent_queries_do_not_mix(ends: tuple[Any, Any], key: str) -> None:
    here, there = ends
    there.declare_queryable(
        f"{key}/*", lambda query: query.reply(query.key_expr, str(query.key_expr))
    )
    assert answered(here, f"{key}/0", [f"{key}/0"])
    found: dict[str, list[Any]] = {f"{key}/{number}": [] for number in range(100)}
    ended = {name: threading.Event() for name in found}
    for name, replies in found.items():
        handler = zenoh.handlers.Callback(replies.append, ended[name].set)
        here.get(name, handler, timeout=WAIT_S)
    assert all(one.wait(WAIT_S) for one in ended.values())
    assert {name: texts(replies) for name, replies in found.items()} == {
        name: [name] for name in found
    }
