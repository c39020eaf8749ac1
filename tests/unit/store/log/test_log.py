"""A log on a real directory: append, read, rotate, trim, open again."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.store.log.rows import numbers_of, rows, stamp

from elea.errors import ClosedError, InvalidValueError, OffsetError, StoreError
from elea.limits import DEFAULT_LIMITS
from elea.store.log import consumers, index
from elea.store.log.disk import RealDisk
from elea.store.log.log import Log
from elea.store.log.manifest import NAMES
from elea.store.log.reader import Bounds, LogReader
from elea.store.log.record import seed_of
from elea.store.log.schema import SCHEMA
from elea.store.log.segment import DATA, KEYS, Examination, Segment, first_seqs, stem_of
from elea.store.log.settings import LogSettings
from elea.store.log.writer import Stored, Writer, shard_of

FREE = LogSettings(low_water_percent=0)
SMALL = LogSettings(segment_len=1, low_water_percent=0)  # each block is a segment


def writer_on(path: Path, settings: LogSettings = FREE, now_ns: int = 0) -> Writer:
    return Writer(RealDisk(path, writable=True), settings, lambda: now_ns)


def filled(path: Path, blocks_count: int, settings: LogSettings = FREE) -> Writer:
    """A log of blocks of ten rows."""
    writer = writer_on(path, settings)
    for number in range(blocks_count):
        writer.commit([rows(10 * number, 10)])
    return writer


def test_what_is_appended_is_read_by_number(tmp_path: Path) -> None:
    with Log(tmp_path, FREE) as log:
        first = log.append(rows(0, 10)).result()
        second = log.append(rows(10, 5)).result()
    assert first == Stored({0: (0, 10)})
    assert second == Stored({0: (10, 15)})
    reader = LogReader(tmp_path)
    assert reader.bounds(0) == Bounds(0, 15)
    assert numbers_of(list(reader.read(0, 0))) == [*range(15)]
    assert numbers_of(list(reader.read(0, 7, 12))) == [*range(7, 12)]
    [batch] = reader.read(0, 12, 13, columns=["sn"], position=True)
    assert batch.to_pylist() == [{"sn": 12, "shard": 0, "seq": 12}]


def test_a_segment_is_an_arrow_stream(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    with pa.OSFile(str(tmp_path / (stem_of(0, 0) + DATA))) as file:
        table = pa.ipc.open_stream(file).read_all()
    assert table["sn"].to_pylist() == [*range(30)]


def zeros_of(path: Path, writer: Writer) -> int:
    """How many octets, all of them zero, a segment has after its blocks."""
    disk, seed = RealDisk(path, writable=False), seed_of(writer.manifest.log_id, 0)
    assert Examination(disk, 0, 0, seed).damage == []
    end = Segment(disk, 0, 0, seed).records[-1].end
    octets = (path / (stem_of(0, 0) + DATA)).read_bytes()[end:]
    assert not any(octets)
    return len(octets)


def test_after_small_blocks_there_is_room_that_nobody_takes_for_rows(tmp_path: Path) -> None:
    writer = filled(tmp_path, 3)
    reader = LogReader(tmp_path)
    assert zeros_of(tmp_path, writer) > 0
    with pa.OSFile(str(tmp_path / (stem_of(0, 0) + DATA))) as file:
        assert pa.ipc.open_stream(file).read_all()["sn"].to_pylist() == [*range(30)]
    for number in range(3, 60):  # past the room, and seen by who mapped it before
        writer.commit([rows(10 * number, 10)])
        assert numbers_of(list(reader.read(0, 10 * number))) == [
            *range(10 * number, 10 * number + 10)
        ]
    writer.commit([rows(600, 20_000)])  # this one needs no room after it
    assert zeros_of(tmp_path, writer) == 0
    writer.commit([rows(20_600, 1)])
    assert zeros_of(tmp_path, writer) > 0
    writer.close()
    assert zeros_of(tmp_path, writer) == 0
    assert numbers_of(list(LogReader(tmp_path).read(0, 0))) == [*range(20_601)]


def test_the_room_that_a_killed_writer_left_is_no_loss(tmp_path: Path) -> None:
    killed = filled(tmp_path / "old", 3)
    shutil.copytree(tmp_path / "old", tmp_path / "new")  # as after a kill: nothing was closed
    again = writer_on(tmp_path / "new")
    assert (again.report.cut_len, again.report.damage) == (0, [])
    again.commit([rows(30, 10)])
    again.close()
    killed.close()
    assert numbers_of(list(LogReader(tmp_path / "new").read(0, 0))) == [*range(40)]


def _claim(log: Log, first: int) -> None:
    """Claim it for a row, once the log's own threads let go: they write, or look for old rows."""
    deadline_s = time.monotonic() + 60
    while not log.claim(rows(first, 1)):
        assert time.monotonic() < deadline_s, "the log is not free"


