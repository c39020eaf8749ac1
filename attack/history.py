"""A historian that is asked for the last values of more keys than an answer holds."""

from __future__ import annotations

import threading
from typing import Final

from attack.harness import MIB, Check, Target, until
from attack.users import services

import elea

THREAT: Final = "history"
RSS_GROWTH: Final = 384 * MIB  # pages of the log, and memory that Arrow keeps
SIZES: Final = {"small": 10_000, "full": 30_000}  # keys
SERVICES: Final = services
_PAYLOAD_LEN: Final = 8_192
_ANSWER_LEN: Final = 33 * MIB
_ASKED: Final = 4
_OWN_LEN: Final = 192 * MIB  # six times what an answer may be: gathered, encoded, on its way
_BLOCK: Final = 1_000
_LEFT: Final = 60


def attack(target: Target, size: int) -> list[Check]:
    """Record many keys, and ask for all of them again and again."""
    too_long = untold = 0
    most = 0
    done = threading.Event()

    def look() -> None:
        nonlocal most
        while not done.wait(0.01):
            most = max(most, target.own_len())

    watch = threading.Thread(target=look, daemon=True)
    with target.session() as session:
        block = elea.CongestionControl.BLOCK
        for number in range(size):
            session.put(f"fleet/{number:06}", bytes(_PAYLOAD_LEN), congestion_control=block)
            if number % _BLOCK == _BLOCK - 1:
                session.put("fleet/block", "", ack="stored")
        base = target.own_len()
        watch.start()
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
    done.set()
    watch.join()
    return [
        Check("too_long", too_long, 0),
        Check("cut_and_not_told", untold, 0),
        Check("held_mib", round((most - base) / MIB, 1), _OWN_LEN / MIB),
        Check("abandoned_and_not_ended", float(not _leaves(target)), 0),
    ]


def _leaves(target: Target) -> bool:
    """Ask many times and leave at once; whether others are answered then."""
    with target.session() as hasty:
        for _ in range(_LEFT):
            hasty.get("**", timeout=60)
    with target.session() as session:
        return until(lambda: any(one.ok for one in session.get("fleet/000001", timeout=20)))
