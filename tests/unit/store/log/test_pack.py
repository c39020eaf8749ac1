"""Packing: closed segments are written once more, and nobody who reads notices."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
import time
import uuid
from pathlib import Path

import pytest
from chaos.disk import FaultDisk, MemoryPlatter, PowerLossError
from tests.unit.cli.ends import eventually
from tests.unit.store.log.rows import numbers_of, rows, stamp
from tests.unit.store.log.test_log import listed, writer_on

from elea.errors import CorruptLogError, StoreError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.store.log import consumers
from elea.store.log.disk import RealDisk
from elea.store.log.log import Log
from elea.store.log.manifest import NAMES, read_manifest, write_manifest
from elea.store.log.pack import pack
from elea.store.log.reader import LogReader
from elea.store.log.record import seed_of
from elea.store.log.retention import Kept, is_short_of_room, to_pack
from elea.store.log.segment import DATA, KEYS, Segment, first_seqs, stem_of, stem_on
from elea.store.log.settings import LogSettings
from elea.store.log.verify import repair, verify
from elea.store.log.writer import Writer

ROWS_COUNT = 120
HOUR_NS = 3_600_000_000_000
LATER_NS = 2 * HOUR_NS  # when the files that were packed are gone
SETTINGS = LogSettings(segment_len=60_000, pack_age_ns=0, low_water_percent=0)
FEW = Limits(log_block_rows_count=50)


class Clock:
    """Tells the time of a writer."""

    def __init__(self) -> None:
        self.now_ns = time.time_ns() + HOUR_NS

    def __call__(self) -> int:
        return self.now_ns


def slow(path: Path, clock: Clock, settings: LogSettings = SETTINGS) -> Writer:
    """A log whose rows were committed one by one, in some closed segments and one that is not."""
    writer = Writer(RealDisk(path, writable=True), settings, clock)
    for number in range(ROWS_COUNT):
        writer.commit([rows(number, 1)])
    writer.trim()
    return writer


def pack_all(path: Path, writer: Writer, limits: Limits = DEFAULT_LIMITS) -> int:
    disk = RealDisk(path, writable=True)
    count = 0
    while (segment := writer.begin_packing()) is not None:
        seed = seed_of(writer.manifest.log_id, segment.shard)
        assert pack(disk, segment.shard, segment.first_seq, seed, "zstd", limits)
        writer.end_packing(done=True)
        count += 1
    return count


def closed_len(path: Path) -> int:
    """The octets of the segments that are not the last one, once each."""
    disk = RealDisk(path, writable=False)
    return sum(
        disk.size(stem_on(disk, 0, first_seq) + DATA) for first_seq in first_seqs(disk, 0)[:-1]
    )


def writer_len(path: Path) -> int:
    """The octets that the next writer counts."""
    writer = writer_on(path)
    used_len = writer.used_len
    writer.close()
    return used_len


def names(path: Path) -> list[str]:
    return sorted(one.name for one in (path / "shard-0000").iterdir())


def latest_of(reader: LogReader) -> object:
    found = reader.latest("k/1")
    assert found is not None
    return found.to_pylist()


def listed_of(reader: LogReader) -> list[object]:
    return [row for batch in reader.select("k/2") for row in batch.to_pylist()]


def test_packed_rows_are_the_same_rows_in_fewer_octets(tmp_path: Path) -> None:
    clock = Clock()
    writer = slow(tmp_path, clock)
    listed(tmp_path, writer)
    before, firsts = closed_len(tmp_path), first_seqs(RealDisk(tmp_path, writable=False), 0)
    assert len(firsts) > 3
    reader = LogReader(tmp_path)
    expected = [latest_of(reader), *listed_of(reader)]
    used_len = writer.used_len
    assert pack_all(tmp_path, writer, FEW) == len(firsts) - 1 == writer.report.packed_count
    assert closed_len(tmp_path) < before / 5
    clock.now_ns += LATER_NS
    writer.trim()
    assert writer.used_len < used_len / 2
    assert [one for one in names(tmp_path) if "packed" not in one] == [
        f"{firsts[-1]:020}{suffix}" for suffix in (".arrows", ".idx")
    ]
    for fresh in (reader, LogReader(tmp_path)):
        assert numbers_of(list(fresh.read(0, 0))) == [*range(ROWS_COUNT)]
        [batch] = fresh.read(0, 7, 8, columns=["sn"], position=True)
        assert batch.to_pylist() == [{"sn": 7, "shard": 0, "seq": 7}]
        assert [latest_of(fresh), *listed_of(fresh)] == expected
        within = fresh.select("**", since=stamp(15), until=stamp(32))
        assert numbers_of(list(within)) == [*range(15, 32)]
        assert fresh.keys() == {f"k/{number}": ROWS_COUNT // 3 for number in range(3)}
        blocks_count = fresh.stat(0).blocks_count
    assert blocks_count <= 3 + ROWS_COUNT - firsts[-1]
    assert verify(RealDisk(tmp_path, writable=False)).damage == []
    writer.commit([rows(ROWS_COUNT, 5)])
    writer.close()
    again = writer_on(tmp_path)
    assert again.report.damage == []
    assert again.ends() == [ROWS_COUNT + 5]
    unlisted = [segment.first_seq for segment in again.unlisted()]
    assert unlisted in ([], firsts[-1:]), "the lists of keys came with them"
    again.close()


def test_blocks_have_so_many_rows_at_most(tmp_path: Path) -> None:
    settings = LogSettings(segment_len=200_000, pack_age_ns=0, low_water_percent=0)
    writer = slow(tmp_path, Clock(), settings)
    assert pack_all(tmp_path, writer, Limits(log_block_rows_count=16)) == 1
    reader = LogReader(tmp_path)
    counts = [record.rows_count for _, record in reader.blocks(0, 0, 60)]
    assert set(counts[:-1]) == {16}
    writer.close()


def test_rows_that_were_compressed_do_not_become_long_blocks(tmp_path: Path) -> None:
    settings = LogSettings(segment_len=3_000, compression="zstd", pack_age_ns=0, packing="lz4")
    writer = Writer(RealDisk(tmp_path, writable=True), settings, Clock())
    for number in range(4):
        writer.commit([rows(400 * number, 400)])
    writer.trim()
    assert pack_all(tmp_path, writer, Limits(log_block_len=12_000)) == 3
    reader = LogReader(tmp_path)
    assert max(record.rows_count for _, record in reader.blocks(0, 0, 1_200)) < 200
    assert numbers_of(list(reader.read(0, 0))) == [*range(1_600)]
    writer.close()


def test_who_is_reading_reads_on(tmp_path: Path) -> None:
    clock = Clock()
    writer = slow(tmp_path, clock)
    reader = LogReader(tmp_path)
    by_number, by_key = reader.read(0, 0), reader.select("k/1")
    follower = reader.follow(0, 0, wait=lambda _: False)
    found = {
        "read": numbers_of([next(by_number)]),
        "select": numbers_of([next(by_key)]),
        "follow": numbers_of([next(follower)]),
    }
    other = LogReader(tmp_path)
    slow_start = other.read(0, 0)
    assert pack_all(tmp_path, writer) > 1
    clock.now_ns += LATER_NS
    writer.trim()
    assert numbers_of(list(reader.read(0, 3, 50))) == [*range(3, 50)]
    found["read"] += numbers_of(list(by_number))
    found["select"] += numbers_of(list(by_key))
    found["follow"] += numbers_of(list(follower))
    assert found["read"] == found["follow"] == [*range(ROWS_COUNT)]
    assert found["select"] == [*range(1, ROWS_COUNT, 3)]
    assert numbers_of(list(slow_start)) == [*range(ROWS_COUNT)]
    writer.close()


def test_who_reads_the_segment_that_is_written_finds_it_when_it_is_packed(tmp_path: Path) -> None:
    clock = Clock()
    writer = Writer(RealDisk(tmp_path, writable=True), SETTINGS, clock)
    for number in range(10):
        writer.commit([rows(number, 1)])
    reader = LogReader(tmp_path)
    reading = reader.read(0, 0)
    assert reader.latest("k/0") is not None
    for number in range(10, ROWS_COUNT):
        writer.commit([rows(number, 1)])
    writer.trim()
    assert pack_all(tmp_path, writer) > 1
    clock.now_ns += LATER_NS
    writer.trim()
    assert numbers_of(list(reading)) == [*range(10)]
    assert numbers_of(list(reader.read(0, 0))) == [*range(ROWS_COUNT)]
    writer.close()


def test_what_is_trimmed_does_not_come_back(tmp_path: Path) -> None:
    settings = LogSettings(
        segment_len=60_000, pack_age_ns=0, retain_consumed=True, low_water_percent=0
    )
    clock = Clock()
    writer = slow(tmp_path, clock, settings)
    disk, log_id = RealDisk(tmp_path, writable=True), writer.manifest.log_id
    segment = writer.begin_packing()
    assert segment is not None
    offsets = {0: ROWS_COUNT}
    consumers.commit(disk, "reader", log_id, offsets, now_ns=clock.now_ns, lease_ns=HOUR_NS)
    assert writer.trim() == [], "somebody is packing the oldest"
    assert pack(disk, 0, segment.first_seq, seed_of(log_id, 0), "zstd", FEW)
    writer.end_packing(done=True)
    assert segment.stem + DATA in {f"shard-0000/{one}" for one in names(tmp_path)}
    trimmed = writer.trim()
    assert trimmed[0].segment.first_seq == segment.first_seq == 0
    first = trimmed[-1].segment.end_seq
    assert LogReader(tmp_path).bounds(0).first == first
    assert [one for one in names(tmp_path) if one < f"{first:020}"] == []
    writer.trim()
    last = Segment(disk, 0, first, seed_of(log_id, 0))
    assert writer.used_len == last.records[-1].end
    writer.close()


def test_a_damaged_segment_stays_as_it_is(tmp_path: Path) -> None:
    slow(tmp_path, Clock()).close()
    path = tmp_path / (stem_of(0, 0) + DATA)
    octets = bytearray(path.read_bytes())
    octets[5_000] ^= 1
    path.write_bytes(octets)
    writer = writer_on(tmp_path, SETTINGS, time.time_ns() + HOUR_NS)
    segment = writer.begin_packing()
    assert segment is not None
    disk = RealDisk(tmp_path, writable=True)
    seed = seed_of(writer.manifest.log_id, 0)
    with pytest.raises(CorruptLogError):
        pack(disk, 0, 0, seed, "zstd", DEFAULT_LIMITS)
    writer.end_packing(done=False)
    following = writer.begin_packing()
    assert following is not None
    assert following.first_seq > 0, "it is not tried again"
    writer.end_packing(done=False)
    writer.close()
    assert not [one for one in names(tmp_path) if "pack" in one]
    assert path.read_bytes() == octets
    assert repair(disk).lost_count == 1
    with pytest.raises(CorruptLogError):
        pack(disk, 0, 0, seed, "zstd", DEFAULT_LIMITS)


def test_a_packed_segment_that_is_damaged_is_repaired(tmp_path: Path) -> None:
    clock = Clock()
    writer = slow(tmp_path, clock)
    pack_all(tmp_path, writer, FEW)
    clock.now_ns += LATER_NS
    writer.trim()
    writer.close()
    path = tmp_path / (stem_of(0, 0, packed=True) + DATA)
    octets = bytearray(path.read_bytes())
    octets[-100] ^= 1
    path.write_bytes(octets)
    disk = RealDisk(tmp_path, writable=True)
    lost_count = verify(disk).lost_count
    assert lost_count > 0
    assert repair(disk).lost_count == lost_count
    told: list[object] = []
    reader = LogReader(tmp_path, told.append)
    assert len(numbers_of(list(reader.read(0, 0)))) == ROWS_COUNT - lost_count
    assert len(told) == 1


@pytest.mark.parametrize("error", ["room", "sync"])
def test_a_disk_that_refuses_keeps_what_was(error: str) -> None:
    disk = FaultDisk(MemoryPlatter(), random.Random(1))
    writer = Writer(disk, SETTINGS, lambda: 0, lambda: uuid.UUID(int=7))
    for number in range(ROWS_COUNT):
        writer.commit([rows(number, 1)])
    writer.trim()
    before = disk.names("shard-0000")
    segment = writer.begin_packing()
    assert segment is not None
    seed = seed_of(writer.manifest.log_id, 0)
    disk.free_len, disk.sync_errors = (2_000, 0) if error == "room" else (1 << 40, 1)
    with pytest.raises(OSError, match="no space" if error == "room" else "input/output"):
        pack(disk, 0, segment.first_seq, seed, "zstd", DEFAULT_LIMITS)
    disk.free_len = 1 << 40
    writer.end_packing(done=False)
    assert disk.names("shard-0000") == before
    writer.commit([rows(ROWS_COUNT, 1)])
    assert numbers_of(list(LogReader(disk).read(0, 0))) == [*range(ROWS_COUNT + 1)]


def test_a_loss_of_power_at_every_step() -> None:
    for steps_count in itertools.count(1):
        platter = MemoryPlatter()
        disk = FaultDisk(platter, random.Random(steps_count))
        writer = Writer(disk, SETTINGS, lambda: 0, lambda: uuid.UUID(int=7))
        for number in range(40):
            writer.commit([rows(number, 1)])
        writer.trim()
        segment = writer.begin_packing()
        assert segment is not None
        disk.steps_left = steps_count
        try:
            pack(disk, 0, segment.first_seq, seed_of(writer.manifest.log_id, 0), "zstd", FEW)
            writer.end_packing(done=True)
            writer._remove_replaced(writer._replaced[0])
        except PowerLossError:
            disk = FaultDisk(platter, random.Random(0))
            writer = Writer(disk, SETTINGS, lambda: 0)
            assert writer.report.damage == []
            assert len(disk.names("shard-0000")) <= 8
            assert numbers_of(list(LogReader(disk).read(0, 0))) == [*range(40)]
            continue
        assert numbers_of(list(LogReader(disk).read(0, 0))) == [*range(40)]
        assert steps_count > 15
        return


def test_a_log_packs_by_itself(tmp_path: Path) -> None:
    with Log(tmp_path, SETTINGS) as log:
        for number in range(ROWS_COUNT):
            log.store(rows(number, 1))
        log.keep_house()
        assert eventually(lambda: log.report().packed_count >= 2)
        assert numbers_of(list(LogReader(tmp_path).read(0, 0))) == [*range(ROWS_COUNT)]
    with Log(tmp_path, SETTINGS) as log:
        assert log.report().damage == []
        log.store(rows(ROWS_COUNT, 1))
    assert not [one for one in names(tmp_path) if one.startswith(f"{0:020}.arrows")]


@pytest.mark.parametrize("reason", ["disk", "damage"])
def test_what_a_log_could_not_pack_is_told_once(
    reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FaultDisk(MemoryPlatter(), random.Random(1))
    now_ns = 0
    settings = LogSettings(segment_len=1, pack_age_ns=HOUR_NS, low_water_percent=0)
    with Log(disk, settings, wall_ns=lambda: now_ns) as log:
        for number in range(2):
            log.store(rows(number, 1))
        log.keep_house()
        # The keys of both segments are listed first, by another thread.
        lists = {f"{number:020}{KEYS}" for number in range(2)}
        assert eventually(lambda: lists <= set(disk.names("shard-0000")))
        if reason == "disk":
            disk.sync_errors = 1
        else:
            file = disk.open(stem_of(0, 0) + DATA)
            file.write(1_500, b"damaged")
        now_ns = HOUR_NS
        while log.pack():
            pass
        assert log.report().packed_count == 0
        assert log.broken is None
        log.store(rows(2, 1))
    word = "input/output error" if reason == "disk" else "is damaged and was not packed"
    assert [word in one.message for one in caplog.records] == [True]


def test_an_end_does_not_wait_for_it(tmp_path: Path) -> None:
    writer = slow(tmp_path, Clock())
    disk, seed = RealDisk(tmp_path, writable=True), seed_of(writer.manifest.log_id, 0)
    assert not pack(disk, 0, 0, seed, "zstd", DEFAULT_LIMITS, lambda: True)
    assert not [one for one in names(tmp_path) if "pack" in one]
    writer.close()


def kept(first_seq: int, *, closed_ns: int = 0, blocks_count: int = 100) -> Kept:
    return Kept(0, first_seq, first_seq + 10, first_seq, 1_000_000, blocks_count, closed_ns)


ROOMY = (1_000, 1_000)


def test_what_is_packed_and_when() -> None:
    settings = LogSettings(pack_age_ns=100)
    segments = [kept(0, closed_ns=50), kept(10, closed_ns=60)]
    assert to_pack(segments, settings, 149, 100) is None
    assert to_pack(segments, settings, 150, 100) == segments[0]
    assert to_pack(segments, settings, 0, 0) == segments[0], "a clock that went back"
    assert to_pack(segments, LogSettings(packing="none"), 1_000, 100) is None
    same = LogSettings(compression="zstd")
    assert to_pack([kept(0, blocks_count=17)], same, 0, 0) is None
    assert to_pack([kept(0, blocks_count=18)], same, 0, 0) is not None


def test_when_room_is_short() -> None:
    settings = LogSettings()
    assert not is_short_of_room(1 << 60, (1_000, 100), settings)
    assert is_short_of_room(0, (1_000, 99), settings), "less than twice the low-water mark"
    for bounded in (LogSettings(quota_len=1_000), LogSettings(retain_len=1_000)):
        assert not is_short_of_room(500, ROOMY, bounded)
        assert is_short_of_room(501, ROOMY, bounded)


def test_what_was_packed_makes_room_before_rows_go(tmp_path: Path) -> None:
    slow(tmp_path, Clock()).close()
    used_len = writer_len(tmp_path)
    settings = dataclasses.replace(SETTINGS, retain_len=used_len, pack_age_ns=LATER_NS)
    writer = writer_on(tmp_path, settings, time.time_ns() + HOUR_NS)
    assert pack_all(tmp_path, writer, FEW) > 1, "they are not old, but room is short"
    assert writer.used_len > used_len, "twice there"
    assert writer.trim() == []
    assert writer.used_len < used_len / 2
    assert numbers_of(list(LogReader(tmp_path).read(0, 0))) == [*range(ROWS_COUNT)]
    writer.close()


def test_a_log_of_the_first_format_is_read(tmp_path: Path) -> None:
    for number, outcome in ((1, None), (4, "saw format 4 of a log; legal are 1 to 3")):
        writer_on(tmp_path / str(number)).close()
        disk = RealDisk(tmp_path / str(number), writable=True)
        write_manifest(disk, dataclasses.replace(read_manifest(disk), format=number))
        if outcome is None:
            assert LogReader(tmp_path / "1").bounds(0).end == 0
            writer_on(tmp_path / "1").close()
            text = json.loads((tmp_path / "1" / NAMES[0]).read_text())
            assert text["format"] == 2, "an older Elea would take packed files for rubbish"
        else:
            with pytest.raises(StoreError, match=outcome):
                LogReader(tmp_path / "4")
