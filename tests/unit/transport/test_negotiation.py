"""Negotiation: what is agreed, and every reason to refuse."""

from __future__ import annotations

from dataclasses import fields

import pytest
from tests.pairs import acceptor_offer, agree, opener_offer, seeded, shake_hands

from elea.errors import InvalidValueError, RemoteProtocolError
from elea.secret import Secret
from elea.transport import usrpwd
from elea.transport.cookie import CookieJar
from elea.transport.exchange import (
    accept_init_ack,
    accept_open_ack,
    accept_open_syn,
    answer_init,
    init_ack,
    init_syn,
    open_syn,
)
from elea.transport.handshake import Acceptor, Failure, Opener
from elea.transport.negotiation import OPTIONS, SN_MASKS, Agreed, Offer, Terms, initial_sn, sn_mask
from elea.wire import compression
from elea.wire.extensions import Extension
from elea.wire.transport.close import CloseReason
from elea.wire.transport.establishment import PublicKey, QosLink, ShmProbe
from elea.wire.transport.init import Init
from elea.wire.transport.open import Open

ACCOUNTS = {b"alice": Secret("wonderland"), b"bob": Secret("builder")}


def test_every_part_of_the_terms_is_an_option_that_a_cookie_keeps() -> None:
    settled = [option.name for option in OPTIONS if option.sealed is not None]
    told = ["peer_zid", "peer_whatami"]
    assert sorted([*told, *settled]) == sorted(one.name for one in fields(Terms))


def test_what_links_of_a_transport_share_is_named_as_it_is_agreed() -> None:
    agreed = {one.name for one in fields(Agreed)}
    assert {name for option in OPTIONS for name in option.shared} < agreed


def terms_of(opening: Offer, accepting: Offer) -> Terms:
    return answer_init(accepting, init_syn(opening), nonce=7)


def failure(opening: Offer, accepting: Offer) -> tuple[Failure | None, Failure | None]:
    """How a handshake fails: the opener's view and the acceptor's."""
    opener = Opener(opening, 0)
    acceptor = Acceptor(accepting, CookieJar(seeded()), "x", 0)
    shake_hands(opener, acceptor)
    return opener.failure, acceptor.failure


def refuses_init_ack(offer: Offer, ack: Init) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        accept_init_ack(offer, ack)
    return caught.value


# Version, resolution, batch length


@pytest.mark.parametrize("version", [0, 8, 10, 255])
def test_an_acceptor_speaks_one_version(version: int) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        answer_init(acceptor_offer(), Init(b"\x0a", 2, version=version), 0)
    assert caught.value.close_reason == CloseReason.INVALID


def test_an_opener_does_not_look_at_the_version() -> None:
    assert accept_init_ack(opener_offer(), Init(b"\x0b", 0, version=8, cookie=b"")).patch == 0


@pytest.mark.parametrize(
    ("own", "peer", "granted"),
    [(0x0A, 0x0A, 0x0A), (0x0A, 0x05, 0x05), (0x05, 0x0A, 0x05), (0x06, 0x09, 0x05),
     (0x0A, 0xF0, 0x00), (0x0A, 0x0F, 0x0A)],
)  # fmt: skip
def test_resolutions_are_the_smaller_per_field(own: int, peer: int, granted: int) -> None:
    terms = terms_of(opener_offer(resolution=peer), acceptor_offer(resolution=own))
    assert terms.resolution == granted
    assert sn_mask(terms) == SN_MASKS[granted & 3]


@pytest.mark.parametrize("resolution", [0x0B, 0x0E, 0x0F])
def test_a_resolution_above_the_offer_is_refused(resolution: int) -> None:
    error = refuses_init_ack(opener_offer(), Init(b"\x0b", 0, resolution=resolution, cookie=b""))
    assert error.close_reason == CloseReason.INVALID


def test_a_default_resolution_above_a_smaller_offer_is_refused() -> None:
    error = refuses_init_ack(opener_offer(resolution=0x05), Init(b"\x0b", 0, cookie=b""))
    assert error.close_reason == CloseReason.INVALID


