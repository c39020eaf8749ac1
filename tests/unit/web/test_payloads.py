"""Samples as JSON, events and files: shaped as Eclipse Zenoh's, and harmless."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from elea.encoding import NAMES, Encoding
from elea.web.payloads import BINARY, INERT, Entry


def shown(payload: bytes, encoding: str) -> Any:
    entry = Entry("PUT", "a/b", payload, Encoding(encoding), "1/2")
    found = json.loads(entry.as_json())
    assert list(found) == ["key", "value", "encoding", "timestamp"]
    assert (found["key"], found["encoding"], found["timestamp"]) == ("a/b", encoding, "1/2")
    return found["value"]


def base64_of(payload: bytes) -> str:
    return base64.b64encode(payload).decode()


@pytest.mark.parametrize("encoding", ["application/json", "text/json", "text/json5"])
def test_json_is_shown_as_it_is(encoding: str) -> None:
    assert shown(b'{"x": [1, null, "\\u00e9"]}', encoding) == {"x": [1, None, "é"]}


@pytest.mark.parametrize("encoding", ["text/plain", "zenoh/string"])
def test_text_is_shown_as_text(encoding: str) -> None:
    assert shown("é".encode(), encoding) == "é"
    assert shown(b"\xff", encoding) == "/w=="


@pytest.mark.parametrize("encoding", ["zenoh/bytes", "text/plain;utf-8", "application/json;x", "x"])
def test_the_rest_is_base64(encoding: str) -> None:
    assert shown(b"[1]", encoding) == "WzFd"
    assert shown(b"", encoding) is None


@pytest.mark.parametrize(
    "payload",
    [
        b"{",
        b"NaN",
        b"[Infinity]",
        b"1e999",
        b"\xff",
        b'"\\ud800"',
        b"[" * 100_000,
        b"[" * 20_000 + b"]" * 20_000,
        b"9" * 5_000,
    ],
    ids=lambda payload: payload[:12].decode("latin-1"),
)
def test_what_is_said_to_be_json_and_is_not(payload: bytes) -> None:
    assert shown(payload, "application/json") == base64_of(payload)


def test_an_event_is_one_event() -> None:
    entry = Entry("PUT", "k", b"a\n\nevent: DELETE\r\ndata: x", Encoding("text/plain"), None)
    event = entry.as_event()
    assert event.startswith(b"event: PUT\ndata: {")
    assert event.endswith(b"}\n\n")
    assert event.count(b"\n") == 3
    assert b"\r" not in event


def test_a_list_holds_text_alone() -> None:
    entry = Entry("PUT", "<b>", b"<script>alert(1)</script>&\xff", Encoding("text/html"), None)
    assert entry.as_html().decode() == (
        "<dt>&lt;b&gt;</dt>\n<dd>&lt;script&gt;alert(1)&lt;/script&gt;&amp;\ufffd</dd>\n"
    )


@pytest.mark.parametrize(
    "encoding",
    [
        *(name for name in NAMES if name not in INERT),
        *(
            "image/svg+xml",
            "TEXT/HTML",
            " text/html",
            "text/html;charset=utf-7",
            "x\r\nSet-Cookie: a",
        ),
        *("application/pdf", "multipart/x-mixed-replace", "text/plain\x00", "text/plain;\u0130"),
    ],
)
def test_octets_that_could_be_active_are_told_as_octets(encoding: str) -> None:
    headers = Entry("PUT", "a", b"<script>", Encoding(encoding), None).raw_headers()
    assert headers["content-type"] == BINARY
    assert headers["content-disposition"] == "attachment"
    assert headers["x-zenoh-encoding"].isascii()
    assert headers["x-zenoh-encoding"].isprintable()


@pytest.mark.parametrize("encoding", ["text/plain", "image/png", "application/json;schema"])
def test_inert_types_are_told(encoding: str) -> None:
    headers = Entry("PUT", "a", b"", Encoding(encoding), None).raw_headers()
    assert headers["content-type"] == encoding
    assert headers["x-zenoh-encoding"] == encoding


def test_nothing_inert_is_run_by_browsers() -> None:
    active = ("html", "xml", "script", "svg", "css", "pdf", "markdown", "jwt")
    assert [name for name in INERT if any(one in name for one in active)] == []
