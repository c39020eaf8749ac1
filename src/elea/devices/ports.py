"""The sockets of a gateway: one for all devices of a UDP endpoint, one for each device by TCP.

None of them blocks, and none keeps more than it says: what a UDP socket does not take waits, and is
lost beyond a bound, as datagrams are; a connection that is behind is not read, and ends beyond one.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
import sys
from collections import deque
from dataclasses import dataclass
from typing import Final, Protocol

from elea.errors import DecodeError
from elea.link.address import IpSocketAddress, plain_host
from elea.xrce.framing import FrameStream, frame_prefix

READ: Final = 1
WRITE: Final = 2
_DATAGRAM_LEN_MAX: Final = 65_535
_READ_LEN: Final = 65_536
_TURN_COUNT: Final = 64  # datagrams, or newcomers, before it is another socket's turn
_WAITING_COUNT: Final = 4_096  # datagrams that a socket did not take
_BEHIND_LEN: Final = 256 * 1024  # a device that takes no more is not read either
_LOST_LEN: Final = 2 * 1024 * 1024  # more than a window may hold: it does not read at all
_SOCKET_LEN: Final = 4 * 1024 * 1024  # asked of the system, which may give less
_MULTICAST_ALL: Final = 49  # Linux: 0 for only the groups that the socket itself joined
_EXHAUSTED: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

Place = tuple[int, IpSocketAddress | None]  # the number of a socket, and who is at its other end


@dataclass(slots=True)
class SocketCounters:
    """What sockets did."""

    received: int = 0  # frames
    sent: int = 0
    sent_lost: int = 0  # frames for a socket that was full, or for a device that is gone
    connections: int = 0  # that came
    connections_refused: int = 0  # there were too many, or no descriptor was left


class Hub(Protocol):
    """Who owns the sockets, as they see it."""

    @property
    def counters(self) -> SocketCounters: ...
    def received(self, frame: bytes, place: Place, group: bytes | None = None) -> None:
        """A frame came, to a group if one is named."""

    def watch(self, port: Port) -> None:
        """What a socket waits for has changed."""

    def adopt(self, sock: socket.socket, frame_len: int | None) -> None:
        """Somebody connected."""

    def malformed(self, connection: Connection, error: DecodeError) -> None:
        """A stream cannot be followed any more."""

    def gone(self, connection: Connection) -> None:
        """A connection ended."""


class Port(Protocol):
    """One socket. `read` and `write` are called when it is ready for that."""

    number: int
    sock: socket.socket
    frame_len: int | None  # the longest frame to devices here, if there is a bound

    def wants(self) -> int: ...
    def read(self) -> None: ...
    def write(self) -> None: ...
    def send(self, frame: bytes, address: IpSocketAddress | None) -> None: ...


class UdpPort:
    """A UDP socket, and all devices that write to it.

    Args:
        number: By which it is known.
        sock: Bound.
        answers: The number of the socket that answers, if this one hears a group.
        frame_len: The longest frame to its devices, if they have a bound.
        group: The locator of the group that it hears.
    """

    def __init__(
        self,
        hub: Hub,
        number: int,
        sock: socket.socket,
        answers: int | None = None,
        *,
        frame_len: int | None = None,
        group: bytes | None = None,
    ) -> None:
        self.number = number
        self.sock = sock
        self.frame_len = frame_len
        self._group = group
        self._hub = hub
        self._answers = number if answers is None else answers
        self._waiting: deque[tuple[bytes, IpSocketAddress]] = deque()

    def wants(self) -> int:
        """Datagrams, and room for those that wait."""
        return READ | WRITE if self._waiting else READ

    def read(self) -> None:
        """Take what has come."""
        for _ in range(_TURN_COUNT):
            try:
                frame, source = self.sock.recvfrom(_DATAGRAM_LEN_MAX)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                continue  # an answer of ours found nobody: the system says it here
            if frame:
                self._hub.received(frame, (self._answers, source), self._group)

    def send(self, frame: bytes, address: IpSocketAddress | None) -> None:
        """Send a frame, or keep it for later."""
        assert address is not None
        if self._waiting:
            self._keep(frame, address)
        elif not self._sent(frame, address):
            self._keep(frame, address)
            self._hub.watch(self)

    def write(self) -> None:
        """Send what waits."""
        while self._waiting and self._sent(*self._waiting[0]):
            self._waiting.popleft()
        if not self._waiting:
            self._hub.watch(self)

    def _sent(self, frame: bytes, address: IpSocketAddress) -> bool:
        counters = self._hub.counters
        try:
            self.sock.sendto(frame, address)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            counters.sent_lost += 1  # it cannot be reached, now or ever: as any datagram
            return True
        counters.sent += 1
        return True

    def _keep(self, frame: bytes, address: IpSocketAddress) -> None:
        if len(self._waiting) >= _WAITING_COUNT:
            self._hub.counters.sent_lost += 1
            return
        self._waiting.append((frame, address))


class TcpPort:
    """A TCP socket that listens."""

    def __init__(
        self, hub: Hub, number: int, sock: socket.socket, *, frame_len: int | None = None
    ) -> None:
        self.number = number
        self.sock = sock
        self.frame_len = frame_len
        self._hub = hub

    def wants(self) -> int:
        """Newcomers."""
        return READ

    def read(self) -> None:
        """Let newcomers in."""
        for _ in range(_TURN_COUNT):
            try:
                sock, _ = self.sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._hub.counters.connections_refused += 1
                return
            self._hub.adopt(sock, self.frame_len)

    def write(self) -> None:
        """Nothing is written to it."""

    def send(self, frame: bytes, address: IpSocketAddress | None) -> None:
        """Nobody is at its other end."""


class Connection:
    """A device by TCP."""

    def __init__(
        self, hub: Hub, number: int, sock: socket.socket, now_ns: int, frame_len: int | None = None
    ) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = number
        self.sock = sock
        self.frame_len = frame_len
        self.host = plain_host(sock.getpeername())
        self.heard_ns = now_ns  # when the last whole frame came
        self.ends = False  # once what waits is sent
        self._hub = hub
        self._stream = FrameStream()
        self._unsent = bytearray()

    @property
    def is_amid(self) -> bool:
        """Whether a part of a frame has come."""
        return bool(self._stream.pending_len)

    @property
    def place(self) -> Place:
        """The source of its frames."""
        return (self.number, None)

    @property
    def unsent_len(self) -> int:
        """Octets that the device has not taken."""
        return len(self._unsent)

    def wants(self) -> int:
        """More frames, unless it is behind, and room for what waits."""
        reads = READ if len(self._unsent) < _BEHIND_LEN and not self.ends else 0
        return reads | (WRITE if self._unsent else 0)

    def read(self) -> None:
        """Take what has come, frame by frame."""
        try:
            data = self.sock.recv(_READ_LEN)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            data = b""
        if not data:
            self._hub.gone(self)
            return
        self._stream.receive(data)
        try:
            while not self.ends and (frame := self._stream.next_frame()) is not None:
                self._hub.received(frame, self.place)
        except DecodeError as error:
            self._hub.malformed(self, error)

    def send(self, frame: bytes, address: IpSocketAddress | None) -> None:
        """Send a frame behind its length."""
        if len(self._unsent) + len(frame) > _LOST_LEN:
            self._hub.counters.sent_lost += 1
            self._hub.gone(self)
            return
        was_idle = not self._unsent
        self._unsent += frame_prefix(frame)
        self._unsent += frame
        self._hub.counters.sent += 1
        if was_idle:
            self.write()

    def write(self) -> None:
        """Send what waits."""
        before = self.wants()
        try:
            sent = self.sock.send(self._unsent) if self._unsent else 0
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            self._hub.gone(self)
            return
        del self._unsent[:sent]
        if self.ends and not self._unsent:
            self._hub.gone(self)
        elif self.wants() != before or self._unsent:
            self._hub.watch(self)

    def end(self) -> None:
        """Take nothing more, and go when what waits is sent."""
        self.ends = True
        if self._unsent:
            self._hub.watch(self)
        else:
            self._hub.gone(self)

    def __str__(self) -> str:
        try:
            name = self.sock.getpeername()
        except OSError:
            return "tcp"
        return f"tcp/{plain_host(name)}:{name[1]}"


def is_loopback(host: str) -> bool:
    """Whether an IP address is of this host."""
    return ipaddress.ip_address(host.partition("%")[0]).is_loopback


def udp_socket(family: int, address: IpSocketAddress) -> socket.socket:
    """A bound UDP socket with room for many devices that speak at once.

    Raises:
        OSError: It cannot be bound.
    """
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _SOCKET_LEN)
        if family == socket.AF_INET and sys.platform == "linux":
            sock.setsockopt(socket.IPPROTO_IP, _MULTICAST_ALL, 0)
        sock.bind(address)
        # Now, so that nobody else has the port: the group of Scouts may have the same one.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    except OSError:
        sock.close()
        raise
    return sock
