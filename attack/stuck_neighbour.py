"""A neighbour takes nothing of what it subscribed to: puts on other keys neither wait nor fail.

The application is a peer with two neighbours, one of which does not read. Several threads fill what
may wait for that one, while others put and `try_put` on keys that only the other one gets.
"""

from __future__ import annotations

import sys
import threading
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Raw, Target, until
from tests.ports import free_port

import elea
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare

THREAT: Final = "a stuck neighbour of an application"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 200, "full": 5_000}  # puts on the key that the other neighbour gets
_BLOCK: Final = elea.CongestionControl.BLOCK
_PAYLOAD: Final = bytes(64 * 1024)


def attack(target: Target, size: int) -> list[Check]:
    port = free_port()
    alone = {"multicast": {"enabled": False}}
    listening = {"mode": "peer", "listen": {"endpoints": [f"tcp/127.0.0.1:{port}"]}}
    with elea.open({**listening, "scouting": alone}) as session:
        stuck = Raw.connect(port)
        stuck.send([Declare(DeclareSubscriber(1, WireExpr(0, "stuck/**")), qos=QOS_DECLARE)])
        healthy = elea.open(
            {
                "mode": "client",
                "connect": {"endpoints": [f"tcp/127.0.0.1:{port}"]},
                "scouting": alone,
            }
        )
        got: list[str] = []
        healthy.declare_subscriber("fine/*", lambda sample: got.append(str(sample.payload)))
        stuck_key = session.declare_publisher("stuck/a")
        until(lambda: stuck_key.matching_status.matching)
        fillers = _Fillers(session)
        filled = until(lambda: not session.try_put("stuck/a", b"x"))
        fine = session.declare_publisher("fine/a", congestion_control=_BLOCK)
        until(lambda: fine.matching_status.matching)
        refused = 0
        for number in range(size):
            refused += not fine.try_put(f"p{number}")
            refused += not session.try_put("fine/b", f"s{number}")
        blocked = not _puts(fine, size)
        still = not session.try_put("stuck/a", b"x")
        arrived = until(lambda: len(got) >= 3 * size - refused)
        stuck.close()
        fillers.end()
        healthy.close()
    print({"refused": refused, "got": len(got)}, file=sys.stderr)
    return [
        Check("not_filled", float(not filled), 0),
        Check("stuck_one_took_more", float(not still), 0),
        Check("refused_for_another", refused, 0),
        Check("blocked_for_another", float(blocked), 0),
        Check("lost", float(not arrived), 0),
    ]


def _puts(publisher: elea.Publisher, count: int) -> bool:
    """Whether puts that may wait for room get through."""

    def publish() -> None:
        for number in range(count):
            publisher.put(f"w{number}")

    thread = threading.Thread(target=publish, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    return not thread.is_alive()


class _Fillers:
    """Threads that publish to the neighbour that does not read, and wait for room there."""

    def __init__(self, session: elea.Session) -> None:
        self._session = session
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._publish) for _ in range(3)]
        for thread in self._threads:
            thread.start()

    def _publish(self) -> None:
        publisher = self._session.declare_publisher("stuck/a", congestion_control=_BLOCK)
        while not self._stop.is_set():
            publisher.put(_PAYLOAD)

    def end(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
