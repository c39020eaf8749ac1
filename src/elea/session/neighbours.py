"""What a session knows of its node's neighbours: transports, links, and their coming and going."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.ids import WhatAmI, ZenohId
from elea.locator import Locator
from elea.node.ports import LinkInfo, NeighbourDown, NeighbourUp
from elea.provenance import SampleKind
from elea.qos import Reliability
from elea.records import dataclass, field
from elea.session.face import Face
from elea.session.outlet import END, Outlet

_Name = tuple[bytes, Locator | None]  # a neighbour, by the group it is a member of if any


@dataclass(frozen=True, slots=True)
class Transport:
    """A connection to another node."""

    zid: ZenohId
    whatami: WhatAmI
    is_qos: bool
    is_multicast: bool

    @property
    def is_shm(self) -> bool:
        """Whether payloads may travel as shared memory: never, they use the link."""
        return False


_ALL_PRIORITIES: Final = (0, 7)  # of the protocol's own, down to the background


@dataclass(frozen=True, slots=True)
class Link:
    """One of the links that a transport is made of."""

    zid: ZenohId
    src: str
    dst: str
    group: str | None
    mtu: int
    is_streamed: bool
    interfaces: list[str]
    auth_identifier: str | None
    priorities: tuple[int, int] | None
    reliability: Reliability | None

    def __post_init__(self) -> None:
        if self.priorities is None and self.group is None:
            object.__setattr__(self, "priorities", _ALL_PRIORITIES)


@dataclass(frozen=True, slots=True)
class TransportEvent:
    """A transport was opened (PUT) or closed (DELETE)."""

    kind: SampleKind
    transport: Transport


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """A link was added (PUT) or removed (DELETE)."""

    kind: SampleKind
    link: Link


def transport_of(up: NeighbourUp) -> Transport:
    """A neighbour as applications see it."""
    multicast = up.info.group is not None
    return Transport(ZenohId(up.zid), WhatAmI.from_index(up.whatami), up.qos, multicast)


def link_of(zid: bytes, info: LinkInfo) -> Link:
    """A link as applications see it."""
    reliability = Reliability.RELIABLE if info.reliable else Reliability.BEST_EFFORT
    return Link(
        ZenohId(zid),
        str(info.local),
        str(info.remote),
        None if info.group is None else str(info.group),
        info.mtu,
        info.stream,
        list(info.interfaces),
        info.peer_common_name,
        info.priorities,
        None if info.group is not None else reliability,
    )


@dataclass(slots=True, eq=False)
class Neighbours:
    """The listeners of a session for transports and links."""

    face: Face
    _transports: dict[int, Outlet] = field(default_factory=dict)
    _links: dict[int, Outlet] = field(default_factory=dict)
    _up: dict[_Name, NeighbourUp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.face.keep_ids(self._transports.keys)
        self.face.keep_ids(self._links.keys)

    def heard(self, event: object) -> None:
        """A transport came or went."""
        if isinstance(event, NeighbourUp):
            self._up[event.zid, event.info.group] = event
            self._tell(SampleKind.PUT, event)
        elif isinstance(event, NeighbourDown):
            up = self._up.pop((event.zid, event.group), None)
            if up is not None:
                self._tell(SampleKind.DELETE, up)

    def transports(self) -> list[Transport]:
        """One for each neighbour, and one for each member of a group."""
        found = {(up.zid, up.info.group): transport_of(up) for up in self._current()}
        return list(found.values())

    def links(self) -> list[Link]:
        """All links to all neighbours."""
        return [link_of(up.zid, up.info) for up in self._current()]

    def zids(self, whatami: WhatAmI) -> list[ZenohId]:
        """The neighbours with this role; members of groups are not connected."""
        connected = (one for one in self.transports() if not one.is_multicast)
        return [one.zid for one in connected if one.whatami is whatami]

    def listen_transports(self, outlet: Outlet, *, history: bool) -> Callable[[], None]:
        """Tell `outlet` of transports; what is returned ends it."""
        if history:
            for transport in self.transports():
                self.face.emit(outlet, TransportEvent(SampleKind.PUT, transport))
        return self._listen(self._transports, outlet)

    def listen_links(self, outlet: Outlet, *, history: bool) -> Callable[[], None]:
        """Tell `outlet` of links; what is returned ends it."""
        if history:
            for link in self.links():
                self.face.emit(outlet, LinkEvent(SampleKind.PUT, link))
        return self._listen(self._links, outlet)

    def close(self) -> None:
        """End all listeners."""
        for outlet in (*self._transports.values(), *self._links.values()):
            self.face.emit(outlet, END)
        self._transports.clear()
        self._links.clear()

    def _listen(self, listeners: dict[int, Outlet], outlet: Outlet) -> Callable[[], None]:
        listener_id = self.face.new_id()
        listeners[listener_id] = outlet

        def end() -> None:
            if listeners.pop(listener_id, None) is not None:
                self.face.emit(outlet, END)

        return end

    def _current(self) -> list[NeighbourUp]:
        found = [] if self.face.closed else self.face.node.neighbours()
        for up in found:
            self._up.setdefault((up.zid, up.info.group), up)
        return found

    def _tell(self, kind: SampleKind, up: NeighbourUp) -> None:
        for outlet in self._transports.values():
            transport = transport_of(up)
            self.face.emit(outlet, TransportEvent(kind, transport))
        for outlet in self._links.values():
            self.face.emit(outlet, LinkEvent(kind, link_of(up.zid, up.info)))
