"""Segments of other releases: each is read by the schema in its own head."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.unit.store.log.rows import numbers_of, rows
from tests.unit.store.log.test_format import extracted

from elea.errors import CorruptLogError, InvalidValueError, StoreError
from elea.spark.served import _Wanted
from elea.store.exchange.transfer import export_file
from elea.store.log.disk import RealDisk
from elea.store.log.head import FIRST, HEAD, made, read_head
from elea.store.log.log import Log, pack_log
from elea.store.log.ranges import ALL_TIME
from elea.store.log.reader import LogReader
from elea.store.log.schema import SCHEMA, TEXTS
from elea.store.log.segment import DATA, Damage, stem_of
from elea.store.log.settings import LogSettings
from elea.store.log.verify import repair, verify

SETTINGS = LogSettings(low_water_percent=0, segment_len=1, pack_age_ns=10**18)
SCORE = pa.field("score", pa.float64())
SITE = pa.field("site", TEXTS)
LATER = pa.schema([*SCHEMA, SCORE, SITE])
EARLIER = SCHEMA.remove(SCHEMA.get_field_index("attachment"))


@contextmanager
def release(schema: pa.Schema) -> Iterator[None]:
    """Logs are written as by a release whose rows have these columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elea.store.log.schema.SCHEMA", schema)
        patch.setattr("elea.store.log.manifest.HEAD", made(schema))
        yield


def later_rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    scores = pa.array([number / 2 for number in numbers], SCORE.type)
    sites = pa.array([f"s{number % 2}" for number in numbers]).dictionary_encode()
    return pa.RecordBatch.from_arrays([*rows(first, count).columns, scores, sites], schema=LATER)


def earlier_rows(first: int, count: int) -> pa.RecordBatch:
    return rows(first, count).select(EARLIER.names)


def later_log(path: Path) -> None:
    """Rows 0 to 9 in two segments."""
    with release(LATER), Log(path, SETTINGS) as log:
        log.store(later_rows(0, 5))
        log.store(later_rows(5, 5))


def table(path: Path, first: int = 0) -> pa.Table:
    return pa.Table.from_batches(LogReader(path).read(0, first))


def data_of(path: Path, first_seq: int) -> Path:
    return path / (stem_of(0, first_seq) + DATA)


def formats(path: Path) -> set[int]:
    return {json.loads((path / name).read_text())["format"] for name in ("log.json",)}


def test_columns_of_a_later_release_are_read_and_are_no_damage(tmp_path: Path) -> None:
    later_log(tmp_path)
    assert verify(RealDisk(tmp_path, writable=False)).damage == []
    reader = LogReader(tmp_path)
    assert reader.schema() == LATER
    found = table(tmp_path)
    assert found.schema == LATER
    assert numbers_of(found.to_batches()) == [*range(10)]
    assert found["score"].to_pylist() == [number / 2 for number in range(10)]
    assert found.select(SCHEMA.names).to_pylist() == rows(0, 10).to_pylist()
    [named, _] = reader.read(0, 0, columns=["site", "key"], position=True)
    assert named.schema.names == ["site", "key", "shard", "seq"]
    assert named.column("site").to_pylist() == ["s0", "s1", "s0", "s1", "s0"]


def test_a_log_of_a_later_release_is_searched(tmp_path: Path) -> None:
    later_log(tmp_path)
    reader = LogReader(tmp_path)
    assert reader.keys() == {"k/0": 4, "k/1": 3, "k/2": 3}
    selected = list(reader.select("k/1"))
    assert {batch.schema for batch in selected} == {SCHEMA}
    assert numbers_of(selected) == [1, 4, 7]
    [scored] = reader.select("k/1", columns=["score"], since=1, in_runs=True, end=5)
    assert scored.to_pylist() == [{"score": 0.5}, {"score": 2.0}]
    latest = reader.latest("k/1")
    assert latest is not None
    assert latest.column("sn").to_pylist() == [7]
    assert sorted(numbers_of(list(reader.latest_of("**")))) == [7, 8, 9]
    with pytest.raises(InvalidValueError, match=r"saw colour; legal are key, .*, score, site"):
        reader.read(0, 0, columns=["colour"])


