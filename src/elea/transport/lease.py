"""Keep-alive and lease of one link. wire.md 5.7, behaviour.md 1.9, threat T07.

Each side promises, by its own lease, to be heard within that time. So this side sends KEEP_ALIVE
after a part of *its* lease without a batch, and gives a link up after the *peer's* lease without
one. The peer's word is clamped: a lease of 0 does not end a link, one of years does not keep it.
"""

from __future__ import annotations

from typing import Final

from elea.limits import Limits

KEEP_ALIVES_PER_LEASE: Final = 4
NS_PER_MS: Final = 1_000_000
_ALLOWANCE: Final = 20  # the part of a lease by which a keep-alive may be late


class Lease:
    """Both timers of one link.

    `steady` sends KEEP_ALIVE at fixed intervals, whatever else is sent: low latency wants it.
    `keep_alives` is how many of them fit into our lease.
    """

    __slots__ = ("_heard_ns", "_held", "_interval_ns", "_lease_ns", "_said_ns", "_steady")

    def __init__(
        self,
        *,
        own_ms: int,
        peer_ms: int,
        now_ns: int,
        limits: Limits,
        steady: bool = False,
        keep_alives: int = KEEP_ALIVES_PER_LEASE,
    ) -> None:
        self._interval_ns = max(own_ms * NS_PER_MS // keep_alives, NS_PER_MS)
        self._lease_ns = min(max(peer_ms * NS_PER_MS, limits.lease_min_ns), limits.lease_max_ns)
        self._heard_ns = now_ns
        self._said_ns = now_ns
        self._steady = steady
        self._held = False

    def heard(self, now_ns: int) -> None:
        """Something arrived on the link."""
        self._heard_ns = now_ns

    def said(self, now_ns: int) -> None:
        """A batch was given to the link."""
        if not self._steady:
            self._said_ns = now_ns

    def hold(self, held: bool, now_ns: int) -> None:
        """The link is not read, on purpose: nothing can be heard. Or it is read again."""
        self._held = held
        self._heard_ns = now_ns

    @property
    def interval_ns(self) -> int:
        """The longest silence of our own."""
        return self._interval_ns

    @property
    def expires_ns(self) -> int:
        """When the link is given up, if nothing arrives before."""
        return self._heard_ns + self._lease_ns

    @property
    def next_timer_ns(self) -> int:
        """The nearer of the two timers."""
        say_ns = self._said_ns + self._interval_ns
        return say_ns if self._held else min(say_ns, self._heard_ns + self._lease_ns)

    def expired(self, now_ns: int) -> bool:
        """Whether the peer was silent for longer than it may be."""
        return not self._held and now_ns >= self.expires_ns

    def is_silent(self, now_ns: int) -> bool:
        """Whether the peer let more than one keep-alive pass, with some allowance for its way."""
        silence_ns = now_ns - self._heard_ns
        patience_ns = self._lease_ns // KEEP_ALIVES_PER_LEASE + self._lease_ns // _ALLOWANCE
        return not self._held and silence_ns > patience_ns

    def keep_alive_due(self, now_ns: int) -> bool:
        """Whether to send KEEP_ALIVE; True once per interval."""
        if now_ns < self._said_ns + self._interval_ns:
            return False
        self._said_ns = now_ns
        return True
