"""Which program of which world the caller belongs to; who opens a session asks here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from elea.sim.program import Place as Place

_PLACE: Final[ContextVar[Place | None]] = ContextVar("elea.sim.place", default=None)


def place() -> Place | None:
    """Where the caller is; None: in no world."""
    return _PLACE.get()


@contextmanager
def at(place: Place | None) -> Iterator[None]:
    """Be somewhere else for a while."""
    token = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(token)
