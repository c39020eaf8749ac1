"""Records of blocks, many of them."""

from __future__ import annotations

import random
import tracemalloc
import zlib

import pyarrow as pa
import pytest

from elea.store.log import checksum
from elea.store.log.record import RECORD_LEN, Record, Records

SEED = 7


def record(number: int) -> Record:
    time = (1 << 62) + number
    return Record(10**9 + number, 1, 1, 2_000 * number, 2_000, 80, time, time + 5, 10**9 + number)


def octets(*records: Record) -> bytes:
    return b"".join(one.to_bytes(SEED) for one in records)


def test_records_are_a_sequence() -> None:
    some = [record(number) for number in range(5)]
    records = Records(octets(*some[:3]))
    records.extend(octets(*some[3:]))
    assert len(records) == 5
    assert list(records) == some
    assert (records[0], records[-1], records[1:3]) == (some[0], some[4], some[1:3])
    assert list(records.since(3)) == some[3:]
    assert list(records.since(5)) == []
    assert records.span(2) == (some[2].time_min, some[2].time_max)
    assert not Records()
    for wrong in (5, -6):
        with pytest.raises(IndexError):
            records[wrong]


def test_records_take_what_they_take_on_disk() -> None:
    some = octets(*(record(number) for number in range(1_000)))
    tracemalloc.start()
    try:
        records = Records()
        for number in range(20):  # as they come
            records.extend(some[: 50 * RECORD_LEN] if number % 2 else some)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(records) == 10_500
    assert taken < 80 * len(records)


def test_checksums_are_those_of_zlib_whoever_makes_them() -> None:
    rng = random.Random(3)
    for length in (0, 1, 7, 64, 1_000, 70_001):
        octets, seed = rng.randbytes(length), rng.getrandbits(32)
        assert checksum.crc32(octets, seed) == zlib.crc32(octets, seed)
        assert checksum.crc32(memoryview(octets)[1:], seed) == zlib.crc32(octets[1:], seed)
        assert checksum.crc32(pa.py_buffer(octets)) == zlib.crc32(octets)
