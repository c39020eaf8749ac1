"""`elea replay` beside a second session."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.cli.ends import Running, eventually
from tests.unit.store.samples import log_of, row

import elea
from elea.cli.main import main


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return log_of(tmp_path, [row(f"fleet/{at % 2}", at * 1_000, b"%d" % at) for at in range(20)])


def test_a_log_is_published(hub: Hub, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    samples: list[elea.Sample] = []
    hub.session.declare_subscriber("**", samples.append)
    options = ["--speed", "0", "--from", "start+5s", "--rewrite", "fleet/{x}=sim/{x}", "--json"]
    assert main(["replay", str(log), "fleet/*", *options, *hub.connect]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["published"] == 15
    assert eventually(lambda: len(samples) == 15)
    assert str(samples[0].key_expr) == "sim/1"
    now = ["--speed", "0", "--timestamps", "now", "--to", "start"]
    assert main(["replay", str(log), *now, *hub.connect]) == 0
    assert "1 published, 0 dropped, 0 late, 0 lost" in capsys.readouterr().err
    assert eventually(lambda: len(samples) == 16)
    assert samples[15].timestamp is not None
    assert samples[14].timestamp is not None
    assert samples[15].timestamp > samples[14].timestamp


def test_control(hub: Hub, log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    running = Running("replay", str(log), "--paused", "--id", "drive", *hub.connect)

    def told(*command: str) -> int:
        return main(["replay", "--control", "drive", *command, *hub.connect])

    assert eventually(lambda: told("status", "--json") == 0)
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["state"] == "paused"
    assert told("seek", "start+15s") == 0
    assert "position: 2023-11-14T22:13:35" in capsys.readouterr().out
    assert told("speed", "-1") == 1
    assert "the replay refuses: no speed: saw -1.0" in capsys.readouterr().err
    assert main(["replay", "--control", "other", *hub.connect]) == 1
    assert "no replay 'other' answers; running are: drive" in capsys.readouterr().err
    assert main(["replay", str(log), "--id", "drive", *hub.connect]) == 1
    assert "a replay 'drive' runs already; choose another --id" in capsys.readouterr().err
    assert told("speed", "0") == 0
    assert told("resume") == 0
    assert running.code == 0
    assert "5 published" in capsys.readouterr().err


def test_stop(hub: Hub, log: Path) -> None:
    running = Running("replay", str(log), "--loop", "--id", "x", "--speed", "0.01", *hub.connect)
    assert eventually(lambda: main(["replay", "--control", "x", "stop", *hub.connect]) == 0)
    assert running.code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "complaint"),
    [
        ([], 2, "no log: give the directory of one"),
        (["--control", "x", "jump"], 2, "saw 'jump'; legal are status, pause"),
        (["--control", "x", "seek"], 2, "saw 'seek'; legal are"),
        (["DIR", "--kinds", "put,gap"], 2, "saw 'gap'; legal are put, delete, token"),
        (["DIR", "--speed", "-1"], 2, "legal is 0 (as fast as possible) or more"),
        (["DIR", "--rewrite", "a"], 2, "saw 0 `=`"),
        (["DIR", "--from", "noon"], 1, "legal are 2024-07-01T13:51:12Z"),
        (["DIR/none"], 1, "no log there"),
    ],
)
def test_wrong_usage(
    arguments: list[str],
    code: int,
    complaint: str,
    hub: Hub,
    log: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = [one.replace("DIR", str(log)) for one in arguments]
    assert main(["replay", *words, *hub.connect]) == code
    assert complaint in capsys.readouterr().err


def test_nobody_to_publish_to(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = ["--mode", "peer", "--cfg", "scouting/multicast/enabled:false"]
    assert main(["replay", str(log), *alone]) == 1
    assert "connected to no node" in capsys.readouterr().err
