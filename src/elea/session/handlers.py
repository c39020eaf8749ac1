"""Bounded hand-over of what arrives to the application: channels and callbacks.

Every handler has a bound and a policy for what does not fit:

    RingChannel    the oldest goes; counted
    FifoChannel    nothing goes while the application keeps reading: reading from the network is
                   held while a channel is over its capacity. A channel nobody reads keeps what
                   arrives up to a bound and then refuses the newest; counted
    Callback       as FifoChannel; one function is never called twice at the same time, and the
                   values come in order

A function that raises is logged by the logger `elea.session`; the next value is delivered to it.
"""

from __future__ import annotations

import dis
import logging
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Final, Generic, TypeVar, cast, final

from elea.errors import ClosedError
from elea.session import dispatch
from elea.session.deliver_hot import LANE_DIRECT, LANE_DUE, LANE_NOW
from elea.session.pressure import Pressure

T = TypeVar("T")
H = TypeVar("H")

DEFAULT_CAPACITY: Final = 256
OVERRUN_COUNT_MAX: Final = 65_536  # what a FIFO holds over its capacity: a few whole batches

_LOGGER: Final = logging.getLogger("elea.session")
_CLOSED: Final = "channel is empty and closed"
_FOR_ITER: Final = dis.opmap["FOR_ITER"]
_REFERENCES_OF_LOOP: Final = 3  # the loop's variable, ours, and the argument of getrefcount


