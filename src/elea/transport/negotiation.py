"""What both sides of a link agree on, computed from what each offers. wire.md 5.3, 5.4.

Pure functions over messages: `init_syn` and `open_syn` for the opener, `answer_init`, `init_ack`
and `open_ack` for the acceptor, and one `accept_...` per message received, which says no by raising
`RemoteProtocolError` with the reason that CLOSE will carry (behaviour.md 1.8). MultiLink and shared
memory are neither offered nor answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field
from typing import Final

from elea.errors import InvalidValueError, RemoteProtocolError
from elea.limits import BATCH_LEN_MAX, BATCH_LEN_MIN, REGION_NAME_LEN_MAX
from elea.records import dataclass
from elea.secret import Secret
from elea.transport import usrpwd
from elea.wire import compression
from elea.wire.transport.close import CloseReason
from elea.wire.transport.establishment import QosLink
from elea.wire.transport.init import RESOLUTION_DEFAULT, VERSION, Init
from elea.wire.transport.open import Open

# Largest sequence number by the two bits of a resolution: 8, 16, 32, 64 bit (wire.md 5.9).
SN_MASKS: Final = (0x7F, 0x3FFF, 0x0FFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF)
# Largest request id by theirs: 64 bit means 32, which is all that messages carry (wire.md 2.11).
REQUEST_ID_MAXES: Final = (0xFF, 0xFFFF, 0xFFFF_FFFF, 0xFFFF_FFFF)
PATCH: Final = 1
NORTH: Final = 0
SOUTH: Final = 1
LOGIN_REFUSED: Final = "unknown user or wrong password"  # never which of the two


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """What one side of a link is and wants.

    `resolution` is the octet of INIT. `accounts` makes an acceptor demand one of these users;
    `user` and `password` make an opener insist on being asked. `link_len_max` is the longest batch
    the link can carry, its prefix included.
    """

    zid: bytes
    whatami: int
    lease_ms: int = 10_000
    batch_len: int = BATCH_LEN_MAX
    resolution: int = RESOLUTION_DEFAULT
    qos: bool = True
    qos_link: QosLink | None = None
    patch: int = PATCH
    low_latency: bool = False
    compression: bool = False
    region_name: str | None = None
    remote_bound: int | None = None
    user: str | None = None
    password: Secret | None = None
    accounts: Mapping[bytes, Secret] | None = field(default=None, repr=False)
    link_len_max: int = BATCH_LEN_MAX

    def __post_init__(self) -> None:
        if self.low_latency and (self.qos or self.compression):
            raise InvalidValueError("offer", "low latency excludes QoS and compression")
        if self.qos_link is not None and not self.qos:
            raise InvalidValueError("offer", "a link's priorities need QoS")
        if (self.user is None) != (self.password is None):
            raise InvalidValueError("offer", "user and password come together")
        if self.remote_bound not in (None, NORTH, SOUTH):
            raise InvalidValueError("offer", f"remote bound is 0 or 1, got {self.remote_bound}")
        if self.region_name is not None:
            length = len(self.region_name.encode())
            if not 1 <= length <= REGION_NAME_LEN_MAX:
                raise InvalidValueError(
                    "offer", f"a region name has 1 to {REGION_NAME_LEN_MAX} octets, got {length}"
                )
        if self.lease_ms < 1:
            raise InvalidValueError("offer", f"a lease has at least 1 ms, got {self.lease_ms}")
        if not BATCH_LEN_MIN <= self.batch_len_max <= BATCH_LEN_MAX:
            raise InvalidValueError(
                "offer",
                f"a batch has {BATCH_LEN_MIN} to {BATCH_LEN_MAX} octets, got {self.batch_len_max}",
            )

    @property
    def batch_len_max(self) -> int:
        """The longest batch this side takes on this link."""
        return min(self.batch_len, self.link_len_max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What the INIT exchange settled; an acceptor keeps it inside the cookie."""

    peer_zid: bytes
    peer_whatami: int
    batch_len: int
    resolution: int
    qos: bool
    patch: int
    low_latency: bool
    compression: bool
    qos_link: QosLink | None = None
    peer_region_name: str | None = None
    nonce: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreed:
    """What is in force on an established link."""

    peer_zid: bytes
    peer_whatami: int
    batch_len: int
    sn_mask: int
    qos: bool
    patch: int
    low_latency: bool
    compression: bool
    own_lease_ms: int
    peer_lease_ms: int
    own_initial_sn: int
    peer_initial_sn: int
    opener: bool
    request_id_max: int = REQUEST_ID_MAXES[2]
    qos_link: QosLink | None = None
    peer_region_name: str | None = None
    peer_remote_bound: int | None = None
    peer_user: str | None = None

    def joins(self, other: Agreed) -> bool:
        """Whether a link with these terms may join a transport with those of `other`.

        Batch length, leases, first sequence numbers and compression may differ between the links
        of one transport (behaviour.md 1.7).
        """
        return (
            self.peer_zid == other.peer_zid
            and self.peer_whatami == other.peer_whatami
            and self.sn_mask == other.sn_mask
            and self.request_id_max == other.request_id_max
            and self.qos == other.qos
            and self.patch == other.patch
            and not self.low_latency
            and not other.low_latency
            and self.peer_user == other.peer_user
            and self.peer_region_name == other.peer_region_name
            and self.peer_remote_bound == other.peer_remote_bound
        )


