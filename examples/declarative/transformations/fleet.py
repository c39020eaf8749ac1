"""Samples of a log in a table, how many there are of each key, and some of them back as alerts."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
log = spark.conf.get("fleet.log")
connect = spark.conf.get("fleet.connect") or ""


@dp.table
def samples() -> DataFrame:
    return spark.readStream.format("zenoh").option("log", log).load()


@dp.materialized_view
def keys() -> DataFrame:
    return spark.read.table("samples").groupBy("key").count()


dp.create_sink("alerts", "zenoh", {"connect": connect, "prefix": "alerts"})


@dp.append_flow(target="alerts")
def first() -> DataFrame:
    return spark.readStream.table("samples").where("seq = 0").select("key", "payload")
