"""Sessions over a network that loses a third of all frames, with restarts, by seeds."""

from __future__ import annotations

import os
import random

import pytest
from tests.xrce_network import sample
from tests.xrce_session import BROKER, DEVICE, Pair, settings

from elea.xrce.session.acceptor import Acceptor
from elea.xrce.session.initiator import Initiator, Phase
from elea.xrce.session.session import Delivered, Ended

SEEDS = 1_000 if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else 30
LIVES = 3
SAMPLES = 20


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_life_of_a_device_delivers_once_in_order(seed: int) -> None:
    rng = random.Random(seed)
    # Leases that three lost KeepAlives in a row do not end.
    device, broker = settings(lease_s=90), settings(BROKER, lease_s=90)
    made = Pair(Initiator(device), Acceptor[str](broker))
    made.drop = lambda _frame: rng.random() < 0.3
    for life in range(LIVES):
        made.device = Initiator(device)  # the power was off: it knows nothing any more
        made.device.open(made.now_ns)
        made.broker_events.clear()
        made.device_events.clear()
        made.run(12)
        for _ in range(3):
            if made.device.phase is Phase.CLOSED:  # eleven times, nobody answered
                made.device.open(made.now_ns)
                made.run(12)
        session = made.device.session
        assert session is not None
        expected = [b"%d.%d" % (life, number) for number in range(SAMPLES)]
        for payload in expected:
            assert session.send(sample(payload), made.now_ns)
            made.run(rng.choice((0.001, 0.05)))
        made.run(20)
        found = [
            one.marked.message.payload  # type: ignore[union-attr]
            for pid, one in made.broker_events
            if isinstance(one, Delivered) and pid == DEVICE
        ]
        assert found == expected, f"seed {seed}"
        if rng.random() < 0.5:
            made.device.close(made.now_ns)
            made.run(4)
            assert any(isinstance(one, Ended) for one in made.device_events), f"seed {seed}"
