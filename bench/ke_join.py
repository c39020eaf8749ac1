"""A million keys joined with ten thousand key expressions: core-seconds of each way to do it.

    python bench/ke_join.py            the matcher on columns, compiled and interpreted; JSON lines
    python bench/ke_join.py --spark    also the whole `ke_join` in Spark, by each engine
    python bench/ke_join.py --quick    a tenth of the keys

`core_s` is processor time: of this process, or of the JVM and its Python workers, which have been
started before. `build_s` is the tree, which is part of it. The linear scan is measured on 200 keys
and multiplied. The interpreted lines come from this program run again with ELEA_PURE=1.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pyarrow as pa

from elea import pure
from elea.keyexpr.match import intersects
from elea.spark.functions import Matcher, ke_join

EXPRESSIONS_COUNT: Final = 10_000
LINEAR_KEYS_COUNT: Final = 200
PARTS: Final = [
    "arm",
    "base",
    "gripper",
    "head",
    "imu",
    "lidar",
    "nav",
    "power",
    "safety",
    "vision",
]
FIELDS: Final = [
    "temp",
    "pos",
    "vel",
    "acc",
    "current",
    "voltage",
    "status",
    "rate",
    "error",
    "raw",
]
TICKS: Final = os.sysconf("SC_CLK_TCK")


def all_keys(sites_count: int) -> list[str]:
    """Six chunks each: 500 robots per site with 100 fields each, in no order."""
    keys = [
        f"fleet/site{site}/robot{robot}/{part}/{field}/v{(site + robot) % 3}"
        for site in range(sites_count)
        for robot in range(500)
        for part in PARTS
        for field in FIELDS
    ]
    random.Random(7).shuffle(keys)
    return keys


def all_expressions() -> list[str]:
    rng = random.Random(8)
    found: set[str] = set()
    while len(found) < EXPRESSIONS_COUNT:
        site, robot = f"site{rng.randrange(20)}", f"robot{rng.randrange(500)}"
        part, field = rng.choice(PARTS), rng.choice(FIELDS)
        forms = (
            f"fleet/{site}/{robot}/**",
            f"fleet/*/{robot}/{part}/**",
            f"fleet/{site}/*/{part}/{field}/*",
            f"fleet/{site}/{robot}$*/{part}/*/v1",
            f"fleet/**/{robot}/**/{field}/*",
            f"**/{robot}/{part}/{field}/v$*",
            f"fleet/{site}/{robot}/{part}/*/*",
            f"*/{site}/{robot}/{part}/{field}/**",
        )
        found.add(rng.choice(forms))
    return sorted(found)


def report(**figures: object) -> None:
    print(json.dumps({"bench": "ke_join", **figures}), flush=True)


def by_matcher(keys: list[str], expressions: list[str]) -> int:
    column = pa.array(keys)
    started = time.process_time()
    matcher = Matcher(expressions)
    built = time.process_time()
    rows, _ = matcher.match_many(column)
    report(
        way="matcher",
        build="compiled" if pure.is_compiled("elea.keyexpr.tree") else "interpreted",
        keys=len(keys),
        expressions=len(expressions),
        pairs=len(rows),
        core_s=round(time.process_time() - started, 2),
        build_s=round(built - started, 2),
    )
    return len(rows)


def by_scan(keys: list[str], expressions: list[str]) -> None:
    some = keys[:LINEAR_KEYS_COUNT]
    started = time.process_time()
    pairs = sum(intersects(text, key) for key in some for text in expressions)
    taken = (time.process_time() - started) * len(keys) / len(some)
    report(way="each with each", pairs_sample=pairs, core_s=round(taken))


def by_spark(keys: list[str], expressions: list[str], pairs: int) -> None:
    from pyspark.sql import SparkSession  # late: only this part needs it

    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    # In the JVM before, so that their way there is not part of what is measured.
    df = spark.createDataFrame(pa.table({"key": keys})).repartition(4).cache()
    df.count()
    ke_join(df.limit(10), expressions[:10]).count()  # start the workers
    for engine, distinct in (("python", True), ("python", False), ("sql", True), ("sql", False)):
        started, clock = descendants_s(), time.perf_counter()
        found = ke_join(df, expressions, engine=engine, distinct=distinct).count()  # type: ignore[arg-type]  # one of them
        if found != pairs:
            raise AssertionError(f"{engine} found {found} pairs of {pairs}")
        report(
            way=f"spark, engine={engine}, distinct={distinct}",
            pairs=found,
            core_s=round(descendants_s() - started, 2),
            wall_s=round(time.perf_counter() - clock, 2),
        )
    spark.stop()


def descendants_s() -> float:
    """Processor seconds of all processes below this one, those included that ended there."""
    parents: dict[int, tuple[int, int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended meanwhile
        parents[int(folder.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    total = 0
    for process in parents:
        above = process
        while above in parents and above != os.getpid():
            above = parents[above][0]
        if above == os.getpid() and process != above:
            total += parents[process][1]
    return total / TICKS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the keys")
    parser.add_argument("--spark", action="store_true", help="the whole join in Spark, too")
    args = parser.parse_args()
    keys, expressions = all_keys(2 if args.quick else 20), all_expressions()
    pairs = by_matcher(keys, expressions)
    if os.environ.get("ELEA_PURE") == "1":
        return
    by_scan(keys, expressions)
    if args.spark:
        by_spark(keys, expressions, pairs)
    if pure.is_compiled("elea.keyexpr.tree"):
        command = [sys.executable, __file__, *(["--quick"] if args.quick else [])]
        subprocess.run(command, env={**os.environ, "ELEA_PURE": "1"}, check=True)


if __name__ == "__main__":
    main()
