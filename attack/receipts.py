"""Receipts for acknowledged puts by a client that records nothing, before and after they are asked for."""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Final

from attack.harness import MIB, Check, Target, until

import elea
from elea.errors import AckTimeoutError

THREAT: Final = "receipts"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 5, "full": 50}  # puts that nothing records
_LOG: Final = "1c9a3b0e-0000-0000-0000-000000000000"
_NUMBERS: Final = 50
_TIMEOUT_S: Final = 1.0
_PROOFS: Final = (None, "", "00" * 12, 0)


def attack(target: Target, size: int) -> list[Check]:
    """Tell a publisher that its samples are stored, while no recorder is there."""
    believed = 0
    done = threading.Event()
    with target.session() as victim, target.session() as mallory:
        seen = mallory.declare_subscriber("receipts/**")
        forging = threading.Thread(target=_forge, args=(mallory, str(victim.zid()), done))
        forging.start()
        try:
            for number in range(size):
                with contextlib.suppress(AckTimeoutError):
                    victim.put(f"receipts/{number}", "x", ack="stored", timeout=_TIMEOUT_S)
                    believed += 1
            published = until(lambda: seen.try_recv() is not None)
        finally:
            done.set()
            forging.join()
    return [
        Check("believed", believed, 0),
        Check("nothing_published", float(not published), 0),
    ]


def _forge(mallory: elea.Session, zid: str, done: threading.Event) -> None:
    while not done.wait(0.005):
        for eid in range(4):
            for proof in _PROOFS:
                stored = [
                    [eid, sn, 0, sn, proof][: 5 if proof is not None else 4]
                    for sn in range(_NUMBERS)
                ]
                told = json.dumps({"log": _LOG, "name": "all", "stored": stored})
                mallory.put(f"@elea/log/all/stored/{zid}", told)
