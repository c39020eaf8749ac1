"""Offsets: there and back, shared over shards, cut into parts."""

from __future__ import annotations

import json
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.errors import InvalidValueError
from elea.spark.offsets import Offset, shared, split

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
