"""The service `recorder` in a daemon: configured, asked, changed; and its section."""

from __future__ import annotations

import errno
import json
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from pyarrow import flight
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.daemon.rig import ask, client_of, options, read, root_of, running

from elea.daemon.services import installed
from elea.errors import ConfigError
from elea.store.log import writer
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.recorder import service
from elea.store.recorder.section import read as read_section
from elea.store.recorder.service import RecorderService


def section(directory: Path, **recordings: Any) -> str:
    return "plugins/recorder:" + json.dumps({"directory": str(directory), "recordings": recordings})


def test_it_is_built_in() -> None:
    found = installed("recorder")
    assert found is not None
    assert found.load() is RecorderService


def test_a_router_records_and_takes_changes(tmp_path: Path) -> None:
    one = {"key_exprs": "k/**", "low_water_percent": 0}
    chosen = options(section(tmp_path, a=one), adminspace_permissions="rw")
    with running(chosen, recorder=RecorderService) as daemon, client_of(daemon) as client:
        status = f"{root_of(daemon)}/status/plugins/recorder/recordings"
        place = f"{root_of(daemon)}/config/plugins/recorder/recordings"
        [reply] = client.get("@elea/log/a/put/k/1", payload=b"1", timeout=WAIT_S)
        assert reply.ok is not None
        shown = read(client, f"{status}/a")
        assert shown["state"] == "Started"
        assert shown["logs"]["a"]["rows"] == 1
        client.put(f"{place}/b", json.dumps({**one, "key_exprs": ["b/**"], "name": "other"}))
        assert eventually(lambda: (tmp_path / "other").is_dir())
        client.put(f"{place}/a", json.dumps({**one, "key_exprs": "k/*"}))
        assert eventually(lambda: b'"k/*"' in b"".join(ask(client, f"{status}/a").values()))
        client.delete(f"{place}/a")
        assert eventually(lambda: not ask(client, f"{status}/a"))
    assert LogReader(tmp_path / "a").bounds(0).end == 1


def test_one_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("not a directory")
    both = {name: {"key_exprs": f"{name}/**"} for name in "ab"}
    with (
        running(options(section(tmp_path, **both)), recorder=RecorderService) as daemon,
        client_of(daemon) as client,
    ):
        status = f"{root_of(daemon)}/status/plugins/recorder/recordings"
        failed = read(client, f"{status}/a")
        assert (failed["state"], bool(failed["error"])) == ("Failed", True)
        assert read(client, f"{status}/b")["state"] == "Started"


@pytest.mark.parametrize("kind", ["locked", "full"])
def test_a_recording_that_could_not_be_started_is_started_as_soon_as_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(service, "_RETRY_S", 0.01)
    one = {"key_exprs": "k/**", "low_water_percent": 0}
    with ExitStack() as obstacle:
        if kind == "locked":
            obstacle.enter_context(Log(tmp_path / "a"))
        else:
            no_space = OSError(errno.ENOSPC, "No space left on device")
            patch = obstacle.enter_context(monkeypatch.context())
            patch.setattr(writer, "write_manifest", Mock(side_effect=no_space))
        with (
            running(options(section(tmp_path, a=one)), recorder=RecorderService) as daemon,
            client_of(daemon) as client,
        ):
            status = f"{root_of(daemon)}/status/plugins/recorder/recordings/a"
            failed = read(client, status)
            assert (failed["state"], bool(failed["error"])) == ("Failed", True)
            obstacle.close()
            assert eventually(lambda: read(client, status)["state"] == "Started")
            assert client.put("k/1", b"1", ack="stored", timeout=WAIT_S).seq == 0
    assert not [one for one in threading.enumerate() if one.name == "recorder retries"]


