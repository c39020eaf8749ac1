"""Which build is in use: a reason is told where a user looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from elea import pure, version
from elea.cli.main import main


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that is not compiled, and not because ELEA_PURE is set."""
    monkeypatch.setattr(version, "COMPILED", False)
    monkeypatch.setattr(pure, "FORCED", False)


@pytest.mark.usefixtures("interpreted")
def test_version_repeats_what_the_build_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reason = tmp_path / "interpreted.txt"
    reason.write_text("no working C compiler (CC=cc)\n", encoding="utf-8")
    monkeypatch.setattr(pure, "_REASON", str(reason))
    assert main(["--version"]) == 0
    printed = capsys.readouterr().out
    assert "compiled: no (when it was installed: no working C compiler (CC=cc); for" in printed
    assert "ELEA_COMPILE=1 pip install --force-reinstall --no-cache-dir" in printed


@pytest.mark.usefixtures("interpreted")
def test_a_build_without_compiling_by_choice_was_told_to_install_a_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = tmp_path / "interpreted.txt"
    reason.write_text("ELEA_COMPILE=0\n", encoding="utf-8")
    monkeypatch.setattr(pure, "_REASON", str(reason))
    told = version.why_interpreted()
    assert told.startswith("when it was installed: ELEA_COMPILE=0; for speed, install elea again:")
    assert "ELEA_COMPILE=1 pip install --force-reinstall --no-cache-dir" in told
    assert "compiler" not in told


@pytest.mark.usefixtures("interpreted")
def test_without_a_reason_the_way_out_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pure, "_REASON", str(tmp_path / "missing"))
    assert version.why_interpreted().startswith("for speed, install a C compiler")


def test_a_build_that_is_switched_off_is_not_to_be_compiled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pure, "FORCED", True)
    assert version.why_interpreted() == "ELEA_PURE is set; unset it for speed"


@pytest.mark.usefixtures("interpreted")
def test_a_measurement_says_that_it_is_of_an_interpreted_build(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["throughput", "send", "-e", "tcp/127.0.0.1:1", "--timeout", "0.1", "--count", "1"])
    assert "elea: interpreted: " in capsys.readouterr().err
