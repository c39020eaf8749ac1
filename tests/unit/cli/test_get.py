from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Hub

import elea
from elea.cli.main import main


def test_replies_are_printed(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[elea.Query] = []

    def answer(query: elea.Query) -> None:
        seen.append(query)
        query.reply("room/1", '{"t": 21}', encoding="application/json")
        query.drop()

    queryable = hub.session.declare_queryable("room/*", answer)
    assert main(["get", "room/1?unit=C", *hub.connect]) == 0
    out, err = capsys.readouterr()
    assert out == 'PUT room/1 [application/json]:\n    {\n      "t": 21\n    }\n'
    assert err == ""
    queryable.undeclare()


def test_what_is_asked_travels(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    def answer(query: elea.Query) -> None:
        with query:
            assert query.payload is not None
            assert query.attachment is not None
            words = [str(query.parameters), str(query.payload), str(query.encoding)]
            words += [str(query.attachment), query.accepts_replies().name]
            query.reply("other", " ".join(words))

    queryable = hub.session.declare_queryable("a", answer)
    options = ["--encoding", "text/plain", "--attachment", "why", "--target", "all", "--any-key"]
    options += ["--consolidation", "none", "--timeout", "5", "--json"]
    assert main(["get", "a?x=1", "body", *options, *hub.connect]) == 0
    line = json.loads(capsys.readouterr().out)
    assert line["key_expr"] == "other"
    assert line["payload"] == "x=1;_anyke body text/plain why ANY"
    assert line["replier_id"]["zid"] == str(hub.session.zid())
    queryable.undeclare()


def test_an_error_reply_is_printed_and_is_the_exit_code(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(query: elea.Query) -> None:
        with query:
            query.reply_err("no \x1b[2J", encoding="text/plain")

    queryable = hub.session.declare_queryable("a", refuse)
    assert main(["get", "a", *hub.connect]) == 1
    assert capsys.readouterr().out == "ERROR [text/plain]: no \\x1b[2J\n"
    assert main(["get", "a", "--json", *hub.connect]) == 1
    line = json.loads(capsys.readouterr().out)
    assert line["error"] == {"payload": "no \x1b[2J", "encoding": "text/plain"}
    queryable.undeclare()


def test_no_reply_is_told(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["get", "nobody/there", *hub.connect]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert "no reply" in err
