"""Columns of rows, as every kind of gold table needs them. Only here and below is Spark called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from elea.errors import ConfigError
from elea.store.log.schema import TIME, RowKind

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PLACE: Final = ("log", "shard", "seq")


def require(frame: DataFrame, names: Iterable[str], where: str) -> None:
    """Refuse columns that are not there.

    Raises:
        ConfigError: it says which there are.
    """
    missing = [name for name in names if name not in frame.columns]
    if missing:
        reason = f"there is no column {', '.join(missing)}; legal are {', '.join(frame.columns)}"
        raise ConfigError(where, reason)


def moment(frame: DataFrame) -> Column:
    """When a row happened: the time of its timestamp, else when it was received."""
    from pyspark.sql import functions as sql

    found = [sql.col(name) for name in ("ts", "recv_ts") if name in frame.columns]
    if not found:
        if "window_start" in frame.columns:  # of another gold table
            return sql.col("window_start")
        reason = f"there is no column ts; there are {', '.join(frame.columns)}"
        raise ConfigError("from", reason)
    return found[0] if len(found) == 1 else sql.coalesce(*found)


def order(frame: DataFrame) -> Column:
    """What sorts rows by time: `hlc` tells apart what is within one microsecond."""
    from pyspark.sql import functions as sql

    more = [name for name in ("hlc", *PLACE) if name in frame.columns]
    return sql.struct(moment(frame).alias("at"), *more)


def puts(frame: DataFrame) -> DataFrame:
    """Rows that hold values: not deletions, gaps or tokens."""
    if "kind" not in frame.columns:
        return frame
    return frame.where(f"kind = {int(RowKind.PUT)}")


def collected(frame: DataFrame) -> pa.Table:
    """Rows, here; times in UTC. For few of them."""
    table: pa.Table = frame.toArrow()
    fields = [
        one.with_type(TIME) if pa.types.is_timestamp(one.type) else one for one in table.schema
    ]
    return table.cast(pa.schema(fields))
