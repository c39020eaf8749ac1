"""Who may become a neighbour, and who is one already. behaviour.md 1.7.

An identifier proves nothing: anybody may claim any. So somebody who claims one that is in use takes
its place only with the same credentials, and only if the neighbour has fallen silent (T13).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from elea.errors import DecodeError
from elea.ids import Rng, WhatAmI
from elea.limits import Limits
from elea.locator import Locator
from elea.node.connector import Connector
from elea.node.dialling import Dialling
from elea.node.guards import identity_of
from elea.node.links import Links, NodeLink
from elea.node.logins import Logins, source_of
from elea.node.neighbour import Neighbour
from elea.node.neighbours import Neighbours
from elea.node.ports import LinkInfo
from elea.node.settings import NodeSettings
from elea.node.stats import NodeStats, Refusal
from elea.policy.policy import Policy
from elea.records import replace
from elea.routing.regions import BOUND_NORTH, BOUND_SOUTH, Bound, Placement
from elea.routing.roles.role import Role
from elea.routing.roles.subregions import Newcomer
from elea.secret import Secret
from elea.transport.cookie import CookieJar
from elea.transport.handshake import Acceptor, Failure, Opener
from elea.transport.negotiation import LOGIN_REFUSED, Agreed, Terms
from elea.wire.codec import BatchDecoder, encode_one
from elea.wire.framing import StreamDecoder
from elea.wire.transport.close import Close, CloseReason
from elea.wire.transport.init import Init
from elea.wire.transport.open import Open

_SAME_ID: Final = (
    "it has the same id as this node: it is this node, or one of two nodes needs another id"
)


class Admission:
    """Decides where a handshake begins, and where it stops to ask.

    Args:
        settings: Of the node.
        role: Its role, with the regions it has.
        neighbours: Who is connected; one whose place another node takes is closed.
        links: Of the node.
        dialling: Told which connector found its node connected.
        rng: For cookies.
        limits: Of handshakes and wrong passwords.
        stats: Counts who was refused.
    """

    __slots__ = (
        "_cookies",
        "_dialling",
        "_limits",
        "_links",
        "_logins",
        "_neighbours",
        "_role",
        "_settings",
        "stats",
    )

    def __init__(
        self,
        settings: NodeSettings,
        role: Role,
        neighbours: Neighbours,
        links: Links,
        dialling: Dialling,
        rng: Rng,
        limits: Limits,
        stats: NodeStats,
    ) -> None:
        self._settings = settings
        self._role = role
        self._neighbours = neighbours
        self._links = links
        self._limits = limits
        self._dialling = dialling
        self._cookies = CookieJar(rng, limits=limits)
        self._logins = Logins(limits)
        self.stats = stats

    def change_accounts(self, accounts: Mapping[bytes, Secret] | None) -> None:
        """Who may connect from now on; whoever is connected stays."""
        self._settings = self._settings.offering(accounts=accounts)

    def change_policy(self, policy: Policy) -> None:
        """Who may have which role from now on; whoever is connected stays."""
        self._settings = replace(self._settings, policy=policy)

    def begin(
        self,
        link_id: int,
        info: LinkInfo,
        connector: Connector | None,
        now_ns: int,
        *,
        opened: bool,
    ) -> NodeLink:
        """A link that was made; without a handshake if it is to be closed at once."""
        handshake: Opener | Acceptor | None
        if opened:
            handshake = self._opener(info, connector, now_ns)
        else:
            handshake = self._acceptor(info, now_ns)
        stream = StreamDecoder(batch_len_max=info.batch_len_max) if info.stream else None
        link = NodeLink(link_id, info, connector, handshake, stream, now_ns)
        if handshake is None and info.stream:  # an honest user, too, learns that it was refused
            link.write(encode_one(Close(CloseReason.GENERIC)))
        return link

    def _opener(self, info: LinkInfo, connector: Connector | None, now_ns: int) -> Opener:
        """The handshake of a link that we made."""
        expected = None if connector is None else connector.expected_zid
        limits = replace(self._limits, handshake_ns=self._settings.open_timeout_ns)
        offer = self._settings.offer(info.batch_len_max)
        return Opener(offer, now_ns, expected_zid=expected, limits=limits)

    def _acceptor(self, info: LinkInfo, now_ns: int) -> Acceptor | None:
        """The handshake of a link that came in; None if it is too early for another attempt."""
        if not self._logins.may_try(source_of(info.remote), now_ns):
            self.stats.refuse(Refusal.LOGIN_RATE)
            return None
        limits = replace(self._limits, handshake_ns=self._settings.accept_timeout_ns)
        offer = self._settings.offer(info.batch_len_max)
        address, datagram = str(info.remote), not info.stream
        return Acceptor(offer, self._cookies, address, now_ns, datagram=datagram, limits=limits)

    def greet(
        self, remote: Locator, batch_len_max: int, data: bytes, now_ns: int
    ) -> tuple[bool, list[bytes]]:
        """Answer the first message of a stranger on a datagram link, and keep nothing of it (T10).

        Returns:
            Whether it returned a valid cookie, so that a link to it may be made; and what to say.
        """
        address = str(remote)
        if not self._logins.may_try(source_of(remote), now_ns):
            self.stats.refuse(Refusal.LOGIN_RATE)
            return False, []
        try:
            message = BatchDecoder(data, self._limits).next()
        except DecodeError:
            return False, []
        if isinstance(message, Open) and message.cookie is not None:
            if self._cookies.is_valid(message.cookie, address, now_ns):
                return True, []
            self.stats.refuse(Refusal.COOKIE)
            return False, [encode_one(Close(CloseReason.INVALID))]
        if isinstance(message, Init) and message.cookie is None:
            offer = self._settings.offer(batch_len_max)
            acceptor = Acceptor(offer, self._cookies, address, now_ns, datagram=True)
            acceptor.receive_batch(data, now_ns)
            return False, acceptor.outgoing()
        return False, []

    def failed(self, link: NodeLink, failure: Failure, now_ns: int) -> None:
        """A handshake came to nothing."""
        if failure.reason == LOGIN_REFUSED and not failure.by_peer:
            self.stats.refuse(Refusal.LOGIN)
            self._logins.failed(source_of(link.info.remote), now_ns)

    def opening(self, link: NodeLink, handshake: Opener, now_ns: int) -> None:
        """We dialled, and know now who answered."""
        terms = handshake.terms
        assert terms is not None  # what makes it a peer that is known
        zid = terms.peer_zid
        known = self._neighbours.get(zid) or self.upstream()
        if zid == self._settings.zid:
            handshake.refuse(CloseReason.CONNECTION_TO_SELF, _SAME_ID)
        elif known is not None and (known.zid != zid or not _may_join(link, known)):
            # Connected already, or found by scouting and connected meanwhile: one link is enough.
            self.leave_to(link, known)
            handshake.refuse(CloseReason.GENERIC)
        else:
            handshake.proceed(now_ns, self._bound(link.info, terms))

    def accepting(self, link: NodeLink, handshake: Acceptor, now_ns: int) -> None:
        """We were dialled, and the one who did proved to be there."""
        assert handshake.proposed is not None
        zid = handshake.proposed.peer_zid
        known = self._neighbours.get(zid)
        if zid == self._settings.zid:
            self.stats.refuse(Refusal.SELF)
            handshake.refuse(CloseReason.CONNECTION_TO_SELF, _SAME_ID)
        elif not self._may_have_role(link.info, handshake.proposed):
            self.stats.refuse(Refusal.ROLE)
            handshake.refuse(CloseReason.INVALID)
        elif known is not None and not self._joins_or_replaces(link, handshake, known, now_ns):
            handshake.refuse(CloseReason.MAX_LINKS)
        elif known is None and (
            self.upstream() is not None or len(self._neighbours) >= self._settings.sessions_max
        ):
            self.stats.refuse(Refusal.SESSIONS)
            handshake.refuse(CloseReason.INVALID)
        else:
            handshake.admit(now_ns, self._bound(link.info, handshake.proposed))

    def _may_have_role(self, info: LinkInfo, told: Agreed) -> bool:
        identity = identity_of(told.peer_zid, told.peer_user, [info])
        return self._settings.policy.roles.admit(identity, WhatAmI.from_index(told.peer_whatami))

    def place(self, info: LinkInfo, agreed: Agreed) -> Placement | None:
        """Where a neighbour belongs; None: what the two sides want contradicts each other."""
        chosen = self._role.choose(_newcomer(info, agreed))
        return self._role.place(agreed.peer_whatami, agreed.peer_remote_bound, chosen)

    def _joins_or_replaces(
        self, link: NodeLink, handshake: Acceptor, known: Neighbour, now_ns: int
    ) -> bool:
        """Whether a newcomer may have the identifier of a neighbour; who is replaced is gone."""
        assert handshake.proposed is not None
        newcomer = _credentials(handshake.proposed.peer_user, link.info)
        if newcomer != _credentials(known.agreed.peer_user, known.info):
            self.stats.refuse(Refusal.STRANGER)
            return False
        links = [self._links.get(link_id) for link_id in known.links]
        dialled = all(one is not None and one.connector is not None for one in links)
        if dialled and _may_join(link, known):
            return True
        if not known.transport.is_silent(now_ns):
            self.stats.refuse(Refusal.DUPLICATE)
            return False
        self.stats.refuse(Refusal.REPLACED)
        self._neighbours.give_up(known, "silent, and back by another link", now_ns)
        return True

    def upstream(self) -> Neighbour | None:
        """The one neighbour that is enough, if this node is a client and has it."""
        if self._settings.whatami is not WhatAmI.CLIENT:
            return None
        return next(iter(self._neighbours), None)

    def leave_to(self, link: NodeLink, known: Neighbour) -> None:
        """Whoever made a link has what it wanted, until that neighbour is lost."""
        connector, link.connector = link.connector, None
        self._dialling.found_connected(known.zid, connector)

    def _bound(self, info: LinkInfo, told: Terms | Agreed) -> int | None:
        """Where a newcomer is told that this node has it; nothing if only the roles decide."""
        chosen = self._role.choose(_newcomer(info, told))
        if chosen is None:
            return None
        return BOUND_SOUTH if chosen.bound is Bound.SOUTH else BOUND_NORTH


def _newcomer(info: LinkInfo, told: Terms | Agreed) -> Newcomer:
    return Newcomer(
        zid=told.peer_zid,
        whatami=told.peer_whatami,
        interfaces=info.interfaces,
        region_name=told.peer_region_name,
    )


def _credentials(user: str | None, info: LinkInfo) -> tuple[str | None, str | None, str]:
    """What two links must have in common to be the same node's: who has none has an address."""
    name = info.peer_common_name
    anonymous = user is None and name is None
    return user, name, source_of(info.remote) if anonymous else ""


def _may_join(link: NodeLink, known: Neighbour) -> bool:
    """Whether a further link to a neighbour belongs to the transport that is there.

    It does if both were begun at the same time, by two nodes that dial each other. Later, it may
    come from a neighbour that has lost the transport or was started anew: then its numbers and
    aliases would mean nothing here, and ours nothing there. It has to wait until the old link is
    found dead (behaviour.md 1.7 leaves the choice).
    """
    return link.since_ns < known.since_ns