def test_this_release_goes_on_with_a_log_of_a_later_one_and_keeps_its_columns(
    tmp_path: Path,
) -> None:
    later_log(tmp_path)
    before = [data_of(tmp_path, first).read_bytes() for first in (0, 5)]
    for first in (10, 12):
        with Log(tmp_path, SETTINGS) as log:
            assert log.report().damage == []
            assert log.store(rows(first, 2)).ranges == {0: (first, first + 2)}
    assert [data_of(tmp_path, first).read_bytes() for first in (0, 5)] == before
    with release(LATER), Log(tmp_path, SETTINGS) as log:
        log.store(later_rows(14, 1))
    expected = [*(number / 2 for number in range(10)), *[None] * 4, 7.0]
    assert table(tmp_path)["score"].to_pylist() == expected
    pack_log(RealDisk(tmp_path, writable=True), "zstd")
    assert len(list(tmp_path.glob(f"*/*.packed{DATA}"))) > 2
    found = table(tmp_path)
    assert found["score"].to_pylist() == expected
    assert found["site"].to_pylist()[8:11] == ["s0", "s1", None]
    assert numbers_of(found.to_batches()) == [*range(15)]
    assert verify(RealDisk(tmp_path, writable=False)).damage == []


def test_a_column_that_a_segment_lacks_is_null(tmp_path: Path) -> None:
    with release(EARLIER), Log(tmp_path, SETTINGS) as log:
        log.store(earlier_rows(0, 5))
    with Log(tmp_path, SETTINGS) as log:
        assert log.report().damage == []
        log.store(rows(5, 3).set_column(3, SCHEMA.field(3), pa.array([b"a", b"b", b"c"])))
    found = table(tmp_path)
    assert found.schema == SCHEMA
    assert found["attachment"].to_pylist() == [None] * 5 + [b"a", b"b", b"c"]
    assert numbers_of(found.to_batches()) == [*range(8)]
    [old, new] = LogReader(tmp_path).read(0, 0, columns=["attachment"])
    assert (old.num_rows, new.num_rows) == (5, 3)
    pack_log(RealDisk(tmp_path, writable=True), "zstd")
    assert table(tmp_path) == found
    assert verify(RealDisk(tmp_path, writable=False)).damage == []


def test_a_column_of_another_type_is_read_as_ours_or_not_at_all(tmp_path: Path) -> None:
    wide = SCHEMA.set(11, pa.field("qos", pa.int32(), nullable=False))
    with release(wide), Log(tmp_path / "wide", SETTINGS) as log:
        log.store(rows(0, 2).set_column(11, wide.field(11), pa.array([1, 2], pa.int32())))
    assert table(tmp_path / "wide")["qos"].to_pylist() == [1, 2]
    other = SCHEMA.set(11, pa.field("qos", pa.list_(pa.int8())))
    with release(other), Log(tmp_path / "other", SETTINGS) as log:
        log.store(rows(0, 1).set_column(11, other.field(11), pa.array([[1]], pa.list_(pa.int8()))))
    with pytest.raises(StoreError, match=r"column qos of a log is list.*, expected int8: read it"):
        table(tmp_path / "other")
    [keys] = LogReader(tmp_path / "other").read(0, 0, columns=["key"])
    assert keys.num_rows == 1


@pytest.mark.parametrize("schema", [SCHEMA, LATER])
def test_a_flip_in_a_head_is_found_and_mended_octet_for_octet(
    schema: pa.Schema, tmp_path: Path
) -> None:
    with release(schema), Log(tmp_path, SETTINGS) as log:
        for first in (0, 5):
            log.store(later_rows(first, 5).select(schema.names))
    whole = data_of(tmp_path, 5).read_bytes()
    disk = RealDisk(tmp_path, writable=True)
    for at in range(0, len(made(schema)), 31):
        flipped = whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :]
        data_of(tmp_path, 5).write_bytes(flipped)
        assert read_head(pa.py_buffer(flipped)) is None
        [damage] = verify(disk).damage
        assert (damage.lost_count, damage.reason) == (0, "the schema is damaged")
        repair(disk)
        assert data_of(tmp_path, 5).read_bytes() == whole
    assert verify(disk).damage == []
    assert numbers_of(table(tmp_path).to_batches()) == [*range(10)]


def test_a_repair_writes_no_head_that_was_not_there(tmp_path: Path) -> None:
    """Of a later release, and no other segment of the log has the same."""
    with release(LATER), Log(tmp_path, SETTINGS) as log:
        log.store(later_rows(0, 5))
    with Log(tmp_path, SETTINGS) as log:
        log.store(rows(5, 5))
    with data_of(tmp_path, 0).open("r+b") as file:
        file.write(b"\0")
    before = data_of(tmp_path, 0).read_bytes()
    with pytest.raises(CorruptLogError):
        table(tmp_path)
    assert numbers_of(table(tmp_path, 5).to_batches()) == [*range(5, 10)]
    told: list[Damage] = []
    reader = LogReader(tmp_path, told.append)
    assert numbers_of(list(reader.read(0, 0))) == [*range(5, 10)]
    assert [(one.lost_count, one.reason) for one in told] == [
        (5, "the schema of its segment is damaged")
    ]
    assert numbers_of(list(reader.select("k/1"))) == [7]
    found = repair(RealDisk(tmp_path, writable=True))
    assert "repair it with the release that wrote it" in found.repaired[0]
    assert data_of(tmp_path, 0).read_bytes() == before
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("elea.store.log.segment.KNOWN", (made(LATER), FIRST))
        patch.setattr("elea.store.log.segment.lost_head.__defaults__", ((made(LATER), FIRST),))
        repair(RealDisk(tmp_path, writable=True))
    assert numbers_of(table(tmp_path).to_batches()) == [*range(10)]


