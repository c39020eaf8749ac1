"""tcp: stream sockets over IPv4 and IPv6. behaviour.md 1.1, wire.md 3.1."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable
from typing import Final

from elea.errors import ConfigError, LinkError, LocatorError
from elea.limits import BATCH_LEN_MAX
from elea.link.address import (
    Address,
    SocketAddress,
    ip_locator,
    is_literal,
    plain_host,
    resolve_ip,
)
from elea.link.base import LinkInfo, PendingLink
from elea.link.failure import link_error
from elea.link.guests import Guests, Sorting
from elea.link.interfaces import interfaces_of
from elea.link.settings import LinkSettings, SocketOptions, flag_option, priorities_option
from elea.link.stream import Connecting, PlainListener, Ready, StreamLink
from elea.locator import Endpoint, Locator

_HEADERS_LEN: Final = {socket.AF_INET: 40, socket.AF_INET6: 60}
_BACKLOG_COUNT: Final = 1_024  # the kernel cuts it to net.core.somaxconn
_BIND_TO_DEVICE: Final[int | None] = getattr(socket, "SO_BINDTODEVICE", None)


class Tcp:
    """The scheme `tcp`."""

    def resolve(self, endpoint: Endpoint, *, listening: bool) -> list[Address]:
        return resolve_ip(endpoint, listening=listening)

    def connect(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> PendingLink:
        return dial(
            endpoint,
            address,
            settings,
            lambda sock: Ready(StreamLink(sock, tcp_info(endpoint, sock)), address.host),
        )

    def listen(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> TcpListener:
        return TcpListener(endpoint, address, settings)


class TcpListener(PlainListener):
    """A listening TCP socket; what is made of a newcomer is `welcome`'s business."""

    def __init__(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> None:
        self.guests = Guests()
        self._endpoint = endpoint
        self._socket = listening_socket(endpoint, address, settings)
        # As it was asked for, so that a wildcard stays one; the port is the one that was given.
        given = self._socket.getsockname()
        self.locator = ip_locator(endpoint.protocol, given)

    def fileno(self) -> int:
        return self._socket.fileno()

    def accept(self) -> PendingLink | None:
        try:
            sock, sockaddr = self._socket.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return None
        except OSError as error:
            raise link_error(f"accept on {self.locator}", error) from error
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self.welcome(sock, plain_host(sockaddr))
        except OSError as error:
            sock.close()
            raise link_error(f"accept on {self.locator}", error) from error

    def welcome(self, sock: socket.socket, source: str) -> PendingLink:
        """The link in the making of an accepted socket."""
        take = self.guests.take
        if take is not None:
            return Sorting(
                sock, source, take, lambda: StreamLink(sock, tcp_info(self._endpoint, sock))
            )
        return Ready(StreamLink(sock, tcp_info(self._endpoint, sock)), source)

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        self._socket.close()


def dial(
    endpoint: Endpoint,
    address: Address,
    settings: LinkSettings,
    finish: Callable[[socket.socket], PendingLink],
) -> PendingLink:
    """Begin a TCP connection.

    Raises:
        LinkError: if it cannot even begin.
        ConfigError: if an option of the endpoint is illegal.
    """
    options = SocketOptions.of(endpoint, settings)
    remote = address.locator(endpoint.protocol)
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        apply_options(sock, address.family, options, endpoint)
        if options.bind is not None:
            sock.bind(bind_address(options.bind, address.family, endpoint))
    except OSError as error:
        sock.close()
        raise link_error(f"connect to {remote}", error) from error
    except ConfigError:
        sock.close()
        raise
    return Connecting(sock, address.sockaddr, remote, address.host, finish)


def listening_socket(endpoint: Endpoint, address: Address, settings: LinkSettings) -> socket.socket:
    """A bound socket that does not block.

    Raises:
        LinkError: if it cannot be bound.
        ConfigError: if an option of the endpoint is illegal.
    """
    options = SocketOptions.of(endpoint, settings)
    try:
        return _bound(endpoint, address, options)
    except OSError as error:
        # The default listener is [::]; a host without IPv6 means all it has.
        no_ipv6 = error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)
        if not (no_ipv6 and address.host == "::"):
            raise link_error(f"listen on {address.locator(endpoint.protocol)}", error) from error
    anywhere = Address(socket.AF_INET, ("0.0.0.0", address.port))  # noqa: S104  # as was asked
    try:
        return _bound(endpoint, anywhere, options)
    except OSError as error:
        raise link_error(f"listen on {anywhere.locator(endpoint.protocol)}", error) from error


