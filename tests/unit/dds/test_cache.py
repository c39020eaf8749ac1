"""Samples for late joiners, and history merged with live samples."""

from __future__ import annotations

import pytest
from tests.unit.dds.test_routes import endpoint

from elea.dds.cache import Arrived, Cache, CacheBudget, Kept, Written, depth_of, merge
from elea.dds.qos import KEEP_ALL, Durability, Qos

line = pytest.mark.line
DURABLE = Durability.TRANSIENT_LOCAL


def kept(time: int, writer: bytes, payload: bytes = b"1234") -> Kept:
    return Kept(payload, time, writer, b"", time)


def cache_of(*depths: int) -> tuple[Cache, list[bytes]]:
    writers = [
        endpoint(number, qos=Qos(durability=DURABLE, depth=depth))
        for number, depth in enumerate(depths)
    ]
    cache = Cache()
    cache.set_writers(writers, 1_000)
    return cache, [one.guid for one in writers]


@line("D-561")
def test_depths_are_those_that_late_joiners_get() -> None:
    assert depth_of(endpoint(1, qos=Qos(depth=3)), 1_000) == 3
    assert depth_of(endpoint(1, qos=Qos(depth=3, service_depth=7)), 1_000) == 7
    assert depth_of(endpoint(1, qos=Qos(depth=KEEP_ALL)), 1_000) == 1_000


@line("D-561", "D-570")
def test_samples_are_kept_per_writer_and_instance() -> None:
    cache, (one, two) = cache_of(1, 2)
    for time in range(1, 7):
        cache.add(time % 2, kept(time, one))
        cache.add(0, kept(time, two))
    found = [(sample.time, sample.writer) for sample in cache.samples(0)]
    assert found == [(5, one), (5, two), (6, one), (6, two)]
    assert [sample.time for sample in cache.samples(0, 1)] == [5, 6, 6]
    assert cache.count == 4
    assert not cache.wants(b"other")


@line("D-562")
def test_entries_go_with_writer_instance_and_lifespan() -> None:
    cache, (one, two) = cache_of(5, 5)
    cache.add(1, kept(1, one))
    cache.add(2, kept(2, one))
    cache.add(1, kept(3, two))
    cache.end_instance(one, 1)
    assert [sample.time for sample in cache.samples(0)] == [2, 3]
    cache.set_writers([endpoint(1, qos=Qos(durability=DURABLE, lifespan_ns=10))], 10)
    assert [sample.time for sample in cache.samples(5)] == [3]
    assert cache.samples(14) == []
    cache.clear()
    assert (cache.count, cache.len) == (0, 0)


@line("D-562")
def test_all_caches_share_a_bound() -> None:
    budget = CacheBudget(3_000)
    caches = [cache_of(100) for _ in range(2)]
    for cache, _ in caches:
        budget.join(cache)
    for time in range(1, 20):
        caches[0][0].add(0, kept(time, caches[0][1][0]))
    caches[1][0].add(0, kept(1, caches[1][1][0]))
    budget.settle()
    assert budget.len <= 3_000
    assert caches[1][0].count == 1
    assert budget.dropped_count == 20 - budget.count
    assert caches[0][0].samples(0)[-1].time == 19
    budget.leave(caches[0][0])
    assert budget.count == 1


@line("D-566")
def test_stamps_are_written_once() -> None:
    written = Written(count_max=2)
    assert written.is_new(b"w", 1)
    assert not written.is_new(b"w", 1)
    assert written.is_new(b"v", 1)
    written.forget(b"w", 1)
    assert written.is_new(b"w", 1)
    assert written.is_new(b"w", 2)
    assert written.is_new(b"w", 3)
    assert written.is_new(b"w", 1)  # forgotten: two are remembered


@line("D-565", "D-569")
def test_history_and_live_are_merged_by_stamp() -> None:
    history = [Arrived(time, b"w", f"h{time}") for time in (5, 1, 3)]
    history += [Arrived(2, b"v", "v2"), Arrived(4, b"w", "k4", b"key")]
    live = [Arrived(5, b"w", "l5"), Arrived(6, b"w", "l6"), Arrived(0, b"", "now")]
    found = [one.item for one in merge(history, live)]
    assert found == ["h1", "v2", "h3", "k4", "h5", "l6", "now"]
    assert [one.item for one in merge(history, live, 1)] == ["v2", "k4", "h5", "l6", "now"]


@line("D-565", "D-569")
def test_history_that_several_tell_counts_once_in_the_depth() -> None:
    told = [Arrived(time, b"w", f"h{time}") for time in (1, 2, 3)]
    assert [one.item for one in merge([*told, *told], [], 2)] == ["h2", "h3"]
