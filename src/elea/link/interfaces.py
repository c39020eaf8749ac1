"""Network interfaces and their addresses, from the standard library alone. behaviour.md 1.1.

On Linux the kernel is asked (SIOCGIFCONF, /proc/net/if_inet6); elsewhere the host's own name is
looked up, which finds fewer addresses and no netmasks.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from elea.link.address import join_host
from elea.locator import Locator
from elea.records import dataclass

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address

_SIOCGIFCONF: Final = 0x8912
_SIOCGIFFLAGS: Final = 0x8913
_SIOCGIFNETMASK: Final = 0x891B
_IFREQ_LEN: Final = 40  # on 64-bit Linux: a name of 16 octets, then a union of 24
_NAME_LEN: Final = 16
_ENTRIES_COUNT_MAX: Final = 1_024
_FLAG_UP: Final = 0x1
_FLAG_LOOPBACK: Final = 0x8
_FLAG_MULTICAST: Final = 0x1000
_INET6: Final = Path("/proc/net/if_inet6")


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """One address of one interface of this host."""

    name: str
    index: int
    address: IpAddress
    prefix_len: int
    up: bool = True
    multicast: bool = False

    def on_link(self, other: IpAddress) -> bool:
        """Whether another address is in this one's network."""
        if other.version != self.address.version:
            return False
        bits = other.max_prefixlen - self.prefix_len
        return int(other) >> bits == int(self.address) >> bits


def interface_addresses() -> list[InterfaceAddress]:
    """Every address of this host, interfaces in their order."""
    if sys.platform == "linux":
        found = [*_linux_ipv4(), *_linux_ipv6()]
    else:
        found = _by_name()
    return sorted(found, key=lambda one: (one.index, one.address.version, int(one.address)))


def interfaces_of(host: str, known: Iterable[InterfaceAddress] | None = None) -> tuple[str, ...]:
    """The names of the interfaces that have an address, which is what access rules ask about."""
    bare, _, zone = host.partition("%")
    if zone:
        return (zone,)
    address = parse_ip(bare)
    if address is None:
        return ()
    rows = _recent.rows(int(time.monotonic())) if known is None else known
    return tuple(sorted({one.name for one in rows if one.address == address}))


def advertised(
    bound: Sequence[Locator], asker_loopback: bool, known: Iterable[InterfaceAddress] | None = None
) -> list[Locator]:
    """What listeners are told as: one locator per address where one listens on all of them.

    Loopback addresses that come from such an expansion are for askers on loopback only; a listener
    that was put on loopback on purpose is always told. Link-local IPv6 addresses come last and
    without their zone, which is a matter of the asker's interfaces.

    Example:
        >>> lo = InterfaceAddress("lo", 1, ipaddress.ip_address("127.0.0.1"), 8)
        >>> lan = InterfaceAddress("eth0", 2, ipaddress.ip_address("10.1.2.3"), 24)
        >>> [str(one) for one in advertised([Locator("tcp/0.0.0.0:7447")], False, [lo, lan])]
        ['tcp/10.1.2.3:7447']
    """
    rows = list(interface_addresses() if known is None else known)
    told: dict[Locator, None] = {}
    for locator in bound:
        for one in _expanded(locator, rows, asker_loopback):
            told.setdefault(one)
    return list(told)


def multicast_interfaces(
    names: str, known: Iterable[InterfaceAddress] | None = None, *, version: int = 4
) -> list[InterfaceAddress]:
    """The interfaces of a setting: `auto`, or names or addresses separated by commas.

    `auto` is every interface that is up, does multicast and is not loopback; loopback if there is
    no other, so that nodes of a host without a network find each other. An empty list means that
    the system is to choose.

    Example:
        >>> lo = InterfaceAddress("lo", 1, ipaddress.ip_address("127.0.0.1"), 8, multicast=True)
        >>> lan = InterfaceAddress("eth0", 2, ipaddress.ip_address("10.1.2.3"), 24, multicast=True)
        >>> [one.name for one in multicast_interfaces("auto", [lo, lan])]
        ['eth0']
        >>> [one.name for one in multicast_interfaces("auto", [lo])]
        ['lo']
    """
    rows = [one for one in (interface_addresses() if known is None else known) if one.up]
    rows = [one for one in rows if one.address.version == version]
    if names != "auto":
        wanted = {name.strip() for name in names.split(",")}
        chosen = [one for one in rows if wanted & {one.name, str(one.address)}]
    else:
        able = [one for one in rows if one.multicast]
        chosen = [one for one in able if not one.address.is_loopback] or able
    first_of_each: dict[str, InterfaceAddress] = {}
    for one in chosen:
        first_of_each.setdefault(one.name, one)
    return list(first_of_each.values())


