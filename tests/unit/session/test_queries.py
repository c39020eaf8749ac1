from __future__ import annotations

import threading

import pytest
from tests.unit.session.fake_node import FakeDriver, World

from elea.config.config import Config
from elea.encoding import Encoding
from elea.errors import ClosedError, ZError
from elea.provenance import SampleKind
from elea.qos import CongestionControl, Locality
from elea.query import ConsolidationMode, QueryTarget, ReplyKeyExpr
from elea.sample import Reply, Sample
from elea.session.cancellation import CancellationToken
from elea.session.handlers import Callback, Handler
from elea.session.ports import CallbackThread
from elea.session.publisher import Publisher
from elea.session.querier import Querier
from elea.session.query import Query, answer_last
from elea.session.session import Session
from elea.wire.network.request import Request


@pytest.fixture
def world() -> World:
    return World()


def texts(replies: Handler[Reply]) -> list[str]:
    return [
        reply.ok.payload.to_string() if reply.ok else f"!{reply.result.payload.to_string()}"
        for reply in replies
    ]


def matches(writer: Publisher | Querier) -> bool:
    status = writer.matching_status
    assert bool(status) == status.matching
    return status.matching


def test_replies_from_both_sides(world: World) -> None:
    a, b = world.open(), world.open()
    a.declare_queryable("q/*", lambda query: query.reply("q/1", "here"))
    b.declare_queryable("q/*", lambda query: query.reply("q/2", "there"))
    assert sorted(texts(a.get("q/**"))) == ["here", "there"]
    assert texts(a.get("q/**", allowed_destination=Locality.REMOTE)) == ["there"]
    assert texts(a.get("q/**", allowed_destination=Locality.SESSION_LOCAL)) == ["here"]


def test_a_query_tells_what_was_asked(world: World) -> None:
    a, b = world.open(), world.open()
    seen: list[object] = []

    def answer(query: Query) -> None:
        seen.append((str(query.selector), str(query.key_expr), dict(query.parameters)))
        seen.append((query.payload, query.encoding, query.attachment, query.source_info))
        seen.append(query.accepts_replies())

    b.declare_queryable("q", answer)
    replies = a.get("q?a=1;b", payload="p", encoding="text/plain", attachment=b"x")
    assert list(replies) == []
    assert seen == [
        ("q?a=1;b", "q", {"a": "1", "b": ""}),
        (b"p", Encoding.TEXT_PLAIN, b"x", None),
        ReplyKeyExpr.MATCHING_QUERY,
    ]


def test_last_answers_to_many_queries_leave_together(world: World) -> None:
    a, b = world.open(), world.open()
    waiting: list[Query] = []
    b.declare_queryable("q/*", waiting.append)
    replies = [a.get(f"q/{number}") for number in range(3)]
    waiting[1].drop()
    answer_last([(one, str(one.key_expr), b"1") for one in waiting[:1]], Encoding.TEXT_PLAIN)
    answer_last([(one, "q/2", b"2") for one in waiting], Encoding.TEXT_PLAIN)
    assert [texts(one) for one in replies] == [["1"], [], ["2"]]
    with pytest.raises(ClosedError):
        waiting[2].reply("q/2", "3")
    answer_last([], Encoding.TEXT_PLAIN)


def test_all_kinds_of_answers(world: World) -> None:
    a, b = world.open(), world.open()

    def answer(query: Query) -> None:
        query.reply("q", "1", encoding="text/plain", attachment="x", express=True)
        query.reply_del("q")
        query.reply_err("no", encoding="text/plain")

    queryable = b.declare_queryable("q", answer)
    replies = list(a.get("q", consolidation=ConsolidationMode.NONE))
    value, gone, error = (reply.result for reply in replies)
    assert isinstance(value, Sample)
    assert isinstance(gone, Sample)
    assert value.payload == "1"
    assert value.express
    assert value.attachment == b"x"
    assert value.congestion_control is CongestionControl.BLOCK
    assert gone.kind is SampleKind.DELETE
    assert error.payload == "no"
    assert error.encoding == Encoding.TEXT_PLAIN
    assert {reply.replier_id for reply in replies} == {queryable.id}


