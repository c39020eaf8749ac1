"""`elea demo` with all its parts, Spark among them, as a user starts it; short and small."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from elea.cli.main import main
from elea.demo import queries
from elea.demo.plan import Plan


@pytest.mark.usefixtures("quick_java")
def test_a_run_proves_its_counts_and_can_be_asked(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, temporary = tmp_path / "demo", tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    arguments = ["--duration", "4", "--robots", "6", "--to", str(place), "--json"]
    code = main(["demo", *arguments])
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    summary = said[-1]["summary"]
    assert code == 0, (summary, (place / "pipeline.log").read_text(encoding="utf-8")[-2_000:])
    seen = {check["name"]: check["seen"] for check in summary["checks"]}
    plan = Plan(robots=6, duration_s=4.0, dds=True)
    assert seen["samples sent"] == plan.count()
    assert seen["lost on a bad radio"] == plan.lost_count() > 0
    assert summary["tables"]["imu_bad"] == plan.garbled_count() > 0
    assert seen["of tiny devices, by XRCE"] == summary["tables"]["soil"] == plan.tiny_count() > 0
    assert seen["of the DDS robot, bridged"] == summary["tables"]["arm"] == plan.dds_count() > 0
    assert seen["of the ROS 2 node"] == summary["tables"]["odom"] == plan.ros_count() > 0
    [arm, *_], [odom, *_] = (
        DeltaTable(place / "lake" / name).to_pyarrow_table().to_pylist() for name in ("arm", "odom")
    )
    assert (arm["robot"], len(arm["joints"]), arm["mode"]) == ("dds-01", 6, "auto")
    assert (odom["robot"], odom["ros_topic"]) == ("ros_01", "/ros_01/odom")
    assert odom["pose"]["pose"]["position"]["x"] != 0
    assert summary["tables"]["last"] == plan.robots
    assert summary["results"] > 0  # windows came back as samples
    assert any("tick" in one for one in said)
    assert not list(temporary.iterdir())  # neither Spark nor Java left anything
    # The programs of the summary; that of Spark in the session that is there.
    asked = subprocess.run(
        [sys.executable, str(place / queries.DUCKDB)], capture_output=True, text=True, check=True
    )
    assert "hottest" in asked.stdout
    assert "delimiter" in asked.stdout  # the reason why a row is bad
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    runpy.run_path(str(place / queries.SPARK))
    assert "fleet/r05/imu" in capsys.readouterr().out
