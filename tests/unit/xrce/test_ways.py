"""Several ways to one session: two transports, a group, and two that open to each other."""

from __future__ import annotations

import dataclasses

import pytest
from tests.xrce_network import sample
from tests.xrce_session import BROKER, DEVICE, answers, messages, opened, settings, tell
from tests.xrce_world import World, device_settings

from elea.errors import InvalidValueError
from elea.xrce.client import Client, Received
from elea.xrce.encode import encode
from elea.xrce.framing import Marked, write_marked
from elea.xrce.message_records import Accept, AckNack, Close, KeepAlive, Message, Open, StreamData
from elea.xrce.properties import SessionProperties
from elea.xrce.session.acceptor import Accepted, Acceptor
from elea.xrce.session.initiator import Initiator, Opened, Phase
from elea.xrce.session.session import Delivered, Ended

UDP, TCP = "udp/1", "tcp/1"


def two_ways() -> Acceptor[str]:
    return Acceptor(settings(BROKER, lease_s=30), is_stream=lambda one: one.startswith("tcp"))


def data_of(acceptor: Acceptor[str]) -> list[tuple[str, Message]]:
    return [(where, one) for where, one in answers(acceptor) if isinstance(one, StreamData)]


@pytest.mark.line("X-051")
def test_one_session_over_datagrams_and_a_stream() -> None:
    broker = two_ways()
    assert isinstance(opened(broker, source=UDP)[0], Accept)
    assert isinstance(opened(broker, source=TCP)[0], Accept)
    assert broker.pids() == [DEVICE]
    assert [type(one) for _, one in iter(broker.next_event, None)] == [Accepted]
    for reliable, where in ((True, TCP), (False, UDP)):
        broker.send(DEVICE, sample(b"x", reliable=reliable), 0)
        assert [one for one, _ in data_of(broker)] == [where]
    # Both ways lead to the same channels, whichever was heard last.
    for sn, source in enumerate((UDP, TCP, UDP)):
        reliable_data = StreamData(reliable=True, sync=True, sn=sn, id=2, payload=b"x")
        tell(broker, reliable_data, source)
    delivered = [one for _, one in iter(broker.next_event, None) if isinstance(one, Delivered)]
    assert len(delivered) == 3
    assert {where for where, one in answers(broker) if isinstance(one, AckNack)} == {TCP}


@pytest.mark.line("X-051")
def test_a_client_with_two_ways_has_one_session() -> None:
    broker = two_ways()
    device = Initiator(settings(), two_ways=True)
    device.open(0)
    for now_ns in range(0, 40_000_000, 5_000_000):
        by_stream, by_datagrams = device.ways_to_send(now_ns)
        for source, frames in ((TCP, by_stream), (UDP, by_datagrams)):
            for frame in frames:
                broker.receive(frame, source, now_ns)
        for _, frame in broker.data_to_send(now_ns):
            device.receive(frame, now_ns)
    assert broker.pids() == [DEVICE]
    assert device.session is not None
    device.session.send(sample(b"sure", reliable=True), 10**9)
    device.session.send(sample(b"perhaps", reliable=False), 10**9)
    by_stream, by_datagrams = device.ways_to_send(10**9)
    assert b"sure" in b"".join(by_stream)
    assert b"perhaps" in b"".join(by_datagrams)
    assert b"perhaps" not in b"".join(by_stream)


def test_a_stream_that_is_gone_is_not_preferred_to_where_the_device_is_now() -> None:
    broker = two_ways()
    opened(broker, source=TCP)
    broker.lost(TCP, 0)
    tell(broker, KeepAlive(pid=DEVICE), UDP)
    broker.send(DEVICE, sample(b"x", reliable=True), 0)
    assert [where for where, _ in data_of(broker)] == [UDP]


