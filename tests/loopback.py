"""Nothing that a test sends to a multicast group or asks a name service leaves this host.

Nodes scout by multicast unless they are told not to. `ELEA_NO_SCOUTING` keeps the sessions of
tests, of their commands and of their child processes silent; a test about scouting says
`scouting/multicast/enabled` itself, and `scouting/multicast/interface: "lo"`. What is forgotten is
caught here: a socket that would join or send beyond loopback raises, and the test fails. Eclipse's
sockets cannot be watched, so its configurations are. Names but localhost lead nowhere, at once.
"""

from __future__ import annotations

import ipaddress
import json
import os
import socket
import struct
from typing import Any, Final

from elea.config_file import NO_SCOUTING_ENV

LEAKS: list[str] = []  # what would have left this host, in the test that runs

_INTERFACE_OPTIONS: Final = (
    (socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP),
    (socket.IPPROTO_IP, socket.IP_MULTICAST_IF),
    (socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP),
    (socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF),
)
_setsockopt: Final = socket.socket.setsockopt
_sendto: Final = socket.socket.sendto
_getaddrinfo: Final = socket.getaddrinfo
_HOST: Final = socket.gethostname()


class LeakError(AssertionError):
    """A multicast datagram would have left this host."""


def install() -> None:
    """Keep all sessions silent, and watch all sockets of this process."""
    os.environ[NO_SCOUTING_ENV] = "1"
    socket.socket.setsockopt = _guarded_setsockopt  # type: ignore[assignment,method-assign]
    socket.socket.sendto = _guarded_sendto  # type: ignore[assignment,method-assign]
    socket.getaddrinfo = _local_getaddrinfo
    try:
        import zenoh
    except ImportError:
        return
    for name in ("open", "scout"):
        setattr(zenoh, name, _guarded_eclipse(name, getattr(zenoh, name)))


def _local_getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
    name = host.decode() if isinstance(host, bytes) else host
    if name not in (None, "", "localhost", _HOST):
        try:
            ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known") from None
    return _getaddrinfo(host, *args, **kwargs)


def _guarded_setsockopt(sock: socket.socket, level: int, option: int, *value: Any) -> None:
    if (level, option) in _INTERFACE_OPTIONS and not _is_loopback(level, value[0]):
        _leak(f"setsockopt({level}, {option}, {value[0]!r})")
    _setsockopt(sock, level, option, *value)


def _guarded_sendto(sock: socket.socket, data: Any, *rest: Any) -> int:
    host = str(rest[-1][0]).partition("%")[0]
    try:
        multicast = ipaddress.ip_address(host).is_multicast
    except ValueError:
        multicast = False
    if multicast and sock.family == socket.AF_INET:
        chosen = sock.getsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, 4)
        if not ipaddress.ip_address(chosen).is_loopback:
            _leak(f"sendto({rest[-1]})")
    elif multicast:
        chosen_index = sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF)
        if chosen_index != _loopback_index():
            _leak(f"sendto({rest[-1]})")
    return _sendto(sock, data, *rest)


def _is_loopback(level: int, value: Any) -> bool:
    """Whether the interface in a socket option is loopback: by its address, or by its number."""
    if isinstance(value, int):
        return value == _loopback_index()
    octets = bytes(value)
    if level == socket.IPPROTO_IPV6:  # struct ipv6_mreq, or the number alone
        return bool(struct.unpack("@I", octets[-4:])[0] == _loopback_index())
    address = octets if len(octets) == 4 else octets[4:8]  # struct ip_mreq or ip_mreqn
    by_number = len(octets) == 12 and struct.unpack("@i", octets[8:])[0] == _loopback_index()
    return by_number or ipaddress.IPv4Address(address).is_loopback


def _loopback_index() -> int:
    return next(index for index, name in socket.if_nameindex() if name.startswith("lo"))


def _guarded_eclipse(name: str, function: Any) -> Any:
    def guarded(*args: Any, **kwargs: Any) -> Any:
        import zenoh

        configs = [one for one in (*args, *kwargs.values()) if isinstance(one, zenoh.Config)]
        for config in configs or [zenoh.Config()]:
            silent = name == "open" and config.get_json("scouting/multicast/enabled") == "false"
            on_loopback = config.get_json("scouting/multicast/interface") in ('"lo"', '"127.0.0.1"')
            endpoints = config.get_json("listen/endpoints") + config.get_json("connect/endpoints")
            if not (silent or on_loopback) or (
                "udp/2" in endpoints and "iface=lo" not in endpoints
            ):
                _leak(f"zenoh.{name}({json.loads(str(config))})")
        return function(*args, **kwargs)

    return guarded


def _leak(what: str) -> None:
    LEAKS.append(what)
    raise LeakError(f"{what} would leave this host; choose the interface lo")
