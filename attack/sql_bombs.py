"""Questions in SQL that want all memory, or all time: each costs its asker an error."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from attack.harness import MIB, Check, Target

import elea

THREAT: Final = "SQL"
RSS_GROWTH: Final = 96 * MIB
SIZES: Final = {"small": 1, "full": 5}  # times that everything is asked
_SECONDS: Final = 3
_MEMORY_MB: Final = 64
_CHILD_LEN: Final = 600 * MIB  # twice its memory, a slack, and what Arrow and DuckDB are themselves
_BOMBS: Final = (
    "select damerau_levenshtein(repeat('a', 30000), repeat('b', 30000))",
    "select len(range(300000000))",
    "select list_sort(list_transform(range(3000000), lambda x: repeat('z', 500)))[1]",
    "select length(repeat(repeat('x', 1000000), 3000))",
    "select format('{:>2000000000}', 'x')",
    "select repeat('x', 30000000) from range(100)",
    "select levenshtein(repeat('a', 1000000), repeat('b', 1000000))",
)


def services(folder: Path, port: int) -> dict[str, object]:
    """A router that is asked about no table."""
    tables = folder / "lake"
    tables.mkdir()
    bounds = {"seconds": _SECONDS, "memory_mb": _MEMORY_MB}
    return {"plugins/sql": {"tables": str(tables), **bounds}}


SERVICES: Final = services


def attack(target: Target, size: int) -> list[Check]:
    """Ask, two at a time, and look whether others are answered."""
    answered = unnamed = unserved = 0
    most = 0
    done = threading.Event()

    def look() -> None:
        nonlocal most
        while not done.wait(0.02):
            most = max(most, target.children_len())

    watch = threading.Thread(target=look)
    watch.start()
    try:
        with target.session() as session:
            for _ in range(size):
                for bomb in _BOMBS:
                    pair = [session.get("@sql/lake", payload=bomb, timeout=60) for _ in range(2)]
                    unserved += not _works(session)
                    for one in pair:
                        [reply] = list(one)
                        answered += reply.ok is not None
                        text = "" if reply.err is None else reply.err.payload.to_string()
                        unnamed += not ("memory_mb" in text or "seconds" in text)
    finally:
        done.set()
        watch.join()
    return [
        Check("answered", answered, 0),
        Check("limit_not_named", unnamed, 0),
        Check("others_unserved", unserved, 0),
        Check("child_mib", most / MIB, _CHILD_LEN / MIB),
    ]


def _works(session: elea.Session) -> bool:
    replies = list(session.get("@sql/lake", payload="select 1", timeout=60))
    return len(replies) == 1 and replies[0].ok is not None
