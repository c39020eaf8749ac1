"""A condition that nobody pays for."""

from __future__ import annotations

import threading

from elea.store.log.signal import Signal


def test_who_waits_is_told() -> None:
    signal, seen = Signal(), list[int]()
    waits = threading.Event()

    def holds() -> bool:
        waits.set()
        return bool(seen)

    def wait() -> None:
        with signal.lock:
            assert signal.wait_for(holds)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert waits.wait(20)
    with signal.lock:  # which the other one gave back to wait
        seen.append(1)
        signal.tell()
    waiting.join(20)
    assert not waiting.is_alive()


def test_nobody_waits_for_what_is_so_and_not_for_ever() -> None:
    signal = Signal()
    with signal.lock:
        signal.tell()
        assert signal.wait_for(lambda: True)
        assert not signal.wait_for(lambda: False, 0.01)
