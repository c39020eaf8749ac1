"""Where to connect, and when to try again. behaviour.md 1.11.

One Connector per configured endpoint group. Attempts come at once, then after pauses that grow up
to a bound, with jitter so that a fleet does not come back in step (threat T30). A client wants one
neighbour: its connectors begin one after the other, and rest while one of them is connected.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Final

from elea.ids import Rng
from elea.locator import Endpoint
from elea.node.settings import RetrySettings

_JITTER: Final = 0.25  # of a pause is random; behaviour.md asks for the first retry after about 1 s


class Phase(Enum):
    """Where a connector is."""

    WAITING = "waiting"  # for its next attempt
    TRYING = "trying"  # a link is being made, or its handshake runs
    CONNECTED = "connected"
    GIVEN_UP = "given up"
    RESTING = "resting"  # another connector goes first, or has what all of them want


class Connector:
    """One endpoint group that shall be connected."""

    __slots__ = (
        "_deadline_ns",
        "_pause_ns",
        "_retry",
        "_rng",
        "due_ns",
        "endpoints",
        "failure",
        "id",
        "phase",
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
    ) -> None:
        self.id = id_
        self.endpoints = endpoints
        self.phase = Phase.WAITING
        self.due_ns = now_ns
        self.failure = "never tried"
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
        self._pause_ns = min(int(pause * self._retry.factor), self._retry.max_ns)
        share = int.from_bytes(self._rng(2), "little") / 65_536
        self.due_ns = now_ns + int(pause * (1 - _JITTER * share))
        if self._deadline_ns is not None and self.due_ns > self._deadline_ns:
            self.phase = Phase.GIVEN_UP
        else:
            self.phase = Phase.WAITING

    def lost(self, now_ns: int) -> None:
        """The link is gone, or it is this one's turn: try at once."""
        self.phase = Phase.WAITING
        self.due_ns = now_ns


def first_only(connectors: Iterable[Connector]) -> None:
    """Let a client begin with the endpoint that is listed first."""
    for connector in list(connectors)[1:]:
        connector.rest()


def next_turn(connectors: Iterable[Connector], now_ns: int) -> None:
    """One came to nothing: let the next that rests try."""
    for connector in connectors:
        if connector.phase is Phase.RESTING:
            connector.lost(now_ns)
            return


def all_rest(connectors: Iterable[Connector], chosen: Connector | None) -> None:
    """One has what all of them wanted."""
    for connector in connectors:
        if connector is not chosen:
            connector.rest()


def all_try(connectors: Iterable[Connector], now_ns: int) -> None:
    """What they had is lost: whoever rested tries again."""
    for connector in connectors:
        if connector.phase is Phase.RESTING:
            connector.lost(now_ns)
