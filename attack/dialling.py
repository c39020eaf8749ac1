"""Sessions end while they dial many places at once: `close` neither raises nor hangs."""

from __future__ import annotations

import sys
import threading
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Target
from tests.ports import free_port

import elea

THREAT: Final = "closing while dialling"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 20, "full": 500}  # sessions
_PLACES: Final = 24


def attack(target: Target, size: int) -> list[Check]:
    closed = [f"tcp/127.0.0.1:{free_port()}" for _ in range(_PLACES)]
    failures: list[str] = []
    hung = 0
    for _ in range(size):
        session = elea.open(
            {
                "mode": "peer",
                "connect": {
                    "endpoints": [*closed, target.endpoint],
                    "timeout_ms": 0,
                    "exit_on_failure": False,
                    "retry": {"period_init_ms": 1, "period_max_ms": 5},
                },
                "scouting": {"multicast": {"enabled": False}},
            }
        )
        threads = [threading.Thread(target=_close, args=(session, failures)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE_S)
            hung += thread.is_alive()
    for failure in failures[:3]:
        print(failure, file=sys.stderr)
    return [Check("close_raised", len(failures), 0), Check("close_hung", hung, 0)]


def _close(session: elea.Session, failures: list[str]) -> None:
    try:
        session.close()
    except Exception as error:
        failures.append(repr(error))
