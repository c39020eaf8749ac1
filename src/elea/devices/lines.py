"""How a device reaches its gateway: frames over one UDP or TCP socket."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Final, Protocol

from elea.errors import DecodeError, InvalidValueError, LinkError, LocatorError
from elea.locator import Endpoint
from elea.xrce.framing import FrameStream, frame_prefix

_DATAGRAM_LEN_MAX: Final = 65_535
_READ_LEN: Final = 65_536
_CONNECT_S: Final = 10.0
_SCHEMES: Final = ("udp", "tcp")


class Line(Protocol):
    """One socket to one gateway."""

    sock: socket.socket

    def send(self, frame: bytes) -> None:
        """Send a frame.

        Raises:
            LinkError: The connection broke.
        """

    def frames(self, timeout_s: float | None) -> Iterator[bytes]:
        """What has come, waiting so long for the first; none if nothing came.

        Raises:
            LinkError: The connection ended.
        """


def endpoint_of(text: str) -> Endpoint:
    """Where a gateway is, or is to be.

    Raises:
        InvalidValueError: It is no `udp/HOST:PORT` and no `tcp/HOST:PORT`.
    """
    try:
        endpoint = Endpoint.parse(text)
        endpoint.host_port()
    except LocatorError as error:
        raise InvalidValueError("endpoint", str(error)) from None
    if endpoint.protocol not in _SCHEMES:
        raise InvalidValueError(
            "endpoint", f"saw {text!a}; udp/HOST:PORT and tcp/HOST:PORT are legal"
        )
    return endpoint


def open_line(text: str) -> Line:
    """A line to a gateway.

    Raises:
        InvalidValueError: `text` is no endpoint.
        LinkError: Nobody listens there, or the name leads nowhere.
    """
    endpoint = endpoint_of(text)
    host, port = endpoint.host_port()
    try:
        if endpoint.protocol == "tcp":
            return TcpLine(socket.create_connection((host, port), _CONNECT_S), text)
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        sock = socket.socket(family, kind)
        try:
            sock.connect(address)
        except OSError:
            sock.close()
            raise
        return UdpLine(sock)
    except OSError as error:
        raise LinkError(f"connect to {text}: {error.strerror or error}") from error


class UdpLine:
    """Datagrams. What the network refuses is lost, as any datagram may be."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, frame: bytes) -> None:
        """Send a frame; it may be lost."""
        try:
            self.sock.send(frame)
        except OSError:
            return  # nobody is there now; frames that matter are sent again

    def frames(self, timeout_s: float | None) -> Iterator[bytes]:
        """One datagram, if one comes."""
        self.sock.settimeout(timeout_s)
        try:
            frame = self.sock.recv(_DATAGRAM_LEN_MAX)
        except OSError:  # nothing came in time, or nobody is there
            return
        if frame:
            yield frame


class TcpLine:
    """A stream, in which each frame has its length in front."""

    def __init__(self, sock: socket.socket, name: str) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self._name = name
        self._stream = FrameStream()

    def send(self, frame: bytes) -> None:
        """Send a frame; it waits while the gateway takes nothing."""
        self.sock.settimeout(_CONNECT_S)
        try:
            self.sock.sendall(frame_prefix(frame) + frame)
        except OSError as error:
            raise LinkError(f"write to {self._name}: {error.strerror or error}") from error

    def frames(self, timeout_s: float | None) -> Iterator[bytes]:
        """The frames that are whole, once something came."""
        self.sock.settimeout(timeout_s)
        try:
            data = self.sock.recv(_READ_LEN)
        except (TimeoutError, BlockingIOError):
            return
        except OSError as error:
            raise LinkError(f"read from {self._name}: {error.strerror or error}") from error
        if not data:
            raise LinkError(f"{self._name} ended the connection")
        self._stream.receive(data)
        try:
            while (frame := self._stream.next_frame()) is not None:
                yield frame
        except DecodeError as error:
            raise LinkError(f"{self._name} does not speak XRCE: {error}") from error
