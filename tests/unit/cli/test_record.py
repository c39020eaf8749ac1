"""`elea record`: from the network to a log, with an account of it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyarrow import flight
from tests.ports import free_port
from tests.unit.cli.ends import WAIT_S, Running, eventually, free_endpoint

import elea
from elea.cli.main import main
from elea.store.log.reader import LogReader

# Who is started in the background by a shell ignores Ctrl-C, and so do its children.
PROGRAM = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "from elea.cli.main import main; raise SystemExit(main())"
)


def alone(endpoint: str) -> dict[str, object]:
    return {"connect": {"endpoints": [endpoint]}, "mode": "client"}


def rows_count(directory: Path) -> int:
    try:
        return LogReader(directory).bounds(0).end
    except elea.ZError:
        return 0


def test_it_ends_after_so_many_and_says_what_it_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    endpoint = free_endpoint()
    directory = tmp_path / "log"
    command = Running(
        *("record", "k/**", "--to", str(directory), "--count", "3", "--duration", "60", "--json"),
        *("--listen", endpoint, "--cfg", "scouting/multicast/enabled:false"),
    )
    assert eventually(lambda: directory.exists())
    with elea.open(alone(endpoint)) as session:
        publisher = session.declare_publisher("k/a")
        assert eventually(lambda: publisher.matching_status.matching)
        for number in range(3):
            publisher.put(str(number))
        assert command.code == 0
    told, text = capsys.readouterr()
    last = json.loads(told.splitlines()[-1])
    assert (last["rows"], last["dropped"], last["gaps"], last["ended"]) == (3, 0, 0, True)
    assert last["octets"] > 0
    assert "3 rows in" in text
    assert rows_count(directory) == 3


def test_time_can_be_over_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(
        [
            *("record", "k/{robot}/**", "--name", "{robot}", "--to", str(tmp_path)),
            *("--count", "3", "--duration", "0.2", "--cfg", "scouting/multicast/enabled:false"),
            *("--shards", "2", "--quota", "1000000", "--retain-len", "1000", "--retain-age", "10"),
            *("--retain-consumed", "--liveliness", "--history", "--storages", "--no-recovery"),
        ]
    )
    assert code == 1
    assert "0 rows in" in capsys.readouterr().err


def test_key_expressions_that_meet_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["record", "k/**", "k/a", "--to", str(tmp_path)]) == 2
    assert "keys in common" in capsys.readouterr().err


def test_a_log_that_is_written_to_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "log").write_text("")
    quiet = ["--cfg", "scouting/multicast/enabled:false"]
    assert main(["record", "k/**", "--to", str(tmp_path / "log"), *quiet]) == 1
    assert "log" in capsys.readouterr().err


def test_rows_are_served_over_flight(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    endpoint, location = free_endpoint(), f"grpc://127.0.0.1:{free_port()}"
    command = Running(
        *("record", "k/**", "--to", str(tmp_path / "log"), "--count", "2", "--duration", "60"),
        *("--listen", endpoint, "--cfg", "scouting/multicast/enabled:false"),
        *("--flight", location),
    )
    assert eventually(lambda: (tmp_path / "log").exists())
    with elea.open(alone(endpoint)) as session:
        tokens = session.liveliness()
        assert eventually(lambda: list(tokens.get("@elea/log/k", timeout=WAIT_S)))
        [reply] = session.get("@elea/log/k/put/k/a", payload=b"1", timeout=WAIT_S)
        assert reply.ok is not None
        with flight.FlightClient(location) as client:
            [info] = client.list_flights()
            table = client.do_get(info.endpoints[0].ticket).read_all()
        assert table.column("payload").to_pylist() == [b"1"]
        [reply] = session.get("@elea/log/k/put/k/a", payload=b"2", timeout=WAIT_S)
        assert command.code == 0
    assert f"read at {location}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--flight", "127.0.0.1:8815"], "--flight: expected grpc://HOST:PORT"),
        (["--flight", "grpc://0.0.0.0:1"], "--flight: grpc://0.0.0.0:1 is open to other hosts"),
        (["--flight", "grpc+tls://127.0.0.1:1"], "--flight-tls-certificate: grpc+tls needs"),
        (["--flight-token-file", "/no"], "--flight: expected grpc://HOST:PORT"),
        (["--flight", "grpc://[::1]:1", "--flight-token-file", "/no"], "--flight-token-file: /no"),
    ],
)
def test_a_flight_that_is_not_legal_is_refused_before_anything_is_opened(
    tmp_path: Path, options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["record", "k/**", "--to", str(tmp_path / "log"), *options]) == 1
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_and_everything_is_kept(tmp_path: Path, number: signal.Signals) -> None:
    endpoint = free_endpoint()
    child = subprocess.Popen(
        [
            *(
                sys.executable,
                "-m",
                "elea.cli.main",
                "record",
                "k/**",
                "--to",
                str(tmp_path / "log"),
            ),
            *("--listen", endpoint, "--cfg", "scouting/multicast/enabled:false"),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # not as under nohup
    )
    assert child.stderr is not None
    try:
        assert any("records k/**" in line for line in child.stderr)
        with elea.open(alone(endpoint)) as session:
            publisher = session.declare_publisher("k/a")
            assert eventually(lambda: publisher.matching_status.matching)
            publisher.put(b"1")
            [reply] = session.get("@elea/log/k/put/k/b", payload=b"2", timeout=WAIT_S)
            assert reply.ok is not None
            publisher.put(b"3")
            [reply] = session.get("@elea/log/k/put/k/*", payload=b"4", timeout=WAIT_S)
            assert reply.err is not None  # and so it was received
            child.send_signal(number)
            assert child.wait(WAIT_S) == 128 + number
    finally:
        child.kill()
        child.wait()
        rest = child.stderr.read()
        child.stderr.close()
    assert "3 rows in" in rest
    assert rows_count(tmp_path / "log") == 3


def test_samples_dropped_for_want_of_room_ended_with_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk and a quota are handled alike: told, retried, and a failure at the end."""
    endpoint, directory = free_endpoint(), tmp_path / "log"
    command = Running(
        *("record", "k/**", "--to", str(directory), "--quota", "4096", "--count", "1", "--json"),
        *("--listen", endpoint, "--cfg", "scouting/multicast/enabled:false"),
    )
    assert eventually(lambda: directory.exists())
    with elea.open(alone(endpoint)) as session:
        publisher = session.declare_publisher("k/a")
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put(bytes(8192))
        # Noted in the log before the next sample comes: that row is about the loss, and no sample.
        assert eventually(lambda: any(file.stat().st_size for file in directory.rglob("*.idx")))
        publisher.put(b"small")
        assert command.code == 1
    told, text = capsys.readouterr()
    summary = json.loads(told.splitlines()[-1])
    assert (summary["rows"], summary["dropped"]) == (1, 1)
    assert "1 row in" in text
    assert "1 dropped" in text
