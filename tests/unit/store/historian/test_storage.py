"""Storages in the volume `log`, and the service `historian`, in a router."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.ends import WAIT_S, Running, eventually, free_endpoint
from tests.unit.daemon.rig import client_of, options, read, root_of, running
from tests.unit.store.historian.rig import ALONE, at, keep, sample, values, written

import elea
from elea.cli.main import main
from elea.config.kinds import Value
from elea.errors import ConfigError, StoreError
from elea.limits import Limits
from elea.store.backend import StorageConfig, VolumeConfig
from elea.store.historian.service import HistorianService
from elea.store.historian.source import LogSource
from elea.store.historian.storage import LogStorage, LogVolume
from elea.store.log.log import Log
from elea.store.manager import StorageManager

CONFIG = StorageConfig("demo", "demo/**", "log")
SERIALIZED = elea.Encoding.ZENOH_SERIALIZED


@pytest.fixture
def session() -> Iterator[elea.Session]:
    with elea.open(ALONE) as opened:
        yield opened


@contextmanager
def served(
    session: elea.Session, directory: Path, limits: Limits | None = None, **more: Value
) -> Iterator[LogStorage]:
    volume = LogVolume(VolumeConfig("log", "log", {"root": str(directory)}))
    config = StorageConfig("demo", "demo/**", "log", more)
    made = volume.serve(session, config)
    try:
        yield made
    finally:
        made.stop()


def test_a_query_sees_what_was_put_before_it(session: elea.Session, tmp_path: Path) -> None:
    with served(session, tmp_path):
        for number in range(50):
            session.put("demo/a", str(number))
            assert values(session, "demo/a") == [("demo/a", number)]
        assert len(values(session, "demo/a?_time=[..]")) == 50
        session.delete("demo/a")
        assert values(session, "demo/a") == []
        session.put("demo/a", "51")
        assert values(session, "demo/a") == [("demo/a", 51)]


def test_the_latest_timestamp_wins_whatever_came_first(
    session: elea.Session, tmp_path: Path
) -> None:
    with served(session, tmp_path) as made:
        session.put("demo/a", "2", timestamp=at(2))
        session.put("demo/a", "1", timestamp=at(1))
        session.delete("demo/b", timestamp=at(2))
        session.put("demo/b", "1", timestamp=at(1))
        assert values(session, "demo/*") == [("demo/a", 2)]
        assert made.counts.puts == 3
        assert made.counts.stamped == 0
    with served(session, tmp_path) as made:  # and after a restart
        assert values(session, "demo/*") == [("demo/a", 2)]
        assert made.status()["rows"] == [4]


def test_puts_and_deletions_of_many_keys_are_written_out(
    session: elea.Session, tmp_path: Path
) -> None:
    with served(session, tmp_path):
        for name in "abc":
            session.put(f"demo/{name}", "1")
        session.put("demo/*", "2")
        assert {value for _, value in values(session, "demo/**")} == {2}
        session.delete("demo/a")
        session.put("demo/**", "3")
        assert sorted(values(session, "demo/**")) == [("demo/b", 3), ("demo/c", 3)]
        session.delete("demo/**")
        session.put("demo/d", "4")
        assert values(session, "demo/**") == [("demo/d", 4)]


def test_a_full_log_refuses_and_says_so(session: elea.Session, tmp_path: Path) -> None:
    with served(session, tmp_path, quota=2_000) as made:
        for number in range(20):
            session.put(f"demo/{number}", bytes(1_000))
            list(session.get("demo/none", timeout=WAIT_S))
        assert eventually(lambda: made.counts.refused > 0)
        status = made.status()
        assert status["last_error"]
        kept = [one for one in session.get("demo/*", timeout=WAIT_S) if one.ok is not None]
        assert 0 < len(kept) < 20


def test_a_line_that_is_full_drops_and_counts(session: elea.Session, tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        limits = Limits(storage_queue_len=600)
        made = LogStorage(session, CONFIG, log, LogSource(tmp_path / "log", log), limits)
        session.put("demo/a", bytes(1_000))
        assert made.counts.dropped == 1
        made.stop()


def test_options_are_checked(session: elea.Session, tmp_path: Path) -> None:
    for wrong in ({"retain": 0}, {"retain_age": "week"}, {"histori": "all"}, {"dir": "../x"}):
        with pytest.raises(ConfigError), served(session, tmp_path, **wrong):
            pass
    with served(session, tmp_path), pytest.raises(StoreError), served(session, tmp_path):
        pass


def test_a_router_has_the_volume(tmp_path: Path) -> None:
    section = {
        "volumes": {"log": {"root": str(tmp_path)}},
        "storages": {"demo": {"key_expr": "demo/**", "volume": "log", "complete": True}},
    }
    chosen = options(f"plugins/storage_manager:{json.dumps(section)}")
    with running(chosen, storage_manager=StorageManager) as daemon, client_of(daemon) as client:
        client.put("demo/a", "1")
        client.put("demo/a", "2")
        assert eventually(lambda: values(client, "demo/a") == [("demo/a", 2)])
        assert eventually(lambda: len(values(client, "demo/a?_time=[now(-1h)..]")) == 2)
        where = f"{root_of(daemon)}/status/plugins/storage_manager/storages/demo"
        status: Any = read(client, where)
        assert status["state"] == "Started"
        assert status["history"] == "all"
        assert status["counts"]["puts"] == 2


def test_a_router_has_the_service(tmp_path: Path) -> None:
    directory = written(tmp_path / "log", [sample("f/a", 1, 1), sample("f/a", 2, 2)])
    section = {"logs": str(directory), "key_exprs": ["f/**"], "complete": True}
    chosen = options(f"plugins/historian:{json.dumps(section)}")
    with running(chosen, historian=HistorianService) as daemon, client_of(daemon) as client:
        assert eventually(lambda: values(client, "f/a") == [("f/a", 2)])
        assert len(values(client, "f/a?_time=[..]")) == 2
        status: Any = read(client, f"{root_of(daemon)}/status/plugins/historian/historian")
        assert status["logs"] == [str(directory)]
        assert status["counts"]["queries"] >= 2


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"logs": 5},
        {"logs": []},
        {"logs": ["a", 5]},
        {"logs": "a", "key_exprs": "a//b"},
        {"logs": "a", "complete": "yes"},
        {"logs": "a", "key_expr": "b"},
        {"logs": "a", "layouts": []},
        {"logs": "a", "layouts": {"k": 5}},
        {"logs": "a", "layouts": {"k": "{x"}},
        {"logs": "a", "layouts": {"k//": "i32"}},
    ],
)
def test_a_wrong_section_is_refused(settings: dict[str, Value]) -> None:
    with pytest.raises(ConfigError, match="plugins/historian"):
        HistorianService.check(settings)


def test_layouts_let_filters_see_serialized_payloads(session: elea.Session, tmp_path: Path) -> None:
    with Log(tmp_path / "log") as log:
        for number in range(4):
            octets = elea.ext.z_serialize((float(number), "on")).to_bytes()
            keep(log, [elea.Sample(key_expr="f/a", payload=octets, encoding=SERIALIZED)])
        section: dict[str, Value] = {
            "logs": str(tmp_path / "log"),
            "layouts": {"f/*": "{level: f64, state: string}"},
        }
        service = HistorianService(session, section)
        selector = "f/a?_time=[..];_filter=level > 1 AND state = 'on';_project=level"
        found = values(session, selector)
        assert [value for _, value in found] == [{"level": 2.0}, {"level": 3.0}]
        service.stop()


def test_the_command_answers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    directory = written(tmp_path / "log", [sample("f/a", 1, 1)])
    endpoint = free_endpoint()
    with elea.open({**ALONE, "listen": {"endpoints": [endpoint]}}) as router:
        command = Running(
            "historian", str(directory), "--key-expr", "f/**", "--connect", endpoint,
            "--count", "1", "--timeout", str(WAIT_S),
        )  # fmt: skip
        assert eventually(lambda: values(router, "f/a") == [("f/a", 1)])
        assert command.code == 0
    assert "1 query, 1 reply" in capfd.readouterr().err


def test_the_command_wants_directories(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["historian", str(tmp_path / "nothing")]) == 1
    assert "not the directory of a log" in capfd.readouterr().err


def test_sub_since_prints_history(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    endpoint = free_endpoint()
    listening = {**ALONE, "listen": {"endpoints": [endpoint]}}
    with elea.open(listening) as router, served(router, tmp_path):
        router.put("demo/a", "first")
        arguments = ("sub", "demo/**", "--since", "1h", "--count", "1", "--timeout", "20")
        assert Running(*arguments, "--connect", endpoint).code == 0
    assert "first" in capfd.readouterr().out
