"""Counters by key: bounded, and gone when nobody asks any more."""

from __future__ import annotations

from elea.fast.traffic import OTHERS, KeyTraffic

SECOND_NS = 1_000_000_000


def test_counters_begin_with_the_first_question_and_end_with_the_last() -> None:
    traffic = KeyTraffic(10, 60 * SECOND_NS)
    spare = traffic.of("a")
    spare.add(1, 5, 1)
    assert (traffic.active, traffic.counts()) == (False, [])
    traffic.want(SECOND_NS)
    assert (traffic.active, int(traffic.generation)) == (True, 1)
    assert traffic.of("a") is not spare
    traffic.of("a").add(1, 5, 2 * SECOND_NS)
    traffic.want(50 * SECOND_NS)
    assert traffic.counts() == [("a", 1, 5, 2 * SECOND_NS)]
    assert int(traffic.generation) == 1
    traffic.want(200 * SECOND_NS)  # too late: it begins anew
    assert traffic.counts() == []
    assert int(traffic.generation) == 3
    traffic.stop()
    assert not traffic.active


def test_keys_beyond_the_limit_share_a_counter() -> None:
    traffic = KeyTraffic(2, SECOND_NS)
    traffic.want(0)
    for key in "abcda":
        traffic.of(key).add(1, 1, 7)
    assert traffic.counts() == [("a", 2, 2, 7), ("b", 1, 1, 7), (OTHERS, 2, 2, 7)]
