"""From a PUSH to the handlers of matching subscribers: the hot path of a session, both ways.

`Inbox` is what a node sees of a session. A sample goes straight into a channel, or, if a function
of the user takes it, onto `due`: whoever releases the node's lock has it run. No user code runs
here. Samples come as octets of a frame where that is possible: of such a one only the `Sample` is
made, and where columns are wanted not even that.
"""

from __future__ import annotations

from typing import Final, Protocol

from elea.fast.egress import RawSink
from elea.fast.plain import PlainPush
from elea.keyexpr.keyexpr import KeyExpr
from elea.keyexpr.tree import KeyExprTree
from elea.lazy_sample import Sample
from elea.provenance import SampleKind, TimestampStack
from elea.session.outlet import CallbackOutlet, Channel, DueQueue, Outlet, OwnQueue, RowSink
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.network.push import Push
from elea.wire.shared_extensions import TimestampStack as WireStack

MATCHES_COUNT_MAX: Final = 4_096  # keys whose subscribers are remembered, per direction


class Subscription:
    """One declared subscriber."""

    __slots__ = ("id", "key", "outlet", "received_count", "rows")

    def __init__(self, id: int, key: str, outlet: Outlet) -> None:
        self.id = id
        self.key = key
        self.outlet = outlet
        self.rows: RowSink | None = None  # the outlet, if it takes samples as rows
        taker: object = outlet
        if isinstance(taker, RowSink):
            self.rows = taker
        self.received_count = 0


class MatchTable:
    """Subscribers by key, and a bounded memory of which keys reach which of them."""

    __slots__ = ("_cache", "_tree", "generation", "rows")

    def __init__(self) -> None:
        self._tree: KeyExprTree[list[Subscription]] = KeyExprTree()
        self._cache: dict[str, list[Subscription]] = {}
        self.generation = 0  # changes with the subscribers
        self.rows: list[RowSink] = []  # of those that take samples as rows

    def __len__(self) -> int:
        return len(self._tree)

    def add(self, subscription: Subscription) -> None:
        """Start to find it."""
        key = KeyExpr._trusted(subscription.key)
        there = self._tree.get(key)
        if there is None:
            self._tree.insert(key, [subscription])
        else:
            there.append(subscription)
        if subscription.rows is not None:
            self.rows.append(subscription.rows)
        self.generation += 1
        self._cache.clear()

    def remove(self, subscription: Subscription) -> None:
        """Find it no more."""
        there = self._tree.get(subscription.key)
        if there is None or subscription not in there:
            return
        there.remove(subscription)
        if not there:
            self._tree.remove(subscription.key)
        if subscription.rows is not None:
            self.rows.remove(subscription.rows)
        self.generation += 1
        self._cache.clear()

    def matching(self, key: str) -> list[Subscription]:
        """Those whose key intersects `key`. Not to be changed."""
        found = self._cache.get(key)
        if found is None:
            found = []
            for group in self._tree.intersecting(key):
                found.extend(group)
            if len(self._cache) >= MATCHES_COUNT_MAX:
                self._cache.clear()
            self._cache[key] = found
        return found


class Core(Protocol):
    """The rest of a session, for what is not hot."""

    def receive(self, message: object, reliable: bool) -> None: ...
    def neighbour(self, event: object) -> None: ...
    def next_timer_ns(self) -> int | None: ...
    def handle_timer(self, now_ns: int) -> None: ...
    def deliver(self) -> None: ...
    def read_stack(self, stack: WireStack) -> TimestampStack | None: ...


