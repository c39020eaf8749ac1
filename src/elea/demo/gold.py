"""Gold tables of a run: held against what they are made of, and some rows of them to be shown."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from elea.demo.plan import CACHED_RADIO, name_of
from elea.demo.proof import Check, is_table, rows_of

WINDOWS: Final = "imu_1s"
ONLINE: Final = "online"
LOSSES: Final = "losses"
_SHOWN: Final = (("hot", 4), (LOSSES, 2), (WINDOWS, 2), ("last", 2))
_KEYS: Final = ["robot", "second"]


def prove_gold(lake: Path, lives: int | None) -> list[Check]:
    """What can be counted again without Spark.

    Args:
        lives: How often robots came; None: it is not known.
    """
    checks = []
    if is_table(lake / WINDOWS):
        made, wrong = _windows(lake)
        note = f"of {made:,}, counted again"
        checks.append(Check("windows that are wrong", wrong, 0, note))
    if is_table(lake / ONLINE) and lives is not None:
        rows = rows_of(lake / ONLINE)
        seen = 0 if rows is None else rows.count_rows()
        checks.append(Check("robot sessions", seen, lives, "one robot was restarted"))
    return checks


def _windows(lake: Path) -> tuple[int, int]:
    """How many windows there are, and how many have another count than rows of that second.

    What a cache filled in came after its window was closed: that robot is left out.
    """
    rows, windows = rows_of(lake / "imu"), rows_of(lake / WINDOWS)
    if rows is None or windows is None:
        return 0, 0
    samples = rows.to_table(columns=["robot", "ts"])
    seconds = pc.floor_temporal(samples["ts"], unit="second")
    counted = pa.table({"robot": samples["robot"], "second": seconds})
    wanted = counted.group_by(_KEYS).aggregate([([], "count_all")])
    made = windows.to_table(columns=["robot", "window_start", "count"])
    made = made.filter(pc.not_equal(made["robot"], name_of(CACHED_RADIO)))
    found = {
        (robot, start): count
        for robot, start, count in zip(
            *(made[name].to_pylist() for name in made.column_names), strict=True
        )
    }
    names = (wanted[name].to_pylist() for name in (*_KEYS, "count_all"))
    right = {(robot, second): count for robot, second, count in zip(*names, strict=True)}
    twice = made.num_rows - len(found)
    return made.num_rows, twice + sum(right.get(one) != count for one, count in found.items())


def some_rows(lake: Path) -> dict[str, list[dict[str, str]]]:
    """A few rows of some tables, as texts."""
    shown = {}
    for name, count in _SHOWN:
        rows = rows_of(lake / name)
        if rows is not None:
            some = rows.head(count).to_pylist()
            shown[name] = [{column: _text(value) for column, value in one.items()} for one in some]
    return shown


def _text(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
