"""Bounded hand-over of what arrives to the application: channels and callbacks.

Every handler has a bound and a policy for what does not fit:

    RingChannel    the oldest goes; counted
    FifoChannel    nothing goes while the application keeps reading: reading from the network is
                   held while a channel is over its capacity. A channel nobody reads keeps what
                   arrives up to a bound and then refuses the newest; counted
    Callback       as FifoChannel; one function is never called twice at the same time, and the
                   values come in order

What a function raises is logged by the logger `elea.session`; the next value is delivered to it.
That holds for KeyboardInterrupt and SystemExit too, in threads of a session. A function that the
application's own thread calls (`indirect=False` and `put`, or an event loop) raises them there.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from opcode import opmap
from queue import Empty
from types import FrameType
from typing import Final, Generic, Self, TypeVar, cast, final

from elea.errors import ClosedError
from elea.session.outlet import END, CallbackOutlet, Channel, RowSink
from elea.session.pressure import Pressure

T = TypeVar("T")
H = TypeVar("H")

DEFAULT_CAPACITY: Final = 256
_CLOSED: Final = "channel is empty and closed"
_FOR_ITER: Final = opmap["FOR_ITER"]  # from where `dis` has it, which is slow to import
_REFERENCES_OF_LOOP: Final = 3  # the loop's variable, ours, and the argument of getrefcount


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


@final
class Handler(Generic[T]):
    """Access to what was received, for subscribers, queryables, queries and listeners.

    Iteration ends when the entity is undeclared, or the query finished, and all was read.
    """

    __slots__ = ("_channel", "_convert", "_last")

    def __init__(self, channel: Channel, convert: Callable[[object], object] | None = None) -> None:
        self._channel = channel
        self._convert = convert  # from what the channel holds to what is handed out
        self._last: weakref.ref[Finishing] | None = None

    def try_recv(self, /) -> T | None:
        """The next value, or None if there is none now.

        Raises:
            ClosedError: no more values will come.
        """
        try:
            value = self._channel.take(blocking=False, timeout=None)
        except Empty:
            return None
        return self._checked(value)

    def recv(self, /, timeout: float | None = None) -> T:
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
            values.append(self.converted(value))

    @property
    def dropped_count(self) -> int:
        """How many values were given up because the channel was full."""
        return self._channel.dropped_count

    def __len__(self) -> int:
        return len(self._channel)

    def __bool__(self) -> bool:
        return True  # empty or not: programs ask whether they have one

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> T:
        if self._last is not None:
            self._finish_last(sys._getframe(1))
        value = self._channel.take(blocking=True, timeout=None)
        if value is END:
            raise StopIteration
        if isinstance(value, Finishing):
            self._last = weakref.ref(value)
        return self.converted(value)

    def converted(self, value: object) -> T:
        """What is handed out for a value of the channel."""
        return cast(T, value if self._convert is None else self._convert(value))

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

    def _checked(self, value: object) -> T:
        if value is END:
            raise ClosedError(_CLOSED)
        return self.converted(value)


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
        self.outlet: Channel | CallbackOutlet | RowSink
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
            self.outlet = _outlet(callback)
        elif callable(handler):
            self.outlet = _outlet(handler)
            self.in_background = True
        else:
            raise ValueError(f"Invalid handler type {type(handler).__name__}")
        if not isinstance(self.outlet, RowSink):
            self.outlet.pressure = pressure

    @classmethod
    def of(cls, outlet: RowSink, handler: object) -> Self:
        """What is made already."""
        delivery = cls.__new__(cls)
        delivery.outlet = outlet
        delivery.handler = handler
        delivery.in_background = False
        return delivery


def _outlet(function: Callable[[T], object]) -> CallbackOutlet:
    if not isinstance(function, Callback):
        if not callable(function):
            raise ValueError(f"Invalid handler type {type(function).__name__}")
        function = Callback(function)
    called = cast("Callable[[object], object]", function.callback)
    return CallbackOutlet(called, function.drop, indirect=function.indirect)
