"""An Elea client at an Eclipse router: what it declares, sends, answers and understands."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import zenoh
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    Taken,
    _replies,
    declared_at,
    eclipse_router,
    eventually,
    exchange,
    has_been_told,
    matched,
    port_of,
    replies_to,
    say,
    session,
    watching,
    word,
    zid_of,
)
from tests.interop.recording_proxy import RecordingProxy

import elea
from elea.wire.conversation import Direction

line = pytest.mark.line
_names = itertools.count()


@dataclass
class Scene:
    """An Eclipse router with an Elea client, behind a proxy, and an Eclipse client."""

    router: Any
    ours: Any
    theirs: Any
    proxy: RecordingProxy

    def said(self, kind: str) -> list[dict[str, Any]]:
        """The messages of a kind, or the declarations of a kind, that Elea sent so far."""
        found = self.proxy.said(Direction.INITIATOR)
        bodies = [one["body"] for one in found if one["msg"] == "DECLARE"]
        return [one for one in [*found, *bodies] if one["msg"] == kind]

    def heard(self, kind: str) -> list[dict[str, Any]]:
        """The same for what the router sent."""
        found = self.proxy.said(Direction.ACCEPTOR)
        bodies = [one["body"] for one in found if one["msg"] == "DECLARE"]
        return [one for one in [*found, *bodies] if one["msg"] == kind]


@contextmanager
def scenery(**more: object) -> Iterator[Scene]:
    with (
        eclipse_router() as (router, endpoint),
        RecordingProxy(port_of(endpoint)) as proxy,
        session(ELEA, "client", connect=proxy.endpoint, more=more) as ours,
        session(ECLIPSE, "client", connect=endpoint) as theirs,
    ):
        yield Scene(router, ours, theirs, proxy)


@pytest.fixture(scope="module")
def shared() -> Iterator[Scene]:
    with scenery() as scene:
        yield scene


@pytest.fixture
def fresh() -> Iterator[Scene]:
    """A scene of its own, for what is read from the wire."""
    with scenery() as scene:
        yield scene


@pytest.fixture
def key() -> str:
    """A key that no other test uses."""
    return f"client/{next(_names)}"


def at(router: Any, kind: str, key: str) -> list[str]:
    """The clients that declared something at a router."""
    found = declared_at(router, kind).get(key)
    return [] if found is None else found["clients"]


# Subscribers


@line("C60")
def test_a_client_with_nothing_to_say_keeps_silent() -> None:
    with scenery(**{"transport/link/tx/lease": 1_000}) as scene:
        assert eventually(lambda: len(scene.said("KEEP_ALIVE")) >= 3)
        said = {one["msg"] for one in scene.proxy.said(Direction.INITIATOR)}
        assert said == {"INIT_SYN", "OPEN_SYN", "KEEP_ALIVE"}


@line("C61", "C64")
def test_a_subscriber_is_known_to_the_router_until_it_goes(shared: Scene, key: str) -> None:
    subscriber = shared.ours.declare_subscriber(key, Taken())
    assert eventually(lambda: has_been_told(shared.router, "subscriber", key))
    assert at(shared.router, "subscriber", key) == [zid_of(shared.ours)]
    subscriber.undeclare()
    assert eventually(lambda: not has_been_told(shared.router, "subscriber", key))
    assert at(shared.router, "subscriber", key) == []


@line("C62")
def test_overlapping_subscribers_get_each_sample_once(shared: Scene, key: str) -> None:
    got = [Taken() for _ in range(3)]
    for taken, text in zip(got, [f"{key}/**", f"{key}/a", f"{key}/*"], strict=True):
        shared.ours.declare_subscriber(text, taken)
    publisher = shared.theirs.declare_publisher(f"{key}/a")
    assert matched(publisher)
    assert eventually(lambda: say(shared.theirs, f"{key}/a", got[2]))
    for taken in got:
        taken.items.clear()
    for number in range(50):
        publisher.put(str(number))
    for taken in got:
        assert taken.reach(50)
    exchange(shared.ours, shared.theirs, f"{key}/b/c")  # nothing is left on its way
    for taken in got[1:]:
        assert taken.payloads == [str(number).encode() for number in range(50)]


@line("C63")
def test_two_equal_subscribers_are_declared_once(fresh: Scene, key: str) -> None:
    first, second = Taken(), Taken()
    one = fresh.ours.declare_subscriber(key, first)
    fresh.ours.declare_subscriber(key, second)
    assert eventually(lambda: say(fresh.theirs, key, second))
    assert len(fresh.said("D_SUBSCRIBER")) == 1
    one.undeclare()
    assert eventually(lambda: say(fresh.theirs, key, second))
    seen = len(first)
    fresh.theirs.put(key, b"2")
    assert eventually(lambda: b"2" in second.payloads)
    assert len(first) == seen
    assert fresh.said("U_SUBSCRIBER") == []


# Queryables and answers


def asked(session_: Any, selector: str, **options: Any) -> list[tuple[str, bytes]]:
    """Kind and payload of every reply, in their order."""
    found = []
    for reply in _replies(session_, selector, **options):
        if reply.ok is not None:
            found.append((word(reply.ok.kind), bytes(reply.ok.payload)))
        else:
            found.append(("ERR", bytes(reply.err.payload)))
    return found


def answer_with(text: bytes) -> Any:
    def answer(query: Any) -> None:
        with query:
            query.reply(query.key_expr, text)

    return answer


@line("C65", "C66")
def test_completeness_is_told_and_told_again_when_it_changes(shared: Scene, key: str) -> None:
    complete = shared.theirs.declare_querier(key, target=zenoh.QueryTarget.ALL_COMPLETE)
    shared.ours.declare_queryable(key, answer_with(b"partial"), complete=False)
    assert eventually(lambda: has_been_told(shared.router, "queryable", key))
    assert list(replies_to(complete.get)) == []
    second = shared.ours.declare_queryable(key, answer_with(b"whole"), complete=True)
    assert matched(complete)
    assert [bytes(one.ok.payload) for one in replies_to(complete.get)] == [b"whole"]
    second.undeclare()
    assert matched(complete, by_somebody=False)


@line("C67")
def test_any_number_of_replies_and_one_end(fresh: Scene, key: str) -> None:
    def answer(query: Any) -> None:
        with query:
            for number in range(int(str(query.parameters).partition("=")[2])):
                query.reply(f"{key}/{number}", str(number))

    fresh.ours.declare_queryable(f"{key}/*", answer)
    querier = fresh.theirs.declare_querier(f"{key}/*")
    assert matched(querier)
    for count in (0, 1, 100):
        found = asked(fresh.theirs, f"{key}/*?n={count}")
        assert sorted(found) == sorted(("PUT", str(n).encode()) for n in range(count))
    assert len(fresh.said("RESPONSE_FINAL")) == len(fresh.heard("REQUEST")) == 3
    assert len(fresh.said("RESPONSE")) == 101


@line("C69")
def test_replies_have_the_quality_of_the_query(shared: Scene, key: str) -> None:

    shared.ours.declare_queryable(key, answer_with(b"1"))
    querier = shared.theirs.declare_querier(
        key,
        priority=zenoh.Priority.INTERACTIVE_HIGH,
        congestion_control=zenoh.CongestionControl.BLOCK,
    )
    assert matched(querier)
    [reply] = replies_to(querier.get)
    assert word(reply.ok.priority) == "INTERACTIVE_HIGH"
    assert word(reply.ok.congestion_control) == "BLOCK"


@line("C70", "C71", "C72")
def test_errors_deletions_and_replies_on_other_keys(shared: Scene, key: str) -> None:
    refused: list[Exception] = []

    def answer(query: Any) -> None:
        with query:
            query.reply_err(b"no", encoding="text/plain")
            query.reply_del(key)
            try:
                query.reply("elsewhere/1", b"far")
            except elea.ZError as error:
                refused.append(error)

    shared.ours.declare_queryable(key, answer)
    assert matched(shared.theirs.declare_querier(key))
    replies = list(replies_to(shared.theirs.get, key))
    [error] = [one.err for one in replies if one.ok is None]
    assert (bytes(error.payload), str(error.encoding)) == (b"no", "text/plain")
    assert [word(one.ok.kind) for one in replies if one.ok is not None] == ["DELETE"]
    assert len(refused) == 1
    anywhere = [
        one.ok for one in replies_to(shared.theirs.get, f"{key}?_anyke") if one.ok is not None
    ]
    assert {(str(one.key_expr), word(one.kind)) for one in anywhere} == {
        (key, "DELETE"),
        ("elsewhere/1", "PUT"),
    }


# Publishers and interests


@line("C73", "C74", "C77")
def test_a_publisher_asks_for_subscribers_and_is_silent_without(fresh: Scene, key: str) -> None:
    one = fresh.ours.declare_publisher(key)
    two = fresh.ours.declare_publisher(key)
    assert eventually(lambda: fresh.heard("D_FINAL"))
    [interest] = fresh.said("INTEREST")
    assert interest["mode"] == "current_future"
    assert "subscribers" in interest["options"]
    list(fresh.ours.get(f"{key}/none"))  # its end comes after that answer: both were taken
    one.put(b"nobody hears this")
    got = Taken()
    subscriber = fresh.theirs.declare_subscriber(key, got)
    assert matched(one)
    one.put(b"heard")
    assert got.reach(1)
    subscriber.undeclare()
    assert matched(one, by_somebody=False)
    one.put(b"not heard again")
    one.undeclare()
    exchange(fresh.ours, fresh.theirs, f"{key}/else")
    assert [push["body"]["payload"] for push in fresh.said("PUSH")][:1] == [b"heard".hex()]
    assert not any(b"not heard".hex() in str(push) for push in fresh.said("PUSH"))
    assert [one["mode"] for one in fresh.said("INTEREST")] == ["current_future"]
    two.undeclare()
    assert eventually(
        lambda: [one["mode"] for one in fresh.said("INTEREST")] == ["current_future", "final"]
    )


@line("C76")
def test_what_has_no_publisher_is_always_sent(fresh: Scene, key: str) -> None:
    fresh.ours.put(key, b"1")
    fresh.ours.delete(key)
    assert eventually(lambda: len(fresh.said("PUSH")) == 2)


@line("C78")
def test_an_answer_to_an_interest_in_the_future_is_taken(fresh: Scene, key: str) -> None:
    seen = Taken()
    fresh.ours.liveliness().declare_subscriber(f"{key}/*", seen)
    assert eventually(lambda: fresh.heard("D_FINAL"))
    # What is there is asked for too: otherwise the end of such a token would not be known as one.
    assert [one["mode"] for one in fresh.said("INTEREST")] == ["current_future"]
    assert seen.items == []
    token = fresh.theirs.liveliness().declare_token(f"{key}/a")
    assert seen.reach(1)
    token.undeclare()


@line("C80", "C81")
def test_aliases_of_both_sides_are_understood(fresh: Scene, key: str) -> None:
    got = Taken()
    fresh.ours.declare_subscriber(f"{key}/**", got)
    fresh.ours.declare_queryable(f"{key}/q/*", answer_with(b"answer"))
    publisher = fresh.ours.declare_publisher(f"{key}/p")
    heard = Taken()
    fresh.theirs.declare_subscriber(f"{key}/p", heard)
    assert matched(publisher)
    assert eventually(lambda: publish(publisher, heard))
    assert eventually(lambda: say(fresh.theirs, f"{key}/deep/er", got))
    assert asked(fresh.theirs, f"{key}/q/1") == [("PUT", b"answer")]
    assert {str(one.key_expr) for one in got.items} == {f"{key}/deep/er", f"{key}/p"}
    assert all(one["key"]["scope"] == 0 for one in fresh.said("D_KEYEXPR"))
    # The router did use an alias of ours, else this test shows nothing.
    assert any(one["key"]["scope"] for one in fresh.heard("PUSH"))


def publish(publisher: Any, got: Taken) -> bool:
    """Put by a publisher once; whether it has arrived soon after."""
    publisher.put(b"1")
    return got.reach(1, 0.1)


# Liveliness


@line("C82")
@pytest.mark.parametrize("history", [True, False])
def test_tokens_are_seen_with_and_without_history(history: bool, shared: Scene, key: str) -> None:
    first = shared.theirs.liveliness().declare_token(f"{key}/1")
    assert eventually(lambda: has_been_told(shared.router, "token", f"{key}/1"))
    seen = watching(shared.ours, shared.theirs, key, history=history)
    second = shared.theirs.liveliness().declare_token(f"{key}/2")
    assert eventually(lambda: (f"{key}/2", "PUT") in seen.changes)
    expected = [(f"{key}/1", "PUT"), (f"{key}/2", "PUT")]
    assert sorted(seen.changes) == (expected if history else expected[1:])
    found = {str(one.ok.key_expr) for one in shared.ours.liveliness().get(f"{key}/*")}
    assert found == {f"{key}/1", f"{key}/2"}
    for token in (first, second):
        token.undeclare()


@line("C83", "C85")
@pytest.mark.parametrize("history", [True, False])
def test_the_end_of_a_token_is_seen(history: bool, shared: Scene, key: str) -> None:
    token = shared.theirs.liveliness().declare_token(f"{key}/1")
    assert eventually(lambda: has_been_told(shared.router, "token", f"{key}/1"))
    seen = watching(shared.ours, shared.theirs, key, history=history)
    token.undeclare()
    assert eventually(lambda: (f"{key}/1", "DELETE") in seen.changes)
    assert ((f"{key}/1", "PUT") in seen.changes) is history


@line("C84")
def test_our_tokens_are_seen_by_eclipse(shared: Scene, key: str) -> None:
    token = shared.ours.liveliness().declare_token(f"{key}/1")
    seen = Taken()
    shared.theirs.liveliness().declare_subscriber(f"{key}/*", seen, history=True)
    assert seen.reach(1)
    assert eventually(  # an Eclipse client may end its query before the answers to it
        lambda: (
            [str(one.ok.key_expr) for one in replies_to(shared.theirs.liveliness().get, f"{key}/*")]
            == [f"{key}/1"]
        )
    )
    token.undeclare()
    assert eventually(lambda: seen.changes[-1] == (f"{key}/1", "DELETE"))


# Queries


@line("C86", "C87")
@pytest.mark.parametrize(
    ("mode", "selector", "expected"),
    [
        ("NONE", "", [b"2", b"3", b"1"]),
        ("MONOTONIC", "", [b"2", b"3"]),
        ("LATEST", "", [b"3"]),
        ("AUTO", "", [b"3"]),
        ("AUTO", "?_time=[..]", [b"2", b"3", b"1"]),
    ],
)
def test_replies_are_consolidated(
    mode: str, selector: str, expected: list[bytes], shared: Scene, key: str
) -> None:

    stamps = [shared.theirs.new_timestamp() for _ in range(3)]

    def answer(query: Any) -> None:
        for number in (2, 3, 1):
            query.reply(key, str(number), timestamp=stamps[number - 1])
        query.drop()

    shared.theirs.declare_queryable(key, answer)
    assert matched(shared.ours.declare_querier(key))
    consolidation = getattr(elea.ConsolidationMode, mode)
    found = asked(shared.ours, key + selector, consolidation=consolidation)
    assert [payload for _, payload in found] == expected


@line("C88")
def test_a_query_ends_at_its_time_with_what_arrived(shared: Scene, key: str) -> None:
    kept: list[Any] = []

    def answer(query: Any) -> None:
        query.reply(key, b"in time")
        kept.append(query)  # it never ends

    shared.theirs.declare_queryable(key, answer)
    assert matched(shared.ours.declare_querier(key))
    found = [
        b"" if one.ok is None else bytes(one.ok.payload)
        for one in shared.ours.get(key, timeout=0.5)
    ]
    errors = [one for one in found if one == b""]
    assert b"in time" in found
    assert len(errors) >= 1
    kept.clear()


@line("C92")
def test_the_time_of_a_query_travels_with_it(fresh: Scene, key: str) -> None:
    list(fresh.ours.get(key, timeout=7))
    [request] = fresh.said("REQUEST")
    assert {"ext": "timeout", "value": 7_000} in request["ext"]


# Keys and places


@line("C90")
def test_locality_is_honoured(shared: Scene, key: str) -> None:
    here, there = Taken(), Taken()
    local, remote = elea.Locality.SESSION_LOCAL, elea.Locality.REMOTE
    shared.ours.declare_subscriber(f"{key}/l", here, allowed_origin=local)
    shared.ours.declare_subscriber(f"{key}/r", there, allowed_origin=remote)
    for place in ("l", "r"):
        shared.ours.put(f"{key}/{place}", b"ours")
    assert eventually(lambda: say(shared.theirs, f"{key}/r", there))
    shared.theirs.put(f"{key}/l", b"theirs")
    exchange(shared.ours, shared.theirs, f"{key}/sync")
    assert here.payloads == [b"ours"]
    assert b"ours" not in there.payloads
    said = str(shared.said("D_KEYEXPR") + shared.said("D_SUBSCRIBER"))
    assert f"{key}/r" in said
    assert f"{key}/l" not in said
    got = Taken()
    shared.theirs.declare_subscriber(f"{key}/to", got)
    assert eventually(lambda: has_been_told(shared.router, "subscriber", f"{key}/to"))
    shared.ours.put(f"{key}/to", b"kept here", allowed_destination=local)
    shared.ours.put(f"{key}/to", b"sent", allowed_destination=remote)
    assert got.reach(1)
    assert got.payloads == [b"sent"]


@line("C91", "K19")
def test_a_namespace_is_put_in_front_and_taken_off() -> None:
    with scenery(namespace="robot/1") as scene:
        got, heard, seen = Taken(), Taken(), Taken()
        scene.ours.declare_subscriber("pose", got)
        scene.ours.declare_queryable("status", answer_with(b"good"))
        token = scene.ours.liveliness().declare_token("alive")
        scene.theirs.declare_subscriber("robot/1/cmd", heard)
        scene.theirs.liveliness().declare_subscriber("robot/1/*", seen, history=True)
        assert eventually(lambda: say(scene.theirs, "robot/1/pose", got))
        assert eventually(lambda: say(scene.ours, "cmd", heard))
        assert str(got.items[0].key_expr) == "pose"
        assert str(heard.items[0].key_expr) == "robot/1/cmd"
        [reply] = replies_to(scene.theirs.get, "robot/1/status")
        assert str(reply.ok.key_expr) == "robot/1/status"
        assert seen.reach(1)
        assert seen.changes[0] == ("robot/1/alive", "PUT")
        token.undeclare()


@line("C93")
def test_keys_travel_in_canonical_form(shared: Scene, key: str) -> None:
    loose = f"{key}/**/**/*/$*"
    with pytest.raises(elea.ZError):
        shared.ours.declare_subscriber(loose, Taken())
    shared.ours.declare_subscriber(elea.KeyExpr.autocanonize(loose), Taken())
    assert eventually(lambda: has_been_told(shared.router, "subscriber", f"{key}/**"))
    assert at(shared.router, "subscriber", f"{key}/*/*/**") == [zid_of(shared.ours)]


@line("C94")
def test_chunks_with_an_at_sign_match_only_themselves(shared: Scene, key: str) -> None:
    wild, exact = Taken(), Taken()
    shared.ours.declare_subscriber(f"{key}/**", wild)
    shared.ours.declare_subscriber(f"{key}/@x/1", exact)
    assert eventually(lambda: say(shared.theirs, f"{key}/@x/1", exact))
    assert eventually(lambda: say(shared.theirs, f"{key}/plain", wild))
    assert {str(one.key_expr) for one in wild.items} == {f"{key}/plain"}
