"""Looking for gateways: a Scout to a group or to one endpoint, and the Hellos that come back."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from elea.devices.lines import open_line
from elea.errors import ProtocolError
from elea.link.address import Address, plain_host
from elea.link.multicast import chosen_interfaces, each, group_sender
from elea.locator import Endpoint
from elea.xrce.encode import encode
from elea.xrce.framing import read_frame
from elea.xrce.message_records import Hello, Scout
from elea.xrce.session.scouting import Role

_SCOUT_S: Final = 1.0  # between two Scouts; 3 s by the specification, which is long for people
_DATAGRAM_LEN_MAX: Final = 65_535
_TTL: Final = 1


@dataclass(frozen=True, slots=True)
class Gateway:
    """Somebody who said Hello."""

    source: str  # where the Hello came from, as an endpoint
    roles: int
    locators: tuple[str, ...]

    @property
    def role_names(self) -> list[str]:
        """The roles that have a name."""
        return [role.name.lower() for role in Role if role & self.roles and role.name]


def scout_group(
    group: str, interface: str, timeout_s: float | None, roles: int = Role.BROKER
) -> Iterator[Gateway]:
    """Those who answer in a group, each once, as they answer.

    Raises:
        ConfigError: There is no such interface.
        OSError: It cannot be used.
    """
    host, port = Endpoint.parse(f"udp/{group}").host_port()
    address = Address.of_ip(host, port)
    question = encode(Scout(mask=roles))
    found: set[Gateway] = set()
    with selectors.DefaultSelector() as selector:
        senders: list[socket.socket] = []
        try:
            for one in each(chosen_interfaces(interface, address, "--interface")):
                senders.append(group_sender(address, one, _TTL))
                selector.register(senders[-1], selectors.EVENT_READ)
            end_s = None if timeout_s is None else time.monotonic() + timeout_s
            while end_s is None or time.monotonic() < end_s:
                for sender in senders:
                    sender.sendto(question, address.sockaddr)
                again_s = time.monotonic() + _SCOUT_S
                for gateway in _hellos(selector, min(again_s, end_s or again_s)):
                    if gateway not in found:
                        found.add(gateway)
                        yield gateway
        finally:
            for sender in senders:
                sender.close()


def scout_at(endpoint: str, timeout_s: float, roles: int = Role.BROKER) -> Iterator[Gateway]:
    """Who answers at one endpoint, by UDP or TCP.

    Raises:
        LinkError: Nobody listens there, or it ended the connection.
    """
    line = open_line(endpoint)
    try:
        end_s = time.monotonic() + timeout_s
        while (left_s := end_s - time.monotonic()) > 0:
            line.send(encode(Scout(mask=roles)))
            for frame in line.frames(min(left_s, _SCOUT_S)):
                found = list(_read(frame, endpoint))
                if found:
                    yield from found
                    return
    finally:
        line.sock.close()


def _hellos(selector: selectors.BaseSelector, until_s: float) -> Iterator[Gateway]:
    while (left_s := until_s - time.monotonic()) > 0:
        for key, _ in selector.select(left_s):
            assert isinstance(key.fileobj, socket.socket)
            try:
                frame, source = key.fileobj.recvfrom(_DATAGRAM_LEN_MAX)
            except OSError:
                continue
            yield from _read(frame, f"udp/{plain_host(source)}:{source[1]}")


def _read(frame: bytes, source: str) -> Iterator[Gateway]:
    try:
        for marked in read_frame(frame):
            message = marked.message
            if isinstance(message, Hello):
                locators = tuple(one.decode(errors="replace") for one in message.locators)
                yield Gateway(source, message.mask, locators)
    except ProtocolError:
        return  # somebody else answers there
