"""Single lines of the specification, each with a real Cyclone DDS participant."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any

import pytest
import zenoh
from tests.dds.conftest import Rig
from tests.dds.peers import (
    LIMIT_S,
    Peer,
    bridge,
    matched_here,
    next_domain,
    peer,
    put,
    served,
    session_pair,
    subscribed,
    until,
)
from tests.dds.test_ros_mode import eclipse_pair

from elea.dds import mirror_writers
from elea.dds.port import Ready
from elea.dds.qos import CDR1, CDR2, Ownership
from elea.dds.to_dds import ToDds
from elea.sample import Sample
from elea.session.handlers import FifoChannel

line = pytest.mark.line


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


def number(sample: Sample) -> int:
    return int.from_bytes(sample.payload.to_bytes()[4:8], "little")


@line("D-304")
def test_mirror_writers_are_one_per_ownership_and_representation(rig: Rig) -> None:
    both = [1, 2]
    rig.peer.reader("shared", "Owned", "Chatter", representation=both)
    rig.peer.reader("alone", "Owned", "Chatter", exclusive=True, representation=both)
    rig.matched("shared", "alone")
    route: Any = rig.route("to_dds", "Owned")
    until(lambda: len(route.mirrors) == 2)
    put(rig.far, "Owned", chatter(1))
    for name in ("shared", "alone"):
        assert [one["value"]["number"] for one in rig.peer.taken(name, 1)] == [1]
    # A payload of the other representation gets writers of its own. An exclusive reader hears
    # one writer of an instance, so the one before leaves it.
    for value, begin in ((2, b"\0\7"), (3, b"\0\7"), (4, b"\0\1"), (5, b"\0\7")):
        put(rig.far, "Owned", begin + chatter(value)[2:])
        for name in ("shared", "alone"):
            assert until(partial(_valid, rig.peer, name)) == [value]
    made = [rig.bridge.mirror_qos[one.handle][0] for one in route.mirrors]
    assert {(one.ownership, one.representations) for one in made} == {
        (ownership, (version,)) for ownership in Ownership for version in (CDR1, CDR2)
    }
    assert all(one.strength == 0 for one in made)


def _valid(other: Peer, name: str) -> list[int]:
    return [one["value"]["number"] for one in other.take(name) if one["valid"]]


@line("D-304", "D-506", "D-453")
def test_exclusive_instances_pass_between_representations(rig: Rig) -> None:
    rig.peer.reader("sole", "Sole", "FinalKeyed", exclusive=True, representation=[1, 2])
    rig.matched("sole")
    got: list[tuple[int, int]] = []
    sent = [(1, 0), (2, 1), (1, 2), (2, 3), (1, 4), (1, 5)]
    for (id_, value), begin in zip(
        sent, ("\0\1", "\0\1", "\0\7", "\0\7", "\0\1", "\0\7"), strict=True
    ):
        body = id_.to_bytes(4, "little") + value.to_bytes(4, "little")
        put(rig.far, "Sole", begin.encode() + b"\0\0" + body)

    def all_there() -> bool:
        taken = rig.peer.take("sole")
        got.extend((one["value"]["id"], one["value"]["value"]) for one in taken if one["valid"])
        return len(got) >= len(sent)

    until(all_there)
    assert sorted(got) == sorted(sent)


@line("D-605")
def test_exclusive_mirrors_have_the_configured_strength() -> None:
    domain = next_domain()
    with (
        session_pair() as (near, far),
        bridge(near, domain, ownership_strength=7) as made,
        peer(domain) as other,
    ):
        other.reader("r", "Strong", "Chatter", exclusive=True)
        until(lambda: other.matched("r"))
        put(far, "Strong", chatter(1))
        assert len(other.taken("r", 1)) == 1
        [route] = list(made.routes.values())
        assert made.mirror_qos[route.mirrors[0].handle][0].strength == 7


@line("D-309", "D-263", "D-264")
def test_samples_pass_once_while_mirrors_are_replaced(rig: Rig) -> None:
    with rig.far.declare_subscriber("Tier", FifoChannel(1_000)) as subscriber:
        rig.peer.bare_writer("bare", "Tier")
        until(lambda: rig.peer.bare_matched("bare"))
        rig.matched_here("Tier", 1)
        for value in range(40):
            if value == 20:  # the type becomes known: mirrors are made again, as exact
                rig.peer.writer("typed", "Tier", "Chatter")
            rig.peer.bare_write("bare", value, "x")
        until(lambda: rig.peer.matched("typed"))
        rig.peer.bare_write("bare", 40, "x")
        got: list[int] = []
        with suppress(TimeoutError):
            while len(got) < 41:
                got.append(number(subscriber.handler.recv(LIMIT_S)))
        assert got == list(range(41))
        assert subscriber.handler.try_recv() is None
    tiers = {
        one.tier.value
        for id_, one in list(rig.bridge.routes.items())
        if id_.key == "Tier" and one.tier is not None
    }
    assert "exact" in tiers


@line("D-309", "D-264")
def test_the_old_mirror_is_read_until_the_type_of_the_new_one_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    domain = next_domain()
    is_lost, asked = True, 0
    with (
        session_pair() as (near, far),
        bridge(near, domain, linger=0.5) as made,
        peer(domain) as other,
        far.declare_subscriber("Tier", FifoChannel(1_000)) as subscriber,
    ):
        dds: Any = made.dds
        resolve = dds.resolve

        def resolved(guid: bytes, timeout_ns: int) -> Any:
            nonlocal asked
            asked += 1
            return None if is_lost else resolve(guid, timeout_ns)

        monkeypatch.setattr(dds, "resolve", resolved)
        other.bare_writer("bare", "Tier")
        until(lambda: other.bare_matched("bare"))
        other.bare_write("bare", 0, "x")
        assert number(subscriber.handler.recv(LIMIT_S)) == 0
        other.writer("typed", "Tier", "Chatter")
        until(lambda: asked >= 5)
        for value in range(1, 20):
            other.bare_write("bare", value, "x")
        is_lost = False
        until(lambda: other.matched("typed"))
        for value in range(20, 40):
            other.bare_write("bare", value, "x")
        got = [number(subscriber.handler.recv(LIMIT_S)) for _ in range(39)]
        assert got == list(range(1, 40))
        # The old mirror goes, and nothing came twice.
        until(lambda: other.bare_matched("bare") == 1)
        assert subscriber.handler.try_recv() is None


def version(value: int, **more: int) -> dict[str, int]:
    return {"number": value, **more}


def delimited(sample: Sample) -> int:
    """The first member of a type that is appendable, in CDR 2."""
    return int.from_bytes(sample.payload.to_bytes()[8:12], "little")


@line("D-265", "D-312")
def test_readers_of_types_that_can_be_read_as_each_other_got_samples_twice(rig: Rig) -> None:
    key = "Versions"
    with peer(rig.domain) as other, rig.far.declare_subscriber(key, FifoChannel(100)) as heard:
        for one, type_ in ((rig.peer, "Version"), (other, "NextVersion")):
            one.writer("vw", key, type_)
            one.reader("vr", key, type_)
        for one in (rig.peer, other):  # both ends of the other, and both mirrors
            until(partial(lambda one: one.matched("vw") == 4 and one.matched("vr") == 4, one))
        rig.matched_here(key, 8)
        before = dict(rig.bridge.counts.duplicates)
        for value in range(3):
            rig.peer.write("vw", [version(value)])
            other.write("vw", [version(10 + value, more=0)])
        got = [delimited(heard.handler.recv(LIMIT_S)) for _ in range(6)]
        assert sorted(got) == [0, 1, 2, 10, 11, 12]
        lost = [dict(one.counts.lost) for one in rig.bridge.routes.values() if one.id.key == key]
        assert lost == [{}, {}, {}, {}]
        # The binding reads the later version as the one before, and not the other way.
        rig.peer.taken("vr", 6)
        assert rig.peer.take("vr") == []
        for value in (7, 8):
            put(rig.far, key, b"\0\1\0\0" + value.to_bytes(4, "little"))
        until(lambda: rig.bridge.counts.duplicates.get("D-265", 0) - before.get("D-265", 0) >= 2)
        assert [one["value"]["number"] for one in rig.peer.taken("vr", 2)] == [7, 8]
        put(rig.far, key, b"\0\1\0\0\x09\0\0\0")
        assert [one["value"]["number"] for one in rig.peer.taken("vr", 1)] == [9]


@line("D-265", "D-309")
def test_a_writer_of_the_next_version_was_not_heard_before_its_mirror_was_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It matches the mirror of the version before, and so it writes."""
    domain = next_domain()
    with (
        session_pair() as (near, far),
        bridge(near, domain) as made,
        peer(domain) as before,
        peer(domain) as after,
        far.declare_subscriber("Next", FifoChannel(1_000)) as heard,
    ):
        before.writer("w", "Next", "Version")
        until(lambda: before.matched("w"))
        dds: Any = made.dds
        resolve, asked = dds.resolve, []
        monkeypatch.setattr(dds, "resolve", lambda guid, _timeout_ns: asked.append(guid))
        after.writer("w", "Next", "NextVersion")
        until(lambda: after.matched("w") and asked)
        for value in range(5):
            after.write("w", [version(value, more=0)])
        monkeypatch.setattr(dds, "resolve", resolve)
        until(lambda: after.matched("w") == 2)
        for value in range(5, 10):
            after.write("w", [version(value, more=0)])
        before.write("w", [version(10)])
        got = [delimited(heard.handler.recv(LIMIT_S)) for _ in range(11)]
        assert [one for one in got if one != 10] == list(range(10))
        assert heard.handler.try_recv() is None


