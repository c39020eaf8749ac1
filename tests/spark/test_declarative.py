"""Spark Declarative Pipelines: the example project, as its users run it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from pyspark.sql import SparkSession
from tests.interop.ends import ELEA, eventually, free_endpoint, session
from tests.unit.spark.logs import fill, log_at

import elea
from elea.spark.home import spark_home
from elea.spark.java import packaged
from elea.spark.jvm import environment_of

EXAMPLE = Path(__file__).parents[2] / "examples" / "declarative"


def test_a_project_reads_a_log_and_publishes(
    spark: SparkSession, remote: str, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    shutil.copytree(EXAMPLE, project)
    endpoint = free_endpoint()
    spec = (project / "spark-pipeline.yml").read_text()
    spec = spec.replace("/var/lib/elea/fleet", str(tmp_path / "log"))
    spec = spec.replace("tcp/127.0.0.1:7447", endpoint)
    spec = spec.replace("storage: storage", f"storage: file://{tmp_path}/storage")
    (project / "spark-pipeline.yml").write_text(spec)
    got: list[elea.Sample] = []
    with log_at(tmp_path / "log") as log:
        fill(log, 0, 80)
    with session(ELEA, "router", listen=endpoint) as node:
        node.declare_subscriber("alerts/**", got.append)
        done = subprocess.run(
            [spark_home() / "bin" / "spark-pipelines", "run", "--remote", remote],
            cwd=project,
            env=os.environ | environment_of(packaged()),
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert eventually(lambda: len(got) == 2)  # the first one of each shard
    try:
        assert spark.table("samples").count() == 80
        assert sorted(row["count"] for row in spark.table("keys").collect()) == [10] * 8
    finally:
        spark.sql("DROP TABLE IF EXISTS samples")
        spark.sql("DROP TABLE IF EXISTS keys")
