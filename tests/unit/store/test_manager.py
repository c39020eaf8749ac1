"""The storage manager in a daemon: configured, asked, changed, and with backends that fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from tests.interop.ends import eventually
from tests.unit.cli.ends import WAIT_S
from tests.unit.daemon.rig import ask, client_of, options, read, root_of, running

import elea
from elea.config.kinds import Value
from elea.daemon.daemon import Daemon
from elea.daemon.services import Service
from elea.errors import ConfigError, StoreError
from elea.session.session import Session
from elea.store import manager, volumes
from elea.store.backend import Backend, StorageConfig, Stored, Volume, VolumeConfig
from elea.store.backends.memory import MemoryBackend
from elea.store.manager import StorageManager
from elea.store.testing import at
from elea.timestamp import NTP64, Timestamp

STATUS = "status/plugins/storage_manager"
CONFIG = "config/plugins/storage_manager"
WRITABLE = {"adminspace_permissions": "rw"}


def section(**storages: Any) -> str:
    return f"plugins/storage_manager:{json.dumps({'storages': storages})}"


@contextmanager
def router(*cfg: str, find: volumes.Find = volumes.find, **more: Any) -> Iterator[Daemon]:
    class Found(StorageManager):
        def __init__(self, session: Session, settings: dict[str, Value]) -> None:
            super().__init__(session, settings, find)

    with running(options(*cfg, **more), storage_manager=Found) as daemon:
        yield daemon


@contextmanager
def stored(*cfg: str, **more: Any) -> Iterator[tuple[Daemon, elea.Session]]:
    with router(*cfg, **more) as daemon, client_of(daemon) as client:
        yield daemon, client


def storage(client: Any, daemon: Daemon, name: str = "demo") -> Any:
    return read(client, f"{root_of(daemon)}/{STATUS}/storages/{name}")


def samples(client: Any, selector: str) -> list[elea.Sample]:
    replies = list(client.get(selector, timeout=WAIT_S, consolidation=elea.ConsolidationMode.NONE))
    assert all(one.ok is not None for one in replies), replies
    return sorted((one.ok for one in replies), key=lambda one: str(one.key_expr))


def errors(client: Any, selector: str) -> list[str]:
    replies = list(client.get(selector, timeout=WAIT_S))
    return [one.err.payload.to_string() for one in replies if one.err is not None]


def names_of_threads() -> list[str]:
    return [one.name for one in threading.enumerate()]


MEMORY = section(demo={"key_expr": "demo/**", "volume": "memory"})


def test_a_value_comes_back_whole() -> None:
    with stored(MEMORY) as (_, client):
        client.put("demo/a", b"1", encoding="text/plain;x", attachment=b"more")
        [sample] = samples(client, "demo/a")
        assert sample.payload.to_bytes() == b"1"
        assert str(sample.encoding) == "text/plain;x"
        assert sample.attachment is not None
        assert sample.attachment.to_bytes() == b"more"
        assert sample.timestamp is not None
        client.put("demo/b", b"2", timestamp=at(1))
        assert [one.timestamp for one in samples(client, "demo/b")] == [at(1)]
        client.put("elsewhere", b"3")
        assert [str(one.key_expr) for one in samples(client, "**")] == ["demo/a", "demo/b"]


def test_the_newest_wins_and_deletions_take_effect() -> None:
    with stored(MEMORY) as (daemon, client):
        client.put("demo/a", b"new", timestamp=at(2))
        client.put("demo/a", b"old", timestamp=at(1))
        client.put("demo/b", b"x")
        assert ask(client, "demo/**") == {"demo/a": b"new", "demo/b": b"x"}
        client.delete("demo/b")
        assert ask(client, "demo/**") == {"demo/a": b"new"}
        client.put("demo/*", b"all")
        assert ask(client, "demo/**") == {"demo/a": b"all"}
        client.delete("demo/**")
        assert ask(client, "demo/**") == {}
        counts = storage(client, daemon)["counts"]
        assert (counts["puts"], counts["deletes"], counts["outdated"]) == (4, 2, 1)
        assert counts["stamped"] == 2  # routers stamp puts, and leave deletions as they are


def test_what_comes_from_the_future_is_stamped_anew() -> None:
    later = Timestamp(NTP64(4_000_000_000, 0), elea.ZenohId(b"\x01"))
    with stored(MEMORY) as (daemon, client):
        client.put("demo/a", b"1", timestamp=later)
        client.delete("demo/b", timestamp=later)
        client.put("demo/b", b"2")
        assert ask(client, "demo/**") == {"demo/a": b"1", "demo/b": b"2"}
        assert all(one.timestamp and one.timestamp < later for one in samples(client, "demo/**"))
        assert storage(client, daemon)["counts"]["restamped"] == 1  # the router did the put


def test_a_time_range_and_one_that_is_none() -> None:
    kept = section(demo={"key_expr": "demo/**", "volume": {"id": "memory", "history": "all"}})
    with stored(kept) as (_, client):
        for second in (1, 2, 3):
            client.put("demo/a", str(second), timestamp=at(second))
        assert [one.payload.to_string() for one in samples(client, "demo/a")] == ["3"]
        start, end = at(1).time, at(2).time
        asked = f"demo/a?_time=[{start.to_string_rfc3339_lossy()}..{end.to_string_rfc3339_lossy()}]"
        assert [one.payload.to_string() for one in samples(client, asked)] == ["1", "2"]
        [error] = errors(client, "demo/a?_time=[yesterday]")
        assert "storage demo" in error
        assert "yesterday" in error


def test_status_and_configuration_have_eclipse_keys() -> None:
    config = {"key_expr": "demo/**", "strip_prefix": "demo", "volume": {"id": "memory", "quota": 9}}
    with stored(section(demo=config)) as (daemon, client):
        root = f"{root_of(daemon)}/{STATUS}"
        found = ask(client, f"{root}/**")
        assert json.loads(found[f"{root}/version"]) == elea.__version__
        assert json.loads(found[f"{root}/volumes/memory"])["state"] == "Started"
        assert b"MemoryVolume" in found[f"{root}/volumes/memory/__path__"]
        shown = json.loads(found[f"{root}/storages/demo"])
        assert {key: shown[key] for key in config} == config
        assert read(client, f"{root_of(daemon)}/{CONFIG}/storages/demo") == config
        assert ask(client, f"{root_of(daemon)}/{CONFIG}/storages/other") == {}


def test_a_prefix_and_a_complete_storage(tmp_path: Path) -> None:
    kept = {
        "volumes": {"files": {"backend": "fs", "root": str(tmp_path)}},
        "storages": {
            "demo": {
                "key_expr": "a/b/**",
                "strip_prefix": "a/b",
                "volume": {"id": "files"},
                "complete": "true",
            }
        },
    }
    with stored(f"plugins/storage_manager:{json.dumps(kept)}") as (_, client):
        client.put("a/b", b"0")
        client.put("a/b/c", b"1")
        assert ask(client, "a/**") == {"a/b": b"0", "a/b/c": b"1"}
        target = elea.QueryTarget.ALL_COMPLETE
        assert len(list(client.get("a/b/c", target=target, timeout=WAIT_S))) == 1
    assert (tmp_path / "demo/c=").exists()
    assert (tmp_path / "demo/=").exists()


def test_storages_come_and_go_and_the_others_stay() -> None:
    with stored(MEMORY, **WRITABLE) as (daemon, client):
        root = root_of(daemon)
        client.put("demo/a", b"1")
        assert ask(client, "demo/a") == {"demo/a": b"1"}
        config = {"key_expr": "more/**", "volume": "memory"}
        client.put(f"{root}/{CONFIG}/storages/more", json.dumps(config))
        assert eventually(lambda: ask(client, f"{root}/{STATUS}/storages/more"))
        client.put("more/a", b"2")
        assert ask(client, "more/a") == {"more/a": b"2"}
        client.delete(f"{root}/{CONFIG}/storages/more")
        assert eventually(lambda: not ask(client, f"{root}/{STATUS}/storages/more"))
        assert ask(client, "**") == {"demo/a": b"1"}


def test_a_change_that_is_not_legal_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with stored(MEMORY, **WRITABLE) as (daemon, client):
        client.put("demo/a", b"1")
        place = f"{root_of(daemon)}/{CONFIG}/storages"
        client.put(f"{place}/bad", '{key_expr: "a//b", volume: "memory"}')
        client.put(f"{place}/demo/replication", "{interval: 10}")
        assert eventually(lambda: "demo/replication: expected nothing" in caplog.text)
        assert (
            "storages/bad/key_expr: expected a key expression, got the text 'a//b'" in caplog.text
        )
        assert ask(client, "**") == {"demo/a": b"1"}


def test_a_reload_changes_what_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "router.json5"

    def write(**storages: str) -> None:
        chosen = {name: {"key_expr": key, "volume": "memory"} for name, key in storages.items()}
        file.write_text(json.dumps({"plugins": {"storage_manager": {"storages": chosen}}}))

    write(one="one/**", two="two/**")
    with stored(config=str(file)) as (daemon, client):
        client.put("one/a", b"1")
        client.put("two/a", b"2")
        assert ask(client, "**") == {"one/a": b"1", "two/a": b"2"}
        write(one="one/**", two="two/a/**", three="three/**")
        daemon.reload()
        assert eventually(lambda: ask(client, f"{root_of(daemon)}/{STATUS}/storages/three"))
        assert ask(client, "**") == {"one/a": b"1"}  # the second began anew


def test_one_that_cannot_be_opened_leaves_the_others_alone(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kept = {
        "volumes": {"fs": {"root": str(tmp_path / "file")}, "rocks": {"backend": "rocksdb"}},
        "storages": {
            "a": {"key_expr": "a/**", "volume": "fs"},
            "b": {"key_expr": "b/**", "volume": "rocks"},
            "c": {"key_expr": "c/**", "volume": "unheard"},
            "demo": {"key_expr": "demo/**", "volume": "memory"},
        },
    }
    with stored(f"plugins/storage_manager:{json.dumps(kept)}") as (daemon, client):
        client.put("demo/a", b"1")
        assert ask(client, "**") == {"demo/a": b"1"}
        reasons = {
            name: storage(client, daemon, name).get("error", "") for name in kept["storages"]
        }
        assert "Not a directory" in reasons["a"]
        assert "no volume 'rocksdb' is installed" in reasons["b"]
        assert "the volumes that are configured are fs, memory, rocks" in reasons["c"]
        assert reasons["demo"] == ""


@pytest.mark.parametrize("backend", ["fs", "sqlite"])
def test_what_could_not_be_opened_is_opened_as_soon_as_it_can_be(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    backend: str,
) -> None:
    monkeypatch.setattr(manager, "_RETRY_S", 0.01)
    obstacle = tmp_path / "file"
    obstacle.write_text("")
    kept = {
        "volumes": {backend: {"root": str(obstacle)}, "rocks": {"backend": "rocksdb"}},
        "storages": {
            "demo": {"key_expr": "demo/**", "volume": backend},
            "never": {"key_expr": "b/**", "volume": "rocks"},
        },
    }
    with stored(f"plugins/storage_manager:{json.dumps(kept)}") as (daemon, client):
        assert storage(client, daemon)["state"] == "Failed"
        obstacle.unlink()
        assert eventually(lambda: storage(client, daemon).get("state") != "Failed")
        client.put("demo/a", b"1")
        assert ask(client, "demo/**") == {"demo/a": b"1"}
        assert storage(client, daemon, "never")["state"] == "Failed"
        # What a missing package fails with is not tried again: nothing is left to be tried.
        assert eventually(lambda: "storage retries" not in names_of_threads())
    told = [one.getMessage() for one in caplog.records if "storage demo cannot" in one.getMessage()]
    assert len(told) == 1
    assert "retrying every" in told[0]


def test_nothing_is_kept_without_timestamps(caplog: pytest.LogCaptureFixture) -> None:
    with router(MEMORY, "timestamping/enabled:false") as daemon:
        assert list(daemon.services) == []
    assert "timestamping/enabled is false" in caplog.text


# A volume of another package.


class Trouble(MemoryBackend):
    """Fails for some keys; asked too much, it stays busy."""

    def put(self, key: str, value: Stored) -> None:
        if key.startswith("bad"):
            raise RuntimeError("the shelf broke")
        if key.startswith("full"):
            raise StoreError("the shelf is full; buy another")
        super().put(key, value)

    def get(self, key: str) -> Stored | None:
        if key.startswith("torn"):
            raise StoreError("the page is torn")
        return super().get(key)


class TroubleVolume(Volume):
    """What a package would bring."""

    def __init__(self, config: VolumeConfig) -> None:
        assert config.options["shelf"] == 3

    def open(self, storage: StorageConfig) -> Backend:
        return Trouble()


def test_a_volume_of_another_package_and_what_it_raises(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    mine = EntryPoint("shelf", f"{__name__}:TroubleVolume", volumes.GROUP)
    monkeypatch.setattr(volumes, "entry_points", lambda group: [mine])
    kept = {
        "volumes": {"shelf": {"shelf": 3, "private": {"token": "hush"}}},
        "storages": {"demo": {"key_expr": "**", "volume": "shelf"}},
    }
    with stored(f"plugins/storage_manager:{json.dumps(kept)}") as (daemon, client):
        for key in ("good", "bad/1", "bad/2", "full/1", "torn"):
            client.put(key, b"1")
        assert [str(one.key_expr) for one in samples(client, "good")] == ["good"]
        assert errors(client, "torn") == ["storage demo: torn: the page is torn"]
        status = storage(client, daemon)
        assert status["counts"]["refused"] == 3
        assert status["counts"]["errors"] == 4
        assert status["last_error"]["text"] == "get 'torn': the page is torn"
        shown = ask(client, f"{root_of(daemon)}/{STATUS}/**")
        assert not any(b"hush" in value for value in shown.values())
    assert "the shelf broke" in caplog.text
    assert "bad/2" not in caplog.text  # the same trouble again is only counted


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"storages": []}, "storages: expected an object of storages by name, got a list"),
        ({"storagess": {}}, "nearest known one is plugins/storage_manager/storages"),
        ({"storages": {"a": {}}}, "a/key_expr: expected a key expression, got nothing"),
        ({"storages": {"a/b": {}}}, "a name is one chunk of a key"),
        ({"storages": {"@a": {}}}, "a name is one chunk of a key"),
        ({"storages": {"a": {"key_expr": "x"}}}, "a/volume: expected the name of a volume"),
        (
            {"volumes": {"v": {"backend": 3}}},
            "v/backend: expected the name of a volume",
        ),
        *(
            ({"storages": {"a": {"key_expr": "x/y/**", "volume": "memory", **more}}}, complaint)
            for more, complaint in (
                ({"volume": {}}, "an object with its name as `id`"),
                ({"keyexpr": "a"}, "nearest known one is .*/key_expr"),
                ({"strip_prefix": "x/*"}, "a prefix has no wildcards"),
                ({"strip_prefix": "x/y/z"}, "whole chunks that begin 'x/y/"),
                ({"strip_prefix": "x/"}, "it ends with `/`"),
                ({"strip_prefix": 4}, "expected a key, got the number 4"),
                ({"complete": "yes"}, "expected one of .true., .false."),
                ({"complete": 1}, "expected true or false"),
                ({"garbage_collection": {"period": 0}}, "expected a whole number from 1"),
                ({"garbage_collection": {"period": True}}, "expected a whole number from 1"),
                ({"garbage_collection": {"life": 1}}, "nearest known one is"),
                ({"replication": {}}, "not aligned by this version"),
            )
        ),
    ],
)
def test_what_is_not_legal_is_refused_before_anything_starts(
    settings: dict[str, Value], complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        StorageManager.check(settings)
    with pytest.raises(ConfigError, match=complaint):
        Daemon(options(f"plugins/storage_manager:{json.dumps(settings)}"))


def test_the_service_is_found_without_being_installed() -> None:
    daemon = Daemon(options(MEMORY))
    daemon.start()
    try:
        assert [one.name for one in daemon.services] == ["storage_manager"]
        service: Service = next(iter(daemon.services)).service
        assert isinstance(service, StorageManager)
    finally:
        daemon.close()
