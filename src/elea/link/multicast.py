"""udp with a multicast group: every datagram is for all, and has a source. behaviour.md 1.20.

There is no other end, so a group is no `Link`: what it reads comes with the address of who sent it.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from elea.errors import ConfigError, LinkError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.address import Address, IpSocketAddress, ip_locator
from elea.link.base import READ, Buffer, LinkInfo
from elea.link.failure import link_error
from elea.link.interfaces import (
    InterfaceAddress,
    interface_addresses,
    interfaces_of,
    multicast_interfaces,
)
from elea.link.poller import Poller
from elea.link.settings import (
    LinkSettings,
    SocketOptions,
    flag_option,
    int_option,
    priorities_option,
)
from elea.link.tcp import apply_options
from elea.link.udp import BATCH_LEN_MAX
from elea.locator import Endpoint, Locator, is_group

_DATAGRAM_LEN_MAX: Final = 65_535
_TTL_DEFAULT: Final = 1
# Linux, IP_MULTICAST_ALL: 0 for only what this socket joined, on the interfaces it joined on.
_ONLY_OWN_GROUPS: Final[dict[int, tuple[int, int]]] = {
    socket.AF_INET: (socket.IPPROTO_IP, 49),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 29),
}
_SOURCES_COUNT_MAX: Final = 1_024  # locators that are remembered, to spare making them again

OnDatagram = Callable[[bytes, Locator, int], None]
OnClosed = Callable[[str], None]


class GroupLink:
    """A multicast group, joined on some interfaces and sent to through the same.

    Options of the endpoint: `iface` (names or addresses separated by commas, or `auto`), `ttl`.

    Raises:
        LinkError: if the group cannot be joined on any of them.
        ConfigError: if an option has no legal value.
    """

    def __init__(self, endpoint: Endpoint, settings: LinkSettings) -> None:
        if not is_group(endpoint):
            raise LinkError(
                f"{endpoint.locator()} is no multicast group; those are udp/224.0.0.0/4"
            )
        self.sent_count = 0
        self.lost_count = 0  # batches that an interface did not take: nobody will ask for them
        host, port = endpoint.host_port()
        group = Address.of_ip(host, port)
        options = SocketOptions.of(endpoint, settings)
        interfaces = chosen_interfaces(options.interface or "auto", group, f"{endpoint}")
        ttl = int_option(endpoint, "ttl")
        self._receiver = group_receiver(group, interfaces)
        self._senders: list[socket.socket] = []
        try:
            plain = SocketOptions(
                so_sndbuf=options.so_sndbuf, so_rcvbuf=options.so_rcvbuf, dscp=options.dscp
            )
            apply_options(self._receiver, group.family, plain, endpoint)
            for interface in each(interfaces):
                sender = group_sender(group, interface, _TTL_DEFAULT if ttl is None else ttl)
                self._senders.append(sender)
                apply_options(sender, group.family, plain, endpoint)
        except OSError as error:
            self.close()
            raise link_error(f"open {endpoint.locator()}", error) from error
        self._group: IpSocketAddress = group.sockaddr  # type: ignore[assignment]  # it is an IP
        self._own = own_addresses(self._senders)
        self._sources: dict[IpSocketAddress, Locator] = {}
        self.info = _info(endpoint, self._senders[0].getsockname(), group.locator("udp"))

    def fileno(self) -> int:
        return self._receiver.fileno()

    def receive(self) -> tuple[bytes, Locator] | None:
        """The next datagram of another member and where it came from; None if there is none now.

        Raises:
            LinkError: if the group broke.
        """
        try:
            while True:
                data, source = self._receiver.recvfrom(_DATAGRAM_LEN_MAX)
                if data and source[:2] not in self._own:
                    return data, self._locator(source)
        except (BlockingIOError, InterruptedError):
            return None
        except OSError as error:
            raise link_error(f"read from {self.info.remote}", error) from error

    def write(self, buffers: Sequence[Buffer]) -> int:
        """Send each buffer to all; what an interface does not take now is lost.

        Returns:
            The octets of all buffers.

        Raises:
            LinkError: if no interface could send.
        """
        length = 0
        for buffer in buffers:
            length += len(buffer)
            failures = []
            for sender in self._senders:
                try:
                    sender.sendto(buffer, self._group)
                    self.sent_count += 1
                except (BlockingIOError, InterruptedError):
                    self.lost_count += 1
                except OSError as error:
                    self.lost_count += 1
                    failures.append(error)
            if len(failures) == len(self._senders):
                raise link_error(f"write to {self.info.remote}", failures[0]) from failures[0]
        return length

    def close(self) -> None:
        """Leave the group. Legal twice."""
        for one in (self._receiver, *self._senders):
            one.close()

    def _locator(self, source: IpSocketAddress) -> Locator:
        found = self._sources.get(source)
        if found is None:
            if len(self._sources) >= _SOURCES_COUNT_MAX:
                self._sources.clear()  # strangers filled it; members are found again at once
            found = self._sources[source] = ip_locator("udp", source)
        return found


class GroupPump:
    """A group on a poller: gives datagrams as they come, tells the end once.

    `send` may be called by any thread and never waits.
    """

    def __init__(
        self,
        group: GroupLink,
        poller: Poller,
        *,
        on_datagram: OnDatagram,
        on_closed: OnClosed,
        limits: Limits = DEFAULT_LIMITS,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.group = group
        self.info = group.info
        self._poller = poller
        self._on_datagram = on_datagram
        self._on_closed = on_closed
        self._limits = limits
        self._clock = clock
        self._fd = group.fileno()
        self._closed = False

    def start(self) -> None:
        """Begin to read."""
        self._poller.register(self._fd, self._readable, _nothing, READ)

    @property
    def queued_len(self) -> int:
        """What waits to be written: nothing ever does."""
        return 0

    def pause_reading(self) -> None:
        """Leave what comes to the system, which drops it when it has no room."""
        self._poller.modify(self._fd, 0)

    def resume_reading(self) -> None:
        """Go on."""
        self._poller.modify(self._fd, READ)

    def send(self, buffers: Sequence[Buffer]) -> None:
        """Send to all. If that fails, the end is told on the poller."""
        if self._closed:
            return
        try:
            self.group.write(buffers)
        except LinkError as error:
            self.close(str(error))

    def close(self, reason: str = "closed by this node", *, drain: bool = False) -> None:
        """Leave the group; on the poller, after what is running now. There is nothing to drain."""
        self._poller.call_soon_threadsafe(lambda: self._end(reason))

    def abort(self) -> None:
        """After a fork, in the child: give up the descriptors and tell nobody."""
        self._closed = True
        self.group.close()

    def _readable(self) -> None:
        for _ in range(self._limits.link_turn_datagrams_count):
            try:
                found = self.group.receive()
            except LinkError as error:
                self._end(str(error))
                return
            if found is None or self._closed:
                return
            self._on_datagram(*found, self._clock())

    def _end(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        self._poller.unregister(self._fd)
        self.group.close()
        self._on_closed(reason)


def chosen_interfaces(names: str, group: Address, where: str) -> list[InterfaceAddress]:
    """The interfaces of a setting for a group; none means that the system chooses.

    Raises:
        ConfigError: if a named one does not exist.
    """
    known = interface_addresses()
    version = 6 if group.family == socket.AF_INET6 else 4
    found = multicast_interfaces(names, known, version=version)
    if not found and names != "auto":
        listed = ", ".join(sorted({one.name for one in known if one.address.version == version}))
        raise ConfigError(where, f"no interface {names!r} with IPv{version}; there are {listed}")
    return found


def check_interfaces(names: str, group: str, where: str) -> None:
    """Check that interfaces of a setting are there for a group, as `224.0.0.224:7446`.

    Raises:
        ConfigError: none of them is, or that of the group's zone is not.
    """
    try:
        address = Address.of_ip(*Locator(f"udp/{group}").host_port())
    except OSError as error:
        raise ConfigError(where, f"{group}: {error}") from None
    chosen_interfaces(names, address, where)


def each(interfaces: Sequence[InterfaceAddress]) -> Sequence[InterfaceAddress | None]:
    """What to open a sender for; None is the system's choice."""
    return interfaces if interfaces else [None]


