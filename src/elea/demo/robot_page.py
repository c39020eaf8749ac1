"""The page of one robot, drawn from the rows of bronze."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow.compute as pc

from elea import cbor
from elea.demo import plot
from elea.demo.plan import BATTERY, IMU, key_of, name_of
from elea.demo.proof import Check, scan
from elea.errors import EleaError
from elea.store.log.schema import RowKind

_COLUMNS: Final = ("key", "kind", "ts", "payload")

Said: TypeAlias = list[tuple[float, dict[str, object]]]  # when, and what


def page_of(bronze: Path, robot: int, checks: Sequence[Check]) -> str:
    """A page of HTML: what a robot measured, and what was counted of all."""
    imu = _said(bronze, key_of(robot, IMU), json.loads)
    battery = _said(bronze, key_of(robot, BATTERY), _of_cbor)
    start = min((said[0][0] for said in (imu, battery) if said), default=0.0)
    charts = [
        plot.Chart("temperature, °C", [_series(imu, "temp", start)]),
        plot.Chart("acceleration, m/s²", [_series(imu, name, start) for name in ("ax", "ay")]),
        plot.Chart("battery, V", [_series(battery, "volts", start)]),
    ]
    rows = [(check.name, f"{check.seen:,}") for check in checks]
    return plot.page(f"Robot {name_of(robot)}", charts, rows)


def _said(bronze: Path, key: str, read: Callable[[bytes], dict[str, object]]) -> Said:
    found: Said = []
    for batch in scan(bronze, _COLUMNS):
        is_put = pc.equal(batch.column("kind"), int(RowKind.PUT))
        batch = batch.filter(pc.and_(is_put, pc.equal(batch.column("key"), key)))
        for row in batch.select(["ts", "payload"]).to_pylist():
            with suppress(ValueError, EleaError):  # garbled: drawn without it
                found.append((row["ts"].timestamp(), read(row["payload"])))
    return sorted(found, key=lambda one: one[0])


def _of_cbor(octets: bytes) -> dict[str, object]:
    item = cbor.loads(octets)
    if not isinstance(item, cbor.Map):
        raise ValueError("no map")
    return {str(name): value for name, value in item.pairs}


def _series(said: Said, name: str, start: float) -> plot.Series:
    return plot.Series(name, [(at - start, float(one[name])) for at, one in said if name in one])  # type: ignore[arg-type]
