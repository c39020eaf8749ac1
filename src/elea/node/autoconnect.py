"""Whom to connect to, of the nodes that others told of. behaviour.md 1.13, 1.15.

A HELLO or gossip names a node and where it listens. What is said is the word of a stranger: only
that node is accepted there, and how many are tried at once is bounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from elea.errors import LocatorError
from elea.ids import Rng
from elea.limits import Limits
from elea.locator import Endpoint
from elea.node.connector import Connector, Phase
from elea.node.ports import Told
from elea.node.settings import NodeSettings
from elea.node.stats import NodeStats, Refusal

# Gossip reaches two nodes at the same time, and both would dial: the one with the lesser id gives
# the other this much time to do it.
_HEAD_START_NS: Final = 50_000_000


class Learned:
    """Makes the connectors to nodes that others told of, one per node.

    Args:
        settings: Of this node.
        rng: For the jitter of attempts.
        limits: How many nodes are tried at once, and how often one.
        stats: Counts those that are not.
    """

    __slots__ = ("_configured", "_limits", "_paid_ns", "_rng", "_settings", "_stats")

    def __init__(self, settings: NodeSettings, rng: Rng, limits: Limits, stats: NodeStats) -> None:
        self._settings = settings
        self._stats = stats
        self._paid_ns = 0  # when the budget of attempts is full again
        self._rng = rng
        self._limits = limits
        # Of places that are dialled anyway nobody needs to tell.
        self._configured = {one.locator() for group in settings.connect for one in group}

    def connector(
        self, told: Told, connectors: Sequence[Connector], id_: int, now_ns: int
    ) -> Connector | None:
        """A connector to a node that was told of, if it is to be connected to.

        Args:
            told: Who it is and where.
            connectors: All there are.
            id_: Of the new one.
            now_ns: The time.
        """
        settings = self._settings
        own = settings.zid
        chosen = settings.by_gossip if told.by_gossip else settings.by_scouting
        if told.zid == own or not chosen.chooses(own, told.zid, told.whatami):
            return None
        learned = [one for one in connectors if one.expected_zid is not None]
        busy_count = sum(one.phase is not Phase.CONNECTED for one in learned)
        if any(one.expected_zid == told.zid for one in learned):
            return None
        endpoints = self._endpoints(told.locators)
        if not endpoints:
            return None
        if busy_count >= self._limits.learned_count or not self._may_dial(now_ns):
            self._stats.refuse(Refusal.LEARNED)
            return None
        return Connector(
            id_,
            endpoints,
            settings.retry,
            self._rng,
            now_ns,
            timeout_ns=0,
            expected_zid=told.zid,
            teller=told.teller,
            head_start_ns=_HEAD_START_NS if told.by_gossip and own < told.zid else 0,
        )

    def _may_dial(self, now_ns: int) -> bool:
        """Whether the budget allows for one more, which is then taken from it."""
        step_ns = self._limits.learned_dial_ns
        paid_ns = max(self._paid_ns, now_ns)
        if paid_ns - now_ns > (self._limits.learned_dials_count - 1) * step_ns:
            return False
        self._paid_ns = paid_ns + step_ns
        return True

    def _endpoints(self, locators: Sequence[str]) -> tuple[Endpoint, ...]:
        found: dict[Endpoint, None] = {}
        for text in locators[: self._limits.locators_count]:
            try:
                endpoint = Endpoint.parse(text)
            except LocatorError:
                continue  # of a protocol that writes addresses in another way
            if endpoint.locator() not in self._configured:
                found[endpoint] = None
        return tuple(found)
