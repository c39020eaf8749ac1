"""The machines of a channel, one input at a time."""

from __future__ import annotations

import dataclasses

import pytest
from tests.xrce_ends import RTT_NS, acks, receiver, round_trip, send, sender, sent, synch, take
from tests.xrce_network import MS, SECOND, Network, pump, sample

from elea.errors import DecodeError, InvalidValueError, RemoteProtocolError
from elea.limits import DEFAULT_LIMITS
from elea.xrce.channel.besteffort import BestEffortReceiver
from elea.xrce.channel.conduits import Conduits
from elea.xrce.channel.receiver import ACK_COUNT, RESTART_NS, ReliableReceiver
from elea.xrce.channel.rtt import RTO_MAX_NS, RTO_MIN_NS, RoundTrip
from elea.xrce.channel.serial import Serial
from elea.xrce.declaration_records import CommitDecl
from elea.xrce.encode import encode
from elea.xrce.framing import Marked, read_frame
from elea.xrce.message_records import AckNack, Declare, Frag, Ping, Pull, StreamData, Synch

# Numbers.


@pytest.mark.parametrize("bits", [4, 7, 14, 63])
def test_distance_is_signed_and_wraps(bits: int) -> None:
    numbers = Serial(bits)
    top = 2**bits - 1
    assert numbers.after(top) == 0
    assert numbers.after(0, -1) == top
    assert numbers.distance(0, top) == 1
    assert numbers.distance(top, 0) == -1
    assert numbers.distance(5, 5) == 0
    assert numbers.distance(numbers.half, 0) == -numbers.half
    with pytest.raises(DecodeError, match=f"legal is below 2\\^{bits}"):
        numbers.check(2**bits)


@pytest.mark.parametrize("bits", [3, 64])
def test_lengths_that_are_not_supported_are_refused(bits: int) -> None:
    with pytest.raises(InvalidValueError, match="legal are 4 to 63"):
        Serial(bits)


# Best effort.


@pytest.mark.line("X-084")
def test_best_effort_is_in_order_and_once() -> None:
    end = BestEffortReceiver(Serial(7), idle_ns=0)
    assert [sn for sn in (5, 7, 6, 7, 8, 5, 127, 70, 127, 1) if end.receive(sn, 0)] == [
        *(5, 7, 8),
        *(70, 127, 1),
    ]
    end = BestEffortReceiver(Serial(14), idle_ns=0)
    order = (16_381, 16_383, 16_382, 16_383, 0, 16_383, 2, 1, 3)
    assert [sn for sn in order if end.receive(sn, 0)] == [16_381, 16_383, 0, 2, 3]
    assert end.dropped_count == 4


@pytest.mark.line("X-085")
def test_a_synch_moves_what_best_effort_expects() -> None:
    network = Network(1)
    end = network.ends[1]
    before = Marked(StreamData(reliable=False, sync=False, sn=100, id=2, payload=b""))
    old = Marked(StreamData(reliable=False, sync=False, sn=9, id=2, payload=b""))
    assert end.receive(before, 4, 0) == [before]
    assert end.receive(old, 4, 0) == []
    assert end.receive(Marked(Synch(reliable=False, sync=False, sn=9, count=3)), 2, 0) == []
    assert end.receive(old, 4, 0) == [old]


def test_best_effort_begins_anew_after_a_long_silence() -> None:
    end = BestEffortReceiver(Serial(14), idle_ns=SECOND)
    assert end.receive(8_000, 0)
    assert not end.receive(1, SECOND)
    assert end.receive(1, SECOND + 1)


# Sender.


def test_the_exchange_of_the_specification_octet_for_octet() -> None:
    out, back = sender(), receiver()
    for text, flush in (("a", False), ("b", False), ("c", True)):
        send(out, text, flush=flush)
    assert sent(out) == ["4e 00", "47 00 02 01 61", "47 01 02 01 62", "67 02 02 01 63"]
    back.synch(synch(0), 0)
    assert take(back, 0) == ["m0"]
    assert take(back, 2, answer=True) == []
    assert acks(back)[-1] == "2f 01 00"
    out.acknack(AckNack(sn=1, mask=0), 2 * RTT_NS)
    assert sent(out) == ["67 01 02 01 62"]
    assert take(back, 1, 2 * RTT_NS, answer=True) == ["m1", "m2"]
    assert acks(back) == ["0f 03"]
    assert out.acknack(AckNack(sn=3), 3 * RTT_NS)
    assert out.unacknowledged_count == 0
    assert out.next_timer_ns() is None


