from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Hub
from tests.unit.session.small_recorder import SmallRecorder, stored

import elea
from elea.cli.main import main
from elea.store.log.reader import LogReader


def test_a_value_arrives_with_all_that_was_asked_for(hub: Hub) -> None:
    subscriber = hub.session.declare_subscriber("room/*")
    options = ["--encoding", "text/plain", "--attachment", "why", "--priority", "real-time"]
    options += ["--congestion-control", "block", "--express"]
    assert main(["put", "room/1", "21.5 °C", *options, *hub.connect]) == 0
    sample = subscriber.recv(timeout=5)
    assert str(sample.key_expr) == "room/1"
    assert sample.payload == "21.5 °C"
    assert sample.encoding == elea.Encoding.TEXT_PLAIN
    assert sample.attachment == b"why"
    assert sample.priority is elea.Priority.REAL_TIME
    assert sample.congestion_control is elea.CongestionControl.BLOCK
    assert sample.express


def test_payloads_from_standard_input_and_from_a_file(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    octets = bytes(range(256)) * 300
    (tmp_path / "payload").write_bytes(octets)
    subscriber = hub.session.declare_subscriber("a")
    assert main(["put", "a", "--file", str(tmp_path / "payload"), *hub.connect]) == 0
    assert subscriber.recv(timeout=5).payload == octets
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(octets), encoding="ascii"))
    assert main(["put", "a", "-", *hub.connect]) == 0
    assert subscriber.recv(timeout=5).payload == octets


def test_success_is_silent_for_people_and_one_object_for_programs(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["put", "a", "x", *hub.connect]) == 0
    assert capsys.readouterr() == ("", "")
    assert main(["put", "a", "x", "--json", *hub.connect]) == 0
    out = capsys.readouterr().out
    assert json.loads(out) == {"done": "put", "key_expr": "a", "octets": 1}


@pytest.mark.parametrize("arguments", [[], ["x", "--file", "y"]])
def test_exactly_one_payload(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["put", "a", *arguments]) == 2
    assert "usage: elea put" in capsys.readouterr().err


def test_a_bad_key_and_a_missing_file_are_told(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["put", "a//b", "x", *hub.connect]) == 2
    assert main(["put", "a", "--file", "/nonexistent/file", *hub.connect]) == 1
    bad, missing = capsys.readouterr().err.splitlines()
    assert "'a//b' is refused at offset 2" in bad
    assert missing == "elea: /nonexistent/file: No such file or directory"


def test_an_acknowledged_put_says_where_it_is(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = SmallRecorder(hub.session, tmp_path / "log")
    assert main(["put", "fleet/1", "a", "--ack", *hub.connect]) == 0
    assert capsys.readouterr().out == "fleet/1 stored in fleet: shard 0, row 0\n"
    assert main(["put", "fleet/1", "b", "--ack", "--json", *hub.connect]) == 0
    said = json.loads(capsys.readouterr().out)
    log = str(LogReader(tmp_path / "log").log_id)
    assert said == {
        "done": "put",
        "key_expr": "fleet/1",
        "octets": 1,
        "log": log,
        "name": "fleet",
        "shard": 0,
        "seq": 1,
        "duplicate": False,
        "spooled": False,
    }
    recorder.refusal = "full"
    assert main(["put", "fleet/1", "c", "--ack", *hub.connect]) == 1
    assert "full: as the test wants" in capsys.readouterr().err
    assert main(["put", "ship/1", "c", "--ack", "--timeout", "5", *hub.connect]) == 1
    assert "nobody records 'ship/1'" in capsys.readouterr().err
    recorder.close()


def test_a_spool_keeps_what_a_later_run_forwards(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("elea.cli.acks.FORWARD_S", 0.0)
    spool = ["--spool", str(tmp_path / "spool")]
    assert main(["put", "fleet/1", "a", *spool, *hub.connect]) == 0
    out, err = capsys.readouterr()
    assert out == "fleet/1 waits in the spool: shard 0, row 0\n"
    assert "1 wait for a recorder (" in err
    assert "octets, the oldest for 0 s); a later run forwards them" in err
    recorder = SmallRecorder(hub.session, tmp_path / "log")
    monkeypatch.setattr("elea.cli.acks.FORWARD_S", 60.0)
    options = ["--count", "3", "--interval", "0"]
    assert main(["pub", "fleet/1", "b", *options, *spool, *hub.connect]) == 0
    assert main(["pub", "fleet/1", "c", *options, "--ack", *hub.connect]) == 0
    assert [row.payload for row in stored(tmp_path / "log")] == [*"abbbccc"]
    recorder.close()
    assert main(["pub", "fleet/1", "d", "--count", "1", "--ack", *hub.connect]) == 1
