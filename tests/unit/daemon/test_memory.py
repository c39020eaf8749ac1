"""Memory is given back some time after links have gone, if that is worth it."""

from __future__ import annotations

from elea.daemon.memory import BLOCK_LEN, GROWTH, PAUSES, QUIET_S, Memory, _resident_len


class Rig:
    """A daemon's memory, with a clock and a size of the test's own."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.len = 1_000_000
        self.took_s = 0.0
        self.blocks = 10_000
        self.memory = Memory(lambda: self.now_s, self.measure, lambda: self.blocks)
        self.memory.begin()

    def measure(self) -> int:
        self.now_s += self.took_s
        return self.len

    def after(self, seconds: float) -> int:
        self.now_s += seconds
        self.memory.tidy()
        return self.memory.tidied_count


def test_there_is_nothing_to_do_until_a_link_goes() -> None:
    rig = Rig()
    assert rig.memory.wait_s() is None
    assert rig.after(1_000) == 0
    assert rig.memory.link_closed()
    assert not rig.memory.link_closed()
    assert rig.memory.wait_s() == QUIET_S


def test_it_waits_for_quiet_and_tidies_what_has_grown() -> None:
    rig = Rig()
    rig.memory.link_closed()
    rig.len = int(rig.len * GROWTH * 1.1)
    assert rig.after(QUIET_S / 2) == 0
    rig.memory.link_closed()
    assert rig.after(QUIET_S * 0.9) == 0
    assert rig.after(QUIET_S * 0.2) == 1
    assert rig.memory.wait_s() is None


def test_little_is_not_worth_it_and_it_is_not_done_often() -> None:
    rig = Rig()
    rig.memory.link_closed()
    rig.len += 100
    assert rig.after(QUIET_S) == 0
    rig.took_s = 0.2
    for _ in range(2):
        rig.memory.link_closed()
        rig.len *= 2
        assert rig.after(QUIET_S) == 1
    assert rig.after(0.2 * PAUSES) == 2


def test_what_is_needed_is_not_too_much_and_what_was_needed_is() -> None:
    rig = Rig()
    rig.blocks += 20_000
    rig.len += 20_000 * BLOCK_LEN
    rig.memory.link_closed()
    assert rig.after(QUIET_S) == 0  # others need it
    rig.blocks -= 20_000
    rig.memory.link_closed()
    assert rig.after(QUIET_S) == 1


def test_where_nobody_knows_the_size_nothing_is_done() -> None:
    rig = Rig()
    rig.len = 0
    rig.memory.begin()
    rig.memory.link_closed()
    assert rig.after(QUIET_S) == 0
    assert _resident_len() >= 0
