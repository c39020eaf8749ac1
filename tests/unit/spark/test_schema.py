"""Rows as Spark takes them: plain texts, whatever a log makes of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.unit.store.log.rows import rows

from elea.spark.schema import arrow_schema, plain_rows
from elea.store.log.ranges import COLUMNS
from elea.store.log.schema import placed


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["a"] * 5,
        ["a", None],
        [None, None],
        ["a", "b", "a"],
        ["long" * 1_000_000] * 3,
    ],
)
def test_texts_are_plain(texts: list[str | None]) -> None:
    column = pa.array(texts, pa.string()).dictionary_encode()
    for part in (column, column[1:], column[:1]):
        [found] = plain_rows(pa.record_batch([part], ["key"]), arrow_schema(["key"])).columns
        assert found.type == pa.string()
        assert found.to_pylist() == part.to_pylist()


def test_a_text_that_is_none_stays_none() -> None:
    indices, texts = pa.array([0, 0], pa.int32()), pa.array([None], pa.string())
    column = pa.DictionaryArray.from_arrays(indices, texts)
    [found] = plain_rows(pa.record_batch([column], ["key"]), arrow_schema(["key"])).columns
    assert found.to_pylist() == [None, None]


def test_rows_of_a_log_keep_their_values() -> None:
    batch = placed(rows(0, 20), 1, 70)
    found = plain_rows(batch, arrow_schema(COLUMNS))
    assert found.to_pylist() == batch.to_pylist()
    assert found["seq"].to_pylist() == list(range(70, 90))


@pytest.mark.parametrize("count", [0, 1, 65_535, 65_536, 65_537])
def test_rows_are_numbered(count: int) -> None:
    batch = pa.record_batch({"kind": pa.nulls(count, pa.int8())})
    found = placed(batch, 3, 1 << 40)
    assert found["shard"].to_pylist() == [3] * count
    assert found["seq"].to_pylist() == list(range(1 << 40, (1 << 40) + count))
