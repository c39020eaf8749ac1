"""Fuzz logs: whatever a segment and its index hold, rows are those that were written, or an error.

The input is the length of the index in two bytes, the index, and the segment. Verifying, reading,
opening for writing and repairing let nothing escape but a StoreError, and no row ever changes.
"""

from __future__ import annotations

import contextlib
import random
import uuid

import pyarrow as pa
from chaos.disk import FaultDisk, MemoryPlatter

from elea.errors import StoreError
from elea.store.log.reader import LogReader
from elea.store.log.schema import from_columns
from elea.store.log.segment import DATA, INDEX, directory_of
from elea.store.log.settings import LogSettings
from elea.store.log.verify import repair, verify
from elea.store.log.writer import Writer

_SETTINGS = LogSettings(low_water_percent=0)
_COMMITS = (1, 3, 1, 2)  # rows of each

# What does not grow with the input: a log in memory, read, opened, repaired and read again.
MEMORY_ALLOWANCE = 1024 * 1024
SHORT_RUNS = 200


def _payload(number: int) -> bytes:
    return b"row %d" % number


def _rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    hlcs = [(1_700_000_000 + number) << 32 for number in numbers]
    times_us = [(1_700_000_000 + number) * 1_000_000 for number in numbers]
    return from_columns(
        [
            [f"lab/{number % 3}" for number in numbers],
            [0] * count,
            [_payload(number) for number in numbers],
            [None] * count,
            ["zenoh/bytes"] * count,
            times_us,
            hlcs,
            ["ab"] * count,
            ["cd"] * count,
            [1] * count,
            list(numbers),
            [5] * count,
            times_us,
        ]
    )


def _open(disk: FaultDisk) -> Writer:
    return Writer(disk, _SETTINGS, lambda: 0, lambda: uuid.UUID(int=7))


def _written() -> dict[str, bytes]:
    """The files of a log that was closed in order."""
    disk = FaultDisk(MemoryPlatter(), random.Random(1), leak=0)
    writer = _open(disk)
    first = 0
    for count in _COMMITS:
        writer.commit([_rows(first, count)])
        first += count
    writer.close()
    folders = ("", directory_of(0))
    paths = [f"{folder}/{name}".lstrip("/") for folder in folders for name in disk.names(folder)]
    return {path: disk.read(path, 0) for path in paths}


_FILES = _written()
_DATA_NAME = next(name for name in _FILES if name.endswith(DATA))
_INDEX_NAME = next(name for name in _FILES if name.endswith(INDEX))
_INDEX = _FILES[_INDEX_NAME]
_SEGMENT = _FILES[_DATA_NAME].rstrip(b"\0") + bytes(64)  # not all the room ahead


def _seed(index: bytes, segment: bytes) -> bytes:
    return len(index).to_bytes(2, "big") + index + segment


SEEDS = [
    _seed(_INDEX, _SEGMENT),
    _seed(b"", _SEGMENT),
    _seed(_INDEX, _SEGMENT[: len(_SEGMENT) // 2]),
    _seed(_INDEX[:-10], _SEGMENT + bytes(100)),
    _seed(_INDEX, b""),
    _seed(b"", b""),
]


def _damaged(index: bytes, segment: bytes) -> FaultDisk:
    platter = MemoryPlatter()
    files = {**_FILES, _DATA_NAME: segment, _INDEX_NAME: index}
    for inode, (name, content) in enumerate(files.items()):
        platter.link(name, inode)
        platter.write(inode, 0, content)
    return FaultDisk(platter, random.Random(1), leak=0)


def _read(disk: FaultDisk) -> int:
    count = 0
    with contextlib.suppress(StoreError):
        reader = LogReader(disk, on_damage=lambda _damage: None)
        for batch in reader.read(0, 0):
            for row in batch.select(["sn", "payload"]).to_pylist():
                assert row["payload"] == _payload(row["sn"]), row
                count += 1
    assert count <= sum(_COMMITS)
    return count


def one_input(data: bytes) -> None:
    index_len = int.from_bytes(data[:2], "big")
    index, segment = data[2 : 2 + index_len], data[2 + index_len :]
    with contextlib.suppress(StoreError):
        verify(_damaged(index, segment))
    _read(_damaged(index, segment))
    disk = _damaged(index, segment)
    with contextlib.suppress(StoreError):
        _open(disk).close()
    _read(disk)
    disk = _damaged(index, segment)
    with contextlib.suppress(StoreError):
        repair(disk)
    _read(disk)