class _End:
    """The last value of a handler."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "END"


END: Final = _End()


class Finishing:
    """A value that somebody waits for until it is dropped: a query."""

    __slots__ = ("__weakref__",)

    def drop(self) -> None:
        """Finish it."""
        raise AssertionError("a query knows how it is finished")


@final
class DefaultHandler(Generic[T]):
    """What is used when no handler is given: a `FifoChannel` of 256."""


class _Capacity(Generic[T]):
    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        if not isinstance(capacity, int):
            raise TypeError(f"capacity is an int, got {type(capacity).__name__}")
        if capacity < 0:
            raise OverflowError("can't convert negative int to unsigned")
        self.capacity = capacity


@final
class FifoChannel(_Capacity[T]):
    """A channel that keeps all, in order; a reader that is behind holds up the network."""


@final
class RingChannel(_Capacity[T]):
    """A channel that keeps the newest `capacity` values."""


@final
class Callback(Generic[T]):
    """A function called for each value, and one called after the last.

    Args:
        callback: Called with each value.
        drop: Called once, after the last value.
        indirect: Whether a thread of the session calls it. If not, whoever brings the value does:
            the thread that reads the network, or the one that called `put`.
    """

    __slots__ = ("callback", "drop", "indirect")

    def __init__(
        self,
        callback: Callable[[T], object],
        drop: Callable[[], object] | None = None,
        *,
        indirect: bool = True,
    ) -> None:
        self.callback = callback
        self.drop = drop
        self.indirect = indirect

    def __call__(self, arg: T, /) -> object:
        return self.callback(arg)


class Channel:
    """A bounded queue between the network and a `Handler`; an outlet that never waits."""

    __slots__ = (
        "_queue",
        "abandoned",
        "behind",
        "bound",
        "capacity",
        "dropped_count",
        "is_ring",
        "on_change",
        "pressure",
        "read_count",
        "stalled",
    )

    lane = LANE_DIRECT

    def __init__(self, capacity: int, *, is_ring: bool) -> None:
        self.capacity = max(capacity, 1)
        self.is_ring = is_ring
        self.bound = self.capacity if is_ring else self.capacity + OVERRUN_COUNT_MAX
        self.dropped_count = 0
        self.read_count = 0
        self.behind = False
        self.stalled = False
        self.abandoned = False
        self.pressure: Pressure | None = None  # who is told that it is behind
        self.on_change: Callable[[], None] | None = None  # told that something came
        self._queue: SimpleQueue[object] = SimpleQueue()

    def __len__(self) -> int:
        return self._queue.qsize()

    def accept(self, value: object) -> None:
        """Take a value, or END."""
        queue = self._queue
        if value is END:
            self._catch_up()
        elif self.abandoned:
            return
        elif queue.qsize() >= self.capacity and not self._make_room():
            self.dropped_count += 1
            return
        queue.put(value)
        if self.on_change is not None:
            self.on_change()

    def take(self, *, blocking: bool, timeout: float | None) -> object:
        """The next value, END if there is none any more.

        Raises:
            Empty: there is none now.
        """
        queue = self._queue
        try:
            value = queue.get_nowait()
        except Empty:
            if not blocking:
                raise
            dispatch.about_to_wait()
            value = self._wait(timeout)
        self.read_count += 1
        self.stalled = False
        if self.behind and queue.qsize() <= self.capacity // 2:
            self._catch_up()
        if value is END:
            queue.put(END)  # for the next who asks
        return value

    def _wait(self, timeout: float | None) -> object:
        idle = None if self.pressure is None else self.pressure.idle
        if idle is None:
            return self._queue.get(timeout=timeout)
        idle(lambda: not self._queue.empty(), timeout)
        return self._queue.get_nowait()

    def abandon(self) -> None:
        """Nobody can read it any more: keep nothing."""
        self.abandoned = True
        self._queue = SimpleQueue()
        self._catch_up()

    def _catch_up(self) -> None:
        if self.behind and self.pressure is not None:
            self.pressure.end(self)

    def _make_room(self) -> bool:
        """Whether one more is taken although the channel is full."""
        if self.is_ring:
            try:
                self._queue.get_nowait()
            except Empty:
                return True  # a reader was faster
            self.dropped_count += 1
            return True
        if not self.behind and not self.stalled and self.pressure is not None:
            self.pressure.begin(self)
        return not self.stalled and self._queue.qsize() < self.bound


class CallbackOutlet:
    """A function of the user as an outlet; whoever runs what is due calls `run`."""

    __slots__ = (
        "_callback",
        "_drop",
        "backlog",
        "behind",
        "dropped_count",
        "ended",
        "finished",
        "held",
        "lane",
        "pressure",
        "read_count",
        "stalled",
    )

    def __init__(self, callback: Callback[T]) -> None:
        self._callback = cast("Callable[[object], object]", callback.callback)
        self._drop = callback.drop
        self.lane = LANE_DUE if callback.indirect else LANE_NOW
        self.held = False  # a thread is held up in it
        self.backlog: deque[object] = deque()  # what came meanwhile
        self.dropped_count = 0
        self.read_count = 0
        self.behind = False
        self.stalled = False
        self.pressure: Pressure | None = None  # who is told that it is behind
        self.ended: Callable[[], None] | None = None  # told after the last call
        self.finished = False  # the last call has returned

    def accept(self, value: object) -> None:
        """Call the function now, in this thread."""
        self.run(value)

    def put_off(self, value: object) -> None:
        """Keep a value until the function returns; the newest go when there are too many."""
        if len(self.backlog) >= OVERRUN_COUNT_MAX and value is not END:
            if self.stalled or len(self.backlog) >= 2 * OVERRUN_COUNT_MAX:
                self.dropped_count += 1
                return
            if not self.behind and self.pressure is not None:
                self.pressure.begin(self)
        self.backlog.append(value)

    def run(self, value: object) -> None:
        """Call the function, or the one for the end."""
        self.read_count += 1
        try:
            if value is not END:
                self._callback(value)
                return
            if self._drop is not None:
                self._drop()
        except Exception:
            _LOGGER.exception("callback error")
        if value is END:
            self.finished = True
            if self.ended is not None:
                self.ended()

    def caught_up(self) -> None:
        """Nothing is put off any more."""
        self.stalled = False
        if self.behind and self.pressure is not None:
            self.pressure.end(self)


@final
class Handler(Generic[T]):
    """Access to what was received, for subscribers, queryables, queries and listeners.

    Iteration ends when the entity is undeclared, or the query finished, and all was read.
    """

    __slots__ = ("_channel", "_last")

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._last: weakref.ref[Finishing] | None = None

    def try_recv(self) -> T | None:
        """The next value, or None if there is none now.

        Raises:
            ClosedError: no more values will come.
        """
        try:
            value = self._channel.take(blocking=False, timeout=None)
        except Empty:
            return None
        return self._checked(value)

    def recv(self, timeout: float | None = None) -> T:
        """The next value; wait for it, at most `timeout` seconds if given.

        Raises:
            ClosedError: no more values will come.
            TimeoutError: none came in time.
        """
        try:
            value = self._channel.take(blocking=True, timeout=timeout)
        except Empty:
            raise TimeoutError(f"nothing was received in {timeout} s") from None
        return self._checked(value)

    def drain(self) -> list[T]:
        """All values that are there now, without waiting."""
        values: list[T] = []
        while True:
            try:
                value = self._channel.take(blocking=False, timeout=None)
            except Empty:
                return values
            if value is END:
                return values
            values.append(cast(T, value))

    @property
    def dropped_count(self) -> int:
        """How many values were given up because the channel was full."""
        return self._channel.dropped_count

    def __len__(self) -> int:
        return len(self._channel)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        if self._last is not None:
            self._finish_last(sys._getframe(1))
        value = self._channel.take(blocking=True, timeout=None)
        if value is END:
            raise StopIteration
        if isinstance(value, Finishing):
            self._last = weakref.ref(value)
        return cast(T, value)

    def _finish_last(self, caller: FrameType) -> None:
        """Finish the query of a `for` loop's last turn: its variable outlives its body.

        Only if that variable alone refers to it; `next()` called by name finishes nothing.
        """
        assert self._last is not None
        last = self._last()
        self._last = None
        in_loop = caller.f_code.co_code[caller.f_lasti] == _FOR_ITER
        if last is not None and in_loop and sys.getrefcount(last) <= _REFERENCES_OF_LOOP:
            last.drop()

    def __repr__(self) -> str:
        return "Handler"

    def __del__(self) -> None:
        channel: Channel | None = getattr(self, "_channel", None)
        if channel is not None:
            channel.abandon()

    @staticmethod
    def _checked(value: object) -> T:
        if value is END:
            raise ClosedError(_CLOSED)
        return cast(T, value)


BuiltinHandler = DefaultHandler[T] | FifoChannel[T] | RingChannel[T]
PythonCallback = Callable[[T], object]
PythonHandler = tuple[Callable[[T], object], H]
AnyHandler = (
    DefaultHandler[T]
    | FifoChannel[T]
    | RingChannel[T]
    | Callable[[T], object]
    | tuple[Callable[[T], object], object]
    | None
)


class Delivery(Generic[T]):
    """What an entity makes of the handler argument it was given."""

    __slots__ = ("handler", "in_background", "outlet")

    def __init__(self, handler: AnyHandler[T], pressure: Pressure | None = None) -> None:
        self.outlet: Channel | CallbackOutlet
        self.handler: object = None
        self.in_background = False  # the entity lives on although nobody refers to it
        if handler is None or isinstance(handler, DefaultHandler):
            handler = FifoChannel(DEFAULT_CAPACITY)
        if isinstance(handler, (FifoChannel, RingChannel)):
            channel = Channel(handler.capacity, is_ring=isinstance(handler, RingChannel))
            self.outlet = channel
            self.handler = Handler[T](channel)
        elif isinstance(handler, tuple):
            callback, self.handler = handler
            self.outlet = CallbackOutlet(_callback(callback))
        elif callable(handler):
            self.outlet = CallbackOutlet(_callback(handler))
            self.in_background = True
        else:
            raise ValueError(f"Invalid handler type {type(handler).__name__}")
        self.outlet.pressure = pressure


def _callback(function: Callable[[T], object]) -> Callback[T]:
    if isinstance(function, Callback):
        return function
    if not callable(function):
        raise ValueError(f"Invalid handler type {type(function).__name__}")
    return Callback(function)
