"""Subscriptions by server-sent events: bounded, and ended by either side."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import httpx
import pytest
from tests.unit.cli.ends import eventually
from tests.unit.web.rig import EVENTS, closed, served

import elea

PAGE_LEN = 4_096


def events(answer: httpx.Response) -> Iterator[tuple[str, dict[str, object]]]:
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def resident_len() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE_LEN


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_samples_as_events(method: str) -> None:
    with served() as web, web.http.stream(method, "/s/**", headers=EVENTS) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-store"
        found = events(answer)
        stamp = web.session.new_timestamp()
        web.session.put("s/a", "hello", encoding="text/plain", timestamp=stamp)
        web.session.delete("s/b")
        assert next(found) == (
            "PUT",
            {"key": "s/a", "value": "hello", "encoding": "text/plain", "timestamp": str(stamp)},
        )
        name, shown = next(found)
        assert (name, shown["key"], shown["value"]) == ("DELETE", "s/b", None)


def test_a_browser_that_goes_ends_its_subscription() -> None:
    with served() as web:
        with web.subscribe("s/a") as connection:
            assert web.rest.status()["streams"] == 1
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        assert eventually(lambda: web.rest.status()["streams"] == 0)
        assert web.count("elea_rest_streams") == 0
        publisher = web.session.declare_publisher("s/a")
        assert eventually(lambda: not publisher.matching_status.matching)


def test_one_address_does_not_take_all_streams() -> None:
    with served(web_streams_per_address_count=2) as web:
        own = [web.subscribe("a") for _ in range(2)]
        answer = web.http.get("/a", headers=EVENTS)
        assert answer.status_code == 503
        detail = answer.json()["detail"]
        assert detail == (
            "2 subscriptions of 127.0.0.1 are open;"
            " plugins/rest/streams_per_address_count sets how many may be"
        )
        with web.connect("127.0.0.2") as other:
            other.sendall(
                b"GET /a HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
            )
            assert other.recv(100).startswith(b"HTTP/1.1 200")
        for one in own:
            one.close()
        assert eventually(lambda: web.rest.status()["streams"] == 0)


def test_streams_are_counted_and_bounded() -> None:
    with served(web_streams_count=2) as web:
        first, second = web.subscribe("a"), web.subscribe("b")
        answer = web.http.get("/c", headers=EVENTS)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "2 subscriptions are open" in answer.json()["detail"]
        assert web.http.get("/c").status_code == 200
        assert web.count("elea_rest_refusals_total", reason="streams") == 1
        first.close()
        assert eventually(lambda: web.rest.status()["streams"] == 1)
        third = web.subscribe("c")
        for one in (second, third):
            one.close()


def test_a_slow_browser_loses_the_oldest_and_is_told() -> None:
    with served(web_stream_queue_len=64 * 1024) as web:
        with web.subscribe("s/a") as frozen:
            for number in range(4_000):
                web.session.put("s/a", f"{number:05}" + "x" * 4_000, encoding="text/plain")
            web.session.put("s/a", "last", encoding="text/plain")
            text = ""
            while '"last"' not in text:
                text += frozen.recv(1 << 20).decode()
        told = sum(
            json.loads(part.partition("\n")[0])["count"]
            for part in text.split("DROPPED\ndata: ")[1:]
        )
        arrived = text.count("event: PUT")
        assert told > 0
        assert told + arrived == 4_001
        assert web.count("elea_rest_stream_dropped_total") == told
        assert web.count("elea_rest_stream_samples_total") == arrived


def test_sixty_four_frozen_browsers_hold_little_memory() -> None:
    """T54: whatever is published, and others are served meanwhile."""
    with served(web_streams_per_address_count=64) as web:
        frozen = [web.subscribe("s/**") for _ in range(64)]
        assert web.rest.status()["streams"] == 64
        before = resident_len()
        for number in range(1_500):
            web.session.put(f"s/{number}", bytes(8_000))
        assert resident_len() - before < 64 * 1024 * 1024
        assert web.http.get("/s/a").status_code == 200
        for one in frozen:
            one.close()
        assert eventually(lambda: web.rest.status()["streams"] == 0)


def test_one_that_takes_nothing_is_let_go() -> None:
    with served(web_stall_ns=200_000_000) as web:
        with web.subscribe("s/a"):
            assert web.rest.status()["streams"] == 1

            def gone() -> bool:
                web.session.put("s/a", bytes(1_000_000))
                return web.rest.status()["streams"] == 0

            assert eventually(gone)
        assert web.http.get("/health").status_code == 200


def test_streams_end_with_the_service() -> None:
    with served() as web:
        streams = [web.subscribe("s/a") for _ in range(3)]
    for one in streams:
        assert closed(one)
        one.close()


def test_streams_end_with_the_session() -> None:
    with served() as web, web.subscribe("s/a") as stream:
        web.session.close()
        assert eventually(lambda: web.rest.status()["streams"] == 0)
        assert stream.recv(100) == b"0\r\n\r\n"


def test_many_keys_make_no_series() -> None:
    """T57: what strangers make up is in no label."""
    with served() as web:
        for number in range(200):
            web.http.put(f"/k/{number}", content=b"")
            web.http.get(f"/k/{number}?a={number}")
            web.http.get(f"/k/{number}//")
        session: elea.Session = web.session
        for number in range(20_000):
            session.put(f"k/{number}", b"")
        series = [line for line in web.http.get("/metrics").text.splitlines() if line[:1] != "#"]
        assert len(series) <= 500
        assert not any("k/1" in line for line in series)
