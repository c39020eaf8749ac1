"""The source in a real Spark: reads, streams, restarts, limits, refusals."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from tests.interop.ends import ELEA, eventually, free_endpoint, session
from tests.unit.spark.logs import all_rows, fill, log_at

from elea.store.log.consumers import load
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.logserver import LogServer

Batches = dict[int, list[tuple[int, int]]]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[tuple[Log, str]]:
    directory = tmp_path / "log"
    with log_at(directory) as made:
        yield made, str(directory)


def stream(
    spark: SparkSession,
    checkpoint: str,
    batches: Batches,
    options: dict[str, str],
    fail: Callable[[int], None] = lambda _: None,
) -> None:
    """Run a query to the end of what there is; rows of each batch, under its number."""

    def keep(frame: DataFrame, number: int) -> None:
        rows = [(row.shard, row.seq) for row in frame.select("shard", "seq").collect()]
        fail(number)
        batches[number] = rows

    frame = spark.readStream.format("zenoh").options(**options).load()
    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()


def rows(batches: Batches) -> list[tuple[int, int]]:
    return sorted(row for found in batches.values() for row in found)


def test_a_log_is_a_table(spark: SparkSession, log: tuple[Log, str]) -> None:
    fill(log[0], 0, 200)
    frame = spark.read.format("zenoh").option("log", log[1]).load()
    assert frame.count() == 200
    [row] = frame.where("sn = 7").collect()
    assert (row.key, row.kind, bytes(row.payload)[:2], row.encoding) == (
        "k/7",
        0,
        b"7:",
        "zenoh/bytes",
    )
    assert (row.hlc_id, row.zid, row.eid, row.qos) == ("ab", "cd", 1, 5)
    assert row.ts.isoformat() == row.recv_ts.isoformat()
    few = spark.read.format("zenoh").options(log=log[1], columns="seq,key", keyexpr="k/1").load()
    assert few.columns == ["seq", "key"]
    assert {row.key for row in few.collect()} == {"k/1"}
    # Twice in one query: each reads for itself.
    both = frame.where("key = 'k/1'").union(frame.where("key = 'k/2'")).groupBy("key").count()
    assert {row.key: row["count"] for row in both.collect()} == {"k/1": 25, "k/2": 25}


def test_sql_reads_it_too(spark: SparkSession, log: tuple[Log, str]) -> None:
    fill(log[0], 0, 50)
    spark.sql(f"CREATE TEMPORARY VIEW rows USING zenoh OPTIONS (log '{log[1]}')")
    try:
        assert spark.sql("SELECT max(sn) AS last FROM rows").collect()[0]["last"] == 49
    finally:
        spark.catalog.dropTempView("rows")


def test_a_stream_goes_on_where_it_was_and_keeps_to_its_limit(
    spark: SparkSession, log: tuple[Log, str], checkpoint: str
) -> None:
    fill(log[0], 0, 100)
    batches: Batches = {}
    options = {"log": log[1], "maxRowsPerTrigger": "40", "consumer": "c"}
    stream(spark, checkpoint, batches, options)
    assert [len(found) for found in batches.values()] == [40, 40, 20]
    fill(log[0], 100, 60)
    stream(spark, checkpoint, batches, options)
    assert [len(found) for found in batches.values()] == [40, 40, 20, 40, 20]
    assert rows(batches) == all_rows(log[0])
    [consumer] = load(log[0].disk, LogReader(log[1]).log_id).consumers
    assert sum(consumer.offsets.values()) == 140  # the last batch is never told


@pytest.mark.long  # with a table of its own, test_archive.py shows it as well
def test_a_batch_that_failed_runs_again_with_the_same_rows(
    spark: SparkSession, log: tuple[Log, str], checkpoint: str
) -> None:
    fill(log[0], 0, 90)
    batches: Batches = {}
    seen: list[int] = []

    def fail(number: int) -> None:
        seen.append(number)
        if number == 1 and seen.count(1) == 1:
            fill(log[0], 90, 30)
            raise RuntimeError("the sink is away")

    options = {"log": log[1], "maxRowsPerTrigger": "45", "startingOffsets": "earliest"}
    with pytest.raises(StreamingQueryException, match="the sink is away"):
        stream(spark, checkpoint, batches, options, fail)
    stream(spark, checkpoint, batches, options, fail)
    assert seen == [0, 1, 1, 2]
    assert [len(found) for found in batches.values()] == [45, 45, 30]
    assert rows(batches) == all_rows(log[0])


def test_a_first_batch_that_failed_begins_where_it_began(
    spark: SparkSession, log: tuple[Log, str], checkpoint: str
) -> None:
    fill(log[0], 0, 40)
    before = all_rows(log[0])
    options = {"log": log[1], "startingOffsets": "latest", "consumer": "c"}
    batches: Batches = {}

    def fail(frame: DataFrame, number: int) -> None:
        raise RuntimeError("the sink is away")

    frame = spark.readStream.format("zenoh").options(**options).load()
    writer = frame.writeStream.foreachBatch(fail).option("checkpointLocation", checkpoint)
    query = writer.start()
    # Its consumer is there as soon as it knows where to begin.
    assert eventually(lambda: load(log[0].disk, LogReader(log[1]).log_id).consumers, 120)
    fill(log[0], 40, 30)
    with pytest.raises(StreamingQueryException, match="the sink is away"):
        query.awaitTermination()
    fill(log[0], 70, 20)
    stream(spark, checkpoint, batches, options)
    assert rows(batches) == sorted(set(all_rows(log[0])) - set(before))


def test_a_stream_over_zenoh(spark: SparkSession, log: tuple[Log, str], checkpoint: str) -> None:
    fill(log[0], 0, 300)
    endpoint = free_endpoint()
    batches: Batches = {}
    with session(ELEA, "router", listen=endpoint) as node:
        server = LogServer(node, "fleet", log[1], log[0])
        options = {"log": "/not/here,zenoh:fleet", "connect": endpoint, "consumer": "far"}
        stream(spark, checkpoint, batches, options | {"maxRowsPerTrigger": "200"})
        server.stop()
    assert rows(batches) == all_rows(log[0])
    [consumer] = load(log[0].disk, LogReader(log[1]).log_id).consumers
    assert (consumer.name, sum(consumer.offsets.values())) == ("far", 200)


def test_a_worker_that_dies_costs_nothing(
    spark: SparkSession, log: tuple[Log, str], checkpoint: str, tmp_path: Path
) -> None:
    fill(log[0], 0, 100)
    mark = tmp_path / "died"

    def die(found: Iterable[Row]) -> Iterable[Row]:
        for row in found:
            if not mark.exists():
                mark.touch()
                os._exit(1)
            yield row

    batches: Batches = {}
    frame = spark.readStream.format("zenoh").option("log", log[1]).load()

    def keep(part: DataFrame, number: int) -> None:
        found = part.select("shard", "seq").rdd.mapPartitions(die).collect()
        batches[number] = [(row["shard"], row["seq"]) for row in found]

    writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    writer.trigger(availableNow=True).start().awaitTermination()
    assert mark.exists()
    assert rows(batches) == all_rows(log[0])


def test_live_values_are_a_table(spark: SparkSession) -> None:
    endpoint = free_endpoint()
    with session(ELEA, "router", listen=endpoint) as node:
        node.declare_queryable("room/1", lambda query: query.reply("room/1", b"21"))
        node.declare_queryable("room/2", lambda query: query.reply("room/2", b"22"))
        options = {"connect": endpoint, "selector": '["room/1", "room/2"]'}
        frame = spark.read.format("zenoh").options(**options).load()
        found = {row.key: bytes(row.payload) for row in frame.collect()}
    assert found == {"room/1": b"21", "room/2": b"22"}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"lgo": "x"}, "did you mean log"),
        ({"log": "/x", "columns": "nix"}, "saw nix; legal are key"),
    ],
)
def test_wrong_options_fail_where_load_is_called(
    spark: SparkSession, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(AnalysisException, match=complaint):
        spark.read.format("zenoh").options(**options).load()
    with pytest.raises(AnalysisException, match=complaint):
        spark.readStream.format("zenoh").options(**options).load()


def test_nothing_of_spark_listens_beyond_this_host(spark: SparkSession) -> None:
    assert spark.sparkContext._jvm is not None
    pid = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())
    sockets = {os.readlink(f"/proc/{pid}/fd/{number}") for number in os.listdir(f"/proc/{pid}/fd")}
    listening = []
    for table, loopback in (("tcp", "0100007F"), ("tcp6", "0000000000000000FFFF00000100007F")):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                listening.append((fields[1].split(":")[0], loopback))
    assert listening
    assert all(address == loopback for address, loopback in listening), listening
    assert spark.conf.get("spark.authenticate") == "true"
    assert spark.sparkContext.uiWebUrl is None


def test_checkpoints_are_written_with_few_processes(spark: SparkSession, checkpoint: str) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    package = jvm.org.apache.spark.sql.execution.streaming.checkpointing
    manager = getattr(getattr(package, "CheckpointFileManager$"), "MODULE$").create(
        jvm.org.apache.hadoop.fs.Path(checkpoint),
        spark._jsparkSession.sessionState().newHadoopConf(),
    )
    assert manager.getClass().getSimpleName() == "FileSystemBasedCheckpointFileManager"


@pytest.mark.parametrize("options", [{"selector": "a"}, {"log": "zenoh:fleet"}], ids=str)
def test_a_read_whose_connection_was_refused_was_tried_for_its_timeout_by_each_task(
    spark: SparkSession, options: dict[str, str]
) -> None:
    """Four times 30 s, each with a traceback; writes failed at once."""
    with pytest.raises(AnalysisException, match="nothing listens there") as caught:
        spark.read.format("zenoh").options(connect=free_endpoint(), **options).load().collect()
    assert 'File "' not in str(caught.value), "before tasks are planned, and in a sentence"


def test_a_mistake_is_told_without_a_traceback(
    spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    """Three lines of source.py stood before the sentence."""
    with pytest.raises(AnalysisException) as unknown:
        spark.read.format("zenoh").option("lgo", "x").load()
    with pytest.raises(AnalysisException) as missing:
        spark.read.format("zenoh").option("log", str(tmp_path / "none")).load().collect()
    frame = spark.readStream.format("zenoh").option("log", str(tmp_path / "none")).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    query = writer.start()
    with pytest.raises(StreamingQueryException) as streamed:
        query.awaitTermination()
    for caught, told in (
        (unknown, ": elea.errors.ConfigError: option lgo: is unknown; did you mean log?"),
        (missing, ": elea.errors.StoreError: no log at "),
        (streamed, ": elea.errors.StoreError: no log at "),
    ):
        assert told in str(caught.value)
        assert 'File "' not in str(caught.value)


def test_what_code_of_users_raises_is_told_with_its_place(spark: SparkSession) -> None:
    """Also after a mistake in options was told without one."""
    with pytest.raises(AnalysisException):
        spark.read.format("zenoh").option("lgo", "x").load()

    def divide(batches: Iterable[object]) -> Iterator[object]:
        yield 1 // len([one for one in batches if one is None])

    with pytest.raises(Exception, match="ZeroDivisionError") as caught:
        spark.range(1).mapInArrow(divide, "id long").collect()
    assert 'File "' in str(caught.value)