def test_a_lost_open_of_the_second_way_is_made_up_for() -> None:
    broker = two_ways()
    device = Initiator(settings(), two_ways=True)
    device.open(0)
    [opening], [_lost] = device.ways_to_send(0)
    broker.receive(opening, TCP, 0)
    for _, frame in broker.data_to_send(0):
        device.receive(frame, 0)
    _, [by_datagrams] = device.ways_to_send(0)
    assert messages(by_datagrams) == [KeepAlive(pid=DEVICE)]
    broker.receive(by_datagrams, UDP, 0)
    broker.send(DEVICE, sample(b"x", reliable=False), 0)
    assert [where for where, _ in data_of(broker)] == [UDP]


@pytest.mark.line("X-099")
def test_data_of_a_group_is_attributed_and_acknowledged_to_its_sender() -> None:
    """A frame that came to a group is told with its sender's address, as any other."""
    broker = two_ways()
    opened(broker, source=UDP)
    answers(broker)
    frame = bytearray()
    to_group = StreamData(reliable=True, sync=True, sn=0, id=2, payload=b"x")
    write_marked(frame, Marked(to_group, conduit=3))
    broker.receive(bytes(frame), UDP, 0)
    broker.receive(bytes(frame), "udp/stranger", 0)
    delivered = [one for _, one in iter(broker.next_event, None) if isinstance(one, Delivered)]
    assert [one.marked.conduit for one in delivered] == [3]
    assert broker.strays_count == 1
    [(where, answer)] = broker.data_to_send(0)
    acknowledged = bytearray()
    write_marked(acknowledged, Marked(AckNack(sn=1), conduit=3))
    assert where == UDP
    assert answer.endswith(bytes(acknowledged))


@pytest.mark.line("X-099")
def test_a_device_takes_data_of_a_group_of_its_broker() -> None:
    world = World()
    client = world.device(device_settings(0))
    client.subscriber(client.resource("/d"))
    world.committed(client)
    client.data_to_send(world.now_ns)
    for sn in range(2):
        frame = bytearray()
        payload = StreamData(reliable=True, sync=True, sn=sn, id=2, payload=b"%d" % sn)
        write_marked(frame, Marked(payload, conduit=1))
        client.receive(bytes(frame), world.now_ns)
    events = iter(client.next_event, None)
    assert [one.payload for one in events if isinstance(one, Received)] == [b"0", b"1"]
    answer = bytearray()
    write_marked(answer, Marked(AckNack(sn=2), conduit=1))
    assert b"".join(client.data_to_send(world.now_ns)).endswith(bytes(answer))


# Two that open to each other.


class Peers:
    """Two initiators, each the other's target; frames are carried by hand."""

    def __init__(self, first: Initiator, second: Initiator) -> None:
        self.ends = [first, second]
        self.events: list[list[object]] = [[], []]
        self.now_ns = 0

    def turn(self, lost: tuple[int, ...] = ()) -> None:
        """Each end's frames reach the other, but for those of some ends."""
        sent = [end.data_to_send(self.now_ns) for end in self.ends]
        for number, frames in enumerate(sent):
            for frame in frames if number not in lost else ():
                self.ends[1 - number].receive(frame, self.now_ns)
        for number, end in enumerate(self.ends):
            self.events[number] += iter(end.next_event, None)

    def later(self, seconds: float = 1.0) -> None:
        self.now_ns += int(seconds * 10**9)
        for end in self.ends:
            end.handle_timer(self.now_ns)


def peers(bits: tuple[int, int] = (14, 14)) -> Peers:
    made = Peers(*(
        Initiator(dataclasses.replace(settings(pid), properties=SessionProperties(bits=length)))
        for pid, length in zip((b"\1", b"\2"), bits, strict=True)
    ))  # fmt: skip
    for end in made.ends:
        end.open(0)
    return made


def exchanged(made: Peers) -> None:
    """One session, that works both ways."""
    for number, end in enumerate(made.ends):
        assert [type(one) for one in made.events[number]] == [Opened]
        assert end.session is not None
        end.session.send(sample(b"from %d" % number), made.now_ns, flush=True)
    for _ in range(4):
        made.turn()
        made.later(0.2)
    for number in (0, 1):
        delivered = [one for one in made.events[number] if isinstance(one, Delivered)]
        assert [one.marked.message.payload for one in delivered] == [  # type: ignore[union-attr]
            b"from %d" % (1 - number)
        ]
        session = made.ends[number].session
        assert session is not None
        assert session.conduits.unacknowledged_count == 0


