"""Programs that ask the tables of a run, to be read, run and changed by who has seen it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

DUCKDB: Final = "query_duckdb.py"
SPARK: Final = "query_spark.py"
PLOT: Final = "robot.html"

_DUCKDB: Final = '''\
"""The tables of this directory in DuckDB: pip install duckdb deltalake"""

from pathlib import Path

import duckdb
from deltalake import DeltaTable

lake = Path(__file__).parent / "lake"


def table(name: str) -> str:
    """The files of a table as it is now, for read_parquet."""
    return str([file.removeprefix("file://") for file in DeltaTable(lake / name).file_uris()])


duckdb.sql(
    f"""
    SELECT key, encoding, count(*) AS samples, min(ts) AS first, max(ts) AS last
    FROM read_parquet({table("bronze")}, hive_partitioning = true)
    WHERE kind = 0 GROUP BY ALL ORDER BY key LIMIT 12
    """
).show()
'''
_SPARK: Final = '''\
"""The tables of this directory in Spark, on the Java that is packaged: pip install 'elea[demo]'"""

from pathlib import Path

import elea.spark

lake = Path(__file__).parent / "lake"
spark = elea.spark.session("query", quick=True)
bronze = elea.spark.table(spark, lake / "bronze", keyexpr="fleet/r05/**")
bronze.where("kind = 0").groupBy("key", "encoding").count().orderBy("key").show(truncate=False)
spark.stop()
'''


def write(directory: Path) -> None:
    """Put the programs where the tables are."""
    for name, text in ((DUCKDB, _DUCKDB), (SPARK, _SPARK)):
        (directory / name).write_text(text, encoding="utf-8")
