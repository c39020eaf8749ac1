"""TxQueues: what stands in a batch, in which order, and what congestion does."""

from __future__ import annotations

import pytest
from tests.unit.transport.messages import BLOCK, BLOCK_FIRST, DATA, EXPRESS, declare, put

from elea.answers import DROPPED, REFUSED, SENT
from elea.transport.batching import TxQueues
from elea.transport.stats import TransportStats
from elea.wire.batches import decode_batch
from elea.wire.codec import Message, encode_one
from elea.wire.data.put import Put
from elea.wire.fields import WireEncoding, WireExpr
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest, InterestMode
from elea.wire.network.oam import Oam
from elea.wire.network.push import Push
from elea.wire.network.response_final import ResponseFinal
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import Frame

LINK = 3
MASK = 0x7F


class Bench:
    """Queues that one link serves, and what comes out of them."""

    def __init__(
        self,
        *,
        batch_len: int = 1_000,
        prefix_len: int = 2,
        qos: bool = True,
        mask: int = MASK,
        bare: bool = False,
        queue_len: int = 10_000,
    ) -> None:
        self.stats = TransportStats()
        self.bare = bare
        self.prefix_len = prefix_len
        self.batch_len = batch_len
        self.tx = TxQueues(
            batch_len=batch_len,
            prefix_len=prefix_len,
            qos=qos,
            mask=mask,
            initial_sn=126 & mask,
            bare=bare,
            queue_lens=(queue_len,) * 8,
            stats=self.stats,
        )
        for priority in self.tx.priorities():
            self.tx.assign(priority, LINK, batch_len)

    def pull(self) -> list[Message] | None:
        batch = self.tx.pull(LINK)
        if batch is None:
            return None
        assert len(batch) <= self.batch_len
        body = batch[self.prefix_len :]
        if self.prefix_len:
            assert int.from_bytes(batch[: self.prefix_len], "little") == len(body)
        return decode_batch(body, bare=self.bare)

    def pull_all(self) -> list[list[Message]]:
        return list(iter(self.pull, None))

    def fill(self, qos: int = DATA) -> int:
        """Send until the priority is congested; how many messages it took."""
        count = 0
        while self.tx.send(put(qos=qos), True) == SENT:
            count += 1
        return count


def test_nothing_sent_nothing_pulled() -> None:
    bench = Bench()
    assert bench.tx.pull(LINK) is None
    assert bench.tx.pending_len() == 0


def test_messages_of_one_conduit_share_a_frame() -> None:
    bench = Bench()
    messages = [put(bytes([n])) for n in range(5)]
    for message in messages:
        assert bench.tx.send(message, True) == SENT
    assert bench.pull_all() == [[Frame(126), *messages]]
    assert bench.stats.sent_messages == 5
    assert bench.stats.sent_batches == 1


def test_a_change_of_reliability_begins_a_frame() -> None:
    bench = Bench()
    for reliable in (True, True, False, True):
        bench.tx.send(put(), reliable)
    one = put()
    assert bench.pull_all() == [
        [Frame(126), one, one, Frame(126, reliable=False), one, Frame(127), one]
    ]
    bench.tx.send(put(), False)
    assert bench.pull_all() == [[Frame(127, reliable=False), one]]
    bench.tx.send(put(), True)
    assert bench.pull_all() == [[Frame(0), one]]


def test_the_most_urgent_priority_goes_first_each_in_its_own_batch() -> None:
    bench = Bench()
    for priority in (7, 5, 1, 0, 3):
        bench.tx.send(put(qos=priority | BLOCK), True)
    frames = [batch[0] for batch in bench.pull_all()]
    assert frames == [Frame(126, priority=priority) for priority in (0, 1, 3, 5, 7)]


def test_without_qos_one_queue_and_no_priority_on_the_wire() -> None:
    bench = Bench(qos=False)
    messages = [put(qos=priority) for priority in (7, 0, 5)]
    for message in messages:
        bench.tx.send(message, True)
    assert bench.pull_all() == [[Frame(126), *messages]]
    assert bench.tx.priorities() == [5]


@pytest.mark.parametrize(
    "message",
    [declare(), Interest(1, InterestMode.FINAL), Oam(1, None)],
    ids=lambda message: type(message).__name__,
)
def test_declarations_are_control_whatever_they_say(message: Declare | Interest | Oam) -> None:
    bench = Bench()
    assert bench.tx.send(message, True) == SENT
    [[frame, _]] = bench.pull_all()
    assert frame == Frame(126, priority=0)


def test_other_messages_keep_their_priority() -> None:
    bench = Bench()
    bench.tx.send(ResponseFinal(1, qos=0x0A), True)
    assert bench.pull_all()[0][0] == Frame(126, priority=2)


