"""Every capability of a session, from Elea to Eclipse Zenoh and from Eclipse Zenoh to Elea."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    Taken,
    eventually,
    exchange,
    free_endpoint,
    matched,
    module_of,
    replies_to,
    say,
    session,
    watching,
    word,
)

line = pytest.mark.line
_names = itertools.count()

# Who listens, then who connects to it; the two marked * talk.
TOPOLOGIES: dict[str, list[tuple[str, str]]] = {
    "clients at an eclipse router": [
        (ECLIPSE, "router"),
        (ELEA, "client*"),
        (ECLIPSE, "client*"),
    ],
    "elea peer at an eclipse router": [
        (ECLIPSE, "router"),
        (ELEA, "peer*"),
        (ECLIPSE, "client*"),
    ],
    "peers": [(ELEA, "peer*"), (ECLIPSE, "peer*")],
    "eclipse client of an elea peer": [(ELEA, "peer*"), (ECLIPSE, "client*")],
    "elea client of an eclipse peer": [(ELEA, "client*"), (ECLIPSE, "peer*")],
}


@dataclass
class Ends:
    """Who sends or asks, and who receives or answers."""

    here: Any
    there: Any

    @property
    def names(self) -> Any:
        """The module of the one that sends or asks."""
        return module_of(self.here)

    @property
    def far_names(self) -> Any:
        """The module of the other one."""
        return module_of(self.there)


@pytest.fixture(scope="module", params=TOPOLOGIES)
def talking(request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    nodes = TOPOLOGIES[request.param]
    if request.param == "elea client of an eclipse peer":
        nodes = nodes[::-1]
    endpoint = free_endpoint()
    found: list[Any] = []
    with ExitStack() as stack:
        for number, (name, mode) in enumerate(nodes):
            place = {"connect" if number else "listen": endpoint}
            made = stack.enter_context(session(name, mode.rstrip("*"), **place))  # type: ignore[arg-type]
            if mode.endswith("*"):
                found.append(made)
        yield sorted(found, key=lambda one: module_of(one).__name__)


@pytest.fixture(params=["to eclipse", "to elea"])
def ends(request: pytest.FixtureRequest, talking: list[Any]) -> Ends:
    ours, theirs = talking
    return Ends(ours, theirs) if request.param == "to eclipse" else Ends(theirs, ours)


@pytest.fixture
def key() -> str:
    """A key that no other test uses."""
    return f"capability/{next(_names)}"


def subscribed(ends: Ends, key: str) -> Taken:
    """What arrives on a key, once it is known that it does."""
    got = Taken()
    ends.there.declare_subscriber(key, got)
    assert eventually(lambda: say(ends.here, key, got))
    exchange(ends.here, ends.there, f"{key}/sync")
    got.items.clear()
    return got


# Publications


PRIORITIES = [
    "REAL_TIME",
    "INTERACTIVE_HIGH",
    "INTERACTIVE_LOW",
    "DATA_HIGH",
    "DATA",
    "DATA_LOW",
    "BACKGROUND",
]


@line("K2")
@pytest.mark.parametrize("congestion", ["DROP", "BLOCK"])
@pytest.mark.parametrize("express", [False, True])
@pytest.mark.parametrize("reliability", ["RELIABLE", "BEST_EFFORT"])
def test_every_quality_of_a_publication_arrives(
    congestion: str, express: bool, reliability: str, ends: Ends, key: str
) -> None:
    got = subscribed(ends, key)
    for number, priority in enumerate(PRIORITIES, 1):
        publisher = ends.here.declare_publisher(
            key,
            priority=getattr(ends.names.Priority, priority),
            congestion_control=getattr(ends.names.CongestionControl, congestion),
            express=express,
            reliability=getattr(ends.names.Reliability, reliability),
        )
        publisher.put(b"1")
        assert got.reach(number)
        publisher.undeclare()
    assert [
        (word(one.priority), word(one.congestion_control), one.express) for one in got.items
    ] == [(priority, congestion, express) for priority in PRIORITIES]


ENCODINGS = [
    "zenoh/bytes",
    "zenoh/string",
    "text/plain;utf-8",
    "application/json",
    "video/raw;h=1",
    "my/own;thing",
    "my/own",
]


@line("K3")
def test_encodings_arrive(ends: Ends, key: str) -> None:
    got = subscribed(ends, key)
    for encoding in ENCODINGS:
        ends.here.put(key, b"1", encoding=ends.names.Encoding(encoding))
    assert got.reach(len(ENCODINGS))
    assert [str(one.encoding) for one in got.items] == ENCODINGS


@line("K4", "K5", "K6")
def test_attachments_timestamps_and_sources_arrive(ends: Ends, key: str) -> None:
    got = subscribed(ends, key)
    stamp = ends.here.new_timestamp()
    publisher = ends.here.declare_publisher(key)
    source = ends.names.SourceInfo(publisher.id, 7)
    for attachment in (b"", b"note", bytes(range(256)) * 40):
        publisher.put(b"1", attachment=attachment, timestamp=stamp, source_info=source)
    publisher.delete(attachment=b"gone", timestamp=stamp, source_info=source)
    assert got.reach(4)
    notes = [bytes(one.attachment) for one in got.items]
    assert notes == [b"", b"note", bytes(range(256)) * 40, b"gone"]
    assert [word(one.kind) for one in got.items] == ["PUT", "PUT", "PUT", "DELETE"]
    for one in got.items:
        assert str(one.timestamp) == str(stamp)
        assert str(one.source_info.source_id.zid) == str(publisher.id.zid)
        assert one.source_info.source_id.eid == publisher.id.eid
        assert one.source_info.source_sn == 7


@line("K1")
def test_what_is_not_given_is_not_there(ends: Ends, key: str) -> None:
    got = subscribed(ends, key)
    ends.here.put(key, b"")
    ends.here.delete(key)
    assert got.reach(2)
    assert [bytes(one.payload) for one in got.items] == [b"", b""]
    assert [one.attachment for one in got.items] == [None, None]
    assert [one.source_info for one in got.items] == [None, None]


@line("K7")
def test_declared_keys_work_everywhere(ends: Ends, key: str) -> None:
    got = Taken()
    declared_there = ends.there.declare_keyexpr(f"{key}/a/**")
    declared_here = ends.here.declare_keyexpr(f"{key}/a/b")
    ends.there.declare_subscriber(declared_there, got)
    assert eventually(lambda: say(ends.here, declared_here, got))
    ends.there.declare_queryable(declared_there, lambda query: query.reply(f"{key}/a/b", b"1"))
    querier = ends.here.declare_querier(declared_here)
    assert matched(querier)
    assert [bytes(one.ok.payload) for one in replies_to(ends.here.get, declared_here)] == [b"1"]
    assert {str(one.key_expr) for one in got.items} == {f"{key}/a/b"}


@line("K20", "T47")
@pytest.mark.parametrize("length", [65_000, 70_000, 1 << 20])
def test_large_payloads_arrive_whole(length: int, ends: Ends, key: str) -> None:
    got = subscribed(ends, key)
    payload = bytes(range(256)) * (length // 256) + b"end"
    ends.here.put(key, payload, congestion_control=ends.names.CongestionControl.BLOCK)
    assert got.reach(1)
    assert got.payloads == [payload]


# Queries


def answering(ends: Ends, key: str, answer: Any, **options: Any) -> Any:
    """A queryable over there, known here; returns a querier that keeps it known."""

    def closing(query: Any) -> None:
        answer(query)
        query.drop()

    ends.there.declare_queryable(key, closing, **options)
    querier = ends.here.declare_querier(key)
    assert matched(querier)
    return querier


@line("K8", "K9")
def test_questions_and_answers_carry_everything(ends: Ends, key: str) -> None:
    asked: list[Any] = []
    stamp = ends.there.new_timestamp()

    def answer(query: Any) -> None:
        asked.append(
            (
                str(query.key_expr),
                str(query.parameters),
                bytes(query.payload),
                str(query.encoding),
                bytes(query.attachment),
            )
        )
        query.reply(key, b"yes", encoding="text/plain;utf-8", attachment=b"why", timestamp=stamp)

    answering(ends, key, answer)
    options = {"payload": b"q" * 100_000, "encoding": "application/json", "attachment": b"note"}
    [reply] = replies_to(ends.here.get, f"{key}?a=1;b=2", timeout=20, **options)
    assert asked == [(key, "a=1;b=2", b"q" * 100_000, "application/json", b"note")]
    sample = reply.ok
    assert (bytes(sample.payload), str(sample.encoding)) == (b"yes", "text/plain;utf-8")
    assert (bytes(sample.attachment), str(sample.timestamp)) == (b"why", str(stamp))
    assert reply.replier_id is not None


@line("K8")
def test_a_question_without_payload_has_none(ends: Ends, key: str) -> None:
    asked: list[Any] = []
    answering(
        ends, key, lambda query: asked.append((query.payload, query.attachment, query.encoding))
    )
    assert list(replies_to(ends.here.get, key, timeout=20)) == []
    assert asked == [(None, None, None)]


@line("K9")
def test_replies_put_delete_and_refuse(ends: Ends, key: str) -> None:
    def answer(query: Any) -> None:
        query.reply(f"{key}/put", b"1")
        query.reply_del(f"{key}/del", attachment=b"gone")
        query.reply_err(b"no", encoding="application/json")

    answering(ends, f"{key}/*", answer)
    replies = list(replies_to(ends.here.get, f"{key}/*", timeout=20))
    fine = {
        str(one.ok.key_expr): (word(one.ok.kind), bytes(one.ok.payload))
        for one in replies
        if one.ok is not None
    }
    assert fine == {f"{key}/put": ("PUT", b"1"), f"{key}/del": ("DELETE", b"")}
    [error] = [one.err for one in replies if one.ok is None]
    assert (bytes(error.payload), str(error.encoding)) == (b"no", "application/json")


@line("K10", "C65")
def test_targets_choose_who_answers(ends: Ends, key: str) -> None:
    answering(ends, f"{key}/a", lambda query: query.reply(f"{key}/a", b"partial"))
    answering(ends, f"{key}/**", lambda query: query.reply(f"{key}/b", b"whole"), complete=True)

    def ask(target: str) -> set[bytes]:
        replies = replies_to(
            ends.here.get,
            f"{key}/a?_anyke",
            target=getattr(ends.names.QueryTarget, target),
            timeout=20,
        )
        return {bytes(one.ok.payload) for one in replies}

    assert eventually(lambda: ask("ALL") == {b"partial", b"whole"})
    assert eventually(lambda: ask("ALL_COMPLETE") >= {b"whole"})
    assert b"whole" in ask("BEST_MATCHING")


@line("K11", "C86")
def test_consolidation(ends: Ends, key: str) -> None:
    stamps = [ends.there.new_timestamp() for _ in range(3)]

    def answer(query: Any) -> None:
        for number in (2, 3, 1):
            query.reply(key, str(number), timestamp=stamps[number - 1])

    answering(ends, key, answer)
    found = {}
    for mode in ("NONE", "MONOTONIC", "LATEST", "AUTO"):
        consolidation = getattr(ends.names.ConsolidationMode, mode)
        replies = replies_to(ends.here.get, key, consolidation=consolidation, timeout=20)
        found[mode] = b"".join(bytes(one.ok.payload) for one in replies)
    assert found == {"NONE": b"231", "MONOTONIC": b"23", "LATEST": b"3", "AUTO": b"3"}


@line("K12", "C88")
def test_a_question_that_nobody_ends_ends_in_time(ends: Ends, key: str) -> None:
    kept: list[Any] = []

    def answer(query: Any) -> None:
        query.reply(key, b"in time")
        kept.append(query)

    ends.there.declare_queryable(key, answer)
    assert matched(ends.here.declare_querier(key))
    replies = list(replies_to(ends.here.get, key, timeout=0.3))
    assert [bytes(one.ok.payload) for one in replies if one.ok is not None] == [b"in time"]
    assert [one for one in replies if one.ok is None]
    for query in kept:
        query.drop()


@line("K13")
def test_queriers_keep_their_options(ends: Ends, key: str) -> None:
    asked: list[str] = []

    def answer(query: Any) -> None:
        asked.append(str(query.parameters))
        query.reply(key, b"1")
        query.reply(key, b"2")

    answering(ends, key, answer, complete=True)
    querier = ends.here.declare_querier(
        key,
        target=ends.names.QueryTarget.ALL_COMPLETE,
        consolidation=ends.names.ConsolidationMode.NONE,
        priority=ends.names.Priority.DATA_HIGH,
        timeout=20,
    )
    assert matched(querier)
    replies = list(replies_to(querier.get, parameters="x=1", payload=b"p", attachment=b"a"))
    assert [bytes(one.ok.payload) for one in replies] == [b"1", b"2"]
    assert {word(one.ok.priority) for one in replies} == {"DATA_HIGH"}
    assert asked == ["x=1"]


@line("K14", "C72")
def test_replies_on_other_keys_are_accepted_if_asked_for(ends: Ends, key: str) -> None:
    accepted: list[str] = []

    def answer(query: Any) -> None:
        accepted.append(word(query.accepts_replies()))
        if accepted[-1] == "ANY":
            query.reply("elsewhere", b"1")
        else:
            with pytest.raises(ends.far_names.ZError):
                query.reply("elsewhere", b"1")

    answering(ends, key, answer)
    anything = ends.names.ReplyKeyExpr.ANY
    assert [
        str(one.ok.key_expr) for one in replies_to(ends.here.get, key, accept_replies=anything)
    ] == ["elsewhere"]
    assert list(replies_to(ends.here.get, key)) == []
    assert accepted == ["ANY", "MATCHING_QUERY"]


@line("K15")
def test_a_cancelled_question_ends_at_once(ends: Ends, key: str) -> None:
    kept: list[Any] = []
    came = threading.Event()

    def answer(query: Any) -> None:
        kept.append(query)
        came.set()

    ends.there.declare_queryable(key, answer)
    assert matched(ends.here.declare_querier(key))
    token = ends.names.CancellationToken()
    replies = replies_to(ends.here.get, key, timeout=600, cancellation_token=token)
    assert came.wait(20)
    token.cancel()
    assert list(replies) == []
    for query in kept:
        query.drop()


# Who is there


@line("K16")
@pytest.mark.parametrize("history", [True, False])
def test_liveliness(history: bool, ends: Ends, key: str) -> None:
    first = ends.there.liveliness().declare_token(f"{key}/1")
    assert eventually(lambda: len(list(replies_to(ends.here.liveliness().get, f"{key}/*"))) == 1)
    seen = watching(ends.here, ends.there, key, history=history)
    second = ends.there.liveliness().declare_token(f"{key}/2")
    assert eventually(lambda: (f"{key}/2", "PUT") in seen.changes)
    assert ((f"{key}/1", "PUT") in seen.changes) is history
    first.undeclare()
    assert eventually(lambda: (f"{key}/1", "DELETE") in seen.changes)
    second.undeclare()
    assert eventually(lambda: (f"{key}/2", "DELETE") in seen.changes)
    assert eventually(lambda: list(replies_to(ends.here.liveliness().get, f"{key}/*")) == [])


@line("K17", "C77")
def test_matching_listeners_hear_of_the_first_and_the_last(ends: Ends, key: str) -> None:
    heard: dict[str, list[bool]] = {"publisher": [], "querier": []}
    publisher, querier = ends.here.declare_publisher(key), ends.here.declare_querier(key)
    publisher.declare_matching_listener(lambda one: heard["publisher"].append(one.matching))
    querier.declare_matching_listener(lambda one: heard["querier"].append(one.matching))
    entities = [
        ends.there.declare_subscriber(key, Taken()),
        ends.there.declare_subscriber(f"{key}/**", Taken()),
        ends.there.declare_queryable(key, Taken()),
        ends.there.declare_queryable(f"{key}/**", Taken()),
    ]
    assert eventually(lambda: heard == {"publisher": [True], "querier": [True]})
    for entity in entities:
        entity.undeclare()
    assert eventually(lambda: heard == {"publisher": [True, False], "querier": [True, False]})


# Where


@line("K18", "C90")
def test_locality(ends: Ends, key: str) -> None:
    local, remote = ends.names.Locality.SESSION_LOCAL, ends.names.Locality.REMOTE
    far_local, far_remote = ends.far_names.Locality.SESSION_LOCAL, ends.far_names.Locality.REMOTE
    kept_away, near = Taken(), Taken()
    ends.there.declare_subscriber(key, kept_away, allowed_origin=far_local)
    ends.there.declare_queryable(
        key, lambda query: query.reply(key, b"never"), allowed_origin=far_local
    )
    got = Taken()
    ends.there.declare_subscriber(key, got, allowed_origin=far_remote)
    ends.here.declare_subscriber(key, near)
    assert eventually(lambda: say(ends.here, key, got))
    exchange(ends.here, ends.there, f"{key}/sync")
    got.items.clear()
    near.items.clear()
    ends.here.put(key, b"near", allowed_destination=local)
    ends.here.put(key, b"far", allowed_destination=remote)
    assert got.reach(1)
    exchange(ends.here, ends.there, f"{key}/sync")
    assert (got.payloads, near.payloads, kept_away.payloads) == ([b"far"], [b"near"], [])
    assert list(replies_to(ends.here.get, key, timeout=20)) == []
