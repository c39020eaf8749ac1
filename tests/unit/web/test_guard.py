"""Who may ask: hosts, origins, tokens. And payloads stay payloads (T50 to T53)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cli.ends import eventually
from tests.unit.web.rig import Served, closed, served

from elea.limits import DEFAULT_LIMITS
from elea.secret import Secret
from elea.web.app import application
from elea.web.guard import Guesses
from elea.web.settings import RestSettings
from elea.web.state import State

TOKEN = "correct-horse-battery"
PANEL = "https://panel.example"


@pytest.fixture(scope="module")
def web() -> Iterator[Served]:
    with served(
        token=Secret(TOKEN),
        allowed_hosts=frozenset({"router.example"}),
        allowed_origins=frozenset({PANEL}),
        web_wrong_tokens_count=1_000,
    ) as running:
        yield running


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "LocalHost:80", "127.0.0.1", "127.0.0.1:9", "[::1]:8000", "10.1.2.3"),
        *("router.example", "Router.Example:8000", "router.example."),
    ],
)
def test_known_hosts(web: Served, host: str) -> None:
    assert web.http.get("/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        *("evil", "evil.example:8000", "localhost.evil.example", "router.example.evil"),
        *("", "localhost:x", "localhost:99999", "user@localhost", "localhost/a", "127.0.0.1.evil"),
        *("[::1", "evil#localhost", "2130706433.evil"),
    ],
)
def test_other_hosts_are_misdirected(web: Served, host: str) -> None:
    for path in ("/health", "/a", "/metrics", "/openapi.json"):
        assert web.http.get(path, headers={"host": host}).status_code == 421


def raw(web: Served, head: bytes) -> bytes:
    with web.connect() as connection:
        connection.sendall(head)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(65_536)


def test_one_host_and_not_two(web: Served) -> None:
    assert b" 400 " in raw(web, b"GET /a HTTP/1.1\r\n\r\n")
    assert b" 400 " in raw(web, b"GET /a HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n")
    assert b" 421 " in raw(web, b"GET /a HTTP/1.0\r\n\r\n")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://["},
        {"origin": ""},
        {"origin": "http://127.0.0.1:1"},
        {"origin": "https://panel.example.evil"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-site": "cross-site", "content-type": "application/x-www-form-urlencoded"},
        {"origin": "http://evil.example", "accept": "text/event-stream"},
        {"origin": "http://evil.example", "authorization": f"Bearer {TOKEN}"},
    ],
)
def test_pages_of_others_are_refused(web: Served, headers: dict[str, str]) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "OPTIONS"):
        answer = web.http.request(method, "/a", headers=headers)
        assert answer.status_code == 403, method
        assert "access-control-allow-origin" not in answer.headers


def test_own_pages_and_listed_ones_may(web: Served) -> None:
    own = {"origin": web.rest.url, "sec-fetch-site": "same-origin"}
    assert web.http.get("/a", headers=own).status_code == 200
    assert web.http.get("/a", headers={"sec-fetch-site": "none"}).status_code == 200
    listed = {"origin": PANEL, "sec-fetch-site": "cross-site"}
    answer = web.http.get("/a", headers=listed)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, PANEL)
    preflight = {**listed, "access-control-request-method": "PUT"}
    answer = web.http.options("/a", headers=preflight)
    assert answer.status_code == 200
    assert "PUT" in answer.headers["access-control-allow-methods"]
    assert web.http.put("/a", headers=listed).status_code == 401


def test_every_origin_may_if_that_is_said() -> None:
    with served(allowed_origins=frozenset({"*"})) as web:
        headers = {"origin": "http://evil.example", "sec-fetch-site": "cross-site"}
        answer = web.http.put("/a", headers=headers)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")


@pytest.mark.parametrize(
    "given",
    [None, "Bearer", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", TOKEN],
)
def test_writes_need_the_token(web: Served, given: str | None) -> None:
    headers = {} if given is None else {"authorization": given}
    for method in ("PUT", "PATCH", "DELETE", "POST"):
        answer = web.http.request(method, "/a", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert TOKEN not in answer.text
    shows_wrong_token = given is not None and given.startswith("Bearer")
    assert web.http.get("/a", headers=headers).status_code == (401 if shows_wrong_token else 200)


WRITING = [
    *("/@elea/log/*/put/fleet/door?kind=delete", "/@elea/log/all/put/fleet/door"),
    *("/@elea/log/all/commit/spark1", "/@elea/log/*/commit/*", "/@elea/log/all/*/x"),
    *("/@elea/replay/r1/stop", "/@elea/replay/*/seek?value=start", "/@elea/replay/r1/*"),
    *("/@elea/**", "/@elea", "/@elea/*/*/put/x", "/@elea/log/*/pu$*/x", "/@elea/log/**/x"),
    *("/%40elea/log/*/put/x", "/@elea%2Flog/all/put/x", "/ns/@elea/log/all/put/x"),
    *("/**/@elea/**", "/@elea/later/verb", "/@elea/spark/barrier"),
]


@pytest.mark.parametrize("path", WRITING)
@pytest.mark.parametrize("events", [False, True])
def test_a_query_that_writes_needs_the_token(web: Served, path: str, events: bool) -> None:
    accept = {"accept": "text/event-stream"} if events else {}
    for method in ("GET", "HEAD", "POST"):
        for token in (None, f"Bearer {TOKEN}x"):
            headers = accept | ({} if token is None else {"authorization": token})
            assert web.http.request(method, path, headers=headers).status_code == 401
    headers = {"authorization": f"Bearer {TOKEN}"}
    for method in ("GET", "HEAD", "POST"):
        assert web.http.request(method, path, headers=headers).status_code == 200


@pytest.mark.parametrize("path", WRITING)
def test_without_a_token_a_query_that_writes_is_no_get(path: str) -> None:
    with served() as web:
        for method in ("GET", "HEAD"):
            assert web.http.request(method, path).status_code == 405
        assert web.http.post(path).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/**", "/a", "/@/local/router", "/@elea/log/*/info", "/@elea/log/all/read/0?lo=0;hi=1"),
        *("/@elea/replay/*/status", "/@sql/lake?q=select 1"),
    ],
)
def test_a_query_that_reads_needs_no_token(web: Served, path: str) -> None:
    assert web.http.get(path).status_code == 200


@pytest.mark.parametrize("token", [None, f"Bearer {TOKEN}"])
@pytest.mark.parametrize("content", [b"OPEN", [b"OPEN"]], ids=["length", "chunks"])
def test_a_get_with_a_body_is_refused(
    web: Served, token: str | None, content: bytes | list[bytes]
) -> None:
    headers = {} if token is None else {"authorization": token}
    for method in ("GET", "HEAD"):
        given: Any = content if isinstance(content, bytes) else iter(content)
        assert web.http.request(method, "/a", headers=headers, content=given).status_code == 400


def test_each_user_has_a_token() -> None:
    other = "battery-staple-correct"
    with served(token=Secret(TOKEN), users={"anna": Secret(other)}) as web:
        for token, status in ((TOKEN, 200), (other, 200), ("x" * 20, 401)):
            headers = {"authorization": f"Bearer {token}"}
            assert web.http.put("/a", headers=headers).status_code == status


def test_a_wrong_token_is_not_taken_for_none(web: Served) -> None:
    assert web.http.get("/nobody/here", headers={"authorization": "Basic YTpi"}).status_code == 200
    wrong = web.http.get("/nobody/here", headers={"authorization": f"Bearer {TOKEN}x"})
    assert wrong.status_code == 401
    assert "revoked, or mistyped" in wrong.json()["detail"]


def test_tokens_cannot_be_guessed_without_end() -> None:
    """Each guess was answered as fast as it was asked, and told whether it was right."""
    right, wrong = ({"authorization": f"Bearer {one}"} for one in (TOKEN, TOKEN[::-1]))
    with served(token=Secret(TOKEN)) as web:
        for _ in range(10):
            assert web.http.put("/a", headers=wrong).status_code == 401
        for headers in (wrong, right):  # the answer does not tell which one is right
            refused = web.http.put("/a", headers=headers)
            assert refused.status_code == 429
            assert 0 < int(refused.headers["retry-after"]) <= 60
        assert web.http.get("/a").status_code == 200  # what needs no token goes on
        assert web.count("elea_rest_refusals_total", reason="token") == 12


def test_an_address_may_show_its_token_again_later() -> None:
    with served(token=Secret(TOKEN), web_wrong_tokens_ns=1_000_000) as web:
        for _ in range(12):
            wrong = web.http.put("/a", headers={"authorization": "Bearer x"})
        assert wrong.status_code in (401, 429)
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert eventually(lambda: web.http.put("/a", headers=headers).status_code == 200)


def test_wrong_tokens_are_counted_by_address_and_within_bounds() -> None:
    guesses = Guesses(
        replace(
            DEFAULT_LIMITS,
            web_wrong_tokens_count=2,
            web_wrong_tokens_ns=100,
            web_wrong_addresses_count=3,
        )
    )
    for address, now_ns in (("a", 0), ("b", 10), ("a", 20)):
        guesses.add(address, now_ns)
    assert [guesses.wait_ns(one, 30) for one in "abc"] == [70, 0, 0]
    assert guesses.wait_ns("a", 100) == 0
    guesses.add("a", 110)  # one more is enough while the one of 20 counts, and no longer
    assert [guesses.wait_ns("a", now_ns) for now_ns in (111, 120)] == [9, 0]
    for number in range(10):
        guesses.add(f"n{number}", 200)
    assert len(guesses) == 3


def test_the_token_opens(web: Served) -> None:
    for header in (f"Bearer {TOKEN}", f"bearer  {TOKEN}"):
        headers = {"authorization": header}
        assert web.http.put("/a", headers=headers).status_code == 200


def test_the_protect_everything() -> None:
    with served(token=Secret(TOKEN), protect="everything") as web:
        for path, status in (("/a", 401), ("/metrics", 401), ("/health", 200), ("/ready", 200)):
            assert web.http.get(path).status_code == status, path
        headers = {"authorization": f"Bearer {TOKEN}"}
        assert web.http.get("/metrics", headers=headers).status_code == 200


def test_refusals_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    with served(web_refusals_logged_count=3) as web, caplog.at_level(logging.INFO, "elea.web"):
        for _ in range(10):
            web.http.get("/secret\u2028key", headers={"host": "evil"})
        assert web.count("elea_rest_refusals_total", reason="host") == 10
    lines = [one.getMessage() for one in caplog.records if one.name == "elea.web.audit"]
    assert 3 <= len(lines) < 10
    first = json.loads(lines[0])
    assert first == {
        "refused": "host",
        "status": 421,
        "client": "127.0.0.1",
        "method": "GET",
        "path": "/secret\u2028key",
    }
    assert lines[0].isascii()


WORDS = st.sampled_from(
    [b"localhost", b"[::1]", b"http://", b":80", b"[", b"@", b"Bearer ", b"\xff"]
)
VALUES = st.lists(WORDS | st.binary(max_size=8), max_size=4).map(b"".join)
NAMES = st.sampled_from(
    [*(b"host", b"origin", b"sec-fetch-site", b"authorization", b"accept", b"content-type")]
)


@given(
    headers=st.lists(st.tuples(NAMES, VALUES), max_size=5),
    method=st.sampled_from(["GET", "PUT", "OPTIONS", "BREW"]),
    path=st.binary(max_size=20),
    query=st.binary(max_size=20),
    local=st.booleans(),
)
@settings(max_examples=150, deadline=None, derandomize=True)
def test_whatever_the_headers_say_it_is_their_fault(
    web: Served,
    headers: list[tuple[bytes, bytes]],
    method: str,
    path: bytes,
    query: bytes,
    local: bool,
) -> None:
    with contextlib.closing(State(web.session, RestSettings(token=Secret(TOKEN)))) as state:
        sent: list[Any] = []

        async def receive() -> dict[str, object]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "raw_path": b"/" + path,
            "path": "/" + path.decode(errors="replace"),
            "query_string": query,
            "headers": [*([(b"host", b"localhost")] if local else []), *headers],
        }

        async def run() -> None:
            await application(state)(scope, receive, send)

        asyncio.run(run())
    assert sent[0]["status"] in (200, 400, 401, 403, 404, 405, 421)


# Payloads, keys and encodings that browsers have run (T50).
ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg/onload=alert(1)>",
    "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>",
    "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'><script/></html>",
    "javascript:alert(1)",
    "</dd><script>alert(1)</script>",
    "</dl><iframe srcdoc='<script>alert(1)</script>'>",
    '"><script>alert(1)</script>',
    "'-alert(1)-'",
    "+ADw-script+AD4-alert(1)+ADw-/script+AD4-",
    "\ufeff<html><script>alert(1)</script>",
    "data:text/html,<script>alert(1)</script>",
    "GIF89a/*<script>*/=1;alert(1)",
    "%PDF-1.4 <script>",
    "<!--><script>alert(1)//-->",
    "<style>@import 'http://evil'</style>",
    "<link rel=import href=//evil>",
    "<base href=//evil>",
    "<meta http-equiv=refresh content='0;url=javascript:alert(1)'>",
    "<object data='data:text/html,x'>",
    "<math><mi//xlink:href='data:x,<script>alert(1)</script>'>",
    "{{constructor.constructor('alert(1)')()}}",
    "<a href=java\tscript:alert(1)>",
    "\r\n\r\n<script>alert(1)</script>",
]
TYPES = ["text/html", "image/svg+xml", "application/xhtml+xml", "text/plain", "text/javascript"]


def harmless(answer: httpx.Response) -> None:
    assert answer.status_code == 200
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("attack", ATTACKS)
def test_payloads_are_never_active(web: Served, attack: str) -> None:
    for kind in TYPES:
        with web.says("x/a", attack, encoding=kind):
            raw_one = web.http.get("/x/a?_raw", headers={"accept": "text/html"})
            listed = web.http.get("/x/a", headers={"accept": "text/html"})
            found = web.http.get("/x/a")
        for answer in (raw_one, listed, found):
            harmless(answer)
        assert raw_one.headers["content-disposition"] == "attachment"
        expected = kind if kind == "text/plain" else "application/octet-stream"
        assert raw_one.headers["content-type"] == expected
        assert "<" not in listed.text.partition("<dd>")[2].partition("</dd>")[0]
        assert found.json()[0]["key"] == "x/a"
    named = web.http.get(f"/{quote(attack)}")
    assert named.status_code in (200, 400)
    assert named.headers["content-type"] in ("application/json", "application/problem+json")
    assert named.headers["x-content-type-options"] == "nosniff"


def test_encodings_are_never_headers(web: Served) -> None:
    for attack in ATTACKS:
        with web.says("x/a", attack, encoding=attack):
            answer = web.http.get("/x/a?_raw")
        harmless(answer)
        assert answer.headers["content-type"] == "application/octet-stream"
        assert unquote(answer.headers["x-zenoh-encoding"]) == attack


def test_refusals_are_harmless_too(web: Served) -> None:
    answer = web.http.get("/<script>//", headers={"accept": "text/html"})
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_what_is_no_http(web: Served) -> None:
    with web.connect() as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert closed(connection)
    assert web.http.get("/health").status_code == 200
