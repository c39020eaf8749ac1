"""Samples that came close to being lost: all of them pass, or each of them is counted."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tests.dds.conftest import Rig
from tests.dds.peers import (
    LIMIT_S,
    Peer,
    bridge,
    matched_here,
    next_domain,
    peer,
    session_pair,
    subscribed,
    until,
)

import elea
from elea.dds.port import NO_ROOM
from elea.dds.settings import DdsSettings
from elea.limits import DEFAULT_LIMITS
from elea.session.handlers import FifoChannel

line = pytest.mark.line


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


def number(sample: elea.Sample) -> int:
    return int.from_bytes(sample.payload.to_bytes()[4:8], "little")


@line("D-401", "D-404")
def test_samples_of_many_writers_that_left_together_pass() -> None:
    domain = next_domain()
    count = 300
    names = [f"w{value}" for value in range(count)]
    with (
        session_pair() as (near, far),
        bridge(near, domain) as made,
        peer(domain) as other,
        far.declare_subscriber("Many", FifoChannel(2 * count)) as subscriber,
    ):
        other.writer("stays", "Many", "Chatter")
        for name in names:
            other.writer(name, "Many", "Chatter")
        until(lambda: other.matched("stays") and all(map(other.matched, names)))
        matched_here(made, "Many", count + 1)
        [route] = made.routes.values()
        until(lambda: len(route.plan.endpoints) == count + 1)
        [mirror] = route.mirrors
        paused = threading.Event()

        def pause(_now_ns: int) -> None:
            made.dds.pause(mirror.handle, paused=True)
            paused.set()

        made.post(pause)
        assert paused.wait(LIMIT_S)
        for value, name in enumerate(names):
            other.write(name, [{"number": value, "text": ""}])
        for name in names:
            other.acknowledged(name)
            other.delete(name)
        until(lambda: len(route.plan.endpoints) == 1)
        made.post(lambda _now_ns: made.dds.pause(mirror.handle, paused=False))
        got = [number(subscriber.handler.recv(LIMIT_S)) for _ in names]
        assert sorted(got) == list(range(count))
        assert route.counts.lost == {}


@line("D-401", "D-203")
def test_samples_of_a_writer_that_came_and_went_unseen_pass() -> None:
    domain = next_domain()
    with (
        session_pair() as (near, far),
        bridge(near, domain) as made,
        peer(domain) as other,
        far.declare_subscriber("Brief", FifoChannel(100)) as subscriber,
    ):
        other.writer("stays", "Brief", "Chatter")
        until(lambda: other.matched("stays"))
        matched_here(made, "Brief", 1)
        held = threading.Event()
        made.post(lambda _now_ns: [None, None][held.wait(LIMIT_S)])  # the DDS thread sees nothing
        other.writer("brief", "Brief", "Chatter", depth=0)
        until(lambda: other.matched("brief"))
        matched_here(made, "Brief", 2)
        other.write("brief", [{"number": value, "text": ""} for value in range(10)])
        other.acknowledged("brief")
        other.delete("brief")
        matched_here(made, "Brief", 1)
        held.set()
        assert [number(subscriber.handler.recv(LIMIT_S)) for _ in range(10)] == list(range(10))
        assert all(not one.counts.lost for one in list(made.routes.values()))


@line("D-401")
def test_each_sample_of_a_writer_that_stays_unknown_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    domain = next_domain()
    with (
        session_pair() as (near, far),
        bridge(near, domain) as made,
        peer(domain) as other,
        far.declare_subscriber("Unknown", FifoChannel(100)),
    ):
        other.writer("known", "Unknown", "Chatter")
        until(lambda: other.matched("known"))
        matched_here(made, "Unknown", 1)
        [route] = made.routes.values()
        dds: Any = made.dds
        monkeypatch.setattr(dds, "discovered", lambda _count: [])
        other.writer("unknown", "Unknown", "Chatter", depth=0)
        until(lambda: other.matched("unknown"))
        other.write("unknown", [{"number": value, "text": ""} for value in range(7)])
        until(lambda: route.counts.lost == {"unknown writer": 7}, f"{route.counts.lost}")
        monkeypatch.undo()


@line("D-351", "D-408", "D-832")
def test_best_effort_samples_beyond_the_room_in_dds_are_counted() -> None:
    domain = next_domain()
    limits = replace(DEFAULT_LIMITS, dds_reader_count=64)
    count = 300
    with (
        session_pair() as (near, far),
        bridge(near, domain, limits) as made,
        peer(domain) as other,
        far.declare_subscriber("Effort", FifoChannel(2 * count)) as subscriber,
    ):
        other.writer("w", "Effort", "Blob", reliable=False)
        until(lambda: other.matched("w"))
        matched_here(made, "Effort", 1)
        [route] = made.routes.values()
        held = threading.Event()
        made.post(lambda _now_ns: [None, None][held.wait(LIMIT_S)])  # the DDS thread takes nothing
        other.raw_burst("w", count, 100)
        held.set()
        until(lambda: sum(route.counts.lost.values()) + route.counts.samples == count)
        assert set(route.counts.lost) == {"no room in dds"}
        for _ in range(route.counts.samples):
            subscriber.handler.recv(LIMIT_S)


def _valid(other: Peer, name: str, found: list[int], count: int) -> bool:
    found += [one["value"]["number"] for one in other.take(name) if one["valid"]]
    return len(found) >= count


@line("D-451", "D-456")
@pytest.mark.parametrize("full", ["shared", "exclusive"])
def test_a_sample_waits_for_each_mirror_writer_that_has_no_room(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    topic = f"Both {full}".title().replace(" ", "")
    rig.peer.reader(f"{topic} shared", topic, "Chatter", depth=0)
    rig.peer.reader(f"{topic} exclusive", topic, "Chatter", depth=0, exclusive=True)
    rig.matched(f"{topic} shared", f"{topic} exclusive")
    subscribed(rig.far, topic)
    route: Any = rig.route("to_dds", topic)
    until(lambda: len(route.mirrors) == 2)
    writers = {id_[1].name.lower(): one.mirror.handle for id_, one in route._writers.items()}
    dds: Any = rig.bridge.dds
    write = dds.write
    refused = 0

    def written(writer: int, payload: bytes, source_ns: int) -> int:
        nonlocal refused
        if writer == writers[full] and refused < 5:
            refused += 1
            return NO_ROOM
        result: int = write(writer, payload, source_ns)
        return result

    monkeypatch.setattr(dds, "write", written)
    for value in range(5):
        rig.far.put(topic, chatter(value))
    for kind in ("shared", "exclusive"):
        got: list[int] = []
        until(partial(_valid, rig.peer, f"{topic} {kind}", got, 5), f"5 samples at {kind}: {got}")
        assert got == list(range(5))
    assert refused == 5
    assert route.counts.lost == {}
    assert route.counts.samples == 5


@line("D-565")
def test_history_beyond_the_limit_is_counted(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig.bridge.history, "_samples_max", 3)
    stamps = [rig.far.new_timestamp() for _ in range(5)]

    def answer(query: elea.Query) -> None:
        with query:
            for value, stamp in enumerate(stamps):
                query.reply("Long", chatter(value), timestamp=stamp)

    with rig.far.declare_queryable("Long/@dds_pub_cache/far", answer):
        with rig.near.declare_querier("Long/@dds_pub_cache/far") as querier:
            until(lambda: querier.matching_status.matching)
        rig.peer.reader("long", "Long", "Chatter", depth=0, durability="transient_local")
        samples = rig.peer.taken("long", 3)
    assert [one["value"]["number"] for one in samples] == [0, 1, 2]
    route: Any = rig.route("to_dds", "Long")
    assert route.counts.lost == {"history": 2}


@line("D-309", "D-542")
def test_samples_of_one_time_pass_while_mirrors_are_replaced() -> None:
    domain = next_domain()
    with (
        session_pair() as (near, far),
        bridge(near, domain, linger=0.5) as made,
        peer(domain) as other,
        far.declare_subscriber("Same", FifoChannel(1_000)) as subscriber,
    ):
        other.writer("w", "Same", "Keyed", depth=0)
        until(lambda: other.matched("w"))
        matched_here(made, "Same", 1)
        [route] = made.routes.values()
        [first] = route.mirrors
        qos: Any = [{"match": "^Same$", "reader": {"samples_max": 4_000}}]
        made.change(DdsSettings.read({"domain": domain, "linger": 0.5, "qos": qos}))
        until(lambda: route.mirrors != [first])
        matched_here(made, "Same", 1)
        now_ns = time.time_ns()
        for begin in (0, 20, 40):
            values = [{"id": value, "value": value} for value in range(begin, begin + 20)]
            other.write("w", values, ns=now_ns + begin)
        got = [subscriber.handler.recv(LIMIT_S).payload.to_bytes()[-4:] for _ in range(60)]
        assert sorted(int.from_bytes(one, "little") for one in got) == list(range(60))
        assert subscriber.handler.try_recv() is None
