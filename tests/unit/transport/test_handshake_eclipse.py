"""Captured handshakes of Eclipse Zenoh 1.10.2, replayed with Elea in the place of each side.

In the opener's place Elea must say exactly what the captured opener said, except that it offers
neither MultiLink nor shared memory. In the acceptor's place it must grant the same.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.pairs import seeded
from tests.vectors.loader import Record, captures, load

from elea.secret import Secret
from elea.transport.cookie import CookieJar
from elea.transport.handshake import Acceptor, Opener, State
from elea.transport.negotiation import Offer
from elea.wire.batches import decode_batch
from elea.wire.codec import Message, encode_one
from elea.wire.transport.close import Close, CloseReason
from elea.wire.transport.init import Init
from elea.wire.transport.open import Open

USER, PASSWORD = "alice", Secret("wonderland")  # as scenarios.json tells


def conversations() -> list[tuple[str, list[Record], list[Record]]]:
    """Every captured link: its name, what the opener and what the acceptor sent first."""
    found = []
    for name in captures():
        links: dict[str, tuple[list[Record], list[Record]]] = {}
        for record in load(name):
            if record.framing in ("u16", "u32", "datagram") and record.seq < 2:
                sides = links.setdefault(record.conn, ([], []))
                sides[record.dir == "a2i"].append(record)
        found += [(f"{name.partition('.')[0]} {conn}", *sides) for conn, sides in links.items()]
    return found


ALL = conversations()
COMPLETE = [one for one in ALL if isinstance(decode_batch(one[2][1].octets)[0], Open)]
REFUSED = [one for one in ALL if one not in COMPLETE]
KNOWN_PASSWORD = [one for one in COMPLETE if "usrpwd" in one[0]]


def only(record: Record) -> Message:
    [message] = decode_batch(record.octets)
    return message


def init(record: Record) -> Init:
    """A captured INIT without what Elea never takes part in."""
    message = only(record)
    assert isinstance(message, Init)
    return replace(message, shm=None, multilink=None, extras=None)


def offer_of(message: Init, opening: Open) -> Offer:
    """What a node that sent these two messages has offered."""
    authenticates = message.auth is not None and message.cookie is None
    return Offer(
        zid=message.zid,
        whatami=message.whatami,
        lease_ms=opening.lease_ms,
        batch_len=message.batch_len,
        resolution=message.resolution,
        qos=message.qos or message.qos_link is not None,
        qos_link=message.qos_link if message.cookie is None else None,
        patch=message.patch,
        low_latency=message.low_latency,
        compression=message.compression,
        region_name=message.region_name,
        remote_bound=opening.remote_bound,
        user=USER if authenticates else None,
        password=PASSWORD if authenticates else None,
        accounts={USER.encode(): PASSWORD}
        if message.auth is not None and message.cookie is not None
        else None,
    )


def opening_of(record: Record) -> Open:
    """A captured OPEN without what Elea never takes part in."""
    message = only(record)
    assert isinstance(message, Open)
    return replace(message, shm=None, multilink=None, extras=None)


def test_the_captures_hold_many_handshakes() -> None:
    assert len(COMPLETE) > 100
    assert len(REFUSED) >= 4
    assert len(KNOWN_PASSWORD) == 1


@pytest.mark.parametrize(
    ("name", "opener_said", "acceptor_said"),
    COMPLETE,
    ids=lambda v: str(v) if isinstance(v, str) else "",
)
def test_in_the_openers_place(
    name: str, opener_said: list[Record], acceptor_said: list[Record]
) -> None:
    syn, opening = init(opener_said[0]), opening_of(opener_said[1])
    opener = Opener(offer_of(syn, opening), 0)
    assert opener.outgoing() == [encode_one(syn)]
    opener.receive_batch(acceptor_said[0].octets, 0)
    opener.proceed(0)
    assert opener.outgoing() == [encode_one(opening)]
    opener.receive_batch(acceptor_said[1].octets, 0)
    assert opener.agreed is not None
    granted = init(acceptor_said[0])
    assert opener.agreed.batch_len == granted.batch_len
    assert opener.agreed.qos == (granted.qos or granted.qos_link is not None)
    assert opener.agreed.peer_initial_sn == opening_of(acceptor_said[1]).initial_sn


@pytest.mark.parametrize(
    ("name", "opener_said", "acceptor_said"),
    COMPLETE,
    ids=lambda v: str(v) if isinstance(v, str) else "",
)
def test_in_the_acceptors_place(
    name: str, opener_said: list[Record], acceptor_said: list[Record]
) -> None:
    granted = init(acceptor_said[0])
    offer = offer_of(granted, opening_of(acceptor_said[1]))
    acceptor = Acceptor(offer, CookieJar(seeded()), "tcp/127.0.0.1:1", 0)
    acceptor.receive_batch(opener_said[0].octets, 0)
    [answer] = decode_batch(acceptor.outgoing()[0])
    assert isinstance(answer, Init)
    if granted.auth is None:
        assert replace(answer, cookie=granted.cookie) == granted
    else:
        assert replace(answer, cookie=granted.cookie, auth=granted.auth) == granted
        return  # the captured proof answers another nonce than ours
    opening = only(opener_said[1])
    assert isinstance(opening, Open)
    acceptor.receive_batch(encode_one(replace(opening, cookie=answer.cookie)), 0)
    assert acceptor.state is State.ADMITTING
    acceptor.admit(0)
    assert acceptor.outgoing() == [encode_one(opening_of(acceptor_said[1]))]


@pytest.mark.parametrize(
    ("name", "opener_said", "acceptor_said"),
    REFUSED,
    ids=lambda v: str(v) if isinstance(v, str) else "",
)
def test_a_refused_opener_ends_as_the_captured_one(
    name: str, opener_said: list[Record], acceptor_said: list[Record]
) -> None:
    opening = only(opener_said[1])
    offered = opening if isinstance(opening, Open) else Open(10, 0)
    opener = Opener(offer_of(init(opener_said[0]), offered), 0)
    opener.outgoing()
    opener.receive_batch(acceptor_said[0].octets, 0)
    if isinstance(opening, Close):
        # Credentials nobody asked for: the captured opener gave up here, and so do we.
        assert opener.outgoing() == [opener_said[1].octets]
        assert opener.failure is not None
        assert opener.failure.close_reason == CloseReason.GENERIC
        return
    opener.proceed(0)
    opener.outgoing()
    opener.receive_batch(acceptor_said[1].octets, 0)
    closed = only(acceptor_said[1])
    assert isinstance(closed, Close)
    assert opener.failure is not None
    assert (opener.failure.by_peer, opener.failure.close_reason) == (True, closed.reason)
