"""Which locators that others told us may be dialled (T49).

What a HELLO, gossip or the admin space says is the word of a stranger: it must not make this node
knock at services of its own host, of the cloud it runs in, or at paths of its file system.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.address import Address
from elea.link.interfaces import parse_ip
from elea.link.schemes import facts
from elea.locator import Endpoint
from elea.node.ports import Teller

# Where clouds keep the credentials of a machine.
_METADATA: Final = frozenset(
    map(ipaddress.ip_address, ("169.254.169.254", "100.100.100.200", "fd00:ec2::254"))
)


def dialable(
    endpoints: Iterable[Endpoint],
    teller: Teller,
    limits: Limits = DEFAULT_LIMITS,
    *,
    allow: Sequence[str] | None = None,
) -> list[Endpoint]:
    """The endpoints to try, of what a teller said; names are looked at again once resolved.

    Args:
        endpoints: What was said.
        teller: Where the one is who said it.
        limits: How many are tried.
        allow: The networks and host names that may be dialled; None: any.

    Example:
        >>> told = ["tcp/127.0.0.1:22", "unixsock-stream//run/x", "tcp/10.0.0.5:7447"]
        >>> [str(one) for one in dialable(map(Endpoint.parse, told), Teller())]
        ['tcp/10.0.0.5:7447']
        >>> dialable(map(Endpoint.parse, told), Teller(), allow=["192.168.0.0/16"])
        []
    """
    found: dict[Endpoint, None] = {}
    for endpoint in endpoints:
        if facts(endpoint.protocol).is_learnable and _host_is_fine(endpoint, teller, allow):
            found[endpoint] = None
    return list(found)[: limits.link_addresses_count]


def objection(address: Address, teller: Teller) -> str | None:
    """Why an address that was learned is not dialled; None if it may be.

    Example:
        >>> objection(Address.of_ip("169.254.169.254", 80), Teller(link_local=True))
        'a metadata service'
    """
    ip = parse_ip(address.host)
    if ip is None:
        return "no IP address"
    if ip in _METADATA:
        return "a metadata service"
    if ip.is_unspecified or ip.is_multicast or ip == ipaddress.IPv4Address("255.255.255.255"):
        return "no single node"
    if ip.is_loopback and not teller.loopback:
        return "this host's loopback, told by someone who is not on it"
    if ip.is_link_local and not (teller.link_local or teller.loopback):
        return "a link-local address, told by someone who is not on that link"
    return None


def _host_is_fine(endpoint: Endpoint, teller: Teller, allow: Sequence[str] | None) -> bool:
    try:
        host, port = endpoint.host_port()
    except ValueError:  # LocatorError: others may use addresses that mean nothing here
        return False
    if allow is not None and not any(_holds(place, host) for place in allow):
        return False
    if parse_ip(host) is None:
        return True  # a name; `objection` sees what it leads to
    try:
        return objection(Address.of_ip(host, port), teller) is None
    except OSError:
        return False  # a zone that this host does not have


def _holds(place: str, host: str) -> bool:
    """Whether a host is a listed name, or an address in a listed network."""
    ip = parse_ip(host)
    if ip is None:
        return place.lower() == host.lower()
    try:
        return ip in ipaddress.ip_network(place)
    except ValueError:
        return False  # a name; an address is none
