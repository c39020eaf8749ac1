"""Key matching: one pair, the worst pair, and a tree against a linear scan.

    python bench/match.py            compiled and interpreted, as JSON lines
    python bench/match.py --quick    a tenth of the work

Each line is one measurement: `name`, `build` (compiled or interpreted), `ns` per operation and what
was counted. The interpreted lines come from this program run again with ELEA_PURE=1, which makes
`elea` import the sources of its compiled modules. All inputs come from fixed seeds. The linear scan
is measured on a sample of the look-ups, `linear_lookups`, and the interpreted tree on a tenth.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable

from elea.keyexpr import match
from elea.keyexpr.tree import KeyExprTree

EXPRESSIONS_COUNT = 10_000
LOOKUPS_COUNT = 1_000_000
LINEAR_LOOKUPS_COUNT = 100  # a linear scan of all the look-ups would take an hour interpreted
ROBOTS_COUNT = 400
SENSORS = ["imu", "pose", "lidar", "battery", "camera", "gps", "odom", "temp"]
PARTS = ["front", "rear", "left", "right", "raw", "filtered"]

PAIRS = {
    "equal keys": ("fleet/r17/imu/raw", "fleet/r17/imu/raw"),
    "two keys": ("fleet/r17/imu/raw", "fleet/r18/imu/raw"),
    "star": ("fleet/*/imu/raw", "fleet/r17/imu/raw"),
    "trailing double star": ("fleet/r17/**", "fleet/r17/imu/raw"),
    "inner double star": ("fleet/**/raw", "fleet/r17/imu/raw"),
    "sub-chunk": ("fleet/r1$*/imu/$*w", "fleet/r17/imu/raw"),
    "disjoint": ("fleet/*/imu/raw", "plant/r17/imu/raw"),
    "both wild": ("fleet/**/raw", "fleet/*/imu/**"),
    "verbatim": ("@/*/router/**", "@/7f/router/config/a"),
}

# The worst pair that a search inside the default limits found: every chunk of the long piece is
# compared at every place of the other side, every comparison reads eight parts, and only the last
# chunk fails. tests/unit/keyexpr counts the same pair in operations.
WORST_PAIR = (
    "**/" + "/".join(["a$*a$*aa$*aa$*aa$*aa$*aa$*a$*"] * 31) + "/z/**",
    "/".join(["aaaaaaaaaaaaaaa"] * 64),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work")
    quick = parser.parse_args().quick
    measure(quick=quick)
    if os.environ.get("ELEA_PURE") != "1" and _is_compiled():
        command = [sys.executable, __file__, *(["--quick"] if quick else [])]
        subprocess.run(command, env={**os.environ, "ELEA_PURE": "1"}, check=True)
    return 0


def measure(*, quick: bool) -> None:
    repeats = 20_000 if quick else 200_000
    for name, (a, b) in PAIRS.items():
        report("intersects", pair=name, ns=per_call_ns(match.intersects, a, b, repeats))
        report("includes", pair=name, ns=per_call_ns(match.includes, a, b, repeats))
    for function in (match.intersects, match.includes):
        a, b = WORST_PAIR
        report("worst pair", function=function.__name__, ns=per_call_ns(function, a, b, 50))
    measure_tree(quick=quick)


def measure_tree(*, quick: bool) -> None:
    rng = random.Random(20)
    expressions = mixed_expressions(rng, EXPRESSIONS_COUNT)
    keys = [concrete_key(rng) for _ in range(1_000)]
    tree: KeyExprTree[str] = KeyExprTree()
    started = time.perf_counter_ns()
    for expression in expressions:
        tree.insert(expression, expression)
    report("tree insert", ns=(time.perf_counter_ns() - started) / len(expressions))

    lookups_count = LOOKUPS_COUNT // 10 if quick or not _is_compiled() else LOOKUPS_COUNT
    matches_count = 0
    started = time.perf_counter_ns()
    for _ in range(lookups_count // len(keys)):
        for key in keys:
            matches_count += len(tree.intersecting(key))
    tree_ns = (time.perf_counter_ns() - started) / lookups_count

    linear_keys = keys[: LINEAR_LOOKUPS_COUNT // (10 if quick else 1)]
    intersects = match.intersects
    started = time.perf_counter_ns()
    for key in linear_keys:
        expected = [expression for expression in expressions if intersects(expression, key)]
    linear_ns = (time.perf_counter_ns() - started) / len(linear_keys)
    if sorted(expected) != sorted(tree.intersecting(linear_keys[-1])):
        raise AssertionError("the tree and the linear scan disagree")
    report(
        "tree look-up of a key",
        ns=tree_ns,
        lookups=lookups_count,
        expressions=len(expressions),
        matches_mean=round(matches_count / lookups_count, 2),
        linear_ns=round(linear_ns),
        linear_lookups=len(linear_keys),
        ratio=round(linear_ns / tree_ns, 1),
    )
    # One hostile declaration against all of them (threat T21).
    hostile = "/".join(["**/$*a$*"] * 16)
    report("tree look-up, hostile expression", ns=per_call_ns(tree_call(tree), hostile, "", 20))


def tree_call(tree: KeyExprTree[str]) -> Callable[[str, str], object]:
    return lambda expression, _: tree.intersecting(expression)


def mixed_expressions(rng: random.Random, count: int) -> list[str]:
    """Distinct expressions as a fleet's routers hold them: half plain subtrees, half wildcards."""
    expressions: dict[str, None] = {}
    while len(expressions) < count:
        robot = f"r{rng.randrange(ROBOTS_COUNT)}"
        sensor = rng.choice(SENSORS)
        part = rng.choice(PARTS)
        number = rng.randrange(100)
        shape = rng.choice(
            [
                f"fleet/{robot}/{sensor}/{part}",
                f"fleet/{robot}/{sensor}/*",
                f"fleet/{robot}/{sensor}{number}/**",
                f"fleet/*/{sensor}{number}/{part}",
                f"fleet/{robot}/**/{part}{number}",
                f"**/{sensor}{number}/{part}",
                f"fleet/{robot[:-1]}$*/{sensor}/{number}",
                f"fleet/{robot}/{sensor}$*/{part}",
                f"*/{robot}/{sensor}/{number}",
                f"@/{robot}/router/{sensor}/**",
            ]
        )
        expressions[shape] = None
    return list(expressions)


def concrete_key(rng: random.Random) -> str:
    robot = f"r{rng.randrange(ROBOTS_COUNT)}"
    return f"fleet/{robot}/{rng.choice(SENSORS)}/{rng.choice([*PARTS, str(rng.randrange(100))])}"


def per_call_ns(function: Callable[[str, str], object], a: str, b: str, repeats: int) -> float:
    best = float("inf")
    for _ in range(5):
        started = time.perf_counter_ns()
        for _ in range(repeats // 5):
            function(a, b)
        best = min(best, (time.perf_counter_ns() - started) / (repeats // 5))
    return best


def report(name: str, *, ns: float, **details: object) -> None:
    line = {
        "name": name,
        "build": "compiled" if _is_compiled() else "interpreted",
        **details,
        "ns": round(ns, 1),
        "python": platform.python_version(),
    }
    print(json.dumps(line), flush=True)


def _is_compiled() -> bool:
    return not str(match.__file__).endswith(".py")


if __name__ == "__main__":
    sys.exit(main())