def test_a_log_is_claimed_when_nobody_writes(tmp_path: Path) -> None:
    with Log(tmp_path, FREE) as log:
        _claim(log, 0)
        assert not log.claim(rows(1, 1)), "one at a time"
        waiting = log.append(rows(1, 1))
        assert not waiting.done()
        assert log.store_claimed(rows(0, 1)) == Stored({0: (0, 1)})
        assert waiting.result() == Stored({0: (1, 2)})
        with pytest.raises(InvalidValueError):
            log.claim(rows(2, 1).drop_columns(["sn"]))
        _claim(log, 2)
        closing = threading.Thread(target=log.close)
        closing.start()
        assert log.store_claimed(rows(2, 1)) == Stored({0: (2, 3)})
        closing.join()
        assert not log.claim(rows(3, 1))
    assert numbers_of(list(LogReader(tmp_path).read(0, 0))) == [0, 1, 2]


def test_long_rows_in_long_blocks_are_not_compressed(tmp_path: Path) -> None:
    text = b"".join(b'{"x": %d, "y": %d},' % (one * one, one % 17) for one in range(60))[:1_000]
    shares = []
    for name, count in (("slow", 3_000), ("fast", 6_000)):
        batch = rows(0, count)
        payloads = [b"%d:" % number + text for number in range(count)]
        batch = batch.set_column(2, SCHEMA.field("payload"), pa.array(payloads, pa.binary()))
        with Log(tmp_path / name, LogSettings(compression="zstd", low_water_percent=0)) as log:
            log.store(batch)
            shares.append(log.used_len / batch.nbytes)
        [found] = LogReader(tmp_path / name).read(0, 0, columns=["payload"])
        assert found.column("payload").to_pylist() == payloads
    assert shares[0] < 0.8 < shares[1]


def test_rows_of_a_log_without_compression_are_not_copied(tmp_path: Path) -> None:
    plain = LogSettings(compression="none", low_water_percent=0)
    writer = writer_on(tmp_path, plain)
    writer.commit([rows(0, 1000)])
    writer.close()
    before = pa.total_allocated_bytes()
    [batch] = LogReader(tmp_path).read(0, 0)
    assert batch.nbytes > 50_000
    assert pa.total_allocated_bytes() - before < 10_000
    assert numbers_of([batch]) == [*range(1000)]


