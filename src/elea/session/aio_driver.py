"""A node on the caller's event loop: no thread, and nothing that waits without letting go."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final, Protocol

from elea.config.config import Config
from elea.config_file import in_environment
from elea.routing.refusals import Refused
from elea.session.ports import CallbackThread, Lock, NodePort
from elea.sim import current

_TICK_S: Final = 0.005


class LoopDriven(Protocol):
    """A driver whose waiting can be done in turns: `elea.link.driver.Driver`."""

    @property
    def lock(self) -> Lock: ...
    @property
    def node(self) -> NodePort: ...
    def now_ns(self) -> int: ...
    def wall_ns(self) -> int: ...
    def locators(self) -> tuple[str, ...]: ...
    def refusals(self) -> tuple[Refused, ...]: ...
    def flush(self) -> None: ...
    def hold_reading(self, held: bool) -> None: ...
    def start(self) -> None: ...
    def is_connected(self, deadline_ns: int) -> bool: ...
    def abort(self) -> None: ...
    def begin_close(self) -> None: ...
    def has_links(self) -> bool: ...
    def end_close(self) -> None: ...


class LoopDriver:
    """`elea.session.ports.DriverPort` for one thread: what would wait is left to coroutines."""

    callback_thread = CallbackThread.CALLER
    idle = None

    def __init__(self, driver: LoopDriven) -> None:
        self._driver = driver
        self.lock = driver.lock
        self.node = driver.node
        self.now_ns = driver.now_ns
        self.wall_ns = driver.wall_ns
        self.locators = driver.locators
        self.refusals = driver.refusals
        self.flush = driver.flush
        self.hold_reading = driver.hold_reading
        self.abort = driver.abort
        self.has_room: Callable[[], bool] | None = None  # a sample waits until it is so

    def wait_room(self, has_room: Callable[[], bool], deadline_ns: int) -> bool:
        """Say so; `room` waits."""
        self.has_room = has_room
        return False

    def relieve(self) -> bool:
        """There is one thread only."""
        return False

    def write_at_once(self) -> None:
        """Nothing to do: nobody goes on with a loop in a forked child."""

    def close(self, timeout_ns: int) -> None:
        """Begin; `closed` waits."""
        self._driver.begin_close()

    async def room(self, deadline_ns: int) -> None:
        """Wait until a sample that may not be dropped finds room."""
        has_room, self.has_room = self.has_room, None
        while has_room is not None and self.now_ns() < deadline_ns:
            with self.lock:
                if has_room():
                    return
            await asyncio.sleep(_TICK_S)

    async def closed(self, timeout_ns: int) -> None:
        """Wait until what was pending is written and links are closed."""
        deadline_ns = self.now_ns() + timeout_ns
        while self._driver.has_links() and self.now_ns() < deadline_ns:
            await asyncio.sleep(_TICK_S)
        self._driver.end_close()


async def open_loop_driver(config: Config) -> LoopDriver:
    """A node for this configuration on the running loop; raises as `open`."""
    place = current.place()
    if place is not None:
        simulated = place.make(config)
        simulated.post = asyncio.get_running_loop().call_soon_threadsafe
        return await _connected(simulated, simulated.node.settings.scouting_delay_ns)
    # Late: see `elea.session.runtime`.
    from elea.link.accounts import read_accounts
    from elea.link.asyncio_poller import AsyncioPoller
    from elea.link.authorizers import read_authorizer
    from elea.link.driver import Driver
    from elea.link.settings import LinkSettings
    from elea.node.node import Node
    from elea.node.settings import NodeSettings, limits_of

    config = in_environment(config)
    settings = NodeSettings.from_config(
        config, os.urandom, read_accounts(config), read_authorizer(config)
    )
    limits = limits_of(config)
    node = Node(settings, rng=os.urandom, limits=limits)
    links = LinkSettings.from_config(config, limits)
    driver = Driver(node, AsyncioPoller(), links, limits=limits)
    return await _connected(driver, settings.scouting_delay_ns)


async def _connected(driver: LoopDriven, delay_ns: int) -> LoopDriver:
    try:
        driver.start()
        deadline_ns = driver.now_ns() + delay_ns
        while not driver.is_connected(deadline_ns):
            await asyncio.sleep(_TICK_S)
    except BaseException:
        driver.begin_close()
        driver.end_close()
        raise
    return LoopDriver(driver)
