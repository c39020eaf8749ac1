"""Kill Spark, its workers and the recorder while a log is archived; compare the table each time.

One log, one table and one checkpoint live through a campaign. A client puts samples all the time
and knows which are acknowledged. Whenever a query is running again it waits, and then there have to
be as many rows as samples as acknowledged ones, the same ones.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from chaos.spark_cluster import Cluster, parent
from chaos.spark_ledger import ARCHIVE, PIPELINE, WINDOWS, Job
from chaos.spark_rig import Life, NotReachedError, Rig, end, wait_for

from elea import crash

IN_TASK = ("table.before_files", "table.after_files")
RANDOM_S = 3.0  # a kill at any time is in that time
# What Spark and the table say to the second one; a user must find one of these.
CLEAR = (
    "CONCURRENT_STREAM_LOG_UPDATE",
    "Multiple streaming queries are concurrently using",  # of Spark too, when it renames
    "another one writes as this consumer",
)
# What Spark says when its own processes do not start in time.
SLOW = ("failed to connect back",)
SLOW_MAX = 5
WINDOW_MIN = 5
WINDOWS_FROM = 50  # kills, from which on each window has to have so many

Tell = Callable[[str], None]
Result = dict[str, object]


def drivers(count: int, seed: int, root: Path, tell: Tell, job: Job = ARCHIVE) -> Result:
    """`kill -9` of the driver: at every point of a batch in turn, and each third at any time."""
    rng = random.Random(seed)
    found = Found(tell)
    windows: Counter[str] = Counter()
    points = list(crash.QUERY_POINTS)
    with Rig(root / "drivers", job) as rig:
        while (turn := windows.total()) < count and found.slow_count < count:
            point = None if turn % 3 == 2 else points[(turn - turn // 3) % len(points)]
            at_start = rng.random() < 0.25  # before it has done what the last one left
            passes_count = rng.randrange(len(job.tables)) if "commit" in (point or "") else 0
            life = rig.drive(armed=point if at_start else None)
            try:
                if not at_start:
                    life = _settled(rig, life, found)
                _die(life, point, passes_count, at_start=at_start, rng=rng)
            except NotReachedError as error:
                life.kill()
                if _is_slow(life):
                    found.slow_count += 1
                    continue
                found.add([f"kill {turn + 1}: {error}"])
            windows[window := rig.ledger.window(life.started_s)] += 1
            found.add(rig.ledger.problems(whole=False))
            tell(f"{turn + 1} of {count}, {point or 'any'}: {window}, {found}")
        _settled(rig, rig.drive(), found)
        rare = [window for window in WINDOWS if windows[window] < WINDOW_MIN]
        if count >= WINDOWS_FROM and rare:
            found.add([f"fewer than {WINDOW_MIN} kills {', '.join(rare)}"])
        return _result(rig, found, kills=windows.total(), windows=dict(windows))


def pipelines(count: int, seed: int, root: Path, tell: Tell) -> Result:
    """The same with a pipeline: one batch fills two tables, one of them decoded."""
    return drivers(count, seed, root, tell, PIPELINE)


def _die(
    life: Life, point: str | None, passes_count: int, *, at_start: bool, rng: random.Random
) -> None:
    if point is None:
        if at_start:
            life.wait(lambda: "running" in life.told(), "the driver")
        time.sleep(rng.random() * RANDOM_S)
        life.kill(everything=rng.random() < 0.5)
        return
    if not at_start:
        life.arm(point)
    for _ in range(passes_count):  # the commit to another table is meant
        pid = life.held(point)
        life.arm(point)
        os.kill(pid, signal.SIGCONT)
    life.held(point)
    life.kill()


def executors(count: int, seed: int, root: Path, tell: Tell) -> Result:
    """`kill -9` of what runs tasks: Python workers in one process, then executors of a cluster."""
    rng = random.Random(seed)
    found = Found(tell)
    victims: Counter[str] = Counter()
    with Rig(root / "executors") as rig:
        for is_cluster in (False, True):
            turns = range(count // 2) if is_cluster else range(count - count // 2)
            with Cluster(rig.root / "cluster", is_wanted=is_cluster and bool(turns)) as cluster:
                life = _settled(rig, rig.drive(cluster.master, cluster.config), found)
                for turn in turns:
                    point = rng.choice(IN_TASK)
                    life.arm(point)
                    worker = life.held(point)
                    victim = cluster.executor_of(worker) if is_cluster else worker
                    kind = "executor" if is_cluster else "worker"
                    if not is_cluster and turn % 4 == 3:  # and the process that makes workers
                        kind, victim = "daemon", parent(worker)
                        end(worker)
                    end(victim)
                    victims[kind] += 1
                    life = _settled(rig, life, found)
                    tell(f"{sum(victims.values())} of {count}, {kind}: {found}")
                life.kill()
        return _result(rig, found, kills=sum(victims.values()), victims=dict(victims))


def recorders(count: int, seed: int, root: Path, tell: Tell) -> Result:
    """`kill -9` of the recorder while a query runs that reads its files, and one that asks it."""
    rng = random.Random(seed)
    found = Found(tell)
    kills: Counter[str] = Counter()
    with Rig(root / "recorders") as rig:
        for place, turns_count in (("files", count - count // 2), ("served", count // 2)):
            rig.is_served = place == "served"
            life = _settled(rig, rig.drive(), found)
            for _ in range(turns_count):
                time.sleep(rng.random() * RANDOM_S)
                rig.record()
                life = _settled(rig, life, found)
                kills[place] += 1
                tell(f"{sum(kills.values())} of {count}, {place}: {found}")
            life.kill()
        return _result(rig, found, kills=count, places=dict(kills))


def pairs(count: int, seed: int, root: Path, tell: Tell) -> Result:
    """A second driver on the same checkpoint: one of both goes on, the other says why it ended."""
    found = Found(tell)
    said: Counter[str] = Counter()
    with Rig(root / "pairs") as rig:
        first = _settled(rig, rig.drive(), found)
        for turn in range(count):
            second = rig.drive()
            try:
                wait_for(lambda: not (first.is_alive() and second.is_alive()), "an end of one")  # noqa: B023
            except NotReachedError as error:
                found.add([str(error)])
            loser, first = (first, second) if second.is_alive() else (second, first)
            clear = [text for text in CLEAR if text in loser.told()]
            if not clear:
                found.add([f"no clear reason: {loser.told()}"])
            said[clear[0] if clear else "unclear"] += 1
            loser.kill()
            first = _settled(rig, first, found)
            tell(f"{turn + 1} of {count}, {dict(said)}: {found}")
        return _result(rig, found, pairs=count, said=dict(said))


@dataclass(slots=True)
class Found:
    """What was found wrong, and told at once."""

    tell: Tell
    problems: list[str] = field(default_factory=list)
    checks_count: int = 0  # of the tables while nobody put anything
    slow_count: int = 0  # drivers that gave up while they started

    def add(self, problems: list[str]) -> None:
        for problem in problems:
            self.tell(problem)
        self.problems += problems

    def __str__(self) -> str:
        return f"{len(self.problems)} problems"


def _settled(rig: Rig, life: Life, found: Found) -> Life:
    """Wait until the tables have everything, and compare; the driver that did it.

    On a busy machine Spark gives up when its own processes take more than ten seconds to start:
    then somebody starts the driver again, as a supervisor does.
    """
    for _ in range(SLOW_MAX):
        try:
            problems = rig.settle(life)
        except NotReachedError as error:
            problems = [str(error)]
            if _is_slow(life):
                life.kill()
                found.slow_count += 1
                life = rig.again(life)
                continue
        found.checks_count += 1
        found.add(problems)
        return life
    found.add([f"the driver did not start {SLOW_MAX} times"])
    return life


def _is_slow(life: Life) -> bool:
    return not life.is_alive() and any(text in life.told() for text in SLOW)


def _result(rig: Rig, found: Found, **more: object) -> Result:
    told: Result = {"acknowledged": len(rig.ledger.places()), "rows": rig.ledger.rows_count()}
    told |= {"checks": found.checks_count, "slow_starts": found.slow_count, **more}
    return told | {"problems": len(found.problems), "first_problems": found.problems[:3]}
