"""When a loop spins before it sleeps."""

from __future__ import annotations

from elea.link.poller import Eagerness

SPIN_NS = 200_000


class Dialogue:
    """Waits that end with something heard; the other end answers in the times given."""

    def __init__(self, spin_ns: int = SPIN_NS) -> None:
        self.eagerness = Eagerness(spin_ns)
        self.now_ns = 1_000_000

    def wait(self, sleeping_ns: int, spinning_ns: int, *, says: bool = True) -> bool:
        """One turn; whether the answer was waited for spinning."""
        if says:
            self.eagerness.say(self.now_ns)
        spins = self.eagerness.begin(self.now_ns) > self.now_ns
        self.now_ns += spinning_ns if spins else sleeping_ns
        self.eagerness.hear(self.now_ns)
        return spins

    def count(self, sleeping_ns: int, spinning_ns: int, *, says: bool = True) -> int:
        """Of 1 000 turns, how many were spent spinning."""
        return sum(self.wait(sleeping_ns, spinning_ns, says=says) for _ in range(1_000))


def test_it_spins_in_a_dialogue_where_that_is_quicker() -> None:
    assert Dialogue().count(80_000, 30_000) > 900


def test_it_sleeps_in_a_dialogue_where_that_is_quicker() -> None:
    assert Dialogue().count(80_000, 150_000) < 150


def test_it_tries_the_other_way_now_and_then() -> None:
    dialogue = Dialogue()
    dialogue.count(80_000, 150_000)
    assert dialogue.count(90_000, 20_000) > 750  # the machine is not busy any more


def test_who_only_listens_sleeps() -> None:
    assert Dialogue().count(20_000, 20_000, says=False) == 0


def test_who_is_answered_late_sleeps() -> None:
    assert Dialogue().count(5_000_000, 5_000_000) == 0


def test_zero_turns_it_off() -> None:
    assert Dialogue(spin_ns=0).count(10_000, 10_000) == 0


def test_there_is_nothing_to_spin_for_before_something_is_said() -> None:
    dialogue = Dialogue()
    dialogue.count(80_000, 30_000)
    assert dialogue.eagerness.begin(dialogue.now_ns) <= dialogue.now_ns
    assert dialogue.eagerness.say(dialogue.now_ns)
    assert dialogue.eagerness.begin(dialogue.now_ns) > dialogue.now_ns
    assert not dialogue.eagerness.say(dialogue.now_ns + 1)  # nobody need be woken again
