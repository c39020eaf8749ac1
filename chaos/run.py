"""`make chaos`: every campaign at length; one JSON line each, exit status 1 if any law was broken.

python -m chaos.run --kills 200 --powers 100 --points 5 --recorder 200 --seeds 2000 --flips 1000 \
    --spark-drivers 50 --spark-pipelines 20 --spark-executors 20 --spark-recorders 20 \
    --spark-pairs 5

`python -m chaos.run --only hostile --hostile 1000` runs one campaign.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from chaos import spark
from chaos.campaign import Life
from chaos.hostile import HostileVictim
from chaos.kill import Victim
from chaos.recorder import RecorderVictim
from tests.unit.store.log.rows import numbers_of
from tests.unit.store.log.test_log import filled

from elea import crash
from elea.store.log.disk import RealDisk
from elea.store.log.reader import LogReader
from elea.store.log.segment import Damage
from elea.store.log.settings import LogSettings
from elea.store.log.verify import verify

LIFE_CRASHES = 8
ONCE = {point for point in crash.POINTS if "open" in point or "lock" in point or "cut" in point} | {
    "log.after_epoch"
}


def kills(count: int, seed: int, root: Path) -> dict[str, object]:
    """`kill -9` at any time, while four appends at once are under way."""
    return _killed(Victim(root / "kills", seed), count, lambda victim, _: victim.die())


def powers(count: int, seed: int, root: Path) -> dict[str, object]:
    """The power is lost at any time: what was not synchronised is gone, torn or out of order."""
    return _killed(Victim(root / "powers", seed), count, lambda victim, _: victim.die(power=True))


def points(count: int, seed: int, root: Path) -> dict[str, object]:
    """Death at each named point, at different times it is reached."""
    victim = Victim(root / "points", seed)
    due = [(point, nth) for point in crash.POINTS for nth in range(1, count + 1)]

    def die(victim: Victim, turn: int) -> None:
        point, nth = due[turn]
        if point in ONCE:
            nth = 1
        if "cut" in point:  # something has to be unfinished
            victim.die(point="log.after_write", nth=turn % 7 + 1, check=False)
        victim.die(point=point, nth=nth)

    return _killed(victim, len(due), die)


def _killed(victim: Victim, count: int, die: Callable[[Victim, int], None]) -> dict[str, object]:
    for turn in range(count):
        die(victim, turn)
        _tell(f"{victim.directory.name}: {turn + 1} of {count}, {len(victim.problems)} problems")
    return {
        "deaths": victim.deaths_count,
        "rows": victim.next_number,
        "problems": len(victim.problems),
        "first_problems": victim.problems[:3],
    }


def recorder(count: int, seed: int, root: Path) -> dict[str, object]:
    """`kill -9` of `elea record` at any time, while up to eight puts wait to be acknowledged."""
    victim = RecorderVictim(root / "recorder", seed)
    for turn in range(count):
        victim.die()
        _tell(f"recorder: {turn + 1} of {count}, {len(victim.problems)} problems")
    return {
        "deaths": victim.deaths_count,
        "acknowledged": len(victim.placed),
        "put_again": victim.repeated_count,
        "problems": len(victim.problems),
        "first_problems": victim.problems[:3],
    }


def hostile(count: int, seed: int, root: Path) -> dict[str, object]:
    """`kill -9` of a recorder while hostile publishers claim to be the honest ones."""
    victim = HostileVictim(root / "hostile", seed)
    told_count = 0
    for turn in range(count + 1):
        if turn < count:
            victim.die()
        else:
            victim.finish()
        for problem in victim.problems[told_count:]:
            _tell(f"hostile: problem in life {turn + 1}: {problem}")
        told_count = len(victim.problems)
        acknowledged = f"{len(victim.ledger.placed)} acknowledged"
        _tell(f"hostile: {victim.deaths_count} of {count}, {acknowledged}, {told_count} problems")
    return {
        "deaths": victim.deaths_count,
        "acknowledged": len(victim.ledger.placed),
        "spooled": len(victim.ledger.spooled),
        "put_again": victim.ledger.repeated_count,
        "hostile": victim.hostile_count,
        "slow_lives": victim.slow_count,
        "silent_lives": victim.silent_count,
        "problems": told_count,
        "first_problems": victim.problems[:20],
    }


def seeds(count: int, seed: int, root: Path) -> dict[str, object]:
    """Lives on the disk in memory, with errors and a full disk too."""
    problems = []
    for one in range(seed, seed + count):
        try:
            Life(one).live(LIFE_CRASHES)
        except Exception as error:
            problems.append(f"seed {one}: {error!r}")
        if one % 100 == 99:
            _tell(f"seeds: {one - seed + 1} of {count}, {len(problems)} problems")
    return {
        "lives": count,
        "crashes": count * LIFE_CRASHES,
        "met": crash.seen(),
        "problems": len(problems),
        "first_problems": problems[:3],
    }


def flips(count: int, seed: int, root: Path) -> dict[str, object]:
    """One octet flipped, or a file cut, in closed segments: found, and all else is read."""
    path = root / "flips"
    filled(path, 60, LogSettings(segment_len=20_000, low_water_percent=0)).close()
    files = sorted(path.glob("shard-0000/*"))[:-2]
    rng = random.Random(seed)
    disk = RealDisk(path, writable=False)
    problems: list[str] = []
    for turn in range(count):
        file = rng.choice(files)
        content = file.read_bytes()
        at = rng.randrange(len(content))
        changed = content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
        file.write_bytes(changed if rng.random() < 0.7 else content[:at])
        found = verify(disk)
        told: list[Damage] = []
        reader = LogReader(path, told.append)
        rows_count = len(numbers_of(list(reader.read(0, 0))))
        if not found.damage:
            problems.append(f"turn {turn}: octet {at} of {file.name} was not found")
        if rows_count + reader.lost_count != 600 or reader.lost_count != found.lost_count:
            problems.append(f"turn {turn}: {rows_count} rows, {reader.lost_count} told as lost")
        file.write_bytes(content)
    return {"flips": count, "problems": len(problems), "first_problems": problems[:3]}


def _with_spark(
    name: str, run: Callable[[int, int, Path, Callable[[str], None]], dict[str, object]]
) -> Callable[[int, int, Path], dict[str, object]]:
    return lambda count, seed, root: run(count, seed, root, lambda text: _tell(f"{name}: {text}"))


CAMPAIGNS = {
    "kills": (kills, 200),
    "powers": (powers, 100),
    "points": (points, 5),
    "recorder": (recorder, 200),
    "hostile": (hostile, 200),
    "seeds": (seeds, 2_000),
    "flips": (flips, 1_000),
    "spark-drivers": (_with_spark("spark-drivers", spark.drivers), 50),
    "spark-pipelines": (_with_spark("spark-pipelines", spark.pipelines), 20),
    "spark-executors": (_with_spark("spark-executors", spark.executors), 20),
    "spark-recorders": (_with_spark("spark-recorders", spark.recorders), 20),
    "spark-pairs": (_with_spark("spark-pairs", spark.pairs), 5),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, (_, default) in CAMPAIGNS.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=[*CAMPAIGNS], default=[*CAMPAIGNS])
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left running
    failed = False
    for name, (run, _) in CAMPAIGNS.items():
        count = getattr(args, name.replace("-", "_"))
        if not count or name not in args.only:
            continue
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="elea-chaos-") as root:
            result = run(count, args.seed, Path(root))
        seconds = round(time.monotonic() - started, 1)
        print(json.dumps({"campaign": name, **result, "seconds": seconds}), flush=True)
        failed = failed or bool(result["problems"])
    return 1 if failed else 0


def _tell(text: str) -> None:
    start, end = ("\r", " ") if sys.stderr.isatty() else ("", "\n")
    print(f"{start}{text}", end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
