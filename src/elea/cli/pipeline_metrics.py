"""`elea pipeline status --metrics`: how a pipeline does, as OpenMetrics text.

For the textfile collector of Prometheus' node exporter, or whoever else takes such text: a runner
opens no port.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from elea.spark.pipelines.state import Status, TableStatus

_PREFIX: Final = "elea_pipeline"


class TableMetric(NamedTuple):
    """A metric of a table; no value where nothing is known."""

    name: str
    kind: str
    help: str
    read: Callable[[TableStatus], int | float | None]
    unit: str = ""


TABLE_METRICS: Final = (
    TableMetric("table_rows", "gauge", "rows of a table", lambda one: one.rows),
    TableMetric("table_added_rows", "counter", "rows this run has added", lambda one: one.added),
    TableMetric("table_lag_rows", "gauge", "rows of the log not in it yet", lambda one: one.lag),
    TableMetric(
        *("table_lag", "gauge", "how long the first of those waits", lambda one: one.lag_s),
        unit="seconds",
    ),
    TableMetric(
        *("table_batch", "gauge", "duration of the last batch", lambda one: one.batch_s),
        unit="seconds",
    ),
    TableMetric("table_late_rows", "counter", "rows too late for their span", lambda one: one.late),
    TableMetric(
        *("table_ahead_rows", "counter", "rows of clocks that are ahead", lambda one: one.ahead),
    ),
    TableMetric(
        *("table_forgotten", "counter", "groups beyond the bound", lambda one: one.forgotten),
    ),
    TableMetric("table_restarts", "counter", "times it was begun again", lambda one: one.restarts),
    TableMetric(
        *("table_failing", "gauge", "1 if it fails or was given up"),
        lambda one: int(one.state in ("failing", "failed")),
    ),
)


def metrics_text(status: Status) -> str:
    """A status as OpenMetrics text."""
    from elea.daemon.metrics import Family, text

    about = {"pipeline": status.pipeline}
    found = [
        Family(f"{_PREFIX}_up", "gauge", "1 if its runner lives.", [(about, int(status.is_alive))])
    ]
    for metric in TABLE_METRICS:
        name = "_".join(part for part in (_PREFIX, metric.name, metric.unit) if part)
        family = Family(name, metric.kind, f"{metric.help}.", unit=metric.unit)
        for table, one in status.tables.items():
            value = metric.read(one)
            if value is not None:
                family.samples.append(({**about, "table": table, "kind": one.kind}, value))
        found.append(family)
    return text(found)
