"""The device's end: what it sends, what it keeps, what it refuses."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys

import pytest
from tests.xrce_session import messages
from tests.xrce_world import World, device_settings

from elea.errors import ClosedError, InvalidValueError, LimitError
from elea.xrce.client import DEVICE_LIMITS, Client, Interest, Received
from elea.xrce.declaration_records import (
    CommitDecl,
    Declaration,
    ForgetSubscriberDecl,
    Property,
    ResourceDecl,
    ResultDecl,
    SelectionDecl,
    SubscriberDecl,
)
from elea.xrce.encode import encode
from elea.xrce.message_records import (
    Accept,
    BatchedData,
    BatchedDataPayloadPart,
    Declare,
    StreamData,
    WriteData,
)
from elea.xrce.properties import RELIABILITY
from elea.xrce.session.session import Ended


def alone(**limits: int) -> Client:
    """A device with a session, and nobody at the other end."""
    settings = dataclasses.replace(
        device_settings(0), limits=dataclasses.replace(DEVICE_LIMITS, **limits)
    )
    client = Client(settings)
    client.open(0)
    accept = Accept(open_pid=settings.pid, accept_pid=b"\xb2", lease=0)
    client.receive(encode(accept), 0)
    client.data_to_send(0)
    return client


def tell(client: Client, *declarations: Declaration, sn: int = 0, committed: bool = False) -> None:
    said = Declare(sync=False, committed=committed, sn=sn, declarations=declarations)
    client.receive(encode(said), 0)


def said(client: Client) -> list[Declaration]:
    sent = [one for frame in client.data_to_send(0) for one in messages(frame)]
    return [one for message in sent if isinstance(message, Declare) for one in message.declarations]


def events(client: Client) -> list[object]:
    found: list[object] = []
    while (event := client.next_event()) is not None:
        found.append(event)
    return found[1:]  # that it is open


def test_without_a_session_nothing_is_written() -> None:
    client = Client(device_settings(0))
    with pytest.raises(ClosedError):
        client.write(2, b"", 0)
    with pytest.raises(ClosedError):
        client.commit()


@pytest.mark.line("X-063")
def test_declarations_wait_for_the_result_of_a_peer_without_commit_mode() -> None:
    client = alone()
    client.resource("/a")
    client.commit()
    client.resource("/b")
    client.commit()
    assert said(client) == [ResourceDecl(rid=2, resource=b"/a"), CommitDecl(commit_id=0)]
    assert said(client) == []
    tell(client, ResultDecl(commit_id=0, status=0))
    assert said(client) == [ResourceDecl(rid=4, resource=b"/b"), CommitDecl(commit_id=1)]


def test_the_window_holds_writers_back_and_nothing_grows() -> None:
    client = alone(xrce_window_count=4)
    assert [client.write(2, b"x", 0) for _ in range(6)] == [True] * 4 + [False] * 2
    assert not client.pull(2, 0)
    assert not client.write_batch(2, [b"x"], 0)
    assert client.write(2, b"x", 0, reliable=False), "best effort does not wait"


def test_a_device_declares_no_more_than_it_keeps() -> None:
    client = alone(xrce_names_count=2, xrce_endpoints_count=1)
    client.subscriber(client.resource("/a"))
    client.commit()
    client.resource("/b")
    client.commit()
    client.resource("/c")
    with pytest.raises(LimitError):
        client.commit()
    client.commit()  # nothing is left of it
    client = alone(xrce_endpoints_count=1)
    client.publisher(2)
    client.publisher(4)
    with pytest.raises(LimitError):
        client.commit()


def test_fragments_wait_for_the_window_and_nothing_comes_between() -> None:
    world = World()
    settings = dataclasses.replace(device_settings(0, frame_len=200), limits=DEVICE_LIMITS)
    client = world.device(settings)
    payload = bytes(range(256)) * 20
    assert client.write_to("/a", payload, world.now_ns)
    assert not client.write_to("/b", b"", world.now_ns)
    assert not client.write(2, b"", world.now_ns)
    assert not client.pull(2, world.now_ns)
    client.resource("/c")
    client.commit()
    world.run(2)
    assert [(one.key, one.payload) for one in world.puts()] == [("a", payload)]
    assert client.write_to("/b", b"", world.now_ns)


def test_a_payload_that_no_frame_takes_is_refused() -> None:
    world = World()
    client = world.device(device_settings(0, frame_len=9))
    assert client.write(2, b"1", world.now_ns)
    with pytest.raises(InvalidValueError, match="frames of 9"):
        client.write(2, bytes(100), world.now_ns)


def test_what_the_broker_declares_is_answered() -> None:
    client = alone(xrce_names_count=2)
    tell(client, ResourceDecl(rid=8, resource=b"/a"), CommitDecl(commit_id=3))
    assert said(client) == [ResultDecl(commit_id=3, status=0)]
    tell(client, ResourceDecl(rid=8, resource=b"/b"), CommitDecl(commit_id=4), sn=1)
    assert said(client) == [ResultDecl(commit_id=4, status=2, id=8)]
    shared = SelectionDecl(global_=True, sid=1_001, query=b"/a")
    tell(client, shared, ResourceDecl(rid=4, resource=b"/c"), CommitDecl(commit_id=5), sn=2)
    assert said(client) == [ResultDecl(commit_id=5, status=1, id=4)]
    data = StreamData(reliable=True, sync=False, sn=3, id=8, payload=b"x")
    client.receive(encode(data), 0)
    assert events(client) == [Received("a", 8, b"x", True)]


def test_samples_under_ids_that_mean_nothing_are_counted() -> None:
    client = alone()
    tell(client, ResourceDecl(rid=8, resource=b"/a"), ResourceDecl(rid=6, resource=b"/*"),
         committed=True)  # fmt: skip
    parts = (
        BatchedDataPayloadPart(prid=8, payload=b"1"),
        BatchedDataPayloadPart(prid=7, payload=b""),
    )
    batch = BatchedData(reliable=False, sync=False, sn=0, id=6, has_prid=True, payload=parts)
    plain = BatchedData(reliable=False, sync=False, sn=1, id=8, has_prid=False, payload=(b"2",))
    wild = StreamData(reliable=False, sync=False, sn=2, id=6, payload=b"")
    bad = WriteData(reliable=False, sync=False, sn=3, resource=b"nothing", payload=b"")
    for message in (batch, plain, wild, bad):
        client.receive(encode(message), 0)
    assert events(client) == [Received("a", 6, b"1", False), Received("a", 8, b"2", False)]
    assert client.unknown_count == 3


@pytest.mark.line("X-062")
def test_facts_that_cannot_be_end_the_session() -> None:
    client = alone()
    tell(client, SubscriberDecl(id=2, mode=1), committed=True)
    tell(client, SubscriberDecl(id=2, mode=1), sn=1, committed=True)
    tell(client, ForgetSubscriberDecl(id=2), sn=2, committed=True)
    assert events(client) == [Interest(2, True), Interest(2, False)]
    tell(client, ResourceDecl(rid=3, resource=b"/a"), sn=3, committed=True)
    (ended,) = (event for event in [client.next_event()] if event is not None)
    assert isinstance(ended, Ended)
    assert ended.reason == 6
    client = alone()
    tell(client, CommitDecl(commit_id=0), committed=True)
    assert not client.is_open


def test_a_broker_that_closes_takes_what_was_declared_with_it() -> None:
    world = World()
    client = world.device()
    rid = client.resource("/a", [Property(id=RELIABILITY, value=b"\1")])
    client.publisher(rid)
    client.subscriber(rid)
    world.committed(client)
    assert client.is_matched(rid)
    world.gateway.close(b"\xde\0", world.now_ns)
    world.run(3)
    assert not client.is_matched(rid)
    client.open(world.now_ns)
    world.run(1)
    assert client.is_open
    client.close(world.now_ns)
    world.run(3)
    assert world.gateway.devices == {}


def test_a_reliable_sample_of_two_octets_takes_six() -> None:
    client = alone()
    client.write(2, b"12", 0)
    assert [len(frame) for frame in client.data_to_send(0)] == [2 + 6], "and the first Synch"
    client.write(2, b"34", 0)
    assert [len(frame) for frame in client.data_to_send(0)] == [6]
    client.write_batch(2, [b"1"] * 10, 0)
    # Each sample has its length; 4 octets are for all of them.
    assert [len(frame) for frame in client.data_to_send(0)] == [4 + 10 * 2]


def test_a_client_takes_no_more_memory_than_is_documented() -> None:
    """docs/topics/xrce.md has the figures; `bench/xrce_channel.py` prints them."""
    # In a process of its own: threads that other tests left behind take memory, too.
    code = "import json, tests.xrce_footprint as one; print(json.dumps(one.client_octets()))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True
    )
    octets = json.loads(told.stdout)
    assert octets["new"] < 5 * 1024
    assert octets["idle"] < 9 * 1024
    assert octets["full"] < 42 * 1024


def test_a_device_tells_what_it_stores_and_is_sent_no_more() -> None:
    world = World()
    client = world.device(dataclasses.replace(device_settings(0), limits=DEVICE_LIMITS))
    client.subscriber(client.resource("/d"))
    world.committed(client)
    session = world.gateway.acceptor.session(bytes((0xDE, 0)))
    assert session is not None
    world.cut.add(0)
    for _ in range(100):
        world.put("d", b"x")
    assert session.conduits.unacknowledged_count == DEVICE_LIMITS.xrce_store_count // 2


@pytest.mark.line("X-104")
def test_a_batch_takes_as_many_frames_as_it_needs() -> None:
    world = World()
    client = world.device(device_settings(0, frame_len=40))
    payloads = [bytes((number,)) * (number % 30) for number in range(100)]

    assert client.write_batch(2, payloads, world.now_ns)
    world.run(5)
    assert [one.payload for one in world.puts()][:100] == payloads
    assert max(world.frame_lengths[0]) <= 40
    with pytest.raises(InvalidValueError, match="37 octets do not go into a frame of 40"):
        client.write_batch(2, [b"", bytes(37)], world.now_ns)
    assert client.write_batch(2, [], world.now_ns)
