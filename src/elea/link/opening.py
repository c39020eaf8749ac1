"""Opening: when `open` may return, and why it may not. behaviour.md 1.11, 1.12.

A failure that `open` does not raise is logged, once for each reason: a router goes on without its
upstream, and its operator has to know.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from elea.errors import LinkError
from elea.ids import WhatAmI
from elea.link.discovery import Discovery
from elea.link.neighbour_log import log_neighbour
from elea.link.pump import PEER_CLOSED
from elea.node.neighbour import ConnectionState
from elea.node.node import Node
from elea.node.ports import ConnectFailed, NeighbourUp

_LOG: Final = logging.getLogger("elea.link")
_TICK_S: Final = 0.02  # declarations of a peer are no event of their own


class Opening:
    """How far a node is with what it has to connect to.

    Args:
        node: The node.
        lock: The lock it is called under.
        clock: The monotonic time.
        search_ns: How long a client that knows no endpoint looks for somebody.
        bound: Whether listeners need not be waited for; raises if one had to be bound and is not.
    """

    def __init__(
        self,
        node: Node,
        lock: threading.Lock,
        clock: Callable[[], int],
        search_ns: int,
        bound: Callable[[], bool] = lambda: True,
    ) -> None:
        self._bound = bound
        self._node = node
        self._lock = lock
        self._now_ns = clock
        self._search_end_ns = clock() + search_ns
        self._failures: dict[int, str] = {}  # by connector: why its last attempt failed
        self._ready = threading.Event()  # something came of an attempt to connect
        self._has_opened = False

    @property
    def must_find(self) -> bool:
        """Whether this is a client that knows no endpoint."""
        return self._node.whatami is WhatAmI.CLIENT and not self._node.settings.connect

    def noticed(self, event: NeighbourUp | ConnectFailed) -> None:
        """Something came of an attempt."""
        if isinstance(event, NeighbourUp):
            log_neighbour(event)
        else:
            self._failures[event.connector_id] = _reason(event)
            # What is retried may go on for ever, while `open` waits: that has to be seen, too.
            raises = self.must_find or (self._node.settings.exit_on_failure and event.is_final)
            if event.is_news and (self._has_opened or not raises):
                _log(event)
        self._ready.set()

    def wait(self, discovery: Discovery | None) -> None:
        """Wait until `open` may return.

        Raises:
            LinkError: if connecting is what was asked for and it failed.
        """
        deadline_ns = self._now_ns() + self._node.settings.scouting_delay_ns
        while not self.is_over(deadline_ns, discovery):
            self._ready.wait(_TICK_S)

    def is_over(self, deadline_ns: int, discovery: Discovery | None) -> bool:
        """Whether `open` may return now; raises as `wait`."""
        self._has_opened = self._has_opened or self._may_return(deadline_ns, discovery)
        return self._has_opened

    def _may_return(self, deadline_ns: int, discovery: Discovery | None) -> bool:
        if not self._bound():
            return False
        settings = self._node.settings
        with self._lock:
            state = self._node.connection_state()
            self._ready.clear()
        if state is ConnectionState.CONNECTED:
            return True
        if self.must_find:
            self._look(discovery)
            return False
        if state is ConnectionState.FAILED and settings.exit_on_failure:
            raise LinkError(f"cannot connect: {'; '.join(self._reasons())}")
        waits_for_ever = settings.exit_on_failure and settings.connect
        return not waits_for_ever and self._now_ns() >= deadline_ns

    def _look(self, discovery: Discovery | None) -> None:
        """Raises when a client cannot find anybody, or did not in time."""
        if discovery is None:
            raise LinkError(
                "cannot connect: a client has to be given connect/endpoints, or to find somebody"
                " by scouting/multicast, which is not enabled"
            )
        if self._now_ns() >= self._search_end_ns:
            reached = [f"not connected: {why}" for why in self._reasons()]
            raise LinkError("; ".join([discovery.nobody(), *reached]))

    def _reasons(self) -> list[str]:
        """Why attempts failed, each reason once: scouting may find a node several times."""
        return list(dict.fromkeys(self._failures.values()))


def _reason(failure: ConnectFailed) -> str:
    if failure.reason != PEER_CLOSED:
        return failure.reason
    if any(one.protocol == "tls" for one in failure.endpoints):
        # In TLS 1.3 a server looks at our certificate when our side of the handshake is done.
        return (
            "the peer closed the link in the handshake; most likely it does not accept our"
            " certificate, or needs one: its log tells more"
        )
    return (
        "the peer closed the link in the handshake; it may expect another scheme, as tls/, or be"
        " no Zenoh node: its log tells more"
    )


def _log(failure: ConnectFailed) -> None:
    places = ", ".join(str(one.locator()) for one in failure.endpoints)
    # Nodes that others told of come and go, and nobody asked for them by name.
    level = logging.DEBUG if failure.is_learned else logging.WARNING
    rest = "gave up" if failure.is_final else "retrying"
    _LOG.log(level, "cannot connect to %s: %s; %s", places, _reason(failure), rest)
