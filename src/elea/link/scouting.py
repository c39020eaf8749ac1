"""A search for nodes by multicast: `elea.scout`. behaviour.md 1.13.

It is no node: it asks the group, again and again, and tells of everybody who answers, each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from elea.config.config import Config
from elea.ids import WhatAmI, WhatAmIMatcher, ZenohId
from elea.link.poller import SelectorPoller
from elea.link.scouting_socket import ScoutingDatagram, ScoutingSockets
from elea.link.settings import ScoutingSettings
from elea.link.timers import Timers
from elea.sample import Hello
from elea.transport.scouting import Scouter

_NOBODY: Final = b""  # who asks is no node; no answer is its own


class Search:
    """A search that goes on until it is stopped, on a thread of its own.

    Args:
        what: The roles that are looked for.
        settings: The group, and where to ask.
        found: Told of every answer, by that thread.

    Raises:
        LinkError: if no interface can be asked on.
        ConfigError: if a named interface does not exist.
    """

    def __init__(
        self, what: WhatAmIMatcher, settings: ScoutingSettings, found: Callable[[Hello], None]
    ) -> None:
        self._found = found
        self._stopped = False
        self._sockets = ScoutingSockets(
            settings.address, interface=settings.interface, ttl=settings.ttl, listen=False
        )
        self._scouter = Scouter(what.bits, _NOBODY, time.monotonic_ns())
        self._poller = SelectorPoller(name="elea-scout", on_fork=self._sockets.close)
        self._timers = Timers(self._poller)
        self._sockets.start(self._poller, self._heard)
        self._poller.call_soon_threadsafe(self._ask)

    def stop(self) -> None:
        """End it; nobody is told of after. Legal twice, and where it is told."""
        self._stopped = True
        self._sockets.close()
        self._poller.stop()

    def _ask(self) -> None:
        if self._stopped:
            return
        question = self._scouter.handle_timer(time.monotonic_ns())
        if question is not None:
            self._sockets.ask(question)
        self._timers.call_at(self._scouter.next_timer_ns(), self._ask)

    def _heard(self, datagram: ScoutingDatagram, now_ns: int) -> None:
        hello = self._scouter.receive(datagram.data)
        if hello is not None and not self._stopped:
            role = WhatAmI.from_index(hello.whatami)
            zid = ZenohId.from_bytes(hello.zid)
            self._found(Hello(whatami=role, zid=zid, locators=hello.locators or ()))


def start_scouting(what: WhatAmIMatcher, config: Config, found: Callable[[Hello], None]) -> Search:
    """Look for nodes where a configuration says; `scouting/multicast/enabled` does not matter.

    Raises:
        LinkError: if no interface can be asked on.
        ConfigError: if a named interface does not exist.
    """
    return Search(what, ScoutingSettings.from_config(config), found)
