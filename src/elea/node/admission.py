"""Who may become a neighbour, and who is one already. behaviour.md 1.7."""

from __future__ import annotations

from collections.abc import Mapping

from elea.ids import WhatAmI
from elea.node.neighbour import Neighbour, NodeLink
from elea.node.ports import LinkInfo
from elea.node.settings import NodeSettings
from elea.routing.regions import BOUND_NORTH, BOUND_SOUTH, Bound, Placement
from elea.routing.roles.role import Role
from elea.routing.roles.subregions import Newcomer
from elea.transport.handshake import Acceptor, Opener
from elea.transport.negotiation import Agreed, Terms
from elea.wire.transport.close import CloseReason


class Admission:
    """Decides where a handshake stops to ask.

    Args:
        settings: Of the node.
        role: Its role, with the regions it has.
        neighbours: Who is connected, by identifier.
        links: All links, by number.
    """

    __slots__ = ("_links", "_neighbours", "_role", "_settings")

    def __init__(
        self,
        settings: NodeSettings,
        role: Role,
        neighbours: Mapping[bytes, Neighbour],
        links: Mapping[int, NodeLink],
    ) -> None:
        self._settings = settings
        self._role = role
        self._neighbours = neighbours
        self._links = links

    def opening(self, link: NodeLink, handshake: Opener, now_ns: int) -> None:
        """We dialled, and know now who answered."""
        terms = handshake.terms
        assert terms is not None  # what makes it a peer that is known
        zid = terms.peer_zid
        known = self._neighbours.get(zid) or self.upstream()
        if zid == self._settings.zid:
            handshake.refuse(CloseReason.CONNECTION_TO_SELF)
        elif known is not None and (known.zid != zid or not _may_join(link, known)):
            # Connected already, or found by scouting and connected meanwhile: one link is enough.
            content(link, known)
            handshake.refuse(CloseReason.GENERIC)
        else:
            handshake.proceed(now_ns, self._bound(link.info, terms))

    def accepting(self, link: NodeLink, handshake: Acceptor, now_ns: int) -> None:
        """We were dialled, and the one who did proved to be there."""
        assert handshake.proposed is not None
        zid = handshake.proposed.peer_zid
        known = self._neighbours.get(zid)
        if zid == self._settings.zid:
            handshake.refuse(CloseReason.CONNECTION_TO_SELF)
        elif known is not None and (
            not _may_join(link, known)
            or any(self._links[one].connector is None for one in known.links)
        ):
            handshake.refuse(CloseReason.MAX_LINKS)
        elif known is None and (
            self.upstream() is not None or len(self._neighbours) >= self._settings.sessions_max
        ):
            handshake.refuse(CloseReason.INVALID)
        else:
            handshake.admit(now_ns, self._bound(link.info, handshake.proposed))

    def place(self, info: LinkInfo, agreed: Agreed) -> Placement | None:
        """Where a neighbour belongs; None: what the two sides want contradicts each other."""
        chosen = self._role.choose(_newcomer(info, agreed))
        return self._role.place(agreed.peer_whatami, agreed.peer_remote_bound, chosen)

    def upstream(self) -> Neighbour | None:
        """The one neighbour that is enough, if this node is a client and has it."""
        if self._settings.whatami is not WhatAmI.CLIENT:
            return None
        return next(iter(self._neighbours.values()), None)

    def _bound(self, info: LinkInfo, told: Terms | Agreed) -> int | None:
        """Where a newcomer is told that this node has it; nothing if only the roles decide."""
        chosen = self._role.choose(_newcomer(info, told))
        if chosen is None:
            return None
        return BOUND_SOUTH if chosen.bound is Bound.SOUTH else BOUND_NORTH


def content(link: NodeLink, known: Neighbour) -> None:
    """Whoever made a link has what it wanted, until that neighbour is lost."""
    connector, link.connector = link.connector, None
    if connector is not None:
        connector.connected()
        known.content.append(connector)


def _newcomer(info: LinkInfo, told: Terms | Agreed) -> Newcomer:
    return Newcomer(
        zid=told.peer_zid,
        whatami=told.peer_whatami,
        interfaces=info.interfaces,
        region_name=told.peer_region_name,
    )


def _may_join(link: NodeLink, known: Neighbour) -> bool:
    """Whether a further link to a neighbour belongs to the transport that is there.

    It does if both were begun at the same time, by two nodes that dial each other. Later, it may
    come from a neighbour that has lost the transport or was started anew: then its numbers and
    aliases would mean nothing here, and ours nothing there. It has to wait until the old link is
    found dead (behaviour.md 1.7 leaves the choice).
    """
    return link.since_ns < known.since_ns
