"""Network: streams stay whole and in order, datagrams do not, and each fault is what it says."""

from __future__ import annotations

import pytest

from elea.sim.network import CALM, WINDOW_LEN, End, Faults, Network, Pipe, link_info
from elea.sim.world import World, seconds, seeded


class Ends:
    """Two ends of one link that record what they are given."""

    def __init__(self, seed: int = 1, *, stream: bool = True) -> None:
        self.world = World(seed)
        self.network: Network = self.world.network
        self.data: dict[int, list[bytes]] = {1: [], 2: []}
        self.closed: dict[int, str] = {}
        near = End("near", 1, self._on_data, self._on_closed)
        far = End("far", 2, self._on_data, self._on_closed)
        self.near, self.far = near, far
        self.pipe: Pipe = self.network.join(near, far, stream=stream)

    def _on_data(self, link_id: int, data: bytes) -> None:
        self.data[link_id].append(data)

    def _on_closed(self, link_id: int, reason: str) -> None:
        self.closed[link_id] = reason

    def write(self, *batches: bytes) -> None:
        for batch in batches:
            self.network.write(self.pipe, self.near, batch)

    def run(self, duration: float = 1) -> None:
        self.world.run_for(seconds(duration))


@pytest.mark.parametrize("seed", range(5))
def test_a_stream_arrives_whole_and_in_order_in_any_pieces(seed: int) -> None:
    ends = Ends(seed)
    ends.network.faults = Faults(delay_max_ns=50_000_000, cut=0.8)
    sent = [bytes((n,)) * 20 for n in range(30)]
    ends.write(*sent)
    ends.run()
    assert b"".join(ends.data[2]) == b"".join(sent)
    assert len(ends.data[2]) > len(sent)


def test_datagrams_are_lost_doubled_and_overtaken_as_asked() -> None:
    batches = [bytes((n,)) for n in range(200)]

    def received(faults: Faults) -> tuple[list[bytes], bool]:
        ends = Ends(stream=False)
        ends.network.faults = faults
        ends.write(*batches)
        ends.run()
        return ends.data[2], ends.pipe.damaged

    assert received(CALM) == (batches, False)
    lost, damaged = received(Faults(loss=0.5))
    assert 50 < len(lost) < 150
    assert lost == sorted(lost)
    assert damaged
    doubled, damaged = received(Faults(duplicate=0.5))
    assert len(doubled) > 250
    assert doubled == sorted(doubled)
    assert not damaged
    mixed, damaged = received(Faults(reorder=0.5))
    assert sorted(mixed) == batches
    assert mixed != batches
    assert damaged


def test_a_reset_cuts_a_write_at_some_octet_and_ends_both_sides() -> None:
    lengths = set()
    for seed in range(30):
        ends = Ends(seed)
        ends.network.faults = Faults(reset=1.0)
        ends.write(b"0123456789")
        ends.run()
        lengths.add(len(b"".join(ends.data[2])))
        assert ends.closed == {1: "reset", 2: "reset"}
        assert not ends.network.pipes
    assert len(lengths) > 5


def test_what_was_written_before_a_close_arrives_before_it() -> None:
    ends = Ends()
    ends.write(b"last words")
    ends.network.close(ends.pipe, ends.near)
    ends.run()
    assert b"".join(ends.data[2]) == b"last words"
    assert ends.closed == {2: "the peer closed the link"}
    assert not ends.network.pipes


def test_nobody_hears_that_a_datagram_link_was_closed() -> None:
    ends = Ends(stream=False)
    ends.network.close(ends.pipe, ends.near)
    ends.run()
    assert ends.closed == {}
    ends.network.close(ends.pipe, ends.far)
    assert not ends.network.pipes


def test_a_parted_stream_goes_on_after_it_healed() -> None:
    ends = Ends()
    ends.network.part("near", "far")
    assert not ends.network.reachable("far", "near")
    ends.write(b"a", b"b")
    ends.run()
    assert ends.data[2] == []
    ends.network.heal()
    ends.write(b"c")
    ends.run()
    assert b"".join(ends.data[2]) == b"abc"
    assert ends.closed == {}


def test_parted_one_way_the_other_way_works() -> None:
    ends = Ends(stream=False)
    ends.network.part("near", "far", one_way=True)
    ends.write(b"lost")
    ends.network.write(ends.pipe, ends.far, b"heard")
    ends.run()
    assert ends.data == {1: [b"heard"], 2: []}
    assert ends.pipe.damaged
    assert not ends.network.reachable("near", "far")


def test_a_half_open_link_is_silent_for_ever() -> None:
    ends = Ends()
    ends.write(b"on its way")
    ends.network.kill(ends.pipe)
    ends.write(b"later")
    ends.network.reset(ends.pipe, "reset")
    ends.run()
    assert ends.data[2] == []
    assert ends.closed == {}


def test_a_torn_link_may_lose_what_is_on_its_way() -> None:
    whole = 0
    for seed in range(30):
        ends = Ends(seed)
        ends.network.faults = Faults(delay_max_ns=50_000_000, cut=0)
        ends.write(*(b"x" for _ in range(10)))
        ends.network.tear(ends.pipe, "cut")
        ends.run()
        whole += len(ends.data[2]) == 10
        assert set(ends.closed) == {1, 2}
    assert whole < 30


def test_links_tell_what_they_are() -> None:
    tcp, udp = link_info("tcp", "a:1", "b:2"), link_info("udp", "a:1", "b:2")
    assert (tcp.stream, udp.stream) == (True, False)
    assert str(udp.remote) == "udp/b:2"


def test_choices_are_the_same_in_every_run() -> None:
    assert seeded(5).random() == seeded(5).random()


def test_what_nobody_reads_waits_in_order_and_then_stops_the_writer() -> None:
    ends = Ends()
    writable: list[int] = []
    ends.near.on_writable = writable.append
    ends.network.hold(ends.pipe, ends.far, held=True)
    sent: list[bytes] = []
    while ends.network.takes(ends.pipe, ends.near):
        sent.append(bytes((len(sent),)) * 50_000)
        ends.write(sent[-1])
    assert sum(map(len, sent)) >= WINDOW_LEN
    ends.network.close(ends.pipe, ends.near)
    ends.run()
    assert ends.data[2] == []
    assert ends.closed == {}  # the end is behind what was not read
    ends.network.hold(ends.pipe, ends.far, held=False)
    ends.run()
    assert b"".join(ends.data[2]) == b"".join(sent)
    assert ends.closed == {2: "the peer closed the link"}
    assert writable == [1]


def test_who_stops_again_while_it_catches_up_loses_nothing() -> None:
    ends = Ends()
    ends.network.hold(ends.pipe, ends.far, held=True)
    ends.write(b"1", b"2", b"3")
    ends.run()

    def stop(link_id: int, data: bytes) -> None:
        ends.data[2].append(data)
        ends.network.hold(ends.pipe, ends.far, held=True)

    ends.far.on_data = stop
    for count in (1, 2, 3):
        ends.network.hold(ends.pipe, ends.far, held=False)
        ends.run()
        assert len(ends.data[2]) == count
    ends.write(b"4")
    ends.network.hold(ends.pipe, ends.far, held=False)
    ends.run()
    assert ends.data[2] == [b"1", b"2", b"3", b"4"]
