"""Kill the writer of a log again and again, and look after each death whether all is there."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.store.log.rows import numbers_of

from elea import crash
from elea.errors import EleaError
from elea.store.log.disk import RealDisk
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.log.verify import verify
from elea.store.log.writer import Writer

DEADLINE_S = 120
LINES_MAX = 3_000  # acknowledgements of one life
CHECK = LogSettings(low_water_percent=0)


@dataclass(slots=True)
class Victim:
    """A log, what was said of it, and what was found wrong."""

    directory: Path
    seed: int
    next_number: int = 0
    given: dict[int, int] = field(default_factory=dict)  # number of the row in the log: the row
    problems: list[str] = field(default_factory=list)
    deaths_count: int = 0

    def die(
        self, *, power: bool = False, point: str | None = None, nth: int = 1, check: bool = True
    ) -> None:
        """One life of the writer, from its start to its violent end.

        Args:
            power: What is not synchronised dies with it.
            point: Where it dies, when it comes there for the `nth` time; else at any time.
            check: Look at the log afterwards, which recovers it.
        """
        self.deaths_count += 1
        rng = random.Random(f"{self.seed} {self.deaths_count}")
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(["src", ".", *sys.path])}
        if point is not None:
            environment[crash.ENVIRONMENT] = f"{point}:{nth}"
        arguments = [str(self.directory), str(self.next_number), "power" if power else "process"]
        child = subprocess.Popen(
            [sys.executable, "-m", "chaos.child", *arguments, str(rng.randrange(1 << 30))],
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert child.stdout is not None
        deadline = threading.Timer(DEADLINE_S, child.kill)
        deadline.start()
        lines_left = None if point is not None else rng.randint(1, 60)
        seen_count, reached = 0, True
        try:
            for line in child.stdout:
                self._take(line.decode())
                if lines_left is not None:
                    lines_left -= 1
                    if lines_left <= 0:
                        threading.Timer(rng.random() * 0.02, child.kill).start()
                        lines_left = None
                seen_count += 1
                if seen_count > LINES_MAX:  # the point is not on this way
                    reached = False
                    child.kill()
        finally:
            deadline.cancel()
            child.kill()
            child.stdout.close()
            status = child.wait()
        if status != -9:
            self.problems.append(f"the writer ended by itself with {status}")
        if point is not None and not reached:
            self.problems.append(f"{point} was not reached {nth} times")
        if check:
            self._check()
        else:
            self.next_number += LINES_MAX  # rows nobody acknowledged may be there

    def _take(self, line: str) -> None:
        kind, *rest = line.split()
        if kind != "A":
            self.problems.append(line.strip())
            return
        first, count, low, high = map(int, rest)
        if high - low != count:
            self.problems.append(f"{count} rows were given the numbers {low} to {high}")
        for place in range(count):
            if self.given.setdefault(low + place, first + place) != first + place:
                self.problems.append(f"number {low + place} was given twice")
        self.next_number = max(self.next_number, first + count)

    def _check(self) -> None:
        """Open it as the next writer would, and read all of it."""
        try:
            disk = RealDisk(self.directory, writable=True)
            writer = Writer(disk, CHECK, lambda: 0)
            damage = writer.report.damage
            writer.close()
            found = verify(disk)
            reader = LogReader(self.directory)
            bounds = reader.bounds(0)
            numbers = numbers_of(list(reader.read(0, bounds.first)))
        except (EleaError, OSError, AssertionError) as error:
            self.problems.append(f"failed open: {error!r}")
            return
        self.problems += [str(one) for one in (*damage, *found.damage)]
        there = dict(enumerate(numbers, bounds.first))
        if len(set(numbers)) != len(numbers):
            self.problems.append("a row is there twice")
        for seq, number in self.given.items():
            if seq >= bounds.first and there.get(seq) != number:
                self.problems.append(f"row {number} was acknowledged as {seq}: {there.get(seq)}")
        # Rows that were written and not acknowledged are there from now on.
        self.given.update(there)
        self.next_number = max([self.next_number, *(number + 1 for number in numbers)])
        for seq in [one for one in self.given if one < bounds.first]:
            del self.given[seq]
