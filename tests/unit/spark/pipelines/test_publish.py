"""Rows as samples: keys of columns, JSON and CBOR, the same stamps for the same rows."""

from __future__ import annotations

import json
import logging
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.ends import ELEA, eventually, free_endpoint, session

import elea
from elea import cbor
from elea.sample import Sample
from elea.spark.pipelines.answers import job_of
from elea.spark.pipelines.definition import Pipeline, Publish, View
from elea.spark.pipelines.publish import payload, samples, send_rows
from elea.spark.repeats import Repeats, once
from elea.store.tables.results import open_results

ROW = {
    "robot": "r1",
    "at": datetime(2026, 11, 15, 1, 2, 3, 4, tzinfo=UTC),
    "day": date(2026, 11, 15),
    "nan": float("nan"),
    "octets": b"\x00\xff",
    "big": 2**70,
    "decimal": Decimal("2.5"),
    "list": [1, {"x": None}],
}


def test_a_row_as_json() -> None:
    assert json.loads(payload(ROW, "json")) == {
        "robot": "r1",
        "at": "2026-11-15T01:02:03.000004Z",
        "day": "2026-11-15",
        "nan": None,
        "octets": "AP8=",
        "big": str(2**70),
        "decimal": 2.5,
        "list": [1, {"x": None}],
    }


def test_a_row_as_cbor() -> None:
    found = cbor.loads(payload(ROW, "cbor"))
    assert isinstance(found, cbor.Map)
    told = dict(found.pairs)
    assert (told["robot"], told["octets"], told["decimal"]) == ("r1", b"\x00\xff", 2.5)


def test_rows_without_a_key_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    rows = pa.table({"robot": ["r2", None, "a/b", "r1", "*"], "x": [1, 2, 3, 4, 5]})
    with caplog.at_level(logging.ERROR):
        found = samples(rows, Publish("gold/{robot}/x"))
    assert found["key"].to_pylist() == ["gold/r1/x", "gold/r2/x"]
    assert found["payload"].to_pylist()[0] == b'{"robot":"r1","x":4}'
    assert set(found["encoding"].to_pylist()) == {"application/json"}
    assert "robot is null" in caplog.text
    assert samples(rows, Publish("gold/{y}")).num_rows == 0
    assert "y is none of robot, x" in caplog.text


def test_rows_of_a_key_are_in_the_order_of_time() -> None:
    moments = [datetime(2026, 11, 15, 1, 2, second, tzinfo=UTC) for second in (10, 9, 11)]
    rows = pa.table(
        {
            "robot": ["r1", "r1", "r1"],
            "event": ["cleared", "raised", "again"],
            "at": pa.array(moments, pa.timestamp("us", tz="UTC")),
        }
    )
    found = samples(rows, Publish("alerts/{robot}"))["payload"].to_pylist()
    assert [json.loads(one)["event"] for one in found] == ["raised", "cleared", "again"]


def test_rows_that_are_sent_again_are_repeats(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    got: list[Sample] = []
    repeats = Repeats()
    with session(ELEA, "router", listen=endpoint) as router:
        router.declare_subscriber("gold/**", once(got.append, repeats))
        pipeline = Pipeline("fleet", "log", str(tmp_path), connect=endpoint)
        rows = pa.table({"robot": ["r1", "r2"], "x": [1, 2]})
        for _ in range(2):
            assert send_rows(pipeline, "t", Publish("gold/{robot}"), rows, "1") == 2
        assert send_rows(pipeline, "t", Publish("gold/{robot}"), rows, "2") == 2  # it was so again
        changed = pa.table({"robot": ["r1"], "x": [3]})
        assert send_rows(pipeline, "t", Publish("gold/{robot}", "cbor"), changed, "2") == 1
        assert send_rows(pipeline, "t", Publish("gold/{y}"), rows, "2") == 0
        assert eventually(lambda: len(got) + repeats.dropped_count == 7)
    assert (len(got), repeats.dropped_count) == (5, 2)


def test_who_asks_gets_the_last_row_of_each_key(tmp_path: Path) -> None:
    endpoint = free_endpoint()
    tables = (
        View("hot", sql="", publish=Publish("hot/{robot}")),
        View("cold", sql="", publish=Publish("cold/{robot}", "cbor")),
        View("none", sql=""),
    )
    pipeline = Pipeline("fleet", "log", str(tmp_path), tables, connect=endpoint)
    assert job_of(Pipeline("fleet", "log", str(tmp_path))) is None
    job = job_of(pipeline)
    assert job is not None
    open_results(pipeline.path("hot"), "delta").change(1, pa.table({"robot": ["a", "b"]}))
    with session(ELEA, "router", listen=endpoint) as router:
        handle = job.start()
        assert handle.is_active()
        assert eventually(lambda: len(_answers(router, "hot/**")) == 2)
        assert _answers(router, "hot/b") == [b'{"robot":"b"}']
        assert _answers(router, "cold/**") == []
        handle.stop()
        assert not handle.is_active()


def _answers(node: elea.Session, key: str) -> list[bytes]:
    replies = list(node.get(key, timeout=20.0))
    return [reply.ok.payload.to_bytes() for reply in replies if reply.ok is not None]
