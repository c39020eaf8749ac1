"""Disks that are full or lie, and readers beside a writer that rotates and trims."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import pytest
from chaos.disk import FaultDisk, MemoryPlatter
from tests.unit.store.log.rows import numbers_of, rows
from tests.unit.store.log.test_log import FREE

from elea.errors import OffsetError, StoreError
from elea.limits import DEFAULT_LIMITS
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.log.writer import Writer


def writer_on(disk: FaultDisk) -> Writer:
    return Writer(disk, FREE, lambda: 0, lambda: uuid.UUID(int=1))


def test_an_error_of_fsync_is_not_forgotten() -> None:
    """The next synchronisation says all is well, and what the first one lost is not on the disk."""
    platter = MemoryPlatter()
    disk = FaultDisk(platter, random.Random(5), leak=0)
    writer = writer_on(disk)
    writer.commit([rows(0, 10)])
    disk.sync_errors = 1
    with pytest.raises(StoreError, match="may be on disk or not"):
        writer.commit([rows(10, 10)])
    with pytest.raises(StoreError, match="open it again"):
        writer.commit([rows(20, 10)])
    writer.close()
    # Opened again on the same machine: the memory of the operating system has all octets.
    writer = writer_on(disk)
    seen = numbers_of(list(LogReader(disk).read(0, 0)))
    assert seen == [*range(20)]
    writer.close()
    # What was seen must be there after the power was lost, though no write came since.
    survived = FaultDisk(platter, random.Random(6))
    writer_on(survived).close()
    assert numbers_of(list(LogReader(survived).read(0, 0))) == seen


def test_whoever_waits_is_told_when_the_log_ends() -> None:
    disk = FaultDisk(MemoryPlatter(), random.Random(1))
    with Log(disk, FREE) as log:
        log.store(rows(0, 1))
        disk.sync_errors = 1
        with disk.lock_of_threads:  # the disk is slow enough for all of them to wait
            futures = [log.append(rows(number, 1)) for number in range(1, 4)]
        errors = [future.exception(timeout=30) for future in futures]
        assert all(isinstance(error, StoreError) for error in errors)
        with pytest.raises(StoreError, match="open it again"):
            log.append(rows(9, 1))
        with pytest.raises(StoreError, match="open it again"):
            log.store(rows(9, 1))


def test_a_full_disk_refuses_and_goes_on_later() -> None:
    disk = FaultDisk(MemoryPlatter(), random.Random(1))
    writer = writer_on(disk)
    writer.commit([rows(0, 10)])
    for room in (0, 1, 500, 1_500):
        disk.free_len = room
        with pytest.raises(StoreError, match="none of them was kept"):
            writer.commit([rows(100, 10)])
    disk.free_len = 1 << 30
    writer.commit([rows(10, 10)])
    writer.close()
    assert numbers_of(list(LogReader(disk).read(0, 0))) == [*range(20)]
    writer = writer_on(disk)
    assert (writer.report.damage, writer.report.cut_len) == ([], 0)
    writer.close()


def test_appending_waits_while_too_much_is_to_be_written() -> None:
    limits = replace(DEFAULT_LIMITS, log_pending_len=1)
    disk = FaultDisk(MemoryPlatter(), random.Random(1))
    with Log(disk, FREE, limits=limits) as log:
        futures = [log.append(rows(10 * number, 10)) for number in range(20)]
    assert [future.result().ranges[0][0] for future in futures] == [*range(0, 200, 10)]


def limited(path: Path) -> None:
    """A process that may not make a file larger than this."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    writer = Log(path, FREE)
    number = 0
    while True:
        try:
            writer.store(rows(number, 10))
        except StoreError as error:
            sys.stdout.write(f"{number} {error}")
            writer.close()
            return
        number += 10


def test_a_file_that_may_not_grow_is_a_refusal(tmp_path: Path) -> None:
    program = "import sys, pathlib; from tests.unit.store.log.test_faults import limited; "
    program += "limited(pathlib.Path(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
    )
    assert "no room for rows" in done.stdout, done.stderr
    assert numbers_of(list(LogReader(tmp_path).read(0, 0))) == [*range(int(done.stdout.split()[0]))]


def test_readers_of_another_process_follow_through_rotation_and_retention(tmp_path: Path) -> None:
    """Each range that is read is what was written, or was trimmed and says so."""
    child = subprocess.Popen(
        [sys.executable, "-m", "chaos.child", str(tmp_path), "0", "process", "4"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
    )
    assert child.stdout is not None
    child.stdout.readline()
    drain = threading.Thread(target=child.stdout.read)
    drain.start()
    try:
        reader = LogReader(tmp_path)
        seq, trimmed_count, segments = 0, 0, set()
        while seq < 20_000:
            try:
                for batch in reader.follow(0, seq):
                    numbers = numbers_of([batch])
                    assert numbers == [*range(seq, seq + len(numbers))]
                    seq += len(numbers)
                    segments.add(reader.bounds(0).first)
                    if seq >= 20_000:
                        break
            except OffsetError as error:
                trimmed_count += 1
                seq = error.first
    finally:
        child.kill()
        child.wait()
        drain.join()
        child.stdout.close()
    assert len(segments) > 3


def test_reading_ranges_again_gives_the_same_rows(tmp_path: Path) -> None:
    settings = LogSettings(segment_len=5_000, low_water_percent=0)
    with Log(tmp_path, settings) as log:
        reader = LogReader(tmp_path)
        first: dict[int, list[int]] = {}
        for number in range(0, 300, 10):
            log.store(rows(number, 10))
            first[number] = numbers_of(list(reader.read(0, number)))
    again = LogReader(tmp_path)
    for number, seen in first.items():
        assert numbers_of(list(again.read(0, number, number + 10))) == seen
