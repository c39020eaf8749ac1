"""The live protocol of a running router: what is shown, what is watched, and who is refused."""

from __future__ import annotations

import socket
from functools import partial
from typing import Any

import httpx
import pytest
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.daemon.rig import ask, client_of, root_of
from tests.unit.web.rig import served
from tests.unit.web.ui.rig import PROTOCOL, UI, Browser, opened, paged, ticket_of
from websockets.exceptions import ConnectionClosed, InvalidStatus

import elea
from elea.daemon.daemon import Daemon
from elea.secret import Secret


def subscribers(client: elea.Session, daemon: Daemon, key: str) -> int:
    return len(ask(client, f"{root_of(daemon)}/subscriber/{key}"))


def is_wanted(publisher: elea.Publisher) -> bool:
    return publisher.matching_status.matching


def test_nodes_keys_and_values_are_shown() -> None:
    with paged('metadata:{name:"gate"}') as (daemon, url), client_of(daemon) as client:
        publisher = client.declare_publisher("fleet/r1/imu", encoding="application/json")
        with Browser(url) as browser:
            browser.say(want={"id": 1, "kind": "status"})
            status = browser.until(lambda part: part["w"] == 1 and part["clients"] == 1)
            assert (status["name"], status["routers"]) == ("'gate'", 1)
            browser.say(want={"id": 2, "kind": "tree", "keys": ["fleet"], "limit": 10})
            tree = browser.until(lambda part: part["w"] == 2 and part["total"] == 2)
            assert [row[2] for row in tree["v"]] == ["fleet", "fleet/r1"]
            browser.say(want={"id": 3, "kind": "rows", "keys": ["fleet/r1/imu"]})
            browser.say(want={"id": 4, "kind": "value", "keys": ["fleet/r1/imu"]})
            browser.frame()
            assert eventually(lambda: subscribers(client, daemon, "fleet/r1/imu"))
            assert eventually(lambda: publisher.matching_status.matching)
            publisher.put('{"temp": 4}')
            row = browser.until(lambda part: part["w"] == 3 and part["v"][0][3])["v"][0]
            assert (row[0], row[3], row[4]) == ("fleet/r1/imu", 11, '{"temp": 4}')
            one = browser.until(lambda part: part["w"] == 4 and "value" in part)
            assert one["value"]["lines"] == ["{", '  "temp": 4', "}"]
            assert one["value"]["hex"][0].startswith("0000  7b 22 74")
            browser.say(want={"id": 5, "kind": "nodes"})
            nodes = browser.until(lambda part: part["w"] == 5)
            assert [node["name"] for node in nodes["nodes"]] == ["'gate'"]
            assert [one["role"] for one in nodes["sessions"]] == ["client"]


def test_only_what_is_in_view_is_subscribed_to() -> None:
    with paged() as (daemon, url), client_of(daemon) as client:
        publisher = client.declare_publisher("a/1")
        with Browser(url) as browser, Browser(url) as other:
            for kind in ("status", "nodes", "tree"):
                browser.say(want={"id": len(kind), "kind": kind, "limit": 100})
                browser.frame()
            assert not is_wanted(publisher)
            for one in (browser, other):
                one.say(want={"id": 1, "kind": "rows", "keys": ["a/1", "a/*", "**", "bad//key"]})
                one.frame()
            assert eventually(lambda: is_wanted(publisher))
            assert subscribers(client, daemon, "a/*") == 1  # no wildcard is subscribed to
            assert eventually(lambda: subscribers(client, daemon, "**") == 2)  # and alerts/**
            browser.say(drop=1)
            browser.frame()
            assert is_wanted(publisher)  # the other one still looks
        assert eventually(lambda: not publisher.matching_status.matching)


def test_a_key_beyond_the_bound_says_why_it_has_no_value() -> None:
    """Its row stayed empty, as if nothing was published."""
    with served(ui_watched_count=1) as web:
        with Browser(web.rest.url) as browser:
            browser.say(want={"id": 1, "kind": "rows", "keys": ["a/1", "a/2"]})
            told = browser.until(lambda part: any(row[4] for row in part["v"]))["v"]
            [why] = [row[4] for row in told if row[4]]
            assert why == "too many keys are watched: 1"
        with Browser(web.rest.url) as browser:  # the place is free again
            browser.say(want={"id": 1, "kind": "value", "keys": ["a/2"]})
            browser.until(lambda part: part.get("note") == "")


def test_a_browser_that_asks_for_no_frame_is_not_subscribed_and_then_closed() -> None:
    with served(ui_idle_ns=200_000_000, ui_silent_ns=2_000_000_000) as web:
        publisher = web.session.declare_publisher("a/1")
        with Browser(web.rest.url) as browser:
            browser.say(want={"id": 1, "kind": "rows", "keys": ["a/1"]})
            browser.frame()
            assert browser.closed() == 4408
        assert eventually(lambda: not publisher.matching_status.matching)


