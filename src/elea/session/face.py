"""Face: a session's place in its node, and what all parts of a session's core share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from elea.errors import ClosedError, LocalProtocolError
from elea.records import dataclass
from elea.routing.id_space import ID_MAX, IdSpace
from elea.routing.timers import Timer as Timer
from elea.routing.timers import Timers
from elea.session.deliver import Inbox
from elea.session.outlet import Outlet
from elea.session.ports import NodePort
from elea.session.publication_qos import PublicationQos
from elea.wire.codec import NetworkMessage
from elea.wire.fields import QOS_DECLARE, Stamp, WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declare import Declare

SESSION_EID = 1  # the session itself; the entities it declares count on from here


_AS_ASKED: Final = PublicationQos()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """What a session takes from its configuration."""

    namespace: str = ""
    query_timeout_ns: int = 10_000_000_000
    timestamping: bool = False
    publication: PublicationQos = _AS_ASKED


class Face:
    """The local face. Everything here happens under the node's lock."""

    __slots__ = (
        "_id_holders",
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
        self._id_holders: list[Callable[[], Iterable[int]]] = []
        self._ids = IdSpace(self._ids_in_use, first=SESSION_EID + 1, last=SESSION_EID)
        self._timers = Timers()
        self.id = node.attach(inbox)

    def new_id(self) -> int:
        """The next number of an entity, an interest or a request of this session."""
        number = self._ids.take()
        if number is None:
            raise LocalProtocolError(f"all {ID_MAX} numbers of this session are in use")
        return number

    def keep_ids(self, in_use: Callable[[], Iterable[int]]) -> None:
        """Ask `in_use` for numbers that must not be given to anything else."""
        self._id_holders.append(in_use)

    def _ids_in_use(self) -> set[int]:
        return {number for in_use in self._id_holders for number in in_use()}

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
        return self._timers.add(when_ns, lambda _now_ns: function())

    def call_after(self, delay_ns: int, function: Callable[[], None]) -> Timer:
        """Have `function` called after a time."""
        return self.call_at(self.now_ns() + delay_ns, function)

    def next_timer_ns(self) -> int | None:
        """When the first timer runs out."""
        return self._timers.next_ns()

    def handle_timer(self, now_ns: int) -> None:
        """Call what has run out."""
        self._timers.fire(now_ns)