def test_a_reply_on_another_key_is_refused_unless_asked_for(world: World) -> None:
    a, b = world.open(), world.open()
    refused: list[str] = []

    def answer(query: Query) -> None:
        try:
            query.reply("elsewhere", "1")
        except ZError as error:
            refused.append(str(error))

    b.declare_queryable("q", answer)
    assert texts(a.get("q")) == []
    assert "does not intersect" in refused[0]
    assert texts(a.get("q", accept_replies=ReplyKeyExpr.ANY)) == ["1"]
    assert texts(a.get("q?_anyke")) == ["1"]


def test_a_query_ends_when_it_is_dropped(world: World) -> None:
    a, b = world.open(), world.open()
    queryable = b.declare_queryable("q")
    replies = a.get("q", consolidation=ConsolidationMode.NONE)
    query = queryable.recv()
    query.reply("q", "1")
    assert texts_now(replies) == ["1"]
    assert replies.try_recv() is None
    query.drop()
    query.drop()
    with pytest.raises(ClosedError, match="closed"):
        replies.try_recv()
    with pytest.raises(ZError, match="Dropped query"):
        query.reply("q", "2")
    with pytest.raises(ZError, match="Dropped query"):
        query.key_expr  # noqa: B018


def test_the_last_of_several_ends_it(world: World) -> None:
    a, b = world.open(), world.open()
    queryables = [b.declare_queryable("q"), b.declare_queryable("q/**")]
    replies = a.get("q")
    first, second = (queryable.recv() for queryable in queryables)
    with first:
        first.reply("q", "1")
    assert replies.try_recv() is None
    del second
    assert texts(replies) == ["1"]


def test_undeclaring_a_queryable_ends_what_it_was_asked(world: World) -> None:
    a, b = world.open(), world.open()
    queryable = b.declare_queryable("q")
    replies = a.get("q")
    queryable.undeclare()
    assert list(replies) == []


def test_time_runs_out(world: World) -> None:
    a, b = world.open(), world.open()
    queryable = b.declare_queryable("q")
    replies = a.get("q", timeout=2)
    query = queryable.recv()
    query.reply("q", "late?")
    world.driver.advance(1.9)
    assert replies.try_recv() is None
    world.driver.advance(0.2)
    *rest, last = list(replies)
    assert [reply.ok is not None for reply in rest] == [True]
    assert last.err is not None
    assert last.err.payload == "Timeout"
    assert last.err.encoding == Encoding.ZENOH_STRING
    query.reply("q", "too late")


def test_nobody_answers(world: World) -> None:
    session = world.open()
    assert list(session.get("q")) == []
    with pytest.raises(ValueError, match="negative timeout"):
        session.get("q", timeout=-1)


def test_targets(world: World) -> None:
    a, b, c = world.open(), world.open(), world.open()
    b.declare_queryable("q/**", lambda query: query.reply("q/1", "whole"), complete=True)
    b.declare_queryable("q/1", lambda query: query.reply("q/1", "beside"))
    c.declare_queryable("q/1", lambda query: query.reply("q/1", "part"))
    none = ConsolidationMode.NONE
    # One session is the best match, and all that it has to say is heard.
    assert sorted(texts(a.get("q/1", consolidation=none))) == ["beside", "whole"]
    everybody = a.get("q/1", consolidation=none, target=QueryTarget.ALL)
    assert sorted(texts(everybody)) == ["beside", "part", "whole"]
    complete = a.get("q/1", consolidation=none, target=QueryTarget.ALL_COMPLETE)
    assert texts(complete) == ["whole"]


