"""The data space in Apache Spark.

The packages of the extra `spark` are imported when something is used, not when it is named.
"""
