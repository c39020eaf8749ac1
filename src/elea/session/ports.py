"""What a session needs of a node and of whoever drives it. Both are implemented below this layer.

Everything of a node happens under one lock, the driver's. A session's core is called under it and
collects deliveries; user code runs when it is released:

    caller's thread      with driver.lock: core.put(...)       then  driver.flush()
    I/O thread           with driver.lock: node.link_data(...) then  sink.deliver() of each session

`deliver` never blocks on user code for long: what is slow is taken over by another thread.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from elea.config.config import Config
from elea.fast.egress import Egress
from elea.ids import WhatAmI, WhatAmIMatcher
from elea.node.ports import CallbackThread as CallbackThread
from elea.node.ports import NeighbourDown, NeighbourUp
from elea.routing.push import PushSource
from elea.routing.refusals import Refused
from elea.sample import Hello
from elea.transport.stats import TransportStats
from elea.wire.codec import NetworkMessage
from elea.wire.fields import Stamp
from elea.wire.network.push import Push

# Waits until a condition holds, or so many seconds; whether it does.
Idle = Callable[[Callable[[], bool], float | None], bool]


class Lock(Protocol):
    """The node's lock. It is not reentrant: `acquire(False)` fails for its own holder too."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool: ...
    def release(self) -> None: ...
    def __enter__(self) -> bool: ...
    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...


class LocalSink(Protocol):
    """A session as its node sees it. Keys of messages are full texts: `WireExpr(0, text)`."""

    def push(self, key: str, push: Push, reliable: bool) -> None:
        """A sample for this session. Under the lock; runs no user code."""

    def receive(self, message: NetworkMessage, reliable: bool) -> None:
        """A Declare, Request, Response or ResponseFinal. Under the lock; runs no user code."""

    def neighbour(self, event: NeighbourUp | NeighbourDown) -> None:
        """A transport came or went. Under the lock; runs no user code."""

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` wants to be called: a query's deadline, a heartbeat."""

    def handle_timer(self, now_ns: int) -> None:
        """The time has come. Under the lock; runs no user code."""

    def deliver(self) -> None:
        """Run what became due. WITHOUT the lock; cheap if there is nothing."""


class NodePort(Protocol):
    """A node as its sessions see it. Under the lock."""

    @property
    def zid(self) -> bytes: ...
    @property
    def whatami(self) -> WhatAmI: ...
    @property
    def direct(self) -> Egress | None:
        """Where samples may go without a message; None if every message must be seen."""

    def set_timer(self) -> None:
        """This session may have set a nearer timer."""

    def push_source(self, face_id: int) -> PushSource | None:
        """The routes of what a session publishes."""

    def attach(self, sink: LocalSink) -> int:
        """A new local face; its id is returned."""

    def detach(self, face_id: int, now_ns: int) -> None:
        """The face is gone, with all its declarations."""

    def local_push(self, face_id: int, key: str, push: Push, reliable: bool, now_ns: int) -> int:
        """A sample of this session: SENT, DROPPED or QUEUED."""

    def local_send(self, face_id: int, message: NetworkMessage, reliable: bool, now_ns: int) -> int:
        """A Declare, Interest, Request, Response or ResponseFinal of this session."""

    def awaits(self, face_id: int, request_id: int, /) -> bool:
        """Whether somebody still waits for this session's answers to a request."""

    def asker(self, face_id: int, request_id: int, /) -> str:
        """The one who waits for this session's answers to a request, by what it has proven."""

    def neighbours(self) -> list[NeighbourUp]:
        """The transports there are, one entry per link."""

    def transport_stats(self) -> dict[bytes, TransportStats]:
        """What went through, and what did not, by neighbour."""

    def has_room(self, face_id: int, key: str, qos: int) -> bool:
        """Whether all who get a sample of this session would take it now."""

    def has_reply_room(self, face_id: int, request_id: int, qos: int) -> bool:
        """Whether whoever asked would take an answer of this session now."""

    def is_congested(self) -> bool:
        """Whether a message that may not be dropped waits for room, anywhere."""

    def timestamp(self, wall_ns: int) -> Stamp:
        """A new timestamp of the node's hybrid clock."""


class DriverPort(Protocol):
    """Whoever moves octets and tells the time."""

    @property
    def lock(self) -> Lock: ...
    @property
    def node(self) -> NodePort: ...
    @property
    def callback_thread(self) -> CallbackThread: ...
    @property
    def idle(self) -> Idle | None:
        """How to wait for something, at most so many seconds, where a waiting thread would hold
        up everything: in a simulation. None: threads wait as they like."""

    def now_ns(self) -> int:
        """Monotonic time."""

    def wall_ns(self) -> int:
        """Nanoseconds since 1970."""

    def locators(self) -> tuple[str, ...]:
        """Where others can reach the node."""

    def refusals(self) -> tuple[Refused, ...]:
        """Return what neighbours told that their access rules refused. Under the lock."""

    def flush(self) -> None:
        """Write what local calls left pending, or wake who does; re-arm the timer. No lock held."""

    def wait_room(self, has_room: Callable[[], bool], deadline_ns: int) -> bool:
        """Wait until `has_room`, asked under the lock; False at the deadline. No lock held."""

    def relieve(self) -> bool:
        """The I/O thread is held up by user code, somewhere in `deliver`: another takes its place
        at once, and it ends when it returns. Called by any thread; False: not possible."""

    def write_at_once(self) -> None:
        """Let no message wait for company: this process may end without a word. No lock held."""

    def hold_reading(self, held: bool) -> None:
        """Stop, or go on, reading from links: a reader of this process is behind. No lock held.
        A link that is not read does not expire."""

    def abort(self) -> None:
        """After a fork, in the child: give up the descriptors and tell nobody."""

    def close(self, timeout_ns: int) -> None:
        """Send what is pending within this time, close all links, end the threads. No lock held."""


class ScoutPort(Protocol):
    """A running search for nodes."""

    def stop(self) -> None:
        """End it; no Hello comes after."""


OpenDriver = Callable[[Config], DriverPort]
StartScouting = Callable[[WhatAmIMatcher, Config, Callable[[Hello], None]], ScoutPort]