@pytest.mark.parametrize("verb", ["append", "store", "both"])
def test_many_appenders_share_a_commit(verb: str, tmp_path: Path) -> None:
    found: list[tuple[int, int]] = []

    def append(log: Log, number: int) -> None:
        for turn in range(20):
            first = 1000 * number + 10 * turn
            if verb == "store" or (verb == "both" and number % 2):
                where = log.store(rows(first, 10))
            else:
                where = log.append(rows(first, 10)).result()
            found.append((first, where.ranges[0][0]))

    with Log(tmp_path, FREE) as log:
        threads = [threading.Thread(target=append, args=(log, n)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    reader = LogReader(tmp_path)
    assert reader.bounds(0).end == 8 * 20 * 10
    for first, seq in found:
        assert numbers_of(list(reader.read(0, seq, seq + 10))) == [*range(first, first + 10)]


@pytest.mark.parametrize("verb", ["append", "store"])
def test_who_is_told_may_use_the_log(verb: str, tmp_path: Path) -> None:
    """The writer is free when results are told: nothing that is done then waits for itself."""
    told = threading.Event()

    def again(_: object) -> None:
        log.flush()
        log.store(rows(10, 10))
        told.set()

    with Log(tmp_path, FREE) as log:
        future = log.append(rows(0, 10), wake=verb == "append")
        future.add_done_callback(again)
        if verb == "store":
            log.finish(future)
        assert told.wait(20)
        assert log.ends() == [20]


def test_rows_go_to_shards_by_key(tmp_path: Path) -> None:
    writer = writer_on(tmp_path, LogSettings(shards_count=4, low_water_percent=0))
    [first, second] = writer.commit([rows(0, 40, 10), rows(40, 40, 10)])
    writer.close()
    reader = LogReader(tmp_path)
    seen: list[int] = []
    for shard in range(4):
        batches = list(reader.read(shard, 0))
        for batch in batches:
            assert {shard_of(key, 4) for key in batch["key"].to_pylist()} == {shard}
        seen += numbers_of(batches)
        if shard in second.ranges:
            assert second.ranges[shard][0] == first.ranges[shard][1]
            low, high = second.ranges[shard]
            assert all(one >= 40 for one in numbers_of(list(reader.read(shard, low, high))))
    assert sorted(seen) == [*range(80)]
    assert numbers_of(list(reader.select("k/3"))) == [*range(3, 80, 10)]


def test_wrong_columns_are_refused(tmp_path: Path) -> None:
    with Log(tmp_path, FREE) as log:
        with pytest.raises(InvalidValueError, match="saw the columns"):
            log.append(rows(0, 1).select(["key", "kind"]))
        with pytest.raises(InvalidValueError, match="saw column"):
            log.append(rows(0, 1).select(["kind", "key"]))
    with pytest.raises(ClosedError):
        log.append(rows(0, 1))


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system tells no holders")
def test_the_process_that_has_the_lock_of_a_log_is_named(tmp_path: Path) -> None:
    """It was `another process`, which one had to be found."""
    writer = writer_on(tmp_path)
    try:
        with pytest.raises(StoreError, match=rf"another process \({os.getpid()}\) is writing"):
            writer_on(tmp_path)
    finally:
        writer.close()


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    with Log(tmp_path, FREE) as log:
        with pytest.raises(StoreError, match="another process"):
            Log(tmp_path, FREE)
        log.append(rows(0, 1)).result()
    with Log(tmp_path, FREE) as log:
        assert log.ends() == [1]


def test_no_log_no_reader(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no log there"):
        LogReader(tmp_path)
    with pytest.raises(StoreError, match=r"no log there: .*nowhere: No such file or directory$"):
        LogReader(tmp_path / "nowhere")


def test_a_log_goes_on_where_it_was(tmp_path: Path) -> None:
    for turn in range(4):
        writer = writer_on(tmp_path, LogSettings(segment_len=12_000, low_water_percent=0))
        assert writer.manifest.epoch == turn + 1
        assert writer.report.damage == []
        for number in range(5):
            writer.commit([rows(50 * turn + 10 * number, 10)])
        writer.close()
    reader = LogReader(tmp_path)
    assert numbers_of(list(reader.read(0, 0))) == [*range(200)]
    assert len(first_seqs(RealDisk(tmp_path, writable=False), 0)) > 1


def test_segments_are_closed_by_age(tmp_path: Path) -> None:
    now = [0]
    disk = RealDisk(tmp_path, writable=True)
    writer = Writer(disk, LogSettings(segment_age_ns=100, low_water_percent=0), lambda: now[0])
    writer.commit([rows(0, 1)])
    now[0] = 99
    writer.commit([rows(1, 1)])
    assert first_seqs(disk, 0) == [0]
    now[0] = 100
    writer.commit([rows(2, 1)])
    assert first_seqs(disk, 0) == [0, 2]
    writer.close()


def test_rows_that_are_not_there(tmp_path: Path) -> None:
    filled(tmp_path, 2).close()
    with pytest.raises(OffsetError, match=r"row 21 of shard 0 is not written yet; .* 0 to 19"):
        LogReader(tmp_path).read(0, 0, 21)


def listed(path: Path, writer: Writer) -> None:
    disk = RealDisk(path, writable=True)
    for segment in writer.unlisted():
        index.build(disk, segment)
    assert list(writer.unlisted()) == []


@pytest.mark.parametrize("with_index", [True, False])
def test_by_key_and_time(tmp_path: Path, with_index: bool) -> None:
    writer = writer_on(tmp_path, LogSettings(segment_len=9_000, low_water_percent=0))
    for number in range(10):
        writer.commit([rows(10 * number, 10, keys_count=7)])
    writer.commit([rows(1000, 4, keys_count=500)])  # k/0 to k/3
    if with_index:
        listed(tmp_path, writer)
        assert list(tmp_path.glob(f"*/*{KEYS}"))
    reader = LogReader(tmp_path)
    assert numbers_of(list(reader.select("k/3"))) == [*range(3, 100, 7), 1003]
    assert numbers_of(list(reader.select("k/$*3"))) == [*range(3, 100, 7), 1003]
    assert numbers_of(list(reader.select("other/**"))) == []
    within = reader.select("**", since=stamp(15), until=stamp(32))
    assert numbers_of(list(within)) == [*range(15, 32)]
    within = reader.select("k/1", since=stamp(15), until=stamp(32), columns=["sn"])
    assert [row["sn"] for batch in within for row in batch.to_pylist()] == [15, 22, 29]
    assert reader.keys("k/*")["k/3"] == 15
    assert len(reader.keys()) == 7
    for key, number in [("k/3", 1003), ("k/6", 97), ("k/4", 95)]:
        latest = reader.latest(key)
        assert latest is not None
        assert numbers_of([latest]) == [number]
    assert reader.latest("k/7") is None
    writer.close()


def test_the_latest_row_has_the_highest_timestamp(tmp_path: Path) -> None:
    writer = writer_on(tmp_path, SMALL)
    for number in (50, 90, 20, 70):
        writer.commit([rows(number, 1, keys_count=10)])
    reader = LogReader(tmp_path)
    for _ in range(2):
        latest = reader.latest("k/0", columns=["sn"])
        assert latest is not None
        assert latest.to_pylist() == [{"sn": 90}]
        listed(tmp_path, writer)
    writer.close()


def test_rows_without_timestamp_have_the_time_of_their_reception(tmp_path: Path) -> None:
    writer = writer_on(tmp_path)
    writer.commit([rows(0, 10, stamped=False), rows(10, 10)])
    reader = LogReader(tmp_path)
    span = reader.select("**", since=stamp(5) - 5, until=stamp(15) - 5)
    assert numbers_of(list(span)) == [*range(5, 15)]
    writer.close()


def test_follow_sees_what_comes(tmp_path: Path) -> None:
    seen: list[int] = []
    with Log(tmp_path, FREE) as log:
        log.append(rows(0, 3)).result()
        reader = LogReader(tmp_path)

        def follow() -> None:
            for batch in reader.follow(0, 1, wait=lambda seq: log.wait(0, seq)):
                seen.extend(numbers_of([batch]))

        thread = threading.Thread(target=follow)
        thread.start()
        for number in range(3, 30):
            log.append(rows(number, 1)).result()
    thread.join()
    assert seen == [*range(1, 30)]


def test_follow_looks_by_itself(tmp_path: Path) -> None:
    writer = filled(tmp_path, 1)
    following = LogReader(tmp_path).follow(0, 0)
    assert numbers_of([next(following)]) == [*range(10)]
    timer = threading.Timer(0.05, lambda: writer.commit([rows(10, 2)]))
    timer.start()
    assert numbers_of([next(following)]) == [10, 11]
    timer.join()
    writer.close()


def test_retention_by_size_wins_over_consumers_and_says_so(tmp_path: Path) -> None:
    settings = LogSettings(segment_len=1, retain_len=12_000, low_water_percent=0)
    writer = filled(tmp_path, 10, settings)
    disk = RealDisk(tmp_path, writable=True)
    log_id = writer.manifest.log_id
    consumers.commit(disk, "slow", log_id, {0: 15}, now_ns=0)
    reader = LogReader(tmp_path)
    reading = reader.read(0, 0)
    first = next(reading)
    trimmed = writer.trim()
    assert trimmed
    assert writer.used_len <= 12_000
    assert trimmed[0].unread == ()
    assert trimmed[1].unread == (("slow", 5),)
    assert writer.report.unread_count == sum(rows for one in trimmed for _, rows in one.unread)
    # What was read goes on being there; what was not says that it was trimmed.
    assert numbers_of([first]) == [*range(10)]
    with pytest.raises(OffsetError, match="was trimmed"):
        list(reading)
    bounds = reader.bounds(0)
    assert numbers_of(list(reader.read(0, bounds.first))) == [*range(bounds.first, 100)]
    with pytest.raises(OffsetError, match="was trimmed"):
        reader.read(0, 0)
    writer.close()
    assert writer_on(tmp_path, settings).report.damage == []


def test_retention_by_age_waits_for_consumers(tmp_path: Path) -> None:
    now = [stamp(0) >> 32]
    disk = RealDisk(tmp_path, writable=True)
    settings = LogSettings(segment_len=1, retain_age_ns=10**9, low_water_percent=0)
    writer = Writer(disk, settings, lambda: now[0] * 10**9)
    for number in range(5):
        writer.commit([rows(10 * number, 10)])
    log_id = writer.manifest.log_id
    consumers.commit(disk, "one", log_id, {0: 20}, now_ns=now[0] * 10**9, lease_ns=100 * 10**9)
    assert writer.trim() == []
    now[0] += 10
    assert [one.segment.first_seq for one in writer.trim()] == [0, 10]
    assert writer.report.unread_count == 0
    now[0] += 100  # the lease is over
    assert [one.segment.first_seq for one in writer.trim()] == [20, 30]  # the last one stays
    writer.close()


def test_a_lease_of_a_clock_that_was_ahead_held_rows_until_then(tmp_path: Path) -> None:
    """It lasts from when its commit was first seen; a new commit begins it again."""
    start = stamp(0) >> 32
    now = [start]
    disk = RealDisk(tmp_path, writable=True)
    settings = LogSettings(segment_len=1, retain_age_ns=10**9, low_water_percent=0)
    writer = Writer(disk, settings, lambda: now[0] * 10**9)
    for number in range(5):
        writer.commit([rows(10 * number, 10)])
    log_id = writer.manifest.log_id

    def commit(at_s: int, seq: int) -> None:
        lease_ns = 100 * 10**9
        consumers.commit(disk, "one", log_id, {0: seq}, now_ns=at_s * 10**9, lease_ns=lease_ns)

    commit(start + 86_400, 20)
    now[0] += 10
    assert [one.segment.first_seq for one in writer.trim()] == [0, 10]
    now[0] += 99
    commit(start + 86_401, 30)
    assert [one.segment.first_seq for one in writer.trim()] == [20]
    now[0] += 99
    assert writer.trim() == []
    now[0] += 1
    assert [one.segment.first_seq for one in writer.trim()] == [30]
    writer.close()


@pytest.mark.parametrize("packing", ["zstd", "none"])
def test_retention_by_age_does_not_believe_the_clocks_of_publishers(
    tmp_path: Path, packing: str
) -> None:
    now = [stamp(0) >> 32]
    disk = RealDisk(tmp_path, writable=True)
    settings = LogSettings(
        segment_len=1, retain_age_ns=15 * 10**9, low_water_percent=0, packing=packing, pack_age_ns=0
    )

    def opened() -> Writer:
        return Writer(disk, settings, lambda: now[0] * 10**9)

    writer = opened()
    for year in (0, 60, 10):  # 1970, later than now, and about now
        batch = rows(10 * year, 10)
        stamps = pa.array([((year * 31_556_952) << 32) + 1] * 10, pa.int64())
        place = batch.schema.names.index("hlc")
        writer.commit([batch.set_column(place, batch.schema.field(place), stamps)])
        now[0] += 5
    assert [one.segment.first_seq for one in writer.trim()] == []
    while (segment := writer.begin_packing()) is not None:  # carried through packing,
        writer.end_packing(done=writer.pack(segment, DEFAULT_LIMITS))
    writer.close()
    for path in tmp_path.glob("*/*.idx"):  # a new index, another time of the file,
        os.utime(path.with_suffix(".arrows"))
        path.write_bytes(b"")
    writer = opened()  # and recovery
    assert [one.segment.first_seq for one in writer.trim()] == []
    now[0] += 1
    assert [one.segment.first_seq for one in writer.trim()] == [0]
    now[0] += 5
    assert [one.segment.first_seq for one in writer.trim()] == [10]
    writer.close()


def test_retention_of_what_everybody_has_read(tmp_path: Path) -> None:
    settings = LogSettings(segment_len=1, retain_consumed=True, low_water_percent=0)
    writer = filled(tmp_path, 5, settings)
    assert writer.trim() == []  # nobody reads
    disk = RealDisk(tmp_path, writable=True)
    for name, seq in [("one", 40), ("two", 25)]:
        consumers.commit(disk, name, writer.manifest.log_id, {0: seq}, now_ns=0)
    assert [one.segment.first_seq for one in writer.trim()] == [0, 10]
    consumers.forget(disk, "two")
    assert [one.segment.first_seq for one in writer.trim()] == [20, 30]
    writer.close()


def test_consumers_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    writer = filled(tmp_path, 1)
    (tmp_path / "consumers" / "bad.json").write_text("{")
    writer.trim()
    assert writer.report.unreadable_consumers == ["bad.json"]
    for name in ("../x", "", "a/b", ".x", "x" * 200):
        with pytest.raises(InvalidValueError, match="name of a consumer"):
            consumers.commit(
                RealDisk(tmp_path, writable=True), name, writer.manifest.log_id, {}, now_ns=0
            )
    writer.close()


def test_a_quota_refuses_and_nothing_is_half_written(tmp_path: Path) -> None:
    writer = writer_on(tmp_path, LogSettings(quota_len=20_000, low_water_percent=0))
    number = 0
    while writer.used_len < 20_000 - rows(0, 10).nbytes:
        writer.commit([rows(10 * number, 10)])
        number += 1
    with pytest.raises(StoreError, match="the quota is 20000"):
        writer.commit([rows(10 * number, 10)])
    assert number > 2
    assert writer.broken is None
    writer.close()
    assert numbers_of(list(LogReader(tmp_path).read(0, 0))) == [*range(10 * number)]


def test_the_low_water_mark_refuses_before_the_disk_does(tmp_path: Path) -> None:
    writer = writer_on(tmp_path, LogSettings(low_water_percent=100))
    with pytest.raises(StoreError, match="100 % are to stay free"):
        writer.commit([rows(0, 10)])
    writer.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: LogSettings(shards_count=0),
        lambda: LogSettings(compression="zip"),
        lambda: LogSettings(segment_len=0),
        lambda: LogSettings(low_water_percent=101),
    ],
)
def test_settings_that_are_not_legal(make: Callable[[], LogSettings]) -> None:
    with pytest.raises(InvalidValueError, match="legal"):
        make()


def test_a_symbolic_link_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = tmp_path / "log"
    root.mkdir()
    (root / "shard-0000").symlink_to(outside)
    with pytest.raises(OSError, match=r"symbolic|directory"):
        writer_on(root)
    assert list(outside.iterdir()) == []


def test_a_manifest_is_there_twice(tmp_path: Path) -> None:
    filled(tmp_path, 2).close()
    (tmp_path / NAMES[0]).write_text("{}")
    writer = writer_on(tmp_path)
    assert (writer.manifest.epoch, writer.ends()) == (2, [20])
    writer.close()
    for name in NAMES:
        (tmp_path / name).write_text("{}")
    with pytest.raises(StoreError, match="not the manifest"):
        writer_on(tmp_path)


def test_the_schema_is_that_of_arrow_deliveries() -> None:
    from elea.session.arrow import record_batch
    from elea.session.columns import Columns

    assert record_batch(Columns()).schema == SCHEMA


def test_threads_that_list_one_directory_do_not_disturb_each_other(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path, writable=True)
    disk.make_directory("shard-0000")
    for number in range(50):
        disk.open(f"shard-0000/{number:02}").close()
    wrong: list[int] = []

    def look() -> None:
        for _ in range(300):
            if len(disk.names("shard-0000")) != 50:
                wrong.append(1)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
