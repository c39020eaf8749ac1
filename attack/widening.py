"""Payloads with members that nobody declared, other ones each time: a table gets few columns.

A hostile client publishes JSON on a key that a pipeline decodes, through a router that records it.
The pipeline's landing is run over the log of that router, batch after batch, as Spark would run it.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attack.harness import MIB, Check, Target
from attack.users import services

import elea
from elea.limits import DEFAULT_LIMITS
from elea.spark import pipelines
from elea.spark.options import Options
from elea.spark.pipelines import landing
from elea.spark.pipelines.landing_source import LandingReader
from elea.store.tables.table import open_table

THREAT: Final = "made-up members of payloads"
RSS_GROWTH: Final = 96 * MIB
SIZES: Final = {"small": 4, "full": 40}  # batches
SERVICES: Final = services
_ROWS: Final = 50  # of a batch
_MEMBERS: Final = 40  # of a payload that are new
_NAMES: Final = ("\ud800", "a.b", "", " ", ",;{}()=", "AX", "robot", "_extra")  # of each payload
_TABLE: Final = 'imu: {decode: json, key: "fleet/{robot}/imu", schema: {ax: f64}}'


def attack(target: Target, size: int) -> list[Check]:
    """Publish, land, and count the columns."""
    with _no_warnings():
        return _attack(target, size)


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    """Silence the warnings of new members, which are expected, for the time of an attack."""
    logger = logging.getLogger("elea.spark")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _attack(target: Target, size: int) -> list[Check]:
    log = target.folder / "logs" / "all"
    definition = target.folder / "pipeline.yaml"
    definition.write_text(
        f"pipeline: fleet\nlog: {log}\nstorage: {target.folder / 'lake'}\ntables:\n  {_TABLE}\n"
    )
    made = pipelines.load(definition)
    place = landing.Place.of(made)
    landing.prepare(place, made.landed)
    declared = len(open_table(made.path("imu")).schema().names)
    stream = Options({"log": str(log), "consumer": "c", "maxRowsPerTrigger": "10000"}).stream()
    reader = LandingReader(stream, place, made.landed)
    offset = reader.initialOffset()
    with target.session() as session:
        for number in range(size):
            publish(session, number)
            end = reader.latestOffset(offset, reader.getDefaultReadLimit())
            batches = [one for part in reader.partitions(offset, end) for one in reader.read(part)]
            landed = landing.from_rows(row for one in batches for row in one.to_pylist())
            landing.commit(place, made.landed, landed, number)
            offset = end
    table = open_table(made.path("imu"))
    added = len(table.schema().names) - declared
    rows = sum(file.rows_count for file in table.files())
    return [
        # One more is `_extra`, where the other members are.
        Check("columns_added", added, DEFAULT_LIMITS.drift_columns_count + 1),
        Check("none_added", float(added == 0), 0),
        Check("rows_lost", size * _ROWS - rows, 0),
        Check("definition_bytes", _remembered_len(target.folder), 64 * 1024),
    ]


def publish(session: elea.Session, batch: int) -> None:
    """One batch of samples, stored."""
    for row in range(_ROWS):
        names = (f"made_up_{batch}_{row}_{member}" for member in range(_MEMBERS))
        told = {"ax": 1.0, "a": {"b": [{"c": "x"}]}, **dict.fromkeys([*_NAMES, *names], 1)}
        session.put("fleet/r1/imu", json.dumps(told), ack="stored", timeout=60)


def _remembered_len(folder: Path) -> int:
    """The bytes of what is remembered of members."""
    return sum(one.stat().st_size for one in folder.glob("lake/_elea/drift/*"))