def test_a_log_of_format_2_stays_one_until_a_segment_needs_more(tmp_path: Path) -> None:
    directory = extracted(2, tmp_path)
    with Log(directory, SETTINGS) as log:
        log.store(rows(9, 5))
    assert formats(directory) == {2}
    heads = [read_head(pa.py_buffer(one.read_bytes())) for one in directory.glob(f"*/*{DATA}")]
    assert set(heads) == {FIRST}
    with release(LATER), Log(directory, SETTINGS) as log:
        assert log.report().damage == []
        log.store(later_rows(14, 1))
    assert formats(directory) == {3}
    assert table(directory)["score"].to_pylist() == [*[None] * 14, 7.0]
    assert table(directory, 9)["sn"].to_pylist() == [*range(9, 15)]
    assert verify(RealDisk(directory, writable=False)).damage == []


def test_a_segment_of_another_head_is_not_gone_on_with(tmp_path: Path) -> None:
    """Its last segment is neither full nor old."""
    settings = LogSettings(low_water_percent=0)
    with release(LATER), Log(tmp_path, settings) as log:
        log.store(later_rows(0, 5))
    with Log(tmp_path, settings) as log:
        log.store(rows(5, 5))
    for first, head in ((0, made(LATER)), (5, HEAD)):
        assert data_of(tmp_path, first).read_bytes().startswith(head.octets)
    assert numbers_of(table(tmp_path).to_batches()) == [*range(10)]


def test_the_head_of_the_first_formats_is_what_this_arrow_makes() -> None:
    """Else blocks that are written below it might not be read by it."""
    assert FIRST.schema.serialize().to_pybytes() == FIRST.octets
    assert read_head(pa.py_buffer(FIRST.octets)) is FIRST


def test_columns_that_were_added_may_be_null() -> None:
    """Segments of earlier releases lack them."""
    known = FIRST.schema.names
    assert SCHEMA.names[: len(known)] == known
    assert all(field.nullable for field in SCHEMA if field.name not in known)


def test_a_head_is_part_of_a_legal_stream(tmp_path: Path) -> None:
    with Log(tmp_path, SETTINGS) as log:
        log.store(rows(0, 5))
    with pa.ipc.open_stream(data_of(tmp_path, 0)) as stream:
        assert stream.schema.metadata == {b"elea": b"elea.head:" + HEAD.name}
        assert numbers_of(list(stream)) == [*range(5)]


@pytest.mark.parametrize(("schema", "nulls"), [(LATER, 0), (SCHEMA, 0), (EARLIER, 3)])
def test_whole_blocks_of_a_server_of_another_release_are_read(
    schema: pa.Schema, nulls: int
) -> None:
    sent = (
        later_rows(0, 3).set_column(3, SCHEMA.field(3), pa.array([b"a"] * 3)).select(schema.names)
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        stream.write_batch(sent)
    wanted = _Wanted(0, ["payload", "attachment", "seq"], (), ALL_TIME, lossy=False)
    [(low, high, found)] = wanted.rows(0, 3, sink.getvalue().to_pybytes())
    assert (low, high, found.schema.names) == (0, 3, ["payload", "attachment", "seq"])
    assert found.column("payload") == sent.column("payload")
    assert found.column("attachment").null_count == nulls
    with pytest.raises(StoreError, match="expected rows as an Arrow stream, got b'what'"):
        list(wanted.rows(0, 3, b"what"))


def test_parquet_keeps_the_columns_of_a_later_release(tmp_path: Path) -> None:
    later_log(tmp_path / "log")
    reader = LogReader(tmp_path / "log")
    assert export_file(reader, tmp_path / "rows.parquet", "parquet") == 10
    found = pq.read_table(tmp_path / "rows.parquet")
    assert found["score"].to_pylist() == [number / 2 for number in range(10)]
    assert set(found["site"].to_pylist()) == {"s0", "s1"}
    assert export_file(reader, tmp_path / "rows.jsonl", "jsonl") == 10
