"""INIT and OPEN made and read, by the rows of `negotiation.OPTIONS`. wire.md 5.3, 5.4.

Pure functions over messages: `init_syn` and `open_syn` for the opener, `answer_init`, `init_ack`
and `open_ack` for the acceptor, and one `accept_...` per message received. They refuse by raising
`RemoteProtocolError`.
"""

from __future__ import annotations

from typing import Final

from elea.transport.negotiation import (
    OPTIONS,
    Agreed,
    Fields,
    Offer,
    Option,
    Terms,
    initial_sn,
    refused,
    sn_mask,
)
from elea.wire.buffer import Reader, Writer
from elea.wire.transport.close import CloseReason
from elea.wire.transport.init import VERSION, Init
from elea.wire.transport.open import Open

_SETTLED: Final = [(one, one.sealed) for one in OPTIONS if one.sealed is not None]
_KEPT: Final = [name for name in Terms.__annotations__ if name in Agreed.__annotations__]


def _rows(step: str) -> list[Option]:
    """The options that do something at a step."""
    return [one for one in OPTIONS if getattr(type(one), step) is not getattr(Option, step)]


_ASK, _ANSWER = _rows("ask"), _rows("answer")
_PROVE, _VERIFY = _rows("prove"), _rows("verify")
_CONFIRM, _CHECK = _rows("confirm"), _rows("check")


def init_syn(offer: Offer) -> Init:
    """The first message of an opener."""
    syn = Init(offer.zid, offer.whatami)
    for option in _ASK:
        option.ask(offer, syn)
    return syn


def answer_init(offer: Offer, syn: Init, nonce: int) -> Terms:
    """What an acceptor grants to an InitSyn; `nonce` is fresh, in case it must authenticate."""
    if syn.version != VERSION:
        raise refused(f"version {syn.version}, only {VERSION} is spoken", CloseReason.INVALID)
    granted = {option.name: option.grant(offer, syn, nonce) for option, _ in _SETTLED}
    return Terms(peer_zid=syn.zid, peer_whatami=syn.whatami, **granted)


def init_ack(offer: Offer, terms: Terms, cookie: bytes) -> Init:
    """An acceptor's answer to InitSyn."""
    ack = Init(offer.zid, offer.whatami, cookie=cookie)
    for option in _ANSWER:
        option.answer(offer, terms, ack)
    return ack


def accept_init_ack(offer: Offer, ack: Init) -> Terms:
    """What an opener makes of InitAck. Its version is not checked, as in every node."""
    accepted = {option.name: option.accept(offer, ack) for option, _ in _SETTLED}
    return Terms(peer_zid=ack.zid, peer_whatami=ack.whatami, **accepted)


def write_terms(writer: Writer, terms: Terms) -> None:
    """Write what a cookie holds."""
    writer.block(terms.peer_zid)
    writer.u8(terms.peer_whatami)
    for option, sealed in _SETTLED:
        sealed.write(writer, getattr(terms, option.name))


def read_terms(reader: Reader) -> Terms:
    """Read what `write_terms` wrote."""
    zid = reader.take(reader.z8("zid length"), "zid")
    whatami = reader.u8("role")
    settled = {option.name: sealed.read(reader) for option, sealed in _SETTLED}
    return Terms(peer_zid=zid, peer_whatami=whatami, **settled)


def open_syn(offer: Offer, terms: Terms, cookie: bytes) -> Open:
    """An opener's second message."""
    syn = _open(offer, terms)
    syn.cookie = cookie
    for option in _PROVE:
        option.prove(offer, terms, syn)
    return syn


def accept_open_syn(offer: Offer, terms: Terms, syn: Open) -> Agreed:
    """What an acceptor makes of OpenSyn, whose cookie has been checked."""
    in_force = _kept(terms)
    for option in _VERIFY:
        in_force.update(option.verify(offer, terms, syn))
    return _agreed(offer, terms, syn, in_force, opener=False)


def open_ack(offer: Offer, terms: Terms) -> Open:
    """An acceptor's last message."""
    ack = _open(offer, terms)
    for option in _CONFIRM:
        option.confirm(offer, terms, ack)
    return ack


def accept_open_ack(offer: Offer, terms: Terms, ack: Open) -> Agreed:
    """What an opener makes of OpenAck."""
    in_force = _kept(terms)
    for option in _CHECK:
        in_force.update(option.check(offer, terms, ack))
    return _agreed(offer, terms, ack, in_force, opener=True)


def _open(offer: Offer, terms: Terms) -> Open:
    whole_seconds = offer.lease_ms % 1_000 == 0
    return Open(
        offer.lease_ms // 1_000 if whole_seconds else offer.lease_ms,
        initial_sn(offer.zid, terms.peer_zid, sn_mask(terms)),
        lease_in_seconds=whole_seconds,
    )


def _kept(terms: Terms) -> Fields:
    return {name: getattr(terms, name) for name in _KEPT}


def _agreed(offer: Offer, terms: Terms, message: Open, in_force: Fields, *, opener: bool) -> Agreed:
    mask = sn_mask(terms)
    if message.initial_sn > mask:
        raise refused(
            f"initial sn {message.initial_sn} is above {mask}, the largest", CloseReason.INVALID
        )
    return Agreed(
        own_lease_ms=offer.lease_ms,
        peer_lease_ms=message.lease_ms,
        own_initial_sn=initial_sn(offer.zid, terms.peer_zid, mask),
        peer_initial_sn=message.initial_sn,
        opener=opener,
        **in_force,
    )
