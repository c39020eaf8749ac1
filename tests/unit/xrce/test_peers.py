"""Peers at a gateway: they declare resources and subscribers, and no publishers (12.2)."""

from __future__ import annotations

import pytest
from tests.xrce_session import messages
from tests.xrce_world import World

from elea.xrce.declaration_records import (
    CommitDecl,
    Declaration,
    ForgetResourceDecl,
    ForgetSubscriberDecl,
    PublisherDecl,
    ResourceDecl,
    SubscriberDecl,
)
from elea.xrce.declarations import Action, Named
from elea.xrce.encode import encode
from elea.xrce.framing import Marked, write_marked
from elea.xrce.gateway.effects import Unwatch, Watch
from elea.xrce.message_records import (
    Accept,
    AckNack,
    Close,
    Declare,
    KeepAlive,
    Message,
    Open,
    Ping,
    Pong,
    StreamData,
    Synch,
    WriteData,
)
from elea.xrce.names import parse
from elea.xrce.qualities import Qualities
from elea.xrce.selections import Selection
from elea.xrce.session.settings import SECOND_NS

GROUP = b"udp/239.255.0.1:7447"
TOLD_NS = SECOND_NS // 10  # changes of interest wait for others for less than this


class Foreign:
    """A device of another vendor; one with locators is a peer."""

    def __init__(self, world: World, number: int = 1, *locators: bytes) -> None:
        self.world, self.number = world, number
        self.opening = Open(version=1, pid=bytes((0x90, number)), lease=0, locators=locators)
        self.sns: dict[int, int] = {}

    def say(self, message: Message, *, conduit: int = 0) -> list[Message]:
        out = bytearray()
        write_marked(out, Marked(message, conduit))
        self.world.gateway.receive(bytes(out), self.number, self.world.now_ns)
        return self.hear()

    def hear(self) -> list[Message]:
        world = self.world
        found: list[Message] = []
        while out := world.gateway.data_to_send(world.now_ns):
            for number, frame in out:
                if number != self.number:
                    continue
                found += messages(frame)
                for one in messages(frame):
                    if isinstance(one, Declare | StreamData | WriteData):
                        answer = encode(AckNack(sn=one.sn + 1))
                        world.gateway.receive(answer, number, world.now_ns)
        world.flush_effects()
        return found

    def open(self) -> list[Message]:
        return self.say(self.opening)

    def declare(self, *said: Declaration, conduit: int = 2) -> list[Message]:
        sn = self.sns[conduit] = self.sns.get(conduit, -1) + 1
        message = Declare(sync=False, committed=True, sn=sn, declarations=said)
        return self.say(message, conduit=conduit)

    def later(self) -> list[Declaration]:
        """What it is told of readers, a little later."""
        self.world.now_ns += TOLD_NS
        self.world.gateway.handle_timer(self.world.now_ns)
        return [
            declaration
            for one in self.hear()
            if isinstance(one, Declare) and one.committed
            for declaration in one.declarations
        ]

    def read_by_others(self, key: str, *, read: bool = True) -> list[Declaration]:
        self.world.gateway.matched(key, self.world.now_ns, matched=read)
        return self.later()


def named(text: str) -> Named:
    return Named(Selection(parse(text)), {}, Qualities())


# Interest.


def test_a_peer_that_declares_no_publisher_is_told_of_the_readers_of_its_resources() -> None:
    world = World()
    peer = Foreign(world, 1, GROUP)
    peer.open()
    peer.declare(ResourceDecl(rid=4, resource=b"/lab/t"))
    assert Watch("lab/t") in world.effects
    assert peer.later() == []
    assert peer.read_by_others("lab/t") == [SubscriberDecl(id=4, mode=1)]
    assert peer.read_by_others("lab/t", read=False) == [ForgetSubscriberDecl(id=4)]
    peer.declare(ForgetResourceDecl(rid=4))
    assert Unwatch("lab/t") in world.effects


def test_a_client_is_told_of_readers_of_its_publishers_alone() -> None:
    """Some end their session when they are told of a reader of what they do not publish."""
    world = World()
    client = Foreign(world)
    client.open()
    client.declare(ResourceDecl(rid=4, resource=b"/lab/t"), ResourceDecl(rid=6, resource=b"/lab/u"))
    client.declare(PublisherDecl(rid=6))
    assert Watch("lab/t") not in world.effects
    assert client.read_by_others("lab/u") == [SubscriberDecl(id=6, mode=1)]


