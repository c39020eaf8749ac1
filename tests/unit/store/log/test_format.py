"""Logs that earlier versions wrote are read, opened and written on.

`tests/vectors/log/format-N.tar.xz` was written by the first code that wrote this format: nine rows
in three segments, and a consumer; from format 2 on one segment is packed. Never write them anew.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.unit.store.log.rows import rows

from elea.store.log.consumers import load
from elea.store.log.disk import RealDisk
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.log.verify import verify

GOLDEN = Path(__file__).parents[3] / "vectors" / "log"
LOG_ID = "6a8fc660-0000-4000-8000-000000000001"
TIME = 1_700_000_000


def extracted(number: int, path: Path) -> Path:
    """The log of a format, in a directory below this one."""
    with tarfile.open(GOLDEN / f"format-{number}.tar.xz") as packed:
        packed.extractall(path / "log", filter="data")
    return path / "log"


@pytest.fixture(name="directory", params=[1, 2, 3])
def _directory(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return extracted(request.param, tmp_path)


def check_rows(directory: Path) -> None:
    reader = LogReader(directory)
    assert str(reader.log_id) == LOG_ID
    found = [row for batch in reader.read(0, 0, 9, position=True) for row in batch.to_pylist()]
    assert [row["seq"] for row in found] == list(range(9))
    for number, row in enumerate(found):
        assert (row["key"], row["encoding"]) == (f"k/{number % 2}", "text/plain")
        assert row["kind"] == (number == 5)
        assert row["payload"] == (b"" if number == 5 else b"row %d" % number)
        assert row["attachment"] == (b"a" if number % 3 == 0 else None)
        assert row["hlc"] == (None if number == 7 else (TIME << 32) + number)
        identity = (row["zid"], row["eid"], row["sn"])
        assert identity == ((None, None, None) if number == 8 else ("ab", 7, number))
        assert int(row["recv_ts"].timestamp()) == TIME


def test_a_log_of_an_old_format_is_read(directory: Path) -> None:
    check_rows(directory)
    assert verify(RealDisk(directory, writable=False)).damage == []
    selected = LogReader(directory).select("k/1", since=(TIME << 32) + 2, until=(TIME << 32) + 6)
    assert [row["sn"] for batch in selected for row in batch.to_pylist()] == [3, 5]
    assert LogReader(directory).keys() == {"k/0": 5, "k/1": 4}


def test_a_log_of_an_old_format_is_opened_written_on_and_packed(directory: Path) -> None:
    settings = LogSettings(low_water_percent=0, segment_len=1, pack_age_ns=0)
    for first in (9, 14):
        with Log(directory, settings) as log:
            assert log.report().damage == []
            assert log.store(rows(0, 5)).ranges == {0: (first, first + 5)}
    check_rows(directory)
    assert verify(RealDisk(directory, writable=False)).damage == []
    disk = RealDisk(directory, writable=False)
    [consumer] = load(disk, LogReader(directory).log_id).consumers
    assert (consumer.name, consumer.offsets) == ("reader", {0: 4})
