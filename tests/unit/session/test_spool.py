"""Spools in a simulated world: what waits is forwarded once, in order, and nothing goes unsaid."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import random
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import pytest
from tests.scale import scaled
from tests.unit.cli.ends import free_endpoint
from tests.unit.session.small_recorder import CONNECT, Scene, SmallRecorder, stored

import elea
from elea.errors import (
    ClosedError,
    InvalidValueError,
    MissingDependencyError,
    NotStoredError,
    StoreError,
)
from elea.limits import DEFAULT_LIMITS
from elea.session.spool_log import LogShelf
from elea.sim.world import World
from elea.store.log.consumers import load
from elea.store.log.log import Log
from elea.store.log.reader import LogReader


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    with World(1) as world:
        yield Scene(world, tmp_path / "log")


@pytest.fixture(params=["memory", "disk"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return None if request.param == "memory" else tmp_path / "spool"


def payloads(scene: Scene) -> list[str]:
    return [row.payload for row in stored(scene.directory)]


def test_what_is_put_while_nobody_records_is_forwarded_then(
    scene: Scene, place: Path | None
) -> None:
    subscriber = scene.node.declare_subscriber("fleet/*")
    spool = scene.session.declare_spool(place)
    acks = [scene.session.put("fleet/1", str(n), ack="stored") for n in range(3)]
    acks.append(scene.session.delete("fleet/1", ack="stored"))
    assert all(ack.spooled for ack in acks)
    assert [ack.seq for ack in acks] == [0, 1, 2, 3]
    assert {ack.name for ack in acks} == {"spool"}
    assert {ack.durable for ack in acks} == {place is not None}
    if place is not None:
        assert acks[0].log == LogReader(place).log_id
    scene.world.sleep(0.1)
    live = subscriber.drain()  # they do not wait for a recorder
    assert [sample.payload.to_string() for sample in live] == ["0", "1", "2", ""]
    assert spool.stats().waiting_count == 4
    assert spool.stats().waiting_len > 0
    assert spool.stats().oldest_age_ns >= 100_000_000
    assert scene.session.info.spool_stats() == spool.stats()

    recorder = scene.record()
    assert spool.drain(5)
    rows = stored(scene.directory)
    assert [row.payload for row in rows] == ["0", "1", "2", ""]
    assert [row.kind for row in rows] == ["put", "put", "put", "delete"]
    times = [sample.timestamp.time.value for sample in live if sample.timestamp]
    assert [row.time for row in rows] == times
    assert all(one.startswith("+") for one in recorder.questions)
    stats = spool.stats()
    assert (stats.spooled_count, stats.forwarded_count, stats.waiting_count) == (4, 4, 0)
    assert (stats.oldest_age_ns, stats.is_draining) == (0, False)
    scene.world.sleep(0.1)
    assert subscriber.drain() == []
    direct = scene.session.put("fleet/1", "3", ack="stored")
    assert (direct.spooled, direct.name, direct.seq) == (False, "fleet", 4)


def test_what_is_put_while_others_are_forwarded_comes_after_them(
    scene: Scene, place: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    window_count = scaled(256, DEFAULT_LIMITS.spool_window_count)
    limits = replace(DEFAULT_LIMITS, spool_window_count=window_count)
    monkeypatch.setattr("elea.session.spool.DEFAULT_LIMITS", limits)
    live: list[str] = []
    scene.node.declare_subscriber("fleet/*", lambda sample: live.append(str(sample.payload)))
    spool = scene.session.declare_spool(place)
    count = window_count + 50
    for n in range(count):
        scene.session.put(f"fleet/{n % 3}", str(n), ack="stored")
    scene.world.sleep(0.2)
    SmallRecorder(scene.node, scene.directory)
    scene.world.wait(lambda: spool.stats().is_draining, 5)
    ack = scene.session.put("fleet/0", "last", ack="stored")
    assert ack.spooled
    assert spool.drain(60)
    scene.world.sleep(0.1)
    for key in range(3):
        found = [row.payload for row in stored(scene.directory) if row.key == f"fleet/{key}"]
        expected = [str(n) for n in range(count) if n % 3 == key]
        assert found == expected + ["last"] * (key == 0)
    # Subscribers got each of them once, and this one when its turn came.
    assert live == [*map(str, range(count)), "last"]
    assert len(stored(scene.directory)) == count + 1


def test_subscribers_wait_too_if_the_order_is_to_be_strict(
    scene: Scene, place: Path | None
) -> None:
    subscriber = scene.node.declare_subscriber("fleet/*")
    spool = scene.session.declare_spool(place, live=False)
    for n in range(9):
        scene.session.put("fleet/1", str(n), ack="stored")
    recorder = SmallRecorder(scene.node, scene.directory)  # nothing waits for what is on its way
    assert spool.drain(9)
    assert payloads(scene) == [str(n) for n in range(9)]
    assert [sample.payload.to_string() for sample in subscriber.drain()] == payloads(scene)
    # The first was published before a recorder was there; the others go together.
    assert sum(one.startswith("+zid") for one in recorder.questions) == 1
    assert recorder.questions.count("+batch") == 1


@pytest.mark.parametrize("takes_batches", [True, False])
def test_what_waits_is_forwarded_in_batches_in_order(
    scene: Scene, place: Path | None, takes_batches: bool
) -> None:
    spool = scene.session.declare_spool(place)
    for n in range(60):
        key = f"fleet/{n % 2}"
        if n % 7 == 0:
            scene.session.delete(key, ack="stored", attachment=str(n))
        else:
            scene.session.put(key, str(n), ack="stored", encoding="text/plain;utf-8")
    recorder = scene.record(takes_batches=takes_batches)
    assert spool.drain(60)
    rows = stored(scene.directory)
    for remainder in range(2):
        found = [row.payload for row in rows if row.key == f"fleet/{remainder}"]
        assert found == [str(n) if n % 7 else "" for n in range(60) if n % 2 == remainder]
    assert recorder.questions.count("+batch") == (2 if takes_batches else 0)
    assert spool.stats().forwarded_count == 60


def test_an_answer_to_a_batch_that_is_lost_doubles_nothing(
    scene: Scene, place: Path | None
) -> None:
    spool = scene.session.declare_spool(place)
    for n in range(20):
        scene.session.put("fleet/1", str(n), ack="stored")
    scene.world.sleep(0.2)
    recorder = SmallRecorder(scene.node, scene.directory)
    recorder.lost_count = 1
    assert spool.drain(60)
    assert payloads(scene) == [str(n) for n in range(20)]
    assert spool.stats().forwarded_count == 20


@pytest.mark.parametrize("reason", ["invalid", "full", "busy"])
def test_a_batch_that_is_refused_loses_nothing(
    scene: Scene, place: Path | None, reason: str
) -> None:
    spool = scene.session.declare_spool(place)
    for n in range(20):
        scene.session.put("fleet/1", str(n), ack="stored")
    scene.world.sleep(0.2)
    recorder = SmallRecorder(scene.node, scene.directory)
    recorder.refusal, recorder.refusals_count = reason, 1
    assert spool.drain(60)
    assert payloads(scene) == [str(n) for n in range(20)]
    assert spool.stats().invalid_count == 0


def test_a_recorder_that_goes_and_comes_back(scene: Scene, place: Path | None) -> None:
    recorder = scene.record()
    spool = scene.session.declare_spool(place)
    assert not scene.session.put("fleet/1", "0", ack="stored").spooled
    recorder.close()
    scene.world.sleep(0.2)
    assert scene.session.put("fleet/1", "1", ack="stored").spooled
    scene.world.sleep(300)
    assert spool.stats().waiting_count == 1
    assert not spool.drain(1)
    scene.record()
    assert spool.drain(1)  # by its token, not by the clock
    assert payloads(scene) == ["0", "1"]


def test_a_lost_link_and_a_lost_answer(scene: Scene, place: Path | None) -> None:
    recorder = scene.record()
    spool = scene.session.declare_spool(place)
    recorder.lost_count = 2  # to the question, and to the one with the sample
    ack = scene.session.put("fleet/1", "0", ack="stored")
    assert ack.spooled
    assert spool.drain(5)
    assert spool.stats().duplicate_count == 1
    scene.world.network.part("robot", "recorder")
    assert scene.session.put("fleet/1", "1", ack="stored", timeout=1).spooled
    scene.world.network.heal()
    assert spool.drain(60)
    assert payloads(scene) == ["0", "1"]


@pytest.mark.parametrize("reason", ["full", "closed", "busy"])
def test_a_recorder_that_refuses_for_now_is_waited_for(scene: Scene, reason: str) -> None:
    recorder = scene.record()
    recorder.refusal = reason
    spool = scene.session.declare_spool()
    assert scene.session.put("fleet/1", "0", ack="stored", timeout=2).spooled
    scene.world.sleep(100)
    assert spool.stats().waiting_count == 1
    recorder.refusal = None
    assert spool.drain(31)
    assert payloads(scene) == ["0"]


def test_what_is_put_after_a_refusal_does_not_overtake_what_was_refused(
    scene: Scene, place: Path | None
) -> None:
    recorder = scene.record()
    recorder.refusal, recorder.is_deaf = "busy", True
    spool = scene.session.declare_spool(place)
    for n in range(3):
        assert scene.session.put("fleet/1", str(n), ack="stored", timeout=2).spooled
    scene.world.sleep(100)
    recorder.refusal, recorder.is_deaf = None, False
    assert scene.session.put("fleet/1", "3", ack="stored", timeout=2).spooled
    scene.world.sleep(0.2)  # it reaches subscribers, if it was sent
    assert spool.drain(60)
    assert payloads(scene) == ["0", "1", "2", "3"]


def test_what_a_recorder_never_takes_is_given_up_and_said(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    spool = scene.session.declare_spool()
    scene.session.put("fleet/1", "0", ack="stored")
    recorder = SmallRecorder(scene.node, scene.directory)
    recorder.refusal, recorder.refusals_count = "invalid", 1
    assert spool.drain(5)
    assert spool.stats().invalid_count == 1
    assert "given up" in caplog.text
    recorder.refusal = "invalid"
    recorder.refusals_count = -1
    with pytest.raises(NotStoredError, match="invalid"):
        scene.session.put("fleet/1", "0", ack="stored")


def test_a_key_that_nobody_records_does_not_hold_up_others(scene: Scene) -> None:
    spool = scene.session.declare_spool()
    scene.session.put("ship/1", "0", ack="stored")
    scene.session.put("fleet/1", "1", ack="stored")
    scene.record("fleet/**")
    scene.world.sleep(2)
    assert payloads(scene) == ["1"]
    assert spool.stats().waiting_count == 1
    assert scene.session.put("fleet/1", "2", ack="stored").spooled
    scene.world.sleep(35)
    assert payloads(scene) == ["1", "2"]


class TestRoom:
    def test_memory_is_full(self, scene: Scene) -> None:
        spool = scene.session.declare_spool(max_bytes=100)
        for _ in range(2):
            scene.session.put("fleet/1", bytes(40), ack="stored")
        with pytest.raises(NotStoredError, match=r"141 octets .* 100 may: raise max_bytes") as it:
            scene.session.put("fleet/1", bytes(40), ack="stored")
        assert (it.value.recorder, it.value.reason) == ("spool", "full")
        assert spool.stats().full_count == 1
        scene.record()
        assert spool.drain(5)
        assert len(stored(scene.directory)) == 2  # subscribers had the third one

    def test_nothing_fits_and_nothing_waits(self, scene: Scene) -> None:
        spool = scene.session.declare_spool(max_bytes=10)
        with pytest.raises(NotStoredError, match="full"):
            scene.session.put("fleet/1", bytes(40), ack="stored")
        assert spool.drain(1)
        scene.record()
        assert not scene.session.put("fleet/1", bytes(40), ack="stored").spooled

    def test_a_disk_is_full_and_has_room_again(self, scene: Scene, tmp_path: Path) -> None:
        spool = scene.session.declare_spool(tmp_path / "spool", max_bytes=100_000)
        kept = 0

        def fill() -> None:
            nonlocal kept
            for n in range(1_000):
                scene.session.put(f"fleet/{n}", random.Random(n).randbytes(1_000), ack="stored")
                kept += 1

        with pytest.raises(NotStoredError, match="the quota is 100000") as caught:
            fill()
        assert caught.value.reason == "full"
        assert kept > 10
        scene.record()
        assert spool.drain(60)
        assert len(stored(scene.directory)) == kept
        shelf = spool._shelf
        assert isinstance(shelf, LogShelf)
        shelf._executor.submit(lambda: None).result()
        shelf._log.keep_house()  # a second passes in the real world
        assert shelf.length() < 50_000

    def test_old_samples_are_given_up_and_counted(
        self, scene: Scene, place: Path | None, caplog: pytest.LogCaptureFixture
    ) -> None:
        spool = scene.session.declare_spool(place, max_age=60)
        scene.session.put("fleet/1", "old", ack="stored")
        scene.world.sleep(100)
        scene.session.put("fleet/1", "new", ack="stored")
        scene.record()
        assert spool.drain(5)
        assert payloads(scene) == ["new"]
        assert spool.stats().expired_count == 1
        assert "waited too long" in caplog.text

    def test_samples_of_long_ago_are_given_up_by_how_long_they_waited(
        self, scene: Scene, place: Path | None
    ) -> None:
        """Measurements that are put later with their own timestamps were acknowledged and lost."""
        spool = scene.session.declare_spool(place, max_age=60)
        clock = scene.session.new_timestamp().id
        for number in range(3):
            stamp = elea.Timestamp(datetime.fromtimestamp(1_000 + number, UTC), clock)
            ack = scene.session.put("fleet/1", str(number), ack="stored", timestamp=stamp)
            assert ack.spooled
        assert spool.stats().oldest_age_ns < 60_000_000_000
        scene.record()
        assert spool.drain(5)
        assert payloads(scene) == ["0", "1", "2"]
        assert spool.stats().expired_count == 0

    def test_a_spool_that_cannot_be_read_for_a_while_goes_on_afterwards(
        self,
        scene: Scene,
        place: Path | None,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """One error of the disk ended forwarding for good, and came out of `stats`."""
        spool = scene.session.declare_spool(place)
        for number in range(3):
            scene.session.put("fleet/1", str(number), ack="stored")

        def read(_first: int, _count: int) -> NoReturn:
            raise OSError(errno.EMFILE, "no descriptor is free")

        with monkeypatch.context() as broken:
            broken.setattr(type(spool._shelf), "read", lambda _self, *args: read(*args))
            scene.record()
            assert not spool.drain(5)
            assert spool.stats().waiting_count == 3
            assert "cannot be read" in caplog.text
        assert spool.drain(60)
        assert payloads(scene) == ["0", "1", "2"]


class TestRestart:
    def test_the_next_one_forwards_what_the_last_one_left(
        self, scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO)
        with scene.session as session:
            session.declare_spool(tmp_path / "spool")
            for n in range(5):
                session.put("fleet/1", str(n), ack="stored", attachment="x", encoding="text/plain")
        assert "5 samples wait on disk" in caplog.text
        zid = str(scene.session.zid())
        scene.record()
        with scene.world.process("robot"), elea.open(CONNECT) as session:
            spool = session.declare_spool(tmp_path / "spool")
            assert "5 samples of before" in caplog.text
            assert spool.drain(5)
        assert payloads(scene) == ["0", "1", "2", "3", "4"]
        rows = [row for batch in LogReader(scene.directory).read(0, 0) for row in batch.to_pylist()]
        assert {row["zid"] for row in rows} == {zid}
        assert {row["encoding"] for row in rows} == {"text/plain"}
        assert {row["attachment"] for row in rows} == {b"x"}

    def test_after_a_crash_the_last_ones_are_forwarded_again_and_stored_once(
        self, scene: Scene, tmp_path: Path
    ) -> None:
        spool = scene.session.declare_spool(tmp_path / "spool")
        for n in range(10):
            scene.session.put("fleet/1", str(n), ack="stored")
        shelf = spool._shelf
        assert isinstance(shelf, LogShelf)
        shelf._write_down = lambda first: None  # type: ignore[method-assign]  # it never gets so far
        scene.record()
        assert spool.drain(5)
        scene.session.close()
        with scene.world.process("robot"), elea.open(CONNECT) as session:
            again = session.declare_spool(tmp_path / "spool")
            assert again.drain(5)
            assert again.stats().duplicate_count == 10
        assert payloads(scene) == [str(n) for n in range(10)]

    def test_how_far_it_came_is_written_down(self, scene: Scene, tmp_path: Path) -> None:
        scene.record()
        with scene.session as session:
            spool = session.declare_spool(tmp_path / "spool")
            session.put("ship/1", "0", ack="stored")  # waits on
            session.put("fleet/1", "1", ack="stored")
            scene.world.sleep(3)
            assert spool.stats().waiting_count == 1
        reader = LogReader(tmp_path / "spool")
        [consumer] = load(Log(tmp_path / "spool").disk, reader.log_id).consumers
        assert (consumer.name, consumer.offsets[0]) == ("spool", 0)

    def test_what_waits_in_memory_is_lost_and_that_is_said(
        self, scene: Scene, caplog: pytest.LogCaptureFixture
    ) -> None:
        spool = scene.session.declare_spool()
        scene.session.put("fleet/1", "0", ack="stored")
        drained = spool.drained()
        spool.undeclare()
        assert drained.result() is False
        assert "1 samples that waited in memory are lost" in caplog.text
        with pytest.raises(ClosedError):
            spool.undeclare()
        with scene.session.declare_spool() as other:  # there is room for another one
            assert other.drain()

    def test_what_the_disk_damaged_is_passed_and_said(
        self, scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        with scene.session as session:
            session.declare_spool(tmp_path / "spool")
            for n in range(5):
                session.put("fleet/1", str(n), ack="stored")
        [segment] = (tmp_path / "spool").rglob("*.arrows")
        octets = bytearray(segment.read_bytes())
        octets[len(octets) // 2] ^= 1  # in the third of five
        segment.write_bytes(octets)
        scene.record()
        with scene.world.process("robot"), elea.open(CONNECT) as session:
            spool = session.declare_spool(tmp_path / "spool")
            assert spool.drain(5)
            assert spool.stats().lost_count == 1
            assert spool.stats().forwarded_count == 4
        assert payloads(scene) == ["0", "1", "3", "4"]
        assert "samples are lost" in caplog.text


class TestDeclaring:
    def test_one_per_session(self, scene: Scene) -> None:
        scene.session.declare_spool()
        with pytest.raises(InvalidValueError, match="has one already"):
            scene.session.declare_spool()

    @pytest.mark.parametrize("wrong", [{"max_bytes": 0}, {"max_age": 0}])
    def test_numbers_are_positive(self, scene: Scene, wrong: dict[str, int]) -> None:
        with pytest.raises(InvalidValueError, match="positive"):
            scene.session.declare_spool(**wrong)  # type: ignore[arg-type]

    def test_a_spool_on_disk_needs_arrow(
        self, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "elea.session.spool_log", None)
        with pytest.raises(MissingDependencyError, match=r"elea\[arrow\]"):
            scene.session.declare_spool(tmp_path / "spool")
        assert scene.session.declare_spool().drain()  # one in memory does not

    def test_a_directory_has_one_owner(self, scene: Scene, tmp_path: Path) -> None:
        scene.session.declare_spool(tmp_path / "spool")
        with pytest.raises(StoreError, match="another process"):
            scene.node.declare_spool(tmp_path / "spool")

    def test_a_log_that_is_no_spool_is_left_alone(self, scene: Scene) -> None:
        recorder = scene.record()
        scene.session.put("fleet/1", "0", ack="stored")
        recorder.close()
        with pytest.raises(StoreError, match="with 1 rows, and no spool"):
            scene.session.declare_spool(scene.directory)
        Log(scene.directory).close()  # nobody holds it

    @pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="only Linux lists them")
    def test_a_closed_spool_on_disk_kept_descriptors(self, tmp_path: Path) -> None:
        before = sorted(os.listdir("/proc/self/fd"))
        shelf = LogShelf(tmp_path / "spool", 1_000_000, waits=True)
        assert len(os.listdir("/proc/self/fd")) > len(before)
        shelf.close()
        assert sorted(os.listdir("/proc/self/fd")) == before
        assert (shelf.read(0, 10), shelf.length()) == (([], 0), 0)

    def test_a_closed_session_has_none(self, scene: Scene, tmp_path: Path) -> None:
        scene.session.close()
        with pytest.raises(ClosedError):
            scene.session.declare_spool(tmp_path / "spool")
        LogShelf(tmp_path / "spool", 1_000_000, waits=True).close()  # nobody holds it
        assert "waiting_count=0" in repr(scene.node.declare_spool())


def test_coroutines(scene: Scene, place: Path | None) -> None:
    async def main() -> None:
        async with elea.aio.open(CONNECT) as session, session.declare_spool(place) as spool:
            puts = [session.put(f"fleet/{n}", str(n), ack="stored") for n in range(20)]
            acks = await asyncio.gather(*puts)
            assert all(ack.spooled for ack in acks)
            assert not await spool.drain(0.5)
            recorder.append(SmallRecorder(scene.node, scene.directory))
            assert await spool.drain(10)
            assert spool.stats().forwarded_count == 20

    recorder: list[SmallRecorder] = []
    scene.world.start("robot", main)
    scene.world.run()
    assert sorted(payloads(scene), key=int) == [str(n) for n in range(20)]


def test_threads_over_real_links_while_the_recorder_restarts(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    config = {"mode": "client", "connect": {"endpoints": [endpoint]}}
    with (
        elea.open({"mode": "router", "listen": {"endpoints": [endpoint]}}) as router,
        elea.open(config) as session,
    ):
        spool = session.declare_spool(tmp_path / "spool", live=False)
        recorder = SmallRecorder(router, tmp_path / "log")

        def put(key: int) -> list[bool]:
            return [
                session.put(f"fleet/{key}", str(n), ack="stored", timeout=60).durable
                for n in range(30)
            ]

        with ThreadPoolExecutor(6) as threads:
            puts = [threads.submit(put, key) for key in range(6)]
            recorder.close()
            recorder = SmallRecorder(router, tmp_path / "log")
            assert all(all(one.result(60)) for one in puts)
        assert spool.drain(60), spool.stats()
        recorder.close()
    rows = stored(tmp_path / "log")
    for key in range(6):
        assert [row.payload for row in rows if row.key == f"fleet/{key}"] == [
            str(n) for n in range(30)
        ]


def test_an_event_loop_over_real_links(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    config = {"mode": "client", "connect": {"endpoints": [endpoint]}}

    async def main(router: elea.Session) -> None:
        async with elea.aio.open(config) as session:
            spool = session.declare_spool(tmp_path / "spool")
            waiting = [session.put(f"fleet/{n}", str(n), ack="stored") for n in range(40)]
            assert all(ack.spooled for ack in await asyncio.gather(*waiting))
            recorder = await asyncio.to_thread(SmallRecorder, router, tmp_path / "log")
            assert await spool.drain(60), spool.stats()
            more = [session.put(f"fleet/{n}", "x", ack="stored", timeout=60) for n in range(40)]
            assert not any(ack.spooled for ack in await asyncio.gather(*more))
            await spool.undeclare()
        await asyncio.to_thread(recorder.close)

    with elea.open({"mode": "router", "listen": {"endpoints": [endpoint]}}) as router:
        asyncio.run(main(router))
    assert len(stored(tmp_path / "log")) == 80
