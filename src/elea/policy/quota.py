"""Quotas: how much one identity may send and declare, over all its links. Threat T23.

A bucket holds what may come at once, one second's worth; it fills at its rate and may go below
empty. Whoever empties it is read no further until it is full enough again, and feels that as a
slow link; who keeps it empty for too long is closed.
"""

from __future__ import annotations

from typing import Final, Self, TypeAlias

from elea.config.config import Config
from elea.policy.identity import Selection
from elea.policy.records import identified, integer, text
from elea.records import dataclass

PATH: Final = "elea/quotas"
_SECOND_NS: Final = 1_000_000_000
_MS_NS: Final = 1_000_000

AccountKey: TypeAlias = tuple[str, str]  # the id of a quota, the name of an identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One item of `elea/quotas`; None is no bound."""

    id: str
    selection: Selection
    declarations: int | None = None
    messages_per_second: int | None = None
    bytes_per_second: int | None = None
    close_after_ns: int | None = None

    @classmethod
    def from_config(cls, config: Config) -> list[Self]:
        """All items, in their order: the first that selects a neighbour is its quota.

        Raises:
            ConfigError: an id is used twice.
        """
        found = []
        for number, record in enumerate(identified(config, PATH) or ()):
            close_after_ms = integer(record, "close_after_ms")
            found.append(
                cls(
                    id=text(record, "id", f"{PATH}[{number}]"),
                    selection=Selection.read(record),
                    declarations=integer(record, "declarations"),
                    messages_per_second=integer(record, "messages_per_second"),
                    bytes_per_second=integer(record, "bytes_per_second"),
                    close_after_ns=None if close_after_ms is None else close_after_ms * _MS_NS,
                )
            )
        return found


class Bucket:
    """So many per second, told the time.

    Example:
        >>> bucket = Bucket(10, now_ns=0)
        >>> bucket.take(10, 0), bucket.take(5, 0), bucket.wait_ns(0)
        (True, False, 500000000)
        >>> bucket.wait_ns(500_000_000)
        0
    """

    __slots__ = ("_level", "_now_ns", "_rate")

    def __init__(self, rate: int, now_ns: int) -> None:
        self._rate = rate
        self._level = rate * _SECOND_NS  # in parts of 1e-9, so that nothing is rounded
        self._now_ns = now_ns

    def take(self, count: int, now_ns: int) -> bool:
        """Take some out; False if there was less."""
        self._fill(now_ns)
        self._level -= count * _SECOND_NS
        return self._level >= 0

    def wait_ns(self, now_ns: int) -> int:
        """How long until it is not below empty."""
        self._fill(now_ns)
        return 0 if self._level >= 0 else -(self._level // max(self._rate, 1))

    def full_ns(self, now_ns: int) -> int:
        """How long until it is full, if nothing is taken."""
        self._fill(now_ns)
        missing = self._rate * _SECOND_NS - self._level
        return -(-missing // max(self._rate, 1))

    def _fill(self, now_ns: int) -> None:
        gained = max(now_ns - self._now_ns, 0) * self._rate
        self._level = min(self._level + gained, self._rate * _SECOND_NS)
        self._now_ns = max(now_ns, self._now_ns)


class Account:
    """What one identity has used, over all its faces.

    `over_since_ns` is when it began to send more than it may.
    """

    __slots__ = ("_bytes", "_messages", "faces", "key", "over_since_ns", "quota")

    def __init__(self, quota: Quota, now_ns: int, name: str = "") -> None:
        self.quota = quota
        self.key: AccountKey = (quota.id, name)
        self.faces: set[int] = set()
        self.over_since_ns: int | None = None
        rate = quota.messages_per_second
        self._messages = None if rate is None else Bucket(rate, now_ns)
        rate = quota.bytes_per_second
        self._bytes = None if rate is None else Bucket(rate, now_ns)

    def spend(self, length: int, now_ns: int) -> bool:
        """A message of so many octets came; False if that was more than it may send."""
        buckets = ((self._messages, 1), (self._bytes, length))
        within = [bucket.take(count, now_ns) for bucket, count in buckets if bucket is not None]
        if all(within):
            return True
        if self.over_since_ns is None:
            self.over_since_ns = now_ns
        return False

    def wait_ns(self, now_ns: int) -> int:
        """How long it must not be read."""
        buckets = [one for one in (self._messages, self._bytes) if one is not None]
        if self.debt_ns(now_ns) == 0:
            self.over_since_ns = None
        return max((one.wait_ns(now_ns) for one in buckets), default=0)

    def debt_ns(self, now_ns: int) -> int:
        """How long until it is as it was in the beginning."""
        buckets = [one for one in (self._messages, self._bytes) if one is not None]
        return max((one.full_ns(now_ns) for one in buckets), default=0)

    def is_overdue(self, now_ns: int) -> bool:
        """Whether it has sent too much for too long."""
        after_ns = self.quota.close_after_ns
        since_ns = self.over_since_ns
        return after_ns is not None and since_ns is not None and now_ns - since_ns >= after_ns
