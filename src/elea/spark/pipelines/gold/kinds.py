"""All kinds of gold tables, by the name they have in a pipeline's file."""

from __future__ import annotations

from typing import Final

from elea.spark.pipelines.gold.alert import ALERT
from elea.spark.pipelines.gold.align import ALIGN
from elea.spark.pipelines.gold.base import Kind
from elea.spark.pipelines.gold.downsample import DOWNSAMPLE
from elea.spark.pipelines.gold.latency import LATENCY
from elea.spark.pipelines.gold.latest import LATEST
from elea.spark.pipelines.gold.losses import LOSSES
from elea.spark.pipelines.gold.presence import PRESENCE
from elea.spark.pipelines.gold.window import WINDOW

KINDS: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (WINDOW, DOWNSAMPLE, LATEST, ALIGN, PRESENCE, LOSSES, LATENCY, ALERT)
}