def test_a_peer_is_told_of_another_device_that_reads_and_not_of_itself() -> None:
    world = World()
    peer, other = Foreign(world, 1, GROUP), Foreign(world, 2)
    peer.open()
    other.open()
    peer.declare(ResourceDecl(rid=4, resource=b"/lab/t"), SubscriberDecl(id=4, mode=1))
    assert peer.later() == []
    other.declare(ResourceDecl(rid=2, resource=b"/lab/*"), SubscriberDecl(id=2, mode=1))
    assert peer.later() == [SubscriberDecl(id=4, mode=1)]
    other.declare(ForgetSubscriberDecl(id=2))
    assert peer.later() == [ForgetSubscriberDecl(id=4)]


def test_what_is_known_of_a_peer_goes_with_its_session() -> None:
    world = World(presets={6: named("/lab/preset")})
    peer = Foreign(world, 1, GROUP)
    peer.open()
    peer.declare(ResourceDecl(rid=4, resource=b"/lab/t"))
    peer.say(Close(pid=peer.opening.pid, reason=0))
    for key in ("lab/t", "lab/preset"):
        assert world.effects.index(Watch(key)) < world.effects.index(Unwatch(key))


# A gateway that was restarted.


def stray(peer: Foreign, sn: int) -> None:
    message = StreamData(reliable=True, sync=False, sn=sn, id=4, payload=b"x")
    assert peer.say(message) == peer.say(Synch(reliable=True, sync=True, sn=sn + 1, count=1)) == []


def test_a_peer_that_goes_on_with_a_session_of_before_a_restart_begins_anew() -> None:
    """It would not declare again what it declared, and its data would have no names."""
    world = World()
    peer = Foreign(world, 1, GROUP)
    stray(peer, 7)
    assert peer.open() == [Close(pid=b"\xb2\x0c", reason=0)]
    assert world.gateway.devices == {}
    stray(peer, 9)  # to others of its group
    assert any(isinstance(one, Accept) for one in peer.open()), "it is told once"
    peer.declare(ResourceDecl(rid=4, resource=b"/lab/t"))
    peer.say(StreamData(reliable=False, sync=False, sn=9, id=4, payload=b"y"))
    assert [(one.key, one.payload) for one in world.puts()] == [("lab/t", b"y")]
    peer.say(Close(pid=peer.opening.pid, reason=0))
    stray(peer, 11)
    assert peer.open() == [Close(pid=b"\xb2\x0c", reason=0)], "and again if it is lost again"


def test_others_are_accepted_at_once() -> None:
    world = World()
    fresh, client = Foreign(world, 1, GROUP), Foreign(world, 2)
    assert any(isinstance(one, Accept) for one in fresh.open())
    stray(client, 7)
    assert client.say(KeepAlive(pid=client.opening.pid)) == []
    assert any(isinstance(one, Accept) for one in client.open())


# Ids that were agreed on.


@pytest.mark.parametrize("locators", [(), (GROUP,)])
def test_ids_that_were_agreed_on_have_names_without_a_declaration(
    locators: tuple[bytes, ...],
) -> None:
    """Some clients never send the names that they have for their ids."""
    world = World(presets={4: named("/lab/t"), 6: named("/lab/up")})
    device = Foreign(world, 1, *locators)
    device.open()
    device.declare(SubscriberDecl(id=4, mode=1), PublisherDecl(rid=6), conduit=0)
    assert device.read_by_others("lab/up") == [SubscriberDecl(id=6, mode=1)]
    device.say(StreamData(reliable=True, sync=False, sn=1, id=6, payload=b"up"))
    assert [(one.key, one.payload) for one in world.puts()] == [("lab/up", b"up")]
    world.put("lab/t", b"down")
    [sample] = [one for one in device.hear() if isinstance(one, StreamData)]
    assert (sample.id, sample.prid, sample.payload) == (4, None, b"down")


def test_a_pattern_that_was_agreed_on_is_sent_under_its_id() -> None:
    """A device that never sent a name has no use for those of others."""
    world = World(presets={4: named("/lab/**")})
    device = Foreign(world)
    device.open()
    device.declare(SubscriberDecl(id=4, mode=1), conduit=0)
    for key in ("lab/a", "lab/b/c", "other"):
        world.put(key, key.encode())
    found = [one for one in device.hear() if isinstance(one, StreamData | WriteData)]
    assert [(type(one), one.payload) for one in found] == [
        (StreamData, b"lab/a"),
        (StreamData, b"lab/b/c"),
    ]


