"""Replay: what a log holds, published again as if it were live. Needs the extra `arrow`."""

from elea.store.replay.replay import Replay, State
from elea.store.replay.settings import ReplaySettings

__all__ = ["Replay", "ReplaySettings", "State"]
