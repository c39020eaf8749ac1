"""What an idle session and a thousand declarations hold, Elea beside the eclipse-zenoh wheel.

Each implementation is measured in a fresh process: resident memory before and after. Prints JSON
lines. `python bench/memory.py --rounds 5`.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

IMPLEMENTATIONS = ("elea", "zenoh")
SESSIONS = 20
DECLARATIONS = 1_000


def resident_kib() -> float:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def node_config(zenoh: ModuleType) -> Any:
    config = zenoh.Config()
    for key, value in {
        "mode": "peer",
        "listen/endpoints": ["tcp/127.0.0.1:0"],
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
        "transport/shared_memory/enabled": False,
    }.items():
        config.insert_json5(key, json.dumps(value))
    return config


def measure(implementation: str) -> dict[str, float]:
    """KiB per session and per thousand subscribers, in this process."""
    zenoh = importlib.import_module(implementation)
    first = zenoh.open(node_config(zenoh))  # what comes once per process is not counted
    before = resident_kib()
    sessions = [zenoh.open(node_config(zenoh)) for _ in range(SESSIONS)]
    opened = resident_kib()
    entities = [
        first.declare_subscriber(f"fleet/{number}/imu", lambda sample: None)
        for number in range(DECLARATIONS)
    ]
    declared = resident_kib()
    for session in (first, *sessions):
        session.close()
    del entities
    return {
        "idle_session_kib": (opened - before) / SESSIONS,
        "thousand_declarations_kib": (declared - opened) * 1_000 / DECLARATIONS,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--implementation", choices=IMPLEMENTATIONS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.implementation:
        print(json.dumps(measure(args.implementation)))
        return 0
    values: dict[str, list[dict[str, float]]] = {name: [] for name in IMPLEMENTATIONS}
    for number in range(args.rounds):
        for name in IMPLEMENTATIONS:
            print(f"memory: round {number + 1}, {name}", file=sys.stderr)
            done = subprocess.run(
                [sys.executable, __file__, "--implementation", name],
                capture_output=True,
                text=True,
                check=True,
            )
            values[name].append(json.loads(done.stdout))
    for figure in values["elea"][0]:
        medians = {
            name: statistics.median(one[figure] for one in values[name]) for name in IMPLEMENTATIONS
        }
        print(
            json.dumps(
                {
                    "bench": "memory",
                    "figure": figure,
                    **{name: round(median, 1) for name, median in medians.items()},
                    "ratio": round(medians["elea"] / medians["zenoh"], 2),
                    "rounds": args.rounds,
                    "python": platform.python_version(),
                }
            ),
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
