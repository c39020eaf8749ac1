"""Rows to append: small, numbered, and recognisable."""

from __future__ import annotations

import pyarrow as pa

from elea.store.log.schema import SCHEMA, TIME

EPOCH_S = 1_700_000_000


def stamp(number: int) -> int:
    """The timestamp of a row, as 64 bits: one millisecond each."""
    return ((EPOCH_S + number // 1000) << 32) + ((number % 1000) << 32) // 1000


def payload_of(number: int) -> bytes:
    return b"%d:" % number + bytes(number % 7)


def rows(first: int, count: int, keys_count: int = 3, *, stamped: bool = True) -> pa.RecordBatch:
    """So many rows; row `n` has the number n in its payload, `sn` and time."""
    numbers = range(first, first + count)
    received = pa.array([EPOCH_S * 1_000_000 + number * 1_000 for number in numbers], pa.int64())

    def texts(values: list[str]) -> pa.Array:
        return pa.array(values, pa.string()).dictionary_encode()

    return pa.RecordBatch.from_arrays(
        [
            texts([f"k/{number % keys_count}" for number in numbers]),
            pa.array([0] * count, pa.int8()),
            pa.array([payload_of(number) for number in numbers], pa.binary()),
            pa.nulls(count, pa.binary()),
            texts(["zenoh/bytes"] * count),
            received.view(TIME),
            pa.array([stamp(number) if stamped else None for number in numbers], pa.int64()),
            texts(["ab"] * count),
            texts(["cd"] * count),
            pa.array([1] * count, pa.int64()),
            pa.array(numbers, pa.int64()),
            pa.array([5] * count, pa.int8()),
            received.view(TIME),
        ],
        schema=SCHEMA,
    )


def numbers_of(batches: list[pa.RecordBatch]) -> list[int]:
    """The numbers of rows, each whole."""
    found = []
    for batch in batches:
        for row in batch.select(["sn", "payload"]).to_pylist():
            assert row["payload"] == payload_of(row["sn"])
            found.append(row["sn"])
    return found
