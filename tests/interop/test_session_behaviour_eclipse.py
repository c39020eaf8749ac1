"""The same program with sessions, run with Elea and with zenoh-python: the same value or error."""

from __future__ import annotations

import gc
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

import pytest
import zenoh
import zenoh.ext
from tests.interop.ends import replies_to
from tests.interop.outcomes import outcome, same

import elea

WAIT_S = 10
QUIET_S = 0.05  # nothing is expected to come; if it does, it comes sooner


class Pair:
    """Two sessions of one implementation that see each other, and a key nobody used yet."""

    numbers = count()

    def __init__(self, z: Any, here: Any, there: Any) -> None:
        self.z, self.here, self.there = z, here, there
        self.key = ""

    @staticmethod
    def config(z: Any, **settings: object) -> Any:
        config = z.Config()
        common = {"scouting/multicast/enabled": False, "listen/endpoints": []}
        for path, value in (common | settings).items():
            config.insert_json5(path, json.dumps(value))
        return config

    def close(self) -> None:
        self.here.close()
        self.there.close()


@contextmanager
def open_pair(z: Any, other: Any = None) -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        where = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    stamps = {"timestamping/enabled": True}
    here = z.open(Pair.config(z, **{"listen/endpoints": [where]}, **stamps))
    other = other or z
    there = other.open(Pair.config(other, **{"connect/endpoints": [where]}, **stamps))
    pair = Pair(z, here, there)
    try:
        assert eventually(lambda: here.info.peers_zid() and there.info.peers_zid())
        yield pair
    finally:
        pair.close()


@pytest.fixture(scope="module")
def pairs() -> Iterator[list[Pair]]:
    with open_pair(zenoh) as theirs, open_pair(elea) as ours:
        yield [theirs, ours]


