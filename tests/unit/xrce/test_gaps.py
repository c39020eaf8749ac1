"""Gaps of a reliable channel: how soon they are asked for, and what goes on meanwhile."""

from __future__ import annotations

import pytest
from tests.xrce_ends import RTT_NS, acks, receiver, round_trip, send, sent, take
from tests.xrce_network import SECOND

from elea.limits import DEFAULT_LIMITS
from elea.xrce.channel.conduits import window_of
from elea.xrce.channel.receiver import AGAIN_COUNT, SPREAD
from elea.xrce.channel.sender import ReliableSender, Window
from elea.xrce.channel.serial import Serial
from elea.xrce.message_records import AckNack

AGAIN_NS = RTT_NS * 9 // 8


def test_a_gap_is_asked_for_once_per_round_trip() -> None:
    end = receiver()
    take(end, 0)
    take(end, 2)
    take(end, 4)
    assert acks(end) == ["2f 01 02"]  # both, in one answer to one frame
    take(end, 5, RTT_NS)
    assert acks(end) == []  # it may come just now
    take(end, 6, AGAIN_NS)
    assert acks(end) == ["2f 01 02"]
    assert take(end, 1, AGAIN_NS) == ["m1", "m2"]
    assert acks(end) == []  # another gap is asked for soon, with what is lost meanwhile
    assert end.next_timer_ns() == AGAIN_NS + RTT_NS // SPREAD
    end.handle_timer(AGAIN_NS + RTT_NS // SPREAD)
    assert acks(end) == ["2f 03 00"]


def test_a_gap_is_asked_for_again_without_news_but_not_for_ever() -> None:
    end = receiver()
    take(end, 0)
    take(end, 2)
    assert acks(end) == ["2f 01 00"]
    asked = 0
    while (at := end.next_timer_ns()) is not None:
        end.handle_timer(at)
        asked += len(acks(end))
    assert asked == AGAIN_COUNT
    take(end, 3, SECOND)  # news
    assert acks(end) == ["2f 01 00"]
    assert end.next_timer_ns() == SECOND + AGAIN_NS


def test_a_gap_that_is_filled_is_acknowledged_soon() -> None:
    """The peer's window waits for it; without a gap an acknowledgement waits for more messages."""
    end = receiver()
    take(end, 0)
    take(end, 2)
    acks(end)
    assert take(end, 1, RTT_NS) == ["m1", "m2"]
    assert acks(end) == ["0f 03"]
    take(end, 3, RTT_NS)
    assert acks(end) == []


def test_what_the_peer_stores_is_not_under_way_any_more() -> None:
    end = ReliableSender(Serial(14), round_trip(), Window(8, 2**20, 4))
    for _ in range(4):
        send(end)
    assert not end.has_room(1)
    end.acknack(AckNack(sn=0, mask=0b10), 0)  # it has 1, and misses 0 and 2; of 3 it says nothing
    assert (end.flight_count, end.unacknowledged_count) == (3, 4)
    assert end.has_room(1)
    end.acknack(AckNack(sn=0, mask=0b11), 0)  # it had no room for 1 after all
    assert end.flight_count == 4
    end.acknack(AckNack(sn=0, mask=0b100), 0)
    for _ in range(2):
        send(end)
    assert not end.has_room(1)
    end.acknack(AckNack(sn=6), 0)
    assert (end.flight_count, end.unacknowledged_count) == (0, 0)


def test_what_is_not_asked_for_after_a_round_trip_is_not_under_way() -> None:
    """A frame was lost, and what came after it is stored: the mask ends before that."""
    end = ReliableSender(Serial(14), round_trip(), Window(8, 2**20, 4))
    for _ in range(4):
        send(end)
    end.acknack(AckNack(sn=0, mask=0b1), RTT_NS - 1)
    assert end.flight_count == 4
    end.acknack(AckNack(sn=0, mask=0b1), RTT_NS)
    assert end.flight_count == 2
    assert [octets[:5] for octets in sent(end)[-2:]] == ["47 00", "67 01"]


def test_the_window_bounds_what_is_kept_whatever_the_peer_stores() -> None:
    end = ReliableSender(Serial(14), round_trip(), Window(6, 2**20, 4))
    while end.has_room(1):
        send(end)
        newest = end.unacknowledged_count - 2
        end.acknack(AckNack(sn=0, mask=1 << newest if newest >= 0 else 0), 0)
    assert end.unacknowledged_count == 6
    assert end.flight_count < 4


def test_the_answer_to_an_s_flag_is_a_round_trip_unless_it_was_asked_for_again() -> None:
    trip = round_trip()
    end = ReliableSender(Serial(14), trip, Window(8, 2**20, 8))
    send(end, flush=True)
    end.acknack(AckNack(sn=1), 2 * RTT_NS)
    assert (trip.samples_count, trip.rtt_ns) == (2, RTT_NS + RTT_NS // 8)
    send(end, now_ns=2 * RTT_NS, flush=True)
    end.acknack(AckNack(sn=1, mask=0), 5 * RTT_NS)  # which sends it again
    end.acknack(AckNack(sn=2), 6 * RTT_NS)
    assert trip.samples_count == 2
    send(end, now_ns=6 * RTT_NS, flush=True)
    end.handle_timer(20 * RTT_NS)
    end.acknack(AckNack(sn=3), 20 * RTT_NS)  # the answer to a Synch
    assert trip.samples_count == 2
    send(end, now_ns=20 * RTT_NS, flush=True)
    send(end, now_ns=20 * RTT_NS)
    end.acknack(AckNack(sn=5), 21 * RTT_NS)  # one answer to all of a frame
    assert trip.samples_count == 3


@pytest.mark.parametrize(
    ("store", "window"),
    [(None, (1_024, 2**20, 256)), ((32, 4_096), (32, 4_096, 16)), ((0, 0), (1, 1, 1))],
)
def test_what_is_under_way_fits_what_the_peer_stores(
    store: tuple[int, int] | None, window: tuple[int, int, int]
) -> None:
    assert window_of(DEFAULT_LIMITS, store) == window
