"""Tables of rows of logs, in open formats: Delta, Iceberg, plain Parquet; without Spark.

Its modules need the extra `arrow`, and `delta` or `iceberg` for those formats.
"""
