"""scout(): look for nodes on the network."""

from __future__ import annotations

import weakref
from functools import partial
from typing import Final, Generic, Self, TypeVar, cast, final, overload

from elea.config.config import Config
from elea.errors import ClosedError
from elea.ids import WhatAmIMatcher
from elea.sample import Hello
from elea.session.convert import checked_or
from elea.session.dispatch import Dispatcher
from elea.session.handlers import (
    AnyHandler,
    BuiltinHandler,
    Delivery,
    H,
    Handler,
    PythonCallback,
    PythonHandler,
)
from elea.session.outlet import END, CallbackOutlet, DueQueue, OwnQueue
from elea.session.ports import CallbackThread, ScoutPort
from elea.session.runtime import start_scouting
from elea.session.settings import config_of

H_co = TypeVar("H_co", covariant=True)

_EVERYBODY: Final = WhatAmIMatcher.empty().router().peer().client()


class _Finder:
    """Hands what is found to the application; it knows no Scout, so that one can be dropped."""

    def __init__(self, delivery: Delivery[Hello]) -> None:
        self._outlet = delivery.outlet
        self._ended = False
        self._due = DueQueue()
        self._dispatcher = Dispatcher(
            self._due, DueQueue(), OwnQueue(), CallbackThread.SESSION, lambda: False
        )

    def found(self, hello: Hello) -> None:
        self._hand_over(hello)

    def end(self) -> None:
        if not self._ended:
            self._ended = True
            self._hand_over(END)
            self._dispatcher.close()

    def _hand_over(self, value: object) -> None:
        if isinstance(self._outlet, CallbackOutlet):
            self._due.put(self._outlet, value)
            self._dispatcher.deliver(on_io=False)
        else:
            self._outlet.accept(value)


@final
class Scout(Generic[H_co]):
    """A search for nodes that goes on until it is stopped, or nobody refers to it."""

    __slots__ = ("__weakref__", "_handler", "_stop", "_stopped")

    _handler: H_co

    def __init__(self, delivery: Delivery[Hello], finder: _Finder, search: ScoutPort) -> None:
        self._handler = cast(H_co, delivery.handler)
        self._stopped = False
        self._stop = partial(_stop, search, finder)
        if not delivery.in_background:
            weakref.finalize(self, self._stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object, **_kwargs: object) -> None:
        self.stop()

    @property
    def handler(self) -> H_co:
        """The handler that was given, or the `Handler` of its channel."""
        self._check()
        return self._handler

    def stop(self, /) -> None:
        """End the search."""
        self._check()
        self._stopped = True
        self._stop()

    def try_recv(self: Scout[Handler[Hello]], /) -> Hello | None:
        """The next node found, or None if there is none now."""
        return self.handler.try_recv()

    def recv(self: Scout[Handler[Hello]], /, timeout: float | None = None) -> Hello:
        """The next node found; wait for it."""
        return self.handler.recv() if timeout is None else self.handler.recv(timeout)

    def __iter__(self: Scout[Handler[Hello]]) -> Handler[Hello]:
        return iter(self.handler)

    def _check(self) -> None:
        if self._stopped:
            raise ClosedError("Stopped scout")


def _stop(search: ScoutPort, finder: _Finder) -> None:
    search.stop()
    finder.end()


@overload
def scout(
    handler: BuiltinHandler[Hello] | None = None,
    what: WhatAmIMatcher | str | None = None,
    config: Config | None = None,
) -> Scout[Handler[Hello]]: ...
@overload
def scout(
    handler: PythonHandler[Hello, H],
    what: WhatAmIMatcher | str | None = None,
    config: Config | None = None,
) -> Scout[H]: ...
@overload
def scout(
    handler: PythonCallback[Hello],
    what: WhatAmIMatcher | str | None = None,
    config: Config | None = None,
) -> Scout[None]: ...
def scout(
    handler: AnyHandler[Hello] = None,
    what: WhatAmIMatcher | str | None = None,
    config: Config | None = None,
) -> Scout[object]:
    """Look for nodes.

    Args:
        handler: What receives the nodes that are found.
        what: Their roles, such as "router|peer"; all if not given.
        config: Where to look: `scouting/multicast`.
    """
    if isinstance(what, str):
        what = WhatAmIMatcher(what)
    matcher = checked_or("what", what, WhatAmIMatcher, _EVERYBODY)
    delivery = Delivery(handler)
    finder = _Finder(delivery)
    search = start_scouting(matcher, config_of(config), finder.found)
    return Scout(delivery, finder, search)
