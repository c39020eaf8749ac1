"""`elea pipeline check` refuses what Spark would: every query is analysed, and none is run."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from elea.cli.main import main
from elea.spark import pipelines as dp
from elea.spark.pipelines.dry_run import needs_spark, problems_on_spark

HEAD = """\
pipeline: fleet
log: ./log
connect: tcp/127.0.0.1:7447
storage: ./lake
tables:
  bronze: {archive: "**"}
  imu: {decode: json, key: "fleet/{robot}/imu", schema: {ax: f64, temp: f64}}
  online: {from: bronze, presence: {key: "fleet/{robot}/alive"}}
"""


def found(spark: SparkSession, folder: Path, table: str) -> list[str]:
    file = folder / "pipeline.yaml"
    file.write_text(f"{HEAD}  {table}\n")
    return [str(one) for one in problems_on_spark(spark, dp.load(file))]


@pytest.mark.parametrize(
    "table",
    [
        'hot: {sql: "SELECT robot, max(temp) AS temp FROM imu GROUP BY robot"}',
        'bad: {sql: "SELECT reason, count(*) AS n FROM imu_bad GROUP BY reason"}',
        "last: {from: imu, latest: {by: [robot], columns: [ax, temp]}}",
        "last: {from: imu, latest: {by: [robot]}, publish: 'gold/{robot}/imu'}",
        'hot: {sql: "WITH x AS (SELECT * FROM imu) FROM x SELECT robot, ax WHERE ax > 1"}',
        'hot: {sql: "(SELECT robot FROM imu) UNION ALL VALUES (1)"}',
        "imu_1s: {from: [imu, online], window: {every: 1 second, by: [robot], values: {ax: avg}}}",
        "few: {from: imu, downsample: {every: 1 second, by: [robot], columns: [ax]}}",
        "few: {from: imu, downsample: {every: 1 second, columns: [robot], how: last}}",
        "w: {from: imu, window: {every: 1 s, values: {robot: [count, min, max, first, last]}}}",
        "hot: {from: imu, alert: {when: temp > 80, for: 3 seconds, by: [robot]}}",
        "lost: {from: bronze, losses: {}}",
    ],
)
def test_what_can_run_passes(spark: SparkSession, tmp_path: Path, table: str) -> None:
    assert found(spark, tmp_path, table) == []


@pytest.mark.parametrize(
    ("table", "place", "complaint"),
    [
        ('hot: {sql: "SELECT robot FORM imu"}', "tables.hot.sql", "PARSE_SYNTAX_ERROR"),
        ('hot: {sql: "SELECT mx(temp) FROM imu"}', "tables.hot.sql", "UNRESOLVED_ROUTINE"),
        ('hot: {sql: "SELECT tmp FROM imu"}', "tables.hot.sql", "declare it in tables.imu.schema"),
        # A command passed, and so did a key that no row can have.
        ('hot: {sql: "DROP TABLE imu"}', "tables.hot.sql", "is a command of SQL; a query is legal"),
        ('hot: {sql: "INSERT INTO imu SELECT * FROM imu"}', "tables.hot.sql", "is a command"),
        (
            "last: {from: imu, latest: {by: [robot]}, publish: 'gold/{robt}/imu'}",
            "tables.last.publish",
            "there is no column robt; legal are ",
        ),
        ("last: {from: imu, latest: {by: [robo]}}", "tables.last.latest", "robo"),
        (
            "w: {from: [imu, online], window: {every: 1 second, by: [robot], values: {tmp: avg}}}",
            "tables.w.window",
            "tmp",
        ),
        # Numbers of texts passed, and each round failed at the first text that is no number.
        *(
            (
                "w: {from: [imu, online], window: {every: 1 s, values: {temp: avg, robot: "
                + wanted
                + "}}}",
                "tables.w.window",
                f"{wanted} of robot needs numbers, it is of the type string; legal are count, min,",
            )
            for wanted in ("avg", "sum", "stddev", "p99")
        ),
        (
            "few: {from: imu, downsample: {every: 1 second, columns: [ax, robot]}}",
            "tables.few.downsample",
            "avg of robot needs numbers",
        ),
    ],
)
def test_what_cannot_run_is_told_in_a_line(
    spark: SparkSession, tmp_path: Path, table: str, place: str, complaint: str
) -> None:
    [problem] = found(spark, tmp_path, table)
    assert problem.startswith(f"{place}: ")
    assert complaint in problem
    assert "\n" not in problem


def test_a_pipeline_of_the_log_alone_needs_no_spark(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text("".join(HEAD.splitlines(keepends=True)[:-1]))
    assert not needs_spark(dp.load(file))


def test_the_command_refuses_it(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # it is that of all tests
    file = tmp_path / "pipeline.yaml"
    file.write_text(f'{HEAD}  hot: {{sql: "SELECT robot FORM imu"}}\n')
    assert main(["pipeline", "check", str(file)]) == 1
    assert capsys.readouterr().out.startswith("tables.hot.sql: ")
    assert main(["pipeline", "check", str(file), "--quick"]) == 0


def test_a_wrong_query_was_told_with_the_frames_of_java(
    spark: SparkSession,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # it is that of all tests
    file = tmp_path / "pipeline.yaml"
    file.write_text(f'{HEAD}  hot: {{sql: "SELECT mx(temp) FROM imu"}}\n')
    assert main(["pipeline", "check", str(file)]) == 1
    out, err = capfd.readouterr()
    assert "UNRESOLVED_ROUTINE" in out
    assert "UNRESOLVED_ROUTINE" not in err
