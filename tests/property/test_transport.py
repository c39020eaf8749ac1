"""Laws of the transport: what arrives, in which order, and what hostile octets may cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pairs import LINK, Collector, Pair, acceptor_offer, agree, opener_offer, seeded

from elea.answers import DROPPED, REFUSED, SENT
from elea.errors import ProtocolError
from elea.limits import DEFAULT_LIMITS
from elea.transport.cookie import CookieJar
from elea.transport.handshake import Acceptor, Opener, State
from elea.transport.unicast import Transport
from elea.wire.batches import encode_batch
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.push import Push
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import Frame

BLOCK = 0x08


@dataclass(frozen=True)
class Sent:
    """One message to send: its conduit, its length, and how many batches to pull after it."""

    priority: int
    reliable: bool
    length: int
    pulls: int
    block: bool = True

    def message(self, number: int) -> Push:
        payload = number.to_bytes(4, "little") + bytes(self.length)
        qos = self.priority | BLOCK if self.block else self.priority
        return Push(WireExpr(0, "k"), Put(payload), qos)


def plans(longest: int, *, block: st.SearchStrategy[bool]) -> st.SearchStrategy[list[Sent]]:
    lengths = st.one_of(st.integers(0, 80), st.integers(0, longest))
    one = st.builds(Sent, st.integers(0, 7), st.booleans(), lengths, st.integers(0, 3), block)
    return st.lists(one, max_size=40)


def number(message: NetworkMessage) -> int:
    assert isinstance(message, Push)
    assert isinstance(message.body, Put)
    return int.from_bytes(message.body.payload[:4], "little")


def by_conduit(got: Collector) -> dict[tuple[int, bool], list[int]]:
    found: dict[tuple[int, bool], list[int]] = {}
    for message, priority, reliable in got.got:
        found.setdefault((priority, reliable), []).append(number(message))
    return found


@given(
    plan=plans(5_000, block=st.just(True)),
    batch_len=st.one_of(st.integers(64, 300), st.integers(64, 65_535)),
    resolution=st.sampled_from([0x00, 0x05, 0x0A, 0x0F]),
    qos=st.booleans(),
    patch=st.integers(0, 1),
    compression=st.booleans(),
)
def test_every_message_arrives_once_whole_and_in_the_order_of_its_conduit(
    plan: list[Sent], batch_len: int, resolution: int, qos: bool, patch: int, compression: bool
) -> None:
    pair = Pair(
        opener_offer(
            batch_len=batch_len, resolution=resolution, qos=qos, patch=patch,
            compression=compression,
        ),
        acceptor_offer(resolution=0x0F, compression=True),
    )  # fmt: skip
    expected: dict[tuple[int, bool], list[int]] = {}
    for at, sent in enumerate(plan):
        assert pair.a.transport.send(sent.message(at), sent.reliable, 0) == SENT
        conduit = (sent.priority if qos else 5, sent.reliable)
        expected.setdefault(conduit, []).append(at)
        for _ in range(sent.pulls):
            batch = pair.a.transport.pull(LINK, 0)
            if batch is not None:
                assert len(batch) <= batch_len
                pair.b.take(LINK, batch, 0)
    pair.carry()
    assert by_conduit(pair.b.sink) == expected
    for message, _, _ in pair.b.sink.got:
        at = number(message)
        assert message == plan[at].message(at)
    assert pair.a.transport.pending_len == 0
    assert pair.b.transport.stats.lost_fragments == {}


@given(plan=plans(3_000, block=st.booleans()), queue_len=st.integers(100, 2_000))
def test_congestion_loses_exactly_what_it_says_it_loses(plan: list[Sent], queue_len: int) -> None:
    limits = replace(DEFAULT_LIMITS, tx_queue_len=queue_len)
    pair = Pair(opener_offer(batch_len=200), limits=limits)
    taken = []
    refused = 0
    for at, sent in enumerate(plan):
        before_len = pair.a.transport.pending_len
        result = pair.a.transport.send(sent.message(at), sent.reliable, 0)
        if result == SENT:
            taken.append(at)
        else:
            assert result == (REFUSED if sent.block else DROPPED)
            assert pair.a.transport.pending_len == before_len
            refused += result == DROPPED
        for _ in range(sent.pulls):
            batch = pair.a.transport.pull(LINK, 0)
            if batch is not None:
                pair.b.take(LINK, batch, 0)
    pair.carry()
    assert sorted(number(message) for message in pair.b.sink.messages) == taken
    for numbers in by_conduit(pair.b.sink).values():
        assert numbers == sorted(numbers)
    assert sum(pair.a.transport.stats.dropped_congestion) == refused


@given(
    plan=plans(600, block=st.just(True)),
    fate=st.lists(st.integers(0, 9), max_size=200),
    patch=st.integers(0, 1),
)
def test_a_lossy_link_reorders_nothing_and_delivers_nothing_twice(
    plan: list[Sent], fate: list[int], patch: int
) -> None:
    agreed, _ = agree(opener_offer(batch_len=150, patch=patch), acceptor_offer())
    sender = Transport(agreed)
    _, view = agree(opener_offer(batch_len=150, patch=patch), acceptor_offer())
    receiver = Transport(view)
    for transport, terms in ((sender, agreed), (receiver, view)):
        transport.add_link(LINK, terms, 0, stream=False)
    for at, sent in enumerate(plan):
        sender.send(sent.message(at), sent.reliable, 0)
    batches = list(iter(lambda: sender.pull(LINK, 0), None))
    sink = Collector()
    held: list[bytes] = []
    for batch, luck in zip(batches, fate + [9] * len(batches), strict=False):
        if luck == 0:
            continue  # lost
        if luck == 1:
            held.append(batch)  # late
            continue
        for copy in [batch] * (2 if luck == 2 else 1):
            receiver.receive_batch(LINK, copy, 0, sink)
    for batch in held:
        receiver.receive_batch(LINK, batch, 0, sink)
    for numbers in by_conduit(sink).values():
        assert numbers == sorted(set(numbers))
    if patch:  # without the First marker two halves may be taken for one
        for message, _, _ in sink.got:
            assert message == plan[number(message)].message(number(message))


FRAGMENTS = st.builds(
    Fragment,
    st.integers(0, 0x80),
    st.binary(max_size=40),
    st.booleans(),
    st.booleans(),
    st.integers(0, 7),
    st.booleans(),
    st.booleans(),
)
FRAMES = st.builds(Frame, st.integers(0, 0x80), st.booleans(), st.integers(0, 7))
HOSTILE = st.one_of(
    st.binary(max_size=60),
    FRAGMENTS.map(lambda fragment: encode_batch([fragment])),
    st.builds(lambda frame, tail: encode_batch([frame]) + tail, FRAMES, st.binary(max_size=30)),
)


@given(
    batches=st.lists(HOSTILE, max_size=60),
    qos=st.booleans(),
    kind=st.sampled_from(["plain", "compression", "low latency"]),
)
def test_any_octets_are_taken_or_refused_and_cost_no_more_than_allowed(
    batches: list[bytes], qos: bool, kind: str
) -> None:
    limits = replace(DEFAULT_LIMITS, message_len=100, fragments_len=150)
    features: dict[str, object] = {"qos": qos and kind != "low latency", "resolution": 0x00}
    features["compression"] = kind == "compression"
    features["low_latency"] = kind == "low latency"
    pair = Pair(opener_offer(**features), acceptor_offer(**features), limits=limits)
    for now_ns, batch in enumerate(batches):
        try:
            events = pair.b.transport.receive_batch(LINK, batch, now_ns, pair.b.sink)
        except ProtocolError:
            events = ()
        assert pair.b.transport._rx.reassembly.pending_len <= 150
        if events:
            return
    pair.b.transport.handle_timer(DEFAULT_LIMITS.fragment_idle_ns + len(batches))
    assert pair.b.transport._rx.reassembly.pending_len == 0


@given(batches=st.lists(st.binary(max_size=80), max_size=5), step=st.integers(0, 1))
def test_a_handshake_survives_any_octets(batches: list[bytes], step: int) -> None:
    opener = Opener(opener_offer(), 0)
    acceptor = Acceptor(acceptor_offer(), CookieJar(seeded()), "x", 0)
    if step:
        acceptor.receive_batch(opener.outgoing()[0], 0)
        opener.receive_batch(acceptor.outgoing()[0], 0)
        opener.proceed(0)
    for side in (opener, acceptor):
        for batch in batches:
            if side.state in (State.OPENED, State.CLOSED):
                break
            side.receive_batch(batch, 0)
        assert (side.failure is not None) == (side.state is State.CLOSED)


@pytest.mark.parametrize("which", ["syn", "ack"])
@given(data=st.data())
def test_a_spoiled_handshake_message_is_refused_or_agreed_on(
    which: str, data: st.DataObject
) -> None:
    """Each octet of InitSyn and InitAck, changed: an end is reached, never an exception."""
    opener = Opener(opener_offer(), 0)
    acceptor = Acceptor(acceptor_offer(), CookieJar(seeded()), "x", 0)
    [syn] = opener.outgoing()
    if which == "syn":
        acceptor.receive_batch(spoil(data, syn), 0)
        assert acceptor.state in (State.INIT_ANSWERED, State.CLOSED)
        return
    acceptor.receive_batch(syn, 0)
    opener.receive_batch(spoil(data, acceptor.outgoing()[0]), 0)
    assert opener.state in (State.PEER_KNOWN, State.CLOSED)


def spoil(data: st.DataObject, batch: bytes) -> bytes:
    at = data.draw(st.integers(0, len(batch) - 1))
    octet = data.draw(st.integers(0, 255))
    cut = data.draw(st.booleans())
    return batch[:at] if cut and at else batch[:at] + bytes((octet,)) + batch[at + 1 :]
