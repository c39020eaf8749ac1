"""What a pipeline tells the data space of itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.cli.ends import WAIT_S, eventually

import elea
from elea.errors import StoreError
from elea.spark.pipelines.reading import load
from elea.spark.pipelines.served import BATCHES_COUNT, History, PipelineServer, chunk_of, job_of
from elea.spark.pipelines.state import Status, TableStatus, now_status

FILE = """\
pipeline: my_fleet
log: {folder}/log
connect: tcp/127.0.0.1:1
storage: {folder}/lake
tables:
  bronze: {{archive: "**"}}
  imu: {{decode: json, key: "fleet/{{robot}}/imu", schema: {{temp: f64}}}}
  hot:
    from: imu
    alert: {{when: "temp > 80", by: [robot]}}
    publish: "alerts/{{robot}}/hot"
"""


@pytest.fixture
def session() -> Iterator[elea.Session]:
    with elea.open({"mode": "peer", "listen": {"endpoints": []}}) as opened:
        yield opened


def definition(folder: Path) -> Any:
    file = folder / "pipeline.yaml"
    file.write_text(FILE.format(folder=folder), encoding="utf-8")
    return load(file)


def asked(session: elea.Session, part: str) -> Any:
    [reply] = session.get(f"@elea/pipeline/my_fleet/{part}", timeout=WAIT_S)
    assert reply.ok is not None, reply.err
    return json.loads(reply.ok.payload.to_bytes())


def test_status_definition_and_batches_are_keys(session: elea.Session, tmp_path: Path) -> None:
    status = now_status("my_fleet")
    status.state = "running"
    status.tables = {"imu": TableStatus("decoded", rows=3, batch=1, batch_s=0.5, lag=7, lag_s=1.5)}
    server = PipelineServer(session, definition(tmp_path), lambda: status)
    try:
        told = asked(session, "status")
        assert (told["pipeline"], told["state"]) == ("my_fleet", "running")
        assert told["tables"]["imu"]["lag_s"] == 1.5
        tables = {one["name"]: one for one in asked(session, "definition")["tables"]}
        assert tables["bronze"]["keys"] == ["**"]
        assert (tables["imu"]["level"], tables["imu"]["keys"]) == ("silver", ["fleet/*/imu"])
        assert tables["hot"]["from"] == ["imu"]
        assert tables["hot"]["publish"] == {"key": "alerts/{robot}/hot", "encoding": "json"}
        assert eventually(lambda: asked(session, "batches")["tables"])
        [batch] = asked(session, "batches")["tables"]["imu"]
        assert batch[1:] == [1, 3, 0.5, 7, 1.5]
        assert len(list(session.get("@elea/pipeline/*/*", timeout=WAIT_S))) == 3
        tokens = session.liveliness().get("@elea/pipeline/*", timeout=WAIT_S)
        assert [str(one.ok.key_expr) for one in tokens if one.ok] == ["@elea/pipeline/my_fleet"]
    finally:
        server.stop()
    assert list(session.get("@elea/pipeline/*/*", timeout=WAIT_S)) == []


def test_a_pipeline_that_said_nothing_yet_starts(session: elea.Session, tmp_path: Path) -> None:
    server = PipelineServer(session, definition(tmp_path), lambda: None)
    assert asked(session, "status") == {"pipeline": "my_fleet", "state": "starting", "tables": {}}
    server.stop()


def test_a_damaged_state_is_told(session: elea.Session, tmp_path: Path) -> None:
    def status() -> Status | None:
        raise StoreError("state.json is damaged")

    server = PipelineServer(session, definition(tmp_path), status)
    [reply] = session.get("@elea/pipeline/my_fleet/status", timeout=WAIT_S)
    assert reply.err is not None
    assert "damaged" in reply.err.payload.to_string()
    server.stop()


def test_batches_are_bounded_and_told_once() -> None:
    history = History()
    status = now_status("p")
    for number in range(BATCHES_COUNT + 5):
        status.tables = {"imu": TableStatus("decoded", rows=number, batch=number)}
        history.note(status)
        history.note(status)
    told: Any = history.told()
    rows = told["tables"]["imu"]
    assert len(rows) == BATCHES_COUNT
    assert [row[1] for row in rows[-2:]] == [BATCHES_COUNT + 3, BATCHES_COUNT + 4]


def test_a_name_is_one_chunk() -> None:
    assert chunk_of("a/b *") == "a_b__"
    assert chunk_of("") == "_"


def test_a_pipeline_without_a_data_space_tells_nothing(tmp_path: Path) -> None:
    made = definition(tmp_path)
    assert job_of(made, lambda: now_status("p")) is not None
    alone = (tmp_path / "pipeline.yaml").read_text(encoding="utf-8")
    alone = alone.replace("connect: tcp/127.0.0.1:1\n", "")
    alone = alone.replace('    publish: "alerts/{robot}/hot"\n', "")
    (tmp_path / "alone.yaml").write_text(alone, encoding="utf-8")
    assert job_of(load(tmp_path / "alone.yaml"), lambda: now_status("p")) is None
