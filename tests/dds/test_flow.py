"""Back-pressure, slow readers, restarts, rates and limits."""

from __future__ import annotations

import random
import resource
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
    matched_there,
    next_domain,
    peer,
    put,
    session_pair,
    until,
    writes_to,
)
from tests.scale import scaled

from elea.dds.port import NO_ROOM
from elea.errors import ClosedError
from elea.limits import DEFAULT_LIMITS
from elea.qos import CongestionControl
from elea.sample import Sample
from elea.session.handlers import FifoChannel

line = pytest.mark.line


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


def number(sample: Sample) -> int:
    return int.from_bytes(sample.payload.to_bytes()[4:8], "little")


@line("D-004", "D-007", "D-456", "D-457")
def test_a_stalled_reader_holds_up_no_other_route(rig: Rig) -> None:
    blob = b"\0\1\0\0" + bytes(4) + (60_000).to_bytes(4, "little") + bytes(60_000)
    with peer(rig.domain) as sleeper:
        sleeper.reader("stalled", "Stalled", "Blob", depth=0, samples_max=8)
        rig.peer.reader("free", "Free", "Chatter", depth=0)
        until(lambda: sleeper.matched("stalled"))
        rig.matched("free")
        put(rig.far, "Stalled", blob)
        before = rig.bridge.counts.no_room
        until(partial(_is_blocked, rig, "Stalled", blob, before + 5))
        put(rig.far, "Free", chatter(0), congestion_control=CongestionControl.BLOCK)
        for value in range(1, 300):
            rig.far.put("Free", chatter(value), congestion_control=CongestionControl.BLOCK)
        values: list[int] = []

        def all_arrived() -> bool:
            values.extend(x["value"]["number"] for x in rig.peer.take("free") if x["valid"])
            return len(values) >= 300

        until(all_arrived, "300 samples on the other route")
        assert values == list(range(300))
        route: Any = rig.route("to_dds", "Stalled")
        assert until(partial(_waits, rig, route, blob)) <= DEFAULT_LIMITS.dds_line_count
        sleeper.kill()  # it is too full to end by itself


def _waits(rig: Rig, route: Any, payload: bytes) -> int:
    """Put, and tell how many wait: none for a moment while they are tried."""
    rig.far.put(route.id.key, payload, congestion_control=CongestionControl.DROP)
    return int(route.pending_count)


def _is_blocked(rig: Rig, key: str, payload: bytes, count: int) -> bool:
    """Put, and tell whether so many writes found no room; a put may be dropped on its way."""
    rig.far.put(key, payload, congestion_control=CongestionControl.DROP)
    return rig.bridge.counts.no_room > count


