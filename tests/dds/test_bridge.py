"""Samples between a real Cyclone DDS participant and Elea sessions, both ways."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest
from tests.dds.conftest import Rig
from tests.dds.peers import (
    bridge,
    delete,
    next_domain,
    peer,
    put,
    served,
    session_pair,
    subscribed,
    until,
)

from elea.dds.stamps import Attachment
from elea.provenance import SampleKind
from elea.qos import CongestionControl
from elea.sample import Sample
from elea.session.handlers import FifoChannel, Handler

line = pytest.mark.line

VALUES: dict[str, dict[str, Any]] = {
    "Chatter": {"number": 1, "text": "hi"},
    "Keyed": {"id": 7, "value": 9},
    "FinalKeyed": {"id": 7, "value": 9},
    "MutableKeyed": {"id": 7, "value": 9},
    "NamedKeyed": {"name": "a", "value": 1},
    "NestedKeyed": {"place": {"floor": 1, "room": "r"}, "value": 5},
    "Blob": {"number": 1, "data": "010203"},
    "Robot": {
        "name": "r1",
        "mode": "FAULT",
        "pose": [1.0, 2.0, 3.0],
        "cells": [0.5, 1.5],
        "places": [{"floor": 1, "room": "x"}, {"floor": 2, "room": "yy"}],
        "note": None,
        "reading": {"exact": 2.5},
    },
    "Tagged": {"name": "n", "count": 3, "note": None},
}


def received(subscriber: Any, count: int) -> list[Sample]:
    """The next samples of a subscriber."""
    handler: Handler[Sample] = subscriber.handler if hasattr(subscriber, "handler") else subscriber
    return [handler.recv(60) for _ in range(count)]


@line("D-006", "D-201", "D-261", "D-301", "D-401", "D-402", "D-405", "D-410", "D-541", "D-546")
def test_a_writer_is_heard_with_stamp_writer_and_number(rig: Rig) -> None:
    with rig.far.declare_subscriber("First", FifoChannel(100)) as subscriber:
        guid = rig.peer.writer("first", "First", "Chatter")
        rig.matched("first")
        before = time.time_ns()
        rig.peer.write("first", [{"number": n, "text": f"t{n}"} for n in range(50)])
        samples = received(subscriber, 50)
    numbers = [int.from_bytes(one.payload.to_bytes()[4:8], "little") for one in samples]
    assert numbers == list(range(50))
    assert samples[1].payload.to_bytes().hex(" ", 4) == "00010000 01000000 03000000 74310000"
    assert {str(one.encoding) for one in samples} == {"application/cdr;demo::Chatter"}
    for one in samples:
        assert one.timestamp is not None
        assert one.timestamp.id.to_bytes() == bytes.fromhex(guid)
        assert before <= one.timestamp.time.as_nanos() <= time.time_ns()
        assert one.congestion_control is CongestionControl.BLOCK
    sources = [one.source_info for one in samples]
    assert [one.source_sn for one in sources if one] == list(range(50))
    assert {one.source_id.zid for one in sources if one} == {rig.near.zid()}


@line("D-306", "D-451", "D-543", "D-936")
def test_a_put_is_written_with_its_source_time(rig: Rig) -> None:
    rig.peer.reader("second", "Second", "Chatter")
    rig.matched("second")
    payload = bytes.fromhex("00010000 05000000 03000000 686f0000")
    stamp = rig.far.new_timestamp()
    put(rig.far, "Second", payload, timestamp=stamp)
    [sample] = rig.peer.taken("second", 1)
    assert sample["value"] == {"number": 5, "text": "ho"}
    assert abs(sample["ns"] - stamp.time.as_nanos()) < 2


@line("D-006", "D-401", "D-451", "D-936")
@pytest.mark.parametrize("name", sorted(VALUES))
def test_each_type_passes_both_ways_unchanged(rig: Rig, name: str) -> None:
    topic = f"Types/{name}"
    with rig.far.declare_subscriber(f"{topic}/out") as subscriber:
        rig.peer.writer(f"w{name}", f"{topic}/out", name)
        rig.peer.reader(f"r{name}", f"{topic}/in", name)
        rig.peer.reader(f"d{name}", f"{topic}/out", name)
        rig.matched(f"r{name}", f"d{name}")
        until(lambda: rig.peer.matched(f"w{name}") == 2, "the peer's own reader, and the bridge's")
        rig.peer.write(f"w{name}", [VALUES[name]])
        [sample] = received(subscriber, 1)
    put(rig.far, f"{topic}/in", sample.payload, encoding=sample.encoding)
    [direct] = rig.peer.taken(f"d{name}", 1)
    [bridged] = rig.peer.taken(f"r{name}", 1)
    assert bridged["value"] == direct["value"]


@line("D-101", "D-102", "D-103", "D-302", "D-936")
def test_each_partition_is_a_key(rig: Rig) -> None:
    with rig.far.declare_subscriber("**/Parts", FifoChannel(10)) as subscriber:
        rig.peer.writer("parts", "Parts", "Chatter", partitions=["p1", "p2"])
        for key in ("p1/Parts", "p2/Parts"):
            rig.route("from_dds", key)
        until(lambda: rig.peer.matched("parts") == 2)
        rig.peer.write("parts", [VALUES["Chatter"]])
        keys = {str(one.key_expr) for one in received(subscriber, 2)}
    assert keys == {"p1/Parts", "p2/Parts"}


@line("D-107")
def test_a_reader_in_a_pattern_partition_gets_its_partitions(rig: Rig) -> None:
    rig.peer.reader("pattern", "Pattern", "Chatter", partitions=["a*"])
    rig.route("to_dds", "a$*/**/Pattern")
    subscribed(rig.far, "ab/c/Pattern")
    for number, key in enumerate(("ab/c/Pattern", "b/Pattern", "aa/Pattern", "Pattern")):
        rig.far.put(key, b"\0\1\0\0" + bytes((number, 0, 0, 0, 1, 0, 0, 0, 0)))
    taken = rig.peer.taken("pattern", 2)
    assert sorted(one["value"]["number"] for one in taken) == [0, 2]


@line("D-108")
def test_a_writer_in_a_pattern_partition_is_put_on_the_expression(rig: Rig) -> None:
    with rig.far.declare_subscriber("**/WildOut") as subscriber:
        rig.peer.writer("wild", "WildOut", "Chatter", partitions=["x*"])
        rig.matched("wild")
        rig.peer.write("wild", [VALUES["Chatter"]])
        [sample] = received(subscriber, 1)
    assert str(sample.key_expr) == "x$*/**/WildOut"


@line("D-303", "D-361", "D-936")
def test_reliable_and_best_effort_endpoints_share_a_topic(rig: Rig) -> None:
    with rig.far.declare_subscriber("Mix", FifoChannel(100)) as subscriber:
        rig.peer.writer("mixr", "Mix", "Chatter")
        rig.peer.writer("mixb", "Mix", "Chatter", reliable=False)
        rig.peer.writer("mixd", "Mix", "Chatter", durability="transient_local")
        route = rig.route("from_dds", "Mix")
        until(lambda: len(route.mirrors) == 3)  # type: ignore[attr-defined]
        # A reader matches writers that offer more than it asks for: 2, 1 and 3 of them, in all 6.
        for name, count in (("mixr", 2), ("mixb", 1), ("mixd", 3)):
            until(partial(_has_matched, rig, name, count))
        rig.matched_here("Mix", 6)
        for number, name in enumerate(("mixr", "mixb", "mixd")):
            rig.peer.write(name, [{"number": number, "text": ""}])
        samples = received(subscriber, 3)
        assert subscriber.handler.try_recv() is None
    numbers = sorted(int.from_bytes(one.payload.to_bytes()[4:8], "little") for one in samples)
    assert numbers == [0, 1, 2]
    rig.peer.reader("readr", "MixIn", "Chatter")
    rig.peer.reader("readb", "MixIn", "Chatter", reliable=False)
    rig.matched("readr", "readb")
    rig.matched_here("MixIn", 2)
    # Cyclone drops what comes before the first heartbeat of a writer, and sends it again to
    # reliable readers alone: once one of these has a sample, the next one reaches both.
    first, second = (b"\0\1\0\0" + bytes((n, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0)) for n in (7, 8))
    put(rig.far, "MixIn", first)
    assert [one["value"]["number"] for one in rig.peer.taken("readr", 1)] == [7]
    rig.far.put("MixIn", second)
    assert [one["value"]["number"] for one in rig.peer.taken("readr", 1)] == [8]
    heard: list[int] = []

    def has_second() -> bool:
        heard.extend(one["value"]["number"] for one in rig.peer.take("readb"))
        return 8 in heard

    until(has_second)
    assert heard in ([7, 8], [8])


def _has_matched(rig: Rig, name: str, count: int) -> bool:
    return bool(rig.peer.matched(name) == count)


@line("D-305", "D-412", "D-310")
def test_a_topic_is_read_while_a_subscriber_wants_it(rig: Rig) -> None:
    rig.peer.writer("demand", "Demand", "Chatter")
    route: Any = rig.route("from_dds", "Demand")
    until(lambda: route.state.value.value == "Waiting")
    assert rig.peer.matched("demand") == 0
    with rig.far.declare_subscriber("Demand"):
        rig.matched("demand")
        until(lambda: route.state.value.value == "Active")
    until(lambda: rig.peer.matched("demand") == 0)


@line("D-202", "D-204", "D-307", "D-308")
def test_a_route_outlives_its_endpoints_by_linger(rig: Rig) -> None:
    domain = next_domain()
    with (
        session_pair() as (near, _far),
        bridge(near, domain, linger=600.0) as made,
        peer(domain) as other,
    ):
        other.writer("linger", "Linger", "Chatter")
        [first] = until(lambda: list(made.routes.values()))
        other.delete("linger")
        until(lambda: first.end_ns is not None)
        other.writer("linger", "Linger", "Chatter")
        until(lambda: first.end_ns is None)
        assert list(made.routes.values()) == [first]
    rig.peer.writer("linger", "Linger", "Chatter")
    rig.route("from_dds", "Linger")
    rig.peer.delete("linger")
    until(lambda: all(id_.key != "Linger" for id_ in list(rig.bridge.routes)))
    assert all(not id_.topic.startswith("DCPS") for id_ in list(rig.bridge.routes))


@line("D-454", "D-455", "D-458", "D-732", "D-815")
def test_payloads_that_are_no_samples_are_refused_and_counted(rig: Rig) -> None:
    rig.peer.reader("bad", "Bad", "Chatter")
    rig.matched("bad")
    route: Any = rig.route("to_dds", "Bad")
    good = bytes.fromhex("00010000 05000000 03000000 686f0000")
    for payload in (b"", b"{}", b"\xff\xff\0\0" + good[4:], b"\0\x10\0\0" + good[4:]):
        put(rig.far, "Bad", payload)
    put(rig.far, "Bad", b"\0\x09\0\0" + good[4:])  # delimited, and the type is final
    put(rig.far, "Bad", bytes.fromhex("00010000 05000000 ff000000 68"))
    put(rig.far, "Bad", good[:15])  # padded to a multiple of four
    [sample] = rig.peer.taken("bad", 1)
    assert sample["value"] == {"number": 5, "text": "ho"}
    assert route.counts.lost == {"refused representation": 5, "refused value": 1}


KEYED = ("Keyed", "FinalKeyed", "MutableKeyed", "NamedKeyed", "NestedKeyed")


@line("D-501", "D-503", "D-504", "D-506", "D-544", "D-936")
@pytest.mark.parametrize("name", KEYED)
def test_instances_end_on_both_sides(rig: Rig, name: str) -> None:
    topic = f"Life/{name}"
    value = VALUES[name]
    with rig.far.declare_subscriber(topic, FifoChannel(100)) as subscriber:
        rig.peer.writer(f"l{name}", topic, name, dispose=False)
        rig.matched(f"l{name}")
        rig.peer.write(f"l{name}", [value])
        [first] = received(subscriber, 1)
        rig.peer.dispose(f"l{name}", value)
        [gone] = received(subscriber, 1)
        rig.peer.write(f"l{name}", [value])
        received(subscriber, 1)
        rig.peer.unregister(f"l{name}", value)
        [left] = received(subscriber, 1)
        rig.peer.write_dispose(f"l{name}", value)
        [both] = received(subscriber, 1)
    assert first.attachment is None
    for sample, status in ((gone, 1), (left, 2)):
        assert sample.kind is SampleKind.DELETE
        assert sample.attachment is not None
        beside = Attachment.read(sample.attachment.to_bytes())
        assert beside is not None
        assert beside.status == status
        assert beside.key is not None
    assert both.kind is SampleKind.PUT
    assert both.attachment is not None
    assert both.attachment.to_bytes() == bytes.fromhex("01010101")
    rig.peer.reader(f"lr{name}", f"{topic}/in", name)
    rig.matched(f"lr{name}")
    put(rig.far, f"{topic}/in", first.payload)
    [alive] = rig.peer.taken(f"lr{name}", 1)
    rig.far.delete(f"{topic}/in", attachment=gone.attachment)
    [disposed] = rig.peer.taken(f"lr{name}", 1)
    put(rig.far, f"{topic}/in", both.payload, attachment=both.attachment)
    ended = rig.peer.taken(f"lr{name}", 1)
    assert (alive["state"], alive["valid"]) == (16, True)
    assert (disposed["state"], disposed["valid"]) == (32, False)
    assert ended[0]["state"] == 32


@line("D-545")
def test_the_attachment_of_a_dispose_is_as_specified(rig: Rig) -> None:
    with rig.far.declare_subscriber("Octets", FifoChannel(10)) as subscriber:
        rig.peer.writer("octets", "Octets", "Keyed", dispose=False)
        rig.matched("octets")
        rig.peer.write("octets", [{"id": 7, "value": 9}])
        received(subscriber, 1)
        rig.peer.dispose("octets", {"id": 7, "value": 9})
        [sample] = received(subscriber, 1)
    assert sample.attachment is not None
    expected = "02 01 01 01 09 0c 00 09 00 00 04 00 00 00 07 00 00 00"
    assert sample.attachment.to_bytes() == bytes.fromhex(expected)


@line("D-362", "D-505")
@pytest.mark.parametrize(("dispose", "status"), [(True, 1), (False, 2)])
def test_a_writer_that_leaves_ends_its_instances(rig: Rig, dispose: bool, status: int) -> None:
    topic = f"Leave/{dispose}"
    with rig.far.declare_subscriber(topic, FifoChannel(100)) as subscriber:
        rig.peer.writer("leave", topic, "Keyed", dispose=dispose)
        rig.matched("leave")
        rig.peer.write("leave", [{"id": n, "value": n} for n in range(3)])
        received(subscriber, 3)
        rig.peer.delete("leave")
        samples = received(subscriber, 3)
    assert {one.kind for one in samples} == {SampleKind.DELETE}
    told = [Attachment.read(one.attachment.to_bytes()) for one in samples if one.attachment]
    assert {one.status for one in told if one} == {status}


@line("D-502", "D-507")
def test_each_instance_may_have_a_key(rig: Rig) -> None:
    with rig.far.declare_subscriber("Keys/*", FifoChannel(100)) as subscriber:
        rig.peer.writer("keys", "Keys", "NamedKeyed", dispose=False)
        rig.matched("keys")
        rig.peer.write("keys", [{"name": "a/b,c", "value": 1}, {"name": "x" * 200, "value": 2}])
        first, second = received(subscriber, 2)
        rig.peer.dispose("keys", {"name": "a/b,c", "value": 1})
        [gone] = received(subscriber, 1)
    assert str(first.key_expr) == "Keys/a%2Fb%2Cc"
    assert str(second.key_expr).startswith("Keys/~")
    assert (str(gone.key_expr), gone.kind) == ("Keys/a%2Fb%2Cc", SampleKind.DELETE)
    rig.peer.delete("keys")
    rig.peer.reader("keysin", "Keys", "NamedKeyed")
    rig.matched("keysin")
    put(rig.far, "Keys/n1", first.payload)
    rig.peer.taken("keysin", 1)
    rig.far.delete("Keys/n1")
    [disposed] = rig.peer.taken("keysin", 1)
    assert (disposed["state"], disposed["valid"]) == (32, False)


@line("D-507", "D-508")
def test_deletes_without_a_key_are_ignored_and_counted(rig: Rig) -> None:
    for name, type_ in (("ignk", "Keyed"), ("ignu", "Chatter")):
        rig.peer.reader(name, f"Ignored/{name}", type_)
        rig.matched(name)
        route: Any = rig.route("to_dds", f"Ignored/{name}")
        delete(rig.far, f"Ignored/{name}")
        until(partial(_has_ignored, route))
    with rig.far.declare_subscriber("Unkeyed", FifoChannel(10)) as subscriber:
        rig.peer.writer("unkeyed", "Unkeyed", "Chatter")
        rig.matched("unkeyed")
        rig.peer.write("unkeyed", [VALUES["Chatter"]])
        received(subscriber, 1)
        rig.peer.delete("unkeyed")
        until(
            lambda: all(one.topic != "Unkeyed" for one in list(rig.bridge.table.endpoints.values()))
        )
        rig.peer.writer("unkeyed", "Unkeyed", "Chatter")
        rig.matched("unkeyed")
        rig.peer.write("unkeyed", [VALUES["Chatter"]])
        [after] = received(subscriber, 1)
        assert after.kind is SampleKind.PUT  # no delete came before it


def _has_ignored(route: Any) -> bool:
    return bool(route.counts.deletes_ignored == 1)


@line("D-264", "D-266", "D-932")
def test_peers_without_type_information_pass_unchanged(rig: Rig) -> None:
    with rig.far.declare_subscriber("Bare", FifoChannel(10)) as subscriber:
        rig.peer.bare_writer("bare", "Bare")
        until(lambda: rig.peer.bare_matched("bare") > 0)
        route: Any = rig.route("from_dds", "Bare")
        assert until(lambda: route.tier).value == "opaque"
        rig.peer.bare_write("bare", 5, "ho")
        [sample] = received(subscriber, 1)
    # The last octet of the header counts the padding.
    assert sample.payload.to_bytes().hex(" ", 4) == "00010001 05000000 03000000 686f0000"
    rig.peer.bare_reader("barein", "BareIn")
    until(lambda: rig.peer.bare_matched("barein") > 0)
    put(rig.far, "BareIn", sample.payload)
    assert until(lambda: rig.peer.bare_take("barein")) == [[5, "ho"]]


@line("D-542")
def test_times_that_cannot_be_stamps_travel_beside(rig: Rig) -> None:
    with rig.far.declare_subscriber("Future", FifoChannel(10)) as subscriber:
        guid = rig.peer.writer("future", "Future", "Chatter")
        rig.matched("future")
        same = time.time_ns()
        for ns in (same, same, same):
            rig.peer.write("future", [VALUES["Chatter"]], ns)
        equal = [one.timestamp.time.value for one in received(subscriber, 3) if one.timestamp]
        ahead = time.time_ns() + 3_600_000_000_000
        rig.peer.write("future", [VALUES["Chatter"]], ahead)
        [sample] = received(subscriber, 1)
    assert equal == [equal[0], equal[0] + 1, equal[0] + 2]
    assert sample.attachment is not None
    beside = Attachment.read(sample.attachment.to_bytes())
    assert beside == Attachment(source_ns=ahead, writer=bytes.fromhex(guid))
    assert sample.timestamp is not None
    assert sample.timestamp.id == rig.near.zid()


@line("D-460", "D-631", "D-632")
def test_a_domain_does_not_get_its_own_samples_back(rig: Rig) -> None:
    with rig.far.declare_subscriber("Loop", FifoChannel(10)) as subscriber:
        rig.peer.writer("loopw", "Loop", "Chatter")
        rig.peer.reader("loopr", "Loop", "Chatter")
        rig.matched("loopw", "loopr")
        until(lambda: rig.peer.matched("loopw") == 2 and rig.peer.matched("loopr") == 2)
        rig.peer.write("loopw", [{"number": 1, "text": ""}])
        [sample] = received(subscriber, 1)
        before = rig.bridge.counts.duplicates.get("D-632", 0)
        put(rig.far, "Loop", sample.payload, timestamp=sample.timestamp)  # as another bridge would
        until(lambda: rig.bridge.counts.duplicates.get("D-632", 0) > before)
        put(rig.far, "Loop", bytes.fromhex("00010000 02000000 01000000 00000000"))
        values = [one["value"]["number"] for one in rig.peer.taken("loopr", 2)]
    assert values == [1, 2]


@line("D-604")
def test_endpoints_are_tokens(rig: Rig) -> None:
    guid = rig.peer.writer("token", "To/ken", "Chatter")
    key = f"@/{rig.near.zid()}/@dds/{rig.domain}/W/{guid}/To§ken"

    def tokens() -> list[str]:
        replies = rig.far.liveliness().get(f"@/*/@dds/{rig.domain}/W/*/*")
        return [str(one.ok.key_expr) for one in replies if one.ok]

    until(lambda: key in tokens())
    rig.peer.delete("token")
    until(lambda: key not in tokens())


@line("D-751", "D-752", "D-753", "D-754")
def test_the_admin_space_has_the_layout_of_eclipse(rig: Rig) -> None:
    import json

    rig.peer.reader("admin", "Admin", "Chatter")
    rig.matched("admin")
    root = f"@/{rig.near.zid()}/dds"
    served(rig.far, f"{root}/**")

    def answers(key: str) -> dict[str, Any]:
        replies = rig.far.get(f"{root}/{key}")
        return {
            str(one.ok.key_expr).removeprefix(f"{root}/"): json.loads(one.ok.payload.to_string())
            for one in replies
            if one.ok
        }

    assert "cyclonedds 11" in answers("version")["version"]
    assert answers("config")["config"]["domain"] == rig.domain
    route = answers("route/to_dds/Admin")["route/to_dds/Admin"]
    assert route["topic_name"] == "Admin"
    assert route["topic_type"] == "demo::Chatter"
    assert route["keyless"] is True
    assert route["state"] == "Active"  # told by the thread that made the mirror
    assert route["tier"] == "exact"
    assert len(route["dds_writer"]) == 32
    [endpoint] = answers("participant/*/reader/*/Admin").values()
    assert endpoint["routes"] == {"*": {"Routed": "Admin"}}
    assert endpoint["key"] in route["local_routed_readers"]
    assert rig.peer.guid in {one.split("/")[1] for one in answers("participant/*")}
    status = rig.bridge.describe.status()
    assert status["domain"] == rig.domain
    assert status["stuck"] is None


@line("D-871", "D-872", "D-874")
def test_types_are_schemas_under_their_keys(rig: Rig) -> None:
    import json

    rig.peer.reader("schema", "Schema", "Robot")
    rig.matched("schema")

    def schemas() -> list[dict[str, Any]]:
        replies = rig.far.get("@schema/cdr/demo::Robot/*")
        return [json.loads(one.ok.payload.to_string()) for one in replies if one.ok]

    [schema] = until(schemas)
    assert schema["layout"] == (
        "appendable {name: string, mode: enum {OFF = 0, ON = 1, FAULT = 7}, pose: [f64; 3],"
        " cells: [f32], places: [{floor: i32, room: string}], note: string?, reading: union (i32)"
        " {1: whole: i32, 2, 3: exact: f64, default: other: string}}"
    )
    assert schema["keys"] == ["name"]
    assert schema["extensibility"] == "appendable"
    assert len(schema["hash"]) == 28