def test_what_a_device_declares_goes_before_what_was_agreed_on() -> None:
    world = World(presets={4: named("/lab/t")})
    device = Foreign(world)
    device.open()
    device.declare(ResourceDecl(rid=4, resource=b"/own/name"), conduit=0)
    device.say(StreamData(reliable=True, sync=False, sn=1, id=4, payload=b"x"))
    device.declare(ForgetResourceDecl(rid=4), conduit=1)
    device.say(StreamData(reliable=True, sync=False, sn=2, id=4, payload=b"y"))
    assert [(one.key, one.payload) for one in world.puts()] == [("own/name", b"x")]


def test_access_holds_for_ids_that_were_agreed_on() -> None:
    def allows(_pid: bytes, action: Action, keys: tuple[str, ...]) -> bool:
        return action is not Action.WRITE or keys != ("lab/secret",)

    world = World(presets={4: named("/lab/secret"), 6: named("/lab/open")}, allows=allows)
    device = Foreign(world)
    device.open()
    for sn, id_ in enumerate((4, 6)):
        device.say(StreamData(reliable=True, sync=False, sn=sn, id=id_, payload=b"x"))
    assert [one.key for one in world.puts()] == ["lab/open"]
    said = Declare(
        sync=False,
        committed=False,
        sn=2,
        declarations=(PublisherDecl(rid=4), CommitDecl(commit_id=1)),
    )
    device.say(said)
    assert world.gateway.counters.forbidden == 2


# Devices that work only when something comes.


def test_a_client_that_commits_only_when_something_comes_is_pinged_until_it_does() -> None:
    """Its program waits for input without a limit of time, and does one step for each."""
    world = World()
    device = Foreign(world)
    [ping] = [one for one in device.open() if isinstance(one, Ping)]
    said = Declare(sync=False, committed=False, sn=0, declarations=(SubscriberDecl(id=2, mode=1),))
    assert not any(isinstance(one, Ping) for one in device.say(said)), "one is unanswered"
    for _ in range(100):
        [ping] = [one for one in device.say(Pong(hash=ping.hash)) if isinstance(one, Ping)]
    commit = Declare(sync=False, committed=False, sn=1, declarations=(CommitDecl(commit_id=1),))
    assert any(isinstance(one, Declare) for one in device.say(commit))
    assert not any(isinstance(one, Ping) for one in device.say(Pong(hash=ping.hash)))
    world.put("@xrce/rid/2", b"x")
    assert any(isinstance(one, StreamData) for one in device.hear())


def test_a_client_that_never_commits_is_not_pinged_for_ever() -> None:
    world = World()
    device = Foreign(world)
    [ping] = [one for one in device.open() if isinstance(one, Ping)]
    declarations = (SubscriberDecl(id=2, mode=1),)
    device.say(Declare(sync=False, committed=False, sn=0, declarations=declarations))
    count = 0
    while pings := [one for one in device.say(Pong(hash=ping.hash)) if isinstance(one, Ping)]:
        [ping] = pings
        count += 1
    assert count == 256


# As such devices say it on the wire, with pids of ours.


@pytest.mark.parametrize(
    ("locators", "properties", "is_peer"),
    [
        ("00", "02 04 01 0b 0c 02 02 03", False),  # numbers of 11 bits, and a constant
        ("01 0d 74 63 70 2f 30 2e 30 2e 30 2e 30 3a 30", "01 0c 02 02 03", True),
        ("01 14" + b"udp/239.255.0.1:7447".hex(), "01 0c 02 02 03", True),
        ("01 12" + b"udp/127.0.0.1:7448".hex(), "01 0c 02 02 03", True),  # it scouts there
    ],
    ids=["client", "peer by TCP", "peer by a group", "peer by UDP"],
)
def test_the_opens_of_existing_clients_and_peers(
    locators: str, properties: str, is_peer: bool
) -> None:
    world, pid = World(), bytes(range(1, 17))
    frame = bytes.fromhex(f"23 01 10 {pid.hex()} 32 {locators} {properties}")
    world.gateway.receive(frame, 1, 0)
    device = world.gateway.devices[pid]
    assert device.is_peer is is_peer
    assert device.lease_ns == 5 * SECOND_NS
    assert device.properties.bits == (14 if is_peer else 11)
