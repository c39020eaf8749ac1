"""The sockets of scouting: asking a group who is there, hearing others ask, answering. wire.md 4.

One socket per interface asks, hears the answers to it, and answers others; one more hears the
group. What is asked and answered, and how often, is `elea.transport.scouting`'s business.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Final

from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.address import Address, IpSocketAddress, plain_host
from elea.link.base import READ
from elea.link.failure import link_error
from elea.link.interfaces import InterfaceAddress, interface_addresses, parse_ip
from elea.link.multicast import (
    chosen_interfaces,
    each,
    group_receiver,
    group_sender,
    own_addresses,
)
from elea.link.poller import Poller
from elea.records import dataclass

_DATAGRAM_LEN_MAX: Final = 65_535


@dataclass(frozen=True, slots=True)
class ScoutingDatagram:
    """A datagram and what decides whether it deserves an answer (T11)."""

    data: bytes
    source: IpSocketAddress
    to_group: bool  # it was sent to the group; else it answers us
    on_link: bool  # its source is in the network of one of our interfaces
    loopback: bool  # its source is this host's loopback: loopback locators are of use to it
    own_host: bool  # its source is an address of this host, loopback or not

    @property
    def host(self) -> str:
        """The source's IP address, by which answers are counted."""
        return plain_host(self.source)


OnDatagram = Callable[[ScoutingDatagram, int], None]


class ScoutingSockets:
    """All sockets of one node's scouting.

    Args:
        address: the group, `scouting/multicast/address`.
        interface: names or addresses separated by commas, or `auto`.
        ttl: how many networks a question crosses.
        listen: whether to hear others ask.

    Raises:
        LinkError: if nothing could be opened.
        ConfigError: if a named interface does not exist.
    """

    def __init__(
        self,
        address: str = "224.0.0.224:7446",
        *,
        interface: str = "auto",
        ttl: int = 1,
        listen: bool = True,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        host, _, port = address.rpartition(":")
        self._group = Address.of_ip(host.strip("[]"), int(port))
        self._limits = limits
        self._poller: Poller | None = None
        self.interfaces = chosen_interfaces(interface, self._group, "scouting/multicast/interface")
        self._receiver = group_receiver(self._group, self.interfaces) if listen else None
        self._askers: list[tuple[InterfaceAddress | None, socket.socket]] = []
        failure: OSError | None = None
        for one in each(self.interfaces):
            try:
                self._askers.append((one, group_sender(self._group, one, ttl)))
            except OSError as error:
                failure = error  # an interface that is going down; the others will do
        if not self._askers:
            self.close()
            assert failure is not None
            raise link_error(f"scout {self._group.locator('udp')}", failure) from failure
        self._own = own_addresses(sock for _, sock in self._askers)
        self._near = self.interfaces or interface_addresses()
        self._places: dict[
            str, tuple[bool, bool, bool]
        ] = {}  # remembered: a flood shall cost little

    def start(
        self, poller: Poller, on_datagram: OnDatagram, clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Hand over every datagram that is not our own, on the poller, with the time."""
        self._poller = poller
        receivers = [(self._receiver, True)] if self._receiver is not None else []
        for sock, to_group in [*receivers, *((one, False) for _, one in self._askers)]:

            def readable(sock: socket.socket = sock, to_group: bool = to_group) -> None:
                self._drain(sock, to_group, on_datagram, clock)

            poller.register(sock.fileno(), readable, _nothing, READ)

    def ask(self, data: bytes) -> int:
        """Send to the group through every interface; how many took it."""
        taken = 0
        for _, sock in self._askers:
            try:
                sock.sendto(data, self._group.sockaddr)
                taken += 1
            except OSError:
                continue  # an interface that is down, or full: the next question comes soon
        return taken

    def answer(self, question: ScoutingDatagram, data: bytes) -> bool:
        """Send to who asked, through the interface that is nearest; whether it was taken."""
        source = parse_ip(question.host)
        nearest = next(
            (
                sock
                for interface, sock in self._askers
                if interface is not None and source is not None and interface.on_link(source)
            ),
            self._askers[0][1],
        )
        try:
            nearest.sendto(data, question.source)
        except OSError:
            return False
        return True

    def receive(self) -> ScoutingDatagram | None:
        """The next datagram of any socket, for those who have no poller."""
        receivers = [(self._receiver, True)] if self._receiver is not None else []
        for sock, to_group in [*receivers, *((one, False) for _, one in self._askers)]:
            found = self._read(sock, to_group)
            if found is not None:
                return found
        return None

    def shown(self) -> str:
        """The interfaces that are asked on, for people."""
        chosen = ", ".join(f"{one.name} {one.address}" for one in self.interfaces)
        return chosen or "the interface that the system chose"

    def close(self) -> None:
        """Give all of them up. Legal twice."""
        receivers = [self._receiver] if self._receiver is not None else []
        for sock in [*receivers, *(one for _, one in self._askers)]:
            if self._poller is not None and sock.fileno() >= 0:
                self._poller.unregister(sock.fileno())
            sock.close()

    def _drain(
        self,
        sock: socket.socket,
        to_group: bool,
        on_datagram: OnDatagram,
        clock: Callable[[], int],
    ) -> None:
        for _ in range(self._limits.link_turn_datagrams_count):
            if sock.fileno() < 0:
                return  # closed by the callback
            found = self._read(sock, to_group)
            if found is None:
                return
            on_datagram(found, clock())

    def _read(self, sock: socket.socket, to_group: bool) -> ScoutingDatagram | None:
        while True:
            try:
                data, source = sock.recvfrom(_DATAGRAM_LEN_MAX)
            except OSError:
                return None  # nothing there, or an answer of ours that found nobody
            if source[:2] in self._own:
                continue
            place = self._places.get(source[0])
            if place is None:
                place = self._place(source)
            return ScoutingDatagram(data, source, to_group, *place)

    def _place(self, source: IpSocketAddress) -> tuple[bool, bool, bool]:
        """Whether an address is in a network of ours, on loopback, and of this very host.

        A datagram from elsewhere cannot have one of our addresses as its source: systems drop what
        comes in by an interface and claims to be from themselves.
        """
        address = parse_ip(plain_host(source))
        assert address is not None  # the system says where a datagram came from
        on_link = address.is_loopback or any(one.on_link(address) for one in self._near)
        if len(self._places) >= self._limits.scout_sources_count:
            self._places.clear()
        own = address.is_loopback or any(one.address == address for one in interface_addresses())
        self._places[source[0]] = found = (on_link, address.is_loopback, own)
        return found


def _nothing() -> None:
    """Questions and answers never wait."""
