"""The Java process of Spark, when its start is interrupted."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from pyspark import SparkContext, java_gateway
from pyspark.sql import SparkSession

from elea.cli.exit_codes import Terminated
from elea.errors import EleaError
from elea.spark import jvm


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """What is launched in the place of Java; no Spark runs in this process."""
    started: list[subprocess.Popen[bytes]] = []

    def launch(_command: object, **_more: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        started.append(subprocess.Popen(command))
        return started[-1]

    monkeypatch.setattr(java_gateway, "Popen", launch)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    return started


def test_an_interrupted_start_leaves_no_java_behind(
    launched: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its launcher removes the folder that Java writes to, so that Java would stay for ever."""

    class Interrupting:
        @staticmethod
        def sleep(_seconds: float) -> None:
            raise Terminated(15)

    monkeypatch.setattr(java_gateway, "time", Interrupting)
    before = vars(java_gateway)["Popen"]
    try:
        with pytest.raises(Terminated):
            jvm._built(SparkSession.builder, {})
        [process] = launched
        assert process.poll() is not None
    finally:
        for process in launched:
            process.kill()
            process.wait()
    assert vars(java_gateway)["Popen"] is before


def test_java_that_is_killed_as_it_starts_is_told_with_its_end(
    launched: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a traceback of PySpark: the gateway exited before sending its port number."""

    class Killing:
        @staticmethod
        def sleep(_seconds: float) -> None:
            launched[0].kill()
            launched[0].wait()

    monkeypatch.setattr(java_gateway, "time", Killing)
    with pytest.raises(EleaError, match=r"Java process \d+ was killed by signal 9") as caught:
        jvm._built(SparkSession.builder, {})
    assert caught.value.__suppress_context__
