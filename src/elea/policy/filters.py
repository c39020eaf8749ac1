"""Filters over samples, queries and replies: how often, how large, with which QoS.

Each is configured as in Eclipse Zenoh, by neighbours (`Selection`), kinds of message and keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Self

from elea.config.config import Config
from elea.keyexpr.match_hot import includes, intersects
from elea.policy.actions import Action, Flow, sizes
from elea.policy.identity import Identity, Selection
from elea.policy.records import Record, inner, records, text, texts
from elea.qos import CongestionControl, Priority, QoS
from elea.records import dataclass
from elea.wire.codec_hot import NetworkMessage
from elea.wire.network.push_hot import Push
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


# Down-sampling: at most so often.


class Limiter:
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


@dataclass(frozen=True, slots=True)
class Downsampling:
    """One item of `downsampling`; the period of each rule in nanoseconds, None for never."""

    scope: Scope
    rules: tuple[tuple[str, int | None], ...]

    @classmethod
    def from_config(cls, config: Config) -> list[Self]:
        """All items."""
        found = []
        for number, record in enumerate(records(config, "downsampling") or ()):
            entries = record.get("rules")
            rules = []
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, dict):
                    freq = entry["freq"]
                    assert isinstance(freq, (int, float))  # the schema says so
                    period_ns = int(_SECOND_NS / freq) if freq else None
                    rules.append((text(entry, "key_expr"), period_ns))
            found.append(cls(Scope.read(record, f"downsampling[{number}]"), tuple(rules)))
        return found


class Downsampler:
    """An item at work for one neighbour, one way: one clock per rule, whatever the key."""

    __slots__ = ("_limiters", "item")

    def __init__(self, item: Downsampling) -> None:
        self.item = item
        self._limiters = [Limiter(period_ns) for _, period_ns in item.rules]

    def limiter(self, action: Action, key: str) -> Limiter | None:
        """What limits a message: the first rule whose key expression intersects its key."""
        if action in self.item.scope.actions:
            for (rule, _), limiter in zip(self.item.rules, self._limiters, strict=True):
                if intersects(rule, key):
                    return limiter
        return None

    def is_idle(self, now_ns: int) -> bool:
        """Whether no clock has anything to remember: a new one would decide the same."""
        return all(one.is_idle(now_ns) for one in self._limiters)


# Low pass: at most so large.


@dataclass(frozen=True, slots=True)
class LowPass:
    """One item of `low_pass_filter`: payload and attachment together have at most `len_max`."""

    scope: Scope
    keys: tuple[str, ...]
    len_max: int

    @classmethod
    def from_config(cls, config: Config) -> list[Self]:
        """All items."""
        found = []
        for number, record in enumerate(records(config, "low_pass_filter") or ()):
            limit = record["size_limit"]
            assert isinstance(limit, int)  # the schema says so
            scope = Scope.read(record, f"low_pass_filter[{number}]")
            found.append(cls(scope, texts(record, "key_exprs") or (), limit))
        return found

    def concerns(self, action: Action, key: str) -> bool:
        """Whether messages on `key` are bounded by it."""
        return action in self.scope.actions and any(includes(one, key) for one in self.keys)


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
class Overwrite:
    """One item of `qos/network`."""

    scope: Scope
    keys: tuple[str, ...] | None
    only: Change  # the QoS that a message must have
    reliable: bool | None
    len_min: int
    len_max: int | None
    change: Change

    @classmethod
    def from_config(cls, config: Config) -> list[Self]:
        """All items."""
        found = []
        for number, record in enumerate(records(config, "qos/network") or ()):
            only = inner(record, "qos")
            reliability = text(only, "reliability")
            least, _, most = text(record, "payload_size", "..").partition("..")
            found.append(
                cls(
                    Scope.read(record, f"qos/network[{number}]"),
                    texts(record, "key_exprs"),
                    Change.read(only),
                    reliability == "reliable" if reliability else None,
                    int(least or 0),
                    int(most) if most else None,
                    Change.read(inner(record, "overwrite")),
                )
            )
        return found

    def concerns(self, action: Action, key: str) -> bool:
        """Whether messages on `key` may be changed by it."""
        named = self.keys is None or any(includes(one, key) for one in self.keys)
        return named and action in self.scope.actions

    def apply(self, message: NetworkMessage, reliable: bool) -> NetworkMessage:
        """The message, with another QoS if its own and its size are those asked for."""
        if self.reliable is not None and self.reliable != reliable:
            return message
        if self.only.apply(message.qos) != QoS.from_octet(message.qos).to_octet():
            return message
        length = sizes(message)[0]
        if length < self.len_min or (self.len_max is not None and length > self.len_max):
            return message
        return with_qos(message, self.change.apply(message.qos))


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
