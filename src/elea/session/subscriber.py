"""Subscriber: receives the samples of matching keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from elea.ids import EntityGlobalId
from elea.keyexpr.keyexpr import KeyExpr
from elea.qos import Locality
from elea.records import dataclass
from elea.sample import Sample
from elea.session.context import Context
from elea.session.deliver import Subscription
from elea.session.handlers import Delivery
from elea.session.listeners import H_co, Listening
from elea.session.outlet import END
from elea.session.tokens import Watcher

if TYPE_CHECKING:
    from elea.session.since import HistoryStatus, IntoSince, Past


@dataclass(frozen=True, slots=True)
class SubscriberStats:
    """What a subscriber was given."""

    received_count: int
    dropped_count: int  # its channel was full


@final
class Subscriber(Listening[H_co]):
    """Receives samples, or the coming and going of liveliness tokens.

    Undeclared when nobody refers to it, unless a function receives: that goes on in the background.
    """

    __slots__ = ("_entity", "_past")

    _kind = "subscriber"

    def __init__(
        self,
        context: Context,
        delivery: Delivery[Sample],
        entity: Subscription | Watcher,
        past: Past | None = None,
    ) -> None:
        super().__init__(context, delivery)
        self._entity = entity
        self._past = past

    @property
    def id(self) -> EntityGlobalId:
        """Its identity."""
        self._check()
        return self._context.entity(self._entity.id)

    @property
    def key_expr(self) -> KeyExpr:
        """The key it subscribes to."""
        self._check()
        return KeyExpr._trusted(self._entity.key)

    @property
    def stats(self) -> SubscriberStats:
        """What it was given so far."""
        self._check()
        return SubscriberStats(self._entity.received_count, self.dropped_count)

    @property
    def history(self) -> HistoryStatus | None:
        """How far it is with what was published before; None if it was not asked for."""
        self._check()
        return None if self._past is None else self._context.read(self._past.status)

    def flush(self) -> None:
        """Have `ArrowBatches` hand over the rows there are, without waiting for more."""
        self._check()
        rows = self._entity.rows if isinstance(self._entity, Subscription) else None
        if rows is not None:
            self._context.call(rows.seal)

    def _end(self) -> None:
        core = self._context.core
        if isinstance(self._entity, Subscription):
            core.unsubscribe(self._entity)
        elif core.tokens.unwatch(self._entity):
            core.face.emit(self._entity.outlet, END)

    def _forget(self) -> None:
        del self._entity, self._past

    def __repr__(self) -> str:
        return "Subscriber(undeclared)" if self._gone else f"Subscriber({self._entity.key!r})"


def subscribe(
    context: Context,
    key: str,
    delivery: Delivery[Sample],
    origin: Locality,
    since: IntoSince | None,
) -> Subscriber[object]:
    """Declare a subscriber."""

    def declare() -> Subscriber[object]:
        if since is None:
            subscription = context.core.subscribe(key, delivery.outlet, origin)
            return Subscriber(context, delivery, subscription)
        from elea.session.since import Past  # late: few subscribers ask for history

        past = Past(context.core, key, delivery.outlet, since)
        return Subscriber(context, delivery, past.begin(origin), past)

    return context.call(declare)
