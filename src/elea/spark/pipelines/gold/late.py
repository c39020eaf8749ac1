"""Rows that came too late for what they belong to: a table of their own beside the gold table.

They are in the table they came from as well. Those of publishers that number their samples are what
a recorder gets when it fills gaps: the spans of these are made anew by the pipeline itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pyarrow as pa

from elea.spark.pipelines.gold.frames import PLACE
from elea.store.tables.results import open_results, removal_of

LATE: Final = "_late"  # how the name ends of a table of late rows
LATE_COUNT: Final = "late_count"  # rows that came too late, since the table was made
ROWS_MAX: Final = 100_000  # late rows of a round that are kept; all are counted
REFILL_SINCE: Final = "refill_since_us"  # from when on rows are to be made anew,
REFILL_UNTIL: Final = "refill_until_us"  # and before when


def keep_late(path: Path, format: str, rows: pa.Table) -> None:
    """Put late rows into their table; a round that is made again puts the same rows in again."""
    table = open_results(path, format)
    schema = table.schema()
    if schema is not None:  # the source may have got columns since
        rows = pa.table(
            [
                rows[one.name] if one.name in rows.column_names else pa.nulls(len(rows), one.type)
                for one in schema
            ],
            names=schema.names,
        )
    is_placed = set(PLACE) <= set(rows.column_names)
    removal = removal_of(rows.select(list(PLACE))) if schema is not None and is_placed else None
    table.change(table.number() + 1, rows, [] if removal is None else [removal])


def refill_of(mark: Mapping[str, int]) -> tuple[int, int] | None:
    """The span of time that is to be made anew, in microseconds; None: none is."""
    if REFILL_SINCE not in mark:
        return None
    return mark[REFILL_SINCE], mark[REFILL_UNTIL]


def with_refill(mark: Mapping[str, int], span: tuple[int, int] | None) -> dict[str, int]:
    """What to remember: a span, together with one that was remembered before."""
    found = dict(mark)
    if span is not None:
        found[REFILL_SINCE] = min(span[0], found.get(REFILL_SINCE, span[0]))
        found[REFILL_UNTIL] = max(span[1], found.get(REFILL_UNTIL, span[1]))
    return found


def without_refill(
    mark: Mapping[str, int], since_us: int | None, until_us: int | None
) -> dict[str, int]:
    """What to remember once a span was made anew."""
    span = refill_of(mark)
    is_done = span is None or (
        (since_us is None or since_us <= span[0]) and (until_us is None or until_us >= span[1])
    )
    gone = (REFILL_SINCE, REFILL_UNTIL) if is_done else ()
    return {name: value for name, value in mark.items() if name not in gone}