def eventually(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + WAIT_S
    while not (found := condition()) and time.monotonic() < deadline:
        threading.Event().wait(0.005)
    return found


def matched(writer: Any) -> Any:
    return eventually(lambda: writer.matching_status.matching)


def quiet() -> None:
    threading.Event().wait(QUIET_S)


# Sessions: each probe is a function of a pair; what it returns, or raises, is compared.
PROBES: list[Callable[[Pair], Any]] = []


def probe(function: Callable[[Pair], Any]) -> Callable[[Pair], Any]:
    PROBES.append(function)
    return function


def fields(sample: Any) -> object:
    return [
        sample.kind,
        sample.payload,
        sample.encoding,
        sample.priority,
        sample.congestion_control,
        sample.express,
        sample.attachment,
        sample.timestamp is not None,
        sample.source_info is not None,
        sample.timestamp_stack,
    ]


@probe
def a_sample_with_defaults(p: Pair) -> Any:
    subscriber = p.here.declare_subscriber(p.key)
    p.here.put(p.key, "v")
    p.here.delete(p.key)
    return [fields(subscriber.recv()) for _ in range(2)]


@probe
def a_sample_with_everything(p: Pair) -> Any:
    subscriber = p.here.declare_subscriber(p.key)
    p.here.put(
        p.key,
        b"v",
        encoding="text/plain;x",
        priority=p.z.Priority.REAL_TIME,
        congestion_control=p.z.CongestionControl.BLOCK_FIRST,
        express=True,
        attachment="at",
        source_info=p.z.SourceInfo(p.here.id, 7),
    )
    return fields(subscriber.recv())


@probe
def a_publisher_and_its_defaults(p: Pair) -> Any:
    publisher = p.here.declare_publisher(p.key)
    return [
        publisher.encoding,
        publisher.congestion_control,
        publisher.priority,
        publisher.reliability,
        publisher.matching_status.matching,
        publisher.id.zid == p.here.zid(),
    ]


def refused(call: Callable[[Any], Any], *, made: str, then: Callable[[Any], Any]) -> None:
    """`call` on what was made and then ended is refused alike."""

    def run(p: Pair) -> Any:
        entity = getattr(p.here, made)(p.key)
        then(entity)
        return call(entity)

    PROBES.append(run)


for made in ("declare_publisher", "declare_subscriber", "declare_queryable", "declare_querier"):
    refused(lambda one: one.undeclare(), made=made, then=lambda one: one.undeclare())
    refused(lambda one: one.key_expr, made=made, then=lambda one: one.undeclare())
    refused(lambda one: one.id, made=made, then=lambda one: one.__exit__(None, None, None))
refused(lambda one: one.put("a"), made="declare_publisher", then=lambda one: one.undeclare())
refused(lambda one: one.recv(), made="declare_subscriber", then=lambda one: one.undeclare())
refused(lambda one: one.try_recv(), made="declare_queryable", then=lambda one: one.undeclare())
refused(lambda one: one.get(), made="declare_querier", then=lambda one: one.undeclare())

BAD_CALLS: list[Callable[[Pair], Any]] = [
    lambda p: p.here.put(p.key, 1),
    lambda p: p.here.put(p.key, None),
    lambda p: p.here.put("a//b", "v"),
    lambda p: p.here.put(p.key, "v", priority=5),
    lambda p: p.here.put(p.key, "v", encoding=1),
    lambda p: p.here.put(p.key, "v", timestamp=1),
    lambda p: p.here.put(p.key, "v", nope=1),
    lambda p: p.here.delete(p.key, payload="v"),
    lambda p: p.here.get(p.key, timeout=-1),
    lambda p: p.here.get(p.key, timeout="a"),
    lambda p: p.here.get(p.key, target=1),
    lambda p: p.here.get(p.key, cancellation_token=1),
    lambda p: p.here.get("a//b"),
    lambda p: p.here.declare_subscriber(p.key, 1),
    lambda p: p.here.declare_subscriber(p.key, (print,)),
    lambda p: p.here.declare_subscriber(p.key, allowed_origin=1),
    lambda p: p.here.declare_querier(p.key + "?x=1"),
    lambda p: p.here.undeclare(p.z.KeyExpr(p.key)),
    lambda p: p.z.ext.declare_advanced_publisher(1, p.key),
    lambda p: p.z.ext.declare_advanced_publisher(p.here, p.key, cache=1),
    lambda p: p.z.ext.declare_advanced_subscriber(p.here, p.key, history=True),
    lambda p: next(iter(p.here.declare_subscriber(p.key, print))),
    lambda p: p.z.open(Pair.config(p.z, mode="client")),
    lambda p: p.z.open(Pair.config(p.z, **{"listen/endpoints": ["foo/127.0.0.1:1"]})),
]
PROBES += BAD_CALLS


@probe
def a_closed_session(p: Pair) -> Any:
    session = p.z.open(Pair.config(p.z))
    publisher, subscriber = session.declare_publisher("a"), session.declare_subscriber("a")
    publisher.put("last")
    session.close()
    session.close()
    attempts = [
        lambda: session.put("a", "v"),
        lambda: session.get("a"),
        lambda: session.declare_subscriber("a"),
        lambda: session.liveliness().declare_token("a"),
        lambda: publisher.put("v"),
        lambda: publisher.undeclare(),
        lambda: session.info.peers_zid(),
        lambda: [sample.payload for sample in subscriber],
    ]
    # Of errors only that there is one: the classes are compared above.
    return [session.is_closed(), [outcome(one)[0] for one in attempts]]


@probe
def a_ring_keeps_the_newest(p: Pair) -> Any:
    subscriber = p.here.declare_subscriber(p.key, p.z.handlers.RingChannel(2))
    for number in range(5):
        p.here.put(p.key, str(number))
    quiet()
    return [one and one.payload for one in [subscriber.try_recv() for _ in range(3)]]


@probe
def a_pair_of_function_and_object(p: Pair) -> Any:
    got: list[Any] = []
    subscriber = p.here.declare_subscriber(p.key, (got.append, [1, 2]))
    p.here.put(p.key, "v")
    eventually(lambda: got)
    return [subscriber.handler, list(subscriber), [one.payload for one in got]]


@probe
def drop_is_called_after_the_last_value(p: Pair) -> Any:
    got: list[Any] = []
    callback = p.z.handlers.Callback(lambda one: got.append(one.payload), lambda: got.append("end"))
    subscriber = p.here.declare_subscriber(p.key, callback)
    p.here.put(p.key, "v")
    eventually(lambda: got)
    subscriber.undeclare()
    eventually(lambda: len(got) > 1)
    return got


@probe
def a_function_goes_on_when_nobody_refers_to_its_subscriber(p: Pair) -> Any:
    got: list[Any] = []
    p.here.declare_subscriber(p.key, got.append)
    gc.collect()
    p.here.put(p.key, "v")
    return eventually(lambda: got)[0].payload


@probe
def localities(p: Pair) -> Any:
    found = []
    for origin in ("ANY", "SESSION_LOCAL", "REMOTE"):
        for destination in ("ANY", "SESSION_LOCAL", "REMOTE"):
            key = f"{p.key}/{origin}/{destination}"
            kept = p.here.declare_subscriber(key, allowed_origin=getattr(p.z.Locality, origin))
            where = getattr(p.z.Locality, destination)
            p.here.put(key, "v", allowed_destination=where)
            quiet()
            found.append(kept.try_recv() is not None)
    return found


def answering(p: Pair, *replies: Callable[[Any], Any], complete: bool = False) -> Any:
    def answer(query: Any) -> None:
        with query:
            for reply in replies:
                reply(query)

    return p.here.declare_queryable(p.key, answer, complete=complete)


@probe
def what_a_query_tells(p: Pair) -> Any:
    told: list[Any] = []
    queryable = answering(
        p,
        lambda q: told.extend(
            [q.parameters, q.payload, q.encoding, q.attachment, q.accepts_replies(), q.source_info]
        ),
    )
    list(replies_to(p.here.get, p.key))
    anything = p.z.ReplyKeyExpr.ANY
    selector = f"{p.key}?a=1;b"
    list(
        replies_to(
            p.here.get, selector, payload="p", encoding="e", attachment="t", accept_replies=anything
        )
    )
    queryable.undeclare()
    return told


@probe
def replies_and_their_fields(p: Pair) -> Any:
    queryable = answering(
        p,
        lambda q: q.reply(p.key, "v", encoding="text/plain", attachment="at"),
        lambda q: q.reply_err("no", encoding="text/plain"),
        lambda q: q.reply_err("no"),
    )
    found = list(replies_to(p.here.get, p.key, consolidation=p.z.ConsolidationMode.NONE))
    queryable.undeclare()
    return [
        (fields(one.ok), one.replier_id.zid == p.here.zid())
        if one.ok
        else (one.err.payload, one.err.encoding, one.ok, type(one.result))
        for one in found
    ]


@probe
def replies_that_are_refused(p: Pair) -> Any:
    found: list[str] = []
    attempts: list[Callable[[Any], Any]] = [
        lambda q: q.reply("x/y", "v"),
        lambda q: q.reply(p.key, 1),
        lambda q: q.reply(p.key + "//", "v"),
        lambda q: q.reply_del("x/y"),
        lambda q: (q.drop(), q.reply(p.key, "v")),
        lambda q: q.drop(),
        lambda q: q.payload,
    ]

    def attempt(query: Any) -> None:
        found.extend(outcome(partial(one, query))[0] for one in attempts)

    queryable = p.here.declare_queryable(p.key, attempt)
    list(replies_to(p.here.get, p.key))
    eventually(lambda: len(found) == len(attempts))
    queryable.undeclare()
    return found


@probe
def consolidations(p: Pair) -> Any:
    stamps = [p.here.new_timestamp() for _ in range(3)]
    queryable = answering(
        p,
        *(lambda q, n=n: q.reply(p.key, str(n), timestamp=stamps[(2, 1, 0)[n]]) for n in range(3)),
    )
    modes = [getattr(p.z.ConsolidationMode, one) for one in ("AUTO", "NONE", "MONOTONIC", "LATEST")]
    found = [
        [r.ok.payload for r in replies_to(p.here.get, p.key, consolidation=mode)] for mode in modes
    ]
    ranged = [r.ok.payload for r in replies_to(p.here.get, f"{p.key}?_time=[now(-1h)..]")]
    queryable.undeclare()
    return [found, ranged]


@probe
def targets(p: Pair) -> Any:
    part = answering(p, lambda q: q.reply(p.key, "part"))
    whole = answering(p, lambda q: q.reply(p.key, "whole"), complete=True)
    found = []
    for session in (p.here, p.there):
        querier = session.declare_querier(p.key, target=p.z.QueryTarget.ALL_COMPLETE)
        assert matched(querier)  # with the second one: the first was told of before it
        for target in ("BEST_MATCHING", "ALL", "ALL_COMPLETE"):
            replies = replies_to(
                session.get,
                p.key,
                target=getattr(p.z.QueryTarget, target),
                consolidation=p.z.ConsolidationMode.NONE,
            )
            found.append(sorted(r.ok.payload.to_string() for r in replies))
    part.undeclare()
    whole.undeclare()
    return found


@probe
def a_timeout_is_an_error_reply(p: Pair) -> Any:
    queryable = p.here.declare_queryable(p.key)
    replies = replies_to(p.here.get, p.key, timeout=0.2)
    query = queryable.recv()
    found = [(one.err.payload, one.err.encoding) for one in replies]
    query.drop()
    return [found, list(replies_to(p.here.get, p.key + "/nobody", timeout=0.2))]


@probe
def the_end_of_replies(p: Pair) -> Any:
    queryable = answering(p, lambda q: q.reply(p.key, "v"))
    replies = p.here.get(p.key)
    first = replies.recv().ok.payload
    found = [first, bool(replies), outcome(replies.recv)[0], list(replies)]
    queryable.undeclare()
    return found


@probe
def cancellation(p: Pair) -> Any:
    queryable = p.here.declare_queryable(p.key)
    token = p.z.CancellationToken()
    got: list[Any] = []
    replies = replies_to(p.here.get, p.key, cancellation_token=token)
    callback = p.z.handlers.Callback(got.append, lambda: got.append("end"))
    p.here.get(p.key, callback, cancellation_token=token)
    before = token.is_cancelled
    token.cancel()
    later = outcome(lambda: p.here.get(p.key, cancellation_token=token))[0]
    queryable.undeclare()
    return [before, token.is_cancelled, list(replies), got, later]


@probe
def matching(p: Pair) -> Any:
    publisher = p.here.declare_publisher(p.key)
    listener = publisher.declare_matching_listener()
    found = [listener.try_recv()]
    for session in (p.here, p.there):
        subscriber = session.declare_subscriber(p.key)
        found.append(listener.recv().matching)
        subscriber.undeclare()
        found.append(listener.recv().matching)
    publisher.undeclare()
    return found


@probe
def liveliness(p: Pair) -> Any:
    tokens = p.here.liveliness()
    watcher = tokens.declare_subscriber(p.key)
    token, twin = tokens.declare_token(p.key), tokens.declare_token(p.key)
    found = [fields(watcher.recv()), watcher.try_recv()]
    found += [[one.ok.kind for one in replies_to(tokens.get, p.key)]]
    late = tokens.declare_subscriber(p.key)
    knowing = p.there.liveliness().declare_subscriber(p.key, history=True)
    found += [late.try_recv(), knowing.recv().kind]
    token.undeclare()
    quiet()
    found += [watcher.try_recv()]
    twin.undeclare()
    found += [
        watcher.recv().kind,
        knowing.recv().kind,
        list(replies_to(tokens.get, p.key, timeout=1)),
    ]
    return found


@probe
def events_of_transports_and_links(p: Pair) -> Any:
    transport, link = p.here.info.transports()[0], p.here.info.links()[0]
    listener = p.here.info.declare_transport_events_listener(history=True)
    event = listener.recv()
    listener.undeclare()
    return [
        (transport.zid == p.there.zid(), transport.whatami, transport.is_qos),
        (link.is_streamed, link.group, link.priorities, link.reliability, link.auth_identifier),
        (event.kind, event.transport == transport),
    ]


@probe
def a_declared_key(p: Pair) -> Any:
    subscriber = p.there.declare_subscriber(p.key)
    publisher = p.here.declare_publisher(p.key)
    assert matched(publisher)
    key = p.here.declare_keyexpr(p.key)
    p.here.put(key, "v")
    found = [type(key), str(key) == p.key, subscriber.recv().payload]
    p.here.undeclare(key)
    p.here.put(p.key, "w")
    return [*found, subscriber.recv().payload]


@probe
def an_advanced_publisher_and_a_late_subscriber(p: Pair) -> Any:
    x = p.z.ext
    publisher = x.declare_advanced_publisher(
        p.here, p.key, cache=x.CacheConfig(3), publisher_detection=True
    )
    for number in range(5):
        publisher.put(str(number))
    late = x.declare_advanced_subscriber(p.here, p.key, history=x.HistoryConfig(max_samples=2))
    found = [late.recv().payload for _ in range(2)]
    publisher.put("new")
    sample = late.recv()
    seen_there = late.detect_publishers(history=True).recv().kind
    return [found, sample.payload, sample.timestamp is not None, seen_there]


@pytest.mark.parametrize("run", PROBES, ids=[f"{n}-{run.__name__}" for n, run in enumerate(PROBES)])
def test_sessions(pairs: list[Pair], run: Callable[[Pair], Any]) -> None:
    results = []
    for pair in pairs:
        pair.key = f"probe/{next(Pair.numbers)}"
        results.append(outcome(partial(run, pair)))
    assert same(*results), f"zenoh-python: {results[0]}\nElea: {results[1]}"


def test_eclipse_hears_of_a_deletion_in_the_cache() -> None:
    """zenoh-python's own caches answer with an empty PUT; its subscribers understand the truth."""
    with open_pair(elea, zenoh) as pair:
        publisher = elea.ext.declare_advanced_publisher(
            pair.here, "cache/d", cache=elea.ext.CacheConfig(2)
        )
        publisher.put("v")
        publisher.delete()
        # Eclipse asks for history once, and only those it knows: it has to know the cache.
        found: list[object] = []
        anything = {"accept_replies": zenoh.ReplyKeyExpr.ANY, "timeout": 1}
        ask = partial(pair.there.get, "cache/d/@adv/**", found.append, **anything)
        assert eventually(lambda: found or ask())
        got: list[str] = []
        subscriber = zenoh.ext.declare_advanced_subscriber(
            pair.there,
            "cache/d",
            lambda sample: got.append(str(sample.kind)),
            history=zenoh.ext.HistoryConfig(),
        )
        assert eventually(lambda: len(got) == 2), got
        assert got == ["SampleKind.PUT", "SampleKind.DELETE"]
        del subscriber


@pytest.mark.parametrize("mode", ["peer", "client"])
def test_eclipse_understands_a_declared_key(mode: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        where = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    listening = Pair.config(zenoh, **{"listen/endpoints": [where], "mode": "router"})
    with zenoh.open(listening) as there:
        early = elea.open(Pair.config(elea, mode=mode, **{"connect/endpoints": [where]}))
        got: list[tuple[str, bytes]] = []
        there.declare_subscriber(
            "often/**", lambda sample: got.append((str(sample.key_expr), bytes(sample.payload)))
        )
        publisher = early.declare_publisher("often/used")
        assert matched(publisher)
        key = early.declare_keyexpr("often/used/key")
        early.put(key, "1")
        early.put("often/used/key/below", "2", express=True)
        assert eventually(lambda: len(got) == 2), got
        early.undeclare(key)
        early.put("often/used/key", "3", priority=elea.Priority.REAL_TIME)
        assert eventually(lambda: len(got) == 3), got
        assert sorted(got) == [
            ("often/used/key", b"1"),
            ("often/used/key", b"3"),
            ("often/used/key/below", b"2"),
        ]
        early.close()
