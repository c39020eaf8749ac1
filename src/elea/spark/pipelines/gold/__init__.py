"""Gold tables: what is made of decoded samples, kind by kind.

`KINDS` are all kinds, by the name they have in a pipeline's file. `refresh` brings a table up to
date, `backfill` makes a range of one anew, `candidate` runs another definition beside the first.
"""

from typing import Final

from elea.spark.pipelines.gold.base import REQUIRED, Kind, Option, Options
from elea.spark.pipelines.gold.latest import LATEST
from elea.spark.pipelines.gold.refresh import Gold, Refreshed, refresh
from elea.spark.pipelines.gold.window import WINDOW

KINDS: Final[dict[str, Kind]] = {kind.name: kind for kind in (WINDOW, LATEST)}

__all__ = ["KINDS", "REQUIRED", "Gold", "Kind", "Option", "Options", "Refreshed", "refresh"]
