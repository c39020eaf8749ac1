"""`elea spark` without a Spark that runs; tests/spark has the rest."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.spark.test_java import a_java

from elea.cli.main import main


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {record["check"]: record for record in records}


def test_the_doctor_tells_what_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "java", "25.0.2")))
    assert main(["spark", "doctor", "--no-start", "--json"]) == 0
    checks = told(capsys)
    assert list(checks) == ["spark", "java", "workers", "pandas", "cache", "start"]
    assert "Java 25.0.2" in checks["java"]["found"]
    assert "without jdk.incubator.vector" in checks["java"]["found"]
    assert "another collector" in checks["java"]["found"]
    assert checks["start"]["advice"].startswith("elea spark prepare makes one")


def test_the_doctor_tells_that_there_is_no_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert main(["spark", "doctor", "--json"]) == 1
    java = told(capsys)["java"]
    assert java["status"] == "problem"
    assert "pip install 'elea[jdk]'" in java["found"]


def test_the_doctor_tells_what_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "java")))
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert main(["spark", "doctor", "--no-start", "--json"]) == 1
    assert told(capsys)["cache"]["advice"] == "set XDG_CACHE_HOME to another directory"


def test_a_java_that_cannot_have_a_cache_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "java", "21.0.1")))
    assert main(["spark", "prepare"]) == 1
    assert "cannot have a start-up cache" in capsys.readouterr().err


def test_a_cache_that_was_not_made_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = a_java(tmp_path / "java", "25.0.3")
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'no such thing' >&2; exit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert main(["spark", "prepare"]) == 1
    assert "no start-up cache was made" in capsys.readouterr().err
    assert not list((tmp_path / "cache").rglob("*.aot"))


@pytest.mark.parametrize("verb", [["doctor"], ["doctor", "--no-start"], ["prepare"], ["env"]])
def test_without_the_extra_the_doctor_ended_in_a_traceback(verb: list[str]) -> None:
    hidden = "import sys\nfor name in ('pyspark', 'pyarrow', 'pandas'): sys.modules[name] = None\n"
    find = "import importlib.util as u\nreal = u.find_spec\n"
    find += "u.find_spec = lambda name, *_: None if name in sys.modules else real(name)\n"
    run = f"{hidden}{find}from elea.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", run, "spark", *verb], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "pip install 'elea[spark]'" in done.stdout + done.stderr