@pytest.mark.line("X-050")
@pytest.mark.parametrize("bits", [(14, 14), (7, 28), (28, 7)])
def test_two_that_open_to_each_other_have_one_session(bits: tuple[int, int]) -> None:
    made = peers(bits)
    for _ in range(3):
        made.turn()
        made.later()
    for end in made.ends:
        assert end.session is not None
        assert end.session.conduits.bits == bits[0]  # of the smaller pid
    exchanged(made)


@pytest.mark.line("X-050")
@pytest.mark.parametrize("lost", [(0,), (1,)])
@pytest.mark.parametrize("bits", [(14, 14), (7, 28), (28, 7)])
def test_one_of_the_opens_may_be_lost(lost: tuple[int, ...], bits: tuple[int, int]) -> None:
    made = peers(bits)
    made.turn(lost)
    for _ in range(4):
        made.turn()
        made.later()
    assert len({end.session.conduits.bits for end in made.ends if end.session}) == 1
    exchanged(made)


def test_an_open_that_cannot_be_is_refused_while_opening() -> None:
    device = Initiator(settings())
    device.open(0)
    device.data_to_send(0)
    device.receive(encode(Open(version=2, pid=BROKER, lease=1, locators=())), 0)
    device.receive(encode(Open(version=1, pid=DEVICE, lease=1, locators=())), 0)  # our own
    assert device.data_to_send(0) == []
    device.receive(encode(Open(version=1, pid=BROKER, lease=10**9, locators=())), 0)
    assert messages(device.data_to_send(0)[0]) == [Close(pid=DEVICE, reason=5)]
    assert device.phase is Phase.OPENING


def test_an_open_said_again_is_answered_so_often() -> None:
    device = Initiator(settings())
    device.open(0)
    device.data_to_send(0)
    opening = encode(Open(version=1, pid=BROKER, lease=100, locators=()))
    for _ in range(20):
        device.receive(opening, 0)
    said = [one for frame in device.data_to_send(0) for one in messages(frame)]
    assert sum(isinstance(one, Accept) for one in said) == settings().accept_count
    assert [type(one) for one in iter(device.next_event, None)] == [Opened]


# What is negotiated.


@pytest.mark.line("X-032")
@pytest.mark.parametrize("bits", [7, 8, 13, 15, 31, 32, 62, 63])
def test_numbers_of_every_length_carry_data_both_ways(bits: int) -> None:
    world = World()
    client = world.device(device_settings(0, bits=bits))
    session = world.gateway.acceptor.session(bytes((0xDE, 0)))
    assert session is not None
    assert session.conduits.bits == bits
    rid = client.resource("/d")
    client.subscriber(rid)
    world.committed(client)
    expected = [b"%d" % number for number in range(200)]  # of 7 bits, more than there are
    left = list(expected)
    while left:
        if client.write_to("/d", left[0], world.now_ns):
            del left[0]
        else:
            world.run(0.05)
    world.run(2)
    assert world.payloads(0) == expected


def test_conduits_that_the_peer_does_not_have_are_not_used() -> None:
    broker = two_ways()
    opened(broker, Open(version=1, pid=DEVICE, lease=100, locators=()), UDP)
    with pytest.raises(InvalidValueError, match="the peer has 1"):
        broker.send(DEVICE, sample(b"x"), 0, conduit=1)
    listed = SessionProperties(conduits_count=3).listed()
    wide = Open(version=1, pid=b"\5", lease=100, locators=(), properties=listed)
    opened(broker, wide, TCP)
    assert broker.send(b"\5", sample(b"x"), 0, conduit=2)


def test_a_client_by_two_ways_is_known_to_the_gateway_once() -> None:
    client = Client(device_settings(0), two_ways=True)
    client.open(0)
    by_stream, by_datagrams = client.ways_to_send(0)
    assert by_stream == by_datagrams
    client.close(0)
    assert [type(one) for one in iter(client.next_event, None)] == [Ended]