def own_addresses(senders: Iterable[socket.socket]) -> set[tuple[str, int]]:
    """The sources by which what we sent ourselves is known, as groups give it back to us."""
    own: set[tuple[str, int]] = set()
    for sender in senders:
        host, port = sender.getsockname()[:2]
        hosts = [host]
        if ipaddress.ip_address(host).is_unspecified:
            hosts = [str(one.address) for one in interface_addresses()]
        own.update((one, port) for one in hosts)
    return own


def group_receiver(group: Address, interfaces: Sequence[InterfaceAddress]) -> socket.socket:
    """A socket that hears a group on some interfaces, or on the one the system chooses.

    Raises:
        LinkError: if the group cannot be joined on any of them.
    """
    host = group.host.partition("%")[0]
    sock = socket.socket(group.family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # members may share a host
        if sys.platform == "darwin":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if sys.platform == "linux":
            sock.setsockopt(*_ONLY_OWN_GROUPS[group.family], 0)
        sock.bind(_bind_address(group, interfaces))
        _join(sock, group.family, host, [one.index for one in interfaces])
    except OSError as error:
        sock.close()
        raise link_error(f"join {group.locator('udp')}", error) from error
    return sock


def group_sender(group: Address, interface: InterfaceAddress | None, ttl: int) -> socket.socket:
    """A socket with a port of its own, to send to a group through one interface.

    Raises:
        OSError: if the interface is gone.
    """
    sock = socket.socket(group.family, socket.SOCK_DGRAM)
    try:
        sock.setblocking(False)
        index = interface.index if interface is not None else 0
        if group.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
            if interface is not None:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
                scope = index if interface.address.is_link_local else 0
                sock.bind((str(interface.address), 0, 0, scope))
        else:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            if interface is not None:
                choice = _mreqn(bytes(4), interface.address.packed, index)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, choice)
                sock.bind((str(interface.address), 0))
        if interface is None:
            sock.bind(("", 0))
    except OSError:
        sock.close()
        raise
    return sock


