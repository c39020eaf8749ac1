"""Connector: from endpoints to the first link that works.

All addresses of all endpoints are tried at once; the first whose handshake is done wins and the
others are dropped. Names are looked up in helper threads, since the system's resolver blocks.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from elea.errors import ClosedError, ConfigError, EleaError, LinkError
from elea.link.address import Address, is_literal
from elea.link.base import Callback, Link, PendingLink, Scheme, Timed
from elea.link.learned import objection
from elea.link.poller import Poller
from elea.link.registry import Registry
from elea.link.settings import LinkSettings
from elea.link.timers import Timer, Timers
from elea.locator import Endpoint
from elea.node.ports import Teller
from elea.records import dataclass

_LOOKUPS_COUNT_MAX: Final = 4  # threads; a name service that hangs must not take them all


@dataclass(frozen=True, slots=True)
class Connected:
    """How an attempt succeeded."""

    link: Link
    endpoint: Endpoint
    address: Address


OnDone = Callable[[Connected | LinkError], None]
OnResolved = Callable[[list[Address] | LinkError], None]


class Resolver:
    """Looks names up without blocking the loop."""

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self._lock = threading.Lock()
        self._jobs: deque[Callable[[], None]] = deque()
        self._threads_count = 0

    def resolve(
        self, scheme: Scheme, endpoint: Endpoint, *, listening: bool, done: OnResolved
    ) -> None:
        """Tell, on the poller, where an endpoint leads or why nowhere."""

        def job() -> None:
            found = _resolved(scheme, endpoint, listening)
            try:
                self._poller.call_soon_threadsafe(lambda: done(found))
            except ClosedError:
                return  # nobody waits any more

        if _needs_no_service(endpoint):
            job()
            return
        with self._lock:
            self._jobs.append(job)
            if self._threads_count >= _LOOKUPS_COUNT_MAX:
                return
            self._threads_count += 1
        threading.Thread(target=self._work, name="elea-resolve", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._threads_count -= 1
                    return
                job = self._jobs.popleft()
            job()


class Connector:
    """Dials, for one node.

    Args:
        poller: the loop everything happens on.
        timers: of that loop.
        settings: of the node's links.
        registry: the schemes.
        clock: the monotonic time.
    """

    def __init__(
        self,
        poller: Poller,
        timers: Timers,
        settings: LinkSettings,
        registry: Registry,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.poller = poller
        self.timers = timers
        self.settings = settings
        self.registry = registry
        self.clock = clock
        self.resolver = Resolver(poller)

    def connect(
        self,
        endpoints: Sequence[Endpoint],
        *,
        timeout_ns: int,
        on_done: OnDone,
        teller: Teller | None = None,
    ) -> Attempt:
        """Try all endpoints at once.

        Args:
            endpoints: places of one and the same node.
            timeout_ns: for all of it: names, connection, handshake of the link.
            on_done: told once, on the poller: the link, or why there is none.
            teller: who told us of these endpoints; None if they were configured.
        """
        attempt = Attempt(self, endpoints, timeout_ns, on_done, teller)
        self.poller.call_soon_threadsafe(attempt.begin)
        return attempt


class Attempt:
    """One try at reaching a node. Everything happens on the poller."""

    def __init__(
        self,
        connector: Connector,
        endpoints: Sequence[Endpoint],
        timeout_ns: int,
        on_done: OnDone,
        teller: Teller | None,
    ) -> None:
        self._connector = connector
        self._endpoints = endpoints
        self._timeout_ns = timeout_ns
        self._on_done: OnDone | None = on_done  # None once it is over
        self._teller = teller
        self._timer: Timer | None = None
        self._lookups_count = 0
        self._dials: dict[_Dial, None] = {}
        self._tried: set[tuple[str, Address]] = set()
        self._errors: list[str] = []

    def cancel(self) -> None:
        """Drop everything and tell nothing. Legal at any time, from any thread."""
        self._on_done = None
        try:
            self._connector.poller.call_soon_threadsafe(self._clean_up)
        except ClosedError:
            self._clean_up()

    def begin(self) -> None:
        """Look up all names; called once."""
        if self._on_done is None:
            return
        due_ns = self._connector.clock() + self._timeout_ns
        self._timer = self._connector.timers.call_at(due_ns, self._late)
        self._lookups_count = len(self._endpoints)
        for endpoint in self._endpoints:
            self._look_up(endpoint)
        self._check_over()

    def _look_up(self, endpoint: Endpoint) -> None:
        try:
            scheme = self._connector.registry.scheme(
                endpoint.protocol, self._connector.settings.protocols
            )
        except EleaError as error:
            self._lookups_count -= 1
            self._errors.append(str(error))
            return

        def resolved(found: list[Address] | LinkError) -> None:
            if isinstance(found, LinkError):
                self._errors.append(str(found))
            else:
                for address in found:
                    self._dial(scheme, endpoint, address)
            # Only now: an address that fails at once must not end it before the others are tried.
            self._lookups_count -= 1
            self._check_over()

        self._connector.resolver.resolve(scheme, endpoint, listening=False, done=resolved)

    def _dial(self, scheme: Scheme, endpoint: Endpoint, address: Address) -> None:
        place = (endpoint.protocol, address)
        settings = self._connector.settings
        if self._on_done is None or place in self._tried:
            return
        if len(self._tried) >= settings.limits.link_addresses_count:
            self._errors.append(f"{address}: not tried, there are too many addresses")
            return
        self._tried.add(place)
        refusal = None if self._teller is None else objection(address, self._teller)
        if refusal is not None:
            self._errors.append(f"{address.locator(endpoint.protocol)}: not dialled: {refusal}")
            return
        try:
            pending = scheme.connect(endpoint, address, settings)
        except (LinkError, ConfigError) as error:
            self._errors.append(str(error))
            return
        dial = _Dial(self, pending, endpoint, address)
        self._dials[dial] = None
        dial.step()

    def succeeded(self, dial: _Dial, link: Link) -> None:
        """The first one wins."""
        self._dials.pop(dial, None)
        on_done, self._on_done = self._on_done, None
        self._clean_up()
        if on_done is None:
            link.close()
        else:
            on_done(Connected(link, dial.endpoint, dial.address))

    def failed(self, dial: _Dial, error: EleaError) -> None:
        """The others go on."""
        self._dials.pop(dial, None)
        self._errors.append(str(error))
        self._check_over()

    def _check_over(self) -> None:
        if not (self._dials or self._lookups_count):
            self._give_up("; ".join(self._errors) or "no endpoint was given")

    def _late(self) -> None:
        places = ", ".join(
            str(dial.address.locator(dial.endpoint.protocol)) for dial in self._dials
        )
        waiting = places or "the name service"
        late = f"no answer within {self._timeout_ns / 1e9:g} s from {waiting}"
        self._give_up("; ".join([late, *self._errors]))

    def _give_up(self, why: str) -> None:
        on_done, self._on_done = self._on_done, None
        self._clean_up()
        if on_done is not None:
            on_done(LinkError(why))

    def _clean_up(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for dial in list(self._dials):
            dial.drop()
        self._dials.clear()


class _Dial:
    """One address on the poller until there is a link."""

    __slots__ = ("_attempt", "_fd", "_pending", "address", "endpoint")

    def __init__(
        self, attempt: Attempt, pending: PendingLink, endpoint: Endpoint, address: Address
    ) -> None:
        self._attempt = attempt
        self._pending = pending
        self._fd = -1  # the descriptor that is watched
        self.endpoint = endpoint
        self.address = address
        if isinstance(pending, Timed):
            pending.use_timer(self._later)

    def _later(self, delay_ns: int, call: Callback) -> Timer:
        connector = self._attempt._connector
        return connector.timers.call_at(connector.clock() + delay_ns, call)

    def step(self) -> None:
        try:
            link = self._pending.step()
        except (LinkError, ConfigError) as error:  # a neighbour may tell of any options
            self.drop()
            self._attempt.failed(self, error)
            return
        if link is not None:
            self._stop_watching()
            self._attempt.succeeded(self, link)
            return
        poller = self._attempt._connector.poller
        if self._fd < 0:
            self._fd = self._pending.fileno()
            poller.register(self._fd, self.step, self.step, self._pending.wants())
        else:
            poller.modify(self._fd, self._pending.wants())

    def drop(self) -> None:
        self._stop_watching()
        self._pending.close()

    def _stop_watching(self) -> None:
        if self._fd >= 0:
            self._attempt._connector.poller.unregister(self._fd)
            self._fd = -1


def _needs_no_service(endpoint: Endpoint) -> bool:
    try:
        return is_literal(endpoint.host_port()[0])
    except ValueError:  # LocatorError: a path or a name within this process, or an error
        return True


def _resolved(scheme: Scheme, endpoint: Endpoint, listening: bool) -> list[Address] | LinkError:
    try:
        return scheme.resolve(endpoint, listening=listening)
    except LinkError as error:
        return error
    except Exception as error:  # a scheme of another package must not end the thread
        return LinkError(f"{endpoint.locator()}: {error}")
