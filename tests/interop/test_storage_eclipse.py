"""Storages of an Elea router, used by Eclipse Zenoh's clients."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import zenoh
from tests.interop.ends import ECLIPSE, _replies, eventually, session
from tests.unit.daemon.rig import options, root_of, running

from elea.daemon.daemon import Daemon
from elea.store.manager import StorageManager

line = pytest.mark.line
STORAGES = {"demo": {"key_expr": "demo/**", "strip_prefix": "demo", "volume": "memory"}}
SECTION = f"plugins/storage_manager:{json.dumps({'storages': STORAGES})}"
OLD, NEW = "2024-07-01T15:32:06.1Z/33", "2024-07-01T15:32:06.2Z/33"


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    chosen = options(SECTION, adminspace_permissions="rw")
    with running(chosen, storage_manager=StorageManager) as daemon:
        yield daemon


@pytest.fixture
def writer(daemon: Daemon) -> Iterator[Any]:
    with session(ECLIPSE, "client", connect=daemon.locators()[0]) as opened:
        yield opened


@pytest.fixture
def reader(daemon: Daemon) -> Iterator[Any]:
    with session(ECLIPSE, "client", connect=daemon.locators()[0]) as opened:
        yield opened


def kept(reader: Any, selector: str = "demo/**") -> dict[str, bytes]:
    return {str(one.ok.key_expr): one.ok.payload.to_bytes() for one in _replies(reader, selector)}


def becomes(reader: Any, expected: dict[str, bytes], selector: str = "demo/**") -> bool:
    return eventually(lambda: kept(reader, selector) == expected)


@line("R171")
def test_a_value_comes_back_with_all_it_had(writer: Any, reader: Any) -> None:
    timestamp = writer.new_timestamp()
    encoding = zenoh.Encoding("application/json;schema")
    writer.put("demo/a", b'{"x": 1}', encoding=encoding, timestamp=timestamp, attachment=b"more")
    writer.put("demo", b"the prefix itself")
    assert becomes(reader, {"demo/a": b'{"x": 1}', "demo": b"the prefix itself"})
    [reply] = _replies(reader, "demo/a")
    assert reply.ok.encoding == encoding
    assert reply.ok.timestamp == timestamp
    assert reply.ok.attachment.to_bytes() == b"more"


@line("R171")
def test_the_newest_wins_and_a_deletion_removes(writer: Any, reader: Any) -> None:
    for text, payload in ((NEW, b"new"), (OLD, b"old")):
        timestamp = zenoh.Timestamp.parse_rfc3339(text)
        writer.put("demo/a", payload, timestamp=timestamp)
    writer.put("demo/b", b"1")
    writer.put("demo/b", b"2")
    assert becomes(reader, {"demo/a": b"new", "demo/b": b"2"})
    writer.delete("demo/a")
    assert becomes(reader, {"demo/b": b"2"})
    writer.delete("demo/b")
    writer.put("demo/b", b"3")  # right behind: the deletion is older
    assert becomes(reader, {"demo/b": b"3"})


@line("R172")
def test_wildcards_delete_and_update_what_is_stored(writer: Any, reader: Any) -> None:
    for key in ("demo/a/x", "demo/a/y", "demo/b/x"):
        writer.put(key, b"1")
    writer.put("demo/*/x", b"2")
    assert becomes(reader, {"demo/a/x": b"2", "demo/a/y": b"1", "demo/b/x": b"2"})
    writer.delete("demo/a/**")
    assert becomes(reader, {"demo/b/x": b"2"})
    writer.put("demo/a/*", b"3")
    writer.put("demo/end", b"4")
    assert becomes(reader, {"demo/b/x": b"2", "demo/end": b"4"})


def test_large_values_and_many_of_them(writer: Any, reader: Any) -> None:
    large = bytes(5_000_000)
    writer.put("demo/large", large, congestion_control=zenoh.CongestionControl.BLOCK)
    assert becomes(reader, {"demo/large": large}, "demo/large")
    for number in range(500):
        writer.put(f"demo/many/{number}", b"x", congestion_control=zenoh.CongestionControl.BLOCK)
    assert eventually(lambda: len(kept(reader, "demo/many/*")) == 500)


def test_a_storage_is_added_and_removed_through_the_admin_space(
    daemon: Daemon, writer: Any, reader: Any
) -> None:
    place = f"{root_of(daemon)}/config/plugins/storage_manager/storages/more"
    status = f"{root_of(daemon)}/status/plugins/storage_manager/storages/*"
    writer.put(place, json.dumps({"key_expr": "more/**", "volume": {"id": "memory"}}))
    assert eventually(lambda: len(kept(reader, status)) == 2)
    [shown] = [one for key, one in kept(reader, status).items() if key.endswith("/more")]
    assert json.loads(shown)["key_expr"] == "more/**"
    writer.put("more/a", b"1")
    assert becomes(reader, {"more/a": b"1"}, "more/**")
    writer.delete(place)
    assert eventually(lambda: len(kept(reader, status)) == 1)
    assert kept(reader, "more/**") == {}