def initial_sn(own_zid: bytes, peer_zid: bytes, mask: int) -> int:
    """The first sequence number of `own_zid` towards `peer_zid`: the same on all links.

    Example:
        >>> initial_sn(b"\\xaa", bytes.fromhex("a8a7a6a5a4a3a2a1"), 0x0FFF_FFFF)
        260561493
    """
    digest = hashlib.shake_128(own_zid + peer_zid).digest(4)
    return int.from_bytes(digest, "little") & mask


# INIT


def init_syn(offer: Offer) -> Init:
    """The first message of an opener."""
    return Init(
        offer.zid,
        offer.whatami,
        resolution=offer.resolution,
        batch_len=offer.batch_len_max,
        qos=offer.qos and offer.qos_link is None,
        qos_link=offer.qos_link,
        auth=None if offer.user is None else usrpwd.entry(),
        low_latency=offer.low_latency,
        compression=_offers_compression(offer),
        patch=offer.patch,
        region_name=offer.region_name,
    )


def answer_init(offer: Offer, syn: Init, nonce: int) -> Terms:
    """What an acceptor grants to an InitSyn; `nonce` is fresh, in case it must authenticate."""
    if syn.version != VERSION:
        raise refused(f"version {syn.version}, only {VERSION} is spoken", CloseReason.INVALID)
    if offer.accounts is not None and not usrpwd.has_entry(syn.auth):
        raise refused("user and password are required", CloseReason.GENERIC)
    qos_link = None
    qos = offer.qos and _asks_qos(syn)
    if qos:
        qos_link = _join_qos_links(syn.qos_link, offer.qos_link)
    return Terms(
        peer_zid=syn.zid,
        peer_whatami=syn.whatami,
        batch_len=_batch_len(offer, syn),
        resolution=_least_resolution(offer.resolution, syn.resolution),
        qos=qos,
        patch=min(offer.patch, syn.patch),
        low_latency=offer.low_latency and syn.low_latency,
        compression=_offers_compression(offer) and syn.compression,
        qos_link=qos_link,
        peer_region_name=syn.region_name,
        nonce=None if offer.accounts is None else nonce,
    )


def init_ack(offer: Offer, terms: Terms, cookie: bytes) -> Init:
    """An acceptor's answer to InitSyn."""
    return Init(
        offer.zid,
        offer.whatami,
        resolution=terms.resolution,
        batch_len=terms.batch_len,
        cookie=cookie,
        qos=terms.qos and terms.qos_link is None,
        qos_link=terms.qos_link,
        auth=None if terms.nonce is None else usrpwd.challenge(terms.nonce),
        low_latency=terms.low_latency,
        compression=terms.compression,
        patch=terms.patch,
        region_name=offer.region_name,
    )


def accept_init_ack(offer: Offer, ack: Init) -> Terms:
    """What an opener makes of InitAck. Its version is not checked, as in every node."""
    if _least_resolution(offer.resolution, ack.resolution) != ack.resolution & 0x0F:
        raise refused(
            f"resolution 0x{ack.resolution:02x} is above the offered 0x{offer.resolution:02x}",
            CloseReason.INVALID,
        )
    if ack.patch > offer.patch:
        raise refused(f"patch {ack.patch} is above the offered {offer.patch}", CloseReason.GENERIC)
    qos = _asks_qos(ack)
    for name, granted, offered in (
        ("QoS", qos, offer.qos),
        ("low latency", ack.low_latency, offer.low_latency),
        ("compression", ack.compression, _offers_compression(offer)),
    ):
        if granted and not offered:
            raise refused(f"{name} was granted but not offered", CloseReason.GENERIC)
    nonce = None
    if offer.user is not None:
        nonce = usrpwd.nonce_of(ack.auth)
        if nonce is None:
            raise refused("the acceptor does not authenticate users", CloseReason.GENERIC)
    return Terms(
        peer_zid=ack.zid,
        peer_whatami=ack.whatami,
        batch_len=_batch_len(offer, ack),
        resolution=ack.resolution & 0x0F,
        qos=qos,
        patch=ack.patch,
        low_latency=ack.low_latency,
        compression=ack.compression,
        qos_link=_join_qos_links(offer.qos_link, ack.qos_link) if qos else None,
        peer_region_name=ack.region_name,
        nonce=nonce,
    )


# OPEN


def open_syn(offer: Offer, terms: Terms, cookie: bytes) -> Open:
    """An opener's second message."""
    message = _open(offer, terms)
    message.cookie = cookie
    if offer.user is not None and offer.password is not None and terms.nonce is not None:
        message.auth = usrpwd.answer(offer.user, offer.password, terms.nonce)
    return message


