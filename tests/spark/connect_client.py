"""A program that is only a client of Spark, for test_connect.py: SPARK_REMOTE says of which."""

import json
import os
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import elea.spark
from elea.spark import functions
from elea.spark.archiving import Archive

ATTEMPTS = 6


def main(log: str, folder: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    told: dict[str, object] = {"kind": type(spark).__module__}
    rows = spark.read.format("zenoh").option("log", log).load()
    told["batch"] = rows.count()

    copied = f"{folder}/copied"
    query = (
        spark.readStream.format("zenoh")
        .option("log", log)
        .option("columns", "key,payload")
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(copied)
    )
    query.awaitTermination()
    told["stream"] = spark.read.parquet(copied).count()

    archived(elea.spark.archive(spark, log=log, table=f"{folder}/table"))
    table = elea.spark.table(spark, f"{folder}/table", keyexpr="k/$*3")
    told["archive"] = table.count()

    functions.register(spark)
    rows.createOrReplaceTempView("samples")
    found = spark.sql("SELECT count(*) FROM samples WHERE ke_intersects('k/*', key)").collect()
    told["functions"] = found[0][0]
    told["join"] = functions.ke_join(rows, ["k/1", "k/$*3"]).count()
    spark.stop()
    told["stranger"] = refusal()
    Path(folder, "told.json").write_text(json.dumps(told))


def refusal() -> str:
    """What somebody is told who does not know the token."""
    url = os.environ["SPARK_REMOTE"].partition(";")[0]
    try:
        SparkSession.builder.remote(url).create().range(1).count()
    except Exception as error:
        return str(error)
    return ""


def archived(archive: Archive) -> None:
    """Spark gives the process of a `foreachBatch` ten seconds to start: a busy host needs more."""
    for left in reversed(range(ATTEMPTS)):
        try:
            archive.start(trigger="once").awaitTermination()
            return
        except PySparkException as error:
            if "failed to connect back" not in str(error) or not left:
                raise


if __name__ == "__main__":
    main(*sys.argv[1:])
