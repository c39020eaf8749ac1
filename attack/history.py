"""A historian that is asked for the last values of more keys than an answer holds."""

from __future__ import annotations

from typing import Final

from attack.harness import MIB, Check, Target
from attack.users import services

import elea

THREAT: Final = "history"
RSS_GROWTH: Final = 640 * MIB  # an answer of 32 MiB gathered and on its way; pages of the log
SIZES: Final = {"small": 10_000, "full": 30_000}  # keys
SERVICES: Final = services
_PAYLOAD_LEN: Final = 8_192
_ANSWER_LEN: Final = 33 * MIB
_ASKED: Final = 4
_BLOCK: Final = 1_000


def attack(target: Target, size: int) -> list[Check]:
    """Record many keys, and ask for all of them again and again."""
    too_long = untold = 0
    with target.session() as session:
        block = elea.CongestionControl.BLOCK
        for number in range(size):
            session.put(f"fleet/{number:06}", bytes(_PAYLOAD_LEN), congestion_control=block)
            if number % _BLOCK == _BLOCK - 1:
                session.put("fleet/block", "", ack="stored")
        for _ in range(_ASKED):
            length = 0
            cut = False
            for reply in session.get("**", timeout=60):
                if reply.ok is None:
                    cut = True
                else:
                    length += len(reply.ok.payload)
            too_long += length > _ANSWER_LEN
            untold += not cut
    return [Check("too_long", too_long, 0), Check("cut_and_not_told", untold, 0)]
