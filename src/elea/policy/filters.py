"""Filters over samples, queries and replies, and `INTERCEPTORS`, the table of all interceptors.

A filter says how often, how large, with which QoS. Each is configured as in Eclipse Zenoh, by
neighbours (`Selection`), kinds of message and keys.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Final, Generic, Protocol, Self, TypeVar

from elea.config.config import Config
from elea.keyexpr.match import includes, intersects
from elea.policy.actions import Action, Flow, sizes
from elea.policy.identity import Identity, Selection
from elea.policy.interceptor import Denial, Interceptor, Reason, Stage, Step
from elea.policy.records import Record, identified, inner, text, texts
from elea.policy.rules import Rules
from elea.qos import CongestionControl, Priority, QoS
from elea.records import dataclass, replace
from elea.wire.codec import NetworkMessage
from elea.wire.network.push import Push
from elea.wire.network.request import Request

_SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What an item is about: whose messages, of which kind, which way."""

    id: str
    selection: Selection
    actions: frozenset[Action]
    flows: frozenset[Flow]

    @classmethod
    def read(cls, record: Record, default_id: str) -> Self:
        """The scope of an item of the configuration."""
        flows = texts(record, "flows")
        return cls(
            id=text(record, "id", default_id),
            selection=Selection.read(record),
            actions=frozenset(Action(name) for name in texts(record, "messages") or ()),
            flows=frozenset(Flow) if flows is None else frozenset(Flow(name) for name in flows),
        )

    def selects(self, identity: Identity, flow: Flow) -> bool:
        """Whether it is about a neighbour, one way."""
        return flow in self.flows and self.selection.matches(identity)


class Scoped(Protocol):
    """An item of a filter."""

    @property
    def scope(self) -> Scope:
        """What it is about."""


ItemT = TypeVar("ItemT", bound=Scoped)


class Filter(Interceptor, Stage, Generic[ItemT]):
    """All items of a list of the configuration, or those for one neighbour and direction."""

    __slots__ = ("items",)

    def __init__(self, items: Iterable[ItemT]) -> None:
        self.items = tuple(items)

    @classmethod
    @abstractmethod
    def read(cls, record: Record, default_id: str) -> ItemT:
        """Read an item of the configuration."""

    @classmethod
    def from_config(cls, config: Config) -> Self | None:
        """Read all items.

        Raises:
            ConfigError: an id is used twice.
        """
        [path] = cls.PATHS
        found = enumerate(identified(config, path) or ())
        items = [cls.read(record, f"{path}[{number}]") for number, record in found]
        return cls(items) if items else None

    def at(self, identity: Identity, flow: Flow) -> Self | None:
        """Return the items for a neighbour and direction, with what they remember."""
        found = [one for one in self.items if one.scope.selects(identity, flow)]
        return type(self)(found) if found else None


# Down-sampling: at most so often.


class Limiter(Step):
    """Lets one message pass in so many nanoseconds; None lets none pass."""

    __slots__ = ("_last_ns", "_period_ns")

    def __init__(self, period_ns: int | None) -> None:
        self._period_ns = period_ns
        self._last_ns: int | None = None

    def passes(self, now_ns: int) -> bool:
        """Whether a message may pass now; if so, the next one waits."""
        if self._period_ns is None:
            return False
        if self._last_ns is not None and now_ns - self._last_ns < self._period_ns:
            return False
        self._last_ns = now_ns
        return True

    def is_idle(self, now_ns: int) -> bool:
        """Whether it keeps nothing back, or everything: it has nothing to remember."""
        if self._period_ns is None or self._last_ns is None:
            return True
        return now_ns - self._last_ns >= self._period_ns

    def limit(self, length: int, now_ns: int) -> Denial | None:
        """Refuse a message that comes too soon."""
        return None if self.passes(now_ns) else _TOO_SOON

    def apply(
        self, message: NetworkMessage, reliable: bool, now_ns: int
    ) -> NetworkMessage | Denial:
        """Let a message pass if it does not come too soon."""
        return message if self.passes(now_ns) else _TOO_SOON


