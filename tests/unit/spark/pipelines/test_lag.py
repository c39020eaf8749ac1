"""The lag of a pipeline is what the log has now and its checkpoints do not, whoever runs or not."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest
from tests.unit.spark.pipelines import fleet

from elea.cli.main import main
from elea.errors import StoreError
from elea.spark.offsets import Offset
from elea.spark.pipelines.definition import Pipeline
from elea.spark.pipelines.lag import Lag, Lags, committed
from elea.spark.pipelines.queries import landing_checkpoint
from elea.spark.pipelines.state import Board, Lease, now_status
from elea.store.log.reader import LogReader

ROWS = 100


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, ROWS)
    return fleet.pipeline(tmp_path)


def reader_of(pipeline: Pipeline) -> LogReader:
    return LogReader(Path(pipeline.storage).parent / "log")


def commit(pipeline: Pipeline, ends: Mapping[int, int], number: int, log: UUID) -> None:
    """As Spark writes it: a batch is planned, and when its tables have it, committed."""
    place = landing_checkpoint(pipeline)
    for name in ("offsets", "commits"):
        (place / name).mkdir(parents=True, exist_ok=True)
    told = json.dumps(Offset(log, ends).to_json())
    (place / "offsets" / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{told}\n')
    (place / "offsets" / f".{number}.crc").write_bytes(b"x")
    (place / "commits" / str(number)).write_text('v1\n{"nextBatchWatermarkMs":0}\n')
    (place / "commits" / f".{number}.crc").write_bytes(b"x")


def received(reader: LogReader, shard: int, seq: int) -> int:
    [batch] = reader.read(shard, seq, columns=["recv_ts"], end=seq + 1)
    first: int = batch.column("recv_ts").cast("int64")[0].as_py()
    return first


def test_what_is_committed_is_not_behind(pipeline: Pipeline) -> None:
    reader = reader_of(pipeline)
    ends = {shard: reader.bounds(shard).end for shard in range(2)}
    assert sum(ends.values()) == ROWS
    now_us = 3_000_000 + max(received(reader, shard, 0) for shard in ends)
    lags = Lags(pipeline, lambda: now_us)
    oldest_us = min(received(reader, shard, 0) for shard in ends)
    nothing_yet = Lag(ROWS, (now_us - oldest_us) / 1e6)
    assert lags.measure() == {"bronze": nothing_yet, "imu": nothing_yet}
    commit(pipeline, {0: ends[0], 1: 10}, 0, reader.log_id)
    left = Lag(ends[1] - 10, (now_us - received(reader, 1, 10)) / 1e6)
    assert lags.measure() == {"bronze": left, "imu": left}
    (landing_checkpoint(pipeline) / "offsets" / "1").write_text("planned, and not committed")
    assert lags.measure()["imu"] == left
    commit(pipeline, ends, 1, reader.log_id)
    assert lags.measure()["imu"] == Lag(0, 0.0)
    # It idles, and the log goes on.
    with fleet.log_at(Path(pipeline.storage).parent / "log") as log:
        fleet.fill(log, ROWS, 7)
    assert lags.measure()["imu"].rows == 7


def test_where_a_query_begins_may_not_be_known(tmp_path: Path, pipeline: Pipeline) -> None:
    head = f"{fleet.HEAD}options: {{startingOffsets: latest}}\n"
    assert Lags(fleet.pipeline(tmp_path, head=head)).measure() == {}
    assert Lags(pipeline).measure()["imu"].rows == ROWS


def test_a_log_that_cannot_be_asked_is_told(
    tmp_path: Path, pipeline: Pipeline, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "pipeline.yaml")
    board = Board(now_status("fleet"))
    for name, kind in (("bronze", "archive"), ("imu", "decoded"), ("gold", "gold")):
        board.table(name, kind, lag=3)
    lease = Lease(pipeline.own)
    lease.tell(board.status())
    assert main(["pipeline", "status", file, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["lag_error"] is None
    assert told["tables"]["imu"]["lag"] == ROWS  # not what was said last
    assert told["tables"]["imu"]["lag_s"] > 0
    assert told["tables"]["gold"]["lag"] is None
    assert main(["pipeline", "status", file]) == 0
    assert f"{ROWS} (" in capsys.readouterr().out
    shutil.move(tmp_path / "log", tmp_path / "elsewhere")
    assert main(["pipeline", "status", file]) == 0
    shown = capsys.readouterr().out
    assert shown.count("unknown") == 2
    assert "lag: not known, the log cannot be asked: no log at" in shown
    lease.release()


def test_a_checkpoint_of_another_log_is_named(pipeline: Pipeline) -> None:
    commit(pipeline, {0: 1}, 0, UUID(int=7))
    with pytest.raises(StoreError, match="is of the log 00000000-0000-0000-0000-000000000007"):
        Lags(pipeline).measure()
    file = landing_checkpoint(pipeline) / "offsets" / "0"
    file.write_text("v1\n{}\nnonsense\n")
    with pytest.raises(StoreError, match="is no offset of Spark"):
        committed(landing_checkpoint(pipeline))
    file.unlink()
    with pytest.raises(StoreError, match="is no offset of Spark"):
        committed(landing_checkpoint(pipeline))


def test_a_runner_tells_it_all_the_time(pipeline: Pipeline) -> None:
    board, ended = Board(now_status("fleet")), threading.Event()
    board.table("imu", "decoded")
    watch = threading.Thread(target=Lags(pipeline).watch, args=(board, ended))
    watch.start()
    end_s = time.monotonic() + 20
    while board.status().tables["imu"].lag != ROWS:
        assert time.monotonic() < end_s
        time.sleep(0.02)
    ended.set()
    watch.join(20)
    assert not watch.is_alive()
