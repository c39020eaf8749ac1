"""AdvancedSubscriber: gets what was published before it came, and what it missed."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import count
from typing import Final, TypeVar, final, overload

from elea.errors import InvalidValueError
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.match import intersects
from elea.provenance import SampleKind
from elea.qos import Locality
from elea.query import ConsolidationMode, QueryTarget
from elea.records import dataclass
from elea.sample import Reply, Sample
from elea.session.advanced_config import HistoryConfig, RecoveryConfig
from elea.session.context import Context
from elea.session.core import SessionCore
from elea.session.deliver import Subscription
from elea.session.face import Timer
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
from elea.session.liveliness import Liveliness
from elea.session.outlet import END, Outlet
from elea.session.queries import Ask
from elea.session.recovery import Source, SourceId, Sources
from elea.session.subscriber import Subscriber
from elea.session.tokens import Watcher

T = TypeVar("T")

_QUESTION_NS: Final = 10_000_000_000


@dataclass(frozen=True, slots=True)
class Miss:
    """Samples of a publisher that are lost."""

    source: EntityGlobalId
    nb: int


class _Direct:
    """An outlet within the session itself: called under the lock."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[object], None]) -> None:
        self._function = function

    def accept(self, value: object) -> None:
        self._function(value)


class Reorderer:
    """Stands between a subscription and its handler. Everything happens under the lock."""

    def __init__(
        self,
        core: SessionCore,
        key: str,
        outlet: Outlet,
        history: HistoryConfig | None,
        recovery: RecoveryConfig | None,
    ) -> None:
        self._core = core
        self._face = core.face
        self._key = key
        self._outlet = outlet
        self._history = history
        self._recovery = recovery
        self._sources = Sources(
            self._deliver, self._missed, None if recovery is None else self._ask_missing
        )
        self._listeners: dict[int, Outlet] = {}
        self._listener_ids = count(1)
        self._beats: Subscription | None = None
        self._publishers: Watcher | None = None
        self._timer: Timer | None = None
        self._ended = False
        self.token_id: int | None = None

    def start(self, origin: Locality, *, detection: bool) -> Subscription:
        """Subscribe, and ask for what there is."""
        if self._history is not None:
            self._sources.asked(None)  # before the first live sample can come
        subscription = self._core.subscribe(self._key, _Direct(self._received), origin)
        publishers = f"{self._key}/@adv/pub/**"
        if self._history is not None:
            self._ask(f"{self._key}/@adv/**", self._history.parameters(), None, begun=True)
            if self._history.detect_late_publishers:
                self._publishers = self._core.tokens.watch(
                    publishers, _Direct(self._publisher_came), history=True
                )
        if self._recovery is not None and self._recovery.heartbeat:
            self._beats = self._core.subscribe(publishers, _Direct(self._heard_beat), origin)
        elif self._recovery is not None:
            self._arm(self._recovery.period_ns)
        if detection:
            zid = ZenohId(self._face.node.zid)
            own_key = f"{self._key}/@adv/sub/{zid}/{subscription.id}/_"
            self.token_id = self._core.tokens.declare(own_key)
        return subscription

    def listen(self, outlet: Outlet) -> int:
        """Tell of misses; the number ends it."""
        listener_id = next(self._listener_ids)
        self._listeners[listener_id] = outlet
        return listener_id

    def end_listener(self, listener_id: int) -> None:
        """Tell of misses no more."""
        outlet = self._listeners.pop(listener_id, None)
        if outlet is not None:
            self._face.emit(outlet, END)

    def _received(self, value: object) -> None:
        if value is END:
            self._end()
        elif isinstance(value, Sample):
            self._sources.received(value, self._face.now_ns(), is_live=True)

    def _deliver(self, sample: Sample) -> None:
        self._face.emit(self._outlet, sample)

    def _missed(self, source: EntityGlobalId, count: int) -> None:
        for outlet in self._listeners.values():
            self._face.emit(outlet, Miss(source, count))

    def _ask_missing(self, source: Source) -> None:
        """Everything of a source after what was delivered."""
        if isinstance(source.id, EntityGlobalId):
            key = f"{self._key}/@adv/*/{source.id.zid}/{source.id.eid}/**"
            self._ask(key, f"_sn={source.next_sn}..;_anyke", source)

    def _ask(
        self, key: str, parameters: str, source: Source | None, *, begun: bool = False
    ) -> None:
        if not begun:
            self._sources.asked(source)
        ask = Ask(
            key=key,
            parameters=parameters,
            target=QueryTarget.ALL,
            consolidation=ConsolidationMode.NONE,
            timeout_ns=_QUESTION_NS,
        )

        def answered(value: object) -> None:
            if value is END:
                self._sources.answered(source)
            elif isinstance(value, Reply) and isinstance(sample := value.result, Sample):
                if not intersects(self._key, sample.key_text):
                    return  # a cache may answer anything
                self._sources.received(sample, self._face.now_ns(), is_live=False)

        self._core.get(ask, _Direct(answered))

    def _publisher_came(self, value: object) -> None:
        if not isinstance(value, Sample) or value.kind is not SampleKind.PUT:
            return
        source_id = source_of(value.key_text)
        if source_id is not None and self._history is not None:
            source = self._sources.get(source_id, _key_of(value), self._face.now_ns())
            self._ask(value.key_text, self._history.parameters(), source)

    def _heard_beat(self, value: object) -> None:
        if not isinstance(value, Sample) or len(value.payload) != 4:
            return
        source_id = source_of(value.key_text)
        if not isinstance(source_id, EntityGlobalId):
            return
        source = self._sources.get(source_id, _key_of(value), self._face.now_ns())
        last_sn: int = struct.unpack("<I", value.payload.to_bytes())[0]
        ahead = (last_sn - source.next_sn) & 0xFFFF_FFFF
        if ahead < 1 << 31 and not source.question_count and not self._sources.history_count:
            first = "" if source.last_sn is None else str(source.next_sn)
            self._ask(value.key_text, f"_sn={first}..{last_sn};_anyke", source)

    def _arm(self, period_ns: int) -> None:
        def ask() -> None:
            if self._ended:
                return
            for source in self._sources.all():
                if not source.question_count:
                    self._ask_missing(source)
            self._arm(period_ns)

        self._timer = self._face.call_after(period_ns, ask)

    def _end(self) -> None:
        """The subscription is gone: end everything that hangs on it."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._beats is not None:
            self._core.unsubscribe(self._beats)
        if self._publishers is not None:
            self._core.tokens.unwatch(self._publishers)
        if self.token_id is not None:
            self._core.tokens.undeclare(self.token_id)
        for listener_id in list(self._listeners):
            self.end_listener(listener_id)
        self._face.emit(self._outlet, END)


def _key_of(sample: Sample) -> str:
    """The key of the publisher that says something on `KEY/@adv/pub/...`."""
    return sample.key_text.rpartition("/@adv/pub/")[0]


def source_of(key: str) -> SourceId | None:
    """Whose key `.../@adv/pub/<zid>/<eid>/...` is; None if it is nobody's."""
    _, found, rest = key.rpartition("/@adv/pub/")
    parts = rest.split("/")
    if not found or len(parts) < 2:
        return None
    try:
        zid = ZenohId.parse(parts[0])
        return zid if parts[1] == "uhlc" else EntityGlobalId(zid, EntityId(int(parts[1])))
    except (InvalidValueError, ValueError):
        return None


