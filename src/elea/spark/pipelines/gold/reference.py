"""The kinds of gold tables as the page `docs/reference/gold-tables.md`."""

from __future__ import annotations

import sys
from typing import Final

from elea.spark.pipelines.gold import values
from elea.spark.pipelines.gold.base import REQUIRED, Kind, Option
from elea.spark.pipelines.gold.kinds import KINDS

_HEAD: Final = """\
# Gold tables

What a pipeline makes of decoded samples. In `pipeline.yaml` a gold table has `from`, the tables
it is made of, and one kind with its options:

```yaml
tables:
  online: {from: bronze, presence: {key: "fleet/{robot}/alive"}}
  imu_1s: {from: [imu, online], window: {every: 1 second, by: [robot], values: {ax: [avg, max]}}}
  hot:    {from: imu, alert: {when: temp > 80, for: 3 seconds, clear: temp < 75, by: [robot]}}
```

The same in Python, for one table:

```python
from pathlib import Path

from elea.spark.pipelines.gold import KINDS, Gold, refresh

kind = KINDS["window"]
options = kind.parsed({"every": "1 second", "by": ["robot"], "values": {"ax": "avg"}})
gold = Gold(kind, options, [Path("/lake/imu")], Path("/lake/imu_1s"), "delta")
refresh(spark, gold)  # one round: what is new since the last one
```

Durations are `250 ms`, `1 second`, `2 hours`. Alerts in practice:
[alerts.md](../howto/alerts.md); to make a table anew, or try another definition:
[back-fill.md](../howto/back-fill.md).

## Rounds

A gold table is a function of other tables, and is brought up to date in rounds. A round reads the
rows that no round had before, and changes the table in one step. What it remembers (how far it
read, the positions of devices, states of alerts) is in `_elea` below the table under the number
of the change, so that both belong together: a round that is killed anywhere is done again by the
next one, and gives the same. No checkpoint of Spark is needed, and the same rows give the same
table whenever they are read.

Tables are of the pipeline's format, `delta`, `iceberg` or `parquet`, with files in `rows`. Files
that a change replaced stay for an hour, for who reads them. Rows are published once they are in
the table, and again after a crash: from the same source, with the same numbers, so that recorders
and [`elea.spark.once`](../howto/exactly-once.md) have each once.

A table is of one definition. With other options `refresh` is refused: make it anew by a
back-fill. Columns that a source gets later are left out of a table that has all columns, which is
logged.

## Windows that follow who is alive

`window`, `downsample`, `latency` and `align` make rows once a span of time is closed, and then
for good. A span is closed when all devices have passed it, by the timestamps of their rows, but
for

- those that are dead: the second source, a table of kind `presence`, says that their token is
  gone;
- those that are silent: they have not sent for `late`, by the time of the log.

A device whose token appeared holds spans open from then on, also before its first row. Without a
second source everybody is taken for alive, and only silence counts. Who is a device is told by
`device`, else by the columns of `by` that the second source has too, else by `by`, else by the
publisher.

The time of the log is when its last row was received: it does not run ahead of a pipeline that
has to catch up, and stands still when nothing is recorded. `refresh(..., now_us=)` is for who
knows that nothing is missing; `is_final=True` closes all that is open.

A timestamp is believed up to `drift` ahead of when its row was received: a device whose clock is a
day ahead would close spans into tomorrow. Rows further ahead are counted (`ahead_count`). Nor is
a time of reception believed that the clock of this host has before it: that of a recorder may be
wrong, and its rows count as received now. If it was this host's own clock, and it was set back by
more than a minute, spans that it has before it again are removed, and closed when it is time.

Rows that come after their span was closed are counted (`late_count`) and are in a table of their
own, `NAME_late`, up to 100,000 of a round; and in the table they came from: a back-fill of that
time takes them in. A pipeline does so by itself for rows of publishers that number their samples,
as a recorder gets them when it fills gaps. What is back-filled is not published.

Options `..._max` bound what a table remembers. One that is exceeded is counted (`forgotten_count`)
and told. These and `drift` may be changed without making the table anew.

## What it costs

One round over 500 000 new rows of 20 robots, rows per second of processor time, two cores that
others used too:

| `latest` | `latency` | `alert` | `window` with a percentile | `losses` |
| --- | --- | --- | --- | --- |
| 187 k | 132 k | 90 k | 87 k | 69 k |

A round over few rows takes about one second of processor time for each table, most of it in
Spark's planner, and none if nothing is new. So on a small machine let rounds be seconds apart.
"""

