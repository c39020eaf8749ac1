"""World: time, order, and processes that pause, stall, crash and come back."""

from __future__ import annotations

from tests.unit.node.worlds import Session, pair, settings

from elea.node.ports import NeighbourDown, NeighbourUp
from elea.sim.trace import Trace
from elea.sim.world import World, seconds


def test_events_run_in_the_order_of_time_then_of_asking() -> None:
    world = World(1)
    seen: list[str] = []
    world.after(20, lambda: seen.append("late"))
    world.after(10, lambda: seen.append("first"))
    world.after(10, lambda: seen.append("second"))
    world.at(0, lambda: seen.append("now"))  # the past is now
    world.run_for(15)
    assert seen == ["now", "first", "second"]
    start_ns = world.now_ns
    assert world.run_until(lambda: "late" in seen, limit_ns=100)
    assert world.now_ns == start_ns + 5
    assert not world.run_until(lambda: False, limit_ns=100)
    assert not world.step()


def test_the_trace_names_everything_that_happened() -> None:
    one, other = Trace(), Trace(lines_count=1)
    for trace in (one, other):
        trace.add(1, "a")
        trace.add(2, "b")
    assert one.digest == other.digest
    assert list(one.lines) == ["1 a", "2 b"]
    assert list(other.lines) == ["2 b"]
    other.add(3, "c")
    assert one.digest != other.digest


def test_a_paused_process_hears_all_when_it_goes_on() -> None:
    world, near, far = pair()
    far.subscribe("a")
    world.run_for(seconds(1))
    far.driver.pause(seconds(2))
    assert not far.driver.running
    near.put("a", b"1")
    world.run_for(seconds(1.9))
    assert far.samples == []
    world.run_for(seconds(0.2))
    assert far.samples == [("a", b"1")]
    assert [type(event) for event in far.neighbours] == [NeighbourUp]


def test_a_pause_longer_than_the_lease_costs_the_neighbours() -> None:
    world, near, far = pair()
    world.run_for(seconds(1))
    far.driver.pause(seconds(12))
    world.run_for(seconds(20))
    assert [type(event) for event in near.neighbours] == [NeighbourUp, NeighbourDown, NeighbourUp]


def test_a_stalled_process_writes_what_waited() -> None:
    world, near, far = pair()
    far.subscribe("a")
    world.run_for(seconds(1))
    near.driver.stalled = True
    near.put("a", b"1")
    world.run_for(seconds(1))
    assert far.samples == []
    near.driver.unstall()
    world.run_for(seconds(1))
    assert far.samples == [("a", b"1")]


def test_a_crash_is_noticed_at_once_and_a_silent_one_by_the_lease() -> None:
    for silent, after_s in ((False, 1), (True, 11)):
        world, near, _ = pair()
        world.run_for(seconds(1))
        world.crash("far", silent=silent)
        assert [type(event) for event in near.neighbours] == [NeighbourUp]
        world.run_for(seconds(after_s))
        assert [type(event) for event in near.neighbours] == [NeighbourUp, NeighbourDown]


def test_a_restarted_node_is_found_again() -> None:
    world, near, _ = pair()
    world.run_for(seconds(1))
    world.crash("far")
    world.run_for(seconds(1))
    again = Session(world.add("far", settings(0xAA, listen="tcp/far:7447")))
    again.subscribe("a")
    world.run_for(seconds(6))
    near.put("a", b"hello")
    world.run_for(seconds(1))
    assert again.samples == [("a", b"hello")]
    assert world.reached["reconnected"] == 1
    assert world.reached["neighbour lost"] == 1


def test_a_stranger_that_knocks_is_sent_away() -> None:
    world, near, far = pair()
    world.run_for(seconds(1))
    for octets in (b"", b"\x00", b"\x02\x00\xff\xff", bytes(range(256))):
        world.knock(far.driver, octets, seconds(1))
    assert far.driver.links_count == 5
    world.run_for(seconds(2))
    assert far.driver.links_count == 1
    assert [type(event) for event in near.neighbours] == [NeighbourUp]
