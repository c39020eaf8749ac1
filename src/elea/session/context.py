"""Context: what the objects of an application share, between them and the core.

It takes the lock, lets the driver write, and has functions of the user run when the lock is free.
Nothing here holds a reference to a `Session`: when the application drops that, all is closed.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

from elea.errors import ClosedError, LinkError
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.provenance import TimestampInstrumentation
from elea.session import dispatch
from elea.session.core import SessionCore
from elea.session.dispatch import Dispatcher
from elea.session.face import SessionSettings
from elea.session.outlet import ORPHANS
from elea.session.ports import CallbackThread, DriverPort, Lock
from elea.session.pressure import Pressure
from elea.session.queryables import MakeQuery
from elea.session.stack import TimestampCallback
from elea.wire.shared_extensions import TimestampStack as WireStack

if TYPE_CHECKING:
    from elea.session.ack import Acks

T = TypeVar("T")

FORK_S: Final = 1.0  # how long a fork waits for a thread that is in the middle of something
CLOSE_NS: Final = 10_000_000_000  # what is pending may take so long to be written
EXIT_NS: Final = 500_000_000  # the same when the interpreter ends
DUE_COUNT_MAX: Final = 65_536  # values for functions that may wait for a thread
BLOCK_NS: Final = 5_000_000_000  # a put that may not be dropped waits so long (behaviour.md 2.5)

_EXIT_PRIORITY: Final = 100  # in a child of multiprocessing: before its queues and managers

_OPEN: Final[weakref.WeakSet[Context]] = weakref.WeakSet()
_COLLECTING: Final[set[int]] = set()  # the thread that collects garbage, while it does


def _watch_collector(phase: str, info: object) -> None:
    if phase == "start":
        _COLLECTING.add(threading.get_ident())
    else:
        _COLLECTING.discard(threading.get_ident())


def _in_collector() -> bool:
    """Whether the calling thread is in the middle of anything, brought here by the collector."""
    return bool(_COLLECTING) and threading.get_ident() in _COLLECTING


gc.callbacks.append(_watch_collector)


class Context:
    """One open session, as the objects declared on it see it."""

    def __init__(
        self,
        driver: DriverPort,
        settings: SessionSettings,
        make_query: Callable[[Context], MakeQuery],
        timestamp_callback: TimestampCallback | None,
        reopen: Callable[[], DriverPort] | None = None,
    ) -> None:
        self.driver = driver
        self._lock: Lock = driver.lock
        self.flush = driver.flush
        self._reopen = reopen  # makes a driver for a forked child
        self._orphaned = False  # we are such a child, and nothing was asked of us yet
        self._torn = False  # the fork came in the middle of a change of the core
        self._buried: deque[Callable[[], object]] = deque()
        self._close_lock = threading.Lock()
        self._hold_lock = threading.Lock()
        self._holds = self._holding = False  # reading from links, as asked for and as it is
        self._closed = False
        with self._lock:
            self.core = SessionCore(
                driver.node,
                settings,
                lock=driver.lock,
                now_ns=driver.now_ns,
                wall_ns=driver.wall_ns,
                make_query=make_query(self),
                timestamp_callback=timestamp_callback,
            )
            self.zid = ZenohId(driver.node.zid)
        self.core.on_due = self._on_io_due
        self._inbox = self.core.inbox
        self._dispatcher = self._new_dispatcher()
        self.pressure = Pressure(self._hold_reading, self._call_after, driver.idle)
        self._crowd = _Crowd()
        self.core.outbox.follow_up(self)
        self.acks: Acks | None = None  # acknowledged puts, once there are any
        _OPEN.add(self)

    def _new_dispatcher(self) -> Dispatcher:
        return Dispatcher(
            self._inbox.due,
            self._inbox.due_now,
            self._inbox.own,
            self.driver.callback_thread,
            self.driver.relieve,
            self._on_drained,
        )

    def call(self, function: Callable[[], T]) -> T:
        """Run a function of the core under the lock; then write, and run what became due."""
        try:
            with self._lock:
                self._inbox.bringing = True
                try:
                    return function()
                finally:
                    self._inbox.bringing = False
        finally:
            self.settle()

    def read(self, function: Callable[[], T]) -> T:
        """Run a function of the core that changes nothing."""
        with self._lock:
            return function()

    def instrument(self, instrumentation: TimestampInstrumentation | None) -> WireStack | None:
        """The timestamp stack of a message that is about to be sent."""
        if instrumentation is None:
            return None
        return self.read(lambda: self.core.stamper.sent(instrumentation))

    def settle(self) -> None:
        """Write what is pending and run what is due. The lock is not held."""
        self.flush()
        if self._inbox.has_work():
            self.work()

    def work(self) -> None:
        """Run what is due. The lock is not held."""
        if self._inbox.nudged and self._catch_up():
            self.flush()
        self._dispatcher.deliver(on_io=False)

    def wait_room(self, key: str | None = None, qos: int = 0) -> None:
        """Wait until a sample on `key` that may not be dropped finds room, or the time is over.

        Without a key: until no message waits for room.
        """
        dispatch.about_to_wait()
        node, face_id = self.driver.node, self.core.face.id

        def has_room() -> bool:
            return not node.is_congested() if key is None else node.has_room(face_id, key, qos)

        self.driver.wait_room(has_room, self.driver.now_ns() + BLOCK_NS)

    def later(self, function: Callable[[], None]) -> None:
        """Run a function of the core under the lock, from a finaliser.

        A finaliser runs anywhere, even in a thread that holds the lock. If the lock is not free,
        whoever holds it finds the function when it lets go. The garbage collector runs in the
        middle of anything, also where other locks are held: then the next call finds it, or the
        I/O thread with its next keep-alive.
        """
        self._buried.append(function)
        self._inbox.nudged = True
        if not _in_collector() and self._lock_is_free():
            self.settle()

    def entity(self, eid: int) -> EntityGlobalId:
        """The identity of an entity of this session."""
        return EntityGlobalId(self.zid, EntityId(eid))

    @property
    def closed(self) -> bool:
        """Whether the session is closed."""
        return self._closed

    def close(self, timeout_ns: int = CLOSE_NS) -> None:
        """Close the session, once."""
        with self._close_lock:
            if self._closed:
                return
            self._closed = True
        _OPEN.discard(self)
        if self._orphaned:
            ORPHANS.remove(self._revive_if_orphaned)
            return  # everything is the parent's
        self.call(self.core.close)
        if self.acks is not None:
            self.acks.close()
        dispatch.about_to_wait()
        self.driver.close(timeout_ns)
        self._dispatcher.close()

    def close_from_finaliser(self) -> None:
        """Close without waiting for the lock, or for the network."""
        if self._closed:
            return
        if self._orphaned or (not _in_collector() and self._lock_is_free()):
            self.close(EXIT_NS)
        elif self.driver.callback_thread is CallbackThread.WORLD:
            self._closed = True
            self.later(self.core.close)  # the node goes with its last session
        else:
            threading.Thread(target=self.close, args=(EXIT_NS,), daemon=True).start()

    def _lock_is_free(self) -> bool:
        """Whether this thread, above all, does not hold the lock."""
        if not self._lock.acquire(blocking=False):
            return False
        self._lock.release()
        return True

    def _catch_up(self) -> bool:
        """Do what had to wait until the lock is free; whether the core was called."""
        self._inbox.nudged = False
        if self._holds != self._holding:
            with self._hold_lock:
                self._holding = self._holds
                self.driver.hold_reading(self._holding)
        if not self._buried:
            return False
        with self._lock:
            while self._buried:
                self._buried.popleft()()
        return True

    def _on_io_due(self) -> None:
        if self._inbox.nudged and self._catch_up():
            self.flush()
        self._dispatcher.deliver(on_io=True)
        if len(self._inbox.due) > DUE_COUNT_MAX and not self._crowd.behind:
            self.pressure.begin(self._crowd)

    def _hold_reading(self, held: bool) -> None:
        """A handler is behind, or none is any more. With or without the lock."""
        self._holds = held
        self._inbox.nudged = True
        if self._lock_is_free():
            self._catch_up()

    def _call_after(self, delay_ns: int, function: Callable[[], None]) -> None:
        # Timers need the lock, which the caller may or may not hold: when it is free, then.
        self._buried.append(lambda: self.core.face.call_after(delay_ns, function))
        self._inbox.nudged = True

    def _on_drained(self) -> None:
        self._crowd.read_count += 1
        if self._crowd.behind:
            self.pressure.end(self._crowd)

    def hold_for_fork(self) -> Callable[[], None] | None:
        """Before a fork: let no other thread change anything. What ends it; None if that failed."""
        if self._orphaned:
            return _nothing  # nobody but this thread has anything to do with it
        lock = self._lock
        # A finaliser may fork, and the thread that it interrupted may hold the lock.
        if not lock.acquire(timeout=0.0 if _in_collector() else FORK_S):
            return None
        return lock.release

    def orphan(self, *, torn: bool = False) -> None:
        """We are a forked child: threads and links are the parent's. Begin anew when asked to."""
        self._torn = torn
        if self._orphaned:  # and so was the parent
            ORPHANS.remove(self._revive_if_orphaned)
        else:
            self.driver.abort()
        self._orphaned = True
        self.acks = None  # what is under way, and the spool, are the parent's
        self._close_lock = threading.Lock()
        self._hold_lock = threading.Lock()
        self._dispatcher = self._new_dispatcher()
        self._lock = _Reviver(self.revive)
        self.core.outbox.take_lock(self._lock)
        ORPHANS.append(self._revive_if_orphaned)

    def _revive_if_orphaned(self) -> None:
        if self._orphaned and not self._closed:
            with self._lock:
                pass

    def revive(self) -> Lock:
        """Connect anew, as another node, and declare everything there."""
        if self._closed:
            raise ClosedError("session closed")
        if self._reopen is None or self._torn:
            raise ClosedError(
                "the session was opened before a fork, and its links are the parent's: "
                "open a session in the child"
            )
        driver = self._reopen()
        driver.write_at_once()  # children often end without closing anything: os._exit
        self._orphaned = False
        ORPHANS.remove(self._revive_if_orphaned)
        _close_with_process()
        self.driver = driver
        self.flush = driver.flush
        self.core.outbox.follow_up(self)
        self.zid = ZenohId(driver.node.zid)
        with driver.lock:
            self.core.move(driver.node, driver.lock)
        self._lock = driver.lock
        driver.flush()
        return driver.lock


