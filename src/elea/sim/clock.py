"""The clock of a world for code that reads it with `time`: programs need not know where they run.

While a program runs, `time.sleep`, `time.time` and `time.monotonic` are looked up here. Who is in
no world gets the system's, as ever.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from elea.sim import current
from elea.sim.driver import EPOCH_NS, SECOND_NS

_SLEEP: Final = time.sleep
_MONOTONIC_NS: Final = time.monotonic_ns
_TIME_NS: Final = time.time_ns


def _sleep(secs: float, /) -> None:
    place = current.place()
    if place is None:
        _SLEEP(secs)
    else:
        place.world.sleep(secs)


def _monotonic_ns() -> int:
    place = current.place()
    return _MONOTONIC_NS() if place is None else place.world.now_ns


def _time_ns() -> int:
    place = current.place()
    return _TIME_NS() if place is None else EPOCH_NS + place.world.now_ns


_REPLACED: Final[dict[str, Callable[..., object]]] = {
    "sleep": _sleep,
    "monotonic_ns": _monotonic_ns,
    "monotonic": lambda: _monotonic_ns() / SECOND_NS,
    "perf_counter_ns": _monotonic_ns,
    "perf_counter": lambda: _monotonic_ns() / SECOND_NS,
    "time_ns": _time_ns,
    "time": lambda: _time_ns() / SECOND_NS,
}
_ORIGINAL: Final = {name: getattr(time, name) for name in _REPLACED}
_LOCK: Final = threading.Lock()
_users = 0


@contextmanager
def virtual() -> Iterator[None]:
    """While somebody is in here, `time` tells programs of worlds the time of their world."""
    global _users
    with _LOCK:
        _users += 1
        if _users == 1:
            _set(_REPLACED)
    try:
        yield
    finally:
        with _LOCK:
            _users -= 1
            if _users == 0:
                _set(_ORIGINAL)


def _set(functions: dict[str, Callable[..., object]]) -> None:
    for name, function in functions.items():
        setattr(time, name, function)