def test_the_batch_is_the_shortest_of_all() -> None:
    opening = opener_offer(batch_len=5_000, link_len_max=4_000)
    accepting = acceptor_offer(batch_len=3_000)
    one, other = agree(opening, accepting)
    assert one.batch_len == other.batch_len == 3_000
    assert init_syn(opening).batch_len == 4_000


@pytest.mark.parametrize("batch_len", [0, 1, 63])
def test_tiny_batches_are_refused_by_both_sides(batch_len: int) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        answer_init(acceptor_offer(), Init(b"\x0a", 2, batch_len=batch_len), 0)
    assert caught.value.close_reason == CloseReason.INVALID
    error = refuses_init_ack(opener_offer(), Init(b"\x0b", 0, batch_len=batch_len, cookie=b""))
    assert error.close_reason == CloseReason.INVALID


def test_the_smallest_batch_is_taken() -> None:
    assert agree(opener_offer(batch_len=64), acceptor_offer())[0].batch_len == 64


# Features


def test_a_feature_is_in_force_only_if_both_want_it() -> None:
    for one in (False, True):
        for other in (False, True):
            agreed, _ = agree(
                opener_offer(qos=one, compression=other), acceptor_offer(qos=other, compression=one)
            )
            assert agreed.qos == (one and other)
            assert agreed.compression == (one and other)
            lean, _ = agree(
                opener_offer(qos=False, low_latency=one),
                acceptor_offer(qos=False, low_latency=other),
            )
            assert lean.low_latency == (one and other)


def test_compression_needs_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "lz4_block", None)
    assert not init_syn(opener_offer(compression=True)).compression
    assert not terms_of(opener_offer(), acceptor_offer(compression=True)).compression


@pytest.mark.parametrize(
    "ack",
    [
        Init(b"\x0b", 0, cookie=b"", qos=True),
        Init(b"\x0b", 0, cookie=b"", qos_link=QosLink(qos=True)),
        Init(b"\x0b", 0, cookie=b"", low_latency=True),
        Init(b"\x0b", 0, cookie=b"", compression=True),
    ],
)
def test_what_was_not_offered_cannot_be_granted(ack: Init) -> None:
    error = refuses_init_ack(opener_offer(qos=False), ack)
    assert error.close_reason == CloseReason.GENERIC


@pytest.mark.parametrize(("own", "peer", "granted"), [(1, 1, 1), (1, 0, 0), (0, 1, 0), (1, 9, 1)])
def test_the_patch_is_the_smaller(own: int, peer: int, granted: int) -> None:
    assert terms_of(opener_offer(patch=peer), acceptor_offer(patch=own)).patch == granted


def test_a_patch_above_the_offer_is_refused() -> None:
    error = refuses_init_ack(opener_offer(), Init(b"\x0b", 0, cookie=b"", patch=2))
    assert error.close_reason == CloseReason.GENERIC


def test_multilink_and_shared_memory_are_neither_offered_nor_echoed() -> None:
    syn = Init(
        b"\x0a", 2, qos=True, shm=ShmProbe(segment=5),
        multilink=PublicKey(modulus=b"n", exponent=b"e"),
    )  # fmt: skip
    ack = init_ack(acceptor_offer(), answer_init(acceptor_offer(), syn, 0), b"c")
    for message in (ack, init_syn(opener_offer())):
        assert message.shm is None
        assert message.multilink is None


# QoSLink


def link(priorities: tuple[int, int] | None = None, reliable: bool | None = None) -> QosLink:
    return QosLink(priorities=priorities, reliable=reliable)


@pytest.mark.parametrize(
    ("opener", "acceptor", "agreed"),
    [
        (link((2, 5), True), None, link((2, 5), True)),
        (None, link((0, 3)), link((0, 3))),
        (link((2, 3)), link((1, 5), False), link((2, 3), False)),
        (link(None, True), link((1, 5)), link((1, 5), True)),
        (None, None, None),
        (QosLink(qos=True), None, None),
    ],
)
def test_link_restrictions_are_joined(
    opener: QosLink | None, acceptor: QosLink | None, agreed: QosLink | None
) -> None:
    one, other = agree(opener_offer(qos_link=opener), acceptor_offer(qos_link=acceptor))
    assert one.qos_link == other.qos_link == agreed
    assert one.qos
    assert other.qos