class _Reviver:
    """Stands in for the lock of a node that was lost in a fork: who takes it gets a new node."""

    def __init__(self, revive: Callable[[], Lock]) -> None:
        self._revive = revive
        self._once = threading.Lock()
        self._real: Lock | None = None

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        with self._once:
            if self._real is None:
                self._real = self._revive()
        return self._real.acquire(blocking, timeout)

    def release(self) -> None:
        assert self._real is not None
        self._real.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_args: object) -> None:
        self.release()


class _Crowd:
    """All functions of a session together, as one handler that may be behind."""

    __slots__ = ("behind", "read_count", "stalled")

    def __init__(self) -> None:
        self.behind = self.stalled = False
        self.read_count = 0


_FORKING: Final[dict[Context, Callable[[], None] | None]] = {}  # what ends holding it


def _nothing() -> None:
    """What ends a fork for a session that was not held."""


def _before_fork() -> None:
    for context in list(_OPEN):
        _FORKING[context] = context.hold_for_fork()


def _after_fork_in_parent() -> None:
    while _FORKING:
        _, go_on = _FORKING.popitem()
        if go_on is not None:
            go_on()


def _after_fork_in_child() -> None:
    for context in list(_OPEN):
        context.orphan(torn=_FORKING.get(context) is None)
    _FORKING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )


