"""Reads without Spark: a log's history, and answers of the data space."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql.types import _parse_datatype_string  # what Spark makes of a schema's text
from tests.interop.ends import ELEA, free_endpoint, session
from tests.unit.spark.logs import fill, log_at, stream
from tests.unit.store.log.rows import rows

import elea
from elea.errors import ConfigError, OffsetError, StoreError
from elea.spark.batch import HistoryReader
from elea.spark.live import LiveReader
from elea.spark.offsets import Offset
from elea.spark.options import Options
from elea.spark.schema import LIVE_COLUMNS
from elea.spark.sessions import close_all
from elea.spark.source import ZenohSource
from elea.spark.stream import Range
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from pyspark_elea import DefaultSource


def history(directory: Path, **options: str) -> list[int]:
    reader = ZenohSource({"log": str(directory), **options}).reader(None)  # type: ignore[arg-type]
    assert isinstance(reader, HistoryReader)
    parts = reader.partitions()
    return sorted(
        sn for part in parts for batch in reader.read(part) for sn in batch["sn"].to_pylist()
    )


@pytest.fixture(autouse=True)
def _no_check_of_schemas(monkeypatch: pytest.MonkeyPatch) -> None:
    """A StructType of Spark's own is made in Spark; tests of `_check` are with a session."""
    monkeypatch.setattr(ZenohSource, "_check", lambda self, schema: None)


def test_all_rows_in_parts(tmp_path: Path) -> None:
    with log_at(tmp_path) as log:
        assert history(tmp_path) == []
        fill(log, 0, 100)
    assert history(tmp_path) == [*range(100)]
    assert history(tmp_path, minPartitions="7") == [*range(100)]


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_log_whose_rows_are_in_one_of_its_shards_is_read_in_as_many_parts_as_asked_for(
    tmp_path: Path, is_stream: bool
) -> None:
    settings = LogSettings(shards_count=4, low_water_percent=0)
    with Log(tmp_path, settings) as log:
        log.store(rows(0, 1_000, keys_count=1))
        ends = log.ends()
    [busy] = [shard for shard, end in enumerate(ends) if end]
    if is_stream:
        reader = stream(tmp_path, minPartitions="4")
        log_id = LogReader(tmp_path).log_id
        start, end = (Offset(log_id, dict(enumerate(one))) for one in ([0] * 4, ends))
        parts = reader.partitions(start.to_json(), end.to_json())
    else:
        source = ZenohSource({"log": str(tmp_path), "minPartitions": "4"})
        parts = list(source.reader(None).partitions())  # type: ignore[arg-type]
    assert all(isinstance(part, Range) for part in parts)
    spans = [(part.shard, part.first, part.end) for part in parts if isinstance(part, Range)]
    assert spans == [(busy, first, first + 250) for first in range(0, 1_000, 250)]


def test_a_span_of_time(tmp_path: Path) -> None:
    with log_at(tmp_path) as log:
        fill(log, 0, 200)
    options = {"from": "2023-11-14T22:13:20.050Z", "until": "2023-11-14T22:13:20.150Z"}
    found = history(tmp_path, **options)
    assert 99 <= len(found) <= 101
    assert found == [*range(found[0], found[-1] + 1)]
    assert found[0] in (50, 51)
    assert history(tmp_path, until="2020-01-01T00:00:00Z") == []


def test_between_two_offsets(tmp_path: Path) -> None:
    with log_at(tmp_path, 1) as log:
        fill(log, 0, 100)
    log_id = LogReader(tmp_path).log_id

    def offset(seq: int) -> str:
        return f'{{"v": 1, "log": "{log_id}", "s": {{"0": {seq}}}}}'

    assert history(tmp_path, offsets=f"[{offset(10)}, {offset(20)}]") == [*range(10, 20)]
    assert history(tmp_path, offsets=f"[{offset(20)}, {offset(10)}]") == []
    with pytest.raises(OffsetError, match="not written yet"):
        history(tmp_path, offsets=f"[{offset(10)}, {offset(200)}]")
    other = offset(10).replace(str(log_id), "00000000-0000-0000-0000-000000000000")
    with pytest.raises(StoreError, match="offsets are of log"):
        history(tmp_path, offsets=f"[{other}, {other}]")


def test_decoders_that_are_not_there_are_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="decode"):
        ZenohSource({"log": str(tmp_path), "decode": "no-such-decoder"}).schema()


def test_the_source_is_found_by_its_module() -> None:
    assert DefaultSource is ZenohSource
    assert DefaultSource.name() == "zenoh"
    source = ZenohSource({"log": "/x", "columns": "key,ts"})
    assert source.schema() == "`key` STRING, `ts` TIMESTAMP"
    assert callable(_parse_datatype_string)


@pytest.fixture
def router() -> Iterator[tuple[elea.Session, str]]:
    endpoint = free_endpoint()
    with session(ELEA, "router", listen=endpoint) as node:
        yield node, endpoint
        close_all()


def live(endpoint: str, **options: str) -> list[dict[str, object]]:
    parsed = Options({"connect": endpoint, **options}).batch()
    reader = LiveReader(parsed)  # type: ignore[arg-type]
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def test_one_row_per_answer(router: tuple[elea.Session, str]) -> None:
    node, endpoint = router
    stamped = node.new_timestamp()

    def first(query: elea.Query) -> None:
        with query:
            query.reply("room/1", b"21", encoding="text/plain", timestamp=stamped)

    def second(query: elea.Query) -> None:
        with query:
            query.reply("room/2", b"22", attachment=b"a")

    def third(query: elea.Query) -> None:
        with query:
            query.reply_del("room/3")

    for number, answer in enumerate((first, second, third), 1):
        node.declare_queryable(f"room/{number}", answer)
    rows = sorted(live(endpoint, selector="room/**"), key=lambda row: str(row["key"]))
    assert list(rows[0]) == list(LIVE_COLUMNS)
    assert [row["key"] for row in rows] == ["room/1", "room/2", "room/3"]
    assert [row["kind"] for row in rows] == [0, 0, 1]
    assert [row["payload"] for row in rows] == [b"21", b"22", b""]
    assert [row["attachment"] for row in rows] == [None, b"a", None]
    assert rows[0]["encoding"] == "text/plain"
    assert rows[0]["hlc"] == stamped.time.value
    assert rows[0]["ts"].timestamp() == pytest.approx(stamped.time.as_secs_f64(), abs=1e-3)  # type: ignore[attr-defined]
    only = live(endpoint, selector="room/**", columns="payload,key", keyexpr="room/2")
    assert only == [{"payload": b"22", "key": "room/2"}]
    both = live(endpoint, selector='["room/1", "room/2"]', columns="key")
    assert sorted(str(row["key"]) for row in both) == ["room/1", "room/2"]


def test_an_answer_that_is_an_error(
    router: tuple[elea.Session, str], caplog: pytest.LogCaptureFixture
) -> None:
    node, endpoint = router

    def answer(query: elea.Query) -> None:
        with query:
            query.reply_err("out of order")

    node.declare_queryable("bad", answer)
    with pytest.raises(StoreError, match="bad was answered by an error: out of order"):
        live(endpoint, selector="bad")
    with caplog.at_level(logging.ERROR):
        assert live(endpoint, selector="bad", failOnError="false") == []
    assert "out of order" in caplog.text