def test_a_full_batch_gives_way_to_the_next() -> None:
    bench = Bench(batch_len=100)
    messages = [put(bytes([n]) * 30) for n in range(10)]
    for message in messages:
        assert bench.tx.send(message, True) == SENT
    batches = bench.pull_all()
    assert [len(batch) for batch in batches] == [3, 3, 3, 3, 3]
    sent = [message for batch in batches for message in batch if not isinstance(message, Frame)]
    assert sent == messages
    assert [batch[0] for batch in batches] == [Frame((126 + n) & MASK) for n in range(5)]


@pytest.mark.parametrize("prefix_len", [0, 2])
def test_a_message_that_exactly_fits_is_not_fragmented(prefix_len: int) -> None:
    bench = Bench(batch_len=100, prefix_len=prefix_len)
    overhead = prefix_len + 2 + len(encode_one(put(b"")))
    bench.tx.send(put(b"x" * (100 - overhead)), True)
    batch = bench.tx.pull(LINK)
    assert batch is not None
    assert len(batch) == 100
    assert bench.tx.send(put(b"x" * (101 - overhead)), True) == SENT
    fragments = bench.pull_all()
    assert [type(batch[0]) for batch in fragments] == [Fragment, Fragment]


@pytest.mark.parametrize("priority", [5, 6])
@pytest.mark.parametrize("reliable", [False, True])
def test_fragments_are_marked_numbered_and_in_order(priority: int, reliable: bool) -> None:
    bench = Bench(batch_len=100)
    message = put(bytes(250), qos=priority)
    bench.tx.send(put(qos=priority), reliable)
    bench.tx.send(message, reliable)
    bench.tx.send(put(qos=priority), reliable)
    batches = bench.pull_all()
    assert batches[0][0] == Frame(126, reliable, priority)
    fragments = [batch[0] for batch in batches[1:-1]]
    data = encode_one(message)
    for at, fragment in enumerate(fragments):
        assert isinstance(fragment, Fragment)
        last = at == len(fragments) - 1
        assert (fragment.first, fragment.more) == (at == 0, not last)
        assert (fragment.priority, fragment.reliable) == (priority, reliable)
        assert fragment.sn == (127 + at) & MASK
        assert data.startswith(fragment.payload)
        data = data[len(fragment.payload) :]
    assert data == b""
    assert len(fragments) == 3
    assert batches[-1][0] == Frame((127 + 3) & MASK, reliable, priority)


def test_other_priorities_go_between_fragments() -> None:
    bench = Bench(batch_len=100)
    bench.tx.send(put(bytes(250), qos=7), True)
    first = bench.pull()
    assert first is not None
    bench.tx.send(put(qos=1), True)
    second = bench.pull()
    assert second is not None
    assert second[0] == Frame(126, priority=1)
    assert [type(batch[0]) for batch in bench.pull_all()] == [Fragment, Fragment]


def test_low_latency_has_neither_frames_nor_fragments() -> None:
    bench = Bench(batch_len=100, prefix_len=4, qos=False, bare=True)
    bench.tx.send(put(b"1"), True)
    bench.tx.send(put(b"2"), False)
    assert bench.pull_all() == [[put(b"1"), put(b"2")]]
    assert bench.tx.send(put(bytes(100)), True) == DROPPED
    assert bench.stats.dropped_too_long == 1
    assert bench.tx.pending_len() == 0


def test_what_cannot_be_encoded_leaves_no_trace() -> None:
    bench = Bench()
    bench.tx.send(put(), True)
    pending_len = bench.tx.pending_len()
    impossible = Push(WireExpr(0, "k"), Put(b"", encoding=WireEncoding(1, b"s" * 256)))
    for reliable in (True, False):
        with pytest.raises(ValueError, match="schema"):
            bench.tx.send(impossible, reliable)
    assert bench.tx.pending_len() == pending_len
    bench.tx.send(put(), True)
    assert bench.pull_all() == [[Frame(126), put(), put()]]


# Congestion


def test_a_droppable_message_that_finds_no_room_is_dropped_and_counted() -> None:
    bench = Bench(queue_len=500)
    bench.fill()
    assert bench.stats.dropped_congestion[5] == 1
    assert bench.tx.send(put(qos=6), True) == SENT  # another priority has room
    assert 500 < bench.tx.pending_len() < 500 + 100
    bench.pull_all()
    assert bench.tx.send(put(), True) == SENT


def test_a_blocking_message_that_finds_no_room_is_not_taken() -> None:
    bench = Bench(queue_len=500)
    taken = bench.fill(DATA | BLOCK)
    assert bench.tx.send(put(qos=DATA | BLOCK), True) == REFUSED
    assert bench.stats.blocked == 2
    assert sum(bench.stats.dropped_congestion) == 0
    sent = [m for batch in bench.pull_all() for m in batch if isinstance(m, Push)]
    assert len(sent) == taken


def test_declarations_are_never_dropped() -> None:
    bench = Bench(queue_len=200)
    while bench.tx.send(declare(), True) == SENT:
        pass
    assert bench.tx.send(declare(), True) == REFUSED
    assert sum(bench.stats.dropped_congestion) == 0


