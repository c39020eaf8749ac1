"""The program that is killed with all its processes: a query of Spark that makes tables of a log.

Says `running` once it does, and ends with the reason and status 1 when the query does.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.spark_cluster import java
from chaos.spark_ledger import ARCHIVE, PIPELINE
from pyspark.sql import SparkSession

import elea.spark
from elea import crash


def main(told: str) -> int:
    given = json.loads(told)
    root = Path(given["root"])
    config = {
        "spark.local.dir": str(root / "tmp"),
        "spark.sql.warehouse.dir": str(root / "tmp"),
        f"spark.executorEnv.{crash.HOLD}": os.environ[crash.HOLD],
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
    }
    spark = elea.spark.session(
        "chaos", master=given["master"], quick=True, java=java(), config=config | given["config"]
    )
    try:
        wait = JOBS[given["job"]](spark, root, given)
        print("running", flush=True)
        wait()
    except Exception as error:  # whatever Spark says is what its user sees
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    return 1


def archive(spark: SparkSession, root: Path, given: dict[str, Any]) -> Callable[[], object]:
    """All rows in one table."""
    made = elea.spark.archive(
        spark, log=given["log"], table=root / ARCHIVE.tables[0], options=given["options"]
    )
    return made.start().awaitTermination


def pipeline(spark: SparkSession, root: Path, given: dict[str, Any]) -> Callable[[], object]:
    """All rows in one table, and those of the client decoded in another."""
    dp = importlib.import_module("elea.spark.pipelines")  # late: an archive does not need it
    storage, *names = Path(PIPELINE.tables[0]).parent, *(Path(one).name for one in PIPELINE.tables)
    file = root / "pipeline.json"  # which is YAML, too
    told = {
        "pipeline": PIPELINE.consumer,
        "log": given["log"],
        "storage": str(root / storage),
        "trigger": "100 milliseconds",
        "options": given["options"],
        "tables": {
            names[0]: {"archive": "**"},
            names[1]: {"decode": "json", "keyexpr": "k/*", "schema": {"n": "i64"}},
        },
    }
    file.write_text(json.dumps(told))
    run = dp.run(dp.load(file), spark)

    def wait() -> None:
        run.wait()
        run.check()

    return wait


JOBS = {ARCHIVE.name: archive, PIPELINE.name: pipeline}

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
