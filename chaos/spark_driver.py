"""The program that is killed with all its processes: a query of Spark that archives a log.

Says `running` once it does, and ends with the reason and status 1 when the query does.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from chaos.spark_cluster import java

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
    made = elea.spark.archive(
        spark, log=given["log"], table=root / "table", options=given["options"]
    )
    query = made.start()
    print("running", flush=True)
    try:
        query.awaitTermination()
    except Exception as error:  # whatever Spark says is what its user sees
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