def accept_open_syn(offer: Offer, terms: Terms, syn: Open) -> Agreed:
    """What an acceptor makes of OpenSyn, whose cookie has been checked."""
    user = None
    if offer.accounts is not None and terms.nonce is not None:
        user = usrpwd.proven_user(syn.auth, offer.accounts, terms.nonce)
        if user is None:
            raise refused(LOGIN_REFUSED, CloseReason.GENERIC)
    return _agreed(offer, terms, syn, opener=False, user=user)


def open_ack(offer: Offer, terms: Terms) -> Open:
    """An acceptor's last message."""
    message = _open(offer, terms)
    if terms.nonce is not None:
        message.auth = usrpwd.entry()
    return message


def accept_open_ack(offer: Offer, terms: Terms, ack: Open) -> Agreed:
    """What an opener makes of OpenAck."""
    if offer.user is not None and not usrpwd.has_entry(ack.auth):
        raise refused("the acceptor did not confirm the user", CloseReason.GENERIC)
    return _agreed(offer, terms, ack, opener=True, user=None)


def refused(reason: str, close_reason: int) -> RemoteProtocolError:
    """The error for an offer that cannot be taken."""
    error = RemoteProtocolError(reason)
    error.close_reason = close_reason
    return error


def _open(offer: Offer, terms: Terms) -> Open:
    whole_seconds = offer.lease_ms % 1_000 == 0
    return Open(
        offer.lease_ms // 1_000 if whole_seconds else offer.lease_ms,
        initial_sn(offer.zid, terms.peer_zid, sn_mask(terms)),
        lease_in_seconds=whole_seconds,
        remote_bound=offer.remote_bound,
    )


def _agreed(
    offer: Offer, terms: Terms, message: Open, *, opener: bool, user: bytes | None
) -> Agreed:
    mask = sn_mask(terms)
    if message.initial_sn > mask:
        raise refused(
            f"initial sn {message.initial_sn} is above {mask}, the largest", CloseReason.INVALID
        )
    if message.remote_bound not in (None, NORTH, SOUTH):
        raise refused(f"remote bound is 0 or 1, got {message.remote_bound}", CloseReason.GENERIC)
    return Agreed(
        peer_zid=terms.peer_zid,
        peer_whatami=terms.peer_whatami,
        batch_len=terms.batch_len,
        sn_mask=mask,
        request_id_max=REQUEST_ID_MAXES[terms.resolution >> 2 & 3],
        qos=terms.qos,
        patch=terms.patch,
        low_latency=terms.low_latency,
        compression=terms.compression,
        own_lease_ms=offer.lease_ms,
        peer_lease_ms=message.lease_ms,
        own_initial_sn=initial_sn(offer.zid, terms.peer_zid, mask),
        peer_initial_sn=message.initial_sn,
        opener=opener,
        qos_link=terms.qos_link,
        peer_region_name=terms.peer_region_name,
        peer_remote_bound=message.remote_bound,
        peer_user=None if user is None else user.decode("utf-8", "replace"),
    )


def sn_mask(terms: Terms) -> int:
    """The largest sequence number under `terms`."""
    return SN_MASKS[terms.resolution & 3]


def _batch_len(offer: Offer, init: Init) -> int:
    length = min(offer.batch_len_max, init.batch_len)
    if length < BATCH_LEN_MIN:
        raise refused(
            f"batches of {length} octets, at least {BATCH_LEN_MIN} are needed", CloseReason.INVALID
        )
    return length


def _least_resolution(one: int, other: int) -> int:
    return min(one & 0x03, other & 0x03) | min(one & 0x0C, other & 0x0C)


def _offers_compression(offer: Offer) -> bool:
    return offer.compression and compression.available()


def _asks_qos(init: Init) -> bool:
    if init.qos and init.qos_link is not None:
        raise refused("both QoS and QoSLink were sent", CloseReason.GENERIC)
    link = init.qos_link
    if link is None:
        return init.qos
    return link.qos or link.priorities is not None or link.reliable is not None


def _join_qos_links(opener: QosLink | None, acceptor: QosLink | None) -> QosLink | None:
    """What a link is restricted to: the opener's range lies inside the acceptor's (5.4.2)."""
    inner = QosLink() if opener is None else opener
    outer = QosLink() if acceptor is None else acceptor
    if inner.priorities is not None and outer.priorities is not None:
        (first, last), (lowest, highest) = inner.priorities, outer.priorities
        if first < lowest or last > highest:
            raise refused(
                f"priorities {first}-{last} are not within {lowest}-{highest}",
                CloseReason.GENERIC,
            )
    if None not in (inner.reliable, outer.reliable) and inner.reliable != outer.reliable:
        raise refused("the two sides disagree on the link's reliability", CloseReason.GENERIC)
    priorities = outer.priorities if inner.priorities is None else inner.priorities
    reliable = outer.reliable if inner.reliable is None else inner.reliable
    if priorities is None and reliable is None:
        return None
    return QosLink(priorities=priorities, reliable=reliable)