def parse_ip(text: str) -> IpAddress | None:
    """The address of a text, IPv4 inside IPv6 as IPv4; None if it is a name."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


class _Recent:
    """As of this second: asking the kernel costs 90 us, which a flood of newcomers would pay.

    What stays the same stays the same object: one that came with a large client and outlives it
    would keep a megabyte of that client's memory from the system.
    """

    def __init__(self) -> None:
        self._second = -1
        self._rows: list[InterfaceAddress] = []

    def rows(self, second: int) -> list[InterfaceAddress]:
        if second != self._second:
            self._second = second
            found = interface_addresses()
            if found != self._rows:
                self._rows = found
        return self._rows


_recent = _Recent()


def _expanded(
    locator: Locator, rows: list[InterfaceAddress], asker_loopback: bool
) -> Iterable[Locator]:
    host, colon, port = locator.address.rpartition(":")
    wildcard = {"0.0.0.0": (4,), "[::]": (4, 6)}.get(host)  # noqa: S104  # read, not bound to
    if not colon or wildcard is None:
        return [locator]
    query = locator.text.partition("?")[2]
    tail = f"?{query}" if query else ""
    told = [
        one.address
        for one in rows
        if one.up
        and one.address.version in wildcard
        and (asker_loopback or not one.address.is_loopback)
    ]
    told.sort(key=lambda address: address.version == 6 and address.is_link_local)
    return [Locator(f"{locator.protocol}/{join_host(str(one), int(port))}{tail}") for one in told]


def _linux_ipv4() -> list[InterfaceAddress]:
    import array
    import fcntl

    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        room = array.array("B", bytes(_IFREQ_LEN * _ENTRIES_COUNT_MAX))
        pointer, length = room.buffer_info()
        answer = fcntl.ioctl(probe, _SIOCGIFCONF, struct.pack("iL", length, pointer))
        used = struct.unpack("iL", answer)[0]
        entries = room.tobytes()[:used]
        for start in range(0, used, _IFREQ_LEN):
            entry = entries[start : start + _IFREQ_LEN]
            label = entry[:_NAME_LEN].rstrip(b"\0")
            name = label.partition(b":")[0].decode()  # eth0:1 is a label of eth0
            try:
                index = socket.if_nametoindex(name)
                mask = fcntl.ioctl(probe, _SIOCGIFNETMASK, label.ljust(_IFREQ_LEN, b"\0"))
                flags = fcntl.ioctl(probe, _SIOCGIFFLAGS, label.ljust(_IFREQ_LEN, b"\0"))
            except OSError:
                continue  # the interface went away between two questions
            found.append(
                _row(
                    name, index, entry[20:24], int.from_bytes(mask[20:24], "big").bit_count(), flags
                )
            )
    return found


def _linux_ipv6() -> list[InterfaceAddress]:
    import fcntl

    try:
        lines = _INET6.read_text(encoding="ascii").splitlines()
    except OSError:
        return []  # a kernel without IPv6
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for line in lines:
            octets, index, prefix_len, _, _, name = line.split()
            try:
                ask = name.encode().ljust(_IFREQ_LEN, b"\0")
                flags = fcntl.ioctl(probe, _SIOCGIFFLAGS, ask)
            except OSError:
                continue
            found.append(
                _row(name, int(index, 16), bytes.fromhex(octets), int(prefix_len, 16), flags)
            )
    return found


def _row(name: str, index: int, octets: bytes, prefix_len: int, answer: bytes) -> InterfaceAddress:
    flags = struct.unpack_from("H", answer, _NAME_LEN)[0]
    return InterfaceAddress(
        name,
        index,
        ipaddress.ip_address(octets),
        prefix_len,
        up=bool(flags & _FLAG_UP),
        # Linux's loopback does multicast when asked by name, though it does not say so.
        multicast=bool(flags & (_FLAG_MULTICAST | _FLAG_LOOPBACK)),
    )


def _by_name() -> list[InterfaceAddress]:
    names = {name: index for index, name in socket.if_nameindex()}
    loopback = next((name for name in names if name.startswith("lo")), "lo")
    texts = {"127.0.0.1": loopback, "::1": loopback}
    try:
        for entry in socket.getaddrinfo(socket.gethostname(), None):
            texts.setdefault(str(entry[4][0]), "")
    except OSError:
        pass  # a host whose own name is unknown still has its loopback
    return [
        InterfaceAddress(name, names.get(name, 0), address, address.max_prefixlen, multicast=True)
        for text, name in texts.items()
        if (address := parse_ip(text)) is not None
    ]
