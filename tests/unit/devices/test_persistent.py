"""Persistent samples of devices: what is acknowledged is on disk, whatever disk and clock do."""

from __future__ import annotations

import dataclasses
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.devices.rig import client_of, served

from elea.devices.device import Device
from elea.devices.persistent import PersistentStore
from elea.errors import ClosedError, StoreError
from elea.ids import ZenohId
from elea.limits import DEFAULT_LIMITS
from elea.store.backends.sqlite import SqliteBackend
from elea.timestamp import NTP64, Timestamp
from elea.xrce.qualities import Level
from elea.xrce.samples.sample import Sample
from elea.xrce.status import RefusedError

YEAR_S = 365 * 86_400


def sample(payload: bytes, ahead_s: int = 0) -> Sample:
    """A sample of one key, stamped by a clock that is ahead."""
    stamp = Timestamp(NTP64(ahead_s, time.time_ns()), ZenohId(b"\x01"))
    return Sample(
        key="safe/p", path="safe/p", payload=payload, timestamp=stamp, level=Level.PERSISTENT
    )


def full(backend: SqliteBackend) -> None:
    """Let the disk be full for whoever writes."""
    backend._db.execute("PRAGMA max_page_count = 1")


def failing(backend: SqliteBackend) -> None:
    """Let each commit fail."""

    def flush() -> None:
        if backend._db.in_transaction:
            backend._db.execute("ROLLBACK")
        raise StoreError("input/output error")

    backend.flush = flush  # type: ignore[method-assign]


@pytest.mark.parametrize("fail", [full, failing])
def test_a_sample_that_could_not_be_kept_is_not_acknowledged(
    tmp_path: Path, fail: Callable[[SqliteBackend], None]
) -> None:
    place = f"plugins/xrce/persistent:{json.dumps(str(tmp_path))}"
    with served(place) as one:
        with Device(one.udp) as device, Device(one.udp) as other:
            seen = other.publisher("/plain")
            rid = device.publisher("/safe/p#persistent")
            device.wait_matched(rid)
            device.write(rid, b"kept")
            device.flush()
            assert one.service._persistent is not None
            backend = one.service._persistent._storage._backend
            assert isinstance(backend, SqliteBackend)
            fail(backend)
            device.write(rid, bytes(30_000))
            with pytest.raises(ClosedError, match="reason 3"):
                device.flush()
            other.write(seen, b"1")  # who keeps nothing goes on
            other.flush()
        assert one.counts()["persistent_failed"] >= 1
        vars(backend).pop("flush", None)
    with served(place) as one, client_of(one) as client:
        found = [reply.ok and reply.ok.payload.to_bytes() for reply in client.get("safe/*")]
        assert found == [b"kept"]


def test_after_a_failed_commit_the_samples_of_before_count(tmp_path: Path) -> None:
    store = PersistentStore(tmp_path)
    assert store.write(sample(b"1"), 0)
    assert store.flush()
    backend = store._storage._backend
    assert isinstance(backend, SqliteBackend)
    limit = backend._db.execute("PRAGMA max_page_count").fetchone()[0]
    full(backend)
    assert not store.write(sample(bytes(100_000)), 0)
    assert not store.flush()
    assert [one.payload for one in store.matching("safe/p")] == [b"1"]
    backend._db.execute(f"PRAGMA max_page_count = {limit}")
    assert store.write(sample(b"2"), 0)
    assert store.flush(), "a failure is told once"
    store.close()
    [file] = tmp_path.rglob("*.sqlite")
    with sqlite3.connect(file) as db:
        assert db.execute("SELECT payload FROM samples").fetchall() == [(b"2",)]


@pytest.mark.parametrize("is_deleted", [False, True])
def test_samples_are_kept_after_the_clock_was_set_back(tmp_path: Path, is_deleted: bool) -> None:
    store = PersistentStore(tmp_path)
    assert store.write(sample(b"before", ahead_s=10 * YEAR_S), 0)
    if is_deleted:
        store.delete("safe/p", sample(b"", ahead_s=10 * YEAR_S + 1).timestamp, 0)
    assert store.flush()
    store.close()
    store = PersistentStore(tmp_path)
    assert [one.payload for one in store.matching("safe/p")] == ([] if is_deleted else [b"before"])
    assert store.write(sample(b"after"), 0)
    assert store.flush()
    assert [one.payload for one in store.matching("safe/p")] == [b"after"]
    store.close()
    store = PersistentStore(tmp_path)
    assert [one.payload for one in store.matching("safe/p")] == [b"after"]
    store.close()


def test_a_sample_without_room_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = f"plugins/xrce/persistent:{json.dumps(str(tmp_path))}"
    with served(place) as one:
        store = one.service._persistent
        assert store is not None
        with Device(one.udp) as device, Device(one.udp) as other:
            rids = [device.publisher(f"/safe/{name}#persistent") for name in "ab"]
            kept = other.publisher("/safe/a#persistent")
            for rid in rids:
                device.wait_matched(rid)
            other.wait_matched(kept)
            device.write(rids[0], b"first")
            device.flush()
            monkeypatch.setattr(
                store, "_limits", dataclasses.replace(DEFAULT_LIMITS, xrce_durable_count=1)
            )
            device.write(rids[1], b"without room")
            with pytest.raises(ClosedError, match="reason 3"):
                device.flush()
            other.write(kept, b"second")  # a key that has a sample has room
            other.flush()
        assert one.counts()["gateway_refused"] == 1
        assert [sample.payload for sample in store.matching("safe/*")] == [b"second"]
        with Device(one.udp) as device:
            rid = device.publisher("/safe/a#persistent")
            device.wait_matched(rid)
            device.write(rid, b"third")
            device.flush()
            with pytest.raises(RefusedError):
                device.publisher("/safe/c#persistent")
        assert [sample.payload for sample in store.matching("safe/*")] == [b"third"]
