"""Outlets: where values for one handler go. A channel that is read, or a function that is called.

A value for a channel goes into it at once, under the node's lock. A value for a function waits in a
`DueQueue` until the lock is free; values of one frame for one function travel as one parcel.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import get_ident, main_thread
from typing import Final, Protocol

from elea.fast.plain import PlainPush
from elea.session.heed import get_heeding

OVERRUN_COUNT_MAX: Final = 65_536  # what a FIFO holds over its capacity: a few whole batches

_LOGGER: Final = logging.getLogger("elea.session")


class _End:
    """The last value of a handler."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "END"


END: Final = _End()

# Called by a thread that is going to wait for a value.
BEFORE_WAITING: Final[list[Callable[[], None]]] = []

# In a forked child: open the sessions of the parent anew. Called when a value is asked for and none
# is there: nobody would ever bring one.
ORPHANS: Final[list[Callable[[], None]]] = []


class Outlet(Protocol):
    """Where values for one handler go."""

    def accept(self, value: object) -> None:
        """Take one value, or END. Neither runs user code nor waits, unless it is a function."""


class Pressure(Protocol):
    """Who is told that a handler is behind.

    `idle` is how readers wait where they do not wait as threads do: until something is so, or for
    a time at most.
    """

    @property
    def idle(self) -> Callable[[Callable[[], bool], float | None], object] | None: ...

    def begin(self, handling: Channel | CallbackOutlet) -> None: ...
    def end(self, handling: Channel | CallbackOutlet) -> None: ...


