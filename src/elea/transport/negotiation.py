"""What the two sides of a link settle: one option, one row of `OPTIONS`. wire.md 5.3, 5.4.

    Offer --ask--> InitSyn --grant--> Terms --answer--> InitAck --accept--> Terms
    Terms --prove--> OpenSyn --verify--> Agreed
                     Terms --confirm--> OpenAck --check--> Agreed

A row says how an option takes each of these steps, and how an acceptor seals its part of `Terms`
inside the cookie. `exchange.py` walks the rows; nothing else knows them. A new option is a row
here, with its fields of `Offer`, `Terms` and `Agreed`, and an extension in the message.

A row refuses by raising `RemoteProtocolError` with the reason that CLOSE will carry (behaviour.md
1.8). MultiLink and shared memory are neither offered nor answered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Self, TypeAlias

from elea.config.config import Config
from elea.errors import InvalidValueError, RemoteProtocolError
from elea.limits import BATCH_LEN_MAX, BATCH_LEN_MIN, REGION_NAME_LEN_MAX
from elea.records import dataclass, field
from elea.secret import Secret
from elea.transport import usrpwd
from elea.wire import compression
from elea.wire.buffer import Reader, Writer
from elea.wire.transport.close import CloseReason
from elea.wire.transport.establishment import QosLink, unpack_qos_link
from elea.wire.transport.init import RESOLUTION_DEFAULT, Init
from elea.wire.transport.open import Open

# Largest sequence number by the two bits of a resolution: 8, 16, 32, 64 bit (wire.md 5.9).
SN_MASKS: Final = (0x7F, 0x3FFF, 0x0FFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF)
# Largest request id by theirs: 64 bit means 32, which is all that messages carry (wire.md 2.11).
REQUEST_ID_MAXES: Final = (0xFF, 0xFFFF, 0xFFFF_FFFF, 0xFFFF_FFFF)
PATCH: Final = 1
NORTH: Final = 0
SOUTH: Final = 1
LOGIN_REFUSED: Final = "unknown user or wrong password"  # never which of the two
# Resolution octet of INIT by the configured sequence number resolution; request ids stay 32 bit.
_RESOLUTIONS: Final = {"8bit": 0x08, "16bit": 0x09, "32bit": 0x0A, "64bit": 0x0B}


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

    @classmethod
    def from_config(
        cls,
        config: Config,
        zid: bytes,
        accounts: Mapping[bytes, Secret] | None = None,
    ) -> Self:
        """Read a configuration; `accounts` are those that may connect, None for everybody."""
        return cls(
            zid=zid,
            whatami=config.mode.index,
            lease_ms=config.value("transport/link/tx/lease", int),
            batch_len=config.value("transport/link/tx/batch_size", int),
            resolution=_RESOLUTIONS[
                config.value("transport/link/tx/sequence_number_resolution", str)
            ],
            qos=config.value("transport/unicast/qos/enabled", bool),
            low_latency=config.value("transport/unicast/lowlatency", bool),
            compression=config.value("transport/unicast/compression/enabled", bool),
            region_name=_text(config.get("region_name")),
            user=_text(config.get("transport/auth/usrpwd/user")),
            password=config.secret("transport/auth/usrpwd/password"),
            accounts=accounts,
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
        """Whether a link with these terms may join a transport with those of `other`."""
        same_peer = self.peer_zid == other.peer_zid and self.peer_whatami == other.peer_whatami
        return same_peer and all(option.joins(self, other) for option in OPTIONS)


def _text(value: object) -> str | None:
    if isinstance(value, Secret):
        return value.reveal()
    return value if isinstance(value, str) else None


def initial_sn(own_zid: bytes, peer_zid: bytes, mask: int) -> int:
    """The first sequence number of `own_zid` towards `peer_zid`: the same on all links.

    Example:
        >>> initial_sn(b"\\xaa", bytes.fromhex("a8a7a6a5a4a3a2a1"), 0x0FFF_FFFF)
        260561493
    """
    digest = hashlib.shake_128(own_zid + peer_zid).digest(4)
    return int.from_bytes(digest, "little") & mask


def refused(reason: str, close_reason: int) -> RemoteProtocolError:
    """The error for an offer that cannot be taken."""
    error = RemoteProtocolError(reason)
    error.close_reason = close_reason
    return error


# How a part of `Terms` is sealed inside a cookie.


@dataclass(frozen=True, slots=True)
class Sealed:
    """How values of one type are written and read; what we sealed is well-formed."""

    write: Callable[[Writer, Any], None]
    read: Callable[[Reader], Any]

    def or_none(self) -> Sealed:
        """The same for values that may be None."""

        def write(writer: Writer, value: Any) -> None:
            writer.u8(value is not None)
            if value is not None:
                self.write(writer, value)

        return Sealed(write, lambda reader: self.read(reader) if reader.u8("presence") else None)


FLAG: Final = Sealed(Writer.u8, lambda reader: reader.u8("flag") != 0)
NUMBER: Final = Sealed(Writer.z64, lambda reader: reader.z64("number"))
TEXT: Final = Sealed(Writer.text, lambda reader: reader.utf8(reader.z8("text length"), "text"))
QOS_LINK: Final = Sealed(
    lambda writer, value: writer.z64(value.pack()),
    lambda reader: unpack_qos_link(reader.z64("QoS link"), reader),
)


# The options.

Fields: TypeAlias = dict[str, Any]  # of `Agreed`


class Option:
    """One thing that two sides settle. Unless a row says otherwise nothing is sent or checked.

    Args:
        name: The field of `Terms`.
        sealed: How a cookie holds it; None: it is no part of `Terms`.
        shared: The fields of `Agreed` that all links of one transport have in common
            (behaviour.md 1.7).
    """

    __slots__ = ("name", "sealed", "shared")

    def __init__(self, name: str, sealed: Sealed | None, shared: tuple[str, ...] = ()) -> None:
        self.name = name
        self.sealed = sealed
        self.shared = shared

    def ask(self, offer: Offer, syn: Init) -> None:
        """Put into InitSyn what an opener wants."""

    def grant(self, offer: Offer, syn: Init, nonce: int) -> Any:
        """Return what an acceptor grants to an InitSyn; `nonce` is fresh, for a challenge."""

    def answer(self, offer: Offer, terms: Terms, ack: Init) -> None:
        """Put into InitAck what was granted."""

    def accept(self, offer: Offer, ack: Init) -> Any:
        """Return what an opener makes of InitAck; by default what it would grant itself."""
        return self.grant(offer, ack, 0)

    def prove(self, offer: Offer, terms: Terms, message: Open) -> None:
        """Put into OpenSyn what an acceptor waits for."""

    def verify(self, offer: Offer, terms: Terms, message: Open) -> Fields:
        """Check an OpenSyn, whose cookie is valid; return what it brings into force.

        Fields that `Terms` and `Agreed` have in common are in force anyway.
        """
        return {}

    def confirm(self, offer: Offer, terms: Terms, message: Open) -> None:
        """Put into OpenAck what an opener waits for."""

    def check(self, offer: Offer, terms: Terms, message: Open) -> Fields:
        """Check an OpenAck; return what it brings into force."""
        return {}

    def joins(self, one: Agreed, other: Agreed) -> bool:
        """Whether two links may belong to one transport."""
        return all(getattr(one, name) == getattr(other, name) for name in self.shared)


class Value(Option):
    """A value that is called the same in `Offer`, INIT, `Terms` and `Agreed`."""

    __slots__ = ()

    def ask(self, offer: Offer, syn: Init) -> None:
        setattr(syn, self.name, getattr(offer, self.name))

    def answer(self, offer: Offer, terms: Terms, ack: Init) -> None:
        setattr(ack, self.name, getattr(terms, self.name))


class Flag(Value):
    """Something that is in force if both sides want it; `title` is what errors call it."""

    __slots__ = ("_title",)

    def __init__(self, name: str, title: str, shared: tuple[str, ...] = ()) -> None:
        super().__init__(name, FLAG, shared)
        self._title = title

    def wants(self, offer: Offer) -> bool:
        """Whether this side wants it."""
        return bool(getattr(offer, self.name))

    def has(self, init: Init) -> bool:
        """Whether a message says it."""
        return bool(getattr(init, self.name))

    def ask(self, offer: Offer, syn: Init) -> None:
        setattr(syn, self.name, self.wants(offer))

    def grant(self, offer: Offer, syn: Init, nonce: int) -> bool:
        return self.wants(offer) and self.has(syn)

    def accept(self, offer: Offer, ack: Init) -> bool:
        granted = self.has(ack)
        if granted and not self.wants(offer):
            raise refused(f"{self._title} was granted but not offered", CloseReason.GENERIC)
        return granted


class Compression(Flag):
    """Compressed batches, where LZ4 is installed."""

    __slots__ = ()

    def wants(self, offer: Offer) -> bool:
        return offer.compression and compression.available()


class LowLatency(Flag):
    """Bare messages; a transport with it has one link."""

    __slots__ = ()

    def joins(self, one: Agreed, other: Agreed) -> bool:
        return not one.low_latency and not other.low_latency


class Qos(Flag):
    """Priorities: asked for by QoS, or by QoSLink if there is one."""

    __slots__ = ()

    def has(self, init: Init) -> bool:
        if init.qos and init.qos_link is not None:
            raise refused("both QoS and QoSLink were sent", CloseReason.GENERIC)
        link = init.qos_link
        if link is None:
            return init.qos
        return link.qos or link.priorities is not None or link.reliable is not None

    def ask(self, offer: Offer, syn: Init) -> None:
        syn.qos = offer.qos and offer.qos_link is None

    def answer(self, offer: Offer, terms: Terms, ack: Init) -> None:
        ack.qos = terms.qos and terms.qos_link is None


class LinkQos(Value):
    """The priorities and the reliability that a link is for (QoSLink)."""

    __slots__ = ()

    def grant(self, offer: Offer, syn: Init, nonce: int) -> QosLink | None:
        qos = _QOS.grant(offer, syn, nonce)
        return _join_qos_links(syn.qos_link, offer.qos_link) if qos else None

    def accept(self, offer: Offer, ack: Init) -> QosLink | None:
        return _join_qos_links(offer.qos_link, ack.qos_link) if _QOS.has(ack) else None


class BatchLen(Value):
    """The longest batch: the shorter one of both sides."""

    __slots__ = ()

    def ask(self, offer: Offer, syn: Init) -> None:
        syn.batch_len = offer.batch_len_max

    def grant(self, offer: Offer, syn: Init, nonce: int) -> int:
        length = min(offer.batch_len_max, syn.batch_len)
        if length < BATCH_LEN_MIN:
            raise refused(
                f"batches of {length} octets, at least {BATCH_LEN_MIN} are needed",
                CloseReason.INVALID,
            )
        return length


class Resolution(Value):
    """How far sequence numbers and request ids count: the smaller one of both sides, each."""

    __slots__ = ()

    def grant(self, offer: Offer, syn: Init, nonce: int) -> int:
        return _least_resolution(offer.resolution, syn.resolution)

    def accept(self, offer: Offer, ack: Init) -> int:
        if _least_resolution(offer.resolution, ack.resolution) != ack.resolution & 0x0F:
            raise refused(
                f"resolution 0x{ack.resolution:02x} is above the offered 0x{offer.resolution:02x}",
                CloseReason.INVALID,
            )
        return ack.resolution & 0x0F

    def verify(self, offer: Offer, terms: Terms, message: Open) -> Fields:
        request_id_max = REQUEST_ID_MAXES[terms.resolution >> 2 & 3]
        return {"sn_mask": sn_mask(terms), "request_id_max": request_id_max}

    check = verify


class Patch(Value):
    """The version of fragmentation: the smaller one of both sides."""

    __slots__ = ()

    def grant(self, offer: Offer, syn: Init, nonce: int) -> int:
        return min(offer.patch, syn.patch)

    def accept(self, offer: Offer, ack: Init) -> int:
        if ack.patch > offer.patch:
            raise refused(
                f"patch {ack.patch} is above the offered {offer.patch}", CloseReason.GENERIC
            )
        return ack.patch


class RegionName(Option):
    """The region that each side says it is of."""

    __slots__ = ()

    def ask(self, offer: Offer, syn: Init) -> None:
        syn.region_name = offer.region_name

    def grant(self, offer: Offer, syn: Init, nonce: int) -> str | None:
        return syn.region_name

    def answer(self, offer: Offer, terms: Terms, ack: Init) -> None:
        ack.region_name = offer.region_name


class RemoteBound(Option):
    """Where each side tells the other that it is: north or south. In OPEN alone."""

    __slots__ = ()

    def prove(self, offer: Offer, terms: Terms, message: Open) -> None:
        message.remote_bound = offer.remote_bound

    def verify(self, offer: Offer, terms: Terms, message: Open) -> Fields:
        if message.remote_bound not in (None, NORTH, SOUTH):
            raise refused(
                f"remote bound is 0 or 1, got {message.remote_bound}", CloseReason.GENERIC
            )
        return {"peer_remote_bound": message.remote_bound}

    confirm, check = prove, verify


class Login(Option):
    """User and password: an acceptor with accounts sends a number, an opener proves its name."""

    __slots__ = ()

    def ask(self, offer: Offer, syn: Init) -> None:
        syn.auth = None if offer.user is None else usrpwd.entry()

    def grant(self, offer: Offer, syn: Init, nonce: int) -> int | None:
        if offer.accounts is None:
            return None
        if not usrpwd.has_entry(syn.auth):
            raise refused("user and password are required", CloseReason.GENERIC)
        return nonce

    def answer(self, offer: Offer, terms: Terms, ack: Init) -> None:
        ack.auth = None if terms.nonce is None else usrpwd.challenge(terms.nonce)

    def accept(self, offer: Offer, ack: Init) -> int | None:
        if offer.user is None:
            return None
        nonce = usrpwd.nonce_of(ack.auth)
        if nonce is None:
            raise refused("the acceptor does not authenticate users", CloseReason.GENERIC)
        return nonce

    def prove(self, offer: Offer, terms: Terms, message: Open) -> None:
        if offer.user is not None and offer.password is not None and terms.nonce is not None:
            message.auth = usrpwd.answer(offer.user, offer.password, terms.nonce)

    def verify(self, offer: Offer, terms: Terms, message: Open) -> Fields:
        if offer.accounts is None or terms.nonce is None:
            return {}
        user = usrpwd.proven_user(message.auth, offer.accounts, terms.nonce)
        if user is None:
            raise refused(LOGIN_REFUSED, CloseReason.GENERIC)
        return {"peer_user": user.decode("utf-8", "replace")}

    def confirm(self, offer: Offer, terms: Terms, message: Open) -> None:
        if terms.nonce is not None:
            message.auth = usrpwd.entry()

    def check(self, offer: Offer, terms: Terms, message: Open) -> Fields:
        if offer.user is not None and not usrpwd.has_entry(message.auth):
            raise refused("the acceptor did not confirm the user", CloseReason.GENERIC)
        return {}


def sn_mask(terms: Terms) -> int:
    """The largest sequence number under `terms`."""
    return SN_MASKS[terms.resolution & 3]


def _least_resolution(one: int, other: int) -> int:
    return min(one & 0x03, other & 0x03) | min(one & 0x0C, other & 0x0C)


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


_QOS: Final = Qos("qos", "QoS", shared=("qos",))
OPTIONS: Final[tuple[Option, ...]] = (  # the first that refuses gives the reason
    Login("nonce", NUMBER.or_none(), shared=("peer_user",)),
    _QOS,
    LinkQos("qos_link", QOS_LINK.or_none()),
    BatchLen("batch_len", NUMBER),
    Resolution("resolution", NUMBER, shared=("sn_mask", "request_id_max")),
    Patch("patch", NUMBER, shared=("patch",)),
    LowLatency("low_latency", "low latency"),
    Compression("compression", "compression"),
    RegionName("peer_region_name", TEXT.or_none(), shared=("peer_region_name",)),
    RemoteBound("peer_remote_bound", None, shared=("peer_remote_bound",)),
)
