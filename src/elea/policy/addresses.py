"""Addresses of neighbours and users: what counts as one, and what is this host."""

from __future__ import annotations

import ipaddress
from functools import lru_cache
from typing import Final

_IPV6_NETWORK_LEN: Final = 64  # what one household gets: its addresses count as one


@lru_cache(maxsize=1_024)
def bucket_of(source: str) -> str:
    """What counts as one address: an IPv4 address, an IPv6 network, any other text as it is.

    Example:
        >>> bucket_of("::ffff:10.0.0.1"), bucket_of("2001:db8::1:2:3:4"), bucket_of("unix user 0")
        ('10.0.0.1', '2001:db8::/64', 'unix user 0')
    """
    try:
        address = ipaddress.ip_address(source.partition("%")[0])
    except ValueError:
        return source
    address = getattr(address, "ipv4_mapped", None) or address
    if address.version == 4:
        return str(address)
    return str(ipaddress.ip_network((address, _IPV6_NETWORK_LEN), strict=False))


def is_here(source: str) -> bool:
    """Whether an address is one of this host: loopback, or the path of a socket.

    Example:
        >>> [is_here(one) for one in ("127.0.0.1", "::1", "unix user 0", "10.0.0.1")]
        [True, True, True, False]
    """
    try:
        address = ipaddress.ip_address(source.partition("%")[0])
    except ValueError:
        return True
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback
