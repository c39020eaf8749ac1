"""How long an answer takes, and how long to wait for one before asking again (11.3)."""

from __future__ import annotations

from typing import Final

_MS: Final = 1_000_000
RTT_FIRST_NS: Final = 50 * _MS  # until something was measured
RTO_FIRST_NS: Final = 200 * _MS
RTO_MIN_NS: Final = 10 * _MS
RTO_MAX_NS: Final = 2_000 * _MS


class RoundTrip:
    """Averages of one session, from its Pings."""

    __slots__ = ("_variation_ns", "rto_ns", "rtt_ns", "samples_count")

    def __init__(self) -> None:
        self.rtt_ns = RTT_FIRST_NS
        self.rto_ns = RTO_FIRST_NS
        self.samples_count = 0
        self._variation_ns = 0

    def sample(self, took_ns: int) -> None:
        """An answer came after so long."""
        if self.samples_count == 0:
            self.rtt_ns, self._variation_ns = took_ns, took_ns // 2
        else:
            off_ns = abs(took_ns - self.rtt_ns)
            self._variation_ns += (off_ns - self._variation_ns) // 4
            self.rtt_ns += (took_ns - self.rtt_ns) // 8
        self.samples_count += 1
        self.rto_ns = min(max(self.rtt_ns + 4 * self._variation_ns, RTO_MIN_NS), RTO_MAX_NS)
