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
from pathlib import Path

from chaos.spark_cluster import Cluster, parent
from chaos.spark_ledger import ARCHIVE, PIPELINE, WINDOWS, Job
from chaos.spark_rig import Life, NotReachedError, Rig, end, wait_for

from elea import crash

IN_TASK = ("table.before_files", "table.after_files")
RANDOM_S = 3.0  # a kill at any time is in that time
# What Spark and the table say to the second one; a user must find one of these.
CLEAR = ("CONCURRENT_STREAM_LOG_UPDATE", "another one writes as this consumer")
WINDOW_MIN = 5
WINDOWS_FROM = 50  # kills, from which on each window has to have so many

Tell = Callable[[str], None]
Result = dict[str, object]


def drivers(count: int, seed: int, root: Path, tell: Tell, job: Job = ARCHIVE) -> Result:
    """`kill -9` of the driver: at every point of a batch in turn, and each third at any time."""
    rng = random.Random(seed)
    problems: list[str] = []
    windows: Counter[str] = Counter()
    checks_count = 0
    points = list(crash.QUERY_POINTS)
    with Rig(root / "drivers", job) as rig:
        for turn in range(count):
            point = None if turn % 3 == 2 else points[(turn - turn // 3) % len(points)]
            at_start = rng.random() < 0.25  # before it has done what the last one left
            life = rig.drive(armed=point if at_start else None)
            try:
                if not at_start:
                    problems += rig.settle(life)
                    checks_count += 1
                passes_count = rng.randrange(len(job.tables)) if "commit" in (point or "") else 0
                _die(life, point, passes_count, at_start=at_start, rng=rng)
            except NotReachedError as error:
                problems.append(f"kill {turn + 1}: {error}")
                life.kill()
            window = rig.ledger.window(life.started_s)
            windows[window] += 1
            problems += rig.ledger.problems(whole=False)
            tell(f"{turn + 1} of {count}, {point or 'any'}: {window}, {len(problems)} problems")
        problems += _settled(rig, rig.drive())
        rare = [window for window in WINDOWS if windows[window] < WINDOW_MIN]
        if count >= WINDOWS_FROM and rare:
            problems.append(f"fewer than {WINDOW_MIN} kills {', '.join(rare)}")
        return _result(rig, problems, kills=count, checks=checks_count + 1, windows=dict(windows))


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
    problems: list[str] = []
    with Rig(root / "executors") as rig:
        victims: Counter[str] = Counter()
        for is_cluster in (False, True):
            turns = range(count // 2) if is_cluster else range(count - count // 2)
            with Cluster(rig.root / "cluster", is_wanted=is_cluster and bool(turns)) as cluster:
                life = rig.drive(cluster.master, cluster.config)
                problems += _settled(rig, life)
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
                    problems += _settled(rig, life)
                    tell(f"{sum(victims.values())} of {count}, {kind}: {len(problems)} problems")
                life.kill()
        return _result(rig, problems, kills=sum(victims.values()), victims=dict(victims))


def recorders(count: int, seed: int, root: Path, tell: Tell) -> Result:
    """`kill -9` of the recorder while a query runs that reads its files, and one that asks it."""
    rng = random.Random(seed)
    problems: list[str] = []
    kills: Counter[str] = Counter()
    with Rig(root / "recorders") as rig:
        for place, turns_count in (("files", count - count // 2), ("served", count // 2)):
            rig.is_served = place == "served"
            life = rig.drive()
            problems += _settled(rig, life)
            for _ in range(turns_count):
                time.sleep(rng.random() * RANDOM_S)
                rig.record()
                problems += _settled(rig, life)
                kills[place] += 1
                tell(f"{sum(kills.values())} of {count}, {place}: {len(problems)} problems")
            life.kill()
        return _result(rig, problems, kills=count, places=dict(kills))


def pairs(count: int, seed: int, root: Path, tell: Tell) -> Result:
    """A second driver on the same checkpoint: one of both goes on, the other says why it ended."""
    problems: list[str] = []
    said: Counter[str] = Counter()
    with Rig(root / "pairs") as rig:
        first = rig.drive()
        problems += _settled(rig, first)
        for turn in range(count):
            second = rig.drive()
            try:
                wait_for(lambda: not (first.is_alive() and second.is_alive()), "an end of one")  # noqa: B023
            except NotReachedError as error:
                problems.append(str(error))
            loser, first = (first, second) if second.is_alive() else (second, first)
            clear = [text for text in CLEAR if text in loser.told()]
            if not clear:
                problems.append(f"no clear reason: {loser.told()}")
            said[clear[0] if clear else "unclear"] += 1
            loser.kill()
            problems += _settled(rig, first)
            tell(f"{turn + 1} of {count}, {dict(said)}: {len(problems)} problems")
        return _result(rig, problems, pairs=count, said=dict(said))


def _settled(rig: Rig, life: Life) -> list[str]:
    try:
        return rig.settle(life)
    except NotReachedError as error:
        return [str(error)]


def _result(rig: Rig, problems: list[str], **more: object) -> Result:
    rows_count = rig.ledger.rows_count()
    acknowledged_count = len(rig.ledger.places())
    told: Result = {"acknowledged": acknowledged_count, "rows": rows_count, **more}
    return told | {"problems": len(problems), "first_problems": problems[:3]}