@dataclass(frozen=True, slots=True)
class RateItem:
    """One item of `downsampling`; the period of each rule in nanoseconds, None for never."""

    scope: Scope
    rules: tuple[tuple[str, int | None], ...]


class Downsampler:
    """An item at work for one neighbour, one way: one clock per rule, whatever the key."""

    __slots__ = ("_limiters", "item", "scope")

    def __init__(self, item: RateItem) -> None:
        self.item = item
        self.scope = item.scope
        self._limiters = [Limiter(period_ns) for _, period_ns in item.rules]

    def limiter(self, action: Action, key: str) -> Limiter | None:
        """What limits a message: the first rule whose key expression intersects its key."""
        if action in self.scope.actions:
            for (rule, _), limiter in zip(self.item.rules, self._limiters, strict=True):
                if intersects(rule, key):
                    return limiter
        return None

    def is_idle(self, now_ns: int) -> bool:
        """Whether no clock has anything to remember: a new one would decide the same."""
        return all(one.is_idle(now_ns) for one in self._limiters)


class Downsampling(Filter[Downsampler]):
    """The filter `downsampling`."""

    __slots__ = ()
    PATHS = ("downsampling",)
    LIMITS = True

    @classmethod
    def read(cls, record: Record, default_id: str) -> Downsampler:
        """Read an item of the configuration."""
        entries = record.get("rules")
        rules = []
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict):
                freq = entry["freq"]
                assert isinstance(freq, (int, float))  # the schema says so
                period_ns = int(_SECOND_NS / freq) if freq else None
                rules.append((text(entry, "key_expr"), period_ns))
        return Downsampler(RateItem(Scope.read(record, default_id), tuple(rules)))

    def renewed(self) -> Self:
        """Return the same items with clocks of their own."""
        return type(self)(Downsampler(one.item) for one in self.items)

    def is_idle(self, now_ns: int) -> bool:
        """Whether no clock has anything to remember."""
        return all(one.is_idle(now_ns) for one in self.items)

    def steps(self, action: Action, key: str, now_ns: int) -> Iterator[Step]:
        """Return what limits the rate of messages, at most one per item."""
        found = (one.limiter(action, key) for one in self.items)
        return (one for one in found if one is not None)


# Low pass: at most so large.


@dataclass(frozen=True, slots=True)
class SizeItem:
    """One item of `low_pass_filter`: payload and attachment together have at most `len_max`."""

    scope: Scope
    keys: tuple[str, ...]
    len_max: int

    def concerns(self, action: Action, key: str) -> bool:
        """Whether messages on `key` are bounded by it."""
        return action in self.scope.actions and any(includes(one, key) for one in self.keys)


class LowPass(Filter[SizeItem]):
    """The filter `low_pass_filter`."""

    __slots__ = ()
    PATHS = ("low_pass_filter",)
    LIMITS = True

    @classmethod
    def read(cls, record: Record, default_id: str) -> SizeItem:
        """Read an item of the configuration."""
        limit = record["size_limit"]
        assert isinstance(limit, int)  # the schema says so
        return SizeItem(Scope.read(record, default_id), texts(record, "key_exprs") or (), limit)

    def steps(self, action: Action, key: str, now_ns: int) -> Iterator[Step]:
        """Return the smallest bound, if there is one."""
        bounds = [one for one in self.items if one.concerns(action, key)]
        if bounds:
            least = min(bounds, key=lambda one: one.len_max)
            yield SizeBound(least.len_max, least.scope.id)


class SizeBound(Step):
    """Refuses messages that are longer than a bound."""

    __slots__ = ("_item_id", "_len_max")

    def __init__(self, len_max: int, item_id: str) -> None:
        self._len_max = len_max
        self._item_id = item_id

    def limit(self, length: int, now_ns: int) -> Denial | None:
        """Refuse a message that is too long."""
        if length <= self._len_max:
            return None
        why = f"{length} bytes, at most {self._len_max} pass"
        return Denial(Reason.LOW_PASS, self._item_id, why)


