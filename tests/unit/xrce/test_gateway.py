"""Devices and the data space, by way of a gateway."""

from __future__ import annotations

import pytest
from tests.xrce_session import messages
from tests.xrce_world import World, device_settings

from elea.encoding import Encoding
from elea.xrce.client import Interest
from elea.xrce.declaration_records import (
    CommitDecl,
    ForgetSubscriberDecl,
    Property,
    ResourceDecl,
    ResultDecl,
    SelectionDecl,
    SubscriberDecl,
)
from elea.xrce.encode import encode
from elea.xrce.gateway.effects import Joined, Left, Subscribe, Unsubscribe, Unwatch, Watch
from elea.xrce.message_records import Declare, Open, StreamData, WriteData
from elea.xrce.properties import (
    ENCODING,
    PRIORITY,
    RELIABILITY,
    nat,
)
from elea.xrce.session.session import Ended
from elea.xrce.status import Status


def raw(world: World, *declarations: object, committed: bool = False, sn: int = 0) -> list[object]:
    """What a hand-made device, at source 9, is answered."""
    declare = Declare(sync=False, committed=committed, sn=sn, declarations=declarations)  # type: ignore[arg-type]
    world.gateway.receive(encode(declare), 9, world.now_ns)
    return answers(world)


def answers(world: World) -> list[object]:
    out = world.gateway.data_to_send(world.now_ns)
    return [
        one
        for _, frame in out
        for message in messages(frame)
        for one in (message.declarations if isinstance(message, Declare) else [message])
    ]


def hand_made() -> World:
    world = World()
    opening = Open(version=1, pid=b"\x99", lease=100, locators=())
    world.gateway.receive(encode(opening), 9, 0)
    answers(world)
    return world


# Transactions.


@pytest.mark.line("X-052", "X-053", "X-054")
def test_a_transaction_of_three_messages_has_one_result() -> None:
    world = hand_made()
    assert not any(
        isinstance(one, ResultDecl) for one in raw(world, ResourceDecl(rid=2, resource=b"/a"))
    )
    raw(world, SubscriberDecl(id=2, mode=1), sn=1)
    world.put("a", b"early")
    assert not any(isinstance(one, StreamData) for one in answers(world))
    said = raw(world, CommitDecl(commit_id=5), sn=2)
    assert [one for one in said if isinstance(one, ResultDecl)] == [
        ResultDecl(commit_id=5, status=0)
    ]
    world.put("a", b"1")
    assert [one.payload for one in answers(world) if isinstance(one, StreamData)] == [b"1"]


@pytest.mark.line("X-062")
def test_facts_are_applied_without_a_result_and_bad_ones_end_the_session() -> None:
    world = hand_made()
    said = raw(
        world, ResourceDecl(rid=2, resource=b"/a"), SubscriberDecl(id=2, mode=1), committed=True
    )
    assert not any(isinstance(one, ResultDecl) for one in said)
    world.put("a", b"1")
    assert [one.payload for one in answers(world) if isinstance(one, StreamData)] == [b"1"]
    raw(world, ResourceDecl(rid=3, resource=b"/a"), committed=True, sn=1)
    left = [one for one in _effects(world) if isinstance(one, Left)]
    assert [one.reason for one in left] == [6]
    world = hand_made()
    raw(world, CommitDecl(commit_id=1), committed=True)
    assert [one.reason for one in _effects(world) if isinstance(one, Left)] == [6]


def _effects(world: World) -> list[object]:
    world.flush_effects()
    return list(world.effects)


@pytest.mark.line("X-064")
def test_transactions_are_held_while_results_cannot_be_sent() -> None:
    world = hand_made()
    device = world.gateway.devices[b"\x99"]
    raw(world, ResourceDecl(rid=2, resource=b"/a"), SubscriberDecl(id=2, mode=1), committed=True)
    while device.outlet.is_clear:  # the device acknowledges nothing
        world.put("a", b"x")
    for commit_id in range(12):
        raw(world, CommitDecl(commit_id=commit_id), sn=1 + commit_id)
    assert device.incoming.held_count == 12
    assert device.incoming.refused_count == 4, "eight may wait"


@pytest.mark.line("X-065")
def test_results_are_understood_wherever_they_stand() -> None:
    world = World()
    client = world.device()
    client.resource("/a")
    client.commit()
    world.flush()
    result = ResultDecl(commit_id=0, status=0)
    said = Declare(
        sync=False, committed=True, sn=0, declarations=(SubscriberDecl(id=2, mode=1), result)
    )
    client.receive(encode(said), world.now_ns)
    events = []
    while (event := client.next_event()) is not None:
        events.append(type(event).__name__)
    assert events == ["Settled", "Interest"]