def _close_with_process() -> None:
    """Let sessions of a child of `multiprocessing` end with it: it ends without `atexit`."""
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.Finalize(None, _close_all, exitpriority=_EXIT_PRIORITY)


@atexit.register
def _close_all() -> None:
    """A session nobody closed never keeps the interpreter alive."""
    for context in list(_OPEN):
        try:
            context.close(EXIT_NS)
        except (ClosedError, LinkError, OSError):
            continue


class Declared:
    """Something declared on a session: undeclared by name, by `with`, or when nobody refers to it.

    Unless it runs in the background: a function of the user then goes on until the session ends.
    """

    __slots__ = ("__weakref__", "_context", "_gone", "_in_background")

    _kind = "entity"

    def __init__(self, context: Context, *, in_background: bool = False) -> None:
        self._context = context
        self._in_background = in_background
        self._gone = False

    def undeclare(self, /) -> None:
        """End it.

        Raises:
            ClosedError: it was undeclared before.
        """
        self._check()
        self._gone = True
        self._context.call(self._end)

    def _check(self) -> None:
        if self._gone:
            raise ClosedError(f"Undeclared {self._kind}")

    def _end(self) -> None:
        """End it in the core; under the lock, at most once."""
        raise AssertionError("an entity knows how it ends")

    def __exit__(self, *_args: object, **_kwargs: object) -> None:
        self.undeclare()

    def __reduce__(self) -> NoReturn:
        # A copy that goes would end what the original stands for.
        raise TypeError(f"a {self._kind} is neither copied nor pickled; declare another one")

    def __del__(self) -> None:
        # An object whose __init__ failed has no state.
        if not getattr(self, "_gone", True) and not self._in_background:
            self._gone = True
            if not self._context.closed:
                self._context.later(self._end)
