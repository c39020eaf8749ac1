"""Hub: the one thread of a gateway. It reads its sockets, tells it the time, and sends its frames.

Others hand over work by `call`: it waits in a line with a bound, and is done between two reads, so
that nothing of the gateway is ever touched by two threads. While too much waits for some device the
line stands still, and fills. What devices want done in the data space
is done before their acknowledgements leave, and what is persistent is on disk by then.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from elea.devices.ports import (
    READ,
    WRITE,
    Connection,
    Place,
    Port,
    SocketCounters,
    TcpPort,
    UdpPort,
    is_loopback,
)
from elea.errors import DecodeError, ProtocolError
from elea.limits import Limits
from elea.link.address import ip_locator, plain_host
from elea.xrce.closing import CloseReason, violation
from elea.xrce.gateway.effects import Effect, Left
from elea.xrce.gateway.gateway import Gateway

_LOG: Final = logging.getLogger("elea.devices")
_SECOND_NS: Final = 1_000_000_000
_IDLE_NS: Final = 10 * _SECOND_NS  # of a connection without a session, or amid a frame
_GOODBYE_NS: Final = _SECOND_NS  # for the last words to devices
_STOP_S: Final = 10.0
_TASKS_COUNT: Final = 256  # of those that wait, between two reads
_PRESSED_NS: Final = _SECOND_NS // 20  # between two looks at whether the line may go on
_STALL_NS: Final = _SECOND_NS // 5  # the data space took so long for what devices wanted
_CATCH_UP_COUNT: Final = 64  # reads after that, before leases are looked at

Task = Callable[[int], None]


class Space(Protocol):
    """The data space, as a hub sees it."""

    def act(self, effect: Effect) -> None:
        """Do what the gateway wants done."""

    def settle(self) -> bool:
        """Return when what is persistent is on disk; False: not all of it is."""


class Hub:
    """Runs a gateway until `stop`.

    Args:
        gateway: Touched by nobody else from `start` on.
        limits: How long the line may be, and how many may be connected.
        clock: The monotonic time.
    """

    def __init__(
        self, gateway: Gateway[Place], limits: Limits, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self.gateway = gateway
        self.counters = SocketCounters()
        self.calls_refused = 0  # work that found the line full
        self.stalls = 0  # times that the data space held the gateway up
        self.failed = 0  # errors of our own; each is in the log
        self._limits = limits
        self._clock = clock
        self._space: Space | None = None
        self._selector = selectors.DefaultSelector()
        self._ports: dict[int, Port] = {}
        self._connections: dict[int, Connection] = {}
        self._last_number = 0
        self._tasks: deque[tuple[Task, int]] = deque()
        self._tasks_len = 0
        self._lock = threading.Lock()  # of the line
        self._stopping = False
        self._stalled = False
        self._sweep_ns = 0
        self._broken: set[bytes] = set()  # devices that said what is no message
        self._waker, self._wakee = socket.socketpair()
        for one in (self._waker, self._wakee):
            one.setblocking(False)
        self._selector.register(self._wakee, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="xrce", daemon=True)

    # By whoever sets it up, before `start`.

    def listen_udp(self, sock: socket.socket, *, frame_len: int | None = None) -> int:
        """Serve devices at a UDP socket; its number."""
        return self._add(UdpPort(self, self._next_number(), sock, frame_len=frame_len))

    def listen_group(self, sock: socket.socket, group: bytes, answers: int) -> int:
        """Hear a group, by its locator; the UDP socket of that number answers."""
        return self._add(UdpPort(self, self._next_number(), sock, answers, group=group))

    def listen_tcp(self, sock: socket.socket, *, frame_len: int | None = None) -> int:
        """Serve devices at a TCP socket that listens; its number."""
        return self._add(TcpPort(self, self._next_number(), sock, frame_len=frame_len))

    def start(self, space: Space) -> None:
        """Begin."""
        self._space = space
        self._thread.start()

    # By any thread.

    @property
    def connections_count(self) -> int:
        """Devices, and strangers, that are connected by TCP."""
        return len(self._connections)

    def shown(self, place: Place) -> str:
        """Where a device is, for people."""
        number, address = place
        connection = self._connections.get(number)
        if connection is not None:
            return str(connection)
        return "tcp, gone" if address is None else str(ip_locator("udp", address))

    def host_of(self, place: Place) -> str | None:
        """What devices of one other host have in common; None for those of this one."""
        number, address = place
        connection = self._connections.get(number)
        host = connection.host if connection is not None else address and plain_host(address)
        return None if not host or is_loopback(host) else host

    def frame_len_at(self, place: Place) -> int | None:
        """The longest frame to devices at a socket, if they have a bound."""
        port = self._ports.get(place[0])
        return None if port is None else port.frame_len

    def call(self, task: Task, length: int = 0, *, needed: bool = False) -> bool:
        """Have something done by the hub's thread, which tells it the time.

        Args:
            task: What.
            length: Octets that it holds.
            needed: Whether it is done even if the line is full.

        Returns:
            False if it is not done.
        """
        with self._lock:
            count_max, len_max = self._limits.xrce_tasks_count, self._limits.xrce_tasks_len
            full = len(self._tasks) >= count_max or self._tasks_len + length > len_max
            if self._stopping or (full and not needed):
                self.calls_refused += 1
                return False
            self._tasks.append((task, length))
            self._tasks_len += length
            first = len(self._tasks) == 1
        if first:
            self._wake()
        return True

    def take(self, sock: socket.socket, frame_len: int | None = None) -> None:
        """Serve somebody who connected elsewhere."""
        if not self.call(lambda _now_ns: self.adopt(sock, frame_len)):
            sock.close()

    def stop(self) -> None:
        """Say goodbye to all devices, and end."""
        with self._lock:
            self._stopping = True
        self._wake()
        if self._thread.ident is not None:
            self._thread.join(_STOP_S)
        if self._thread.is_alive():
            _LOG.error("the XRCE gateway does not end; it is left")
            return
        for port in [*self._ports.values()]:
            port.sock.close()
        self._selector.close()
        self._waker.close()
        self._wakee.close()

    def _wake(self) -> None:
        with suppress(OSError):  # full: it is awake already
            self._waker.send(b"\0")

    # By its own thread: what sockets call.

    def received(self, frame: bytes, place: Place, group: bytes | None = None) -> None:
        """A frame came, to a group if one is named."""
        now_ns = self._clock()
        self.counters.received += 1
        connection = self._connections.get(place[0])
        pid = self.gateway.acceptor.pid_at(place) if connection is not None else None
        if connection is not None:
            connection.heard_ns = now_ns
        try:
            self.gateway.receive(frame, place, now_ns, group=group)
        except Exception:  # our own fault: one device shall not end all others
            self.failed += 1
            _LOG.exception("a frame of %s was not understood: %s", place, frame[:64].hex())
            self._violated(place, violation(CloseReason.GENERIC, "internal error"), now_ns)
        if connection is not None and pid is not None:
            self._act()
            if pid in self._broken:  # 19.1: a stream that holds nonsense ends
                self._send()
                connection.end()
        self._broken.clear()

    def watch(self, port: Port) -> None:
        """What a socket waits for has changed."""
        if port.number in self._ports:
            wants = port.wants()
            events = (selectors.EVENT_READ if wants & READ else 0) | (
                selectors.EVENT_WRITE if wants & WRITE else 0
            )
            # A selector refuses to watch for nothing; a device that neither reads nor is read ends
            # with its session.
            self._selector.modify(port.sock, events or selectors.EVENT_WRITE, port)

    def adopt(self, sock: socket.socket, frame_len: int | None = None) -> None:
        """Somebody connected."""
        if self._stopping or len(self._connections) >= self._limits.xrce_sessions_count:
            self.counters.connections_refused += 1
            sock.close()
            return
        try:
            connection = Connection(self, self._next_number(), sock, self._clock(), frame_len)
        except OSError:  # gone already
            sock.close()
            return
        self.counters.connections += 1
        self._connections[connection.number] = connection
        self._add(connection)

    def malformed(self, connection: Connection, error: DecodeError) -> None:
        """A stream cannot be followed any more: the device is told, and the connection ends."""
        self._violated(connection.place, error, self._clock())
        self._act()
        self._send()
        connection.end()

    def gone(self, connection: Connection) -> None:
        """A connection ended; its session may go on elsewhere, or by another one."""
        if self._connections.pop(connection.number, None) is None:
            return
        del self._ports[connection.number]
        self._selector.unregister(connection.sock)
        connection.sock.close()
        now_ns = self._clock()
        self.gateway.acceptor.lost(connection.place, now_ns)
        self.gateway.handle_timer(now_ns)

    def _violated(self, place: Place, error: ProtocolError, now_ns: int) -> None:
        pid = self.gateway.acceptor.pid_at(place)
        if pid is not None:
            self.gateway.acceptor.violated(pid, error, now_ns)
            self.gateway.handle_timer(now_ns)

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _add(self, port: Port) -> int:
        self._ports[port.number] = port
        self._selector.register(port.sock, selectors.EVENT_READ, port)
        return port.number

    # By its own thread: turn after turn.

    def _run(self) -> None:
        while not self._stopping:
            self._guarded(self._turn)
        self._guarded(self._say_goodbye)

    def _guarded(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:  # our own fault: the devices that are there stay
            self.failed += 1
            _LOG.exception("the XRCE gateway goes on after an error")

    def _turn(self, wait_ns: int | None = None) -> None:
        self._read(self._timeout_s(wait_ns))
        if self._stalled:  # what devices said meanwhile counts before their leases do
            self._stalled = False
            for _ in range(_CATCH_UP_COUNT):
                if not self._read(0.0):
                    break
        self._do_tasks()
        now_ns = self._clock()
        due_ns = self.gateway.next_timer_ns()
        if due_ns is not None and due_ns <= now_ns:
            self._guarded(lambda: self.gateway.handle_timer(now_ns))
        if now_ns >= self._sweep_ns:
            self._sweep_ns = now_ns + _SECOND_NS
            self._sweep(now_ns)
        self._act()
        self._send()

    def _read(self, timeout_s: float | None) -> bool:
        """Let sockets read and write; whether anything was there to read."""
        found = False
        for key, events in self._selector.select(timeout_s):
            port: Port | None = key.data
            if port is None:
                with suppress(OSError):
                    self._wakee.recv(4_096)
                continue
            if events & selectors.EVENT_READ and port.number in self._ports:
                found = True
                self._guarded(port.read)
            if events & selectors.EVENT_WRITE and port.number in self._ports:
                self._guarded(port.write)
        return found

    def _timeout_s(self, wait_ns: int | None) -> float | None:
        now_ns = self._clock()
        if self._tasks:
            if not self.gateway.is_pressed(now_ns):
                return 0.0
            wait_ns = min(wait_ns or _PRESSED_NS, _PRESSED_NS)
        due = [self.gateway.next_timer_ns()]
        due.append(self._sweep_ns if self._connections else None)
        due.append(now_ns + wait_ns if wait_ns is not None else None)
        at_ns = min((one for one in due if one is not None), default=None)
        return None if at_ns is None else max(at_ns - now_ns, 0) / _SECOND_NS

    def _do_tasks(self) -> None:
        for _ in range(_TASKS_COUNT):
            with self._lock:
                if not self._tasks or self.gateway.is_pressed(self._clock()):
                    return
                task, length = self._tasks.popleft()
                self._tasks_len -= length
            now_ns = self._clock()
            self._guarded(lambda task=task, now_ns=now_ns: task(now_ns))  # type: ignore[misc]

    def _act(self) -> None:
        """Do in the data space what devices want done, then make sure of what has to stay."""
        assert self._space is not None
        began_ns = self._clock()
        while (effect := self.gateway.next_effect()) is not None:
            if isinstance(effect, Left) and effect.reason == CloseReason.GENERIC:
                self._broken.add(effect.pid)
            try:
                self._space.act(effect)
            except Exception:  # the session was closed, or our own fault: devices stay
                self.failed += 1
                _LOG.exception("what a device wants was not done: %s", type(effect).__name__)
        self._guarded(self._settle)
        if self._clock() - began_ns > _STALL_NS:
            self.stalls += 1
            self._stalled = True

    def _settle(self) -> None:
        assert self._space is not None
        is_settled = False
        try:
            is_settled = self._space.settle()
        finally:
            self.gateway.settled(self._clock(), kept=is_settled)

    def _send(self) -> None:
        for (number, address), frame in self.gateway.data_to_send(self._clock()):
            port = self._ports.get(number)
            if port is None:
                self.counters.sent_lost += 1
            else:
                port.send(frame, address)

    def _sweep(self, now_ns: int) -> None:
        """End connections that nobody needs: without a session, or silent amid a frame."""
        for connection in list(self._connections.values()):
            if now_ns - connection.heard_ns < _IDLE_NS:
                continue
            if connection.is_amid or self.gateway.acceptor.pid_at(connection.place) is None:
                self.gone(connection)

    def _say_goodbye(self) -> None:
        end_ns = self._clock() + _GOODBYE_NS
        self.gateway.acceptor.stop()  # newcomers would hear nothing of our end
        for pid in self.gateway.acceptor.pids():
            self.gateway.close(pid, self._clock())
        self._act()
        self._send()
        while self.gateway.acceptor.pids() and self._clock() < end_ns:
            self._turn(end_ns - self._clock())
        for pid in self.gateway.acceptor.pids():  # they are told, whatever they still wait for
            self.gateway.acceptor.end(pid, "the gateway ends", self._clock())
        self._act()
        self._send()
