"""Opener and Acceptor: every pair of state and input, every refusal, both sides back to back."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from tests.meta.tree import ROOT
from tests.pairs import acceptor_offer, opener_offer, seeded, shake_hands

from elea.errors import LocalProtocolError
from elea.limits import DEFAULT_LIMITS
from elea.transport.cookie import CookieJar
from elea.transport.exchange import init_ack, open_ack
from elea.transport.handshake import (
    ACCEPTOR,
    ACCEPTOR_DATAGRAM,
    ACCEPTOR_STATES,
    FROM_CALLER,
    OPENER,
    OPENER_STATES,
    Acceptor,
    Failure,
    Input,
    Opener,
    State,
)
from elea.transport.negotiation import Offer
from elea.wire.batches import decode_batch
from elea.wire.codec import encode_one
from elea.wire.transport.close import Close, CloseReason
from elea.wire.transport.frame import Frame
from elea.wire.transport.init import Init
from elea.wire.transport.join import Join, NextSn
from elea.wire.transport.keepalive import KeepAlive
from elea.wire.transport.oam import TransportOam
from elea.wire.transport.open import Open

ADDRESS = "tcp/127.0.0.1:40000"
OVER = (State.OPENED, State.CLOSED)
FROM_PEER = [
    input_ for input_ in Input if input_ not in FROM_CALLER and input_ is not Input.TIMEOUT
]

Side = Opener | Acceptor


def opener_at(state: State) -> tuple[Opener, Acceptor]:
    """An opener in `state`, and the acceptor it talks to."""
    opener = Opener(opener_offer(), 0)
    acceptor = Acceptor(acceptor_offer(), CookieJar(seeded()), ADDRESS, 0)
    if state is State.INIT_SENT:
        return opener, acceptor
    if state is State.CLOSED:
        opener.receive_batch(encode_one(Close(CloseReason.GENERIC)), 0)
        return opener, acceptor
    [syn] = opener.outgoing()
    acceptor.receive_batch(syn, 0)
    [ack] = acceptor.outgoing()
    opener.receive_batch(ack, 0)
    if state is State.PEER_KNOWN:
        return opener, acceptor
    opener.proceed(0)
    if state is State.OPENED:
        shake_hands(opener, acceptor)
    return opener, acceptor


def acceptor_at(state: State, *, datagram: bool = False) -> tuple[Acceptor, Opener]:
    """An acceptor in `state`, and the opener it talks to."""
    opener = Opener(opener_offer(), 0)
    acceptor = Acceptor(acceptor_offer(), CookieJar(seeded()), ADDRESS, 0, datagram=datagram)
    if state is State.WAIT_INIT:
        return acceptor, opener
    if state is State.CLOSED:
        acceptor.receive_batch(encode_one(Close(CloseReason.GENERIC)), 0)
        return acceptor, opener
    [syn] = opener.outgoing()
    acceptor.receive_batch(syn, 0)
    [ack] = acceptor.outgoing()
    opener.receive_batch(ack, 0)
    opener.proceed(0)
    if state is State.INIT_ANSWERED:
        return acceptor, opener
    [open_syn] = opener.outgoing()
    acceptor.receive_batch(open_syn, 0)
    if state is State.OPENED:
        acceptor.admit(0)
    return acceptor, opener


def opener_batch(input_: Input, acceptor: Acceptor) -> bytes:
    """The octets of an input, right for an opener where it is legal."""
    terms = acceptor._terms
    if input_ is Input.OPEN_ACK and terms is not None:
        return encode_one(open_ack(acceptor_offer(), terms))
    if input_ is Input.INIT_ACK:
        probe = Opener(opener_offer(), 0)
        fresh = Acceptor(acceptor_offer(), CookieJar(seeded()), ADDRESS, 0)
        [syn] = probe.outgoing()
        fresh.receive_batch(syn, 0)
        return fresh.outgoing()[0]
    return any_batch(input_)


def any_batch(input_: Input) -> bytes:
    samples: dict[Input, bytes] = {
        Input.INIT_SYN: encode_one(Init(b"\x0a", 2)),
        Input.INIT_ACK: encode_one(Init(b"\x0b", 0, cookie=b"c")),
        Input.OPEN_SYN: encode_one(Open(10, 1, cookie=b"c")),
        Input.OPEN_ACK: encode_one(Open(10, 1)),
        Input.CLOSE: encode_one(Close(CloseReason.MAX_LINKS)),
        Input.OTHER: encode_one(KeepAlive()),
        Input.GARBAGE: b"\xff",
    }
    return samples[input_]


def apply(side: Side, input_: Input, batch: bytes | None) -> None:
    if input_ is Input.TIMEOUT:
        side.handle_timer(DEFAULT_LIMITS.handshake_ns)
    elif input_ is Input.REFUSE:
        side.refuse(CloseReason.MAX_LINKS)
    elif input_ is Input.PROCEED:
        assert isinstance(side, Opener)
        side.proceed(0)
    elif input_ is Input.ADMIT:
        assert isinstance(side, Acceptor)
        side.admit(0)
    else:
        assert batch is not None
        side.receive_batch(batch, 0)


def check_pair(
    side: Side, input_: Input, batch: bytes | None, table: dict[tuple[State, Input], State]
) -> None:
    before = side.state
    side.outgoing()
    following = table.get((before, input_))
    if following is not None:
        apply(side, input_, batch)
        assert side.state is following
        assert (side.failure is None) == (following is not State.CLOSED)
        assert (side.agreed is not None) == (following is State.OPENED)
    elif input_ is Input.TIMEOUT:
        apply(side, input_, batch)
        assert side.state is before
        assert side.next_timer_ns() is None
    elif before in OVER or input_ in FROM_CALLER:
        with pytest.raises(LocalProtocolError):
            apply(side, input_, batch)
        assert side.state is before
        assert side.outgoing() == []
    else:
        apply(side, input_, batch)
        assert side.state is State.CLOSED
        assert decode_batch(side.outgoing()[0]) == [Close(CloseReason.INVALID)]
        assert side.failure is not None
        assert side.failure.close_reason == CloseReason.INVALID
        assert not side.failure.by_peer


@pytest.mark.parametrize(
    ("state", "input_"),
    [pair for pair in itertools.product(OPENER_STATES, Input) if pair[1] is not Input.ADMIT],
)
def test_every_pair_of_the_opener(state: State, input_: Input) -> None:
    opener, acceptor = opener_at(state)
    if input_ is Input.OPEN_ACK and state is State.OPEN_SENT:
        acceptor.receive_batch(opener.outgoing()[0], 0)
    batch = opener_batch(input_, acceptor) if input_ in FROM_PEER else None
    check_pair(opener, input_, batch, OPENER)


@pytest.mark.parametrize(
    ("state", "input_", "datagram"),
    [
        (state, input_, datagram)
        for state, input_ in itertools.product(ACCEPTOR_STATES, Input)
        if input_ is not Input.PROCEED
        for datagram in (False, True)
    ],
)
def test_every_pair_of_the_acceptor(state: State, input_: Input, datagram: bool) -> None:
    acceptor, opener = acceptor_at(state, datagram=datagram)
    batch = None
    if input_ is Input.INIT_SYN:
        batch = encode_one(Init(b"\x0a", 2))
    elif input_ is Input.OPEN_SYN and state is State.INIT_ANSWERED:
        [batch] = opener.outgoing()
    elif input_ is Input.OPEN_SYN and state is State.WAIT_INIT:
        batch = open_syn_for(acceptor, opener)
    elif input_ in FROM_PEER:
        batch = any_batch(input_)
    check_pair(acceptor, input_, batch, ACCEPTOR_DATAGRAM if datagram else ACCEPTOR)


def open_syn_for(acceptor: Acceptor, opener: Opener) -> bytes:
    """An OpenSyn whose InitSyn was answered by another Acceptor of the same node."""
    forgotten = Acceptor(acceptor_offer(), acceptor._jar, ADDRESS, 0)
    forgotten.receive_batch(opener.outgoing()[0], 0)
    opener.receive_batch(forgotten.outgoing()[0], 0)
    opener.proceed(0)
    return opener.outgoing()[0]


def test_tables_name_only_their_own_states() -> None:
    for table, states in ((OPENER, OPENER_STATES), (ACCEPTOR_DATAGRAM, ACCEPTOR_STATES)):
        named = {state for state, _ in table} | set(table.values())
        assert named == set(states)


@pytest.mark.parametrize("table", [OPENER, ACCEPTOR], ids=["opener", "acceptor"])
def test_the_documentation_shows_the_table(table: dict[tuple[State, Input], State]) -> None:
    text = (ROOT / "docs" / "topics" / "transport.md").read_text(encoding="utf-8")
    for (state, input_), following in table.items():
        assert f"| {state.name} | {input_.value} | {following.name} |" in text


@pytest.mark.parametrize(
    "message",
    [
        Frame(1),
        TransportOam(1),
        Join(b"\x0a", 1, 10, NextSn(0, 0)),
        KeepAlive(),
    ],
    ids=lambda message: type(message).__name__,
)
def test_any_other_message_is_refused_by_both_sides(
    message: Frame | TransportOam | Join | KeepAlive,
) -> None:
    for side in (opener_at(State.INIT_SENT)[0], acceptor_at(State.WAIT_INIT)[0]):
        side.outgoing()
        side.receive_batch(encode_one(message), 0)
        assert decode_batch(side.outgoing()[0]) == [Close(CloseReason.INVALID)]


def test_an_empty_batch_means_nothing() -> None:
    opener, _ = opener_at(State.INIT_SENT)
    opener.receive_batch(b"", 0)
    assert opener.state is State.INIT_SENT
    assert opener.failure is None


def test_time_over_ends_both_sides_without_a_word() -> None:
    for side in (opener_at(State.OPEN_SENT)[0], acceptor_at(State.INIT_ANSWERED)[0]):
        side.outgoing()
        deadline_ns = side.next_timer_ns()
        assert deadline_ns == DEFAULT_LIMITS.handshake_ns
        side.handle_timer(deadline_ns - 1)
        assert side.next_timer_ns() == deadline_ns
        side.handle_timer(deadline_ns)
        assert side.failure is not None
        assert side.failure.close_reason is None
        assert side.outgoing() == []


@pytest.mark.parametrize("state", [State.INIT_SENT, State.PEER_KNOWN, State.OPEN_SENT])
def test_a_close_is_reported_and_not_answered(state: State) -> None:
    opener, _ = opener_at(state)
    opener.outgoing()
    opener.receive_batch(encode_one(Close(CloseReason.EXPIRED)), 0)
    assert opener.failure == Failure(
        "closed by the peer: expired", CloseReason.EXPIRED, by_peer=True
    )
    assert opener.outgoing() == []


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        (CloseReason.GENERIC, "user and password missing or wrong"),
        (CloseReason.MAX_SESSIONS, "max_sessions"),
        (CloseReason.MAX_LINKS, "a session with this node's id already"),
        (CloseReason.CONNECTION_TO_SELF, "the same id as this node"),
    ],
)
def test_a_refusal_says_what_a_user_can_do(reason: CloseReason, words: str) -> None:
    """A wrong password was `closed by the peer: generic`."""
    opener, _ = opener_at(State.OPEN_SENT)
    opener.receive_batch(encode_one(Close(reason)), 0)
    assert opener.failure is not None
    assert opener.failure.reason.startswith("refused")
    assert words in opener.failure.reason


def test_the_opener_stops_at_its_peer_and_can_turn_back() -> None:
    opener, _ = opener_at(State.PEER_KNOWN)
    assert opener.terms is not None
    assert opener.terms.peer_zid == b"\x0b"
    assert opener.outgoing() == []
    opener.refuse(CloseReason.MAX_LINKS)
    assert opener.outgoing() == [encode_one(Close(CloseReason.MAX_LINKS))]
    assert opener.failure == Failure("refused here: max_links", CloseReason.MAX_LINKS, False)


def test_the_acceptor_shows_what_it_would_admit() -> None:
    acceptor, _ = acceptor_at(State.ADMITTING)
    assert acceptor.agreed is None
    assert acceptor.proposed is not None
    assert acceptor.proposed.peer_zid == b"\x0a"
    acceptor.outgoing()
    acceptor.refuse(CloseReason.CONNECTION_TO_SELF)
    assert acceptor.outgoing() == [encode_one(Close(CloseReason.CONNECTION_TO_SELF))]
    assert acceptor.agreed is None


def test_the_cookie_comes_back_octet_for_octet() -> None:
    for cookie in (b"", b"\x00", bytes(range(256)) * 4):
        opener = Opener(opener_offer(), 0)
        opener.outgoing()
        opener.receive_batch(encode_one(Init(b"\x0b", 0, cookie=cookie)), 0)
        opener.proceed(0)
        [message] = decode_batch(opener.outgoing()[0])
        assert isinstance(message, Open)
        assert message.cookie == cookie


def test_a_smallest_acceptor_is_enough() -> None:
    opener = Opener(opener_offer(), 0)
    opener.outgoing()
    opener.receive_batch(bytes.fromhex("2109005501aa"), 0)  # wire.md 13.2
    opener.proceed(0)
    opener.outgoing()
    opener.receive_batch(bytes.fromhex("620a07"), 0)
    assert opener.agreed is not None
    assert opener.agreed.peer_initial_sn == 7
    assert not opener.agreed.qos
    assert opener.agreed.patch == 0


def test_whoever_is_not_expected_is_refused() -> None:
    opener = Opener(opener_offer(), 0, expected_zid=b"\x0c")
    shake_hands(opener, Acceptor(acceptor_offer(), CookieJar(seeded()), ADDRESS, 0))
    assert opener.failure is not None
    assert opener.failure.close_reason == CloseReason.INVALID
    assert "0b answers, 0c was expected" in opener.failure.reason


# Cookies


Spoil = Callable[[bytes], bytes]


def flip(at: int) -> Spoil:
    def spoil(cookie: bytes) -> bytes:
        octets = bytearray(cookie)
        octets[at] ^= 1
        return bytes(octets)

    return spoil


@pytest.mark.parametrize(
    "spoil",
    [flip(0), flip(15), flip(16), flip(-1), lambda c: b"", lambda c: c[:-1], lambda c: c + b"\0"],
)
def test_a_spoiled_cookie_is_refused(spoil: Spoil) -> None:
    acceptor, opener = acceptor_at(State.INIT_ANSWERED)
    [batch] = opener.outgoing()
    [message] = decode_batch(batch)
    assert isinstance(message, Open)
    assert message.cookie is not None
    message.cookie = spoil(message.cookie)
    acceptor.receive_batch(encode_one(message), 0)
    assert decode_batch(acceptor.outgoing()[0]) == [Close(CloseReason.INVALID)]


def test_a_cookie_of_another_link_or_another_time_is_refused() -> None:
    for address, late_ns, reason in (
        ("tcp/127.0.0.1:40001", 0, "not the one that was sent"),
        (ADDRESS, DEFAULT_LIMITS.cookie_ns, "expired"),
    ):
        jar = CookieJar(seeded())
        opener = Opener(opener_offer(), 0)
        first = Acceptor(acceptor_offer(), jar, ADDRESS, 0)
        first.receive_batch(opener.outgoing()[0], 0)
        opener.receive_batch(first.outgoing()[0], 0)
        opener.proceed(0)
        other = Acceptor(acceptor_offer(), jar, address, late_ns, datagram=True)
        other.receive_batch(opener.outgoing()[0], late_ns)
        assert other.failure is not None
        assert reason in other.failure.reason
        assert other.failure.close_reason == CloseReason.INVALID


def test_a_cookie_is_replayed_in_vain() -> None:
    jar = CookieJar(seeded())
    opener = Opener(opener_offer(), 0)
    first = Acceptor(acceptor_offer(), jar, ADDRESS, 0, datagram=True)
    first.receive_batch(opener.outgoing()[0], 0)
    opener.receive_batch(first.outgoing()[0], 0)
    opener.proceed(0)
    [open_syn] = opener.outgoing()
    first.receive_batch(open_syn, 0)
    assert first.state is State.ADMITTING
    again = Acceptor(acceptor_offer(), jar, ADDRESS, 0, datagram=True)
    again.receive_batch(open_syn, 0)
    assert again.failure is not None
    assert "used before" in again.failure.reason


def test_the_cookie_of_another_handshake_on_the_same_link_is_refused() -> None:
    jar = CookieJar(seeded())
    peers = []
    for zid in (b"\x0a", b"\x0c"):
        opener = Opener(opener_offer(zid=zid), 0)
        acceptor = Acceptor(acceptor_offer(), jar, ADDRESS, 0)
        acceptor.receive_batch(opener.outgoing()[0], 0)
        opener.receive_batch(acceptor.outgoing()[0], 0)
        opener.proceed(0)
        peers.append((acceptor, opener))
    peers[0][0].receive_batch(peers[1][1].outgoing()[0], 0)
    assert peers[0][0].failure is not None
    assert "another handshake" in peers[0][0].failure.reason


# What an acceptor grants, an opener can take: no offer makes the two disagree.


@pytest.mark.parametrize("resolution", [0x00, 0x05, 0x0A, 0x0F, 0x02, 0x08])
@pytest.mark.parametrize("batch_len", [64, 2048, 65_535])
@pytest.mark.parametrize("features", range(16))
def test_both_sides_agree_on_the_same(resolution: int, batch_len: int, features: int) -> None:
    qos, patch = bool(features & 1), features >> 1 & 1
    compression, region = bool(features & 4), "here" if features & 8 else None
    opening = opener_offer(
        resolution=resolution, batch_len=batch_len, qos=qos, patch=patch, compression=compression,
        region_name=region, remote_bound=None if region is None else 1, lease_ms=1_500,
    )  # fmt: skip
    for accepting in (acceptor_offer(), acceptor_offer(qos=False, compression=True, patch=0)):
        opener = Opener(opening, 0)
        acceptor = Acceptor(accepting, CookieJar(seeded()), ADDRESS, 0)
        shake_hands(opener, acceptor)
        one, other = opener.agreed, acceptor.agreed
        assert one is not None
        assert other is not None
        assert (one.batch_len, one.sn_mask, one.qos, one.patch, one.compression) == (
            other.batch_len, other.sn_mask, other.qos, other.patch, other.compression,
        )  # fmt: skip
        assert (one.own_initial_sn, one.peer_initial_sn) == (
            other.peer_initial_sn,
            other.own_initial_sn,
        )
        assert (one.own_lease_ms, one.peer_lease_ms) == (other.peer_lease_ms, other.own_lease_ms)
        assert (other.peer_region_name, other.peer_remote_bound) == (region, opening.remote_bound)
        assert (one.peer_zid, one.opener) == (b"\x0b", True)
        assert (other.peer_zid, other.opener) == (b"\x0a", False)


def test_an_init_ack_is_built_from_the_terms_alone() -> None:
    """A forgotten Acceptor's successor answers OpenSyn exactly as the first would have."""
    jar = CookieJar(seeded())
    offer: Offer = acceptor_offer(region_name="north", lease_ms=700)
    opener = Opener(opener_offer(resolution=0x05, batch_len=1_000), 0)
    first = Acceptor(offer, jar, ADDRESS, 0, datagram=True)
    first.receive_batch(opener.outgoing()[0], 0)
    assert first._terms is not None
    opener.receive_batch(first.outgoing()[0], 0)
    opener.proceed(0)
    second = Acceptor(offer, jar, ADDRESS, 0, datagram=True)
    second.receive_batch(opener.outgoing()[0], 0)
    assert second._terms == first._terms
    assert init_ack(offer, second._terms, b"") == init_ack(offer, first._terms, b"")
