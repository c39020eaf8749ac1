"""The files that the demo runs are those of the examples."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.meta.tree import ROOT

from elea.daemon.effective import Effective, Options
from elea.demo import files


@pytest.mark.parametrize("name", files.NAMES)
def test_the_examples_are_what_is_run(name: str) -> None:
    example = ROOT / "examples" / "fleet" / name
    assert example.read_text(encoding="utf-8") == files.text(name)


def test_a_run_without_dds_bridges_none(tmp_path: Path) -> None:
    files.lay_out(tmp_path)
    config = Effective.of(Options(config=str(tmp_path / files.ROUTER))).config
    assert "dds" not in config.get("plugins")  # type: ignore[operator]
    files.lay_out(tmp_path, domain=97)
    config = Effective.of(Options(config=str(tmp_path / files.ROUTER))).config
    assert config.get("plugins")["dds"]["domain"] == 97  # type: ignore[index, call-overload]


def test_files_are_laid_out_for_an_endpoint(tmp_path: Path) -> None:
    files.lay_out(tmp_path, "tcp/127.0.0.1:17777", "udp/127.0.0.1:17778")
    assert "connect: tcp/127.0.0.1:17777" in (tmp_path / files.PIPELINE).read_text()
    config = Effective.of(Options(config=str(tmp_path / files.ROUTER))).config
    assert [str(one) for group in config.endpoints("listen") for one in group] == [
        "tcp/127.0.0.1:17777"
    ]
    assert config.get("plugins")["xrce"]["listen"] == ["udp/127.0.0.1:17778"]  # type: ignore[index, call-overload]
