"""Addresses: from an endpoint's text to what sockets take, and back to locators."""

from __future__ import annotations

import ipaddress
import socket
from typing import Final

from elea.errors import LinkError
from elea.limits import DEFAULT_LIMITS
from elea.locator import Endpoint, Locator
from elea.records import dataclass

IpSocketAddress = tuple[str, int] | tuple[str, int, int, int]
SocketAddress = IpSocketAddress | str

_SOCKET_TYPES: Final = {"udp": socket.SOCK_DGRAM}


@dataclass(frozen=True, slots=True)
class Address:
    """One place an endpoint leads to.

    Example:
        >>> Address.of_ip("::1", 7447).locator("tcp")
        Locator(text='tcp/[::1]:7447')
    """

    family: int
    sockaddr: SocketAddress

    @classmethod
    def of_ip(cls, host: str, port: int) -> Address:
        """The address of an IP literal, with or without a zone."""
        if ":" not in host:
            return cls(socket.AF_INET, (host, port))
        bare, _, zone = host.partition("%")
        scope = 0
        if zone:
            scope = int(zone) if zone.isdigit() else socket.if_nametoindex(zone)
        return cls(socket.AF_INET6, (bare, port, 0, scope))

    @property
    def host(self) -> str:
        """The IP address as `plain_host` gives it, or the whole text of another family."""
        if isinstance(self.sockaddr, str):
            return self.sockaddr
        return plain_host(self.sockaddr)

    @property
    def port(self) -> int:
        """The port; 0 in a family without ports."""
        return 0 if isinstance(self.sockaddr, str) else self.sockaddr[1]

    def locator(self, scheme: str) -> Locator:
        """This address as others are told it."""
        if isinstance(self.sockaddr, str):
            return Locator(f"{scheme}/{self.sockaddr}")
        return ip_locator(scheme, self.sockaddr)

    def __str__(self) -> str:
        return self.host if isinstance(self.sockaddr, str) else join_host(self.host, self.port)


def plain_host(sockaddr: IpSocketAddress) -> str:
    """The IP address of a socket address; IPv4 inside IPv6 is IPv4, a zone is kept by name.

    Example:
        >>> plain_host(("::ffff:10.0.0.1", 7447, 0, 0))
        '10.0.0.1'
    """
    host = sockaddr[0]
    if ":" not in host:
        return host
    bare, _, zone = host.partition("%")
    mapped = ipaddress.IPv6Address(bare).ipv4_mapped
    if mapped is not None:
        return str(mapped)
    if not zone and len(sockaddr) == 4 and sockaddr[3]:
        zone = interface_name(sockaddr[3])
    return f"{bare}%{zone}" if zone else bare


def interface_name(index: int) -> str:
    """The interface's name, or its number when it is gone."""
    try:
        return socket.if_indextoname(index)
    except OSError:
        return str(index)


def join_host(host: str, port: int) -> str:
    """`host:port`, with the brackets IPv6 needs."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def ip_locator(scheme: str, sockaddr: IpSocketAddress) -> Locator:
    """The locator of a socket address."""
    return Locator(f"{scheme}/{join_host(plain_host(sockaddr), sockaddr[1])}")


def is_literal(host: str) -> bool:
    """Whether a host needs no name service."""
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def resolve_ip(
    endpoint: Endpoint, *, listening: bool, count_max: int = DEFAULT_LIMITS.link_addresses_count
) -> list[Address]:
    """Where `host:port` leads, without duplicates, the name service's best first.

    A link-local IPv6 address without its zone, as nodes tell it, leads through every interface.

    Raises:
        LinkError: if the name leads nowhere.
    """
    host, port = endpoint.host_port()
    if not listening and host.startswith("fe80:") and "%" not in host and is_literal(host):
        scopes = [index for index, name in socket.if_nameindex() if not name.startswith("lo")]
        return [Address(socket.AF_INET6, (host, port, 0, scope)) for scope in scopes][:count_max]
    kind = _SOCKET_TYPES.get(endpoint.protocol, socket.SOCK_STREAM)
    try:
        # As bytes, a name does not make Python import tables of Unicode, nor raise a UnicodeError.
        name = host.encode() if host.isascii() else host
        flags = socket.AI_PASSIVE if listening else 0
        found = socket.getaddrinfo(name, port, type=kind, flags=flags)
    except OSError as error:
        raise LinkError(
            f"{endpoint.locator()}: the name {host!r} leads nowhere ({error.strerror or error});"
            " check the spelling and the name service, or give an IP address"
        ) from error
    ips = dict.fromkeys(
        Address(family, sockaddr)
        for family, _, _, _, sockaddr in found
        if family in (socket.AF_INET, socket.AF_INET6) and isinstance(sockaddr[0], str)
    )
    return list(ips)[:count_max]