def test_a_router_serves_its_logs_over_flight(tmp_path: Path) -> None:
    one = {"key_exprs": "k/**", "low_water_percent": 0}
    door = 'plugins/recorder/flight:{location:"grpc://127.0.0.1:0"}'
    chosen = options(section(tmp_path, a=one), door, adminspace_permissions="rw")
    with running(chosen, recorder=RecorderService) as daemon, client_of(daemon) as client:
        [reply] = client.get("@elea/log/a/put/k/1", payload=b"1", timeout=WAIT_S)
        assert reply.ok is not None
        status = f"{root_of(daemon)}/status/plugins/recorder/flight"
        place = f"{root_of(daemon)}/config/plugins/recorder/flight"
        shown = read(client, status)
        assert (shown["state"], shown["logs"], shown["token"]) == ("Started", ["a"], False)
        location = read(client, "@elea/log/a/info")["flight"]
        assert location == shown["advertised"]
        with flight.FlightClient(location) as reader:
            [info] = reader.list_flights()
            [endpoint] = info.endpoints
            table = reader.do_get(endpoint.ticket).read_all()
        assert table.column("payload").to_pylist() == [b"1"]
        assert read(client, status)["counts"]["rows"] == 1
        metrics = {family.name: family for family in daemon.services.counted()}
        assert metrics["elea_flight_rows"].samples == [({}, 1)]
        # What is recorded goes on while a door is closed, cannot be opened, and is opened again.
        client.delete(place)
        assert eventually(lambda: "flight" not in read(client, "@elea/log/a/info"))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            client.put(place, json.dumps({"location": f"grpc://127.0.0.1:{port}"}))
            assert eventually(lambda: ask(client, status))
            failed = read(client, status)
            assert (failed["state"], "in use" in failed["error"]) == ("Failed", True)
        client.put(place, json.dumps({"location": "grpc://[::1]:0"}))
        assert eventually(lambda: "flight" in read(client, "@elea/log/a/info"))
        assert read(client, f"{root_of(daemon)}/status/plugins/recorder/recordings/a")["logs"]


def test_a_door_to_everybody_is_refused_before_anything_starts() -> None:
    settings: dict[str, Any] = {"flight": {"location": "grpc://0.0.0.0:8815"}}
    with pytest.raises(ConfigError, match="open to other hosts and is not encrypted"):
        RecorderService.check(settings)


def test_every_key_has_its_effect(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "directory": str(tmp_path),
        "recordings": {
            "a": {
                "key_exprs": ["fleet/{robot}/**"],
                "name": "{robot}",
                "liveliness": True,
                "history": True,
                "storages": True,
                "recovery": False,
                "shards": 2,
                "compression": "lz4",
                "segment_len": 3,
                "segment_age": 1.5,
                "retain_len": 4,
                "retain_age": 5,
                "retain_consumed": True,
                "quota": 6,
                "low_water_percent": 7.5,
            }
        },
    }
    made = read_section(settings)["a"]
    assert made.directory == tmp_path
    assert (made.liveliness, made.history, made.storages, made.recovery) == (1, 1, 1, 0)
    log = made.log
    assert (log.shards_count, log.compression, log.segment_len) == (2, "lz4", 3)
    assert (log.segment_age_ns, log.retain_age_ns) == (1_500_000_000, 5_000_000_000)
    assert (log.retain_len, log.quota_len, log.low_water_percent) == (4, 6, 7.5)
    assert log.retain_consumed


@pytest.mark.parametrize(
    ("settings", "path", "complaint"),
    [
        ({"recording": {}}, "recording", "recordings"),
        ({"recordings": []}, "recordings", "expected an object of recordings by name"),
        (
            {"recordings": {"a": {"key_exprs": "k"}}},
            "directory",
            "expected the path",
        ),
        (
            {"directory": "d", "recordings": {"a": 1}},
            "recordings/a",
            "expected an object",
        ),
        ({"directory": "d", "recordings": {"a": {}}}, "a/key_exprs", "got nothing"),
        (
            {"directory": "d", "recordings": {"a": {"key_exprs": "k", "shard": 1}}},
            *("a/shard", "shards"),
        ),
        (
            {"directory": "d", "recordings": {"a": {"key_exprs": "k", "shards": 0}}},
            *("a/shards", "1 or more"),
        ),
        (
            {"directory": "d", "recordings": {"a": {"key_exprs": "k", "segment_age": True}}},
            *("a/segment_age", "seconds"),
        ),
        (
            {"directory": "d", "recordings": {"a": {"key_exprs": [1]}}},
            *("a/key_exprs", "do not meet"),
        ),
        (
            {"directory": "d", "recordings": {"a": {"key_exprs": ["k/**", "k/1"]}}},
            *("recordings/a", "keys in common"),
        ),
        (
            {"directory": "d", "recordings": {"a": {"key_exprs": "k", "compression": "gz"}}},
            *("a/compression", "zstd"),
        ),
        (
            {
                "directory": "d",
                "recordings": {"a": {"key_exprs": "k"}, "b": {"key_exprs": "l", "name": "a"}},
            },
            *("b/name", "one recording for a log"),
        ),
    ],
)
def test_what_is_not_legal_is_named(settings: Any, path: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint) as caught:
        RecorderService.check(settings)
    assert caught.value.path.endswith(path)
