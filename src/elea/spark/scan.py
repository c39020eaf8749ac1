"""A table as a DataFrame: Spark's own Parquet scan, over the files that may have what is wanted."""

from __future__ import annotations

import re
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elea.errors import EleaError, InvalidValueError, MissingDependencyError
from elea.keyexpr.keyexpr import KeyExpr
from elea.timerange import TimeRange
from elea.timestamp import NTP64

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Moment = datetime | str | None

_END: Final = 2**64
_CHUNK: Final = "[^/@][^/]*"  # what a wildcard stands for: no wildcard stands for a verbatim chunk
_CHUNKS: Final = f"(?:/{_CHUNK})*"


def table(
    spark: SparkSession,
    path: str | Path,
    *,
    keyexpr: str = "**",
    since: Moment = None,
    until: Moment = None,
) -> DataFrame:
    """Rows of a table.

    Args:
        path: Its directory, which every host has.
        keyexpr: Of keys that this matches.
        since: From this time on: a datetime, RFC 3339, or `now(-1h)`,
        until: and before this one.

    Raises:
        StoreError: there is no table.
        KeyExprError: not a key expression.
        InvalidValueError: not a time.

    Example:
        elea.spark.table(spark, "/lake/bronze", keyexpr="fleet/*/imu", since="now(-1h)")
    """
    try:
        from pyspark.sql.pandas.types import from_arrow_schema

        from elea.store.tables.table import open_table
    except ModuleNotFoundError as error:
        raise MissingDependencyError("a table in Spark", "spark") from error
    wanted = str(KeyExpr.autocanonize(keyexpr))
    span = (0 if since is None else moment(since), _END if until is None else moment(until))
    found = open_table(path)
    root = Path(found.layout.root)
    files = [str(root / file.path) for file in found.files(wanted, *span)]
    schema = from_arrow_schema(found.schema())
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema)
    if not found.layout.partitions_inside:
        reader = reader.option("basePath", str(root))
    frame = reader.parquet(*files)
    for condition in _conditions(wanted, *span):
        frame = frame.where(condition)
    return frame


def moment(value: datetime | str) -> int:
    """A time as the 64 bits of a timestamp; `now` is that of this host.

    Raises:
        InvalidValueError: it is no time.
    """
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidValueError("time", f"saw {value}, which has no time zone; give it UTC")
        return NTP64.from_datetime(value).value
    try:
        start = TimeRange.parse(f"[{value}..]").start
    except EleaError as error:
        legal = "legal are RFC 3339 with Z, and now(-1h)"
        raise InvalidValueError("time", f"saw {value!a}; {legal}") from error
    if start is None:
        raise InvalidValueError("time", "saw an empty text; legal are RFC 3339 and now(-1h)")
    return NTP64.from_nanos(start.resolve(time.time_ns())).value


def pattern(key_expr: str) -> str:
    """A regular expression of Java that matches the keys that a key expression does.

    Example:
        >>> pattern("fleet/*/imu")
        'fleet/[^/@][^/]*/imu'
    """
    chunks = key_expr.split("/")
    if chunks == ["**"]:
        return f"{_CHUNK}{_CHUNKS}"
    text = "".join(_CHUNKS if chunk == "**" else f"/{_chunk(chunk)}" for chunk in chunks)
    if chunks[0] == "**":
        return f"(?:{_CHUNK}/)*" + text.removeprefix(f"{_CHUNKS}/")
    return text.removeprefix("/")


def _chunk(chunk: str) -> str:
    if chunk == "*":
        return _CHUNK
    text = "[^/]*".join(re.escape(part) for part in chunk.split("$*"))
    return f"(?!@){text}" if chunk.startswith("$*") else text


def _conditions(key_expr: str, since: int, until: int) -> list[Column]:
    """What is left to ask of each row; in the first place what Parquet's statistics can tell."""
    from pyspark.sql import functions as sql

    from elea.store.tables.files import microseconds, prefix_of

    key, found = sql.col("key"), []
    prefix = prefix_of(key_expr)
    if prefix == key_expr:
        found.append(key == prefix)
    elif key_expr != "**":
        found.append(key.startswith(prefix))
        found.append(key.rlike(rf"\A(?:{pattern(key_expr)})\z"))
    for stamp, is_first in ((since, True), (until, False)):
        if stamp in (0, _END):
            continue
        bound = sql.timestamp_micros(sql.lit(microseconds(stamp)))
        stamped, received = sql.col("ts"), sql.col("recv_ts")
        if is_first:
            timed, late = stamped >= bound, received >= bound
        else:
            timed, late = stamped < bound, received < bound
        unstamped = sql.col("hlc").isNull()
        found.append((~unstamped & timed) | (unstamped & late))
    return found