def apply_options(
    sock: socket.socket, family: int, options: SocketOptions, endpoint: Endpoint
) -> None:
    """Set what an endpoint asks of its socket.

    Raises:
        ConfigError: if this platform cannot do it.
        OSError: if the system refuses.
    """
    if options.so_sndbuf is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.so_sndbuf)
    if options.so_rcvbuf is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.so_rcvbuf)
    if options.dscp is not None:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, options.dscp << 2)
        else:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, options.dscp << 2)
    if options.interface is not None:
        if _BIND_TO_DEVICE is None:
            raise ConfigError(f"{endpoint}", "iface works on Linux only; use bind=host:port")
        sock.setsockopt(socket.SOL_SOCKET, _BIND_TO_DEVICE, options.interface.encode() + b"\0")


def tcp_info(endpoint: Endpoint, sock: socket.socket) -> LinkInfo:
    """What a connected TCP socket tells."""
    local, remote = sock.getsockname(), sock.getpeername()
    reliable = flag_option(endpoint, "rel")
    return LinkInfo(
        scheme=endpoint.protocol,
        local=ip_locator(endpoint.protocol, local),
        remote=ip_locator(endpoint.protocol, remote),
        stream=True,
        reliable=True if reliable is None else reliable,
        batch_len_max=_batch_len_max(sock),
        interfaces=interfaces_of(plain_host(local)),
        priorities=priorities_option(endpoint),
    )


def _batch_len_max(sock: socket.socket) -> int:
    """The largest batch that fills whole half segments, as Eclipse computes it (wire.md 3.1)."""
    room = BATCH_LEN_MAX - _HEADERS_LEN[sock.family]
    try:
        half = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) // 2
    except OSError:
        return room
    return room // half * half if 0 < half <= room else room


def _bound(endpoint: Endpoint, address: Address, options: SocketOptions) -> socket.socket:
    sock = socket.socket(address.family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if address.family == socket.AF_INET6:
            # [::] means every address of the host; any other one is IPv6 alone.
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address.host != "::"))
        apply_options(sock, address.family, options, endpoint)
        sock.bind(address.sockaddr)
        sock.listen(_BACKLOG_COUNT)
        sock.setblocking(False)
    except (OSError, ConfigError):
        sock.close()
        raise
    return sock


def bind_address(text: str, family: int, endpoint: Endpoint) -> SocketAddress:
    """The address of the option `bind`.

    Raises:
        ConfigError: if it is no IP address and port.
        LinkError: if it is of another family than the address that is dialled.
    """
    address = Address.of_ip(*bind_option(text, endpoint))
    if address.family != family:
        raise LinkError(f"{endpoint}: bind={text} is of another address family than the host")
    return address.sockaddr


def bind_option(text: str, endpoint: Endpoint) -> tuple[str, int]:
    """The IP address and port of the option `bind`.

    Raises:
        ConfigError: it is no IP address and port.
    """
    try:
        host, port = Locator(f"tcp/{text}").host_port()
    except LocatorError as error:
        raise ConfigError(
            f"{endpoint}", f"bind is host:port, saw {text!r}: {error.reason}"
        ) from None
    if not is_literal(host):
        raise ConfigError(f"{endpoint}", f"bind needs an IP address, saw {host!r}")
    return host, port
