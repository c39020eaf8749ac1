"""Ctrl-C ends a wait for values, whenever it comes."""

from __future__ import annotations

import subprocess
import sys
from queue import Empty, SimpleQueue

import pytest

from elea.session.heed import get_heeding

# Interrupts itself around the moment in which it begins to wait.
_PROGRAM = """
import faulthandler, random, signal
from elea.session.handlers import Handler
from elea.session.outlet import Channel

signal.signal(signal.SIGALRM, signal.default_int_handler)
handler = Handler(Channel(8, is_ring=False))
chance = random.Random(1)
for number in range(500):
    faulthandler.dump_traceback_later(60, exit=True)  # it was not heard
    try:
        signal.setitimer(signal.ITIMER_REAL, 1e-6 + chance.random() * 40e-6)
        handler.recv()
    except KeyboardInterrupt:
        pass
"""


def test_an_interrupt_right_before_a_wait_is_heard() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr  # was 1 of 500


@pytest.mark.parametrize("timeout", [0.0, 0.001, 0.45])
def test_a_wait_that_heeds_signals_ends_in_time(timeout: float) -> None:
    queue: SimpleQueue[object] = SimpleQueue()
    with pytest.raises(Empty):
        get_heeding(queue, timeout)
    queue.put(1)
    assert get_heeding(queue, timeout) == 1
