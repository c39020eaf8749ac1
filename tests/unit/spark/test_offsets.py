"""Offsets: there and back, shared over shards, cut into parts."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.errors import InvalidValueError
from elea.spark.offsets import Offset, cut, shared, split

NUMBERS = st.dictionaries(st.integers(0, 1_023), st.integers(0, 2**63 - 1), max_size=5)


@given(st.uuids(), NUMBERS, st.none() | NUMBERS)
def test_an_offset_comes_back(
    log_id: uuid.UUID, ends: dict[int, int], begins: dict[int, int] | None
) -> None:
    offset = Offset(log_id, ends, begins)
    assert Offset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@pytest.mark.parametrize(
    "value",
    [
        *(None, [], {}, {"v": 1}, {"v": 1, "log": "x", "s": {}}),
        {"v": 1, "log": str(uuid.UUID(int=0)), "s": {"0": -1}},
        {"v": 1, "log": str(uuid.UUID(int=0)), "s": {"0": 1.5}},
        {"v": 1, "log": str(uuid.UUID(int=0)), "s": {"x": 1}},
        {"v": 1, "log": str(uuid.UUID(int=0)), "s": {}, "b": 7},
    ],
)
def test_what_is_no_offset_is_refused(value: object) -> None:
    with pytest.raises(InvalidValueError, match="legal is"):
        Offset.from_json(value)


@given(
    st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 1_000)), min_size=1, max_size=6),
    st.integers(1, 2_000),
)
def test_rows_are_shared_over_shards(waiting: list[tuple[int, int]], total_max: int) -> None:
    starts = [start for start, _ in waiting]
    ends = [start + count for start, count in waiting]
    found = shared(starts, ends, total_max)
    taken = [end - start for start, end in zip(starts, found, strict=True)]
    assert all(0 <= one <= count for one, (_, count) in zip(taken, waiting, strict=True))
    assert sum(taken) == min(total_max, sum(count for _, count in waiting))


@given(st.integers(0, 1_000), st.integers(0, 1_000), st.integers(1, 20))
def test_parts_cover_a_range(first: int, count: int, parts_count: int) -> None:
    parts = split(first, first + count, parts_count)
    assert [row for low, high in parts for row in range(low, high)] == [
        *range(first, first + count)
    ]
    assert len(parts) == min(parts_count, count)
    assert all(low < high for low, high in parts)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 200)), min_size=1, max_size=6),
    st.integers(1, 40),
)
def test_ranges_of_shards_are_cut_where_they_are_long(
    given_ranges: list[tuple[int, int]], parts_count: int
) -> None:
    ranges = {shard: (low, low + count) for shard, (low, count) in enumerate(given_ranges)}
    parts = cut(ranges, parts_count)
    for shard, (low, high) in ranges.items():
        found = [(first, end) for one, first, end in parts if one == shard]
        assert [row for first, end in found for row in range(first, end)] == [*range(low, high)]
    lengths = [end - first for _, first, end in parts]
    busy_count = sum(count > 0 for _, count in given_ranges)
    rows_count = sum(count for _, count in given_ranges)
    assert all(lengths)
    assert len(parts) == min(max(busy_count, parts_count), rows_count)
    for shard, (low, high) in ranges.items():
        count = sum(one == shard for one, _, _ in parts)
        if count > 1:  # with one part less it had had the longest of all
            assert max(lengths) <= -(-(high - low) // (count - 1))