@pytest.mark.line("X-089")
def test_masks_ask_for_what_is_missing() -> None:
    out = sender()
    for _ in range(130):
        send(out)
    out.acknack(AckNack(sn=127), 0)
    sent(out)
    out.acknack(AckNack(sn=127, mask=2), 2 * RTT_NS)
    assert sent(out) == ["47 7f 02 01 61", "67 81 01 02 01 61"]


@pytest.mark.line("X-089")
def test_a_mask_of_seventy_bits_is_understood() -> None:
    out = sender()
    for _ in range(75):
        send(out)
    sent(out)
    octets = encode(AckNack(sn=0, mask=1 << 69))
    assert len(octets) == 12
    [marked] = read_frame(octets)
    assert isinstance(marked.message, AckNack)
    out.acknack(marked.message, 2 * RTT_NS)
    assert sent(out) == ["47 00 02 01 61", "67 46 02 01 61"]


def test_bits_beyond_what_was_sent_are_ignored() -> None:
    out = sender()
    send(out)
    sent(out)
    out.acknack(AckNack(sn=0, mask=2**64 - 1), 2 * RTT_NS)
    assert sent(out) == ["67 00 02 01 61"]
    out.acknack(AckNack(sn=1, mask=0), 2 * RTT_NS)
    assert sent(out) == []