_COLUMNS: Final = {
    "window": "`by`, `window_start`, `window_end`, `count`, and `COLUMN_AGGREGATE` for each of "
    "`values`: `ax_avg`, `temp_p99`. Aggregates: `count`, `min`, `max`, `avg`, `sum`, `first`, "
    "`last` (by timestamp), `stddev`, and percentiles as `p50`, `p99.9` (column `temp_p99_9`), "
    "which are exact.",
    "downsample": "`by`, `window_start`, `window_end`, the columns under their names, `count`.",
    "latest": "`by`, `at`, `hlc`, `deleted`, and the others of the row. A key that was deleted has "
    "a row with `deleted` and no values until `forget` is over, so that older values that come "
    "late stay away.",
    "align": "`by`, `at`, the columns of the first table, those of the others (as `NAME_2`, "
    "`NAME_3` where a table before has them too), and `age_2_ms`, ...: how much older the row is "
    "than that of the first table. Null where there is none.",
    "presence": "`key`, the fields of the option `key`, `online_from`, `online_to`: null while it "
    "is there. Times are those of reception.",
    "losses": "`id`, `reason`, `key`, `zid`, `eid`, `first_sn`, `last_sn`, `count`, `from_ts`, "
    "`to_ts`.",
    "latency": "`keyexpr`, `window_start`, `window_end`, `count`, `p50_ms`, `p95_ms`, `p99_ms`, "
    "`max_ms`, `avg_ms`.",
    "alert": "`id`, `state` (`raised` or `cleared`), `by`, `at`, `since`, `sample_key`, `values`: "
    "what the sample held of what the rule looks at, as JSON.",
}


def markdown() -> str:
    """The page."""
    return _HEAD + "".join(_section(kind) for kind in KINDS.values())


def _section(kind: Kind) -> str:
    text = f"\n## `{kind.name}`\n\n{_sentence(kind.help)}\n"
    about = (sys.modules[kind.apply.__module__].__doc__ or "").partition("\n\n")[2].strip()
    if about:
        text += f"\n{about}\n"
    low, high = kind.sources
    if high > 1:
        second = "" if low > 1 else ": a second one is of kind `presence`"
        text += f"\nIt takes {low} to {high} tables{second}.\n"
    if kind.options:
        text += "\n| option | default | meaning |\n| --- | --- | --- |\n"
        text += "".join(
            f"| `{one.name}` | {_default(one)} | {one.help} |\n" for one in kind.options
        )
    text += f"\nColumns: {_COLUMNS[kind.name]}\n"
    names = ", ".join(f"`{name}`" for name in kind.identity(_usual(kind)))
    more = " and those of `by`" if any(one.name == "by" for one in kind.options) else ""
    if kind.name in ("alert", "latest"):
        more = "" if kind.name == "alert" else ", or those of `by`"
    return text + f"A row is named by {names}{more}.\n"


def _usual(kind: Kind) -> dict[str, object]:
    return {one.name: one.default for one in kind.options}


def _default(option: Option) -> str:
    value = option.default
    if value is REQUIRED:
        return "required"
    if value in (None, (), {}):
        return "-"
    if option.parse is values.count:
        return f"{value:,}"
    if isinstance(value, int):
        return "0 s" if value == 0 else f"{value // 1_000_000} s"
    return f"`{', '.join(value) if isinstance(value, tuple) else value}`"


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
