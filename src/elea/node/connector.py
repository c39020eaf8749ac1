"""Where to connect, and when to try again. behaviour.md 1.11.

One Connector per configured endpoint group, and one per node that others told of. Attempts come at
once, then after pauses that grow up to a bound, with full jitter so that a fleet does not come back
in step (threat T30). A node that was told of is tried once; one that was connected and got lost is
tried for a while, as it may have another address by now, and whoever told of it tells again. A
client wants one neighbour: its configured connectors begin one after the other, and rest while one
of them is connected.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from elea.ids import Rng
from elea.locator import Endpoint, Locator
from elea.node.ports import Teller
from elea.node.settings import RetrySettings

_LEARNED_RETRY_NS: Final = 30_000_000_000  # a network that is away longer is scouted anew
_JITTER: Final = 0.25  # of a pause is random; behaviour.md asks for the first retry after about 1 s


class Phase(Enum):
    """Where a connector is."""

    WAITING = "waiting"  # for its next attempt
    TRYING = "trying"  # a link is being made, or its handshake runs
    CONNECTED = "connected"
    GIVEN_UP = "given up"
    RESTING = "resting"  # another connector goes first, or has what all of them want


class Connector:
    """One node that shall be connected: the places where it may be.

    Args:
        id_: Of the connector.
        endpoints: Where it may be; all are tried at once.
        retry: The pauses between attempts.
        rng: For their jitter.
        now_ns: The time.
        timeout_ns: How long to try: -1 for ever, 0 once.
        expected_zid: Who it must be, if others told of it.
        teller: Where those are.
        head_start_ns: How long to leave it to the other side to connect.
    """

    __slots__ = (
        "_deadline_ns",
        "_head_start_ns",
        "_pause_ns",
        "_reported",
        "_retry",
        "_rng",
        "due_ns",
        "endpoints",
        "expected_zid",
        "failure",
        "id",
        "phase",
        "teller",
    )

    def __init__(
        self,
        id_: int,
        endpoints: tuple[Endpoint, ...],
        retry: RetrySettings,
        rng: Rng,
        now_ns: int,
        *,
        timeout_ns: int,
        expected_zid: bytes | None = None,
        teller: Teller | None = None,
        head_start_ns: int = 0,
    ) -> None:
        self.id = id_
        self.endpoints = endpoints
        self.phase = Phase.WAITING
        self.due_ns = now_ns + head_start_ns
        self.failure = "never tried"
        self.expected_zid = expected_zid
        self.teller = teller
        self._head_start_ns = head_start_ns
        self._reported: frozenset[str] | None = None  # the failure that was reported last
        self._retry = retry
        self._rng = rng
        self._pause_ns = retry.init_ns
        self._deadline_ns = None if timeout_ns < 0 else now_ns + timeout_ns

    def trying(self) -> None:
        """An attempt was started."""
        self.phase = Phase.TRYING

    def connected(self) -> None:
        """The attempt succeeded; from now on a loss is repaired for ever."""
        self.phase = Phase.CONNECTED
        self._reported = None
        self._pause_ns = self._retry.init_ns
        self._deadline_ns = None

    def rest(self) -> None:
        """Try nothing until `lost`; what is being tried comes to nothing."""
        self.phase = Phase.RESTING

    def failed(self, reason: str, now_ns: int) -> None:
        """The attempt failed: wait, or give up if the time is over."""
        self.failure = reason
        if self.phase is Phase.RESTING:
            return
        pause = self._pause_ns
        self._pause_ns = self._retry.pause_after(pause)
        share = int.from_bytes(self._rng(2), "little") / 65_536
        self.due_ns = now_ns + int(pause * (1 - _JITTER * share))
        if self._deadline_ns is not None and self.due_ns > self._deadline_ns:
            self.phase = Phase.GIVEN_UP
        else:
            self.phase = Phase.WAITING

    def take_news(self) -> bool:
        """Whether the failure is another one than the last time this was asked."""
        # Addresses that are tried at once fail in any order.
        reasons = frozenset(self.failure.split("; "))
        is_new, self._reported = reasons != self._reported, reasons
        return is_new

    def lost(self, now_ns: int) -> None:
        """The link is gone, or it is this one's turn: try at once."""
        self.phase = Phase.WAITING
        self.due_ns = now_ns + self._head_start_ns
        if self.expected_zid is not None:
            self._deadline_ns = now_ns + _LEARNED_RETRY_NS

    def refuted(self, remote: Locator, reason: str, now_ns: int) -> None:
        """Somebody else is at a place that others told of: try the rest, if there is one."""
        self.failure = reason
        self.endpoints = tuple(one for one in self.endpoints if one.locator() != remote)
        self.due_ns = now_ns
        self.phase = Phase.WAITING if self.endpoints else Phase.GIVEN_UP