@pytest.mark.line("X-055", "X-060")
def test_a_refused_transaction_is_told_with_its_reason() -> None:
    world = World()
    client = world.device()
    client.resource("/a", rid=2)
    assert world.committed(client).status is Status.SUCCESS
    client.resource("/b", rid=4)
    client.resource("/c", rid=2)
    settled = world.committed(client)
    assert (settled.status, settled.id) == (Status.CONFLICT, 2)
    assert set(world.gateway.devices[b"\xde\0"].table.names) == {2}


# Data.


@pytest.mark.line("X-101", "X-075", "X-127")
def test_a_name_needs_no_declaration() -> None:
    world = World()
    writer, reader = world.device(), world.device()
    reader.subscriber(reader.resource("zenoh://lab/*"))
    world.committed(reader)
    assert writer.write_to("/lab/t", b"21.5", world.now_ns)
    world.run(0.2)
    assert world.received(1) == [("lab/t", b"21.5")]
    names = [one.resource for one in world.to_device[1] if isinstance(one, WriteData)]
    assert names == [b"zenoh://lab/t"]
    (sample,) = world.puts()
    assert (sample.key, sample.payload, sample.reliable) == ("lab/t", b"21.5", True)
    assert sample.timestamp is not None


@pytest.mark.line("X-102", "X-078")
@pytest.mark.parametrize("name", ["/lab/*", "/lab//t", "nothing", "/lab/t/property", "/a#sticky"])
def test_data_under_no_name_is_dropped_and_the_session_lives(name: str) -> None:
    world = World()
    client = world.device()
    client.write_to(name, b"x", world.now_ns)
    client.write_to("/lab/t", b"y", world.now_ns)
    world.run(0.2)
    assert [one.payload for one in world.puts()] == [b"y"]
    assert world.gateway.counters.dropped == 1


@pytest.mark.line("X-106")
def test_data_under_no_id_is_dropped_and_the_session_lives() -> None:
    world = World()
    client = world.device()
    client.resource("/lab/*", rid=4)
    world.committed(client)
    for id_, prid in ((7, None), (0, None), (4, None), (4, 8), (4, 3)):
        client.write(id_, b"x", world.now_ns, prid=prid)
    client.write(6, b"y", world.now_ns)
    world.run(0.2)
    assert [one.key for one in world.puts()] == ["@xrce/rid/6"]
    assert world.gateway.counters.dropped == 5


@pytest.mark.line("X-066", "X-067", "X-125")
def test_ids_that_nobody_named_meet() -> None:
    world = World()
    writer, reader, other = world.device(), world.device(), world.device()
    reader.subscriber(6)
    world.committed(reader)
    other.subscriber(other.resource("/**"))
    world.committed(other)
    writer.write(6, b"1", world.now_ns)
    world.run(0.2)
    assert world.received(1) == [("@xrce/rid/6", b"1")]
    reader.resource("/lab/t", rid=6)
    world.committed(reader)
    writer.write(6, b"2", world.now_ns)
    writer.write_to("/lab/t", b"3", world.now_ns)
    world.run(0.2)
    assert world.payloads(1) == [b"1", b"3"]
    assert world.payloads(2) == [b"3"], "wildcards do not see what nobody named"


@pytest.mark.line("X-103")
def test_a_publisher_is_told_of_its_readers() -> None:
    world = World()
    writer, reader = world.device(), world.device()
    rid = writer.resource("/lab/t")
    writer.publisher(rid)
    world.committed(writer)
    writer.write(rid, b"0", world.now_ns)
    assert writer.unmatched_count == 1
    sid = reader.resource("/lab/*")
    reader.subscriber(sid)
    world.committed(reader)
    assert writer.is_matched(rid)
    writer.write(rid, b"1", world.now_ns)
    world.run(0.2)
    assert world.payloads(1) == [b"1"]
    reader.forget_subscriber(sid)
    world.committed(reader)
    assert not writer.is_matched(rid)
    told = [one for one in world.events[0] if isinstance(one, Interest)]
    assert [(one.id, one.matched) for one in told] == [(rid, True), (rid, False)]
    facts = [one for one in world.to_device[0] if isinstance(one, Declare) and one.committed]
    assert [one.declarations for one in facts] == [
        (SubscriberDecl(id=rid, mode=1),),
        (ForgetSubscriberDecl(id=rid),),
    ]


