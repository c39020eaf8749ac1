"""The file that `elea pipeline init` writes."""

from __future__ import annotations

from typing import Final

FILE: Final = """\
# A pipeline: tables of a log, kept up to date by Spark, each sample in them once.
#
#   elea pipeline check      what is wrong with this file
#   elea pipeline run        start it; Ctrl-C ends it, and `run` goes on where it ended
#   elea pipeline status     from another shell: rows, lag, restarts, errors
#
# docs/reference/pipeline-file.md tells of every key.

pipeline: {name}                 # consumers of the log are named by it
log: ./log                      # what `elea record '**' --to ./log` writes; or zenoh:NAME
# connect: tcp/127.0.0.1:7447   # where a log is served, and results are published
storage: ./lake                 # the tables
format: delta                   # delta, iceberg or parquet
trigger: 2 seconds              # available-now: what there is, and then it ends

tables:
  # Bronze: every sample as it is.
  bronze: {{archive: "**"}}

  # Silver: columns in place of payloads. What cannot be decoded is in imu_bad, with the reason.
  imu:
    decode: json
    key: "fleet/{{robot}}/imu"    # samples of these keys; robot is a column
    schema: {{ax: f64, ay: f64, az: f64, temp: f64}}

  # Gold: what is made of other tables.
  imu_1s:
    from: imu
    window: {{every: 1 second, by: [robot], values: {{ax: avg, temp: max}}, late: 10 seconds}}
    # publish: "gold/{{robot}}/imu_1s"    # new rows, as samples; needs connect

  last:
    from: imu
    latest: {{by: [robot]}}

  # And whatever SQL can say, made anew when its tables have changed.
  hottest:
    sql: "SELECT robot, max(temp) AS temp FROM imu GROUP BY robot ORDER BY temp DESC"
"""


def text(name: str = "fleet") -> str:
    """A pipeline that works, with a comment for each key."""
    return FILE.format(name=name)
