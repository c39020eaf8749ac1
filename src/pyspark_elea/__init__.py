"""Registers `format("zenoh")`: Spark imports every module whose name begins with `pyspark_`."""

from elea.spark.source import ZenohSource as DefaultSource

__all__ = ["DefaultSource"]
