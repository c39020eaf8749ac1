"""The log against a list: any appends, any ranges, any shards, any closing in between."""

from __future__ import annotations

import random

from chaos.disk import FaultDisk, MemoryPlatter
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.store.log.rows import numbers_of, rows, stamp

from elea.store.log import index
from elea.store.log.log import pack_log
from elea.store.log.reader import LogReader
from elea.store.log.record import RECORD_LEN, Record, parse_index
from elea.store.log.segment import DATA, INDEX, Examination, Segment, stem_of
from elea.store.log.settings import LogSettings
from elea.store.log.writer import Writer

COMMITS = st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=3), max_size=6)
WORD = st.integers(0, 2**32 - 1)
LONG = st.integers(0, 2**64 - 1)


@given(
    commits=COMMITS,
    shards_count=st.integers(1, 3),
    segment_len=st.sampled_from([1, 5_000, 10**6]),
    compression=st.sampled_from(["zstd", "none"]),
    reopened=st.booleans(),
    packed=st.booleans(),
    with_index=st.booleans(),
    span=st.tuples(st.integers(0, 80), st.integers(0, 80)),
)
@settings(max_examples=40, deadline=None)
def test_a_log_is_a_list(
    commits: list[list[int]],
    shards_count: int,
    segment_len: int,
    compression: str,
    reopened: bool,
    packed: bool,
    with_index: bool,
    span: tuple[int, int],
) -> None:
    disk = FaultDisk(MemoryPlatter(), random.Random(0))
    chosen = LogSettings(
        shards_count=shards_count,
        segment_len=segment_len,
        compression=compression,
        low_water_percent=0,
    )
    writer = Writer(disk, chosen, lambda: 0)
    model: list[list[int]] = [[] for _ in range(shards_count)]
    number = 0
    for counts in commits:
        batches = []
        for count in counts:
            batches.append(rows(number, count, keys_count=4))
            number += count
        for batch, stored in zip(batches, writer.commit(batches), strict=True):
            seen = 0
            for shard, (low, high) in stored.ranges.items():
                assert low == len(model[shard])
                got = numbers_of(list(LogReader(disk).read(shard, low, high)))
                assert got == sorted(got)
                model[shard] += got
                seen += len(got)
            assert seen == batch.num_rows
        if reopened:
            writer.close()
            writer = Writer(disk, chosen, lambda: 0)
            assert writer.report.damage == []
    if with_index:
        for segment in writer.unlisted():
            index.build(disk, segment)
    assert sorted(one for shard in model for one in shard) == [*range(number)]
    low, high = min(span), max(span)
    reader = LogReader(disk)
    if packed:
        assert [reader.bounds(shard).end for shard in range(shards_count)] == writer.ends()
        writer.close()
        pack_log(disk, "zstd")
    for shard in range(shards_count):
        first, end = min(low, len(model[shard])), min(high, len(model[shard]))
        assert numbers_of(list(reader.read(shard, first, end))) == model[shard][first:end]
    for key in range(4):
        expected = [one for one in range(number) if one % 4 == key]
        assert numbers_of(list(reader.select(f"k/{key}"))) == expected
        latest = reader.latest(f"k/{key}")
        assert (latest is None) == (not expected)
        if latest is not None:
            assert numbers_of([latest]) == expected[-1:]
    within = sorted(numbers_of(list(reader.select("**", since=stamp(low), until=stamp(high)))))
    assert within == [one for one in range(number) if low <= one < high]


@given(
    record=st.builds(Record, LONG, WORD, WORD, LONG, WORD, WORD, LONG, LONG, WORD, WORD, WORD),
    seed=WORD,
    other=WORD,
)
def test_a_record_comes_back_and_only_with_its_seed(record: Record, seed: int, other: int) -> None:
    octets = record.to_bytes(seed)
    assert len(octets) == RECORD_LEN
    assert Record.from_bytes(octets, seed) == record
    assert (Record.from_bytes(octets, other) is None) == (seed != other)


@given(octets=st.binary(max_size=300), seed=WORD)
def test_any_octets_are_an_index_of_something(octets: bytes, seed: int) -> None:
    records, length = parse_index(octets, seed)
    assert length == RECORD_LEN * len(records)


@given(data=st.binary(max_size=400), octets=st.binary(max_size=200), marks=st.booleans())
def test_any_octets_in_a_segment_are_looked_at_without_an_error(
    data: bytes, octets: bytes, marks: bool
) -> None:
    disk = FaultDisk(MemoryPlatter(), random.Random(0))
    if marks:
        data = data[:100] + b"elea.block:" + data[100:].hex().encode()
    for name, content in ((stem_of(0, 5) + DATA, data), (stem_of(0, 5) + INDEX, octets)):
        disk.open(name).write(0, content)
    exam = Examination(disk, 0, 5, 7)
    assert exam.records == []
    assert not Segment(disk, 0, 5, 7).records
    assert (exam.lost_end("x", 5) is None) == (not octets)
