"""Repeats: each sample of a sink once, others untouched, bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from elea import EntityGlobalId, Sample, SourceInfo, ZenohId
from elea.ids import EntityId
from elea.spark.repeats import Repeats, once
from elea.timestamp import NTP64, Timestamp


def sample(number: int | None, eid: int = 1) -> Sample:
    source = EntityGlobalId(ZenohId(b"\x01"), EntityId(eid))
    info = None if number is None else SourceInfo(source, number)
    return Sample(key_expr="k", source_info=info)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=200))
def test_each_number_of_a_source_is_new_once(arrivals: list[tuple[int, int]]) -> None:
    repeats = Repeats()
    fresh = [one for one in arrivals if repeats.is_new(sample(one[1], one[0]))]
    assert fresh == list(dict.fromkeys(arrivals))
    assert repeats.dropped_count == len(arrivals) - len(fresh)


def test_a_task_that_is_tried_again_is_seen_once() -> None:
    got: list[Sample] = []
    take = once(got.append)
    for attempt in (range(5), range(10)):
        for number in attempt:
            take(sample(number))
    assert [one.source_info.source_sn for one in got if one.source_info] == [*range(10)]


def test_samples_without_source_are_never_dropped() -> None:
    got: list[Sample] = []
    take = once(got.append)
    for _ in range(3):
        take(sample(None))
    assert len(got) == 3


def test_the_oldest_source_is_forgotten_first() -> None:
    repeats = Repeats(sources_count=2)
    for eid in (1, 2, 1, 3):  # 2 was used longest ago
        repeats.is_new(sample(7, eid))
    assert [repeats.is_new(sample(7, eid)) for eid in (1, 3, 2)] == [False, False, True]


def stamped(seconds: int, key: str = "k", payload: bytes = b"ok") -> Sample:
    source = SourceInfo(EntityGlobalId(ZenohId(b"\x01"), EntityId(1)), 0)
    time = Timestamp(NTP64(seconds, 0), ZenohId(b"\x01"))
    return Sample(key_expr=key, payload=payload, timestamp=time, source_info=source)


def test_a_publisher_that_restarts_and_counts_from_0_loses_nothing() -> None:
    """Its numbers come again, with newer timestamps, other keys or other payloads."""
    repeats = Repeats()
    distinct = [stamped(1), stamped(2), stamped(1, key="l"), stamped(1, payload=b"no")]
    assert all(repeats.is_new(one) for one in distinct)
    assert not any(repeats.is_new(one) for one in distinct)


def test_samples_are_remembered_up_to_a_bound() -> None:
    repeats = Repeats(samples_count=3)
    for number in range(5):
        assert repeats.is_new(sample(number))
    assert [repeats.is_new(sample(number)) for number in (4, 3, 2, 0)] == [
        False,
        False,
        False,
        True,
    ]
