"""Attempts to connect are changed under the node's lock only, by whichever thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

from elea.errors import LinkError
from elea.limits import DEFAULT_LIMITS
from elea.link.connect import Connected, Connector
from elea.link.dialing import Dialing
from elea.locator import Endpoint
from elea.node.ports import Connect
from elea.node.stats import NodeStats

COUNT = 8


class FakeAttempt:
    """Its cancellation lets the poller's thread in, as a write to a descriptor does."""

    def __init__(self, on_done: Callable[[Connected | LinkError], None]) -> None:
        self.on_done = on_done
        self.cancelled = False
        self.meanwhile: Callable[[], None] = lambda: None

    def cancel(self) -> None:
        self.cancelled = True
        self.meanwhile()


class FakeConnector:
    def __init__(self) -> None:
        self.attempts: list[FakeAttempt] = []

    def connect(self, endpoints: object, *, on_done: Any, **_more: object) -> FakeAttempt:
        self.attempts.append(FakeAttempt(on_done))
        return self.attempts[-1]


def dialing() -> tuple[Dialing, FakeConnector, threading.Lock, list[int]]:
    lock, done = threading.Lock(), list[int]()
    connector = FakeConnector()
    made = Dialing(
        cast(Connector, connector),
        lock,
        DEFAULT_LIMITS,
        NodeStats(),
        lambda number, _outcome: done.append(number),
    )
    with lock:
        for number in range(COUNT):
            made.dial(Connect(number, (Endpoint.parse("tcp/127.0.0.1:1"),), 10**9))
    return made, connector, lock, done


def test_an_attempt_that_ends_while_all_are_cancelled_waits_for_the_lock() -> None:
    made, connector, lock, done = dialing()
    ended = [
        threading.Thread(target=one.on_done, args=(LinkError("x"),)) for one in connector.attempts
    ]
    # The first cancellation gives the poller's thread its turn.
    connector.attempts[0].meanwhile = ended[-1].start
    with lock:
        made.cancel()
        assert done == []
        assert len(made) == 0
    ended[-1].join()
    assert done == [COUNT - 1]
    assert all(one.cancelled for one in connector.attempts)


def test_an_attempt_that_is_over_is_forgotten() -> None:
    made, connector, _, done = dialing()
    connector.attempts[3].on_done(LinkError("refused"))
    assert (len(made), done) == (COUNT - 1, [3])