@line("D-007", "D-208")
def test_samples_pass_between_endpoints_that_appear_at_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The DDS thread is held until there are 200 endpoints and a sample."""
    dds: Any = rig.bridge.dds
    turns: list[int | str] = []  # how many endpoints, or the sample
    discovered, take = dds.discovered, dds.take
    is_held, may_go = threading.Event(), threading.Event()

    def counted(count_max: int) -> Any:
        found = discovered(count_max)
        turns.append(len(found))
        return found

    def taken(reader: int, count: int) -> Any:
        found = take(reader, count)
        turns.extend(["sample"] if found else [])
        return found

    def hold(_now_ns: int) -> None:
        is_held.set()
        may_go.wait(LIMIT_S)

    rig.peer.writer("meanwhile", "Meanwhile", "Chatter")
    with peer(rig.domain) as other, rig.far.declare_subscriber("Meanwhile", FifoChannel(10)) as sub:
        rig.matched("meanwhile")
        rig.matched_here("Meanwhile", 1)
        rig.bridge.post(hold)
        try:
            assert is_held.wait(LIMIT_S)
            monkeypatch.setattr(dds, "discovered", counted)
            monkeypatch.setattr(dds, "take", taken)
            for side in ("reader", "writer"):
                other.many("Appears", "Chatter", 100, side)
            rig.peer.write("meanwhile", [{"number": 1, "text": ""}])
            rig.peer.acknowledged("meanwhile")
        finally:
            may_go.set()
        assert number(sub.handler.recv(LIMIT_S)) == 1

        def routed() -> int:
            return sum(id_.key.startswith("Appears") for id_ in list(rig.bridge.routes))

        until(lambda: routed() == 200)
    counts = [one for one in turns if isinstance(one, int)]
    assert max(counts) <= 64 + 2  # beside 64 of a kind one of each other
    at = turns.index("sample")
    assert at <= 2  # one turn may have begun before
    assert sum(one for one in turns[at:] if isinstance(one, int)) >= 64


@line("D-906", "D-456", "D-352")
def test_a_blocked_writer_lets_other_threads_run(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that waits holds the interpreter lock (F-34): it never waits, but is tried again.

    A thread that waits inside the library leaves its processor by its own will each time, which
    the system counts, however busy the host is.
    """
    dds: Any = rig.bridge.dds
    write = dds.write
    waits: list[int] = []  # of each write that found no room

    def written(writer: int, payload: bytes, source_ns: int) -> int:
        before = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
        result: int = write(writer, payload, source_ns)
        if result == NO_ROOM:
            waits.append(resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw - before)
        return result

    monkeypatch.setattr(dds, "write", written)
    blob = b"\0\1\0\0" + bytes(4) + (60_000).to_bytes(4, "little") + bytes(60_000)
    with peer(rig.domain) as sleeper:
        sleeper.reader("frozen", "Frozen", "Blob", depth=0, samples_max=8)
        until(lambda: sleeper.matched("frozen"))
        put(rig.far, "Frozen", blob)
        until(partial(_is_blocked, rig, "Frozen", blob, rig.bridge.counts.no_room + 60))
        route: Any = rig.route("to_dds", "Frozen")
        until(partial(_waits, rig, route, blob))  # it is blocked still
        sleeper.kill()
    # A lock of the library may be held by one of its threads now and then.
    assert sorted(waits)[len(waits) // 2] == 0


@line("D-407", "D-351", "D-936")
def test_a_slow_subscriber_holds_up_the_writer_and_loses_nothing(rig: Rig) -> None:
    gate = threading.Event()
    seen: list[int] = []

    def slow(sample: Sample) -> None:
        gate.wait(60)
        seen.append(number(sample))

    with rig.far.declare_subscriber("Slow", slow):
        rig.peer.writer("slow", "Slow", "Blob", depth=0, samples_max=64, blocking=50)
        rig.peer.reader("other", "Other", "Chatter")
        rig.matched("slow", "other")
        rig.peer.send("burst", name="slow", count=800, size=20_000)
        put(rig.far, "Other", chatter(1))
        gate.set()
        assert rig.peer.answer() == 800
        assert len(rig.peer.taken("other", 1)) == 1
        until(lambda: len(seen) == 800)
    assert seen == list(range(800))


@line("D-408", "D-363")
def test_a_slow_subscriber_of_a_best_effort_topic_loses_samples_that_are_counted(rig: Rig) -> None:
    gate = threading.Event()
    seen: list[int] = []

    def slow(sample: Sample) -> None:
        gate.wait(60)
        seen.append(number(sample))

    with rig.far.declare_subscriber("Lossy", slow):
        rig.peer.writer("lossy", "Lossy", "Blob", reliable=False)
        rig.peer.reader("beside", "Beside", "Chatter")
        rig.matched("lossy", "beside")
        rig.matched_here("Lossy", 1)
        route: Any = rig.route("from_dds", "Lossy")

        def lost() -> int:
            rig.peer.raw_burst("lossy", 50, 50_000)
            return int(route.counts.lost.get("no room", 0))

        until(lost)
        until(lambda: route.pending_count == 0)  # none waits for the subscriber
        put(rig.far, "Beside", chatter(1))
        assert len(rig.peer.taken("beside", 1)) == 1
        gate.set()
        until(lambda: len(seen) >= route.counts.samples)


@line("D-409")
def test_samples_beyond_the_limit_are_dropped_and_counted() -> None:
    domain = next_domain()
    limits = replace(DEFAULT_LIMITS, dds_sample_len=1_000)
    with session_pair() as (near, far), bridge(near, domain, limits) as made, peer(domain) as other:
        with far.declare_subscriber("Big", FifoChannel(10)) as subscriber:
            other.writer("big", "Big", "Blob")
            other.reader("bigin", "BigIn", "Blob")
            until(lambda: other.matched("big") and other.matched("bigin"))
            other.burst("big", 1, 2_000)
            other.burst("big", 1, 10)
            assert len(subscriber.handler.recv(60).payload) == 22 + 2
        put(far, "BigIn", bytes(2_000))
        put(far, "BigIn", b"\0\1\0\0" + bytes(8))
        other.taken("bigin", 1)
        counts = made.describe.counts()
        assert counts["from_dds_lost_too_large"] == counts["to_dds_lost_too_large"] == 1


@line("D-406")
def test_a_frequency_bounds_each_instance() -> None:
    domain = next_domain()
    with (
        session_pair() as (near, far),
        bridge(near, domain, max_frequencies=["^Rate$=5"]),
        peer(domain) as other,
    ):
        with far.declare_subscriber("Rate", FifoChannel(10_000)) as subscriber:
            other.writer("rate", "Rate", "Keyed", dispose=False)
            until(lambda: other.matched("rate"))
            begun = time.monotonic()
            for value in range(40):
                other.write("rate", [{"id": id_, "value": value} for id_ in range(2)])
            other.dispose("rate", {"id": 1, "value": 0})
            samples = [subscriber.handler.recv(60)]
            while not any(one.attachment for one in samples) or len(samples) < 2:
                samples.append(subscriber.handler.recv(60))
            took = time.monotonic() - begun
        assert len(samples) <= 2 * (took * 5 + 2) + 1
        last = [one.payload.to_bytes()[-4:] for one in samples if one.kind.name == "PUT"]
        assert (39).to_bytes(4, "little") in last


@line("D-205", "D-312", "D-934", "D-935")
def test_restarts_in_random_order_leave_one_copy() -> None:
    """Bridge, talker and listener come and go; a sample reaches a listener once, or never."""
    domain = next_domain()
    chosen = random.Random(11)
    with session_pair() as (near, far):
        seen: list[int] = []
        far.declare_subscriber("Talk", lambda one: seen.append(number(one)))
        talker = Peer(domain, lease="1s")
        listener = Peer(domain, lease="1s")
        made = bridge(near, domain, linger=0.2)
        bridges = [made.__enter__()]
        try:
            talker.writer("w", "Talk", "Chatter")
            reader = listener.reader("r", "Hear", "Chatter")
            value = 0
            for _ in range(scaled(6, 50)):
                which = chosen.choice(("talker", "listener", "bridge"))
                if which == "talker":
                    (talker.kill if chosen.random() < 0.5 else talker.close)()
                    talker = Peer(domain, lease="1s")
                    talker.writer("w", "Talk", "Chatter")
                elif which == "listener":
                    (listener.kill if chosen.random() < 0.5 else listener.close)()
                    listener = Peer(domain, lease="1s")
                    reader = listener.reader("r", "Hear", "Chatter")
                else:
                    made.__exit__(None, None, None)
                    made = bridge(near, domain, linger=0.2)
                    bridges.append(made.__enter__())
                for name, one in (("w", talker), ("r", listener)):
                    matched_there(one, name, bridges[-1])
                writes_to(bridges[-1], reader)
                value += 1
                first = len(seen)
                talker.write("w", [{"number": value, "text": ""}])
                until(partial(_has_more, seen, first))
                put(far, "Hear", chatter(value))
                assert until(partial(_valid, listener)) == [value]
            assert seen == list(range(1, value + 1))
        finally:
            made.__exit__(None, None, None)
            talker.close()
            listener.close()


def _valid(listener: Peer) -> list[int]:
    return [one["value"]["number"] for one in listener.take("r") if one["valid"]]


def _has_more(seen: list[int], count: int) -> bool:
    return len(seen) > count


def test_something_that_is_closed_ended_the_bridge(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entity that was undeclared meanwhile fails one turn, as any other error does."""

    def closed(_now_ns: int) -> None:
        monkeypatch.undo()
        raise ClosedError("publisher")

    failures = rig.bridge.counts.failures
    monkeypatch.setattr(rig.bridge.presence, "tell_quiet", closed)
    until(lambda: rig.bridge.counts.failures == failures + 1)
    rig.peer.reader("after", "After", "Chatter")
    rig.matched("after")


@line("D-208", "D-831", "D-815")
def test_endpoints_beyond_the_limits_are_counted_and_nothing_else() -> None:
    domain = next_domain()
    limits = replace(DEFAULT_LIMITS, dds_participant_endpoints_count=20)
    with session_pair() as (near, far), bridge(near, domain, limits) as made, peer(domain) as one:
        one.many("M", "Chatter", 30, "reader")
        until(lambda: made.counts.refused == 10)
        assert len(made.table.endpoints) == 20
        with peer(domain) as two:
            two.reader("r", "Still", "Chatter")
            until(lambda: two.matched("r"))
            put(far, "Still", chatter(1))
            two.taken("r", 1)


@line("D-008", "D-308", "D-362")
def test_stop_deletes_everything_and_disposes_of_nothing() -> None:
    domain = next_domain()
    with session_pair() as (near, far), peer(domain) as other:
        other.reader("r", "Stop", "Keyed")
        with bridge(near, domain):
            until(lambda: other.matched("r"))
            payload = bytes.fromhex("00090000 08000000 07000000 09000000")
            put(far, "Stop", payload)
            other.taken("r", 1)
        [ended] = other.taken("r", 1)
        assert (ended["valid"], ended["state"]) == (False, 64)  # no writers, not disposed
        until(lambda: not [one for one in far.liveliness().get("zenoh-plugin-dds/**") if one.ok])


@line("D-603", "D-936")
def test_deadlines_and_manual_liveliness_of_mirrors(rig: Rig) -> None:
    rig.peer.reader("deadline", "Deadline", "Chatter", deadline=0.1)
    rig.peer.reader("manual", "Manual", "Chatter", liveliness="topic", lease=1)
    rig.matched("deadline", "manual")
    put(rig.far, "Deadline", chatter(1))
    rig.peer.taken("deadline", 1)
    put(rig.far, "Manual", chatter(1))
    rig.peer.taken("manual", 1)
    until(lambda: rig.peer.liveliness("manual") == 1)


@line("D-602")
def test_a_mirror_goes_with_the_last_link() -> None:
    domain = next_domain()
    with session_pair() as (near, far), bridge(near, domain), peer(domain) as other:
        other.reader("r", "Linked", "Chatter", liveliness="automatic", lease=0.5)
        other.reader("s", "Unbound", "Chatter")
        until(lambda: other.matched("r") and other.matched("s"))
        far.close()
        until(lambda: not other.matched("r"))
        assert other.matched("s") == 1


@line("D-756")
def test_messages_of_the_library_go_to_the_log(
    rig: Rig, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rig.bridge.dds, "messages", lambda: ["odd packet"])
    until(lambda: "Cyclone DDS: 'odd packet'" in caplog.text)


@line("D-303", "D-401", "D-404")
def test_what_a_writer_wrote_before_it_left_passes_while_another_class_stays() -> None:
    domain = next_domain()
    count = 4_000
    with (
        session_pair() as (near, far),
        bridge(near, domain, linger=0.5) as made,
        peer(domain) as other,
        far.declare_subscriber("Left", FifoChannel(2 * count)) as subscriber,
    ):
        other.writer("stays", "Left", "Blob", reliable=False)
        other.writer("goes", "Left", "Blob", depth=0)
        # A reliable writer matches the mirror of the best-effort class as well.
        until(lambda: other.matched("stays") and other.matched("goes") == 2)
        matched_here(made, "Left", 3)
        held = threading.Event()
        made.post(lambda _now_ns: [None, None][held.wait(LIMIT_S)])  # the DDS thread takes nothing
        other.send("raw_burst", name="goes", count=count, size=100)
        other.answer()
        other.acknowledged("goes")  # a writer that is deleted drops what no reader has after 1 s
        other.delete("goes")
        held.set()
        got = [subscriber.handler.recv(LIMIT_S) for _ in range(count)]
        assert len(got) == count
        assert all(not one.counts.lost for one in list(made.routes.values()))
