"""The keys in use, which nodes use them, and how often something is published on them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Final

from elea.operate.admin_space import AdminSpace
from elea.sample import Sample
from elea.session.session import Session

KEYS_COUNT_MAX: Final = 100_000  # keys whose rates are counted; more are told of, not kept


@dataclass(slots=True)
class KeyUse:
    """How one key is used."""

    users: dict[str, dict[str, None]] = field(default_factory=dict)  # ids, by kind
    count: int = 0  # samples while they were counted


def declared_keys(space: AdminSpace, key_expr: str) -> dict[str, KeyUse]:
    """The keys that intersect this one and are declared somewhere."""
    uses: dict[str, KeyUse] = {}
    for source in space.sources(key_expr):
        users = uses.setdefault(source.key, KeyUse()).users.setdefault(source.kind, {})
        users.update(dict.fromkeys(source.zids))
    return uses


def count_samples(session: Session, key_expr: str, span_s: float, uses: dict[str, KeyUse]) -> int:
    """Subscribe for a while and add the number of samples of each key.

    Returns:
        How many samples were not counted, because of `KEYS_COUNT_MAX`.
    """
    counts: dict[str, int] = {}
    lock = threading.Lock()
    left_out = 0

    def count(sample: Sample) -> None:
        nonlocal left_out
        key = str(sample.key_expr)
        with lock:
            if key in counts or len(counts) < KEYS_COUNT_MAX:
                counts[key] = counts.get(key, 0) + 1
            else:
                left_out += 1

    with session.declare_subscriber(key_expr, count):
        threading.Event().wait(span_s)
    with lock:
        for key, number in counts.items():
            uses.setdefault(key, KeyUse()).count = number
        return left_out
