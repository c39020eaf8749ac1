"""Long, many, urgent and compressed messages, on every kind of link, to Eclipse and back."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    Taken,
    eventually,
    exchange,
    free_endpoint,
    free_port,
    matched,
    module_of,
    pair,
    port_of,
    replies_to,
    session,
    word,
)
from tests.interop.recording_proxy import RecordingProxy, follow

from elea.wire.conversation import Direction

line = pytest.mark.line
each_listener = pytest.mark.parametrize("listener", [ELEA, ECLIPSE])
each_way = pytest.mark.parametrize("source", [ELEA, ECLIPSE])
MEBI = 1 << 20


def ordered(source: str, ends: tuple[Any, Any]) -> tuple[Any, Any]:
    """The sending session, then the receiving one."""
    ours, theirs = ends
    return (ours, theirs) if source == ELEA else (theirs, ours)


def connected(sender: Any, receiver: Any, key: str, got: Any, **options: Any) -> Any:
    """A blocking publisher that is known to be heard."""
    receiver.declare_subscriber(key, got)
    block = module_of(sender).CongestionControl.BLOCK
    publisher = sender.declare_publisher(key, congestion_control=block, **options)
    assert matched(publisher)
    return publisher


@line("T47", "T48", "K20")
@each_way
def test_sixteen_mebibytes_arrive_whole(source: str) -> None:
    payload = bytes(range(256)) * (16 * MEBI // 256)
    with pair(ELEA, "client") as ends:
        sender, receiver = ordered(source, ends)
        got = Taken()
        publisher = connected(sender, receiver, "t47", got)
        publisher.put(payload)
        assert got.reach(1)
        assert got.payloads == [payload]


@line("T50", "T58")
def test_what_is_urgent_overtakes_a_long_message() -> None:
    endpoint = free_endpoint()
    lengths: list[int] = []
    with (
        RecordingProxy(port_of(endpoint)) as proxy,
        pair(ECLIPSE, "client", endpoint=endpoint, dialled=proxy.endpoint) as (ours, theirs),
    ):
        take = lambda sample: lengths.append(len(sample.payload))  # noqa: E731
        names = module_of(ours)
        slow = connected(ours, theirs, "t50/a", take, priority=names.Priority.BACKGROUND)
        fast = connected(ours, theirs, "t50/b", take, priority=names.Priority.REAL_TIME)
        proxy.hold()
        long = threading.Thread(target=slow.put, args=(bytes(16 * MEBI),))
        long.start()
        for _ in range(10):
            fast.put(b"urgent")
        proxy.release()
        long.join(20)
        assert eventually(lambda: len(lengths) == 11)
        assert lengths == [6] * 10 + [16 * MEBI]


@line("T58")
def test_higher_priorities_go_first() -> None:
    endpoint = free_endpoint()
    arrived: list[bytes] = []
    with (
        RecordingProxy(port_of(endpoint)) as proxy,
        pair(ECLIPSE, "client", endpoint=endpoint, dialled=proxy.endpoint) as (ours, theirs),
    ):
        names = module_of(ours)
        theirs.declare_subscriber("t58", lambda sample: arrived.append(bytes(sample.payload)[:4]))
        publishers = {
            name: ours.declare_publisher("t58", priority=getattr(names.Priority, name))
            for name in ("DATA_LOW", "INTERACTIVE_HIGH")
        }
        assert matched(publishers["DATA_LOW"])
        proxy.hold()
        for number in range(400):  # more than the sockets on the way hold
            publishers["DATA_LOW"].put(b"%04d" % number + bytes(20_000))
        publishers["INTERACTIVE_HIGH"].put(b"high")
        proxy.release()
        assert eventually(lambda: b"high" in arrived)
        exchange(ours, theirs, "t58/sync")
        assert arrived.index(b"high") < len(arrived) - 1
        low = [one for one in arrived if one != b"high"]
        assert low == sorted(low)


@line("T53")
@each_way
def test_a_hundred_thousand_samples_arrive_in_order(source: str) -> None:
    count = 100_000
    with pair(ELEA) as ends:
        sender, receiver = ordered(source, ends)
        got: list[int] = []
        publisher = connected(
            sender, receiver, "t53", lambda sample: got.append(int(bytes(sample.payload)))
        )
        for number in range(count):
            publisher.put(str(number))
        assert eventually(lambda: len(got) == count, 60)
        assert got == list(range(count))


@line("T57", "P104")
def test_qualities_survive_the_way_through_an_elea_peer() -> None:
    endpoint = free_endpoint()
    got = Taken()
    with (
        session(ELEA, "peer", listen=endpoint),
        session(ECLIPSE, "client", connect=endpoint) as one,
        session(ECLIPSE, "client", connect=endpoint) as other,
    ):
        names = module_of(one)
        other.declare_subscriber("t57", got)
        publisher = one.declare_publisher(
            "t57",
            priority=names.Priority.INTERACTIVE_LOW,
            congestion_control=names.CongestionControl.BLOCK,
            express=True,
            reliability=names.Reliability.BEST_EFFORT,
            encoding="text/plain",
        )
        assert matched(publisher)
        stamp = one.new_timestamp()
        publisher.put(b"1", attachment=b"note", timestamp=stamp)
        assert got.reach(1)
        [sample] = got.items
        assert (word(sample.priority), word(sample.congestion_control), sample.express) == (
            "INTERACTIVE_LOW",
            "BLOCK",
            True,
        )
        assert (str(sample.encoding), bytes(sample.attachment)) == ("text/plain", b"note")
        assert str(sample.timestamp) == str(stamp)


# What both sides switch on


def talk(ours: Any, theirs: Any, length: int) -> None:
    """Samples, long ones too, and questions pass in both directions."""
    exchange(ours, theirs, "talk/sync")
    for sender, receiver, key in ((ours, theirs, "talk/there"), (theirs, ours, "talk/here")):
        got = Taken()
        publisher = connected(sender, receiver, key, got)
        lengths = [0, 1, 1_000, length] * 25
        for number in lengths:
            publisher.put(bytes(number))
        assert got.reach(len(lengths))
        assert [len(one) for one in got.payloads] == lengths
        answered(receiver, sender, f"{key}/q", length)


def answered(answering: Any, asking: Any, key: str, length: int) -> None:
    """A question is answered."""
    answering.declare_queryable(key, lambda query: query.reply(key, bytes(1_000)))
    querier = asking.declare_querier(key)
    assert matched(querier)
    assert [len(one.ok.payload) for one in replies_to(querier.get, payload=bytes(length))] == [
        1_000
    ]


COMPRESSION = {"transport/unicast/compression/enabled": True}
LOW_LATENCY = {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False}


@line("K21")
@each_listener
def test_compression(listener: str) -> None:
    endpoint = free_endpoint()
    both = {ELEA: COMPRESSION, ECLIPSE: COMPRESSION}
    with (
        RecordingProxy(port_of(endpoint)) as proxy,
        pair(listener, endpoint=endpoint, dialled=proxy.endpoint, more=both) as (ours, theirs),
    ):
        talk(ours, theirs, 200_000)
        passed = list(proxy.passed)
    for direction in Direction:
        octets = sum(len(one.data) for one in passed if one.direction is direction)
        assert octets < 1_000_000  # of more than five million
    assert all(seen.reencoded for _, _, seen in follow(passed))


@line("K22")
@each_listener
def test_low_latency(listener: str) -> None:
    with pair(listener, more={ELEA: LOW_LATENCY, ECLIPSE: LOW_LATENCY}) as (ours, theirs):
        talk(ours, theirs, 40_000)


@line("K22")
@each_listener
def test_low_latency_beyond_a_batch(listener: str) -> None:
    """Eclipse sends what it refuses itself: we take it, send none of it, and keep the link."""
    with pair(listener, more={ELEA: LOW_LATENCY, ECLIPSE: LOW_LATENCY}) as (ours, theirs):
        exchange(ours, theirs, "long/sync")
        here, there = Taken(), Taken()
        from_eclipse = connected(theirs, ours, "long/here", here)
        from_elea = connected(ours, theirs, "long/there", there)
        for length in (200_000, 3_000_000, 1):
            from_eclipse.put(bytes(length))
            from_elea.put(bytes(length))
        assert here.reach(3)
        assert [len(one) for one in here.payloads] == [200_000, 3_000_000, 1]
        assert there.reach(1)
        assert [len(one) for one in there.payloads] == [1]
        node = ours._context.driver.node
        [stats] = node.transport_stats().values()
        assert stats.dropped_too_long == 2


@line("K23")
@each_listener
@pytest.mark.parametrize("who", [ELEA, ECLIPSE])
def test_small_batches(who: str, listener: str) -> None:
    small = {who: {"transport/link/tx/batch_size": 512}}
    with pair(listener, more=small) as (ours, theirs):
        talk(ours, theirs, 200_000)


@line("K25")
@each_listener
@pytest.mark.parametrize("scheme", ["unixsock-stream", "ws"])
def test_other_streams(scheme: str, listener: str, tmp_path: Path) -> None:
    place = f"{tmp_path}/s" if scheme == "unixsock-stream" else f"127.0.0.1:{free_port()}"
    with pair(listener, endpoint=f"{scheme}/{place}") as (ours, theirs):
        talk(ours, theirs, 200_000)


@line("K25")
@each_listener
def test_datagrams(listener: str) -> None:
    endpoint = f"udp/127.0.0.1:{free_port(socket.SOCK_DGRAM)}"
    with pair(listener, endpoint=endpoint) as (ours, theirs):
        exchange(ours, theirs, "datagrams")
        answered(ours, theirs, "udp/here", 1_000)
        answered(theirs, ours, "udp/there", 1_000)
