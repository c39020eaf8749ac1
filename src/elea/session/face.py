"""Face: a session's place in its node, and what all parts of a session's core share."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass

from elea.errors import ClosedError
from elea.session.deliver_hot import Inbox
from elea.session.outlet_hot import Outlet
from elea.session.ports import NodePort
from elea.wire.codec_hot import NetworkMessage
from elea.wire.fields_hot import QOS_DECLARE, Stamp, WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declare import Declare

SESSION_EID = 1  # the session itself; the entities it declares count on from here


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What a session takes from its configuration."""

    namespace: str = ""
    query_timeout_ns: int = 10_000_000_000
    timestamping: bool = False


class Face:
    """The local face. Everything here happens under the node's lock."""

    __slots__ = (
        "_ids",
        "_timers",
        "closed",
        "id",
        "inbox",
        "node",
        "now_ns",
        "prefix",
        "settings",
        "wall_ns",
    )

    def __init__(
        self,
        node: NodePort,
        inbox: Inbox,
        settings: SessionSettings,
        now_ns: Callable[[], int],
        wall_ns: Callable[[], int],
    ) -> None:
        self.node = node
        self.inbox = inbox
        self.settings = settings
        self.prefix = inbox.prefix
        self.now_ns = now_ns
        self.wall_ns = wall_ns
        self.closed = False
        self._ids = SESSION_EID
        self._timers = _Timers()
        self.id = node.attach(inbox)

    def new_id(self) -> int:
        """The next number of an entity, an interest or a request of this session."""
        self._ids += 1
        return self._ids

    def check_open(self) -> None:
        """Raise if the session is closed."""
        if self.closed:
            raise ClosedError("session closed")

    def send(self, message: NetworkMessage) -> int:
        """To the network, reliably."""
        return self.node.local_send(self.id, message, True, self.now_ns())

    def declare(self, body: Declaration) -> None:
        """To the network, as a DECLARE."""
        self.send(Declare(body, qos=QOS_DECLARE))

    def emit(self, outlet: Outlet, value: object) -> None:
        """To the application."""
        self.inbox.emit(outlet, value)

    def wire_key(self, key: str) -> WireExpr:
        """A key of the application as it travels."""
        return WireExpr(0, self.prefix + key)

    def own_key(self, key: WireExpr) -> str | None:
        """A key that travelled, as the application knows it; None outside of its namespace."""
        text = key.suffix
        if not self.prefix:
            return text
        return text[len(self.prefix) :] if text.startswith(self.prefix) else None

    def stamp(self) -> Stamp:
        """A new timestamp."""
        return self.node.timestamp(self.wall_ns())

    def call_at(self, when_ns: int, function: Callable[[], None]) -> Timer:
        """Have `function` called at a time, unless the timer is cancelled before."""
        self.node.set_timer()
        return self._timers.add(when_ns, function)

    def call_after(self, delay_ns: int, function: Callable[[], None]) -> Timer:
        """Have `function` called after a time."""
        return self.call_at(self.now_ns() + delay_ns, function)

    def next_timer_ns(self) -> int | None:
        """When the first timer runs out."""
        return self._timers.first_ns()

    def handle_timer(self, now_ns: int) -> None:
        """Call what has run out."""
        self._timers.run(now_ns)


class Timer:
    """A call that will be made."""

    __slots__ = ("function", "order", "when_ns")

    def __init__(self, when_ns: int, order: int, function: Callable[[], None]) -> None:
        self.when_ns = when_ns
        self.order = order
        self.function: Callable[[], None] | None = function

    def cancel(self) -> None:
        """Make it no more."""
        self.function = None

    def __lt__(self, other: Timer) -> bool:
        return (self.when_ns, self.order) < (other.when_ns, other.order)


class _Timers:
    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[Timer] = []
        self._count = 0

    def add(self, when_ns: int, function: Callable[[], None]) -> Timer:
        self._count += 1
        timer = Timer(when_ns, self._count, function)
        heapq.heappush(self._heap, timer)
        return timer

    def first_ns(self) -> int | None:
        heap = self._heap
        while heap and heap[0].function is None:
            heapq.heappop(heap)
        return heap[0].when_ns if heap else None

    def run(self, now_ns: int) -> None:
        heap = self._heap
        while heap and heap[0].when_ns <= now_ns:
            function = heapq.heappop(heap).function
            if function is not None:
                function()
