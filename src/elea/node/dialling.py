"""Dialling: what a node wants to be connected to, configured or learned, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from elea.ids import Rng, WhatAmI
from elea.limits import Limits
from elea.locator import Endpoint, Locator
from elea.node.autoconnect import Learned
from elea.node.connector import Connector, Phase
from elea.node.ports import Connect, ConnectFailed, Effect, Told
from elea.node.settings import EndpointGroups, NodeSettings
from elea.node.stats import NodeStats


class Dialling:
    """The connectors of a node, and which neighbours they have to do with.

    Args:
        settings: Of the node.
        ask: Takes what the driver shall do.
        rng: For the jitter of attempts.
        limits: How many learned nodes are tried at once.
        stats: Counts those that are not.
    """

    __slots__ = (
        "_ask",
        "_by_id",
        "_connected",
        "_last_id",
        "_learned",
        "_one_is_enough",
        "_rng",
        "_settings",
    )

    def __init__(
        self,
        settings: NodeSettings,
        ask: Callable[[Effect], None],
        rng: Rng,
        limits: Limits,
        stats: NodeStats,
    ) -> None:
        self._settings = settings
        self._ask = ask
        self._rng = rng
        self._one_is_enough = settings.whatami is WhatAmI.CLIENT
        self._learned = Learned(settings, rng, limits, stats)
        self._by_id: dict[int, Connector] = {}
        # The neighbours, each with the connectors that found it connected by another link.
        self._connected: dict[bytes, list[Connector]] = {}
        self._last_id = 0

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Connector]:
        return iter(self._by_id.values())

    def get(self, connector_id: int | None) -> Connector | None:
        """A connector, unless it was forgotten meanwhile."""
        return None if connector_id is None else self._by_id.get(connector_id)

    def start(self, now_ns: int) -> None:
        """Want what is configured."""
        for group in self._settings.connect:
            self._add(group, now_ns)
        if self._one_is_enough:  # the listed order counts
            for connector in list(self)[1:]:
                connector.rest()

    def configure(self, groups: EndpointGroups, now_ns: int) -> None:
        """Want these instead of what was configured; what is connected is left alone."""
        configured = [one for one in self if one.expected_zid is None]
        for connector in configured:
            if connector.endpoints not in groups:
                del self._by_id[connector.id]
        known = [one.endpoints for one in configured]
        for group in groups:
            if group not in known:
                connector = self._add(group, now_ns)
                if self._one_is_enough and self._connected:
                    connector.rest()
        self.handle_timer(now_ns)

    def _add(self, group: tuple[Endpoint, ...], now_ns: int) -> Connector:
        self._last_id += 1
        settings = self._settings
        added = self._by_id[self._last_id] = Connector(
            self._last_id,
            group,
            settings.retry,
            self._rng,
            now_ns,
            timeout_ns=settings.connect_timeout_ns,
        )
        return added

    def clear(self) -> None:
        """Want nothing any more."""
        self._by_id.clear()

    def hear(self, told: Told, now_ns: int) -> None:
        """Want a node that others told of, if it is one to connect to."""
        connector = self._learned.connector(told, list(self), self._last_id + 1, now_ns)
        if connector is not None:
            self._last_id += 1
            self._by_id[connector.id] = connector
            self.handle_timer(now_ns)

    def next_timer_ns(self) -> int | None:
        """When the next attempt is due."""
        due = [one.due_ns for one in self if one.phase is Phase.WAITING]
        return min(due, default=None)

    def handle_timer(self, now_ns: int) -> None:
        """Begin the attempts that are due."""
        for connector in self:
            if connector.phase is Phase.WAITING and connector.due_ns <= now_ns:
                self._try(connector)

    def failed(self, connector: Connector, reason: str, now_ns: int) -> None:
        """An attempt failed."""
        connector.failed(reason, now_ns)
        self._report(connector)
        if self._one_is_enough and not self._connected:
            for other in self._resting()[:1]:
                other.lost(now_ns)

    def connected(self, zid: bytes, connector: Connector | None) -> None:
        """A neighbour has a link, made by a connector or not; if one is enough, the others rest."""
        self._connected.setdefault(zid, [])
        if connector is not None:
            connector.connected()
        if self._one_is_enough:
            for other in self:
                if other is not connector and other.expected_zid is None:
                    other.rest()

    def found_connected(self, zid: bytes, connector: Connector | None) -> None:
        """A connector reached a neighbour that is connected: it rests until that one is lost."""
        if connector is not None:
            connector.connected()
            self._connected[zid].append(connector)

    def refuted(self, connector: Connector, remote: Locator, reason: str, now_ns: int) -> None:
        """Somebody else is where others told that a node was."""
        connector.refuted(remote, reason, now_ns)
        self._report(connector)

    def dropped(self, connector: Connector, reason: str, now_ns: int) -> None:
        """The link that a connector made is gone: the attempt failed, or the neighbour is lost."""
        if connector.id not in self._by_id:
            return
        if connector.phase is Phase.CONNECTED:
            connector.lost(now_ns)
        else:
            self.failed(connector, reason, now_ns)

    def lost(self, zid: bytes, now_ns: int) -> None:
        """A neighbour is gone that other connectors wanted, too."""
        for connector in self._connected.pop(zid):
            if connector.id in self._by_id:
                connector.lost(now_ns)
        for connector in self._resting():
            connector.lost(now_ns)

    def _resting(self) -> list[Connector]:
        return [one for one in self if one.phase is Phase.RESTING]

    def _try(self, connector: Connector) -> None:
        zid = connector.expected_zid
        if zid is not None and zid in self._connected:  # the other side was faster
            self.found_connected(zid, connector)
            return
        connector.trying()
        timeout_ns = self._settings.open_timeout_ns
        self._ask(Connect(connector.id, connector.endpoints, timeout_ns, connector.teller))

    def _report(self, connector: Connector) -> None:
        """Say why; a node that was told of is forgotten once it is given up."""
        self._ask(
            ConnectFailed(
                connector.id,
                connector.failure,
                connector.endpoints,
                is_news=connector.take_news(),
                is_learned=connector.expected_zid is not None,
                is_final=connector.phase is Phase.GIVEN_UP,
            )
        )
        if connector.expected_zid is not None and connector.phase is Phase.GIVEN_UP:
            self._by_id.pop(connector.id, None)
