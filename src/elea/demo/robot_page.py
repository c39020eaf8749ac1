"""The page of one robot, drawn from the rows of bronze."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow.compute as pc

from elea.decode.formats import value_of
from elea.demo import plot
from elea.demo.plan import BATTERY, IMU, Stream, key_of, name_of
from elea.demo.proof import Check, scan
from elea.encoding import Encoding
from elea.store.log.schema import RowKind

_HOT: Final = 80.0  # degrees, of the alert in pipeline.yaml
_COLUMNS: Final = ("key", "kind", "ts", "payload")

Said: TypeAlias = list[tuple[float, dict[str, object]]]  # when, and what


def page_of(bronze: Path, robot: int, checks: Sequence[Check]) -> str:
    """A page of HTML: what a robot measured, and what was counted of all."""
    imu = _said(bronze, robot, IMU)
    battery = _said(bronze, robot, BATTERY)
    temperature = _series(imu, "temp")
    hot = _crossings(temperature.points, _HOT)
    charts = [
        plot.Chart("temperature, °C", [temperature], hot, f"above {_HOT:g}: the alert hot"),
        plot.Chart("acceleration, m/s²", [_series(imu, name) for name in ("ax", "ay")]),
        plot.Chart("battery, V", [_series(battery, "volts")]),
    ]
    rows = [(check.name, f"{check.seen:,}") for check in checks]
    title = f"Robot {name_of(robot)}, times in UTC"
    return plot.page(title, charts, rows, "Counted of the whole fleet")


def _said(bronze: Path, robot: int, stream: Stream) -> Said:
    found: Said = []
    encoding = Encoding(stream.encoding)
    for batch in scan(bronze, _COLUMNS):
        is_put = pc.equal(batch.column("kind"), int(RowKind.PUT))
        batch = batch.filter(pc.and_(is_put, pc.equal(batch.column("key"), key_of(robot, stream))))
        for row in batch.select(["ts", "payload"]).to_pylist():
            with suppress(ValueError):  # garbled: drawn without it
                value = value_of(row["payload"], encoding)
                if isinstance(value, dict):
                    found.append((row["ts"].timestamp(), value))
    return sorted(found, key=lambda one: one[0])


def _series(said: Said, name: str) -> plot.Series:
    return plot.Series(name, [(at, float(one[name])) for at, one in said if name in one])  # type: ignore[arg-type]


def _crossings(points: Sequence[tuple[float, float]], level: float) -> list[float]:
    """When a value went above a level.

    Example:
        >>> _crossings([(1, 79), (2, 81), (3, 85), (4, 70), (5, 90)], 80)
        [2, 5]
    """
    return [at for (_, before), (at, now) in pairwise(points) if before <= level < now]