@pytest.mark.line("X-103")
def test_readers_elsewhere_count() -> None:
    world = World()
    writer = world.device()
    rid = writer.resource("/lab/**")
    writer.publisher(rid)
    world.committed(writer)
    assert Watch("lab/*/**") in world.effects
    world.gateway.matched("lab/*/**", world.now_ns, matched=True)
    world.run(0.2)
    assert writer.is_matched(rid)
    world.gateway.matched("lab/*/**", world.now_ns, matched=False)
    world.run(0.2)
    assert not writer.is_matched(rid)
    writer.forget(rid)
    world.committed(writer)
    assert Unwatch("lab/*/**") in world.effects


def test_interest_without_readers_if_configured() -> None:
    world = World(interest_always=True)
    writer = world.device()
    rid = writer.resource("/lab/t")
    writer.publisher(rid)
    world.committed(writer)
    assert writer.is_matched(rid)


@pytest.mark.line("X-104")
def test_batches() -> None:
    world = World()
    writer, reader = world.device(), world.device()
    rid, wild = writer.resource("/lab/t"), writer.resource("/lab/*")
    world.committed(writer)
    reader.subscriber(reader.resource("/lab/t"))
    world.committed(reader)
    writer.write_batch(rid, [b"a", b"bc", b""], world.now_ns)
    writer.write_batch(wild, [b"lost"], world.now_ns)
    world.run(0.2)
    assert world.payloads(1) == [b"a", b"bc", b""]
    assert world.gateway.counters.dropped == 1


@pytest.mark.line("X-104")
def test_a_batch_of_several_resources() -> None:
    world = hand_made()
    raw(
        world,
        *(
            ResourceDecl(rid=rid, resource=name)
            for rid, name in ((4, b"/l/*"), (10, b"/l/a"), (12, b"/l/b"))
        ),
        committed=True,
    )
    world.gateway.receive(bytes.fromhex("c80104020a0178 0c0179".replace(" ", "")), 9, 0)
    world.flush_effects()
    assert [(one.key, one.payload) for one in world.puts()] == [("l/a", b"x"), ("l/b", b"y")]


@pytest.mark.line("X-105")
def test_a_name_that_comes_often_gets_an_id() -> None:
    world = World()
    reader = world.device()
    reader.subscriber(reader.resource("/lab/*"))
    world.committed(reader)
    for number in range(6):
        world.put("lab/t", b"%d" % number)
        world.run(0.2)
    kinds = [
        type(one).__name__ for one in world.to_device[0] if isinstance(one, StreamData | WriteData)
    ]
    assert kinds == ["WriteData"] * 4 + ["StreamData"] * 2
    assert world.received(0) == [("lab/t", b"%d" % number) for number in range(6)]
    last = [one for one in world.to_device[0] if isinstance(one, StreamData)][-1]
    assert (last.id, last.prid) == (2, 16_382)


@pytest.mark.line("X-105")
def test_a_pattern_of_another_vendor_is_never_sent_ids_it_does_not_follow() -> None:
    """An existing client takes an id for a name, and delivers nothing that comes by it."""
    world = hand_made()
    names = (ResourceDecl(rid=2, resource=b"/lab/t"), ResourceDecl(rid=4, resource=b"/lab/*"))
    raw(world, *names, SubscriberDecl(id=4, mode=1), committed=True)
    said = []
    for number in range(20):
        world.put("lab/t", b"%d" % number)
        said += answers(world)
    assert [one.payload for one in said if isinstance(one, WriteData)] == [
        b"%d" % number for number in range(20)
    ]
    assert not any(isinstance(one, ResourceDecl | StreamData) for one in said)
    # It shows by its own data that it knows what they are.
    by_prid = StreamData(reliable=False, sync=False, sn=0, id=4, prid=2, payload=b"up")
    world.gateway.receive(encode(by_prid), 9, world.now_ns)
    world.put("lab/t", b"down")
    [last] = [
        one for one in answers(world) if isinstance(one, StreamData) and one.payload == b"down"
    ]
    assert (last.id, last.prid) == (4, 2)