class Inbox(RawSink):
    """A session as its node sees it: `elea.session.ports.LocalSink`."""

    __slots__ = (
        "bringing",
        "core",
        "due",
        "due_now",
        "local",
        "nudged",
        "own",
        "prefix",
        "remote",
    )

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix  # of a namespace, with its slash; empty without one
        self.remote = MatchTable()  # subscribers that take samples of others
        self.local = MatchTable()  # subscribers that take samples of this session
        self.due = DueQueue()  # run by the session's threads
        self.due_now = DueQueue()  # run by the thread that read it, once the lock is released
        self.own = OwnQueue()  # run by the thread of the application that brought the value
        self.bringing = False  # a thread of the application is in a call of this session
        self.nudged = False  # something else than a delivery waits for the lock to be free
        self.core: Core | None = None

    def push(self, key: str, push: Push, reliable: bool) -> None:
        """A sample from outside, key resolved."""
        if self.prefix:
            if not key.startswith(self.prefix):
                return
            key = key[len(self.prefix) :]
        found = self.remote.matching(key)
        if found:
            self._hand_out(found, key, push)

    def push_local(self, key: str, push: Push) -> None:
        """A sample of this session itself, key as the application wrote it."""
        found = self.local.matching(key)
        if found:
            bringing = self.bringing
            self.bringing = True
            try:
                self._hand_out(found, key, push)
            finally:
                self.bringing = bringing

    def emit(self, outlet: Outlet, value: object) -> None:
        """Hand any value to any outlet, in order with what was handed to it before."""
        if isinstance(outlet, CallbackOutlet):
            if outlet.indirect:
                self.due.put(outlet, value)
            elif self.bringing:
                self.own.put(outlet, value)
            else:
                self.due_now.put(outlet, value)
        elif isinstance(outlet, Channel):
            outlet.accept(value)
        else:
            outlet.accept(value)

    def begin_frame(self) -> None:
        """Samples of one frame follow."""
        self.due.begin()
        self.due_now.begin()
        for rows in self.remote.rows:
            rows.begin()

    def end_frame(self) -> None:
        """That was the last one."""
        self.due.end()
        self.due_now.end()
        for rows in self.remote.rows:
            rows.end()

    def raw(self, key: str, plain: PlainPush) -> None:
        """A sample from outside, still where it was received."""
        if self.prefix:
            if not key.startswith(self.prefix):
                return
            key = key[len(self.prefix) :]
        found = self.remote.matching(key)
        if not found:
            return
        sample: Sample | None = None
        for subscription in found:
            subscription.received_count += 1
            rows = subscription.rows
            if rows is not None:
                rows.add(key, plain)
                continue
            if sample is None:
                sample = Sample(
                    key_expr=key,
                    payload=plain.payload(),
                    encoding=plain.encoding,
                    timestamp=plain.lazy_stamp(),
                    attachment=plain.attachment(),
                    source_info=plain.source(),
                    qos=plain.qos,
                )
            self.emit(subscription.outlet, sample)

    def _hand_out(self, found: list[Subscription], key: str, push: Push) -> None:
        stack: TimestampStack | None = None
        if push.ts_stack is not None and self.core is not None:
            stack = self.core.read_stack(push.ts_stack)
        sample = sample_of(key, push.body, push.qos, stack)
        for subscription in found:
            subscription.received_count += 1
            self.emit(subscription.outlet, sample)

    def receive(self, message: object, reliable: bool) -> None:
        """Anything but a PUSH."""
        if self.core is not None:
            self.core.receive(message, reliable)

    def neighbour(self, event: object) -> None:
        """A transport came or went."""
        if self.core is not None:
            self.core.neighbour(event)

    def next_timer_ns(self) -> int | None:
        """When the session wants to be woken."""
        return None if self.core is None else self.core.next_timer_ns()

    def handle_timer(self, now_ns: int) -> None:
        """Wake the session."""
        if self.core is not None:
            self.core.handle_timer(now_ns)

    def has_work(self) -> bool:
        """Whether something is due."""
        return len(self.due) > 0 or self.nudged or len(self.due_now) > 0 or len(self.own) > 0

    def deliver(self) -> None:
        """Run what is due; without the lock."""
        if self.core is not None and self.has_work():
            self.core.deliver()


def sample_of(key: str, body: Put | Del, qos: int, stack: TimestampStack | None) -> Sample:
    """The sample that a PUSH or a REPLY carries."""
    if isinstance(body, Put):
        return Sample(
            key_expr=key,
            payload=body.payload,
            encoding=body.encoding,
            timestamp=body.timestamp,
            attachment=body.attachment,
            source_info=body.source,
            timestamp_stack=stack,
            qos=qos,
        )
    return Sample(
        key_expr=key,
        kind=SampleKind.DELETE,
        timestamp=body.timestamp,
        attachment=body.attachment,
        source_info=body.source,
        timestamp_stack=stack,
        qos=qos,
    )