def _bind_address(group: Address, interfaces: Sequence[InterfaceAddress]) -> IpSocketAddress:
    """The group itself where possible, so that nothing but the group is heard."""
    host, port = group.host.partition("%")[0], group.port
    if sys.platform == "win32":
        return ("", port)
    if group.family == socket.AF_INET:
        return (host, port)
    if len(interfaces) == 1:
        return (host, port, 0, interfaces[0].index)
    return ("::", port)  # a link-local group has one address per interface


def _join(sock: socket.socket, family: int, host: str, indexes: Sequence[int]) -> None:
    """Join on each interface; some may refuse, all may not."""
    octets = ipaddress.ip_address(host).packed
    failure: OSError | None = None
    joined = 0
    for index in indexes or [0]:
        try:
            if family == socket.AF_INET6:
                request = octets + struct.pack("@I", index)
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, request)
            else:
                request = _mreqn(octets, bytes(4), index)
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, request)
            joined += 1
        except OSError as error:
            failure = error
    if failure is not None and not joined:
        raise failure


def _mreqn(group: bytes, local: bytes, index: int) -> bytes:
    """struct ip_mreqn; where the system knows struct ip_mreq only, the index is left off."""
    request = group + local
    return request + struct.pack("@i", index) if sys.platform == "linux" else request


def _info(endpoint: Endpoint, local: IpSocketAddress, group: Locator) -> LinkInfo:
    reliable = flag_option(endpoint, "rel")
    own = ip_locator("udp", local)
    return LinkInfo(
        scheme="udp",
        local=own,
        remote=group,
        group=group,
        stream=False,
        reliable=False if reliable is None else reliable,
        batch_len_max=BATCH_LEN_MAX,
        interfaces=interfaces_of(own.host_port()[0]),
        priorities=priorities_option(endpoint),
    )


def _nothing() -> None:
    """Writes never wait."""