@pytest.mark.parametrize("ids", [(2, 4, 6), (6, 4, 2), (3, 4, 5)])
def test_patterns_of_another_vendor_that_overlap_get_a_sample_once(ids: tuple[int, ...]) -> None:
    """An existing client gives what comes by name to all of its subscribers that match."""
    world = hand_made()
    names = ("/lab/t", "/lab/*", "/**")
    declared = [
        ResourceDecl(rid=one, resource=name.encode())
        if one % 2 == 0
        else SelectionDecl(sid=one, query=name.encode(), global_=False)
        for one, name in zip(ids, names, strict=True)
    ]
    subscribers = (SubscriberDecl(id=one, mode=1) for one in ids)
    raw(world, *declared, *subscribers, committed=True)
    world.put("lab/t", b"a")
    [only] = [one for one in answers(world) if isinstance(one, WriteData | StreamData)]
    assert isinstance(only, WriteData)
    assert (only.resource, only.payload, only.reliable) == (b"/lab/t", b"a", True)


@pytest.mark.line("X-105")
def test_a_refused_id_changes_nothing() -> None:
    world = World()
    settings = device_settings(0)
    reader = world.device(settings)
    reader.subscriber(reader.resource("/lab/*"))
    reader.resource("/taken", rid=16_382)
    world.committed(reader)
    # The gateway does not know of it: as if both had taken the id at once.
    del world.gateway.devices[settings.pid].table.names[16_382]
    for number in range(8):
        world.put("lab/t", b"%d" % number)
        world.run(0.2)
    kinds = {
        type(one).__name__ for one in world.to_device[0] if isinstance(one, StreamData | WriteData)
    }
    assert kinds == {"WriteData"}
    assert world.payloads(0) == [b"%d" % number for number in range(8)]


@pytest.mark.line("X-069", "X-070", "X-044")
def test_what_a_device_declared_goes_with_it() -> None:
    world = World()
    reader = world.device()
    one, same = reader.resource("/a/*"), reader.resource("/a/*")
    reader.subscriber(one)
    reader.subscriber(same)
    world.committed(reader)
    assert world.effects.count(Subscribe("a/*")) == 1, "once for all"
    reader.forget_subscriber(one)
    world.committed(reader)
    assert Unsubscribe("a/*") not in world.effects
    pid = b"\xde\0"
    assert [one.pid for one in world.effects if isinstance(one, Joined)] == [pid]
    world.cut.add(0)
    world.run(9)
    assert pid in world.gateway.devices
    world.run(2)
    assert pid not in world.gateway.devices
    assert Unsubscribe("a/*") in world.effects
    assert [one.pid for one in world.effects if isinstance(one, Left)] == [pid]


@pytest.mark.line("X-037")
def test_a_device_that_begins_anew_has_declared_nothing() -> None:
    world = World()
    reader = world.device()
    reader.subscriber(reader.resource("/a"))
    world.committed(reader)
    world.run(3)
    world.clients.clear()
    world.events.clear()
    again = world.device(device_settings(0))
    assert world.gateway.devices[b"\xde\0"].subscriptions, "until its numbers say so"
    again.subscriber(again.resource("/b"))
    assert world.committed(again).status is Status.SUCCESS, "its numbers begin at 0 again"
    world.put("a", b"x")
    world.put("b", b"y")
    world.run(0.2)
    assert world.payloads(0) == [b"y"]


def test_what_a_resource_says_is_on_its_samples() -> None:
    world = World()
    writer = world.device()
    encoding = nat(Encoding.APPLICATION_JSON.id) + b"\x02v1"
    rid = writer.resource(
        "/a",
        [
            Property(id=ENCODING, value=encoding),
            Property(id=PRIORITY, value=b"\2"),
            Property(id=RELIABILITY, value=b"\0"),
        ],
    )
    dds = writer.resource("/b", [Property(id=1, value=b"\0\3\0\0")])
    world.committed(writer)
    writer.write(rid, b"{}", world.now_ns)
    writer.write(dds, b"{}", world.now_ns)
    world.run(0.2)
    one, other = world.puts()
    assert (str(one.encoding), one.priority, one.reliable) == ("application/json;v1", 2, False)
    assert other.encoding == Encoding.APPLICATION_CDR