def test_a_querier(world: World) -> None:
    a, b = world.open(), world.open()
    querier = a.declare_querier("q", timeout=3, accept_replies=ReplyKeyExpr.ANY)
    listener = querier.declare_matching_listener()
    assert not matches(querier)
    queryable = b.declare_queryable("q/**", lambda query: query.reply("z", query.payload or ""))
    assert matches(querier)
    assert texts(querier.get(parameters={"a": "1"}, payload="x")) == ["x"]
    request = world.sent(Request)[-1]
    assert isinstance(request, Request)
    assert (request.body.parameters, request.timeout_ms) == ("a=1;_anyke", 3_000)
    queryable.undeclare()
    assert [status.matching for status in listener.drain()] == [True, False]
    querier.undeclare()
    with pytest.raises(ZError, match="Undeclared querier"):
        querier.get()


def test_cancelling(world: World) -> None:
    a, b = world.open(), world.open()
    queryable = b.declare_queryable("q")
    token = CancellationToken()
    replies = a.get("q", cancellation_token=token)
    query = queryable.recv()
    query.reply("q", "1")
    token.cancel()
    assert list(replies) == []
    with pytest.raises(ZError, match="cancelled"):
        a.get("q", cancellation_token=token)
    query.reply("q", "2")


def test_a_function_for_replies_is_told_the_end(world: World) -> None:
    a, b = world.open(), world.open()
    b.declare_queryable("q", lambda query: query.reply("q", "1"))
    got: list[object] = []
    assert a.get("q", Callback(got.append, lambda: got.append("end"))) is None
    assert isinstance(got[0], Reply)
    assert got[1:] == ["end"]


def test_a_namespace_hides_the_rest(world: World) -> None:
    inside, outside = world.open(namespace="ns"), world.open()
    inside.declare_queryable("q", lambda query: query.reply("q", str(query.key_expr)))
    outside.declare_queryable("ns/p", lambda query: query.reply("ns/p", str(query.key_expr)))
    assert texts(outside.get("ns/q")) == ["q"]
    [reply] = inside.get("p")
    assert reply.ok is not None
    assert reply.ok.key_expr == "p"
    assert reply.ok.payload == "ns/p"


def texts_now(replies: Handler[Reply]) -> list[str]:
    return [reply.result.payload.to_string() for reply in replies.drain()]


def test_a_loop_finishes_each_query_when_it_takes_the_next() -> None:
    session = Session(Config(), FakeDriver(CallbackThread.SESSION))
    queryable = session.declare_queryable("q")
    kept: list[Query] = []

    def serve() -> None:
        for query in queryable:
            query.reply("q", "1")
            if str(query.parameters) == "keep":
                kept.append(query)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert texts(session.get("q")) == ["1"]
    assert texts(session.get("q")) == ["1"]
    open_end = session.get("q?keep", consolidation=ConsolidationMode.NONE)
    assert open_end.recv().ok is not None
    assert texts(session.get("q")) == ["1"]
    assert open_end.try_recv() is None
    kept.pop().drop()
    with pytest.raises(ClosedError):
        open_end.recv(timeout=20)
    session.close()
    thread.join(20)


def test_next_called_by_name_finishes_nothing(world: World) -> None:
    session = world.open()
    queryable = session.declare_queryable("q")
    all_of_them = [session.get("q"), session.get("q")]
    first = next(queryable.handler)
    second = next(queryable.handler)
    first.reply("q", "1")
    second.reply("q", "2")
    del first, second
    assert [texts(replies) for replies in all_of_them] == [["1"], ["2"]]


def test_cancelling_waits_for_the_function_of_a_query_that_is_answered() -> None:
    session = Session(Config(), FakeDriver(CallbackThread.SESSION))
    queryable = session.declare_queryable("q")
    entered, go_on = threading.Event(), threading.Event()
    got: list[str] = []

    def slow(reply: Reply) -> None:
        entered.set()
        assert go_on.wait(20)
        got.append(reply.result.payload.to_string())

    token = CancellationToken()
    session.get("q", slow, cancellation_token=token)
    with queryable.recv() as query:
        query.reply("q", "1")
    assert entered.wait(20)
    threading.Timer(0.05, go_on.set).start()
    token.cancel()
    assert got == ["1"]
    session.close()
