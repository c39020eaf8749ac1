"""What Spark does with the error of a query that is stopped."""

from __future__ import annotations

from pyspark.sql import SparkSession

MESSAGE_LEN = 20_000  # of a traceback, and Java's frames in it


def test_a_long_error_of_a_stopped_query_does_not_overflow_the_stack(spark: SparkSession) -> None:
    """SIGTERM in a batch printed 1,000 lines of StackOverflowError."""
    assert spark._jvm is not None
    error = spark._jvm.py4j.Py4JException(
        "py4j.protocol.Py4JJavaError: An error occurred while calling o1" + "x" * MESSAGE_LEN
    )
    package = spark._jvm.org.apache.spark.sql.execution.streaming.runtime
    execution = getattr(getattr(package, "StreamExecution$"), "MODULE$")
    context = spark.sparkContext._jsc.sc()
    assert execution.isInterruptionException(error, context) is False