def test_the_first_block_first_message_waits_and_others_are_dropped() -> None:
    bench = Bench(queue_len=500)
    bench.fill()
    first, second = put(qos=DATA | BLOCK_FIRST), put(qos=DATA | BLOCK_FIRST)
    assert bench.tx.send(first, True) == REFUSED
    assert bench.tx.send(second, True) == DROPPED
    assert bench.tx.send(first, True) == REFUSED  # tried again, still the first
    bench.pull_all()
    assert bench.tx.send(first, True) == SENT
    bench.fill()
    assert bench.tx.send(second, True) == REFUSED  # nobody waits any more


def test_a_waiter_that_gave_up_does_not_shut_others_out() -> None:
    bench = Bench(queue_len=500)
    bench.fill()
    assert bench.tx.send(put(qos=DATA | BLOCK_FIRST), True) == REFUSED
    bench.pull_all()
    bench.fill()
    assert bench.tx.send(put(qos=DATA | BLOCK_FIRST), True) == REFUSED


def test_a_message_longer_than_the_bound_is_taken_whole_by_an_empty_queue() -> None:
    bench = Bench(batch_len=100, queue_len=500)
    assert bench.tx.send(put(bytes(5_000), DATA | BLOCK), True) == SENT
    assert bench.tx.send(put(qos=DATA | BLOCK), True) == REFUSED
    for _ in range(40):
        bench.pull()
    assert bench.tx.send(put(qos=DATA | BLOCK), True) == REFUSED
    while bench.tx.pending_len() > 500:
        bench.pull()
    assert bench.tx.send(put(qos=DATA | BLOCK), True) == SENT


def test_without_qos_drops_count_under_the_messages_own_priority() -> None:
    bench = Bench(qos=False, queue_len=200)
    bench.fill()
    bench.tx.send(put(qos=2), True)
    assert bench.stats.dropped_congestion == [0, 0, 1, 0, 0, 1, 0, 0]


# Express, links, sizes


def test_express_is_pending_until_it_was_pulled() -> None:
    bench = Bench()
    seen = []
    for message in (put(), put(qos=DATA | EXPRESS), put(bytes(3_000), DATA | EXPRESS)):
        bench.tx.send(message, True)
        seen.append(bench.tx.express_pending)
        bench.pull_all()
        seen.append(bench.tx.express_pending)
    assert seen == [False, False, True, False, True, False]


def test_a_priority_is_served_by_its_link_alone() -> None:
    bench = Bench()
    bench.tx.assign(1, 9, 1_000)
    bench.tx.send(put(qos=1), True)
    assert bench.tx.pull(LINK) is None
    assert not bench.tx.waits_for(LINK)
    assert bench.tx.waits_for(9)
    assert bench.tx.pull(9) is not None
    assert not bench.tx.waits_for(9)


def test_shorter_batches_from_now_on() -> None:
    bench = Bench(batch_len=1_000)
    bench.tx.send(put(bytes(500)), True)
    bench.tx.resize(100)
    bench.tx.send(put(bytes(200)), True)
    batches = bench.pull_all()
    assert batches[0] == [Frame(126), put(bytes(500))]
    assert [type(batch[0]) for batch in batches[1:]] == [Fragment] * 3


def test_batches_too_long_for_the_only_link_left_are_dropped_and_counted() -> None:
    bench = Bench(batch_len=1_000)
    bench.tx.send(put(bytes(500)), True)
    bench.tx.send(put(bytes(5_000)), True)
    bench.tx.resize(100)
    bench.tx.send(put(), True)
    bench.tx.assign(5, LINK, 100)
    assert bench.stats.dropped_link == 2
    [[frame, message]] = bench.pull_all()
    assert message == put()
    assert isinstance(frame, Frame)
    assert bench.tx.pending_len() == 0


def test_clear_forgets_everything_but_the_numbers() -> None:
    bench = Bench(batch_len=100)
    bench.tx.send(put(qos=DATA | EXPRESS), True)
    bench.tx.send(put(bytes(500), qos=1), True)
    bench.tx.clear()
    assert bench.tx.pending_len() == 0
    assert not bench.tx.express_pending
    assert bench.tx.pull(LINK) is None
    assert bench.tx.next_sn(5, reliable=True) == 127
    assert bench.tx.next_sn(5, reliable=False) == 126


@pytest.mark.parametrize("mask", [0x7F, 0x3FFF, 0x0FFF_FFFF, 0x7FFF_FFFF_FFFF_FFFF])
def test_the_smallest_batch_carries_fragments_at_every_resolution(mask: int) -> None:
    bench = Bench(batch_len=64, mask=mask)
    bench.tx.send(put(bytes(5_000), qos=7), True)
    total = sum(
        len(batch[0].payload) for batch in bench.pull_all() if isinstance(batch[0], Fragment)
    )
    assert total == len(encode_one(put(bytes(5_000), qos=7)))