class Beat:
    """Counts calls of functions, so that somebody else can see that one takes long."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


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

    def __init__(
        self, capacity: int, *, is_ring: bool, overrun_count: int = OVERRUN_COUNT_MAX
    ) -> None:
        self.capacity = max(capacity, 1)
        self.is_ring = is_ring
        self.bound = self.capacity if is_ring else self.capacity + overrun_count
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
        self.offer(value)

    def offer(self, value: object) -> bool:
        """The same; False if there is no room for it, or nobody who could read it."""
        queue = self._queue
        if value is END:
            self._catch_up()
        elif self.abandoned:
            return False
        elif queue.qsize() >= self.capacity and not self._make_room():
            self.dropped_count += 1
            return False
        queue.put(value)
        if self.on_change is not None:
            self.on_change()
        return True

    def take(self, *, blocking: bool, timeout: float | None) -> object:
        """The next value, END if there is none any more.

        Raises:
            Empty: there is none now.
        """
        queue = self._queue
        if ORPHANS and queue.qsize() == 0:
            for function in list(ORPHANS):
                function()
        if queue.qsize() == 0 and blocking:
            for function in list(BEFORE_WAITING):
                function()
            value = self._wait(timeout)
        else:
            value = queue.get_nowait()
        self.read_count += 1
        self.stalled = False
        if self.behind and queue.qsize() <= self.capacity // 2:
            self._catch_up()
        if value is END:
            queue.put(END)  # for the next who asks
        return value

    def _wait(self, timeout: float | None) -> object:
        idle = None if self.pressure is None else self.pressure.idle
        if idle is None and get_ident() == main_thread().ident:
            return get_heeding(self._queue, timeout)
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


class RowSink:
    """An outlet that takes samples as rows, before they become objects."""

    __slots__ = ()

    def accept(self, value: object) -> None:
        """Take a sample that is an object, or END."""

    def add(self, key: str, plain: PlainPush) -> None:
        """Take a sample as it stands in its batch."""

    def begin(self) -> None:
        """What comes next is received now."""

    def end(self) -> None:
        """Nothing more comes now."""

    def seal(self) -> None:
        """Hand over what is there."""


class CallbackOutlet:
    """A function of the user as an outlet; whoever runs what is due calls `run`.

    Args:
        callback: Called with each value.
        drop: Called after the last one.
        indirect: Whether a thread of the session calls it, rather than who brings the value.
    """

    __slots__ = (
        "_callback",
        "_drop",
        "backlog",
        "behind",
        "dropped_count",
        "ended",
        "finished",
        "held",
        "indirect",
        "pressure",
        "read_count",
        "stalled",
    )

    def __init__(
        self,
        callback: Callable[[object], object],
        drop: Callable[[], object] | None,
        *,
        indirect: bool,
    ) -> None:
        self._callback = callback
        self._drop = drop
        self.indirect = indirect
        self.held = False  # a thread is held up in it
        self.backlog: list[object] = []  # what came meanwhile; a deque takes 760 octets
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
        """Call the function, or the one for the end; raises what is no `Exception`."""
        self.read_count += 1
        try:
            if value is not END:
                self._callback(value)
            elif self._drop is not None:
                self._drop()
        except Exception:
            _LOGGER.exception("callback error")
        finally:
            if value is END:
                self.finished = True
                if self.ended is not None:
                    self.ended()

    def run_all(self, values: list[object], beat: Beat) -> None:
        """Call the function for each value, and forget the value when the call returns.

        What is no `Exception` is raised; `values` are then those that it was not called with.
        """
        callback = self._callback
        called_count = 0
        try:
            for index in range(len(values)):
                value = values[index]
                values[index] = None  # a query ends when nobody refers to it
                called_count += 1
                if value is END:
                    self.run(value)
                else:
                    self.read_count += 1
                    try:
                        callback(value)
                    except Exception:
                        _LOGGER.exception("callback error")
                beat.count += 1
        except BaseException:
            beat.count += 1
            del values[:called_count]
            raise

    def caught_up(self) -> None:
        """Nothing is put off any more."""
        self.stalled = False
        if self.behind and self.pressure is not None:
            self.pressure.end(self)


class Parcel:
    """Values for one function, in order."""

    __slots__ = ("outlet", "values")

    def __init__(self, outlet: CallbackOutlet, values: list[object]) -> None:
        self.outlet = outlet
        self.values = values


class DueQueue:
    """What waits for functions of the user.

    Values are put under the node's lock; parcels are taken under the lock of who runs them. Only a
    parcel that is complete can be taken: between `begin` and `end` values for one function are
    gathered, otherwise each value is a parcel.
    """

    __slots__ = ("_gathering", "_open", "_parcels", "put_count", "taken_count")

    def __init__(self) -> None:
        self._parcels: deque[Parcel] = deque()
        self._open: Parcel | None = None
        self._gathering = False
        self.put_count = 0
        self.taken_count = 0

    def __len__(self) -> int:
        return self.put_count - self.taken_count

    def put(self, outlet: CallbackOutlet, value: object) -> None:
        """One more value."""
        self.put_count += 1
        if not self._gathering:
            self._parcels.append(Parcel(outlet, [value]))
            return
        parcel = self._open
        if parcel is not None:
            if parcel.outlet is outlet:
                parcel.values.append(value)
                return
            self._parcels.append(parcel)
        self._open = Parcel(outlet, [value])

    def begin(self) -> None:
        """Many values may follow."""
        self._gathering = True

    def end(self) -> None:
        """That was all."""
        self._gathering = False
        if self._open is not None:
            self._parcels.append(self._open)
            self._open = None

    def take(self) -> Parcel | None:
        """The oldest parcel."""
        if not self._parcels:
            return None
        parcel = self._parcels.popleft()
        self.taken_count += len(parcel.values)
        return parcel

    def put_back(self, outlet: CallbackOutlet, values: list[object]) -> None:
        """Values of a parcel that was taken, and that its function was not called with."""
        if values:
            self._parcels.appendleft(Parcel(outlet, values))
            self.taken_count -= len(values)

    def has_more_for(self, outlet: CallbackOutlet) -> bool:
        """Whether the next parcel is for the same function."""
        return len(self._parcels) > 0 and self._parcels[0].outlet is outlet


class OwnQueue:
    """What waits for functions that the thread which brings a value calls itself.

    Values are put by a thread under the node's lock, and taken by the same thread once the lock is
    free. `left` is what threads gave up: any thread of the session may take that.
    """

    __slots__ = ("_by_thread", "left")

    def __init__(self) -> None:
        # Each thread changes its own entry only.
        self._by_thread: dict[int, deque[Parcel]] = {}
        self.left: deque[Parcel] = deque()

    def __len__(self) -> int:
        """How many threads have something to call, and how many parcels were given up."""
        return len(self._by_thread) + len(self.left)

    def put(self, outlet: CallbackOutlet, value: object) -> None:
        """Add a value that the calling thread brings."""
        thread = get_ident()
        parcels = self._by_thread.get(thread)
        if parcels is None:
            parcels = self._by_thread[thread] = deque()
        parcels.append(Parcel(outlet, [value]))

    def has_own(self) -> bool:
        """Whether the calling thread brought something that was not called yet."""
        return len(self._by_thread) > 0 and get_ident() in self._by_thread

    def take_own(self) -> Parcel | None:
        """Return the first parcel that the calling thread brought."""
        thread = get_ident()
        parcels = self._by_thread.get(thread)
        if parcels is None:
            return None
        parcel = parcels.popleft()
        if not parcels:
            del self._by_thread[thread]
        return parcel

    def give_up(self) -> None:
        """Leave what the calling thread brought to threads of the session."""
        parcels = self._by_thread.pop(get_ident(), None)
        if parcels is not None:
            self.left.extend(parcels)

    def give_up_all(self) -> None:
        """Leave what any thread brought, and was interrupted before it called the functions."""
        for thread in list(self._by_thread):
            parcels = self._by_thread.pop(thread, None)
            if parcels is not None:
                self.left.extend(parcels)
