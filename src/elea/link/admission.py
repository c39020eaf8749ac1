"""Admission: how many may be in the middle of a handshake, in all and from one address (T09).

Who opens connections and stays silent pushes out his own oldest ones, and only then anybody else's;
nobody waits, and nothing is refused.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from elea.limits import DEFAULT_LIMITS, Limits
from elea.node.stats import NodeStats, Refusal
from elea.policy.addresses import bucket_of

OnEvicted = Callable[[str], None]


class Ticket:
    """One handshake. Whoever carries it on replaces `on_evicted`."""

    __slots__ = ("_admission", "bucket", "on_evicted", "source")

    def __init__(
        self, admission: Admission, source: str, bucket: str, on_evicted: OnEvicted
    ) -> None:
        self._admission = admission
        self.source = source
        self.bucket = bucket
        self.on_evicted = on_evicted

    @property
    def pending(self) -> bool:
        """Whether the handshake still goes on."""
        return self._admission.holds(self)

    def settle(self) -> None:
        """The handshake is over, one way or the other. Legal twice."""
        self._admission.settle(self)

    def fail(self) -> None:
        """The handshake came to nothing by itself."""
        self._admission.settle(self, failed=True)

    def evict(self, reason: str) -> None:
        """End the handshake, if it still goes on."""
        if self._admission.settle(self, failed=True):
            self.on_evicted(reason)


class Admission:
    """The handshakes that go on, oldest first.

    Example:
        >>> gone: list[str] = []
        >>> admission = Admission(Limits(accept_pending_per_address_count=1))
        >>> first = admission.admit("10.0.0.1", gone.append)
        >>> other = admission.admit("10.0.0.2", gone.append)
        >>> second = admission.admit("10.0.0.1", gone.append)
        >>> gone, first.pending, other.pending
        (['1 handshakes of 10.0.0.1 go on already'], False, True)
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, stats: NodeStats | None = None) -> None:
        self._limits = limits
        self.stats = stats or NodeStats()
        self._lock = threading.Lock()
        self._all: dict[Ticket, None] = {}  # dicts keep the order of arrival
        self._by_bucket: dict[str, dict[Ticket, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def admit(self, source: str, on_evicted: OnEvicted) -> Ticket:
        """Let someone in, and push out the oldest where there are too many.

        Args:
            source: an IP address, or any other text for schemes without.
            on_evicted: told why, if this one is pushed out later.
        """
        bucket = bucket_of(source)
        ticket = Ticket(self, source, bucket, on_evicted)
        per_address = self._limits.accept_pending_per_address_count
        evicted: list[tuple[Ticket, str]] = []
        with self._lock:
            own = self._by_bucket.setdefault(bucket, {})
            if len(own) >= per_address:
                reason = f"{per_address} handshakes of {bucket} go on already"
                evicted.append((next(iter(own)), reason))
            elif len(self._all) >= self._limits.accept_pending_count:
                reason = f"{self._limits.accept_pending_count} handshakes go on already"
                evicted.append((next(iter(self._all)), reason))
            for oldest, _ in evicted:
                self._remove(oldest)
                self.stats.refuse(Refusal.HANDSHAKE)
            self._all[ticket] = None
            self._by_bucket.setdefault(bucket, {})[ticket] = None
        for oldest, reason in evicted:
            oldest.on_evicted(reason)
        return ticket

    def holds(self, ticket: Ticket) -> bool:
        """Whether this handshake goes on."""
        return ticket in self._all

    def settle(self, ticket: Ticket, *, failed: bool = False) -> bool:
        """Whether it went on until now."""
        with self._lock:
            if ticket not in self._all:
                return False
            self._remove(ticket)
            if failed:
                self.stats.refuse(Refusal.HANDSHAKE)
            return True

    def _remove(self, ticket: Ticket) -> None:
        del self._all[ticket]
        own = self._by_bucket[ticket.bucket]
        del own[ticket]
        if not own:
            del self._by_bucket[ticket.bucket]
