"""The settings of advanced publishers and subscribers, as `zenoh.ext` names them."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, final

from elea.errors import InvalidValueError
from elea.qos import CongestionControl, Priority
from elea.session.convert import checked_or, nanoseconds


@final
class RepliesConfig:
    """How a cache's replies travel; priority and congestion control follow the query."""

    __slots__ = ("congestion_control", "express", "priority")

    def __init__(
        self,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
    ) -> None:
        self.congestion_control = checked_or(
            "congestion_control", congestion_control, CongestionControl, CongestionControl.BLOCK
        )
        self.priority = checked_or("priority", priority, Priority, Priority.DATA)
        self.express = checked_or("express", express, bool, False)


@final
class CacheConfig:
    """A publisher keeps its last samples for subscribers that come late or missed some.

    Args:
        max_samples: How many; one if not given.
        replies_config: How they travel.
    """

    __slots__ = ("max_samples", "replies_config")

    def __init__(
        self, max_samples: int | None = None, *, replies_config: RepliesConfig | None = None
    ) -> None:
        self.max_samples = _count("max_samples", max_samples, 1)
        self.replies_config = replies_config or RepliesConfig()


@final
class HistoryConfig:
    """A subscriber asks caches for samples that were published before it came.

    Args:
        detect_late_publishers: Ask those too that come later and declare themselves.
        max_samples: At most so many of each publisher.
        max_age: Only those younger than this, in seconds.
    """

    __slots__ = ("detect_late_publishers", "max_age", "max_samples")

    def __init__(
        self,
        *,
        detect_late_publishers: bool | None = None,
        max_samples: int | None = None,
        max_age: float | None = None,
    ) -> None:
        self.detect_late_publishers = checked_or(
            "detect_late_publishers", detect_late_publishers, bool, False
        )
        self.max_samples = None if max_samples is None else _count("max_samples", max_samples, 1)
        self.max_age = None if max_age is None else float(max_age)

    def parameters(self) -> str:
        """What it asks of a cache."""
        words = [] if self.max_samples is None else [f"_max={self.max_samples}"]
        if self.max_age is not None:
            words.append(f"_time=[now(-{self.max_age:g}s)..]")
        return ";".join([*words, "_anyke"])


@final
class MissDetectionConfig:
    """A publisher numbers its samples, so that subscribers see what they missed.

    Args:
        heartbeat: Tell the last number every so many seconds.
        sporadic_heartbeat: The same, but only after a publication.
    """

    __slots__ = ("period_ns", "sporadic")

    def __init__(
        self, *, heartbeat: float | None = None, sporadic_heartbeat: float | None = None
    ) -> None:
        self.sporadic = sporadic_heartbeat is not None
        period = heartbeat if sporadic_heartbeat is None else sporadic_heartbeat
        self.period_ns = nanoseconds("timeout", period, 0)


@final
class RecoveryConfig:
    """A subscriber asks caches for samples it missed.

    Args:
        periodic_queries: Ask every so many seconds whether there is more.
        heartbeat: Listen to what publishers say of their last number.

    Raises:
        ValueError: if not exactly one of the two is given.
    """

    __slots__ = ("heartbeat", "period_ns")

    def __init__(
        self,
        *,
        periodic_queries: float | timedelta | None = None,
        heartbeat: Literal[True] | None = None,
    ) -> None:
        if (periodic_queries is not None) == bool(heartbeat):
            raise ValueError("invalid parameters: periodic_queries or heartbeat, one of the two")
        self.heartbeat = bool(heartbeat)
        if isinstance(periodic_queries, timedelta):
            periodic_queries = periodic_queries.total_seconds()
        self.period_ns = nanoseconds("timeout", periodic_queries, 0)


def _count(name: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(
            f"argument '{name}': '{type(value).__name__}' object cannot be converted to 'int'"
        )
    if value < 0:
        raise OverflowError("can't convert negative int to unsigned")
    return value


def timestamps_needed(key: str) -> InvalidValueError:
    """A cache orders samples by number or by time; one of them must be there."""
    return InvalidValueError(
        "AdvancedPublisher",
        f"{key}: a cache without sample_miss_detection orders by timestamps: "
        "'timestamping' must be enabled in the configuration",
    )
