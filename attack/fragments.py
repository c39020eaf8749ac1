"""T05: fragments of messages that never end, on every priority of many sessions."""

from __future__ import annotations

from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

from elea.wire.batches import encode_batch
from elea.wire.transport.fragment import Fragment

THREAT: Final = "T05"
RSS_GROWTH: Final = 300 * MIB
SIZES: Final = {"small": 3, "full": 100}  # sessions; each fills what one may hold
_PIECE_LEN: Final = 40_000
_SESSION_LEN: Final = 80 * MIB  # more than the 64 MiB that one session may hold
_SMALL_LEN: Final = 8 * MIB
_PRIORITIES: Final = range(1, 8)


def attack(target: Target, size: int) -> list[Check]:
    total = _SMALL_LEN if size == SIZES["small"] else _SESSION_LEN
    sessions = []
    for _ in range(size):
        raw = Raw.connect(target.port)
        sessions.append(raw)
        numbers = dict.fromkeys(_PRIORITIES, raw.sn)
        for piece in range(total // _PIECE_LEN):
            priority = _PRIORITIES[piece % len(_PRIORITIES)]
            sn = numbers[priority]
            numbers[priority] = (sn + 1) & raw.mask
            fragment = Fragment(
                sn, bytes(_PIECE_LEN), more=True, priority=priority, first=sn == raw.sn
            )
            raw.send_batch(encode_batch([fragment]))
            if raw.closed:
                break
    peak = target.rss_len()
    for raw in sessions:
        raw.close()
    gone = until(lambda: target.counter("elea_sessions", whatami="client") <= 3)
    return [
        Check("rss_peak_mib", peak / MIB, 400),
        Check("sessions_left", float(not gone), 0),
    ]