@pytest.mark.parametrize(
    ("opener", "acceptor"),
    [
        (link((0, 5)), link((1, 5))),
        (link((1, 6)), link((1, 5))),
        (link(None, True), link(None, False)),
    ],
)
def test_contradicting_link_restrictions_are_refused(opener: QosLink, acceptor: QosLink) -> None:
    here, there = failure(opener_offer(qos_link=opener), acceptor_offer(qos_link=acceptor))
    assert there is not None
    assert there.close_reason == CloseReason.GENERIC
    assert here is not None
    assert here.by_peer


def test_qos_and_qos_link_together_are_refused() -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        answer_init(acceptor_offer(), Init(b"\x0a", 2, qos=True, qos_link=QosLink(qos=True)), 0)
    assert caught.value.close_reason == CloseReason.GENERIC


def test_an_empty_qos_link_asks_for_no_qos() -> None:
    assert not answer_init(acceptor_offer(), Init(b"\x0a", 2, qos_link=QosLink()), 0).qos


# OPEN


@pytest.mark.parametrize(
    ("lease_ms", "lease", "seconds"), [(10_000, 10, True), (1_500, 1_500, False)]
)
def test_a_lease_of_whole_seconds_travels_in_seconds(
    lease_ms: int, lease: int, seconds: bool
) -> None:
    offer = opener_offer(lease_ms=lease_ms)
    message = open_syn(offer, terms_of(acceptor_offer(), offer), b"")
    assert (message.lease, message.lease_in_seconds, message.lease_ms) == (lease, seconds, lease_ms)


@pytest.mark.parametrize("bound", [2, 3, 2**63])
def test_a_strange_remote_bound_is_refused(bound: int) -> None:
    offer = acceptor_offer()
    terms = terms_of(opener_offer(), offer)
    for accept in (accept_open_syn, accept_open_ack):
        with pytest.raises(RemoteProtocolError) as caught:
            accept(offer, terms, Open(10, 0, remote_bound=bound))
        assert caught.value.close_reason == CloseReason.GENERIC


def test_an_initial_sn_above_the_mask_is_refused() -> None:
    offer = acceptor_offer(resolution=0x00)
    terms = terms_of(opener_offer(), offer)
    accept_open_ack(offer, terms, Open(10, 0x7F))
    with pytest.raises(RemoteProtocolError) as caught:
        accept_open_ack(offer, terms, Open(10, 0x80))
    assert caught.value.close_reason == CloseReason.INVALID


@pytest.mark.parametrize("mask", SN_MASKS)
def test_the_initial_sn_depends_on_both_nodes_and_fits_the_mask(mask: int) -> None:
    assert initial_sn(b"\x01", b"\x02", mask) <= mask
    assert initial_sn(b"\x01", b"\x02", SN_MASKS[2]) != initial_sn(b"\x02", b"\x01", SN_MASKS[2])


# User and password


def user(name: str, password: str) -> Offer:
    return opener_offer(user=name, password=Secret(password))


def test_the_right_password_names_the_user() -> None:
    one, other = agree(user("alice", "wonderland"), acceptor_offer(accounts=ACCOUNTS))
    assert other.peer_user == "alice"
    assert one.peer_user is None


@pytest.mark.parametrize(
    "opening",
    [
        user("alice", "builder"),
        user("carol", "wonderland"),
        user("carol", usrpwd._NOBODY.reveal()),
        user("", ""),
        opener_offer(),
    ],
    ids=["wrong password", "unknown user", "nobody's password", "empty", "no credentials"],
)
def test_whoever_proves_nothing_is_refused(opening: Offer) -> None:
    here, there = failure(opening, acceptor_offer(accounts=ACCOUNTS))
    assert there is not None
    assert (there.close_reason, there.by_peer) == (CloseReason.GENERIC, False)
    assert here is not None
    assert (here.close_reason, here.by_peer) == (CloseReason.GENERIC, True)
    assert "wonderland" not in repr((here, there, opening))


