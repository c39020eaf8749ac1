"""The volumes keep the laws of a backend, and stay within their bounds."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

import pytest
from tests.unit.store.volumes import ALL, DURABLE, opened

from elea.errors import ConfigError, StoreError
from elea.store import testing, volumes
from elea.store.backend import Reports, StorageConfig, Stored, VolumeConfig
from elea.store.backends.disk import Room
from elea.store.backends.files import FilesBackend
from elea.store.backends.sqlite import FILE_NAME
from elea.store.testing import LAWS, Law, at, value


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_law(law: Law, kind: str, tmp_path: Path) -> None:
    law(lambda: opened(kind, tmp_path))


@pytest.mark.parametrize("kind", ["fs", "sqlite"])
def test_no_key_leaves_the_root(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (tmp_path / "beside").write_text("untouched")
    backend = opened(kind, root)
    for key in testing.NASTY_KEYS:
        backend.put(key, value("x", 1))
    backend.flush()
    backend.close()
    assert sorted(os.listdir(tmp_path)) == ["beside", "root"]
    assert os.listdir(root) == ["demo"]
    for path, _, files in os.walk(root):
        assert path.isascii()
        assert path.isprintable()
        assert all(name.isascii() and name.isprintable() for name in files)


def test_a_file_can_be_read_by_people(tmp_path: Path) -> None:
    backend = opened("fs", tmp_path)
    backend.put("robot/7/pose", Stored(b'{"x": 1}\n', at(1)))
    backend.flush()
    backend.close()
    first, _, rest = (tmp_path / "demo/robot/7/pose=").read_bytes().partition(b"\n")
    assert b'"key": "robot/7/pose"' in first
    assert rest == b'{"x": 1}\n'


def test_no_link_is_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    backend = opened("fs", tmp_path / "root")
    (tmp_path / "root/demo/a").symlink_to(outside)
    (tmp_path / "root/demo/b=").symlink_to(outside / "secret")
    (outside / "secret").write_text("elea-value 1 00000000 {}")
    with pytest.raises(StoreError, match=r"Not a directory|symbolic"):
        backend.put("a/x", value("x", 1))
    with pytest.raises(StoreError, match="symbolic"):
        backend.get("b")
    assert list(backend.entries()) == []
    backend.put("b", value("x", 1))
    backend.flush()
    assert (outside / "secret").read_text() == "elea-value 1 00000000 {}"
    backend.close()


@pytest.mark.parametrize("kind", DURABLE)
def test_a_place_is_for_one_at_a_time(kind: str, tmp_path: Path) -> None:
    backend = opened(kind, tmp_path)
    with pytest.raises(StoreError, match=r"in use|locked"):
        opened(kind, tmp_path)
    backend.close()
    opened(kind, tmp_path).close()


@pytest.mark.parametrize("kind", ALL)
def test_a_quota_refuses_and_keeps_what_is_there(kind: str, tmp_path: Path) -> None:
    backend = opened(kind, tmp_path, quota=200_000)
    backend.put("a", Stored(bytes(10_000), at(1)))
    backend.flush()
    refusals = []
    for number in range(100):
        try:
            backend.put(f"b/{number}", Stored(bytes(10_000), at(2)))
        except StoreError as error:
            refusals.append(str(error))
    assert "quota" in refusals[0] or "full" in refusals[0]
    with contextlib.suppress(StoreError):  # SQLite may have undone the batch; then it says so
        backend.flush()
    assert backend.get("a") == Stored(bytes(10_000), at(1))
    for key, _ in list(backend.entries()):
        backend.delete(key, at(3))
    backend.flush()
    backend.put("c", Stored(bytes(10_000), at(4)))
    backend.flush()
    assert backend.get("c") == Stored(bytes(10_000), at(4))
    backend.close()


def test_a_full_disk_is_refused_before_it_is_full(tmp_path: Path) -> None:
    free = [60]
    room = Room(tmp_path, None, 5.0, usage=lambda _: (1_000, 1_000 - free[0], free[0]))
    room.take(9)
    with pytest.raises(StoreError, match=r"60 of 1000 octets of the disk are free, and 5 %"):
        room.take(9)  # the first nine are not on the disk yet
    room.settled()
    room.take(9)
    free[0] = 50
    with pytest.raises(StoreError, match=r"50 of 1000 octets of the disk are free, and 5 %"):
        room.take(9)
    room.take(-9)
    free[0] = 500
    room.take(9)


def test_a_low_water_mark_of_the_whole_disk_lets_nothing_in(tmp_path: Path) -> None:
    for name in ("fs", "sqlite"):
        config = VolumeConfig(name, name, {"root": str(tmp_path), "low_water_percent": 100})
        backend = volumes.load(volumes.find(name))(config).open(StorageConfig(name, "**", name))
        with pytest.raises(StoreError, match="are to stay so"):
            backend.put("a", value("x", 1))
        backend.close()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (lambda octets: octets[:-1], "octets"),
        (lambda octets: b"", "no description"),
        (lambda octets: octets.replace(b'"a/b"', b'"a/c"'), "whose place is another"),
        (lambda octets: octets.replace(b"timestamp", b"timestomp"), "no description"),
        (lambda octets: octets.replace(b'"key"', b'"kee"'), "no description"),
    ],
)
def test_a_damaged_file_is_reported(damage: object, complaint: str, tmp_path: Path) -> None:
    backend = opened("fs", tmp_path)
    backend.put("a/b", value("x", 1))
    backend.put("good", value("y", 1))
    backend.flush()
    backend.close()
    file = tmp_path / "demo/a/b="
    assert callable(damage)
    file.write_bytes(damage(file.read_bytes()))
    again = opened("fs", tmp_path)
    assert list(again.entries()) == [("good", at(1))]
    assert isinstance(again, Reports)
    [problem] = again.problems()
    assert str(file) in problem
    assert complaint in problem
    with pytest.raises(StoreError, match="is damaged"):
        again.get("a/b")
    again.close()


def test_a_changed_octet_is_found_when_it_is_read(tmp_path: Path) -> None:
    backend = opened("fs", tmp_path)
    backend.put("a", value("good", 1))
    backend.flush()
    backend.close()
    file = tmp_path / "demo/a="
    file.write_bytes(file.read_bytes().replace(b"good", b"bad!"))
    again = opened("fs", tmp_path)
    with pytest.raises(StoreError, match="checksum does not match"):
        again.get("a")
    again.close()


def test_a_damaged_database_is_not_opened(tmp_path: Path) -> None:
    backend = opened("sqlite", tmp_path)
    for number in range(200):
        backend.put(f"a/{number}", Stored(bytes(1_000), at(1)))
    backend.flush()
    backend.close()
    file = tmp_path / "demo" / FILE_NAME
    octets = bytearray(file.read_bytes())
    octets[4_096 : 8 * 4_096] = b"\x55" * (7 * 4_096)
    file.write_bytes(octets)
    with pytest.raises(StoreError, match=r"damaged|malformed"):
        opened("sqlite", tmp_path)


def test_a_changed_row_is_found_when_it_is_read(tmp_path: Path) -> None:
    backend = opened("sqlite", tmp_path)
    backend.put("a", Stored(b"needle" * 10, at(1)))
    backend.flush()
    backend.close()
    file = tmp_path / "demo" / FILE_NAME
    octets = file.read_bytes()
    assert octets.count(b"needle") == 10
    file.write_bytes(octets.replace(b"needle", b"noodle"))
    again = opened("sqlite", tmp_path)
    with pytest.raises(StoreError, match="the row of 'a' is damaged: the checksum"):
        again.get("a")
    again.close()


def test_a_database_of_another_format_is_refused(tmp_path: Path) -> None:
    opened("sqlite", tmp_path).close()
    db = sqlite3.connect(tmp_path / "demo" / FILE_NAME)
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(StoreError, match="its format is 9, this version reads 1"):
        opened("sqlite", tmp_path)


def test_people_can_read_the_database(tmp_path: Path) -> None:
    backend = opened("sqlite", tmp_path)
    backend.put("a", value("hello", 0))
    backend.flush()
    backend.close()
    db = sqlite3.connect(tmp_path / "demo" / FILE_NAME)
    assert db.execute("SELECT * FROM readable").fetchall() == [
        ("a", "2023-11-14T22:13:20.000Z", "hello")
    ]
    db.close()


def test_a_file_that_cannot_be_written_is_told_and_the_others_are(tmp_path: Path) -> None:
    backend = opened("fs", tmp_path, quota=20_000)
    for key in ("a", "b/c", "d"):
        backend.put(key, value(key, 1))
    (tmp_path / "demo/b").write_text("in the way")
    with pytest.raises(StoreError, match="Not a directory"):
        backend.flush()
    assert sorted(backend.entries()) == [("a", at(1)), ("d", at(1))]
    (tmp_path / "demo/b").unlink()
    backend.put("b/c", value("again", 2))  # what was not written does not count
    backend.put("e", value("e", 2))
    backend.flush()
    assert backend.get("b/c") == value("again", 2)
    backend.close()


def test_what_a_crash_left_unfinished_is_removed(tmp_path: Path) -> None:
    backend = opened("fs", tmp_path)
    backend.put("a/b", value("x", 1))
    backend.flush()
    backend.close()
    (tmp_path / "demo/a/.new").write_bytes(b"half")
    again = opened("fs", tmp_path)
    assert list(again.entries()) == [("a/b", at(1))]
    assert isinstance(again, FilesBackend)
    assert again.problems() == []
    assert not (tmp_path / "demo/a/.new").exists()
    again.close()


@pytest.mark.parametrize("kind", DURABLE)
@pytest.mark.parametrize("name", ["..", "../x", "/etc", "a/../../b", "", "a\0b"])
def test_a_directory_outside_of_the_root_is_refused(kind: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="relative path without"):
        opened(kind, tmp_path, dir=name)


@pytest.mark.parametrize(
    ("kind", "options", "complaint"),
    [
        ("memory", {"quotta": 1}, "nearest known one is storages/demo/volume/quota"),
        ("memory", {"history": "some"}, 'expected one of "latest", "all"'),
        ("fs", {"history": "all"}, "unknown key"),
        ("fs", {"quota": "much"}, "a number from 0"),
        ("sqlite", {"dir": 7}, "expected a text, got the number 7"),
    ],
)
def test_an_option_that_is_not_legal_is_refused(
    kind: str, options: dict[str, int | str], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=complaint):
        opened(kind, tmp_path, **options)


def test_an_unknown_volume_is_refused_with_those_that_there_are() -> None:
    known = "no volume 'rocksdb' is installed; there are fs, log, memory"
    with pytest.raises(StoreError, match=known):
        volumes.find("rocksdb")


def test_a_volume_says_where_it_would_write(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ZENOH_BACKEND_FS_ROOT", str(tmp_path / "env"))
    volumes.load(volumes.find("fs"))(VolumeConfig("v", "fs")).open(
        StorageConfig("s", "**", "v")
    ).close()
    assert (tmp_path / "env/s").is_dir()
    monkeypatch.delenv("ZENOH_BACKEND_FS_ROOT")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    volumes.load(volumes.find("fs"))(VolumeConfig("v", "fs")).open(
        StorageConfig("s", "**", "v")
    ).close()
    assert (tmp_path / "state/elea/fs/s").is_dir()