@pytest.mark.line("X-090")
def test_a_request_is_honoured_at_the_latest_the_second_time() -> None:
    out = sender()
    send(out)
    sent(out)
    out.acknack(AckNack(sn=0, mask=0), RTT_NS // 2)  # it may be under way
    assert sent(out) == []
    out.acknack(AckNack(sn=0, mask=0), RTT_NS // 2)
    assert sent(out) == ["67 00 02 01 61"]
    out.acknack(AckNack(sn=0, mask=0), RTT_NS // 2)
    assert sent(out) == []
    assert out.resent_count == 1


@pytest.mark.line("X-092")
@pytest.mark.parametrize(
    ("bits", "configured", "window"), [(14, 256, 256), (14, 10_000, 8_190), (7, 256, 62), (4, 9, 6)]
)
def test_the_window_holds_the_writer_back(bits: int, configured: int, window: int) -> None:
    out = sender(bits, configured)
    for _ in range(window):
        assert out.has_room(5)
        send(out)
    assert not out.has_room(5)
    sent(out)
    out.wait_for_room()
    out.wait_for_room()
    full = Synch(reliable=True, sync=True, sn=window % 2**bits, count=window)
    assert sent(out) == [encode(full).hex(" ")]
    assert out.acknack(AckNack(sn=1), 0)
    assert out.has_room(5)


@pytest.mark.line("X-092")
def test_the_window_counts_octets_too() -> None:
    out = sender(length=100)
    data = StreamData(reliable=True, sync=False, sn=0, id=2, payload=bytes(200))
    assert out.has_room(204)  # one message always has room, or it could never be sent
    out.send(encode(data), 0)
    assert not out.has_room(5)


@pytest.mark.line("X-093")
def test_acknowledgements_outside_of_the_window_are_ignored() -> None:
    out = sender()
    for _ in range(3):
        send(out)
    out.acknack(AckNack(sn=2), 0)
    for sn in (1, 4, 9_000):
        assert not out.acknack(AckNack(sn=sn, mask=1), SECOND)
    assert out.ignored_count == 3
    assert out.unacknowledged_count == 1
    with pytest.raises(DecodeError):
        out.acknack(AckNack(sn=2**14), 0)


@pytest.mark.line("X-087")
def test_the_loss_of_the_last_message_is_seen_without_further_traffic() -> None:
    network = Network(1)
    lost: list[bytes] = []

    def drop(number: int, frame: bytes) -> bool:
        is_data = number == 0 and frame[0] & 0x1F == 7 and not lost
        lost.extend([frame] if is_data else [])
        return is_data

    network.drop = drop
    assert network.ends[0].send(sample(b"last"), 0)
    network.settle()
    assert network.payloads(1) == [b"last"]
    assert lost


def test_synchs_come_at_growing_intervals_until_there_is_progress() -> None:
    out = sender()
    send(out)
    sent(out)
    waits, before = [], 0
    for number in range(9):
        at = out.next_timer_ns()
        assert at is not None
        out.handle_timer(at - 1)
        assert sent(out) == []
        out.handle_timer(at)
        # The second was not answered either: the message itself goes with it.
        assert sent(out) == ["ee 01 01", *(["67 00 02 01 61"] if number else [])]
        waits.append(at - before)
        before = at
    assert waits == sorted(waits)
    assert waits[1] == 2 * waits[0]
    assert waits[-1] == SECOND
    send(out, now_ns=before)
    out.acknack(AckNack(sn=1), before)
    assert out.next_timer_ns() == before + waits[0]


def test_an_answer_without_progress_shortens_the_wait_for_the_next_synch() -> None:
    """The peer lives, and what it misses was lost: there is no reason to wait longer."""
    out = sender()
    send(out)
    at = 0
    for _ in range(6):
        at = out.next_timer_ns() or 0
        out.handle_timer(at)
    waited = (out.next_timer_ns() or 0) - at
    sent(out)
    out.acknack(AckNack(sn=0), at + 1)
    assert (out.next_timer_ns() or 0) - at - 1 == waited // 4
    out.handle_timer(at + 1 + waited // 4)
    assert sent(out) == ["ee 01 01"], "it was heard, so the Synch is enough"


@pytest.mark.line("X-096")
@pytest.mark.parametrize(
    ("bits", "kept", "told"), [(14, 0, None), (14, 1, 1), (14, 256, 256), (4, 6, 6)]
)
def test_a_synch_tells_how_far_back_it_can_go(bits: int, kept: int, told: int | None) -> None:
    out = sender(bits)
    for _ in range(kept):
        send(out)
    sent(out)
    out.wait_for_room()
    [octets] = out.data_to_send()
    [marked] = read_frame(octets)
    assert isinstance(marked.message, Synch)
    assert (marked.message.reliable, marked.message.count) == (True, told)
    assert bool(octets[0] & 0x80) == (told is not None)


def test_an_answer_is_asked_for_when_the_window_fills() -> None:
    out = sender(count=8)
    for _ in range(8):
        send(out)
    flags = [bool(int(octets[:2], 16) & 0x20) for octets in sent(out)[1:]]
    assert flags == [False] * 5 + [True, False, False]


# Receiver.


@pytest.mark.line("X-088")
def test_s_is_answered_at_once_and_everything_else_later() -> None:
    end = receiver()
    take(end, 0)
    assert acks(end) == []
    assert end.next_timer_ns() == 100 * MS
    end.handle_timer(100 * MS - 1)
    assert acks(end) == []
    end.handle_timer(100 * MS)
    assert acks(end) == ["0f 01"]
    take(end, 1, answer=True)
    assert acks(end) == ["0f 02"]
    end.synch(synch(2, sync=True), 0)
    assert acks(end) == ["0f 02"]
    take(end, 1, answer=True)  # a repetition is answered too: the first answer was lost
    assert acks(end) == ["0f 02"]


def test_one_acknowledgement_for_many() -> None:
    end = receiver()
    for sn in range(ACK_COUNT):
        take(end, sn)
    assert acks(end) == ["0f 40"]


@pytest.mark.parametrize(("bits", "asked"), [(31, 16), (255, 50)])
def test_a_mask_asks_for_what_fits_it(bits: int, asked: int) -> None:
    end = ReliableReceiver[str](
        Serial(14), round_trip(), store_count=256, store_len=2**20, mask_bits=bits
    )
    for sn in range(1, 101, 2):
        take(end, sn)
    end.acks_to_send()
    end.synch(synch(100, 100, sync=True), 0)
    [ack] = end.acks_to_send()
    assert ack.mask is not None
    assert 1 + ack.mask.bit_count() == asked


def test_what_does_not_fit_the_store_is_asked_for_again() -> None:
    end = receiver(count=2, length=25)
    for sn in (1, 2, 3):
        take(end, sn)
    assert end.unstored_count == 1
    acks(end)
    assert take(end, 0, RTT_NS) == ["m0", "m1", "m2"]
    assert acks(end) == ["2f 03 00"]
    end = receiver(count=9, length=25)
    for sn in (1, 2, 3):
        take(end, sn)
    assert end.unstored_count == 1


@pytest.mark.line("X-094")
def test_what_the_peer_no_longer_has_is_a_gap() -> None:
    end = receiver()
    take(end, 0)
    take(end, 3)
    acks(end)
    assert end.synch(synch(6, 4, sync=True), RTT_NS) == []  # 2, 3, 4, 5 are available, 1 is not
    assert end.gap_count == 1
    assert acks(end) == ["2f 02 06"]  # 2, and 4 and 5; 3 is stored
    assert take(end, 2) == ["m2", "m3"]
    assert end.synch(synch(7, 2), 0) == []
    assert end.synch(synch(7, 0), 0) == []
    assert end.gap_count == 4


def test_a_gap_may_reach_what_is_stored() -> None:
    end = receiver()
    take(end, 0)
    take(end, 2)
    assert end.synch(synch(3, 1), 0) == ["m2"]
    assert end.gap_count == 1


@pytest.mark.line("X-095")
def test_a_synch_says_where_the_numbers_begin() -> None:
    end = receiver()
    assert end.synch(synch(500), 0) == []
    assert take(end, 499) == []
    assert take(end, 500) == ["m500"]
    end = receiver()
    assert take(end, 0) == ["m0"]
    assert end.gap_count == 0
    end = receiver()  # the Synch may come after the messages
    assert take(end, 500) == []
    assert end.synch(synch(501, 1), 0) == ["m500"]
    assert end.gap_count == 0


def test_a_late_synch_changes_nothing_but_a_restart_is_noticed() -> None:
    end = receiver()
    for sn in range(10):
        take(end, sn)
    assert end.synch(synch(3, 3), 0) == []
    assert end.expected_sn == 10
    take(end, 10, RESTART_NS)  # something newer came: the Synch was late
    end.synch(synch(3, 3), RESTART_NS)
    assert end.expected_sn == 11
    end.synch(synch(3, 3), 2 * RESTART_NS)  # it goes on, and nothing newer came
    assert end.expected_sn == 0
    assert take(end, 0) == ["m0"]


def test_numbers_that_make_no_sense_are_ignored() -> None:
    end = receiver(bits=4)
    assert end.synch(synch(8, 7), 0) == []
    assert take(end, 6) == []
    assert end.ignored_count == 2
    with pytest.raises(DecodeError):
        take(end, 16)
    with pytest.raises(DecodeError):
        end.synch(synch(16), 0)


# Conduits.


@pytest.mark.line("X-097")
def test_conduits_do_not_hold_each_other_up() -> None:
    network = Network(1)
    network.drop = lambda number, frame: number == 0 and frame[0] & 0x1F == 7  # of conduit 0
    network.ends[0].send(sample(b"lost"), 0)
    network.ends[0].send(sample(b"first"), 0, conduit=2)
    network.ends[0].send(sample(b"second"), 0, conduit=2)
    network.run(lambda: len(network.delivered[1]) == 2)
    assert [marked.conduit for marked in network.delivered[1]] == [2, 2]
    assert [one.message.sn for one in network.delivered[1]] == [0, 1]  # type: ignore[union-attr]


@pytest.mark.line("X-098")
@pytest.mark.parametrize(("conduit", "marker"), [(0, ""), (2, "b3 "), (5, "13 05 ")])
def test_an_acknowledgement_carries_the_conduit_of_the_data(conduit: int, marker: str) -> None:
    network = Network(1)
    network.ends[0].send(sample(b"a"), 0, conduit=conduit, flush=True)
    network.settle()
    assert [frame.hex(" ") for frame in network.frames[1]] == [f"{marker}0f 01"]
    assert [frame.hex(" ") for frame in network.frames[0]] == [
        f"{marker}4e 00",
        f"{marker}67 00 02 01 61",
    ]
    assert network.ends[0].unacknowledged_count == 0


@pytest.mark.line("X-022")
def test_a_conduit_that_is_not_accepted_closes_the_session_with_5() -> None:
    end = Conduits()
    for message in (synch(0), StreamData(reliable=True, sync=False, sn=0, id=2, payload=b"")):
        with pytest.raises(RemoteProtocolError, match="conduit 8; 0 to 7 are accepted") as caught:
            end.receive(Marked(message, conduit=8), 5, 0)
        assert caught.value.close_reason == 5


def test_a_marker_before_a_message_without_channel_has_no_effect() -> None:
    ping = Marked(Ping(hash=1), conduit=200)
    assert Conduits().receive(ping, 2, 0) == [ping]


def test_an_acknowledgement_of_nothing_is_counted() -> None:
    end = Conduits()
    assert end.receive(Marked(AckNack(sn=0), conduit=3), 2, 0) == []
    assert end.stray_acks_count == 1


def test_declare_and_pull_are_always_reliable() -> None:
    network = Network(1)
    out = network.ends[0]
    declarations = (CommitDecl(commit_id=1),)
    out.send(lambda sn: Declare(sync=False, committed=False, sn=sn, declarations=declarations), 0)
    out.send(lambda sn: Pull(sync=False, sn=sn, id=2, pull_id=0), 0)
    assert out.unacknowledged_count == 2
    network.settle()
    assert [type(marked.message) for marked in network.delivered[1]] == [Declare, Pull]
    assert out.unacknowledged_count == 0


def test_best_effort_and_fragments_have_their_markers() -> None:
    end = Conduits()
    end.send(sample(b"a", reliable=False), 0, conduit=1)
    end.send(sample(b"b", reliable=False), 0, fragment=lambda sn: Frag(sn_base=sn, n=2))
    end.send(sample(b"c"), 0, conduit=1, fragment=lambda sn: Frag(sn_base=sn, n=2))
    assert [octets.hex(" ") for octets in end.data_to_send()] == [
        "93 07 00 02 01 61",
        "52 00 02 07 00 02 01 62",
        "93 4e 00",
        "93 52 00 02 47 00 02 01 63",
    ]


def test_a_full_window_says_no_and_a_dead_peer_is_noticed() -> None:
    limits = dataclasses.replace(DEFAULT_LIMITS, xrce_window_count=2)
    end = Conduits(limits=limits, lease_ns=10 * SECOND)
    assert end.send(sample(b"a"), 0)
    assert end.send(sample(b"b"), 0)
    assert not end.send(sample(b"c"), 0)
    assert not end.is_stalled(10 * SECOND)
    assert end.is_stalled(10 * SECOND + 1)
    end.receive(Marked(AckNack(sn=1)), 2, 10 * SECOND)
    assert not end.is_stalled(20 * SECOND)
    end.receive(Marked(AckNack(sn=2)), 2, 20 * SECOND)
    assert not end.is_stalled(500 * SECOND)
    assert Conduits().is_stalled(500 * SECOND) is False


def test_both_directions_at_once() -> None:
    network = Network(3)
    for end in network.ends:
        for number in range(50):
            end.send(sample(b"%d" % number), 0)
    network.settle()
    assert network.payloads(0) == network.payloads(1) == [b"%d" % number for number in range(50)]
    assert not any(end.unacknowledged_count for end in network.ends)


def test_loss_free_sending_resends_nothing() -> None:
    network = Network(1)
    pump(network, 2_000)
    assert network.ends[0].resent_count == 0


# Round trips.


def test_the_round_trip_settles_on_what_is_measured() -> None:
    times = RoundTrip()
    assert (times.rtt_ns, times.rto_ns) == (50 * MS, 200 * MS)
    for _ in range(60):
        times.sample(30 * MS)
    assert abs(times.rtt_ns - 30 * MS) < MS
    assert times.rtt_ns <= times.rto_ns < 40 * MS
    times.sample(60 * SECOND)
    assert times.rto_ns == RTO_MAX_NS
    fast = RoundTrip()
    fast.sample(1)
    assert fast.rto_ns == RTO_MIN_NS
