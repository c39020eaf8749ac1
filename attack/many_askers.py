"""Many askers of a historian, each for all that it has; somebody else asks for one value."""

from __future__ import annotations

import time
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Target, until
from attack.users import services

import elea

THREAT: Final = "many askers"
RSS_GROWTH: Final = 512 * MIB  # pages of the log, and memory that Arrow keeps
SIZES: Final = {"small": 1_000, "full": 20_000}  # keys
SERVICES: Final = services
_PAYLOAD_LEN: Final = 4_096
_BLOCK: Final = 1_000
_ASKERS: Final = 20
_EACH: Final = 3  # heavy questions of each
_OTHERS: Final = 5  # light ones, one after the other
_LATE_S: Final = 5.0


def attack(target: Target, size: int) -> list[Check]:
    """Record, ask for all of it many times at once, and for one value meanwhile."""
    with target.session() as session:
        block = elea.CongestionControl.BLOCK
        for number in range(size):
            session.put(f"fleet/{number:06}", bytes(_PAYLOAD_LEN), congestion_control=block)
            if number % _BLOCK == _BLOCK - 1:
                session.put("fleet/block", "", ack="stored")
    askers = [target.session() for _ in range(_ASKERS)]
    unserved = 0
    worst_s = 0.0
    replies: list[bool] = []
    try:
        for _ in range(_EACH):
            for one in askers:
                one.get("**", lambda reply: replies.append(reply.ok is not None), timeout=60)
        for number in range(_OTHERS):
            with target.session() as other:
                begun_s = time.monotonic()
                found = list(other.get(f"fleet/{number:06}", timeout=PATIENCE_S))
                worst_s = max(worst_s, time.monotonic() - begun_s)
                unserved += [one.ok is not None for one in found] != [True]
        is_answered = until(lambda: any(replies))
    finally:
        for one in askers:
            one.close()
    return [
        Check("others_unserved", unserved, 0),
        Check("askers_unserved", float(not is_answered), 0),
        Check("worst_s", round(worst_s, 2), _LATE_S, timed=True),
    ]