@final
class SampleMissListener(Listening[H_co]):
    """Is told of samples that are lost."""

    __slots__ = ("_id", "_reorderer")

    _kind = "sample-miss listener"

    def __init__(
        self, context: Context, delivery: Delivery[Miss], reorderer: Reorderer, id: int
    ) -> None:
        super().__init__(context, delivery)
        self._reorderer = reorderer
        self._id = id

    def _end(self) -> None:
        self._reorderer.end_listener(self._id)


@final
class AdvancedSubscriber(Listening[H_co]):
    """A subscriber that asks caches for history and for what it missed.

    See `declare_advanced_subscriber`.
    """

    __slots__ = ("_reorderer", "_subscription")

    _kind = "subscriber"

    def __init__(
        self,
        context: Context,
        delivery: Delivery[Sample],
        subscription: Subscription,
        reorderer: Reorderer,
    ) -> None:
        super().__init__(context, delivery)
        self._subscription = subscription
        self._reorderer = reorderer

    @property
    def id(self) -> EntityGlobalId:
        """Its identity."""
        self._check()
        return self._context.entity(self._subscription.id)

    @property
    def key_expr(self) -> KeyExpr:
        """The key it subscribes to."""
        self._check()
        return KeyExpr._trusted(self._subscription.key)

    @overload
    def sample_miss_listener(
        self, /, handler: BuiltinHandler[Miss] | None = None
    ) -> SampleMissListener[Handler[Miss]]: ...
    @overload
    def sample_miss_listener(self, /, handler: PythonHandler[Miss, H]) -> SampleMissListener[H]: ...
    @overload
    def sample_miss_listener(
        self, /, handler: PythonCallback[Miss]
    ) -> SampleMissListener[None]: ...
    def sample_miss_listener(
        self, /, handler: AnyHandler[Miss] = None
    ) -> SampleMissListener[object]:
        """Be told of samples that are lost; only publishers that number them can miss some."""
        self._check()
        delivery = Delivery(handler, self._context.pressure)
        reorderer = self._reorderer
        listener_id = self._context.call(lambda: reorderer.listen(delivery.outlet))
        return SampleMissListener(self._context, delivery, reorderer, listener_id)

    @overload
    def detect_publishers(
        self,
        /,
        handler: BuiltinHandler[Sample] | None = None,
        *,
        history: bool | None = None,
    ) -> Subscriber[Handler[Sample]]: ...
    @overload
    def detect_publishers(
        self, /, handler: PythonHandler[Sample, H], *, history: bool | None = None
    ) -> Subscriber[H]: ...
    @overload
    def detect_publishers(
        self, /, handler: PythonCallback[Sample], *, history: bool | None = None
    ) -> Subscriber[None]: ...
    def detect_publishers(
        self, /, handler: AnyHandler[Sample] = None, *, history: bool | None = None
    ) -> Subscriber[object]:
        """Watch matching publishers that declare themselves come and go."""
        self._check()
        key = f"{self._subscription.key}/@adv/pub/**"
        return Liveliness(self._context).watch(key, handler, history=history)

    def _end(self) -> None:
        self._context.core.unsubscribe(self._subscription)

    def _forget(self) -> None:
        del self._subscription, self._reorderer

    def __repr__(self) -> str:
        if self._gone:
            return "AdvancedSubscriber(undeclared)"
        return f"AdvancedSubscriber({self._subscription.key!r})"
