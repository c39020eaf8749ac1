"""The program that is killed: it appends rows to a log, and says which ones are acknowledged.

A line `A FIRST COUNT LOW HIGH` says that rows were acknowledged, and the numbers they were given.
The parent reads them from a pipe, which survives the death of the child.
"""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path

from chaos.disk import FaultDisk, FilesPlatter
from tests.unit.store.log.rows import rows

from elea.errors import StoreError
from elea.store.log.disk import Disk, RealDisk
from elea.store.log.log import Log
from elea.store.log.settings import LogSettings

APPENDS_AT_ONCE = 4
SETTINGS = LogSettings(segment_len=30_000, pack_age_ns=0, retain_len=150_000, low_water_percent=0)


def disk_of(directory: Path, power: bool, seed: int) -> Disk:
    if not power:
        return RealDisk(directory, writable=True)
    hidden = directory.with_name(directory.name + ".hidden")
    return FaultDisk(FilesPlatter(directory, hidden), random.Random(seed))


def main(directory: str, first: int, power: bool, seed: int) -> None:
    rng = random.Random(seed)
    disk = disk_of(Path(directory), power, seed)
    with Log(disk, SETTINGS, wall_ns=time.time_ns) as log:
        number = first
        for turn in range(1_000_000):
            waiting = []
            for _ in range(rng.randint(1, APPENDS_AT_ONCE)):
                count = rng.choice([1, 5, 60])
                waiting.append((number, count, log.append(rows(number, count))))
                number += count
            lines = []
            for start, count, future in waiting:
                try:
                    low, high = future.result().ranges[0]
                except StoreError as error:
                    print(f"E {error}", flush=True)
                    return
                lines.append(f"A {start} {count} {low} {high}\n")
            os.write(1, "".join(lines).encode())
            if turn % 5 == 4:
                log.keep_house()
                log.commit_consumer("child", {0: log.ends()[0] - 100})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "power", int(sys.argv[4]))
