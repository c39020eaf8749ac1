"""Backlog: order within a priority, none between them, and nothing dropped that may not be."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.unit.node.worlds import Session, pair, settings

from elea.answers import DROPPED, QUEUED, SENT
from elea.ids import WhatAmI
from elea.limits import DEFAULT_LIMITS, Limits
from elea.node.backlog import Backlog
from elea.sim.world import World, seconds
from elea.transport.negotiation import Agreed
from elea.transport.unicast import Transport
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.push import Push

BLOCK, BLOCK_FIRST, DROP = 0x08, 0x20, 0x00
LEN = 600
SMALL = Limits(tx_queue_len=65_536, backlog_len=131_072)


def push(name: str, how: int, priority: int = 5) -> Push:
    return Push(WireExpr(0, f"key-{name}"), Put(bytes(LEN)), priority | how)


def agreed(*, qos: bool) -> Agreed:
    return Agreed(
        peer_zid=b"a",
        peer_whatami=1,
        batch_len=1_000,
        sn_mask=0x0FFF_FFFF,
        qos=qos,
        patch=1,
        low_latency=False,
        compression=False,
        own_lease_ms=10_000,
        peer_lease_ms=10_000,
        own_initial_sn=0,
        peer_initial_sn=0,
        opener=True,
    )


class Line:
    """A backlog in front of a transport that holds two messages per priority."""

    def __init__(self, *, qos: bool = True) -> None:
        terms = agreed(qos=qos)
        self.transport = Transport(terms, limits=Limits(tx_queue_len=LEN))
        self.transport.add_link(1, terms, 0)
        self.backlog = Backlog(self.transport)
        self.now_ns = 0

    def send(self, name: str, how: int, priority: int = 5) -> int:
        return self.backlog.send(push(name, how, priority), True, self.now_ns)

    def pull(self) -> bytes | None:
        batch = self.transport.pull(1, self.now_ns)
        self.backlog.retry(self.now_ns)
        return batch

    def written(self) -> Iterator[str]:
        """The names of what goes out, in order."""
        while (batch := self.pull()) is not None:
            for name in "abcdex":
                if f"key-{name}".encode() in batch:
                    yield name


def test_what_waits_goes_out_in_order() -> None:
    line = Line()
    assert [line.send(name, BLOCK) for name in "abcd"] == [SENT, QUEUED, QUEUED, QUEUED]
    assert list(line.written()) == ["a", "b", "c", "d"]
    assert not line.backlog
    assert line.transport.stats.dropped_congestion == [0] * 8


def test_a_droppable_message_is_dropped_rather_than_let_past() -> None:
    line = Line()
    for name in "ab":
        line.send(name, BLOCK)
    assert line.pull() is not None  # room for b; it is in the transport now
    assert [line.send(name, BLOCK) for name in "cd"] == [QUEUED, QUEUED]
    assert line.send("x", DROP) == DROPPED
    assert line.transport.stats.dropped_congestion[5] == 1
    assert list(line.written()) == ["b", "c", "d"]


def test_priorities_do_not_wait_for_each_other() -> None:
    line = Line()
    assert [line.send(name, BLOCK, 5) for name in "ab"] == [SENT, QUEUED]
    assert line.send("c", BLOCK, 1) == SENT
    assert line.send("x", DROP, 1) == DROPPED  # its own is full by now
    assert list(line.written()) == ["c", "a", "b"]


def test_without_priorities_there_is_one_line() -> None:
    line = Line(qos=False)
    assert [line.send(name, BLOCK, 5) for name in "ab"] == [SENT, QUEUED]
    assert line.send("c", BLOCK, 1) == QUEUED
    assert list(line.written()) == ["a", "b", "c"]


def test_one_of_those_that_block_first_may_wait() -> None:
    line = Line()
    assert line.send("a", BLOCK) == SENT
    assert [line.send(name, BLOCK_FIRST) for name in "bx"] == [QUEUED, DROPPED]
    assert line.send("c", BLOCK) == QUEUED
    assert list(line.written()) == ["a", "b", "c"]


def test_what_waits_in_vain_is_counted() -> None:
    line = Line()
    for name in "abcd":
        line.send(name, BLOCK)
    line.send("x", BLOCK, priority=2)
    waiting = line.backlog.waiting_count()
    assert waiting > len(line.backlog)
    line.backlog.clear()
    assert line.transport.stats.dropped_closed == waiting
    assert line.backlog.waiting_count() == 0


def test_a_line_is_stuck_since_it_moved_last() -> None:
    line = Line()
    assert line.backlog.stuck_since_ns() is None
    line.now_ns = 5
    for name in "abcd":
        line.send(name, BLOCK)
    line.now_ns = 7
    line.send("e", BLOCK)
    assert line.backlog.stuck_since_ns() == 5
    line.pull()
    assert line.backlog.stuck_since_ns() == 7
    line.backlog.clear()
    assert line.backlog.stuck_since_ns() is None


def test_a_droppable_sample_does_not_overtake_a_blocking_one_of_its_key() -> None:
    # Found by `elea sim --seed 78 --faults calm`: the blocking one waited behind those of another
    # priority, and the droppable one found room.
    world, near, far = pair()
    far.subscribe("**")
    world.run_for(seconds(1))
    near.driver.stalled = True
    while near.put("full", bytes(100_000), qos=0x09) != QUEUED:
        pass
    near.put("a", b"1", qos=0x0D)
    near.put("a", b"2", qos=0x05)
    near.driver.unstall()
    world.run_for(seconds(1))
    assert [payload for key, payload in far.samples if key == "a"] == [b"1", b"2"]


@pytest.mark.parametrize("blocking_time_s", [4.9, 5.1])
def test_a_neighbour_that_takes_nothing_is_left_after_the_blocking_time(
    blocking_time_s: float,
) -> None:
    world, near, far = stalled_pair()
    world.run_for(seconds(blocking_time_s))
    assert (near.driver.node.neighbours() == []) is (blocking_time_s > 5)
    assert far.samples == []


def stalled_pair() -> tuple[World, Session, Session]:
    world, near, far = pair()
    far.subscribe("**")
    world.run_for(seconds(1))
    near.driver.stalled = True
    while not near.driver.node.is_congested():
        near.put("a", bytes(100_000))
    return world, near, far


def star(
    whatami: WhatAmI = WhatAmI.PEER, stuck_key: str = "**"
) -> tuple[World, Session, dict[str, Session]]:
    """A peer, or a router, and three clients; what one publishes, the others get from it."""
    world = World(1)
    middle = Session(world.add("p", settings(1, whatami, listen="tcp/p:1"), limits=SMALL))
    clients = {
        name: Session(
            world.add(name, settings(id_, WhatAmI.CLIENT, connect=("tcp/p:1",), lease_ms=20_000))
        )
        for id_, name in ((2, "source"), (3, "stuck"), (4, "other"))
    }
    clients["stuck"].subscribe(stuck_key)
    clients["other"].subscribe("**")
    world.run_for(seconds(1))
    return world, middle, clients


def flood(world: World, source: Session, end_ns: int) -> int:
    """Publish as a session does that waits for room; how many there were, up to a time."""
    count = 0
    while world.now_ns < end_ns:
        if not source.driver.node.is_congested():
            source.put("a", count.to_bytes(4, "big") + bytes(996))
            count += 1
        world.run_for(seconds(0.000_5))
    return count


def test_a_source_is_not_read_while_its_messages_have_nowhere_to_go() -> None:
    # Threat T28: a peer kept every blocking message for a client that did not read.
    world, middle, clients = star()
    [stuck] = [one for one in world.network.pipes if one.ends[0].node == "stuck"]
    world.network.hold(stuck, stuck.ends[0], held=True)
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, *(one.backlog.pending_len for one in middle.driver.node._neighbours))
        world.after(seconds(0.01), look)

    look()
    sent = flood(world, clients["source"], world.now_ns + seconds(4))
    assert world.reached["a source was not read"] > 0
    assert 0 < most < SMALL.backlog_len + 2 * 65_536  # and what was read with the last chunk
    assert not world.reached["lease expired"]
    world.network.hold(stuck, stuck.ends[0], held=False)
    sent += flood(world, clients["source"], world.now_ns + seconds(1))
    world.run_for(seconds(2))
    for name in ("stuck", "other"):
        assert len(clients[name].samples) == sent
    assert not world.reached["neighbour lost"]


def test_who_never_reads_is_given_up_and_its_sources_are_read_again() -> None:
    world, middle, clients = star()
    [stuck] = [one for one in world.network.pipes if one.ends[0].node == "stuck"]
    world.network.hold(stuck, stuck.ends[0], held=True)
    flood(world, clients["source"], world.now_ns + seconds(8))
    assert world.reached["a source was not read"] > 0
    assert world.reached["closed as unresponsive"] == 1
    world.run_for(seconds(2))
    before = len(clients["other"].samples)
    clients["source"].put("a", b"and on it goes")
    world.run_for(seconds(1))
    assert len(clients["other"].samples) == before + 1
    assert not middle.driver.node.is_congested()


def test_a_router_gives_up_who_holds_others_up_soon() -> None:
    world, _, clients = star(WhatAmI.ROUTER)
    [stuck] = [one for one in world.network.pipes if one.ends[0].node == "stuck"]
    world.network.hold(stuck, stuck.ends[0], held=True)
    source = clients["source"]
    began_ns = last_ns = world.now_ns
    longest_ns = count = 0
    while world.now_ns < began_ns + seconds(6):
        if not source.driver.node.is_congested():
            source.put("a", bytes(1_000))
            count += 1
            longest_ns = max(longest_ns, world.now_ns - last_ns)
            last_ns = world.now_ns
        world.run_for(seconds(0.000_5))
    world.run_for(seconds(2))
    assert world.reached["closed as unresponsive"] >= 1
    assert world.reached["a source was not read"] > 0
    assert seconds(0.3) < longest_ns < DEFAULT_LIMITS.held_ns + seconds(0.1)
    assert len(clients["other"].samples) == count


def test_who_takes_something_is_not_given_up() -> None:
    line = Line()
    for name in "abc":
        line.send(name, BLOCK)
    line.backlog.moved(9)
    assert line.backlog.stuck_since_ns() == 9
    assert list(line.written()) == ["a", "b", "c"]


def test_how_long_something_waits_counts_from_when_it_came() -> None:
    # A driver gives the octets of a link to its intake alone: the node's own time stands still.
    world, near, _ = pair()
    world.run_for(seconds(1))
    [link_id] = [one.id for one in near.driver.node._links.all()]
    intake = near.driver.node.intake(link_id)
    assert intake is not None
    later_ns = world.now_ns + seconds(60)
    intake.receive(b"", later_ns)
    node = near.driver.node
    [neighbour] = node._neighbours
    neighbour.outlet.stuck = True
    while node.egress.send(neighbour.face_id, push("a", BLOCK), True) != QUEUED:
        pass
    assert neighbour.backlog.stuck_since_ns() == later_ns


def test_a_stuck_neighbour_holds_up_nothing_that_it_does_not_get() -> None:
    world, middle, _ = star(stuck_key="stuck/**")
    [stuck] = [one for one in world.network.pipes if one.ends[0].node == "stuck"]
    world.network.hold(stuck, stuck.ends[0], held=True)
    node = middle.driver.node
    while not node.is_congested():
        assert middle.put("stuck/a", bytes(10_000)) in (SENT, QUEUED)
        world.run_for(seconds(0.01))  # the other one reads
    face_id, qos = middle.face_id, 0x0D
    assert not node.has_room(face_id, "stuck/a", qos)
    assert node.has_room(face_id, "stuck/a", 0x09)  # another priority
    assert node.has_room(face_id, "fine", qos)
    assert middle.put("fine", b"x") == SENT
