"""Discovery: how a node finds others by multicast, and is found. behaviour.md 1.12, 1.13, T11.

A peer asks for ever, in growing pauses; a client asks while it is connected to nobody. Whoever
asks for this node's role is told where it listens. When there is no network yet, or none any more,
it is tried again now and then: a node that cannot scout still works with its endpoints.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from elea.errors import ConfigError, LinkError
from elea.ids import WhatAmI, WhatAmIMatcher
from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.poller import Poller
from elea.link.scouting_socket import ScoutingDatagram, ScoutingSockets
from elea.link.settings import ScoutingSettings
from elea.link.shell import Shell
from elea.link.timers import Timer, Timers
from elea.node.ports import Teller, Told
from elea.records import dataclass
from elea.transport.scouting import PERIOD_MAX_NS, SECOND_NS, Responder, Scouter

OpenSockets = Callable[..., ScoutingSockets]

_REOPEN_NS: Final = 2 * SECOND_NS  # without a network; a client looks for 3 s
_LOG: Final = logging.getLogger("elea.link")


@dataclass(slots=True)
class DiscoveryStats:
    """What was asked, heard and left alone."""

    asked: int = 0  # questions, over all interfaces
    found: int = 0  # answers
    answered: int = 0
    unanswered: int = 0  # questions for others, and what is no question
    refused: int = 0  # questions from too far away, or too many of them


class Discovery:
    """Scouting of one node, on its poller.

    Args:
        settings: The group and whom to look for.
        zid: This node.
        whatami: Its role.
        poller: The loop it runs on.
        timers: Of that loop.
        clock: The monotonic time.
        locators: Where the node listens, for an asker on this host or for another.
        found: Told of nodes that answered.
        searching: Whether there is a reason to ask now.
        limits: The node's bounds.
        open_sockets: Gives the sockets.
    """

    def __init__(
        self,
        settings: ScoutingSettings,
        zid: bytes,
        whatami: WhatAmI,
        poller: Poller,
        timers: Timers,
        clock: Callable[[], int],
        *,
        locators: Callable[[bool], tuple[str, ...]],
        found: Callable[[Told], None],
        searching: Callable[[], bool],
        limits: Limits = DEFAULT_LIMITS,
        open_sockets: OpenSockets = ScoutingSockets,
    ) -> None:
        self.stats = DiscoveryStats()
        self._settings = settings
        self._zid = zid
        self._poller = poller
        self._timers = timers
        self._clock = clock
        self._locators = locators
        self._found = found
        self._searching = searching
        self._limits = limits
        self._open_sockets = open_sockets
        self._scouter = Scouter(settings.what, zid, clock(), limits=limits)
        self._responder = Responder(zid, whatami.index, limits=limits)
        self._sockets: ScoutingSockets | None = None
        self._problem = ""  # why there are no sockets
        self._timer: Timer | None = None
        self._closed = False
        self._open()

    def start(self) -> None:
        """Begin to ask and to answer."""
        self._poller.call_soon_threadsafe(self._tick)

    def ask_again(self) -> None:
        """Somebody was lost: ask soon, however long the pauses have become."""
        self._poller.call_soon_threadsafe(self._hurry)

    def close(self) -> None:
        """End it, on the poller."""
        self._closed = True
        self._poller.call_soon_threadsafe(self.abort)

    def abort(self) -> None:
        """Give up the descriptors, from the poller's thread or in a forked child."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._sockets is not None:
            self._sockets.close()
            self._sockets = None

    def nobody(self) -> str:
        """What to say when the search was in vain."""
        settings = self._settings
        where = f"could not ask: {self._problem}"
        if self._sockets is not None:
            where = f"asked {settings.address} on {self._sockets.shown()}"
        roles = WhatAmIMatcher.from_bits(settings.what)
        return (
            f"no {roles} was found within {settings.timeout_ns / 1e9:g} s: {where}; start one in"
            " this network, choose another scouting/multicast/interface, or give connect/endpoints"
        )

    def _open(self) -> None:
        settings = self._settings
        try:
            self._sockets = self._open_sockets(
                settings.address,
                interface=settings.interface,
                ttl=settings.ttl,
                listen=settings.listen,
                limits=self._limits,
            )
        except (LinkError, ConfigError) as error:  # perhaps the interface is not there yet
            if str(error) != self._problem:
                _LOG.warning("no scouting by multicast for now: %s", error)
            self._problem = str(error)
            return
        self._problem = ""
        self._sockets.start(self._poller, self._heard, self._clock)

    def _tick(self) -> None:
        if self._closed:
            return
        if self._sockets is None:
            self._open()
        now_ns = self._clock()
        due_ns = now_ns + (_REOPEN_NS if self._sockets is None else PERIOD_MAX_NS)
        if self._sockets is not None and self._settings.what and self._searching():
            question = self._scouter.handle_timer(now_ns)
            if question is not None:
                self._ask(self._sockets, question)
            due_ns = self._scouter.next_timer_ns()
        self._timer = self._timers.call_at(due_ns, self._tick)

    def _ask(self, sockets: ScoutingSockets, question: bytes) -> None:
        taken_count = sockets.ask(question)
        self.stats.asked += taken_count
        if not taken_count:  # addresses or interfaces have changed: look at them anew
            sockets.close()
            self._sockets = None
            self._problem = f"nothing could be sent to {self._settings.address}"

    def _hurry(self) -> None:
        now_ns = self._clock()
        if self._closed or self._timer is None or self._timer.at_ns <= now_ns + SECOND_NS:
            return
        self._scouter = Scouter(self._settings.what, self._zid, now_ns, limits=self._limits)
        self._timer.cancel()
        self._tick()

    def _heard(self, datagram: ScoutingDatagram, now_ns: int) -> None:
        if not (datagram.on_link or self._settings.ttl > 1):
            self.stats.refused += 1
        elif datagram.to_group:
            self._asked(datagram, now_ns)
        else:
            self._answered(datagram)

    def _asked(self, datagram: ScoutingDatagram, now_ns: int) -> None:
        refused = self._responder.refused
        answer = self._responder.receive(
            datagram.data, datagram.host, lambda: self._locators(datagram.loopback), now_ns
        )
        if answer is None:
            over = self._responder.refused - refused
            self.stats.refused += over
            self.stats.unanswered += 1 - over
        elif self._sockets is not None and self._sockets.answer(datagram, answer):
            self.stats.answered += 1

    def _answered(self, datagram: ScoutingDatagram) -> None:
        hello = self._scouter.receive(datagram.data)
        if hello is None:
            self.stats.unanswered += 1
            return
        self.stats.found += 1
        if hello.locators:
            teller = Teller.at(datagram.host, own_host=datagram.own_host)
            self._found(Told(hello.zid, hello.whatami, hello.locators, teller))


def discover(
    shell: Shell,
    settings: ScoutingSettings,
    locators: Callable[[bool], tuple[str, ...]],
    limits: Limits,
) -> Discovery:
    """Let a driver's node find others and be found."""
    node = shell.node

    def found(told: Told) -> None:
        with shell.lock:
            node.heard_of(told, shell.now_ns())
            shell.settle()

    def searching() -> bool:
        """Peers always look for more; a client is content with one."""
        with shell.lock:
            return node.whatami is not WhatAmI.CLIENT or not node.neighbours()

    return Discovery(
        settings,
        node.zid,
        node.whatami,
        shell.poller,
        shell.timers,
        shell.now_ns,
        locators=locators,
        found=found,
        searching=searching,
        limits=limits,
    )
