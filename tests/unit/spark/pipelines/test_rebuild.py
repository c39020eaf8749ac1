"""Tables made anew from history: exactly the rows of a span, none of them twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.spark.pipelines import fleet
from tests.unit.spark.pipelines.test_landing import numbers, query, rows_in
from tests.unit.spark.test_stream import no_crash
from tests.unit.store.log.rows import stamp

from elea.cli.main import main
from elea.errors import ConfigError
from elea.spark.pipelines import rebuild as rebuilding
from elea.spark.pipelines.rebuild import Rebuilt, rebuild
from elea.store.tables.compaction import compact
from elea.store.tables.table import FORMATS, open_table

OLD = fleet.TABLES.replace("temp: f64}", "}").replace("{ax: f64, }", "{ax: f64}, drift: ignore")


@pytest.mark.parametrize("format", FORMATS)
def test_what_was_decoded_before_a_column_was_declared(tmp_path: Path, format: str) -> None:
    head = f"{fleet.HEAD}format: {format}\n"
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, 100)
        query(fleet.pipeline(tmp_path, OLD, head)).run(batches_count=100, crash=no_crash)
        made = fleet.pipeline(tmp_path, head=head)
        span = (stamp(30), stamp(60))
        bad, good = rebuild(made, "imu", span)
        wanted = [one for one in fleet.good(100) if 30 <= one < 60]
        assert good == Rebuilt("imu", len(wanted), len(wanted))
        assert bad.removed_count == bad.added_count == 2
        assert numbers(made, "imu") == fleet.good(100)
        assert numbers(made, "imu_bad") == fleet.bad(100)
        rows = {row["sn"]: row["temp"] for row in rows_in(made, "imu").to_pylist()}
        assert (rows[29], rows[31], rows[59], rows[61]) == (None, 31, 59, None)
        fleet.fill(log, 100, 20)
        query(made).run(batches_count=100, crash=no_crash)
        list(compact(open_table(made.path("imu"))))
        rebuild(made, "imu")
        rows = {row["sn"]: row["temp"] for row in rows_in(made, "imu").to_pylist()}
        assert rows[29] == 29
    assert numbers(made, "imu") == fleet.good(120)
    assert numbers(made, "bronze") == list(range(120))


def test_what_lands_meanwhile_is_not_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = fleet.pipeline(tmp_path)
    read = rebuilding._rows
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, 50)
        query(made).run(batches_count=100, crash=no_crash)

        def busy(*args: object) -> object:
            fleet.fill(log, 50, 50)
            query(made).run(batches_count=100, crash=no_crash)
            yield from read(*args)  # type: ignore[arg-type]

        monkeypatch.setattr(rebuilding, "_rows", busy)
        rebuild(made, "imu")
    assert numbers(made, "imu") == fleet.good(100)
    assert numbers(made, "imu_bad") == fleet.bad(100)


def test_of_the_log_if_there_is_no_archive(tmp_path: Path) -> None:
    tables = fleet.TABLES.splitlines()[1]
    made = fleet.pipeline(tmp_path, tables)
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, 50)
        query(made).run(batches_count=100, crash=no_crash)
        rebuild(made, "imu", (stamp(10), stamp(20)))
        assert numbers(made, "imu") == fleet.good(50)
    made = fleet.pipeline(tmp_path, 'some: {archive: "fleet/r1/**"}')
    with fleet.log_at(tmp_path / "log") as log:
        query(made).run(batches_count=100, crash=no_crash)
        before = numbers(made, "some")
        [found] = rebuild(made, "some")
        assert found == Rebuilt("some", len(before), len(before))
        assert numbers(made, "some") == before


def test_what_cannot_be_made_anew_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = fleet.pipeline(tmp_path, fleet.TABLES + "v: {sql: select 1 from imu}\n")
    with pytest.raises(ConfigError, match="is not made of the log"):
        rebuild(made, "v")
    with pytest.raises(ConfigError, match="ends before it begins"):
        rebuild(made, "imu", (5, 5))
    file = str(tmp_path / "pipeline.yaml")
    assert main(["pipeline", "backfill", file, "--table", "v"]) == 1
    assert "made anew by the runner" in capsys.readouterr().err
    assert main(["pipeline", "backfill", file, "--table", "x"]) == 1
    assert 'saw "x"; legal are bronze, imu, imu_bad, v' in capsys.readouterr().err
    times = ["--from", "2026-11-14T00:00:00Z", "--to", "2026-11-13T00:00:00Z"]
    assert main(["pipeline", "backfill", file, "--table", "imu", *times]) == 2
    assert "which is not later" in capsys.readouterr().err


def test_backfill_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = fleet.pipeline(tmp_path)
    with fleet.log_at(tmp_path / "log") as log:
        fleet.fill(log, 0, 50)
        query(made).run(batches_count=100, crash=no_crash)
        file = str(tmp_path / "pipeline.yaml")
        assert main(["pipeline", "backfill", file, "--table", "imu"]) == 0
    count = len(fleet.good(50))
    assert f"imu: {count} rows went, {count} came" in capsys.readouterr().out
