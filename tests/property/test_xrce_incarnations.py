"""Opens that come again at any time, and restarts, in a bad network with few numbers, by seeds."""

from __future__ import annotations

import os
import random

import pytest
from tests.xrce_network import sample
from tests.xrce_session import BROKER, DEVICE, Pair, settings

from elea.xrce.encode import encode
from elea.xrce.message_records import Open
from elea.xrce.properties import SessionProperties
from elea.xrce.session.acceptor import Acceptor
from elea.xrce.session.initiator import Initiator
from elea.xrce.session.session import Delivered, Ended
from elea.xrce.session.settings import SessionSettings

SEEDS = 1_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 40
SAMPLES = 300


class Repeating(Pair):
    """A pair whose network repeats the first Open of the device whenever it is told to."""

    opening = b""

    def repeat(self) -> None:
        self.broker.receive(self.opening, self.source, self.now_ns)


def few_numbers(bits: int) -> SessionSettings:
    said = SessionProperties(bits=bits)
    return SessionSettings(pid=DEVICE, lease_ns=90 * 10**9, properties=said)


def opened(rng: random.Random, bits: int) -> Repeating:
    made = Repeating(Initiator(few_numbers(bits)), Acceptor[str](settings(BROKER, lease_s=90)))
    made.device.open(0)
    made.run(1)
    listed = SessionProperties(bits=bits).listed() or None
    one = Open(version=1, pid=DEVICE, lease=900, locators=(), properties=listed)
    made.opening = encode(one)
    made.repeat()
    made.drop = lambda _frame: rng.random() < 0.25
    return made


@pytest.mark.line("X-037")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_opens_that_come_again_change_nothing(seed: int) -> None:
    rng = random.Random(seed)
    bits = rng.choice((4, 5, 7, 14))
    made = opened(rng, bits)
    session = made.device.session
    assert session is not None
    expected = [b"%d" % number for number in range(SAMPLES)]
    left = list(expected)
    for _ in range(20 * SAMPLES):
        if rng.random() < 0.3:
            made.repeat()
        if left and session.send(sample(left[0]), made.now_ns):
            del left[0]
        if not left and not session.conduits.unacknowledged_count:
            break
        made.run(rng.choice((0.001, 0.01, 0.2)))
    made.run(10)
    found = [
        one.marked.message.payload  # type: ignore[union-attr]
        for _, one in made.broker_events
        if isinstance(one, Delivered)
    ]
    assert found == expected, f"seed {seed}, {bits} bits"
    assert not any(isinstance(one, Ended) for _, one in made.broker_events), f"seed {seed}"
