from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Hub

import elea
from elea.cli.main import main


def test_the_question_is_asked_again_and_again(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(("1", "2", "3"))

    def answer(query: elea.Query) -> None:
        with query:
            query.reply("a", f"{query.parameters} {next(answers)}")

    queryable = hub.session.declare_queryable("a", answer)
    options = ["--count", "3", "--interval", "0", "--timeout", "10", "--json"]
    assert main(["querier", "a?x=1", *options, *hub.connect]) == 0
    out, err = capsys.readouterr()
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["payload"] for line in lines] == ["x=1 1", "x=1 2", "x=1 3"]
    assert "3 questions, 3 replies, 0 errors" in err
    queryable.undeclare()


def test_an_error_reply_is_the_exit_code(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(query: elea.Query) -> None:
        with query:
            query.reply_err("no")

    queryable = hub.session.declare_queryable("a", refuse)
    assert main(["querier", "a", "--count", "1", *hub.connect]) == 1
    out, err = capsys.readouterr()
    assert out == "ERROR: no\n"
    assert "1 question, 0 replies, 1 error" in err
    queryable.undeclare()
