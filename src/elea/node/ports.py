"""What a node and whoever drives it tell each other.

A driver makes links and moves octets; it knows no protocol. A node knows the protocol; it makes no
link and reads no clock. `LinkInfo` goes in, effects come out.
"""

from __future__ import annotations

import ipaddress
from enum import Enum
from typing import Self

from elea.locator import Endpoint, Locator
from elea.records import dataclass


class CallbackThread(Enum):
    """Whose thread calls functions of the user."""

    SESSION = "session"  # threads of the session
    IO = "io"  # the I/O thread while they are quick; `DriverPort.relieve` works
    CALLER = "caller"  # there is one thread only: an event loop, a test
    WORLD = "world"  # the same, and who waits lets the others go on: a simulation


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkInfo:
    """What is known about a link once it is made.

    Example:
        >>> info = LinkInfo(
        ...     scheme="tcp",
        ...     local=Locator("tcp/127.0.0.1:40001"),
        ...     remote=Locator("tcp/127.0.0.1:7447"),
        ...     stream=True,
        ...     reliable=True,
        ...     batch_len_max=65_482,
        ... )
        >>> info.mtu, info.peer_common_name
        (65482, None)
    """

    scheme: str
    local: Locator
    remote: Locator
    stream: bool  # batches carry their length
    reliable: bool
    batch_len_max: int  # of a whole batch, the two length octets of a stream included
    group: Locator | None = None  # the multicast group, if it is one
    leaves_host: bool = False  # a link without IP addresses, to another host
    interfaces: tuple[str, ...] = ()
    priorities: tuple[int, int] | None = None  # the range this link is kept for
    peer_common_name: str | None = None  # of a certificate that was verified
    peer_names: tuple[str, ...] = ()  # that certificate's subject alternative names
    expires_s: int | None = None  # when to close it, in seconds since 1970: a certificate ends

    @property
    def mtu(self) -> int:
        """The longest batch, as Eclipse Zenoh calls it."""
        return self.batch_len_max


@dataclass(frozen=True, slots=True)
class Teller:
    """Where the one is who told us of a node: who is on this host may speak of its loopback."""

    loopback: bool = False
    link_local: bool = False

    @classmethod
    def at(cls, host: str, *, own_host: bool = False) -> Self:
        """The teller at an IP address, perhaps one of this host; a text that is none says nothing.

        Example:
            >>> Teller.at("10.0.0.7"), Teller.at("10.0.0.7", own_host=True)
            (Teller(loopback=False, link_local=False), Teller(loopback=True, link_local=False))
        """
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return cls()
        address = getattr(address, "ipv4_mapped", None) or address
        return cls(loopback=own_host or address.is_loopback, link_local=address.is_link_local)

    @classmethod
    def behind(cls, link: LinkInfo) -> Self:
        """The teller at the other end of a link."""
        try:
            host = link.remote.host_port()[0]
            # A link within this host has the same address at both ends.
            return cls.at(host, own_host=host == link.local.host_port()[0])
        except ValueError:  # LocatorError: a path; whoever is there is on this host, mostly
            return cls(loopback=not link.leaves_host)


@dataclass(frozen=True, slots=True)
class Told:
    """A node that others told of: who it is, where it listens, and who says so."""

    zid: bytes
    whatami: int
    locators: tuple[str, ...]
    teller: Teller
    by_gossip: bool = False  # else it answered for itself, to a scout


@dataclass(slots=True)
class Connect:
    """Make a link to one of these endpoints; all are tried at once, the first that works wins."""

    connector_id: int
    endpoints: tuple[Endpoint, ...]
    timeout_ns: int
    teller: Teller | None = None  # who told of them; None if they were configured


@dataclass(slots=True)
class CloseLink:
    """Write what is pending, then close the link."""

    link_id: int
    reason: str


@dataclass(slots=True)
class HoldReading:
    """Read nothing from a link for now: what it brings has nowhere to go. Or read it again."""

    link_id: int
    held: bool


@dataclass(slots=True)
class NeighbourUp:
    """A transport to a neighbour is established."""

    zid: bytes
    whatami: int
    info: LinkInfo
    qos: bool  # whether both sides agreed on priorities


@dataclass(slots=True)
class NeighbourDown:
    """The last link to a neighbour is gone, or it left a multicast group."""

    zid: bytes
    whatami: int
    reason: str
    group: Locator | None = None  # the group, if it was a member of one


@dataclass(slots=True)
class ConnectFailed:
    """An attempt to connect failed."""

    connector_id: int
    reason: str
    endpoints: tuple[Endpoint, ...]
    is_news: bool  # the attempt before it had another reason, or succeeded
    is_learned: bool  # others told of the node; else it is configured
    is_final: bool  # there is no other attempt


Effect = Connect | CloseLink | HoldReading | NeighbourUp | NeighbourDown | ConnectFailed
