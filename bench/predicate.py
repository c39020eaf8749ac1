"""What a predicate costs per sample, beside decoding the payload, and per row in Arrow.

    python bench/predicate.py            half a minute, JSON lines
    python bench/predicate.py --quick    fewer rounds, for a look

`ns` is one verdict over a payload that is decoded for it, `evaluate_ns` over one that is decoded
already, `decode_ns` what the decoder alone takes, `arrow_ns` one row of a table of columns. The
best of all rounds counts, and the parts take turns, so that a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from elea.decode.formats import value_of
from elea.encoding import Encoding
from elea.predicate import PayloadFields, compile_predicate, parse, to_arrow
from elea.predicate.evaluate import MappingFields

ROW: Final = {"temp": 21.5, "room": "music", "loc": {"lat": 48.0, "lon": 2.0}, "on": True, "n": 40}
PAYLOAD: Final = json.dumps(ROW).encode()
JSON: Final = Encoding("application/json")
TEXTS: Final = (
    "temp > 20",
    "temp > 20 AND room LIKE 'mu%'",
    "loc.lat BETWEEN 47 AND 49 AND NOT on = FALSE",
    "room LIKE '%u_i%' OR n = 40",
    "n = 1 OR n = 2 OR n = 3 OR n = 4 OR n = 40",
)
TABLE_ROWS: Final = 100_000


def best_ns(parts: dict[str, tuple[Callable[[], object], int]], rounds: int) -> dict[str, float]:
    """Nanoseconds per item of each part; a part handles that many items per call."""
    best = dict.fromkeys(parts, float("inf"))
    for _ in range(rounds):
        for name, (run, items) in parts.items():
            calls = max(1, 1_000 // items)
            started = time.perf_counter_ns()
            for _ in range(calls):
                run()
            taken = (time.perf_counter_ns() - started) / (calls * items)
            best[name] = min(best[name], taken)
    return {name: round(ns, 1) for name, ns in best.items()}


def measure(text: str, table: pa.Table, rounds: int) -> dict[str, object]:
    predicate = parse(text)
    test = compile_predicate(predicate)
    expression = to_arrow(predicate, table.schema)
    row = MappingFields(ROW)
    if test(row) is not True or table.filter(expression).num_rows != TABLE_ROWS:
        raise AssertionError("what is measured does not work")
    found = best_ns(
        {
            "ns": (lambda: test(PayloadFields(PAYLOAD, JSON)), 1),
            "evaluate_ns": (lambda: test(row), 1),
            "decode_ns": (lambda: value_of(PAYLOAD, JSON), 1),
            "arrow_ns": (lambda: table.filter(expression), TABLE_ROWS),
        },
        rounds,
    )
    return {"bench": "predicate", "predicate": text, **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 10 if parser.parse_args().quick else 200
    table = pa.Table.from_pylist([ROW] * TABLE_ROWS)
    for text in TEXTS:
        print(json.dumps(measure(text, table, rounds)), flush=True)


if __name__ == "__main__":
    main()