def test_frames_come_only_when_asked_for() -> None:
    with served() as web, Browser(web.rest.url) as browser:
        browser.say(want={"id": 1, "kind": "status"})
        assert browser.frame()["s"] == 1
        assert browser.frame()["s"] == 2
        assert browser.is_silent(1.5)


def test_hostile_values_are_escaped_and_cut() -> None:
    with served() as web, Browser(web.rest.url) as browser:
        browser.say(want={"id": 1, "kind": "value", "keys": ["x"]})
        browser.frame()
        with web.session.declare_publisher("x") as publisher:
            assert eventually(lambda: is_wanted(publisher))
        for payload, encoding in (
            (b"\x1b]0;evil\x07\xe2\x80\xae<script>", "text/plain"),
            (b"[" * 100_000, "application/json"),
            (b"\xff\xfe" * 40, "text/plain"),
            (b"\n" * 10_000_000, "text/plain"),
        ):
            web.session.put("x", payload, encoding=encoding)
            size = len(payload)
            part = browser.until(partial(_has_length, size))
            lines = part["value"]["lines"]
            assert all(line.isprintable() for line in lines)
            assert len(lines) <= 400
            assert sum(map(len, lines)) <= 400 * 4_000
            assert part["value"]["shown"] == min(size, 65_536)


def _has_length(size: int, part: dict[str, Any]) -> bool:
    value: dict[str, Any] = part.get("value", {})
    return bool(value.get("length") == size)


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": None},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {"subprotocols": None},
        {"subprotocols": ["other"]},
    ],
)
def test_a_websocket_of_strangers_is_refused_before_it_is_accepted(headers: dict[str, Any]) -> None:
    """Every page may open a WebSocket to any host; the guard let all of them pass."""
    with served() as web:
        with pytest.raises(InvalidStatus) as refused, opened(web.rest.url, **headers):
            pass
        assert refused.value.response.status_code in (403, 404)


def test_a_rebound_name_is_refused_for_websockets() -> None:
    with served() as web, web.connect() as connection:
        connection.sendall(upgrade(web.rest.url, "evil.example", "http://evil.example"))
        assert connection.recv(100).startswith(b"HTTP/1.1 421")
        assert web.count("elea_rest_refusals_total", reason="host") == 1


def test_any_origin_does_not_hold_for_websockets() -> None:
    with (
        served(allowed_origins=frozenset({"*"})) as web,
        pytest.raises(InvalidStatus),
        opened(web.rest.url, origin="https://evil.example"),
    ):
        pass


