"""Frames of 20 octets: every kind of message keeps to it, for our devices and for others (6.1)."""

from __future__ import annotations

import dataclasses

import pytest
from tests.xrce_session import messages
from tests.xrce_world import World, device_settings

from elea.xrce.client import DEVICE_LIMITS, Client
from elea.xrce.declaration_records import (
    CommitDecl,
    ForgetSubscriberDecl,
    Property,
    PublisherDecl,
    ResourceDecl,
    ResultDecl,
    SubscriberDecl,
)
from elea.xrce.encode import encode
from elea.xrce.gateway.gateway import Gateway
from elea.xrce.gateway.settings import GatewaySettings
from elea.xrce.message_records import (
    Accept,
    AckNack,
    BatchedData,
    Close,
    Declare,
    Hello,
    KeepAlive,
    Open,
    Ping,
    Pong,
    Scout,
    StreamData,
    Synch,
    WriteData,
)
from elea.xrce.properties import (
    ACCEPTS_BATCHES,
    ACCEPTS_FRAGMENTS,
    VENDOR_CODE,
    SessionProperties,
    encoded,
    fitting,
)
from elea.xrce.session.scouting import Role, ScoutAnswerer
from elea.xrce.session.settings import SECOND_NS, SessionSettings

LEN = 20
PID = b"\x99\x01\x02\x03"
BROKER = b"\xb2\x0c\x01\x02"
LOCATORS = (b"udp/192.0.2.1:7447", b"tcp/192.0.2.1:7447")


class Bus:
    """A gateway with a device that is octets, and all that it is sent."""

    def __init__(self, *, ours: bool, bits: int = 14) -> None:
        self.world = World()
        said = SessionProperties(
            vendor=VENDOR_CODE, commit_mode=7, conduits_count=8, capabilities=0b111
        )
        self.gateway: Gateway[int] = Gateway(
            SessionSettings(pid=BROKER, properties=said),
            GatewaySettings(stamp=self.world.stamp, asks=False),
            scouting=ScoutAnswerer(Role.BROKER, LOCATORS),
            frame_len_of=lambda _pid, _source: None if ours else LEN,
        )
        mine = SessionProperties(
            vendor=VENDOR_CODE if ours else b"",
            bits=bits,
            frame_len=LEN if ours else None,
            capabilities=ACCEPTS_BATCHES | ACCEPTS_FRAGMENTS if ours else 0,
        )
        self.opening = Open(
            version=1, pid=PID, lease=100, locators=(), properties=mine.listed() or None
        )
        self.frames: list[bytes] = []
        self.now_ns = 0

    def say(self, *said: object) -> None:
        for one in said:
            self.gateway.receive(encode(one), 9, self.now_ns)  # type: ignore[arg-type]
        self.hear()

    def hear(self) -> None:
        self.frames += [frame for _, frame in self.gateway.data_to_send(self.now_ns)]
        while self.gateway.next_effect() is not None:
            pass

    def later(self, seconds: float) -> None:
        end_ns = self.now_ns + int(seconds * SECOND_NS)
        while (at := self.gateway.next_timer_ns()) is not None and at <= end_ns:
            self.now_ns = max(self.now_ns, at)
            self.gateway.handle_timer(self.now_ns)
            self.hear()
        self.now_ns = end_ns

    def put(self, key: str, payload: bytes) -> None:
        self.gateway.put(self.world.sample(key, payload), self.now_ns)

    def kinds(self) -> set[str]:
        return {type(one).__name__ for frame in self.frames for one in messages(frame)}

    def declared(self) -> set[str]:
        said = [one for frame in self.frames for one in messages(frame) if isinstance(one, Declare)]
        return {type(one).__name__ for declare in said for one in declare.declarations}


def declare(sn: int, *declarations: object) -> Declare:
    return Declare(sync=True, committed=False, sn=sn, declarations=declarations)  # type: ignore[arg-type]


