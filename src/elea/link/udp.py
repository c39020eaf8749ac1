"""udp: one datagram is one batch. behaviour.md 1.1, wire.md 3.1.

The connecting side has a connected socket. The listener has one socket for all and a link per
source. The first message of a stranger is answered and forgotten: a link comes into being by a
datagram that returns the cookie of that answer, so that forged sources leave nothing behind (T10).
The table of sources is bounded nevertheless.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from elea.errors import ConfigError, DecodeError, LinkError
from elea.limits import Limits
from elea.link.address import Address, IpSocketAddress, ip_locator, plain_host, resolve_ip
from elea.link.base import BUFFERED, READ, WRITE, Buffer, Callback, LinkInfo, PendingLink
from elea.link.failure import link_error
from elea.link.interfaces import interfaces_of, parse_ip
from elea.link.settings import LinkSettings, SocketOptions, flag_option, priorities_option
from elea.link.stream import Ready
from elea.link.tcp import apply_options, bind_address
from elea.locator import Endpoint, Locator
from elea.wire.buffer import Reader
from elea.wire.codec import decode_transport
from elea.wire.transport import init
from elea.wire.transport import open as open_

# The largest batch, by platform, as Eclipse has it (wire.md 3.1).
BATCH_LEN_MAX: Final = {"linux": 65_487, "win32": 65_487, "darwin": 9_216}.get(sys.platform, 8_192)

_DATAGRAM_LEN_MAX: Final = 65_535
_ID_MASK: Final = 0x1F

# What to say to a stranger, by its address, the longest batch and what it said; and whether a link
# to it may be made. Called on the poller.
Greet = Callable[[Locator, int, bytes], tuple[bool, list[bytes]]]


class Udp:
    """The scheme `udp`, between two nodes; groups are in `elea.link.multicast`."""

    def resolve(self, endpoint: Endpoint, *, listening: bool) -> list[Address]:
        return resolve_ip(endpoint, listening=listening)

    def connect(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> PendingLink:
        refuse_group(address, "connect to")
        options = SocketOptions.of(endpoint, settings)
        sock = _open(endpoint, address, options)
        try:
            if options.bind is not None:
                sock.bind(bind_address(options.bind, address.family, endpoint))
            sock.connect(address.sockaddr)
            info = _info(endpoint, sock.getsockname(), sock.getpeername())
        except OSError as error:
            sock.close()
            raise link_error(f"connect to {address.locator('udp')}", error) from error
        except ConfigError:
            sock.close()
            raise
        return Ready(UdpLink(sock, info), address.host)

    def listen(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> UdpListener:
        refuse_group(address, "listen on")
        return UdpListener(endpoint, address, settings)


class UdpLink:
    """A connected UDP socket."""

    __slots__ = ("_socket", "info")

    def __init__(self, sock: socket.socket, info: LinkInfo) -> None:
        self.info = info
        self._socket = sock

    def fileno(self) -> int:
        return self._socket.fileno()

    def wants(self, writing: bool) -> int:
        return READ | WRITE if writing else READ

    def read(self, limit: int) -> bytes | None:
        try:
            while True:
                data = self._socket.recv(_DATAGRAM_LEN_MAX)
                if data:  # one without octets means nothing, and is not the end
                    return data
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise link_error(f"read from {self.info.remote}", error) from error

    def write(self, buffers: Sequence[Buffer]) -> int:
        return _write_each(self._socket.send, buffers, self.info)

    def part(self) -> bool:
        return False  # datagrams have no end

    def is_over(self) -> bool:
        return True

    def close(self) -> None:
        self._socket.close()

    def abort(self) -> None:
        self._socket.close()


class UdpListener:
    """One socket, and a link for each source that began a conversation."""

    def __init__(self, endpoint: Endpoint, address: Address, settings: LinkSettings) -> None:
        self._endpoint = endpoint
        self._limits = settings.limits
        self._socket = _open(endpoint, address, SocketOptions.of(endpoint, settings))
        try:
            self._socket.bind(address.sockaddr)
        except OSError as error:
            self._socket.close()
            raise link_error(f"listen on {address.locator('udp')}", error) from error
        self.locator = ip_locator(endpoint.protocol, self._socket.getsockname())
        self.refused_count = 0  # datagrams of strangers that began nothing, or found no room
        self.greet: Greet | None = None  # None: any first message makes a link
        self._lock = threading.Lock()  # of what follows: links are closed and blocked by any thread
        self._links: dict[IpSocketAddress, UdpSourceLink] = {}
        self._blocked: set[UdpSourceLink] = set()
        self._changed: Callback = _nothing

    def fileno(self) -> int:
        return self._socket.fileno()

    def wants(self) -> int:
        return READ | WRITE if self._blocked else READ

    def notify(self, changed: Callback) -> None:
        self._changed = changed

    def accept(self) -> PendingLink | None:
        """Hand over what came in, until a newcomer is among it."""
        fed: dict[UdpSourceLink, None] = {}
        try:
            for _ in range(self._limits.link_turn_datagrams_count):
                data, source = self._socket.recvfrom(_DATAGRAM_LEN_MAX)
                link = self._links.get(source)
                if link is not None:
                    link.feed(data)
                    fed[link] = None
                    continue
                newcomer = self._welcome(source, data)
                if newcomer is not None:
                    return Ready(newcomer, plain_host(source))
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise link_error(f"read from {self.locator}", error) from error
        finally:
            for link in fed:
                link.on_readable()
        return None

    def writable(self) -> None:
        with self._lock:
            blocked, self._blocked = self._blocked, set()
        self._changed()
        for link in blocked:
            link.on_writable()

    def reload(self, settings: LinkSettings) -> None:
        """There are no certificates."""

    def close(self) -> None:
        with self._lock:
            links = list(self._links.values())
            self._links.clear()
            self._socket.close()
        for link in links:
            link.end()

    def abort(self) -> None:
        self._socket.close()

    def send_to(self, link: UdpSourceLink, buffers: Sequence[Buffer]) -> int:
        """Write to one source."""

        def send(buffer: Buffer) -> int:
            return self._socket.sendto(buffer, link.sockaddr)

        taken = _write_each(send, buffers, link.info)
        if not taken and buffers:
            with self._lock:
                self._blocked.add(link)
            self._changed()
        return taken

    def forget(self, link: UdpSourceLink) -> None:
        """The link is closed; its source is a stranger again."""
        with self._lock:
            self._blocked.discard(link)
            if self._links.get(link.sockaddr) is link:
                del self._links[link.sockaddr]

    def _welcome(self, source: IpSocketAddress, data: bytes) -> UdpSourceLink | None:
        greet = self.greet
        if greet is not None and self._answer(greet, source, data):
            return None
        with self._lock:
            full = len(self._links) >= self._limits.udp_sources_count
            if full or (greet is None and not begins_conversation(data)):
                self.refused_count += 1
                return None
            info = _info(self._endpoint, self._local_for(source), source)
            link = self._links[source] = UdpSourceLink(self, source, info, self._limits)
            link.feed(data)
            return link

    def _answer(self, greet: Greet, source: IpSocketAddress, data: bytes) -> bool:
        """Answer a stranger and forget it; False if it returned the cookie of such an answer."""
        if not data or data[0] & _ID_MASK not in (init.ID, open_.ID):
            self.refused_count += 1
            return True  # cheaper than decoding whatever strangers send
        proven, answers = greet(ip_locator("udp", source), BATCH_LEN_MAX, data)
        with suppress(OSError):  # what cannot be sent is lost, as it might be on the way
            for answer in answers:
                self._socket.sendto(answer, source)
        return not proven

    def _local_for(self, source: IpSocketAddress) -> IpSocketAddress:
        """The address that answers are sent from; a wildcard socket has none of its own."""
        own: IpSocketAddress = self._socket.getsockname()
        bound = parse_ip(own[0])
        if bound is not None and not bound.is_unspecified:
            return own
        with socket.socket(self._socket.family, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(source)
            except OSError:
                return own
            return (probe.getsockname()[0], own[1])


class UdpSourceLink:
    """A link of a UDP listener: fed by it, and writing through its socket."""

    def __init__(
        self, listener: UdpListener, sockaddr: IpSocketAddress, info: LinkInfo, limits: Limits
    ) -> None:
        self.info = info
        self.sockaddr = sockaddr
        self.dropped_count = 0  # datagrams that found the inbox full, as they would on the way
        self.on_readable: Callback = _nothing
        self.on_writable: Callback = _nothing
        self._listener = listener
        self._limits = limits
        self._inbox: deque[bytes] = deque()
        self._inbox_len = 0
        self._ended = False
        self._closed = False

    def attach(self, on_readable: Callback, on_writable: Callback) -> None:
        self.on_readable = on_readable
        self.on_writable = on_writable

    def feed(self, data: bytes) -> None:
        """A datagram of this source."""
        if self._inbox_len + len(data) > self._limits.udp_inbox_len:
            self.dropped_count += 1
        elif data:
            self._inbox.append(data)
            self._inbox_len += len(data)

    def end(self) -> None:
        """The listener is closed."""
        self._ended = True
        self.on_readable()

    def fileno(self) -> int:
        return -1

    def wants(self, writing: bool) -> int:
        flags = READ | WRITE if writing else READ
        return flags | BUFFERED if self._inbox or self._ended else flags

    def read(self, limit: int) -> bytes | None:
        if self._inbox:
            data = self._inbox.popleft()
            self._inbox_len -= len(data)
            return data
        return b"" if self._ended else None

    def write(self, buffers: Sequence[Buffer]) -> int:
        if self._closed or self._ended:
            raise LinkError(f"write to {self.info.remote}: the link is closed")
        return self._listener.send_to(self, buffers)

    def part(self) -> bool:
        return False  # datagrams have no end

    def is_over(self) -> bool:
        return True

    def close(self) -> None:
        self._closed = True
        self._listener.forget(self)

    def abort(self) -> None:
        self._closed = True


def begins_conversation(data: bytes) -> bool:
    """Whether a datagram is an InitSyn: nothing else makes us keep anything.

    Example:
        >>> begins_conversation(b"GET / HTTP/1.1"), begins_conversation(b"")
        (False, False)
    """
    if not data or data[0] & _ID_MASK != init.ID or data[0] & init.FLAG_A:
        return False  # cheaper than decoding whatever strangers send
    try:
        return isinstance(decode_transport(Reader(data)), init.Init)
    except DecodeError:
        return False


def refuse_group(address: Address, doing: str) -> None:
    """Groups have no single other end.

    Raises:
        LinkError: if the address is a multicast group.
    """
    ip = parse_ip(address.host)
    if ip is not None and ip.is_multicast:
        raise LinkError(f"{doing} {address.locator('udp')}: it is a multicast group, no node")


def _open(endpoint: Endpoint, address: Address, options: SocketOptions) -> socket.socket:
    sock = socket.socket(address.family, socket.SOCK_DGRAM)
    sock.setblocking(False)
    try:
        if address.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address.host != "::"))
        apply_options(sock, address.family, options, endpoint)
    except OSError as error:
        sock.close()
        raise link_error(f"open {address.locator('udp')}", error) from error
    except ConfigError:
        sock.close()
        raise
    return sock


def _write_each(send: Callable[[Buffer], int], buffers: Sequence[Buffer], info: LinkInfo) -> int:
    taken = 0
    try:
        for buffer in buffers:
            taken += send(buffer)
    except (BlockingIOError, InterruptedError):
        pass
    except OSError as error:
        raise link_error(f"write to {info.remote}", error) from error
    return taken


def _info(endpoint: Endpoint, local: IpSocketAddress, remote: IpSocketAddress) -> LinkInfo:
    reliable = flag_option(endpoint, "rel")
    return LinkInfo(
        scheme="udp",
        local=ip_locator("udp", local),
        remote=ip_locator("udp", remote),
        stream=False,
        reliable=False if reliable is None else reliable,
        batch_len_max=BATCH_LEN_MAX,
        interfaces=interfaces_of(plain_host(local)),
        priorities=priorities_option(endpoint),
    )


def _nothing() -> None:
    """Nobody is attached yet."""
