"""Stamping: when a sample happened, as a storage keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from elea.provenance import SampleKind
from elea.sample import Sample
from elea.session.session import Session
from elea.timestamp import DRIFT_NS_MAX, NANOS_PER_SECOND, NTP64, Timestamp

_TIME_MAX: Final = (1 << 64) - 1
_ROUTING_NS: Final = NANOS_PER_SECOND  # from being routed to being in line, at the most


class Stamped(Protocol):
    """Where it is counted."""

    stamped: int  # came without a timestamp
    restamped: int  # came from the future (T31)


def timestamp_of(
    sample: Sample,
    session: Session,
    wall_ns: int,
    newest: Callable[[str], int | None],
    counts: Stamped,
) -> Timestamp:
    """The sample's, if it has one that can be believed; else one of ours.

    Args:
        newest: The 64 bits of the newest timestamp that is kept of keys that match.
    """
    timestamp = sample.timestamp
    if timestamp is None:
        counts.stamped += 1
    elif timestamp.time.as_nanos() <= wall_ns + DRIFT_NS_MAX:
        return timestamp
    else:
        counts.restamped += 1
    if sample.kind is SampleKind.PUT:
        return session.new_timestamp()
    # Routers stamp puts and not deletions. One that follows in the same read is stamped before
    # the deletion gets here, so with a new timestamp the deletion would take what came after it.
    # It is to be newer than what it finds, and older than what was routed after it.
    bits = NTP64.from_nanos(max(wall_ns - _ROUTING_NS, 0)).value
    found = newest(sample.key_text)
    if found is not None:
        bits = max(bits, min(found + 1, _TIME_MAX))
    return Timestamp(NTP64.from_value(bits), session.zid())
