"""Context: what the objects of an application share, between them and the core.

It takes the lock, lets the driver write, and has functions of the user run when the lock is free.
Nothing here holds a reference to a `Session`: when the application drops that, all is closed.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar

from elea.errors import ClosedError, LinkError
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.node.publish_hot import Publication
from elea.provenance import TimestampInstrumentation
from elea.qos import Locality
from elea.session import dispatch
from elea.session.core import SessionCore
from elea.session.dispatch import Dispatcher
from elea.session.face import SessionSettings
from elea.session.ports import FULL, NOT_PLAIN, DriverPort
from elea.session.queryables import MakeQuery
from elea.session.stack import TimestampCallback
from elea.wire.data.delete import Del
from elea.wire.data.put_hot import Put
from elea.wire.fields_hot import WireEncoding, WireExpr

T = TypeVar("T")

CLOSE_NS: Final = 10_000_000_000  # what is pending may take so long to be written
EXIT_NS: Final = 500_000_000  # the same when the interpreter ends
BLOCK_NS: Final = 5_000_000_000  # a put that may not be dropped waits so long (behaviour.md 2.5)

_OPEN: Final[weakref.WeakSet[Context]] = weakref.WeakSet()


class Context:
    """One open session, as the objects declared on it see it."""

    def __init__(
        self,
        driver: DriverPort,
        settings: SessionSettings,
        make_query: Callable[[Context], MakeQuery],
        timestamp_callback: TimestampCallback | None,
    ) -> None:
        self.driver = driver
        self._lock = driver.lock
        self._buried: deque[Callable[[], None]] = deque()
        self._close_lock = threading.Lock()
        self._closed = False
        with self._lock:
            self.core = SessionCore(
                driver.node,
                settings,
                now_ns=driver.now_ns,
                wall_ns=driver.wall_ns,
                make_query=make_query(self),
                timestamp_callback=timestamp_callback,
            )
            self.zid = ZenohId(driver.node.zid)
        self.core.on_due = self._on_io_due
        self._inbox = self.core.inbox
        self._dispatcher = Dispatcher(
            self._inbox.due, self._inbox.due_now, driver.callback_thread, driver.relieve
        )
        _OPEN.add(self)

    def call(self, function: Callable[[], T]) -> T:
        """Run a function of the core under the lock; then write, and run what became due."""
        try:
            with self._lock:
                return function()
        finally:
            self.settle()

    def read(self, function: Callable[[], T]) -> T:
        """Run a function of the core that changes nothing."""
        with self._lock:
            return function()

    def publish(
        self,
        key: str,
        wire_key: WireExpr,
        body: Put | Del,
        qos: int,
        reliable: bool,
        destination: Locality,
        instrumentation: TimestampInstrumentation | None,
    ) -> int:
        """Send a sample; wait for room if it may not be dropped and there was none."""
        core = self.core
        with self._lock:
            stack = None if instrumentation is None else core.stamper.sent(instrumentation)
            result = core.publish(key, wire_key, body, qos, reliable, destination, stack)
        self.settle()
        if result == FULL:
            dispatch.about_to_wait()
            deadline_ns = self.driver.now_ns() + BLOCK_NS
            self.driver.wait_room(core.face.id, deadline_ns)
        return result

    def publication(
        self,
        wire_key: WireExpr,
        encoding: WireEncoding | None,
        qos: int,
        reliable: bool,
        destination: Locality,
    ) -> Publication | None:
        """A short way for samples with nothing but a payload; None if they need the long one."""
        face = self.core.face
        if destination is Locality.SESSION_LOCAL or face.settings.timestamping:
            return None
        return self.driver.node.publication(face.id, wire_key, encoding, qos, reliable)

    def publish_plain(self, publication: Publication, payload: bytes, express: bool) -> int:
        """Send a sample with nothing but a payload; NOT_PLAIN if this session wants it, too."""
        core = self.core
        with self._lock:
            if len(self._inbox.local):
                return NOT_PLAIN
            core.face.check_open()
            result = publication.put(payload)
            if express or publication.wants_flush():
                self.driver.flush_locked(express=express)
        if result == FULL:
            dispatch.about_to_wait()
            self.driver.wait_room(core.face.id, self.driver.now_ns() + BLOCK_NS)
        inbox = self._inbox
        if inbox.due or inbox.due_now or self._buried:
            self.settle()
        return result

    def settle(self) -> None:
        """Write what is pending and run what is due. The lock is not held."""
        if self._buried:
            self._bury()
        self.driver.flush()
        inbox = self._inbox
        if inbox.due or inbox.due_now:
            self._dispatcher.deliver(on_io=False)

    def later(self, function: Callable[[], None]) -> None:
        """Run a function of the core under the lock, from a finaliser.

        A finaliser runs anywhere, even in a thread that holds the lock. If the lock is not free,
        whoever holds it finds the function when it lets go.
        """
        self._buried.append(function)
        self._inbox.nudged = True
        if self._bury():
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
        self.call(self.core.close)
        dispatch.about_to_wait()
        self.driver.close(timeout_ns)
        self._dispatcher.close()

    def close_from_finaliser(self) -> None:
        """Close without waiting for the lock, or for the network."""
        if self._closed:
            return
        if self._lock.acquire(blocking=False):
            self._lock.release()
            self.close(EXIT_NS)
        else:
            threading.Thread(target=self.close, args=(EXIT_NS,), daemon=True).start()

    def _bury(self) -> bool:
        """Run what finalisers left; False if the lock is not free."""
        while self._buried:
            if not self._lock.acquire(blocking=False):
                return False
            self._inbox.nudged = False
            try:
                while self._buried:
                    self._buried.popleft()()
            finally:
                self._lock.release()
        return True

    def _on_io_due(self) -> None:
        if self._buried:
            self._bury()
        self._dispatcher.deliver(on_io=True)


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

    def undeclare(self) -> None:
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

    def __del__(self) -> None:
        # An object whose __init__ failed has no state.
        if not getattr(self, "_gone", True) and not self._in_background:
            self._gone = True
            if not self._context.closed:
                self._context.later(self._end)