@pytest.mark.parametrize("bits", [7, 14, 28])
@pytest.mark.parametrize("ours", [True, False])
def test_every_kind_of_message_fits_frames_of_20_octets(ours: bool, bits: int) -> None:
    bus = Bus(ours=ours, bits=bits)
    if not ours:  # a device that has not opened says nothing of itself
        bus.say(Scout(mask=1))
    bus.say(bus.opening)
    names = [ResourceDecl(rid=2, resource=b"/t"), ResourceDecl(rid=4, resource=b"/l/*")]
    for sn, one in enumerate((*names, PublisherDecl(rid=2))):
        bus.say(declare(sn, one))
    bus.say(declare(3, SubscriberDecl(id=2, mode=1), SubscriberDecl(id=4, mode=1)))
    bus.say(declare(4, CommitDecl(commit_id=1)))
    bus.say(declare(5, ResourceDecl(rid=2**62 + 2, resource=b"bad"), CommitDecl(commit_id=2)))
    bus.later(0.2)  # it reads itself, of which it is told
    for key in ("t", "l/x"):
        for number in range(8):
            bus.put(key, b"%d" % number)
    bus.put("t", bytes(range(100)))
    bus.put("l/x", bytes(range(100)))
    bus.put("l/a-name-longer-than-a-frame", b"x")
    bus.hear()
    bus.say(Ping(hash=2**40))
    for sn in range(40, 8, -2):  # gaps, as many as a mask may tell
        bus.say(StreamData(reliable=True, sync=True, sn=sn, id=2, payload=b""))
    bus.later(5)
    bus.say(declare(6, ForgetSubscriberDecl(id=2), CommitDecl(commit_id=3)))
    bus.say(Close(pid=PID, reason=0))
    bus.later(4)
    idle = Bus(ours=ours, bits=bits)
    idle.say(idle.opening, Pong(hash=1))
    idle.later(9)
    bus.frames += idle.frames
    kinds = {Accept, AckNack, Close, Declare, KeepAlive, Ping, Pong, StreamData, Synch, WriteData}
    kinds |= {BatchedData} if ours else {Hello}
    assert bus.kinds() == {one.__name__ for one in kinds}
    declared = {ResultDecl, SubscriberDecl, *([ResourceDecl, CommitDecl] if ours else [])}
    assert {one.__name__ for one in declared} <= bus.declared()
    assert max(map(len, bus.frames)) <= LEN


@pytest.mark.parametrize("ours", [True, False])
def test_an_accept_has_what_fits(ours: bool) -> None:
    """With the pid of a device of 11 octets there is room for nothing else."""
    for pid_len in range(1, 12):
        bus = Bus(ours=ours)
        said, pid = bus.opening.properties, b"\x99" * pid_len
        bus.say(Open(version=1, pid=pid, lease=100, locators=(), properties=said))
        [accept] = [one for one in messages(bus.frames[0]) if isinstance(one, Accept)]
        assert len(bus.frames[0]) <= LEN
        assert (accept.open_pid, accept.accept_pid) == (pid, BROKER)


def test_an_open_of_ours_fits_and_says_what_matters_most() -> None:
    mine = dataclasses.replace(
        device_settings(0, frame_len=LEN, capabilities=3),
        pid=PID,
        nonce=b"nonce",
        limits=DEVICE_LIMITS,
    )
    client = Client(mine)
    client.open(0)
    [frame] = client.data_to_send(0)
    [opening] = messages(frame)
    assert isinstance(opening, Open)
    assert len(frame) <= LEN
    said = SessionProperties.read(opening.properties)
    assert said.is_ours
    assert (said.frame_len, said.capabilities) == (LEN, 3)
    assert said.client_hash is None


def test_what_a_session_cannot_be_without_is_said_in_any_room() -> None:
    listed = SessionProperties(vendor=VENDOR_CODE, bits=7, frame_len=20, authentication=b"x" * 41)
    assert [one.id for one in fitting(listed.listed(), 0)] == [4, 12]
    for room in range(80):
        kept = fitting(listed.listed(), room)
        odd = [one for one in kept if one.id % 2]
        assert not odd or Property(id=0, value=VENDOR_CODE) in kept
        assert len(encoded(kept)) <= max(room, len(encoded(fitting(listed.listed(), 0))))
