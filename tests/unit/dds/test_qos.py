"""The tables of QoS: mirrors match every endpoint they face."""

from __future__ import annotations

import itertools

import pytest

from elea.dds.qos import (
    CDR1,
    CDR2,
    INFINITE,
    KEEP_ALL,
    Durability,
    Liveliness,
    MirrorLimits,
    Ownership,
    Qos,
    ReaderClass,
    Reliability,
    Scope,
    accepts_representation,
    matches,
    mirror_reader,
    mirror_writer,
    override,
)
from elea.errors import InvalidValueError

line = pytest.mark.line

EVERY = [
    Qos(
        reliability=reliability,
        durability=durability,
        liveliness=liveliness,
        lease_ns=lease_ns,
        ownership=ownership,
        deadline_ns=deadline_ns,
        by_source_time=by_source,
        scope=scope,
        coherent=scope is Scope.TOPIC,
    )
    for reliability, durability, liveliness, lease_ns, ownership, deadline_ns, by_source, scope in (
        itertools.product(
            Reliability,
            Durability,
            Liveliness,
            (10**9, INFINITE),
            Ownership,
            (10**8, INFINITE),
            (False, True),
            Scope,
        )
    )
]
LIMITS = MirrorLimits()


@line("D-351")
def test_a_mirror_reader_matches_every_writer() -> None:
    for writer in EVERY:
        for version in (CDR1, CDR2):
            offered = override(writer, {})
            mirror = mirror_reader(ReaderClass.of(writer), "p", LIMITS)
            assert matches(offered, mirror) is None
            assert accepts_representation(mirror, version)
            assert mirror.partitions == ("p",)


@line("D-352")
def test_a_mirror_writer_matches_every_reader() -> None:
    for ownership in Ownership:
        readers = [one for one in EVERY if one.ownership is ownership]
        mirror = mirror_writer(readers, "", CDR1, LIMITS, ownership=ownership)
        assert all(matches(mirror, reader) is None for reader in readers)
        for reader in readers:
            alone = mirror_writer([reader], "", CDR1, LIMITS, ownership=ownership)
            assert matches(alone, reader) is None


@line("D-351", "D-352")
def test_mirrors_are_bounded_and_never_block() -> None:
    reliable = ReaderClass(Reliability.RELIABLE, Durability.VOLATILE, Ownership.SHARED)
    reader = mirror_reader(reliable, "", LIMITS)
    assert (reader.depth, reader.samples_max) == (KEEP_ALL, 8_192)
    effort = ReaderClass(Reliability.BEST_EFFORT, Durability.VOLATILE, Ownership.SHARED)
    assert mirror_reader(effort, "", LIMITS).depth == KEEP_ALL
    assert mirror_reader(effort, "", LIMITS, keep_last=True).depth == 1
    writer = mirror_writer([Qos(depth=3)], "", CDR1, LIMITS)
    assert (writer.depth, writer.samples_max, writer.max_blocking_ns) == (16, -1, 0)
    assert writer.reliability is Reliability.RELIABLE
    assert not writer.auto_dispose
    every = Qos(depth=KEEP_ALL, reliability=Reliability.RELIABLE, durability=Durability.TRANSIENT)
    durable = mirror_writer([Qos(), every], "", CDR2, LIMITS)
    assert (durable.depth, durable.samples_max, durable.service_depth) == (KEEP_ALL, 1_024, 1_000)
    last = mirror_writer([Qos(depth=7, durability=Durability.TRANSIENT_LOCAL)], "", CDR1, LIMITS)
    assert last.service_depth == 7


@line("D-364")
def test_policies_are_overridden_by_name() -> None:
    made = override(Qos(), {"durability": "transient_local", "depth": 5, "lease": 1.5})
    assert (made.durability, made.depth, made.lease_ns) == (1, 5, 1_500_000_000)
    assert override(Qos(), {"batching": True}).batching
    for bad in ({"durability": "forever"}, {"depth": True}, {"lease": -1}, {"colour": 1}):
        with pytest.raises(InvalidValueError):
            override(Qos(), bad)


@line("D-313")
@pytest.mark.parametrize(
    ("writer", "reader", "policy"),
    [
        (Qos(), Qos(reliability=Reliability.RELIABLE), "reliability"),
        (Qos(), Qos(durability=Durability.TRANSIENT_LOCAL), "durability"),
        (Qos(), Qos(deadline_ns=5), "deadline"),
        (Qos(), Qos(ownership=Ownership.EXCLUSIVE), "ownership"),
        (Qos(representations=(CDR2,)), Qos(representations=(CDR1,)), "data representation"),
        (Qos(), Qos(liveliness=Liveliness.MANUAL_BY_TOPIC), "liveliness"),
        (Qos(), Qos(scope=Scope.TOPIC), "presentation"),
        (Qos(latency_ns=5), Qos(), "latency budget"),
        (Qos(), Qos(by_source_time=True), "destination order"),
    ],
)
def test_the_policy_that_does_not_match_is_named(writer: Qos, reader: Qos, policy: str) -> None:
    assert matches(writer, reader) == policy
