from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import Running, eventually

import elea


def ask(
    hub: Hub, selector: str, key: str, *, payload: str | None = None, attachment: str | None = None
) -> list[elea.Reply]:
    """The replies, once somebody answers for `key`."""
    querier = hub.session.declare_querier(key)
    assert eventually(lambda: querier.matching_status.matching)
    return list(hub.session.get(selector, timeout=10, payload=payload, attachment=attachment))


def test_queries_are_printed_and_answered(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--encoding", "text/plain", "--attachment", "n", "--complete", "--count", "1"]
    command = Running("queryable", "room/1", "warm", *options, *hub.connect)
    (reply,) = ask(hub, "room/*?x=1", "room/1", payload="why", attachment="b")
    assert reply.ok is not None
    assert str(reply.ok.key_expr) == "room/1"
    assert reply.ok.payload == "warm"
    assert reply.ok.attachment == b"n"
    assert reply.ok.encoding == elea.Encoding.TEXT_PLAIN
    assert command.code == 0
    out, err = capsys.readouterr()
    assert out == "QUERY room/*?x=1: why\n  attachment: b\n"
    assert err.splitlines()[-1].startswith("elea: 1 query in ")


def test_an_expression_answers_with_the_key_that_is_asked_for(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    command = Running("queryable", "room/*", "warm", "--count", "2", "--json", *hub.connect)
    (reply,) = ask(hub, "room/7", "room/7")
    assert reply.ok is not None
    assert str(reply.ok.key_expr) == "room/7"
    (reply,) = ask(hub, "room/**", "room/7")
    assert reply.err is not None
    assert "single keys only" in reply.err.payload.to_string()
    assert command.code == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        {"key_expr": "room/7", "parameters": ""},
        {"key_expr": "room/**", "parameters": ""},
    ]


def test_an_error_can_be_the_answer(hub: Hub) -> None:
    command = Running("queryable", "a", "broken", "--error", "--count", "1", *hub.connect)
    (reply,) = ask(hub, "a", "a")
    assert reply.err is not None
    assert reply.err.payload == "broken"
    assert command.code == 0
