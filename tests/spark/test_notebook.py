"""The notebook runs from its first cell to its last, and has no output in the repository."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.interop.ends import free_endpoint

from elea.spark.sessions import close_all

NOTEBOOK = Path(__file__).parents[2] / "examples" / "fleet.ipynb"


def cells() -> list[dict[str, Any]]:
    found = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def test_nothing_of_a_run_is_kept() -> None:
    for cell in cells():
        assert cell["outputs"] == []
        assert cell["execution_count"] is None


def test_every_cell_runs(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this process, with the Spark that there is, which is what `session` gives."""
    monkeypatch.setenv("FLEET_ENDPOINT", free_endpoint())
    monkeypatch.setenv("MPLBACKEND", "agg")  # draws, and shows nothing
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells()):
        exec(compile("".join(cell["source"]), f"{NOTEBOOK.name}, cell {number}", "exec"), names)
    close_all()
    assert names["spark"] is spark
    assert [row.key for row in names["now"]] == [f"fleet/{robot}/pose" for robot in range(5)]
    assert [(row.robot, row.samples) for row in names["batteries"]] == [
        (str(robot), 100) for robot in range(5)
    ]
    assert names["table"].count() == 100
    assert len(names["axes"].lines) == 5
    names["plt"].close(names["figure"])
