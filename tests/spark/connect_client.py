"""A program that is only a client of Spark: SPARK_REMOTE says where it runs. See test_connect.py."""

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import elea.spark
from elea.spark import functions


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

    elea.spark.archive(spark, log=log, table=f"{folder}/table").start(
        trigger="once"
    ).awaitTermination()
    table = elea.spark.table(spark, f"{folder}/table", keyexpr="k/$*3")
    told["archive"] = table.count()

    functions.register(spark)
    rows.createOrReplaceTempView("samples")
    found = spark.sql("SELECT count(*) FROM samples WHERE ke_intersects('k/*', key)").collect()
    told["functions"] = found[0][0]
    told["join"] = functions.ke_join(rows, ["k/1", "k/$*3"]).count()
    spark.stop()
    Path(folder, "told.json").write_text(json.dumps(told | {"pid": os.getpid()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
