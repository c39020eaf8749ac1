"""Pipelines as a browser is shown them: whatever a runner tells is text and numbers."""

from __future__ import annotations

from typing import Any

from elea.web.ui.pipelines import lineage, pipelines

DEFINITION = {
    "log": "./log",
    "storage": "./lake",
    "tables": [
        {
            "name": "hot",
            "kind": "alert",
            "level": "gold",
            "from": ["imu"],
            "keys": [],
            "publish": {"key": "alerts/{robot}/hot"},
        },
        {"name": "bronze", "kind": "archive", "level": "bronze", "from": [], "keys": ["**"]},
        {"name": "imu", "kind": "decoded", "level": "silver", "from": [], "keys": ["fleet/*/imu"]},
        {
            "name": "soil",
            "kind": "decoded",
            "level": "silver",
            "from": [],
            "keys": ["fleet/*/soil"],
        },
    ],
}
STATUS = {
    "state": "running",
    "tables": {
        "imu": {"rows": 12, "lag": 3, "lag_s": 1.5, "state": "running"},
        "imu_bad": {"kind": "bad", "rows": 1, "state": "running"},
        "hot": {"state": "failing", "error": "no such column\x1b[31m"},
    },
    "events": [f"event {n}" for n in range(90)],
}
BATCHES = {"tables": {"imu": [[100 + n, n, n, 0.5, n, float(n)] for n in range(9)]}}
TOLD: Any = {"fleet": {"status": STATUS, "definition": DEFINITION, "batches": BATCHES}}


def test_tables_are_told_with_their_state_and_trend() -> None:
    found: Any = pipelines(TOLD)["pipelines"]
    [one] = found
    tables = {table["name"]: table for table in one["tables"]}
    assert [*tables] == ["hot", "bronze", "imu", "soil", "imu_bad"]
    assert (tables["imu"]["lag_s"], tables["imu"]["trend"]) == (1.5, "growing")
    assert tables["hot"]["publish"] == "alerts/{robot}/hot"
    assert tables["hot"]["error"] == "no such column\\x1b[31m"
    assert tables["imu_bad"]["level"] == "bad"
    assert tables["soil"]["state"] == "unknown"
    assert one["events"][0] == "event 89"
    assert len(one["events"]) == 50


def test_a_key_leads_to_all_tables_made_of_it() -> None:
    found = [row[1] for row in lineage(TOLD, "fleet/r05/imu")]  # type: ignore[index]  # rows
    assert found == ["hot", "bronze", "imu"]
    assert [row[1] for row in lineage(TOLD, "lamp")] == ["bronze"]  # type: ignore[index]
    assert lineage(TOLD, "a//b") == []


def test_what_strangers_tell_in_place_of_a_runner_is_harmless() -> None:
    strange: list[Any] = [
        {},
        {"status": [], "definition": 7, "batches": None},
        {"status": {"tables": [1], "events": "x", "state": 5}, "definition": {"tables": [1, {}]}},
        {"definition": {"tables": [{"name": "a", "from": [7], "keys": [{}, "a//b"]}]}},
        {"batches": {"tables": {"a": [[1]]}}, "status": {"tables": {"a": {"rows": 1e400}}}},
        {"status": {"tables": {"a": {"rows": True, "lag_s": float("nan")}}}},
    ]
    for one in strange:
        found: Any = pipelines({"p": one})["pipelines"]
        assert found[0]["name"] == "p"
        lineage({"p": one}, "a")
