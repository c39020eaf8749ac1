"""Gold tables: what is made of decoded samples, kind by kind.

`KINDS` are all kinds, by the name they have in a pipeline's file. `refresh` brings a table up to
date, `backfill` makes one anew or a range of it, `candidates` and `diff` try another definition,
`AlertRule` is a rule for subscribers, `Standing` answers queries with rows.
"""

from elea.spark.pipelines.gold.backfill import Backfilled, backfill
from elea.spark.pipelines.gold.base import REQUIRED, Kind, Option, Options
from elea.spark.pipelines.gold.candidate import Difference, candidates, diff
from elea.spark.pipelines.gold.kinds import KINDS
from elea.spark.pipelines.gold.refresh import Gold, Refreshed, refresh
from elea.spark.pipelines.gold.rules import AlertRule, Event
from elea.spark.pipelines.gold.standing import Standing

__all__ = [
    "KINDS",
    "REQUIRED",
    "AlertRule",
    "Backfilled",
    "Difference",
    "Event",
    "Gold",
    "Kind",
    "Option",
    "Options",
    "Refreshed",
    "Standing",
    "backfill",
    "candidates",
    "diff",
    "refresh",
]
