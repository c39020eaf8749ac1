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

LAKE = Path(__file__).parent / "lake"
QUERIES = {
    "bronze": """
        SELECT key, encoding, count(*) AS samples, min(ts) AS first, max(ts) AS last
        FROM {rows} WHERE kind = 0 GROUP BY ALL ORDER BY key LIMIT 12""",
    "imu": """
        SELECT robot, count(*) AS samples, avg(ax) AS ax, max(temp) AS hottest
        FROM {rows} GROUP BY robot ORDER BY hottest DESC LIMIT 5""",
    "hot": 'SELECT robot, state, "at" FROM {rows} ORDER BY "at"',
    "imu_bad": "SELECT key, sn, reason FROM {rows} ORDER BY key, sn LIMIT 5",
}

for name, query in QUERIES.items():
    if any((LAKE / name / "_delta_log").glob("*.json")):
        files = DeltaTable(LAKE / name).file_uris()  # of the table as it is now
        if files:
            duckdb.sql(query.format(rows=f"read_parquet({files})")).show()
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
