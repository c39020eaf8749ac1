"""Receipts for acknowledged puts by a client that records nothing, in advance and afterwards."""

from __future__ import annotations

import json
import threading
from typing import Final

from attack.harness import MIB, Check, Target
from attack.users import answers, services

import elea

THREAT: Final = "receipts"
RSS_GROWTH: Final = 96 * MIB
SIZES: Final = {"small": 50, "full": 2_000}  # puts
SERVICES: Final = services
_LOG: Final = "1c9a3b0e-0000-0000-0000-000000000000"
_AHEAD: Final = 50  # numbers that are acknowledged before they are used
_PROOFS: Final = ((), ("",), ("00" * 12,), (0,))  # the last part of a receipt


def attack(target: Target, size: int) -> list[Check]:
    """Tell a publisher that its samples are stored, elsewhere and before they are."""
    believed = 0
    done = threading.Event()
    with target.session() as victim, target.session() as mallory:
        forging = threading.Thread(target=_forge, args=(mallory, str(victim.zid()), size, done))
        forging.start()
        try:
            for number in range(size):
                acknowledged = victim.put("fleet/victim", str(number), ack="stored", timeout=60)
                believed += _LOG in repr(acknowledged)
        finally:
            done.set()
            forging.join()
        last = answers(victim, "fleet/victim")
    return [
        Check("believed", believed, 0),
        Check("acknowledged_and_lost", float(last != [str(size - 1).encode()]), 0),
    ]


def _forge(mallory: elea.Session, zid: str, size: int, done: threading.Event) -> None:
    while not done.wait(0.005):
        for eid in range(3):
            for proof in _PROOFS:
                for first in range(0, size, _AHEAD):
                    stored = [[eid, sn, 0, sn, *proof] for sn in range(first, first + _AHEAD)]
                    told = json.dumps({"log": _LOG, "name": "all", "stored": stored})
                    mallory.put(f"@elea/log/all/stored/{zid}", told)
                    if done.is_set():
                        return
