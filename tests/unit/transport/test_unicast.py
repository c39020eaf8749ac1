"""Transport: two of them back to back, on virtual time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.pairs import LINK, Collector, Pair, acceptor_offer, agree, opener_offer
from tests.unit.transport.messages import BLOCK, DATA, EXPRESS, declare, put

from elea.answers import DROPPED, REFUSED, SENT
from elea.errors import DecodeError, ProtocolError
from elea.limits import DEFAULT_LIMITS
from elea.transport.events import KeepAliveDue, LinkLost, TransportClosed
from elea.transport.unicast import Phase, Transport
from elea.wire.batches import decode_batch, encode_batch
from elea.wire.buffer import Reader
from elea.wire.codec import encode_one
from elea.wire.transport.close import Close, CloseReason
from elea.wire.transport.establishment import QosLink
from elea.wire.transport.frame import Frame
from elea.wire.transport.keepalive import KeepAlive

SECOND = 1_000_000_000
SMALL_QUEUES = replace(DEFAULT_LIMITS, tx_queue_len=1_000)

Settings = tuple[dict[str, object], dict[str, object]]
COMPRESSION: Settings = ({"compression": True}, {"compression": True})
LOW_LATENCY: Settings = ({"qos": False, "low_latency": True}, {"qos": False, "low_latency": True})


def pair_of(opening: dict[str, object], accepting: dict[str, object]) -> Pair:
    return Pair(opener_offer(**opening), acceptor_offer(**accepting))


@pytest.mark.parametrize(
    ("opening", "accepting"),
    [
        ({}, {}),
        COMPRESSION,
        ({"qos": False}, {}),
        ({"patch": 0}, {}),
        ({"resolution": 0x05}, {}),
        ({"batch_len": 64}, {}),
        ({"batch_len": 64, "compression": True, "resolution": 0x00}, {"compression": True}),
    ],
    ids=["default", "compression", "no qos", "patch 0", "16 bit", "64 octets", "all of them"],
)
def test_messages_of_any_length_arrive_in_order(
    opening: dict[str, object], accepting: dict[str, object]
) -> None:
    pair = pair_of(opening, accepting)
    messages = [put(bytes([n]) * 10**n, DATA | BLOCK) for n in range(6)]
    for message in messages:
        assert pair.a.transport.send(message, True, 0) == SENT
    pair.carry()
    assert pair.b.sink.messages == messages


def test_low_latency_carries_what_fits_a_batch() -> None:
    pair = pair_of(*LOW_LATENCY)
    messages = [put(bytes([n]) * 10**n) for n in range(5)]
    for message in messages:
        assert pair.a.transport.send(message, True, 0) == SENT
    assert pair.a.transport.send(put(bytes(70_000)), True, 0) == DROPPED
    assert pair.a.transport.stats.dropped_too_long == 1
    pair.carry()
    assert pair.b.sink.messages == messages


def test_low_latency_counts_the_message_and_not_the_length_in_front() -> None:
    pair = pair_of({"batch_len": 100, **LOW_LATENCY[0]}, LOW_LATENCY[1])
    overhead = len(encode_one(put(b"")))
    assert pair.a.transport.send(put(bytes(100 - overhead)), True, 0) == SENT
    assert pair.a.transport.send(put(bytes(101 - overhead)), True, 0) == DROPPED
    batch = pair.a.transport.pull(LINK, 0)
    assert batch is not None
    assert batch[:4] == b"\x64\0\0\0"
    assert len(batch) == 104


def test_a_long_low_latency_unit_is_taken_although_we_send_none() -> None:
    """Eclipse Zenoh sends them."""
    pair = pair_of(*LOW_LATENCY)
    unit = encode_one(put(bytes(200_000)))
    pair.b.take(LINK, len(unit).to_bytes(4, "little") + unit, 0)
    assert pair.b.sink.messages == [put(bytes(200_000))]
    too_long = DEFAULT_LIMITS.message_len + 1
    with pytest.raises(DecodeError):
        pair.b.take(LINK, too_long.to_bytes(4, "little"), 0)


def test_a_batch_longer_than_agreed_is_refused_at_its_length() -> None:
    pair = pair_of({"batch_len": 1_000}, {})
    with pytest.raises(DecodeError, match="998"):
        pair.b.take(LINK, (999).to_bytes(2, "little"), 0)


@pytest.mark.parametrize(("resolution", "count"), [(0x00, 400), (0x05, 20_000)])
def test_sequence_numbers_wrap_in_both_directions(resolution: int, count: int) -> None:
    pair = pair_of({"resolution": resolution}, {})
    for n in range(count):
        for end in (pair.a, pair.b):
            end.transport.send(put(n.to_bytes(4, "little")), True, 0)
        pair.carry()  # one FRAME, one number, per message
    for end in (pair.a, pair.b):
        payloads = [message.body.payload for message in end.sink.messages]  # type: ignore[union-attr]
        assert payloads == [n.to_bytes(4, "little") for n in range(count)]


@pytest.mark.parametrize("batch_len", [64, 100, 2_048, 65_535])
@pytest.mark.parametrize("compression", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_no_batch_is_longer_than_agreed(batch_len: int, compression: bool, stream: bool) -> None:
    agreed, _ = agree(
        opener_offer(batch_len=batch_len, compression=compression),
        acceptor_offer(compression=compression),
    )
    transport = Transport(agreed)
    transport.add_link(LINK, agreed, 0, stream=stream)
    octets = bytes(range(256)) * 257
    for length in [*range(batch_len - 40, batch_len + 1), 3 * batch_len]:
        transport.send(put(octets[:length], DATA | BLOCK), True, 0)
        longest = 0
        while (batch := transport.pull(LINK, 0)) is not None:
            longest = max(longest, len(batch))
            if stream:
                assert int.from_bytes(batch[:2], "little") == len(batch) - 2
            if compression:
                assert batch[2 if stream else 0] in (0, 1)
        assert 0 < longest <= batch_len


def test_a_datagram_link_has_no_prefix() -> None:
    agreed, _ = agree(opener_offer(), acceptor_offer())
    transport = Transport(agreed)
    transport.add_link(LINK, agreed, 0, stream=False)
    transport.send(put(), True, 0)
    batch = transport.pull(LINK, 0)
    assert batch is not None
    assert decode_batch(batch) == [Frame(agreed.own_initial_sn), put()]


# Time


def test_an_idle_pair_stays_alive_and_knows_when_to_wake() -> None:
    pair = Pair()
    now_ns = 0
    while now_ns < 120 * SECOND:
        timers = [end.transport.next_timer_ns() for end in (pair.a, pair.b)]
        now_ns = min(timer for timer in timers if timer is not None)
        for end in (pair.a, pair.b):
            end.note(end.transport.handle_timer(now_ns))
        pair.carry(now_ns)
    assert set(map(type, pair.a.events + pair.b.events)) == {KeepAliveDue}
    # 120 s at one keep-alive per 2.5 s.
    assert pair.a.transport.stats.received_batches == 48


def test_a_keep_alive_is_a_batch_of_its_own_and_traffic_makes_it_needless() -> None:
    pair = Pair()
    assert pair.a.transport.pull(LINK, 0) is None
    assert pair.a.transport.handle_timer(2_500_000_000) == (KeepAliveDue(LINK),)
    assert pair.a.transport.wants_pull(LINK)
    assert pair.a.transport.pull(LINK, 2_500_000_000) == b"\x01\x00" + encode_one(KeepAlive())
    assert pair.a.transport.pull(LINK, 2_500_000_000) is None
    pair.a.transport.send(put(), True, 4 * SECOND)
    pair.carry(4 * SECOND)
    assert pair.a.transport.handle_timer(5 * SECOND) == ()


def test_data_that_waits_replaces_a_keep_alive() -> None:
    pair = Pair()
    pair.a.transport.handle_timer(2_500_000_000)
    pair.a.transport.send(put(), True, 0)
    assert pair.carry(2_500_000_000) == 1


@pytest.mark.parametrize(
    ("settings", "expected"),
    [(COMPRESSION, "02 00 00 04"), (LOW_LATENCY, "01 00 00 00 04")],
)
def test_a_keep_alive_in_every_framing(settings: Settings, expected: str) -> None:
    pair = pair_of(*settings)
    pair.a.transport.handle_timer(2_500_000_000)
    assert pair.a.transport.pull(LINK, 2_500_000_000) == bytes.fromhex(expected)


def test_low_latency_keeps_alive_whatever_else_is_sent() -> None:
    pair = pair_of(*LOW_LATENCY)
    pair.a.transport.send(put(), True, 2 * SECOND)
    pair.carry(2 * SECOND)
    assert pair.a.transport.handle_timer(2_500_000_000) == (KeepAliveDue(LINK),)
    pair.a.transport.send(put(), True, 2_500_000_000)
    assert pair.a.transport.pull(LINK, 2_500_000_000) == b"\x01\0\0\0" + encode_one(KeepAlive())
    assert pair.carry(2_500_000_000) == 1


def test_a_silent_peer_is_dropped_after_its_own_lease_without_a_word() -> None:
    pair = pair_of({"lease_ms": 2_000}, {"lease_ms": 20_000})
    assert pair.a.transport.handle_timer(19 * SECOND)[-1] == KeepAliveDue(LINK)
    events = pair.b.transport.handle_timer(2 * SECOND)
    assert [type(event) for event in events] == [LinkLost, TransportClosed]
    assert pair.b.transport.closed
    assert pair.b.transport.pull(LINK, 2 * SECOND) is None
    assert pair.b.transport.next_timer_ns() is None
    assert pair.b.transport.handle_timer(3 * SECOND) == ()


def test_any_batch_renews_the_lease_even_an_empty_one() -> None:
    pair = Pair()
    pair.b.transport.receive_batch(LINK, b"", 9 * SECOND, pair.b.sink)
    assert LinkLost not in map(type, pair.b.transport.handle_timer(18 * SECOND))
    assert LinkLost in map(type, pair.b.transport.handle_timer(19 * SECOND))


def test_an_unfinished_message_is_a_timer_too() -> None:
    pair = pair_of({"batch_len": 100, "lease_ms": 60_000}, {"lease_ms": 60_000})
    pair.a.transport.send(put(bytes(500)), True, 0)
    batch = pair.a.transport.pull(LINK, 0)
    assert batch is not None
    pair.b.take(LINK, batch, 0)
    assert pair.b.transport.next_timer_ns() == DEFAULT_LIMITS.fragment_idle_ns
    pair.b.transport.handle_timer(DEFAULT_LIMITS.fragment_idle_ns)
    assert sum(pair.b.transport.stats.lost_fragments.values()) == 1


# Closing


@pytest.mark.parametrize(
    ("settings", "expected"),
    [(({}, {}), "02 00 03 00"), (COMPRESSION, "03 00 00 03 00"),
     (LOW_LATENCY, "02 00 00 00 03 00")],
)  # fmt: skip
def test_close_comes_after_what_was_sent_before(settings: Settings, expected: str) -> None:
    pair = pair_of(*settings)
    pair.a.transport.send(put(), True, 0)
    pair.a.transport.close(CloseReason.GENERIC, 0)
    assert pair.a.transport.send(put(), True, 0) == DROPPED
    assert pair.a.transport.stats.dropped_closed == 1
    first = pair.a.transport.pull(LINK, 0)
    assert first is not None
    assert pair.a.transport.phase is Phase.CLOSING
    assert pair.a.transport.pull(LINK, 0) == bytes.fromhex(expected)
    assert pair.a.transport.closed
    assert not pair.a.transport.wants_pull(LINK)
    pair.b.take(LINK, first + bytes.fromhex(expected), 0)
    assert pair.b.sink.messages == [put()]
    assert pair.b.events == [
        LinkLost(LINK, "closed by the peer", by_peer=True),
        TransportClosed("closed by the peer", True, CloseReason.GENERIC),
    ]
    assert pair.b.transport.closed


def test_nothing_is_received_after_close() -> None:
    pair = Pair()
    pair.b.transport.send(put(), True, 0)
    batch = pair.b.transport.pull(LINK, 0)
    assert batch is not None
    pair.a.transport.close(CloseReason.GENERIC, 0)
    pair.a.take(LINK, batch, 0)
    assert pair.a.sink.messages == []
    assert pair.a.events == []


def test_a_batch_after_the_peers_close_means_nothing() -> None:
    pair = Pair()
    close = encode_batch([Close(CloseReason.GENERIC)])
    assert len(pair.b.transport.receive_batch(LINK, close, 0, pair.b.sink)) == 2
    assert pair.b.transport.receive_batch(LINK, b"\xff", 0, pair.b.sink) == ()


def test_an_unresponsive_link_is_not_waited_for() -> None:
    pair = Pair(limits=SMALL_QUEUES)
    while pair.a.transport.send(put(qos=DATA | BLOCK), True, 0) != REFUSED:
        pass
    pair.a.transport.close(CloseReason.UNRESPONSIVE, 0, flush=False)
    pair.a.transport.close(CloseReason.GENERIC, 0)  # the first one counts
    assert pair.a.transport.pending_len == 0
    assert pair.a.transport.pull(LINK, 0) == b"\x02\x00\x03\x06"


def test_a_close_that_cannot_be_said_ends_by_itself() -> None:
    pair = Pair()
    pair.a.transport.send(put(), True, 0)
    pair.a.transport.close(CloseReason.GENERIC, 0)
    deadline_ns = pair.a.transport.next_timer_ns()
    assert deadline_ns == DEFAULT_LIMITS.close_flush_ns
    assert pair.a.transport.handle_timer(deadline_ns - 1) == ()
    [event] = pair.a.transport.handle_timer(deadline_ns)
    assert isinstance(event, TransportClosed)
    assert not event.by_peer


# Congestion, as the caller sees it


def test_a_stalled_link_blocks_drops_and_recovers() -> None:
    pair = Pair(limits=SMALL_QUEUES)
    results = {pair.a.transport.send(put(), True, 0) for _ in range(100)}
    assert results == {SENT, DROPPED}
    assert pair.a.transport.send(put(qos=DATA | BLOCK), True, 0) == REFUSED
    assert pair.a.transport.send(declare(), True, 0) == SENT  # control has a queue of its own
    assert pair.a.transport.pending_len < 8 * (1_000 + 100)
    pair.carry()
    assert pair.a.transport.pending_len == 0
    assert pair.a.transport.send(put(qos=DATA | BLOCK), True, 0) == SENT
    dropped = pair.a.transport.stats.dropped_congestion[5]
    assert len(pair.b.sink.messages) == 101 - dropped


def test_express_asks_to_be_written() -> None:
    pair = Pair()
    pair.a.transport.send(put(qos=DATA | EXPRESS), True, 0)
    assert pair.a.transport.express_pending
    pair.carry()
    assert not pair.a.transport.express_pending


# What breaks a link


@pytest.mark.parametrize("batch", [b"\xff", b"\x1d", b"\x05"])
def test_garbage_is_an_error_of_the_protocol_and_the_node_removes_the_link(batch: bytes) -> None:
    pair = Pair()
    with pytest.raises(ProtocolError):
        pair.b.transport.receive_batch(LINK, batch, 0, pair.b.sink)
    assert pair.b.transport.remove_link(LINK, "garbage") == (
        TransportClosed("garbage", by_peer=False),
    )
    assert pair.b.transport.remove_link(LINK, "again") == ()


def test_a_compressed_batch_never_unpacks_past_what_was_agreed() -> None:
    from lz4 import block

    pair = pair_of({"compression": True, "batch_len": 1_000}, {"compression": True})
    bomb = b"\x01" + block.compress(bytes(100_000), store_size=False)
    assert len(bomb) < 1_000
    with pytest.raises(DecodeError, match="1000"):
        pair.b.transport.receive_batch(LINK, bomb, 0, pair.b.sink)


# Two links


def two_links(**opening: object) -> Pair:
    pair = Pair(opener_offer(**opening))
    pair.add_link(2)
    return pair


def test_one_conduit_never_travels_on_two_links() -> None:
    pair = two_links()
    for n in range(100):
        pair.a.transport.send(put(bytes([n])), True, 0)
        assert pair.a.transport.pull(2, 0) is None
    pair.carry()
    assert len(pair.b.sink.messages) == 100


def test_both_links_feed_the_same_numbers_and_late_frames_are_dropped() -> None:
    pair = two_links()
    frames = []
    for n in range(6):
        pair.a.transport.send(put(bytes([n])), True, 0)
        batch = pair.a.transport.pull(1, 0)
        assert batch is not None
        frames.append(batch)
    # The second link overtakes the first: what it overtook is dropped, nothing twice, no error.
    for link_id, n in ((1, 0), (2, 2), (1, 1), (2, 2), (1, 3), (2, 5), (1, 4)):
        pair.b.take(link_id, frames[n], 0)
    payloads = [message.body.payload for message in pair.b.sink.messages]  # type: ignore[union-attr]
    assert payloads == [bytes([n]) for n in (0, 2, 3, 5)]
    assert pair.b.transport.stats.stale_frames == 3


def test_the_loss_of_one_link_moves_its_queues_and_keeps_the_transport() -> None:
    pair = two_links(batch_len=100)
    pair.a.transport.send(put(bytes(500), DATA | BLOCK), True, 0)
    first = pair.a.transport.pull(1, 0)
    assert first is not None
    pair.b.take(1, first, 0)
    for end in (pair.a, pair.b):
        assert end.transport.remove_link(1, "reset") == ()
    pair.a.transport.send(put(b"after"), True, 0)
    pair.carry()
    # What was pulled had arrived, so that even the fragmented message is whole.
    assert pair.b.sink.messages == [put(bytes(500), DATA | BLOCK), put(b"after")]
    assert pair.a.transport.link_ids == [2]


def test_fragments_lost_with_their_link_cost_that_message_only() -> None:
    pair = two_links(batch_len=100)
    pair.a.transport.send(put(bytes(500), DATA | BLOCK), True, 0)
    assert pair.a.transport.pull(1, 0) is not None  # never arrives
    for end in (pair.a, pair.b):
        end.transport.remove_link(1, "reset")
    pair.a.transport.send(put(b"after"), True, 0)
    pair.a.transport.send(put(bytes(300), DATA | BLOCK), True, 0)
    pair.carry()
    assert pair.b.sink.messages == [put(b"after"), put(bytes(300), DATA | BLOCK)]
    assert sum(pair.b.transport.stats.lost_fragments.values()) > 0


def test_each_link_has_its_own_lease_and_keep_alive() -> None:
    pair = two_links()
    for second in range(1, 13):
        now_ns = second * SECOND
        pair.a.transport.send(put(), True, now_ns)
        batch = pair.a.transport.pull(1, now_ns)
        assert batch is not None
        pair.b.take(1, batch, now_ns)
        pair.b.note(pair.b.transport.handle_timer(now_ns))
        if second == 3:
            assert pair.a.transport.handle_timer(now_ns) == (KeepAliveDue(2),)
    lost = [event for event in pair.b.events if isinstance(event, LinkLost)]
    assert [event.link_id for event in lost] == [2]
    assert not pair.b.transport.closed


def test_close_is_said_on_every_link() -> None:
    pair = two_links()
    pair.a.transport.close(CloseReason.GENERIC, 0)
    assert pair.a.transport.pull(1, 0) == b"\x02\x00\x03\x00"
    assert not pair.a.transport.closed
    assert pair.a.transport.pull(2, 0) == b"\x02\x00\x03\x00"
    assert pair.a.transport.closed


def test_a_link_that_dies_while_closing_is_not_waited_for() -> None:
    pair = two_links()
    pair.a.transport.close(CloseReason.GENERIC, 0)
    pair.a.transport.pull(1, 0)
    pair.a.transport.remove_link(2, "reset")
    assert pair.a.transport.closed


def test_close_of_one_link_leaves_the_other() -> None:
    pair = two_links()
    close = encode_batch([Close(CloseReason.GENERIC)])
    events = pair.b.transport.receive_batch(1, close, 0, pair.b.sink)
    assert [type(event) for event in events] == [LinkLost]
    assert pair.b.transport.link_ids == [2]
    pair.b.transport.send(put(), True, 0)
    assert pair.b.transport.pull(2, 0) is not None


def test_close_of_the_whole_transport_takes_both_links() -> None:
    pair = two_links()
    close = encode_batch([Close(CloseReason.GENERIC, whole_transport=True)])
    events = pair.b.transport.receive_batch(1, close, 0, pair.b.sink)
    assert [type(event) for event in events] == [LinkLost, LinkLost, TransportClosed]
    assert pair.b.transport.link_ids == []


def test_links_of_different_size_and_kind_share_one_queue() -> None:
    agreed, _ = agree(opener_offer(), acceptor_offer())
    transport = Transport(agreed)
    transport.add_link(1, agreed, 0)
    transport.send(put(bytes(5_000)), True, 0)
    transport.add_link(2, replace(agreed, batch_len=1_000, compression=True), 0, stream=False)
    whole = transport.pull(1, 0)
    assert whole is not None
    assert len(whole) > 5_000  # made before the second link came, carried by the first
    transport.send(put(bytes(5_000)), True, 0)
    assert transport.remove_link(1, "reset") == ()
    batches = list(iter(lambda: transport.pull(2, 0), None))
    assert batches
    assert max(map(len, batches)) <= 1_000
    assert transport.stats.dropped_link == 0


def test_a_batch_made_for_a_longer_link_is_dropped_with_it_and_counted() -> None:
    agreed, _ = agree(opener_offer(), acceptor_offer())
    transport = Transport(agreed)
    transport.add_link(1, agreed, 0)
    transport.send(put(bytes(5_000)), True, 0)
    transport.add_link(2, replace(agreed, batch_len=1_000), 0)
    transport.remove_link(1, "reset")
    assert transport.stats.dropped_link == 1
    assert transport.pull(2, 0) is None


def test_a_restricted_link_serves_its_priorities() -> None:
    agreed, _ = agree(opener_offer(), acceptor_offer())
    transport = Transport(agreed)
    transport.add_link(1, replace(agreed, qos_link=QosLink(priorities=(0, 3))), 0)
    transport.add_link(2, replace(agreed, qos_link=QosLink(priorities=(4, 7))), 0)
    transport.remove_link(1, "reset")
    transport.add_link(3, replace(agreed, qos_link=QosLink(priorities=(1, 1))), 0)
    transport.add_link(4, agreed, 0)
    transport.remove_link(2, "reset")
    for priority, link_id in ((0, 4), (1, 3), (2, 4), (7, 4)):
        transport.send(put(qos=priority), True, 0)
        assert transport.wants_pull(link_id)
        assert transport.pull(link_id, 0) is not None


def test_a_better_link_does_not_take_over_what_may_be_under_way() -> None:
    agreed, _ = agree(opener_offer(), acceptor_offer())
    transport = Transport(agreed)
    transport.add_link(1, agreed, 0)
    transport.add_link(2, replace(agreed, qos_link=QosLink(priorities=(5, 5))), 0)
    transport.send(put(), True, 0)
    assert transport.pull(2, 0) is None
    assert transport.pull(1, 0) is not None


def test_a_sink_may_remove_the_link_whose_batch_it_reads() -> None:
    pair = Pair()

    class Leaving(Collector):
        def frame(self, reader: Reader, priority: int, reliable: bool) -> bool:
            super().frame(reader, priority, reliable)
            pair.b.transport.remove_link(LINK, "enough")
            return True

    batch = encode_batch([Frame(pair.views[0].own_initial_sn), put(), Close(CloseReason.GENERIC)])
    assert pair.b.transport.receive_batch(LINK, batch, 0, Leaving()) == ()
    assert pair.b.transport.closed


def test_a_sink_per_call() -> None:
    """The transport keeps no sink: the face may change between two batches."""
    pair = Pair()
    other = Collector()
    for sink in (pair.b.sink, other):
        pair.a.transport.send(put(), True, 0)
        batch = pair.a.transport.pull(LINK, 0)
        assert batch is not None
        pair.b.transport.receive_batch(LINK, batch[2:], 0, sink)
    assert pair.b.sink.messages == other.messages == [put()]
