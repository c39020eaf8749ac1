"""DDS samples as columns, without IDL: by the schemas that a bridge publishes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.dds.conftest import Rig
from tests.dds.peers import LIMIT_S, bridge, config_of, next_domain, peer, put, until
from tests.ports import free_port

import elea
from elea.config import yaml_text
from elea.decode.columns.plan import decode
from elea.decode.columns.schemas import plan_of_samples
from elea.decode.layout import parse_layout
from elea.decode.layout_writer import write_cdr
from elea.encoding import Encoding
from elea.errors import ConfigError
from elea.predicate.evaluate import compile_predicate
from elea.predicate.parser import parse
from elea.predicate.payload import PayloadFields
from elea.spark.decoding import plan_of_options
from elea.spark.pipelines.problems import Problems
from elea.spark.pipelines.reading import parsed
from elea.spark.pipelines.schemas import dds_plan
from elea.spark.pipelines.silver import Silver
from elea.store.historian.historian import Historian
from elea.store.historian.source import LogSource
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.log.settings import LogSettings
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.settings import RecordingSettings

line = pytest.mark.line

ROBOT: dict[str, Any] = {
    "name": "r1",
    "mode": "ON",
    "pose": [1.0, 2.0, 3.0],
    "cells": [0.5],
    "places": [{"floor": 1, "room": "x"}],
    "note": None,
    "reading": {"whole": 4},
}


@line("D-875", "D-879", "D-936")
def test_samples_become_columns_and_columns_samples(rig: Rig) -> None:
    with rig.far.declare_subscriber("Robots") as subscriber:
        rig.peer.writer("robots", "Robots", "Robot")
        rig.matched("robots")
        rig.peer.write("robots", [ROBOT])
        sample = subscriber.handler.recv(LIMIT_S)

    def schemas() -> list[bytes]:
        replies = rig.far.get("@schema/cdr/demo::Robot/*")
        return [one.ok.payload.to_bytes() for one in replies if one.ok]

    [schema] = until(schemas)
    payload, encoding = sample.payload.to_bytes(), str(sample.encoding)
    rows = pa.RecordBatch.from_pylist(
        [
            {"key": "Robots", "payload": payload, "encoding": encoding, "kind": int(RowKind.PUT)},
            {
                "key": "@schema/cdr/demo::Robot/00",
                "payload": schema,
                "encoding": "application/json",
                "kind": int(RowKind.PUT),
            },
        ]
    )
    plan = plan_of_samples([rows])
    table = decode(rows.slice(0, 1), plan).rows
    [row] = pa.Table.from_batches([table]).to_pylist()
    assert row["name"] == "r1"
    assert row["mode"] == "ON"
    assert row["pose"] == [1.0, 2.0, 3.0]
    assert row["note"] is None
    assert row["reading"] == {"whole": 4, "exact": None, "other": None}
    # A predicate sees the same members.
    layout = parse_layout(json.loads(schema)["layout"])
    fields = PayloadFields(payload, Encoding(encoding), layout=layout)
    assert compile_predicate(parse("name = 'r1' AND reading.whole > 3"))(fields)
    # And a row is a sample again.
    rig.peer.reader("rows", "Rows", "Robot")
    rig.matched("rows")
    put(rig.far, "Rows", write_cdr(layout, {**ROBOT, "name": "r2"}), encoding=sample.encoding)
    [taken] = rig.peer.taken("rows", 1)
    assert taken["value"]["name"] == "r2"
    assert taken["value"]["pose"] == [1.0, 2.0, 3.0]


@line("D-874", "D-875", "D-878", "D-936")
def test_a_recorded_topic_becomes_a_table_by_its_schema(rig: Rig, tmp_path: Path) -> None:
    log = tmp_path / "log"
    recording = RecordingSettings(
        key_exprs=("Fleet/**", "@schema/**"),
        name="log",
        directory=log,
        log=LogSettings(low_water_percent=0),
    )
    # The type is known, and was put, before the recorder is there.
    rig.peer.writer("fleet", "Fleet/r1", "NestedKeyed", dispose=False)
    with rig.far.declare_subscriber("Fleet/r1"):
        rig.matched("fleet")
    until(lambda: not rig.peer.matched("fleet"))
    with Recorder(rig.far, [recording]):
        rig.matched("fleet")
        rig.matched_here("Fleet/r1", 1)
        place = {"floor": 3, "room": "lab"}
        rig.peer.write("fleet", [{"place": place, "value": 7}])
        until(lambda: _rows_count(log, "Fleet/**") == 1)
        rig.peer.dispose("fleet", {"place": place, "value": 0})
        until(lambda: _rows_count(log, "Fleet/**") == 2 and _rows_count(log, "@schema/**") >= 1)
    told = yaml_text.loads(
        f"""
pipeline: fleet
log: {log}
storage: {tmp_path / "tables"}
tables:
  places:
    decode: dds
    key: Fleet/{{robot}}
"""
    )
    assert isinstance(told, dict)
    problems = Problems()
    pipeline = parsed(told, tmp_path, problems)
    assert problems.found == []
    assert pipeline is not None
    [table] = pipeline.landed
    silver = Silver(table)  # type: ignore[arg-type]
    rows: list[dict[str, Any]] = []
    for batch in LogReader(log).read(0, 0):
        split = silver.split(silver.wanted(batch))
        assert split.bad is None or split.bad.num_rows == 0
        rows += split.good.to_pylist()
    assert [(one["robot"], one["kind"], one["place"], one["value"]) for one in rows] == [
        ("r1", int(RowKind.PUT), place, 7),
        ("r1", int(RowKind.DELETE), place, None),  # its key, from the attachment
    ]
    # The source's options find the same columns.
    plan = plan_of_options({"decode": "auto", "log": str(log)})
    assert {"place", "value"} <= set(plan.schema.names)
    # And a historian filters by members.
    historian = Historian(rig.far, "Fleet/**", [LogSource(log)])
    try:
        with rig.near.declare_querier("Fleet/r1") as querier:
            until(lambda: querier.matching_status.matching)
        for value, count in ((7, 1), (8, 0)):
            replies = rig.near.get(f"Fleet/**?_time=[..];_filter=value = {value}")
            assert len([one for one in replies if one.ok]) == count
    finally:
        historian.stop()


def _rows_count(log: Path, key_expr: str) -> int:
    return sum(LogReader(log).keys(key_expr).values()) if log.is_dir() else 0


@line("D-875")
def test_a_table_without_a_schema_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="record '@schema/\\*\\*' with the topics"):
        dds_plan(log=tmp_path, connect=None)


@line("D-875", "D-874")
def test_a_pipeline_asks_bridges_for_schemas_that_the_log_does_not_have(tmp_path: Path) -> None:
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    domain = next_domain()
    with (
        elea.open(config_of(listen=endpoint, mode="router")) as near,
        bridge(near, domain, on_demand=False),
        peer(domain) as other,
    ):
        other.writer("w", "Pose", "Chatter")
        until(lambda: other.matched("w"))
        plan = dds_plan(log=tmp_path, connect=endpoint, type="demo::Chatter")
        assert plan.schema.names == ["number", "text"]
