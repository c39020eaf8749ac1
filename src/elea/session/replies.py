"""Merges the replies to one query: none, monotonic, latest. behaviour.md 5.8."""

from __future__ import annotations

from elea.query import ConsolidationMode
from elea.sample import Reply, Sample
from elea.selector import TIME_RANGE_KEY
from elea.timestamp import Timestamp

_Time = tuple[bool, Timestamp | None]


def resolve(mode: ConsolidationMode, parameters: str) -> ConsolidationMode:
    """The mode that AUTO means for these parameters: a range of time wants all samples in it."""
    if mode is not ConsolidationMode.AUTO:
        return mode
    names = (pair.partition("=")[0] for pair in parameters.split(";"))
    return ConsolidationMode.NONE if TIME_RANGE_KEY in names else ConsolidationMode.LATEST


class Consolidator:
    """The memory of one query: what was delivered, or is held back, per key."""

    __slots__ = ("_held", "_mode", "_times")

    def __init__(self, mode: ConsolidationMode) -> None:
        self._mode = mode
        self._times: dict[str, Timestamp | None] = {}  # monotonic: the newest delivered
        self._held: dict[str, Reply] = {}  # latest: the newest so far

    def add(self, reply: Reply) -> Reply | None:
        """The reply, if it is to be delivered at once. Errors always are."""
        sample = reply.ok
        if sample is None or self._mode is ConsolidationMode.NONE:
            return reply
        key = sample.key_text
        if self._mode is ConsolidationMode.MONOTONIC:
            if key in self._times and _older(sample.timestamp, self._times[key]):
                return None
            self._times[key] = sample.timestamp
            return reply
        held = self._held.get(key)
        if held is None or not _older(sample.timestamp, _timestamp(held)):
            self._held[key] = reply
        return None

    def rest(self) -> list[Reply]:
        """What was held back, at the end of the query."""
        held = list(self._held.values())
        self._held.clear()
        return held


def _timestamp(reply: Reply) -> Timestamp | None:
    return reply.result.timestamp if isinstance(reply.result, Sample) else None


def _older(new: Timestamp | None, old: Timestamp | None) -> bool:
    """No timestamp is older than any."""
    if old is None:
        return False
    return new is None or new < old