def test_reliability_is_what_all_agree_on() -> None:
    world = World()
    writer, reader, modest = world.device(), world.device(), world.device()
    reader.subscriber(reader.resource("/a"))
    modest.subscriber(modest.resource("/a"), properties=[Property(id=RELIABILITY, value=b"\0")])
    world.committed(reader)
    world.committed(modest)
    writer.write_to("/a", b"1", world.now_ns)
    writer.write_to("/a", b"2", world.now_ns, reliable=False)
    world.run(0.2)

    def channels(number: int) -> list[bool]:
        return sorted(
            one.reliable for one in world.to_device[number] if isinstance(one, StreamData)
        )

    assert channels(1) == [False, True]
    assert channels(2) == [False, False]


@pytest.mark.line("X-080", "X-068")
def test_a_selection_gets_what_its_predicate_is_true_of() -> None:
    world = World()
    reader = world.device()
    sid = reader.selection("/lab/*?{v > %0}", ["3"])
    reader.binding(sid, 21)
    reader.subscriber(sid)
    reader.subscriber(21)
    world.committed(reader)
    for key, payload in (("lab/a", b'{"v": 3}'), ("lab/b", b'{"v": 4}'), ("lab/c", b"?")):
        sample = world.sample(key, payload)
        json = type(sample).of_key(
            key, payload, sample.timestamp, encoding=Encoding.APPLICATION_JSON
        )
        world.gateway.put(json, world.now_ns)
    world.run(0.2)
    assert world.received(0) == [("lab/b", b'{"v": 4}')] * 2, "once for each id"


# Back-pressure and frames.


def test_a_device_that_takes_nothing_loses_its_session() -> None:
    world = World()
    reader = world.device()
    reader.subscriber(reader.resource("/a"))
    world.committed(reader)
    world.cut.add(0)
    for number in range(2_000):
        world.put("a", b"%d" % number)
    world.flush()
    left = [one for one in world.effects if isinstance(one, Left)]
    assert [one.reason for one in left] == [3]


@pytest.mark.line("X-097", "X-107")
def test_a_long_store_goes_through_a_small_window() -> None:
    world = World()
    reader = world.device()
    rid = reader.resource("/a")
    reader.subscriber(rid, pull=True)
    world.committed(reader)
    for number in range(1_000):
        world.put("a", b"%d" % number)
    reader.pull(rid, world.now_ns)
    world.run(3)
    assert world.payloads(0) == [b"%d" % number for number in range(1_000)]


def test_frames_are_no_longer_than_a_device_takes() -> None:
    world = World()
    reader = world.device(device_settings(0, frame_len=20))
    rid = reader.resource("/a")
    reader.subscriber(rid)
    assert world.committed(reader, 1).status is Status.SUCCESS
    world.put("a", b"12")
    world.put("a", bytes(100))
    world.run(1)
    assert world.payloads(0) == [b"12"]
    assert world.gateway.devices[b"\xde\0"].outlet.too_long_count == 1


@pytest.mark.line("X-114")
def test_fragments_go_to_those_who_read_them() -> None:
    world = World()
    able, unable = world.device(device_settings(0, capabilities=2)), world.device()
    for reader in (able, unable):
        reader.subscriber(reader.resource("/a"))
        world.committed(reader)
    world.put("a", bytes(6_000))
    world.run(0.5)
    assert world.payloads(0) == [bytes(6_000)]
    assert world.payloads(1) == []
    # Who sends fragments reads them.
    unable.write_to("/b", bytes(6_000), world.now_ns)
    world.run(0.5)
    world.put("a", bytes(5_000))
    world.run(0.5)
    assert world.payloads(1) == [bytes(5_000)]
    assert [len(one.payload) for one in world.puts()] == [6_000]


def test_a_closed_session_is_not_written_to() -> None:
    world = World()
    reader = world.device()
    reader.subscriber(reader.resource("/a"))
    world.committed(reader)
    world.gateway.close(b"\xde\0", world.now_ns)
    world.put("a", b"x")
    world.run(3)
    assert any(isinstance(one, Ended) for one in world.events[0])
    assert world.gateway.devices == {}


@pytest.mark.line("X-103")
def test_a_publisher_that_comes_back_is_not_believed_to_be_read() -> None:
    world = World()
    writer, reader = world.device(), world.device()
    rid = writer.resource("/a")
    writer.publisher(rid)
    world.committed(writer)
    sid = reader.resource("/a")
    reader.subscriber(sid)
    world.committed(reader)
    assert writer.is_matched(rid)
    writer.forget_publisher(rid)
    world.committed(writer)
    reader.forget(sid)
    world.committed(reader)
    writer.publisher(rid)
    world.committed(writer)
    assert writer.write(rid, b"x", world.now_ns)
    assert writer.unmatched_count == 1