def test_an_opener_with_credentials_insists_on_being_asked() -> None:
    here, there = failure(user("alice", "wonderland"), acceptor_offer())
    assert here is not None
    assert (here.close_reason, here.by_peer) == (CloseReason.GENERIC, False)
    assert there is not None
    assert there.by_peer


def test_an_opener_with_credentials_insists_on_being_confirmed() -> None:
    offer = user("alice", "wonderland")
    terms = accept_init_ack(offer, Init(b"\x0b", 0, cookie=b"", auth=(Extension(0x22, 7),)))
    with pytest.raises(RemoteProtocolError) as caught:
        accept_open_ack(offer, terms, Open(10, 0))
    assert caught.value.close_reason == CloseReason.GENERIC


@pytest.mark.parametrize(
    "auth",
    [None, (), (Extension(0x02),), (Extension(0x42, b"\x05alice"),), (Extension(0x41, b"x"),)],
)
def test_a_malformed_proof_is_refused(auth: tuple[Extension, ...] | None) -> None:
    offer = acceptor_offer(accounts=ACCOUNTS)
    terms = terms_of(user("alice", "wonderland"), offer)
    with pytest.raises(RemoteProtocolError) as caught:
        accept_open_syn(offer, terms, Open(10, 0, cookie=b"", auth=auth))
    assert caught.value.close_reason == CloseReason.GENERIC


def test_each_handshake_gets_another_nonce() -> None:
    jar = CookieJar(seeded())
    nonces = set()
    for _ in range(5):
        opener = Opener(user("alice", "wonderland"), 0)
        acceptor = Acceptor(acceptor_offer(accounts=ACCOUNTS), jar, "x", 0)
        acceptor.receive_batch(opener.outgoing()[0], 0)
        assert acceptor._terms is not None
        nonces.add(acceptor._terms.nonce)
    assert len(nonces) == 5


# Offers that make no sense


@pytest.mark.parametrize(
    "changes",
    [
        {"low_latency": True},
        {"low_latency": True, "qos": False, "compression": True},
        {"qos": False, "qos_link": QosLink(priorities=(1, 2))},
        {"user": "alice"},
        {"password": Secret("x")},
        {"remote_bound": 2},
        {"region_name": ""},
        {"region_name": "ä" * 17},
        {"batch_len": 63},
        {"link_len_max": 10},
        {"batch_len": 65_536, "link_len_max": 65_536},
        {"lease_ms": 0},
    ],
)
def test_an_impossible_offer_is_refused_here(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidValueError, match="no offer"):
        opener_offer(**changes)


# Joining links


def test_links_join_if_what_concerns_the_transport_is_equal() -> None:
    first, _ = agree(opener_offer(), acceptor_offer())
    for opening, accepting, joins in (
        (opener_offer(batch_len=1_000, lease_ms=500, compression=True),
         acceptor_offer(compression=True), True),
        (opener_offer(), acceptor_offer(zid=b"\x0c"), False),
        (opener_offer(), acceptor_offer(whatami=1), False),
        (opener_offer(resolution=0x05), acceptor_offer(), False),
        (opener_offer(qos=False), acceptor_offer(), False),
        (opener_offer(patch=0), acceptor_offer(), False),
        (opener_offer(), acceptor_offer(region_name="r"), False),
        (opener_offer(), acceptor_offer(remote_bound=1), False),
    ):  # fmt: skip
        other, _ = agree(opening, accepting)
        assert other.joins(first) == joins
        assert first.joins(other) == joins


def test_low_latency_has_one_link() -> None:
    agreed, _ = agree(
        opener_offer(qos=False, low_latency=True), acceptor_offer(qos=False, low_latency=True)
    )
    assert not agreed.joins(agreed)
