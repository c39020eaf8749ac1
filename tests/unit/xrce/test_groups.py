"""A bus of peers and a gateway on it: what its members have heard is not repeated (10.3)."""

from __future__ import annotations

import pytest
from tests.xrce_session import messages
from tests.xrce_world import World

from elea.xrce.declaration_records import CommitDecl, ResourceDecl, SubscriberDecl
from elea.xrce.encode import encode
from elea.xrce.framing import Marked, write_marked
from elea.xrce.message_records import Declare, Open, StreamData, Synch, WriteData

GROUP = b"udp/239.255.0.1:7447"
OTHER = b"udp/239.255.0.2:7447"


def on_the_bus(world: World, number: int, *locators: bytes) -> None:
    """A peer that subscribed to everything, and hears groups."""
    opening = Open(version=1, pid=bytes((0x90, number)), lease=0, locators=locators)
    wanted = Declare(
        sync=True,
        committed=False,
        sn=0,
        declarations=(
            ResourceDecl(rid=2, resource=b"/**"),
            SubscriberDecl(id=2, mode=1),
            CommitDecl(commit_id=1),
        ),
    )
    for one in (opening, wanted):
        world.gateway.receive(encode(one), number, world.now_ns)
    world.gateway.data_to_send(world.now_ns)


def written(sn: int, payload: bytes, *, conduit: int = 0, reliable: bool = True) -> bytes:
    message = WriteData(reliable=reliable, sync=False, sn=sn, resource=b"/ping", payload=payload)
    out = bytearray()
    write_marked(out, Marked(message, conduit))
    return bytes(out)


def told(world: World) -> dict[int, list[bytes]]:
    """Which peers are sent which samples."""
    found: dict[int, list[bytes]] = {}
    for number, frame in world.gateway.data_to_send(world.now_ns):
        for one in messages(frame):
            if isinstance(one, WriteData | StreamData):
                found.setdefault(number, []).append(one.payload)
    return found


@pytest.mark.parametrize("reliable", [True, False])
def test_what_came_by_a_group_is_not_for_its_members_nor_its_sender(reliable: bool) -> None:
    world = World()
    on_the_bus(world, 1, b"udp/10.0.0.1:9", GROUP)
    on_the_bus(world, 2, GROUP)
    on_the_bus(world, 3, OTHER)  # in another group
    on_the_bus(world, 4)  # in none
    frame = written(0, b"a", conduit=1, reliable=reliable)
    world.gateway.receive(frame, 1, world.now_ns, group=GROUP)
    assert told(world) == {3: [b"a"], 4: [b"a"]}
    world.flush_effects()
    assert [one.payload for one in world.puts()] == [b"a"], "the data space has it"
    world.put("ping", b"b")
    assert told(world) == {number: [b"b"] for number in (1, 2, 3, 4)}


def test_a_sender_that_lists_no_group_gets_no_echo_either() -> None:
    world = World()
    on_the_bus(world, 1)
    world.gateway.receive(written(1, b"a"), 1, world.now_ns, group=GROUP)
    assert told(world) == {}


def test_what_a_peer_wrote_to_the_gateway_alone_is_for_all_others() -> None:
    """Peers hear others, not themselves, by whatever way they write."""
    world = World()
    on_the_bus(world, 1, GROUP)
    on_the_bus(world, 2, GROUP)
    world.gateway.receive(written(0, b"group", conduit=1), 1, world.now_ns, group=GROUP)
    assert told(world) == {}
    world.gateway.receive(written(0, b"alone", conduit=2), 1, world.now_ns)
    assert told(world) == {2: [b"alone"]}


def test_a_message_of_a_group_that_is_sent_again_to_us_alone_is_still_of_the_group() -> None:
    """The others have it, or ask for it themselves."""
    world = World()
    on_the_bus(world, 1, GROUP)
    on_the_bus(world, 2, GROUP)
    on_the_bus(world, 3)
    synch = bytearray()
    write_marked(synch, Marked(Synch(reliable=True, sync=False, sn=0), 1))
    world.gateway.receive(bytes(synch), 1, world.now_ns, group=GROUP)
    for sn in (1, 2):  # 0 was lost
        frame = written(sn, b"%d" % sn, conduit=1)
        world.gateway.receive(frame, 1, world.now_ns, group=GROUP)
    world.gateway.receive(written(0, b"0", conduit=1), 1, world.now_ns)
    assert told(world) == {3: [b"0", b"1", b"2"]}
