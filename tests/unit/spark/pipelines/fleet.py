"""A fleet in a log: samples of robots with JSON, some of them bad, and others."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
from tests.unit.spark.logs import log_at
from tests.unit.store.log.rows import rows

from elea.spark import pipelines as dp
from elea.spark.pipelines.definition import Pipeline
from elea.store.log.log import Log
from elea.store.log.schema import SCHEMA, RowKind

__all__ = ["log_at"]

HEAD = "pipeline: fleet\nlog: ./log\nstorage: ./lake\n"
TABLES = (
    'bronze: {archive: "**"}\n'
    'imu: {decode: json, key: "fleet/{robot}/imu", schema: {ax: f64, temp: f64}}\n'
)
BAD_EVERY = 17
OTHER_EVERY = 5
DELETE_EVERY = 13


def key_of(number: int) -> str:
    return "other/x" if number % OTHER_EVERY == 0 else f"fleet/r{number % 4}/imu"


def payload_of(number: int, extra: object = None) -> bytes:
    if number % BAD_EVERY == 0:
        return b"{bad"
    told: dict[str, object] = {"ax": number / 2, "temp": number % 100}
    return json.dumps(told if extra is None else told | {"extra": extra}).encode()


def batch(first: int, count: int, extra: object = None) -> pa.RecordBatch:
    numbers = range(first, first + count)
    made = rows(first, count, 8)
    columns = {name: made.column(name) for name in SCHEMA.names}
    columns["key"] = pa.array([key_of(one) for one in numbers]).dictionary_encode()
    payloads = [b"" if is_delete(one) else payload_of(one, extra) for one in numbers]
    columns["payload"] = pa.array(payloads, pa.binary())
    kinds = [int(RowKind.DELETE if is_delete(one) else RowKind.PUT) for one in numbers]
    columns["kind"] = pa.array(kinds, pa.int8())
    return pa.RecordBatch.from_arrays([columns[one.name] for one in SCHEMA], schema=SCHEMA)


def is_delete(number: int) -> bool:
    return number % DELETE_EVERY == 0


def is_bad(number: int) -> bool:
    return number % BAD_EVERY == 0 and not is_delete(number)


def is_imu(number: int) -> bool:
    return number % OTHER_EVERY != 0


def fill(log: Log, first: int, count: int, extra: object = None) -> None:
    """Rows `first` and following, in several blocks."""
    for start in range(first, first + count, 25):
        log.store(batch(start, min(25, first + count - start), extra))


def good(count: int) -> list[int]:
    """The numbers of rows that are in the table `imu`."""
    return [one for one in range(count) if is_imu(one) and not is_bad(one)]


def bad(count: int) -> list[int]:
    return [one for one in range(count) if is_imu(one) and is_bad(one)]


def written(folder: Path, tables: str = TABLES, head: str = HEAD) -> Path:
    """The file of a pipeline."""
    file = folder / "pipeline.yaml"
    file.write_text(f"{head}tables:\n" + "".join(f"  {line}\n" for line in tables.splitlines()))
    return file


def pipeline(folder: Path, tables: str = TABLES, head: str = HEAD) -> Pipeline:
    return dp.load(written(folder, tables, head))
