"""Programs in a world: functions of the user that run as if each were a process of its own.

A program is ordinary code: `elea.open`, `recv()`, `time.sleep()`. It has a thread, but only one
thread of a world runs at a time: a program that waits gives its turn back, and gets it again when
what it waits for is there, in the world's time. So the same seed gives the same run.

    the world's thread    event, event, resume(program) ......................... event, event
    a program's thread                   |  put, put, recv: nothing there yet  |
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from elea.config.config import Config
from elea.node.settings import NodeSettings, limits_of
from elea.sim import clock, current
from elea.sim.driver import SECOND_NS, SimDriver
from elea.sim.loop import run_coroutine

if TYPE_CHECKING:
    from elea.sim.world import World

Main = Callable[[], object] | Callable[[], Awaitable[object]]


class Killed(BaseException):
    """Raised in a program whose process was killed, wherever it waits; it is not to be caught."""


class Place:
    """Where code of the user runs: a process with a name. What it opens are nodes of its world."""

    __slots__ = ("drivers", "name", "world")

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.drivers: list[SimDriver] = []

    def make(self, config: Config) -> SimDriver:
        """A node for this configuration, not started."""
        names = self.world.nodes
        name, count = self.name, 1
        while name in names:
            count += 1
            name = f"{self.name}.{count}"
        settings = NodeSettings.from_config(config, self.world.rng.randbytes)
        driver = names[name] = SimDriver(self.world, name, settings, limits_of(config))
        driver.place = self
        self.drivers = [one for one in self.drivers if one.alive]
        self.drivers.append(driver)
        return driver

    def open(self, config: Config) -> SimDriver:
        """A node for this configuration, connected as far as it must be.

        Raises:
            LinkError: it cannot connect although it must.
        """
        driver = self.make(config)
        try:
            driver.start()
            driver.wait_connected()
        except BaseException:
            driver.end_close()
            raise
        return driver

    @property
    def running(self) -> bool:
        """Whether none of its nodes stands still, as a paused process does."""
        return all(one.running or not one.alive for one in self.drivers)


class Program:
    """One function of the user in a world. `World.start` makes it.

    Attributes:
        done: Whether it has returned, raised or been killed.
        failure: What it raised.
    """

    def __init__(self, world: World, name: str, main: Main) -> None:
        self.place: Final = Place(world, name)
        self.done = False
        self.failure: BaseException | None = None
        self._world = world
        self._main = main
        self._killed = False
        self._ready: Callable[[], bool] = lambda: True
        self._until_ns: int | None = None
        self._turn = threading.Semaphore(0)
        self._over = threading.Semaphore(0)
        thread = threading.Thread(target=self._run, name=f"elea-sim-{name}", daemon=True)
        thread.start()

    @property
    def name(self) -> str:
        """The name of its process."""
        return self.place.name

    def is_due(self) -> bool:
        """Whether it has something to do."""
        if self.done or not self.place.running:
            return False
        late = self._until_ns is not None and self._world.now_ns >= self._until_ns
        return late or self._ready()

    def resume(self) -> None:
        """Give it a turn. By the world's thread."""
        self._turn.release()
        self._over.acquire()

    def kill(self) -> None:
        """Let its next turn be its end, wherever it waits. By the world's thread."""
        self._killed = True

    def wait(self, ready: Callable[[], bool], until_ns: int | None) -> bool:
        """Give the turn back until `ready`, or a time; whether it is. By the program's thread."""
        if not self._killed:
            self._ready = ready
            self._until_ns = until_ns
            if until_ns is not None:
                self._world.at(until_ns, lambda: None)
            self._over.release()
            self._turn.acquire()
        if self._killed:
            raise Killed(f"{self.name} was killed")
        return ready()

    def _run(self) -> None:
        self._turn.acquire()
        try:
            if not self._killed:
                with current.at(self.place), clock.virtual():
                    self._call()
        except Killed:
            pass
        except BaseException as error:
            self.failure = error
        finally:
            self.done = True
            self._over.release()

    def _call(self) -> None:
        if inspect.iscoroutinefunction(self._main):
            run_coroutine(self._world, self._main())
        else:
            self._main()


def sleep(world: World, duration_s: float) -> None:
    """Let the world go on for a while."""
    until_ns = world.now_ns + int(duration_s * SECOND_NS)
    world.at(until_ns, lambda: None)
    world.wait(lambda: world.now_ns >= until_ns, None)
