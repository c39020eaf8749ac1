"""SessionInfo: who a session is connected to, and listeners for changes of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar, final, overload

from elea.ids import WhatAmI, ZenohId
from elea.session.context import Context
from elea.session.convert import checked_or
from elea.session.handlers import (
    AnyHandler,
    BuiltinHandler,
    Delivery,
    H,
    Handler,
    PythonCallback,
    PythonHandler,
)
from elea.session.listeners import H_co, Listening
from elea.session.neighbours import Link, LinkEvent, Transport, TransportEvent
from elea.session.outlet import Outlet

if TYPE_CHECKING:
    from elea.session.refusals import Refusal
    from elea.session.spool import SpoolStats

T = TypeVar("T")


class _Declare(Protocol):
    def __call__(self, outlet: Outlet, *, history: bool) -> Callable[[], None]: ...


class _EventsListener(Listening[H_co]):
    __slots__ = ("_stop",)

    def __init__(self, context: Context, delivery: Delivery[T], stop: Callable[[], None]) -> None:
        super().__init__(context, delivery)
        self._stop = stop

    def _end(self) -> None:
        self._stop()

    def _forget(self) -> None:
        del self._stop


@final
class TransportEventsListener(_EventsListener[H_co]):
    """Is told of transports that are opened and closed."""

    __slots__ = ()

    _kind = "transport events listener"


@final
class LinkEventsListener(_EventsListener[H_co]):
    """Is told of links that are added and removed."""

    __slots__ = ()

    _kind = "link events listener"


@final
class SessionInfo:
    """Who a session is, and who it is connected to."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def zid(self, /) -> ZenohId:
        """The identity of the session's node."""
        return self._context.zid

    def routers_zid(self, /) -> list[ZenohId]:
        """The routers it is connected to."""
        neighbours = self._context.core.neighbours
        return self._context.read(lambda: neighbours.zids(WhatAmI.ROUTER))

    def peers_zid(self, /) -> list[ZenohId]:
        """The peers it is connected to."""
        neighbours = self._context.core.neighbours
        return self._context.read(lambda: neighbours.zids(WhatAmI.PEER))

    def transports(self, /) -> list[Transport]:
        """The transports that are open."""
        return self._context.read(self._context.core.neighbours.transports)

    def links(self, /) -> list[Link]:
        """The links that are open."""
        return self._context.read(self._context.core.neighbours.links)

    def stats(self) -> dict[ZenohId, dict[str, object]]:
        """Counters of every transport, by neighbour: what went through, what did not, and why.

        `missed_numbers` counts sequence numbers that never came: what a link lost on the way.
        """

        def read() -> dict[ZenohId, dict[str, object]]:
            face = self._context.core.face
            found = {} if face.closed else face.node.transport_stats()
            return {ZenohId(zid): stats.as_dict() for zid, stats in found.items()}

        return self._context.read(read)

    def spool_stats(self) -> SpoolStats | None:
        """What waits for a recorder, and what became of it; None if no spool is declared."""
        acks = self._context.acks
        spool = None if acks is None else acks.spool
        return None if spool is None else spool.stats()

    def refusals(self) -> list[Refusal]:
        """What the access rules of neighbours refused to this session's node so far.

        Nodes of Elea tell; others refuse in silence. The first 100 different ones are kept.
        """
        from elea.session.refusals import refusals_of  # late: few programs ask

        return refusals_of(self._context)

    @overload
    def declare_transport_events_listener(
        self,
        /,
        handler: BuiltinHandler[TransportEvent] | None = None,
        *,
        history: bool | None = None,
    ) -> TransportEventsListener[Handler[TransportEvent]]: ...
    @overload
    def declare_transport_events_listener(
        self, /, handler: PythonHandler[TransportEvent, H], *, history: bool | None = None
    ) -> TransportEventsListener[H]: ...
    @overload
    def declare_transport_events_listener(
        self, /, handler: PythonCallback[TransportEvent], *, history: bool | None = None
    ) -> TransportEventsListener[None]: ...
    def declare_transport_events_listener(
        self, /, handler: AnyHandler[TransportEvent] = None, *, history: bool | None = None
    ) -> TransportEventsListener[object]:
        """Be told of transports; with `history`, those that are open come first.

        Raises:
            ClosedError: the session is closed.
        """
        delivery = Delivery(handler, self._context.pressure)
        stop = self._listen(self._context.core.neighbours.listen_transports, delivery, history)
        return TransportEventsListener(self._context, delivery, stop)

    @overload
    def declare_link_events_listener(
        self,
        /,
        handler: BuiltinHandler[LinkEvent] | None = None,
        *,
        history: bool | None = None,
    ) -> LinkEventsListener[Handler[LinkEvent]]: ...
    @overload
    def declare_link_events_listener(
        self, /, handler: PythonHandler[LinkEvent, H], *, history: bool | None = None
    ) -> LinkEventsListener[H]: ...
    @overload
    def declare_link_events_listener(
        self, /, handler: PythonCallback[LinkEvent], *, history: bool | None = None
    ) -> LinkEventsListener[None]: ...
    def declare_link_events_listener(
        self, /, handler: AnyHandler[LinkEvent] = None, *, history: bool | None = None
    ) -> LinkEventsListener[object]:
        """Be told of links; with `history`, those that are open come first.

        Raises:
            ClosedError: the session is closed.
        """
        delivery = Delivery(handler, self._context.pressure)
        stop = self._listen(self._context.core.neighbours.listen_links, delivery, history)
        return LinkEventsListener(self._context, delivery, stop)

    def _listen(
        self, declare: _Declare, delivery: Delivery[T], history: bool | None
    ) -> Callable[[], None]:
        past = checked_or("history", history, bool, False)
        core = self._context.core

        def listen() -> Callable[[], None]:
            core.face.check_open()
            return declare(delivery.outlet, history=past)

        return self._context.call(listen)