def upgrade(url: str, host: str, origin: str) -> bytes:
    return (
        f"GET {UI}/live HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
    ).encode()


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ('{"hello": 1, "ticket": "guessed"}', 4401),
        ('{"next": 1}', 4401),
        ("no JSON", 4400),
        ("x" * 20_000, 1009),
        (b"binary", 4400),
    ],
)
def test_a_connection_without_a_ticket_ends(first: str | bytes, code: int) -> None:
    with served() as web, opened(web.rest.url) as connection:
        connection.send(first)
        with pytest.raises(ConnectionClosed) as closed:
            connection.recv(WAIT_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == code


def test_a_ticket_is_not_good_twice() -> None:
    with served() as web:
        hello = f'{{"hello": 1, "ticket": "{ticket_of(web.rest.url)}"}}'
        with opened(web.rest.url) as first:
            first.send(hello)
            first.send('{"next": 1}')
            assert first.recv(WAIT_S)
        with opened(web.rest.url) as second:
            second.send(hello)
            with pytest.raises(ConnectionClosed) as closed:
                second.recv(WAIT_S)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401
        assert web.count("elea_rest_refusals_total", reason="live") == 1


def test_a_silent_connection_is_closed() -> None:
    with (
        served(ui_hello_ns=300_000_000) as web,
        opened(web.rest.url) as silent,
        pytest.raises(ConnectionClosed),
    ):
        silent.recv(WAIT_S)


def test_too_many_wants_and_messages_end_it() -> None:
    with served(ui_wants_count=2) as web, Browser(web.rest.url) as browser:
        for number in range(3):
            browser.say(want={"id": number, "kind": "nodes"})
        assert browser.closed() == 4400
    with served(ui_messages_count=20) as web, Browser(web.rest.url) as browser:
        for _ in range(100):
            try:
                browser.say(drop=1)
            except ConnectionClosed:
                break
        assert browser.closed() == 4400


def test_pages_of_one_address_are_bounded_and_make_room_when_they_leave() -> None:
    with served(ui_connections_per_address_count=2) as web:
        first, second = Browser(web.rest.url), Browser(web.rest.url)
        with pytest.raises(InvalidStatus) as refused, opened(web.rest.url):
            pass
        assert refused.value.response.status_code == 503
        assert web.count("elea_ui_connections") == 2
        with first, second:
            pass
        assert eventually(lambda: web.count("elea_ui_connections") == 0)
        with Browser(web.rest.url) as third:
            assert third.frame()["s"] == 1


def test_a_websocket_keeps_one_place_of_the_connections() -> None:
    with served(web_connections_count=4) as web:
        for _ in range(10):  # places that are not given back would be used up
            with Browser(web.rest.url) as browser:
                assert browser.frame()["s"] == 1
        assert eventually(lambda: web.count("elea_ui_connections") == 0)


def test_a_websocket_outlives_the_time_for_headers() -> None:
    with served(web_header_ns=300_000_000) as web, Browser(web.rest.url) as browser:
        assert browser.is_silent(1)
        assert browser.frame()["s"] == 1


def test_no_websocket_without_the_page() -> None:
    with served(dashboard=False) as web:
        assert web.http.get("/", headers={"accept": "text/html"}).status_code == 404
        with pytest.raises(InvalidStatus) as refused, opened(web.rest.url):
            pass
        assert refused.value.response.status_code == 404


def test_viewing_needs_the_token_where_everything_is_protected() -> None:
    token = "correct-horse-battery"
    with served(token=Secret(token), protect="everything") as web:
        assert web.http.get("/", headers={"accept": "text/html"}).status_code == 200
        assert web.http.get(f"{UI}/about").json()["needs_token"] is True
        for path in ("ticket", "why", "query"):
            assert web.http.post(f"{UI}/{path}", json={}).status_code == 401
        bearer = {"authorization": f"Bearer {token}"}
        assert web.http.post(f"{UI}/ticket", headers=bearer).status_code == 200


def _texts(part: dict[str, Any]) -> list[list[Any]]:
    return [[row[0], row[4]] for row in part["v"]]


def test_rules_hold_for_the_page() -> None:
    rules = (
        'access_control:{enabled:true,default_permission:"deny",rules:[{id:"r",permission:"allow",'
        'flows:["ingress","egress"],messages:["put","declare_subscriber"],key_exprs:["open/**"]}],'
        'subjects:[{id:"s"}],policies:[{rules:["r"],subjects:["s"]}]}'
    )
    with paged(rules) as (daemon, url), Browser(url) as browser:
        browser.say(want={"id": 1, "kind": "nodes"})
        assert "denied" in browser.until(lambda part: part["w"] == 1)
        browser.say(want={"id": 2, "kind": "rows", "keys": ["open/a", "shut/a"]})
        part = browser.until(lambda part: part["w"] == 2)
        shown = {row[0]: row[4] for row in part["v"]}
        assert shown["shut/a"] == "not allowed"
        assert eventually(lambda: subscribers(daemon.session, daemon, "open/a"))
        assert not subscribers(daemon.session, daemon, "shut/a")  # nothing is fetched for it
        daemon.session.put("open/a", "seen")
        browser.until(lambda part: part["w"] == 2 and ["open/a", "seen"] in _texts(part))
        browser.say(want={"id": 3, "kind": "value", "keys": ["shut/a"]})
        assert "deny" in browser.until(lambda part: part["w"] == 3)["note"]
        denied = httpx.post(f"{url}{UI}/query", json={"selector": "shut/a"}, trust_env=False)
        assert denied.status_code == 403


def test_a_router_that_ends_does_not_wait_for_its_pages() -> None:
    with served() as web:
        browser = Browser(web.rest.url)
        browser.frame()
        web.rest.stop()
        assert browser.closed() in (1001, 1012)
        with pytest.raises(OSError):  # noqa: PT011  # the port is given up
            socket.create_connection(web.address, 1)


def test_a_refusal_is_told_once_in_words() -> None:
    rules = (
        'access_control:{enabled:true,default_permission:"allow",rules:[{id:"r",permission:"deny",'
        'flows:["ingress"],messages:["put"],key_exprs:["shut/**"]}],'
        'subjects:[{id:"s"}],policies:[{rules:["r"],subjects:["s"]}]}'
    )
    with paged(rules) as (daemon, url), client_of(daemon) as client, Browser(url) as browser:
        browser.say(want={"id": 1, "kind": "status"})
        browser.until(lambda part: part["clients"] == 1)
        for _ in range(3):
            client.put("shut/a", "x")
        status = browser.until(lambda part: part["refused"])
        assert [name for name, _ in status["refused"]] == ["put coming in, access control"]
        told = [text for _, mark, text in status["events"] if mark == "refused"]
        assert told == [f"client {str(client.zid())[:4]} refused: put shut/a, rule r, 3 times"]
