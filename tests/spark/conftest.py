"""One Spark for all tests of this folder: it takes longer to start than all of them together."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import elea.spark
from elea.spark.java import packaged

TOKEN = "of-these-tests"  # without it a client is refused


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on the packaged Java, so that none has to be installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Spark's own code, at start
        config = {
            "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.authenticate.token": TOKEN,
            "spark.connect.grpc.binding.port": "0",
        }
        made = elea.spark.session(
            "tests", master="local[2,4]", quick=True, java=packaged(), config=config
        )
    yield made
    made.stop()


@pytest.fixture
def remote(spark: SparkSession) -> str:
    """Where the same Spark is for programs that are only its clients: in SPARK_REMOTE.

    By this name: with a token they speak TLS to all others.
    """
    assert spark._jvm is not None
    package = spark._jvm.org.apache.spark.sql.connect.service
    service = getattr(getattr(package, "SparkConnectService$"), "MODULE$")
    return f"sc://localhost:{service.localPort()}/;token={TOKEN}"


@pytest.fixture
def quick_java(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java of programs compiles once: they end before more of it pays, at twice the CPU."""
    folder = tmp_path_factory.mktemp("conf")
    line = "spark.driver.defaultJavaOptions -XX:TieredStopAtLevel=1\n"
    (folder / "spark-defaults.conf").write_text(line)
    monkeypatch.setenv("SPARK_CONF_DIR", str(folder))


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
