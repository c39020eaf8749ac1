"""An event loop on the time of a world, for programs that are coroutines."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from elea.sim.driver import SECOND_NS

if TYPE_CHECKING:
    from elea.sim.world import World

_TICK_S: Final = 1e-6


class _HasFileno(Protocol):
    def fileno(self) -> int: ...


_File = int | _HasFileno


class WorldLoop(asyncio.SelectorEventLoop):
    """Runs callbacks and timers; while it has nothing to do, the world goes on.

    There are no descriptors in a world: transports and subprocesses do not work here.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._selector_of_world = _Selector(world)
        super().__init__(self._selector_of_world)

    def time(self) -> float:
        """The virtual monotonic time."""
        return self._world.now_ns / SECOND_NS

    def _write_to_self(self) -> None:
        """Wake the loop, from anywhere in the world: asyncio's own hook for it."""
        self._selector_of_world.woken = True


class _Selector(selectors.BaseSelector):
    """Nothing is ever ready; waiting lets the world go on."""

    def __init__(self, world: World) -> None:
        self.woken = False
        self._world = world
        self._keys: dict[_File, selectors.SelectorKey] = {}

    def register(self, fileobj: _File, events: int, data: object = None) -> selectors.SelectorKey:
        fd = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        key = self._keys[fileobj] = selectors.SelectorKey(fileobj, fd, events, data)
        return key

    def unregister(self, fileobj: _File) -> selectors.SelectorKey:
        return self._keys.pop(fileobj)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            # What is left of a time in seconds may be less than a nanosecond: it has to pass.
            limit = None if timeout is None else max(timeout, _TICK_S)
            self._world.wait(lambda: self.woken, limit)
        self.woken = False
        return []

    def get_map(self) -> Mapping[_File, selectors.SelectorKey]:
        return self._keys


def run_coroutine(world: World, coroutine: Coroutine[object, object, object]) -> None:
    """Run a coroutine to its end, on a loop of its own."""
    with asyncio.Runner(loop_factory=lambda: WorldLoop(world)) as runner:
        runner.run(coroutine)