@line("D-309", "D-402")
def test_samples_that_the_old_mirror_gets_late_pass_in_their_order(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = rig.peer
    with rig.far.declare_subscriber("Slow", FifoChannel(1_000)) as subscriber:
        dds: Any = rig.bridge.dds
        take, fetched, late = dds.take, set[int](), set[int]()

        def taken(reader: int, count: int) -> Any:
            if reader in late:
                return []
            found = take(reader, count)
            if found:
                fetched.add(reader)
            return found

        monkeypatch.setattr(dds, "take", taken)
        other.bare_writer("slow bare", "Slow")
        until(lambda: other.bare_matched("slow bare"))
        other.bare_write("slow bare", 0, "x")
        assert number(subscriber.handler.recv(LIMIT_S)) == 0
        late |= fetched
        for value in range(1, 20):
            other.bare_write("slow bare", value, "x")
        other.writer("slow typed", "Slow", "Chatter")
        until(lambda: other.matched("slow typed"))
        for value in range(20, 40):
            other.bare_write("slow bare", value, "x")
        until(lambda: fetched - late)  # the new mirror has samples that the old one has not
        late.clear()
        assert [number(subscriber.handler.recv(LIMIT_S)) for _ in range(39)] == list(range(1, 40))
        # The old mirror ends in its time, though the route is looked at before.
        route: Any = rig.route("from_dds", "Slow")
        rig.bridge.post(lambda now_ns: rig.bridge.upkeep.touch_at(route, now_ns + 1))
        until(lambda: other.bare_matched("slow bare") == 1)
        assert subscriber.handler.try_recv() is None


@line("D-309", "D-264")
def test_samples_are_written_once_while_mirrors_are_replaced(rig: Rig) -> None:
    rig.peer.bare_reader("bare in", "TierIn")
    until(lambda: rig.peer.bare_matched("bare in"))
    rig.matched_here("TierIn", 1)
    got: list[int] = []
    with rig.far.declare_publisher("TierIn") as publisher:
        until(partial(_is_matching, publisher))
        for value in range(40):
            if value == 20:
                rig.peer.reader("typed in", "TierIn", "Chatter")
            publisher.put(chatter(value))

        def all_there() -> bool:
            got.extend(one for one, _ in rig.peer.bare_take("bare in"))
            return len(got) >= 40

        until(all_there)
    assert got == list(range(40))


@line("D-309", "D-452")
def test_samples_that_were_received_and_not_delivered_are_written(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, other, far = rig.bridge, rig.peer, rig.far
    arrived, released, delivered = Event(), Event(), Event()

    def show_delete(_key: str) -> bool:
        """Stand for a thread of the session that delivers late."""
        if arrived.is_set():
            delivered.set()
        arrived.set()
        return released.wait(LIMIT_S)

    succeed = ToDds.succeed

    def slowly(route: ToDds, *args: Any) -> None:
        succeed(route, *args)
        released.set()
        delivered.wait(LIMIT_S)

    monkeypatch.setattr(made.rights, "show_delete", show_delete)
    monkeypatch.setattr(ToDds, "succeed", slowly)
    other.bare_reader("late bare", "Queue")
    until(lambda: other.bare_matched("late bare"))
    subscribed(far, "Queue")
    far.delete("Queue")
    assert arrived.wait(LIMIT_S)
    for value in range(20):
        far.put("Queue", chatter(value))
    far.delete("Queue")
    other.reader("late typed", "Queue", "Chatter")
    until(lambda: all(id_.type_hash for id_ in list(made.routes) if id_.key == "Queue"))
    far.put("Queue", chatter(20))
    got: list[int] = []

    def all_there() -> bool:
        got.extend(one for one, _ in other.bare_take("late bare"))
        return len(got) >= 21

    until(all_there, f"21 samples, got {got}")
    assert got == list(range(21))


@line("D-309")
def test_samples_that_a_replaced_mirror_wrote_in_vain_are_counted(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror_writers, "ACKNOWLEDGE_NS", 200_000_000)
    rig.peer.reader("first", "Vain", "Chatter", depth=1)
    rig.matched("first")
    monkeypatch.setattr(rig.bridge.dds, "is_acknowledged", lambda _writer, _timeout_ns: False)
    put(rig.far, "Vain", chatter(1))
    assert until(partial(_valid, rig.peer, "first")) == [1]
    rig.peer.reader("second", "Vain", "Chatter", deadline=60)
    route: Any = rig.route("to_dds", "Vain")
    until(lambda: route.counts.lost == {"unacknowledged": 1})
    monkeypatch.undo()
    put(rig.far, "Vain", chatter(2))
    for name in ("first", "second"):
        assert until(partial(_valid, rig.peer, name)) == [2]


@line("D-363")
def test_qos_of_dds_is_that_of_zenoh() -> None:
    domain = next_domain()
    with (
        eclipse_pair() as (far, near),
        bridge(near, domain, pub_priorities=["^Fast$=2:express"]) as made,
        peer(domain) as other,
    ):
        received: dict[str, Any] = {}
        subscribers = [
            far.declare_subscriber(key, lambda one: received.update({str(one.key_expr): one}))
            for key in ("Sure", "Maybe", "Fast")
        ]
        other.writer("s", "Sure", "Chatter")
        other.writer("m", "Maybe", "Chatter", reliable=False)
        other.writer("f", "Fast", "Chatter")
        until(lambda: all(other.matched(name) for name in "smf"))
        matched_here(made, "Maybe", 1)
        for name in "smf":
            other.write(name, [{"number": 1, "text": ""}])
        until(lambda: len(received) == 3)
        assert received["Sure"].congestion_control == zenoh.CongestionControl.BLOCK
        assert received["Maybe"].congestion_control == zenoh.CongestionControl.DROP
        assert received["Fast"].priority == zenoh.Priority.INTERACTIVE_HIGH
        assert received["Fast"].express
        assert not received["Sure"].express
        for one in subscribers:
            one.undeclare()


@line("D-403")
def test_big_endian_samples_become_little_endian(rig: Rig) -> None:
    with rig.far.declare_subscriber("Big") as subscriber:
        rig.peer.writer("big", "Big", "FinalKeyed", representation=[1])
        rig.matched("big")
        rig.matched_here("Big", 1)
        assert rig.peer.raw_write("big", "00000000 00000007 00000009") == 0
        assert subscriber.handler.recv(LIMIT_S).payload.to_bytes() == bytes.fromhex(
            "00010000 07000000 09000000"
        )


@line("D-404")
def test_a_turn_takes_one_list_of_a_reader(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    dds: Any = rig.bridge.dds
    wait, take = dds.wait, dds.take
    turns: list[Counter[int]] = [Counter()]
    sizes: list[int] = []

    def waited(timeout_ns: int) -> Ready:
        turns.append(Counter())
        found: Ready = wait(timeout_ns)
        return found

    def taken(reader: int, count_max: int) -> Any:
        turns[-1][reader] += 1
        found = take(reader, count_max)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(dds, "wait", waited)
    monkeypatch.setattr(dds, "take", taken)
    with rig.far.declare_subscriber("Lists", FifoChannel(10_000)) as subscriber:
        rig.peer.writer("lists", "Lists", "Blob", depth=0)
        rig.matched("lists")
        rig.matched_here("Lists", 1)
        rig.peer.raw_burst("lists", 2_000, 16)
        for _ in range(2_000):
            subscriber.handler.recv(LIMIT_S)
    assert sum(sizes) >= 2_000
    assert max(sizes) <= 256
    assert max(max(one.values(), default=0) for one in turns) == 1


@line("D-411", "D-703")
def test_state_changes_are_deletes_or_nothing() -> None:
    domain = next_domain()
    with eclipse_pair() as (far, near), peer(domain) as other:
        for deletes in (True, False):
            received: list[Any] = []
            subscriber = far.declare_subscriber("State", received.append)
            with bridge(near, domain, deletes=deletes):
                other.writer("w", "State", "Keyed", dispose=False)
                until(lambda: other.matched("w"))
                other.write("w", [{"id": 1, "value": 1}])
                other.dispose("w", {"id": 1, "value": 0})
                other.write("w", [{"id": 2, "value": 2}])
                until(partial(_ends_with, received, 2))
                other.delete("w")
            # The first sample may carry the dispose itself: then it is one put (D-504).
            kinds = [one.kind for one in received]
            assert all(
                one.payload.to_bytes() for one in received if one.kind == zenoh.SampleKind.PUT
            )
            told = [one for one in received if one.attachment is not None]
            assert bool(told) is deletes
            if not deletes:
                assert all(one == zenoh.SampleKind.PUT for one in kinds)
            subscriber.undeclare()
            until(lambda: not _is_there(far))


def _value(sample: Any) -> int:
    return int.from_bytes(sample.payload.to_bytes()[-4:], "little")


def _ends_with(received: list[Any], value: int) -> bool:
    return bool(received) and _value(received[-1]) == value


def _is_there(far: Any) -> bool:
    return any(one.ok for one in far.liveliness().get("zenoh-plugin-dds/**"))


@line("D-459")
def test_a_put_on_an_expression_is_written_to_all_it_includes(rig: Rig) -> None:
    for name in ("a", "b"):
        rig.peer.reader(f"all {name}", f"All/{name}", "Chatter")
    rig.peer.reader("none", "Not/a", "Chatter")
    rig.matched("all a", "all b", "none")
    for key in ("All/a", "All/b"):
        subscribed(rig.far, key)
    put(rig.far, "All/*", chatter(5))
    for name in ("a", "b"):
        assert [one["value"]["number"] for one in rig.peer.taken(f"all {name}", 1)] == [5]
    put(rig.far, "Not/a", chatter(6))
    assert [one["value"]["number"] for one in rig.peer.taken("none", 1)] == [6]


def _is_matching(publisher: Any) -> bool:
    return bool(publisher.matching_status.matching)


@line("D-461")
def test_queries_and_replies_reach_no_topic(rig: Rig) -> None:
    rig.peer.reader("asked", "Asked", "Chatter")
    rig.matched("asked")

    def answer(query: Any) -> None:
        with query:
            query.reply("Asked", chatter(1))
            query.reply_err(chatter(2))

    with rig.far.declare_queryable("Asked", answer):
        served(rig.near, "Asked")
        replies = list(rig.near.get("Asked", payload=chatter(3)))
        assert any(one.ok for one in replies)
    put(rig.far, "Asked", chatter(4))
    assert [one["value"]["number"] for one in rig.peer.taken("asked", 1)] == [4]


@line("D-510", "D-751")
def test_live_instances_are_counted_in_the_route(rig: Rig) -> None:
    with rig.far.declare_subscriber("Live", FifoChannel(100)) as subscriber:
        rig.peer.writer("live", "Live", "Keyed", dispose=False)
        rig.matched("live")
        rig.peer.write("live", [{"id": id_, "value": 0} for id_ in range(5)])
        for _ in range(5):
            subscriber.handler.recv(LIMIT_S)
        rig.peer.dispose("live", {"id": 3, "value": 0})
        subscriber.handler.recv(LIMIT_S)

        served(rig.far, f"@/{rig.near.zid()}/dds/**")

        def told() -> int:
            replies = rig.far.get(f"@/{rig.near.zid()}/dds/route/from_dds/Live")
            [found] = [json.loads(one.ok.payload.to_bytes()) for one in replies if one.ok]
            return int(found["live_instances"])

        assert told() == 4


@line("D-601")
def test_a_missed_deadline_is_seen_on_both_sides(rig: Rig) -> None:
    rig.peer.reader("late", "Late", "Chatter", deadline=0.1)
    rig.matched("late")
    put(rig.far, "Late", chatter(1))
    rig.peer.taken("late", 1)
    until(lambda: rig.peer.missed("late") > 0)
    route: Any = rig.route("to_dds", "Late")

    def missed() -> bool:
        counts = rig.bridge.dds.counts(route.mirrors[0], is_writer=True)
        return counts["offered_deadline_missed"] > 0

    until(missed)
    assert rig.bridge.mirror_qos[route.mirrors[0].handle][0].deadline_ns == 100_000_000


@line("D-635")
@pytest.mark.parametrize(("foreign_bridges", "count"), [("ignore", 0), ("accept", 1)])
def test_participants_of_eclipse_bridges_are_known_by_process_and_token(
    foreign_bridges: str, count: int
) -> None:
    domain = next_domain()
    with (
        eclipse_pair() as (far, near),
        bridge(near, domain, foreign_bridges=foreign_bridges) as made,
        peer(domain, program="zenoh-bridge-dds") as foreign,
        peer(domain) as other,
    ):
        token = far.liveliness().declare_token("zenoh-plugin-dds/ab12")
        until(lambda: "ab12" in made.presence._eclipse)
        foreign.reader("r", "Mirror", "Chatter")
        other.reader("o", "Own", "Chatter")
        until(lambda: len(made.table.endpoints) + len(made.admission.hidden) == 2)
        until(lambda: other.matched("o"))
        until(lambda: [id_.topic for id_ in list(made.routes)].count("Mirror") == count)
        token.undeclare()
