"""REST of an Elea router, with Eclipse clients behind it. Shapes are those of Eclipse's plugin."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
import zenoh
from tests.interop.ends import ECLIPSE, WAIT_S, _replies, eventually, session
from tests.unit.daemon.rig import options, running
from tests.unit.web.rig import EVENTS

from elea.daemon.daemon import Daemon
from elea.web.service import Rest, start


@contextmanager
def router() -> Iterator[tuple[httpx.Client, Any, Daemon]]:
    """HTTP to an Elea router, an Eclipse client of it, and the router."""
    with running(options(rest_http_port="0"), rest=start) as daemon:
        [one] = daemon.services
        assert isinstance(one.service, Rest)
        with (
            httpx.Client(base_url=one.service.url, timeout=WAIT_S, trust_env=False) as http,
            session(ECLIPSE, "client", connect=daemon.locators()[0]) as client,
        ):
            yield http, client, daemon


def declared(http: httpx.Client, kind: str, key: str) -> bool:
    """Whether the router knows of a declaration."""
    return eventually(lambda: http.get(f"/@/local/router/{kind}/{key}").json())


def received(samples: queue.SimpleQueue[Any]) -> tuple[str, str, bytes, str]:
    sample = samples.get(timeout=WAIT_S)
    kind = str(sample.kind).rpartition(".")[2]
    return kind, str(sample.key_expr), sample.payload.to_bytes(), str(sample.encoding)


@pytest.mark.line("R173")
def test_an_eclipse_subscriber_gets_what_is_put_and_deleted() -> None:
    with router() as (http, client, _):
        samples: queue.SimpleQueue[Any] = queue.SimpleQueue()
        subscriber = client.declare_subscriber("demo/**", samples.put)
        assert declared(http, "subscriber", "demo/**")
        text = {"content-type": "text/plain"}
        assert http.put("/demo/a", content=b"one", headers=text).status_code == 200
        assert received(samples) == ("PUT", "demo/a", b"one", "text/plain")
        assert http.patch("/demo/%C3%A9", content=b"\x00").status_code == 200
        assert received(samples) == ("PUT", "demo/é", b"\x00", "zenoh/bytes")
        assert http.delete("/demo/a").status_code == 200
        assert received(samples)[:3] == ("DELETE", "demo/a", b"")
        subscriber.undeclare()


@pytest.mark.line("R173")
def test_an_eclipse_queryable_is_asked() -> None:
    seen: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def reply(query: Any) -> None:
        payload = None if query.payload is None else query.payload.to_bytes()
        seen.put((str(query.parameters), payload, str(query.encoding)))
        if "fail" in str(query.parameters):
            query.reply_err("no", encoding=zenoh.Encoding.TEXT_PLAIN)
        elif "json" in str(query.parameters):
            query.reply("demo/q", '{"x": [1]}', encoding=zenoh.Encoding.APPLICATION_JSON)
        else:
            query.reply("demo/q", b"\x01\x02")

    with router() as (http, client, _):
        queryable = client.declare_queryable("demo/q", reply)
        assert declared(http, "queryable", "demo/q")
        [sample] = http.get("/demo/*?json;a=b").json()
        assert seen.get(timeout=WAIT_S) == ("json;a=b", None, "None")
        assert (sample["key"], sample["value"]) == ("demo/q", {"x": [1]})
        assert list(sample) == ["key", "value", "encoding", "timestamp"]
        [sample] = http.get("/demo/q").json()
        assert (sample["value"], sample["encoding"]) == ("AQI=", "zenoh/bytes")
        assert http.get("/demo/q?_raw").content == b"\x01\x02"
        [error] = http.get("/demo/q?fail").json()
        assert (error["key"], error["value"], error["timestamp"]) == ("ERROR", "no", None)
        while not seen.empty():
            seen.get()
        http.post("/demo/q", content=b"body", headers={"content-type": "text/plain"})
        assert seen.get(timeout=WAIT_S) == ("", b"body", "text/plain")
        queryable.undeclare()


@pytest.mark.line("R173")
def test_events_tell_what_an_eclipse_client_publishes() -> None:
    with router() as (http, client, _), http.stream("GET", "/demo/**", headers=EVENTS) as answer:
        lines = answer.iter_lines()
        stamp = client.new_timestamp()
        client.put("demo/e", '{"x":1}', encoding="application/json", timestamp=stamp)
        assert next(lines) == "event: PUT"
        assert json.loads(next(lines).removeprefix("data: ")) == {
            "key": "demo/e",
            "value": {"x": 1},
            "encoding": "application/json",
            "timestamp": str(stamp),
        }
        assert next(lines) == ""
        client.delete("demo/e")
        assert next(lines) == "event: DELETE"


@pytest.mark.line("R173")
def test_an_eclipse_client_finds_the_plugin_in_the_admin_space() -> None:
    with router() as (http, client, daemon):
        root = f"@/{daemon.session.zid()}/router"
        port = http.base_url.port
        replies = _replies(client, f"{root}/status/plugins/rest/*")
        found = {str(one.ok.key_expr): one.ok.payload.to_string() for one in replies}
        place = json.loads(found[f"{root}/status/plugins/rest/port"])
        assert place["http_port"] == f"127.0.0.1:{port}"
        assert json.loads(found[f"{root}/status/plugins/rest/version"]).startswith("v")
        [node] = http.get("/@/local/router").json()
        assert node["key"] == root
        assert "rest" in node["value"]["plugins"]