# QoS overwrite.


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a QoS: None leaves a part as it is; a number moves the priority."""

    priority: Priority | int | None = None
    congestion: CongestionControl | None = None
    express: bool | None = None

    @classmethod
    def read(cls, record: Record) -> Self:
        """The parts that a record names."""
        named = record.get("priority")
        priority: Priority | int | None = None
        if isinstance(named, str):
            priority = Priority[named.upper()]
        elif isinstance(named, int):
            priority = named
        congestion = text(record, "congestion_control")
        express = record.get("express")
        return cls(
            priority,
            CongestionControl[congestion.upper()] if congestion else None,
            express if isinstance(express, bool) else None,
        )

    def apply(self, octet: int) -> int:
        """The QoS octet after the change.

        Example:
            >>> hex(Change(Priority.REAL_TIME, CongestionControl.BLOCK, True).apply(0x05))
            '0x19'
        """
        qos = QoS.from_octet(octet)
        priority = self.priority
        if priority is not None:
            if not isinstance(priority, Priority):
                moved = qos.priority.value + priority
                priority = Priority(min(max(moved, Priority.MAX.value), Priority.MIN.value))
            qos = replace(qos, priority=priority)
        if self.congestion is not None:
            qos = replace(qos, congestion_control=self.congestion)
        if self.express is not None:
            qos = replace(qos, express=self.express)
        return qos.to_octet()


@dataclass(frozen=True, slots=True)
class QosItem:
    """One item of `qos/network`."""

    scope: Scope
    keys: tuple[str, ...] | None
    only: Change  # the QoS that a message must have
    reliable: bool | None
    len_min: int
    len_max: int | None
    change: Change

    def concerns(self, action: Action, key: str) -> bool:
        """Whether messages on `key` may be changed by it."""
        named = self.keys is None or any(includes(one, key) for one in self.keys)
        return named and action in self.scope.actions


class QosOverwrite(Filter[QosItem]):
    """The filter `qos/network`."""

    __slots__ = ()
    PATHS = ("qos/network",)

    @classmethod
    def read(cls, record: Record, default_id: str) -> QosItem:
        """Read an item of the configuration."""
        only = inner(record, "qos")
        reliability = text(only, "reliability")
        least, _, most = text(record, "payload_size", "..").partition("..")
        return QosItem(
            Scope.read(record, default_id),
            texts(record, "key_exprs"),
            Change.read(only),
            reliability == "reliable" if reliability else None,
            int(least or 0),
            int(most) if most else None,
            Change.read(inner(record, "overwrite")),
        )

    def steps(self, action: Action, key: str, now_ns: int) -> Iterator[Step]:
        """Return the changes that may be made."""
        return (QosStep(one) for one in self.items if one.concerns(action, key))


class QosStep(Step):
    """Changes the QoS of messages."""

    __slots__ = ("_item",)

    def __init__(self, item: QosItem) -> None:
        self._item = item

    def apply(self, message: NetworkMessage, reliable: bool, now_ns: int) -> NetworkMessage:
        """Return the message, with another QoS if its own and its size are those asked for."""
        item = self._item
        if item.reliable is not None and item.reliable != reliable:
            return message
        if item.only.apply(message.qos) != QoS.from_octet(message.qos).to_octet():
            return message
        length = sizes(message)[0]
        if length < item.len_min or (item.len_max is not None and length > item.len_max):
            return message
        return with_qos(message, item.change.apply(message.qos))


def with_qos(message: NetworkMessage, qos: int) -> NetworkMessage:
    """A message with another QoS; messages are shared, so it is another one."""
    if isinstance(message, Push):
        return Push(
            message.key,
            message.body,
            qos,
            message.timestamp,
            message.node_id,
            message.ts_stack,
            message.extras,
        )
    return replace(message, qos=qos) if isinstance(message, Request) else message


_TOO_SOON: Final = Denial(Reason.DOWNSAMPLING, None, "too soon")

# In the order in which messages meet them, which is Eclipse Zenoh's.
INTERCEPTORS: Final[tuple[type[Interceptor], ...]] = (Downsampling, Rules, QosOverwrite, LowPass)
FILTERS: Final = sorted(path for one in INTERCEPTORS if one is not Rules for path in one.PATHS)
