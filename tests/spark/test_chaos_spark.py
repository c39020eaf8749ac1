"""A real driver that is killed while a recorder records; the campaigns do it at length."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos.spark_ledger import IN_SINK
from chaos.spark_rig import Rig
from pyspark.sql import SparkSession

import elea.spark


@pytest.mark.long
def test_a_driver_that_is_killed_in_its_sink(spark: SparkSession, tmp_path: Path) -> None:
    """All tasks of a batch have written their files, and the table does not have them yet."""
    with Rig(tmp_path / "rig") as rig:
        life = rig.drive(armed="table.before_commit")
        life.held("table.before_commit")
        life.kill()
        assert rig.ledger.window(life.started_s) == IN_SINK
        assert rig.ledger.rows_count() == 0
        rig.pause()
        log = str(tmp_path / "rig" / "log")
        archive = elea.spark.archive(spark, log=log, table=tmp_path / "rig" / "table")
        query = archive.start(trigger="once")
        query.awaitTermination()
        query.stop()
        assert rig.ledger.problems(whole=True) == []
        assert rig.ledger.rows_count() > len(rig.ledger.places()) > 0
