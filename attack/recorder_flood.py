"""More puts at once than a recorder may keep waiting: each is stored, or refused at once."""

from __future__ import annotations

from typing import Final

from attack.harness import MIB, Check, Target, until
from attack.users import answers, services

THREAT: Final = "queues of a recorder"
RSS_GROWTH: Final = 384 * MIB  # record_waiting_len, and pages of the log
SIZES: Final = {"small": 4_000, "full": 40_000}  # puts
SERVICES: Final = services
_PAYLOAD: Final = bytes(32 * 1024)
_AT_ONCE: Final = 1_000  # of one client, as many as a router lets be open


def attack(target: Target, size: int) -> list[Check]:
    """Ask without waiting for answers."""
    unanswered = stored = 0
    with target.session() as session:
        for first in range(0, size, _AT_ONCE):
            asked = [
                session.get(f"@elea/log/all/put/fleet/{first + one}", payload=_PAYLOAD, timeout=60)
                for one in range(_AT_ONCE)
            ]
            for one in asked:
                replies = list(one)
                unanswered += not replies
                stored += any(reply.ok is not None for reply in replies)
        works = until(lambda: answers(session, "@elea/log/all/put/fleet/last", payload=b"x"))
    return [
        Check("unanswered", unanswered, 0),
        Check("none_stored", float(stored == 0), 0),
        Check("stuck", float(not works), 0),
    ]
