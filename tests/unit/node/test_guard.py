"""The seam for guards: nothing passes a guarded face by a shorter way, in either direction."""

from __future__ import annotations

import pytest
from tests.unit.node.worlds import Session, pair

from elea.fast.egress import Outlet
from elea.fast.sink import FaceSink
from elea.sim.world import World, seconds
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.network.push import Push


class _NoSamples:
    """Lets everything pass but samples."""

    def __init__(self) -> None:
        self.refused = 0

    def check(self, message: NetworkMessage, reliable: bool) -> NetworkMessage | None:
        if isinstance(message, Push):
            self.refused += 1
            return None
        return message


class _Urgent:
    """Gives every sample another QoS."""

    def check(self, message: NetworkMessage, reliable: bool) -> NetworkMessage | None:
        if isinstance(message, Push):
            return Push(message.key, message.body, 0x19)
        return message


def _ends(session: Session) -> tuple[FaceSink, Outlet]:
    """The two ends of a node's only neighbour."""
    [zid] = [one.zid for one in session.driver.node.neighbours()]
    face_id = session.driver.node.face_of(zid)
    assert face_id is not None
    neighbour = session.driver.node._neighbours.at(face_id)
    assert neighbour is not None
    return neighbour.sink, neighbour.outlet


def _connected() -> tuple[World, Session, Session]:
    world, near, far = pair()
    far.subscribe("up/**")
    world.run_for(seconds(1))
    near.put("up/a", b"before")
    world.run_for(seconds(1))
    assert far.samples == [("up/a", b"before")]
    return world, near, far


@pytest.mark.parametrize("size", [1, 300_000], ids=["in a frame", "in fragments"])
def test_a_guard_of_what_comes_in_sees_every_sample(size: int) -> None:
    world, near, far = _connected()
    sink, _ = _ends(far)
    guard = sink.guard = _NoSamples()
    near.put("up/a", bytes(size))
    world.run_for(seconds(1))
    assert guard.refused == 1
    sink.guard = None
    near.put("up/a", b"after")
    world.run_for(seconds(1))
    assert far.samples[1:] == [("up/a", b"after")]


def test_a_guard_of_what_leaves_sees_every_sample() -> None:
    world, near, far = _connected()
    _, outlet = _ends(near)
    guard = outlet.guard = _NoSamples()
    near.put("up/a", b"refused")
    world.run_for(seconds(1))
    assert guard.refused == 1
    outlet.guard = None
    near.put("up/a", b"after")
    world.run_for(seconds(1))
    assert far.samples[1:] == [("up/a", b"after")]


@pytest.mark.parametrize("outwards", [False, True])
def test_what_a_guard_returns_goes_on(outwards: bool) -> None:
    world, near, far = _connected()
    if outwards:
        _ends(near)[1].guard = _Urgent()
    else:
        _ends(far)[0].guard = _Urgent()
    near.put("up/a", b"after")
    world.run_for(seconds(1))
    assert far.samples[1:] == [("up/a", b"after")]


def test_the_values_of_a_publisher_do_not_pass_a_guard_by() -> None:
    """`send_value` is what a publisher uses once it knows the ways of its key."""
    world, near, far = _connected()
    _, outlet = _ends(near)
    node = near.driver.node
    source = node.push_source(near.face_id)
    assert source is not None
    ways = node.egress.ways(source.cache.samples["up/a"], near.face_id, Put(b""), 0x0D)
    assert ways is not None
    guard = outlet.guard = _NoSamples()
    node.egress.send_value(ways[0], b"refused", None, True)
    near.driver.flush()
    world.run_for(seconds(1))
    assert guard.refused == 1
    assert len(far.samples) == 1
