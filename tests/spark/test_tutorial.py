"""The commands and programs of the tutorial about pipelines do what it says."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.interop.ends import eventually
from tests.unit.cli.console import matches, process, read_page, run_until_shown
from tests.unit.cli.ends import Running

import elea
from elea.cli.main import main
from elea.errors import LinkError
from elea.spark.pipelines import state

PAGE = "tutorial/first-pipeline.md"
WAIT_S = 120.0  # at most: the machine may be busy with something else


def is_there(verb: str, *options: str) -> bool:
    """Whether a recorder answers, or somebody subscribes to results, at an endpoint."""
    option = "--listen" if verb == "record" else "--connect"
    endpoint = options[options.index(option) + 1]
    try:
        with elea.open({"mode": "client", "connect": {"endpoints": [endpoint]}}) as session:
            if verb == "record":
                return any(reply.ok for reply in session.get("@elea/log/*/info", timeout=2.0))
            publisher = session.declare_publisher("gold/x")
            return eventually(lambda: publisher.matching_status.matching, WAIT_S)
    except LinkError:  # it does not listen yet
        return False


def runs() -> bool:
    found = state.read(Path("lake") / "_elea")
    return found is not None and found.is_alive


def test_the_tutorial(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # it is that of all tests
    monkeypatch.chdir(tmp_path)
    page = read_page(PAGE)
    (tmp_path / "pipeline.yaml").write_text(page.files["yaml"], encoding="utf-8")
    more = "  newest: {from: imu, latest: {by: [robot], columns: [temp]}}\n"
    (tmp_path / "other.yaml").write_text(page.files["yaml"] + more, encoding="utf-8")
    output: list[str] = []
    running: list[Running] = []
    with ExitStack() as stack:
        for command in page.commands:
            match command.arguments:
                case ["pipeline", "run", *_] if command.background:
                    running.append(Running(*command.arguments))
                    assert eventually(runs, WAIT_S)
                case ["pipeline", "status", *_]:
                    # What it publishes shows that it has the last sample.
                    assert eventually(lambda: matches(page.printed, "\n".join(output)), WAIT_S)
                    run_until_shown(command, capsys)
                case arguments if command.background:
                    stack.enter_context(process(command, output))
                    assert eventually(partial(is_there, *arguments), WAIT_S), command
                case _ if command.shown:
                    assert main(command.arguments) == 0
                    printed = capsys.readouterr().out
                    assert matches(command.shown, printed), printed
                case _:
                    assert main(command.arguments) == 0, command
        assert [one.code for one in running] == [0]
    exec(compile(page.files["python"], PAGE, "exec"), {})
    shown = capsys.readouterr().out
    assert "fleet/r2/imu" in shown  # in Spark
    assert "'reason'" in shown
