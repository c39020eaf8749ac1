"""Where a query that is new begins in a log."""

from __future__ import annotations

from elea.errors import ConfigError
from elea.spark.options import Stream
from elea.spark.places import Place


def initial(options: Stream, place: Place) -> dict[int, int]:
    """By shard, the first row, as the option `startingOffsets` says.

    Raises:
        ConfigError: it names rows that the log does not have.
    """
    start = options.start
    bounds = place.bounds()
    firsts = {shard: one.first for shard, one in enumerate(bounds)}
    if start.word == "latest":
        return {shard: one.end for shard, one in enumerate(bounds)}
    if start.word == "committed":
        assert options.consumer is not None
        return firsts | dict(place.committed(options.consumer) or {})
    if start.time is not None:
        return dict(enumerate(place.seek(start.time)))
    if start.offset is not None:
        if start.offset.log_id != place.log_id:
            reason = f"is of log {start.offset.log_id}; this is {place.log_id}"
            raise ConfigError("option startingOffsets", reason)
        for shard, seq in start.offset.ends.items():
            if shard >= len(bounds) or seq > bounds[shard].end:
                reason = f"saw row {seq} of shard {shard}, which the log does not have"
                raise ConfigError("option startingOffsets", reason)
        return firsts | dict(start.offset.ends)
    return firsts
