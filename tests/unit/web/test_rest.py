"""Keys over HTTP: verbs, selectors, shapes and refusals."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.web.rig import Served, served

import elea
from elea.session.handlers import Callback


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    with served(web_body_len=1_000, query_timeout_ms=5_000) as running:
        yield running


def asked(web: Served, key: str) -> tuple[object, queue.SimpleQueue[Any]]:
    """A queryable that writes down what it was asked, and says nothing."""
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def note(query: elea.Query) -> None:
        payload = None if query.payload is None else query.payload.to_bytes()
        seen.put((str(query.key_expr), str(query.parameters), payload, str(query.encoding)))

    return web.session.declare_queryable(key, note), seen


def test_values_as_json(web: Served) -> None:
    stamp = web.session.new_timestamp()
    with (
        web.session.declare_queryable(
            "r/json",
            lambda one: one.reply(
                "r/json", '{"x":1}', encoding="application/json", timestamp=stamp
            ),
        ),
        web.session.declare_queryable(
            "r/err", lambda one: one.reply_err("no", encoding="text/plain")
        ),
    ):
        answer = web.http.get("/r/json")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json() == [
            {
                "key": "r/json",
                "value": {"x": 1},
                "encoding": "application/json",
                "timestamp": str(stamp),
            }
        ]
        error = {"key": "ERROR", "value": "no", "encoding": "text/plain", "timestamp": None}
        assert web.http.get("/r/err").json() == [error]
        found = web.http.get("/r/*").json()
        assert sorted(one["key"] for one in found) == ["ERROR", "r/json"]
    assert web.http.get("/r/*").text == "[]"


def test_values_as_they_are(web: Served) -> None:
    with web.session.declare_queryable(
        "raw/a", lambda one: one.reply("raw/a", b"\x00<b>", encoding="image/png")
    ):
        for answer in (
            web.http.get("/raw/a?_raw"),
            web.http.get("/raw/a?_raw=true", headers={"accept": "text/html"}),
            web.http.post("/raw/a", params={"_raw": ""}),
            web.http.get("/raw/a", headers={"accept": "application/octet-stream"}),
        ):
            assert (answer.status_code, answer.content) == (200, b"\x00<b>")
            assert answer.headers["content-type"] == "image/png"
    empty = web.http.get("/raw/a?_raw")
    assert (empty.status_code, empty.content) == (200, b"")


def test_values_as_html(web: Served) -> None:
    with web.session.declare_queryable(
        "h/a", lambda one: one.reply("h/a", "reply", encoding="text/plain")
    ):
        answer = web.http.get("/h/a", headers={"accept": "text/html,*/*;q=0.8"})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.text == "<dl>\n<dt>h/a</dt>\n<dd>reply</dd>\n</dl>\n"


def test_head_says_no_more_than_the_headers(web: Served) -> None:
    for headers in ({}, {"accept": "text/event-stream"}):
        answer = web.http.head("/h/a", headers=headers)
        assert (answer.status_code, answer.content) == (200, b"")


def test_puts_and_deletes(web: Served) -> None:
    seen: queue.SimpleQueue[elea.Sample] = queue.SimpleQueue()
    with web.session.declare_subscriber("w/**", Callback(seen.put)):
        for method, headers, encoding in (
            ("PUT", {"content-type": "text/plain"}, "text/plain"),
            ("PATCH", {"content-type": "application/json;x"}, "application/json;x"),
            ("PUT", {}, "zenoh/bytes"),
        ):
            answer = web.http.request(method, "/w/a", content=b"1", headers=headers)
            assert (answer.status_code, answer.content) == (200, b"")
            sample = seen.get(timeout=WAIT_S)
            assert (sample.kind, str(sample.key_expr)) == (elea.SampleKind.PUT, "w/a")
            assert (sample.payload.to_bytes(), str(sample.encoding)) == (b"1", encoding)
        assert web.http.delete("/w/a").status_code == 200
        assert seen.get(timeout=WAIT_S).kind is elea.SampleKind.DELETE
        assert web.http.put("/w/*", content=b"").status_code == 200
        assert str(seen.get(timeout=WAIT_S).key_expr) == "w/*"


@pytest.mark.parametrize(
    "key", ["é/日本", "a b", "a%b", "50%25", "a&b;c=d", "a+b", "@x/y", "'\"<>"]
)
def test_keys_are_percent_decoded(web: Served, key: str) -> None:
    queryable, seen = asked(web, "**")
    others, also = asked(web, "@x/**")
    assert web.http.get(f"/{quote(key)}").status_code == 200
    assert (seen if not key.startswith("@") else also).get(timeout=WAIT_S)[0] == key
    del queryable, others


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ("?a=1;b=2", "a=1;b=2"),
        ("?a=1&b=2", "a=1;b=2"),
        ("?_time=[now(-1h)..]", "_time=[now(-1h)..]"),
        ("?_time=%5Bnow(-1h)..now()%5D", "_time=[now(-1h)..now()]"),
        ("?a=%C3%A9+%20", "a=é+ "),
        ("?_raw;x", "_raw;x"),
        ("?_timeout=1;a=b", "a=b"),
        ("", ""),
    ],
)
def test_parameters_reach_the_queryable(web: Served, query: str, parameters: str) -> None:
    queryable, seen = asked(web, "p/a")
    assert web.http.get(f"/p/a{query}").status_code == 200
    assert seen.get(timeout=WAIT_S)[1] == parameters
    del queryable


def test_a_body_is_the_payload_of_the_query(web: Served) -> None:
    queryable, seen = asked(web, "b/a")
    web.http.post("/b/a", content=b"x", headers={"content-type": "text/plain"})
    web.http.post("/b/a", content=b"y")
    web.http.post("/b/a")
    assert [seen.get(timeout=WAIT_S)[2:] for _ in range(3)] == [
        (b"x", "text/plain"),
        (b"y", "zenoh/bytes"),
        (None, "None"),
    ]
    del queryable


def test_local_is_this_node(web: Served) -> None:
    zid = web.session.zid()
    queryable, seen = asked(web, f"@/{zid}/**")
    for path in ("/@/local/peer", "/%40/local/peer", f"/@/{zid}/peer"):
        assert web.http.get(path).status_code == 200
        assert seen.get(timeout=WAIT_S)[0] == f"@/{zid}/peer"
    assert web.http.get("/@/locale/peer").json() == []
    del queryable


def problem(answer: httpx.Response) -> str:
    assert answer.headers["content-type"] == "application/problem+json"
    found = answer.json()
    assert found["status"] == answer.status_code
    assert found["title"]
    return str(found["detail"])


@pytest.mark.parametrize(
    ("path", "complaint"),
    [
        ("/a//b", "a chunk is empty"),
        ("/a/", "offset"),
        ("/a/**/**", "offset"),
        ("/a%3Fb", "offset"),
        ("/a%23b", "offset"),
        ("/a/$*$*", "offset"),
        ("/%ff", "not UTF-8"),
        ("/a?%ff", "not UTF-8"),
        ("/a?_time=yesterday", "offset"),
        ("/a?_timeout=soon", "legal are seconds, more than 0 and at most 5"),
        ("/a?_timeout=nan", "legal are seconds"),
        ("/a?_timeout=-1", "legal are seconds"),
        ("/a?_timeout=6", "at most 5"),
        ("/" + "a/" * 600 + "a", "keyexpr_len allows 1024"),
    ],
)
def test_what_is_not_legal_is_told(web: Served, path: str, complaint: str) -> None:
    for method in ("GET", "POST"):
        answer = web.http.request(method, path)
        assert answer.status_code == 400
        assert complaint in problem(answer)


def test_other_refusals(web: Served) -> None:
    assert "the path is a key" in problem(web.http.get("/"))
    assert web.http.get("/").status_code == 404
    answer = web.http.request("TRACE", "/a")
    assert (answer.status_code, "PUT" in answer.headers["allow"]) == (405, True)
    assert problem(answer)
    long_type = web.http.put("/a", content=b"x", headers={"content-type": "x" * 300})
    assert long_type.status_code == 400
    assert "255" in problem(long_type)


def test_bodies_are_bounded(web: Served) -> None:
    assert web.http.put("/a", content=bytes(1_000)).status_code == 200
    for content in (bytes(1_001), iter([bytes(600), bytes(600)])):
        answer = web.http.put("/a", content=content)
        assert answer.status_code == 413
        assert "at most 1000 octets" in problem(answer)
    assert web.count("elea_rest_refusals_total", reason="body") == 2


def test_replies_are_bounded() -> None:
    with served(web_replies_len=10_000) as web:

        def many(query: elea.Query) -> None:
            for number in range(10):
                query.reply(f"m/{number}", bytes(20_000 if number % 2 else 20))

        with web.session.declare_queryable("m/**", many):
            *kept, last = web.http.get("/m/*").json()
        assert len(kept) == 5
        assert last["key"] == "ERROR"
        assert "too many" in last["value"]
        assert web.count("elea_rest_replies_dropped_total") == 5


def test_a_query_that_nobody_ends(web: Served) -> None:
    held: list[elea.Query] = []
    with web.session.declare_queryable("slow", held.append):
        answer = web.http.get("/slow?_timeout=0.2").json()
    assert [one["key"] for one in answer] == ["ERROR"]
    assert json.dumps(answer)


def test_fixed_names_are_keys_for_every_other_verb(web: Served) -> None:
    queryable, seen = asked(web, "metrics")
    assert web.http.post("/metrics").json() == []
    assert seen.get(timeout=WAIT_S)[0] == "metrics"
    assert web.http.put("/metrics", content=b"1").status_code == 200
    assert web.http.get("/metrics/a").json() == []
    del queryable


def test_health_and_readiness(web: Served) -> None:
    assert web.http.get("/health").json() == {"status": "ok"}
    zid = str(web.session.zid())
    assert web.http.get("/ready").json() == {"status": "ready", "zid": zid}


def test_a_router_that_ends_is_not_ready() -> None:
    with served() as web:
        web.session.close()
        assert web.http.get("/health").status_code == 200
        for method, path in (("GET", "/ready"), ("PUT", "/a"), ("GET", "/a?_raw")):
            answer = web.http.request(method, path)
            assert (answer.status_code, problem(answer)) == (503, "the router ends")


def test_a_query_ends_when_nobody_listens_any_more() -> None:
    held: list[elea.Query] = []
    with served(query_timeout_ms=600_000) as web:
        pending = web.session._context.core.gets._pending
        with web.session.declare_queryable("slow", held.append):
            with web.connect() as connection:
                connection.sendall(b"GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert eventually(lambda: held)
                assert len(pending) == 1
            assert eventually(lambda: not pending)


def test_long_values(web: Served) -> None:
    long_text = '["' + "é" * 200_000 + '"]'
    with web.says("long", long_text, encoding="application/json"):
        [one] = web.http.get("/long").json()
        assert one["value"] == ["é" * 200_000]
        assert web.http.get("/long?_raw").text == long_text
