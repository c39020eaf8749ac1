"""Questions in SQL that want all memory, or all time: each costs its asker an error.

And one asker asks more of them at once than there are places: others are answered meanwhile.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Target

import elea

THREAT: Final = "SQL"
RSS_GROWTH: Final = 96 * MIB
SIZES: Final = {"small": 1, "full": 5}  # times that everything is asked
_SECONDS: Final = 3
_MEMORY_MB: Final = 64
_CHILD_LEN: Final = 600 * MIB  # twice its memory, a slack, and what Arrow and DuckDB are themselves
_AT_ONCE: Final = 40  # questions of one asker, which are more than there are places
_OTHERS: Final = 5  # sessions that ask meanwhile
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
        with target.session() as one, target.session() as two, target.session() as other:
            for _ in range(size):
                for bomb in _BOMBS:  # of two askers, so that they occupy both processes
                    pair = [
                        hostile.get("@sql/lake", payload=bomb, timeout=60) for hostile in (one, two)
                    ]
                    unserved += not _works(other)
                    for asked in pair:
                        [reply] = list(asked)
                        answered += reply.ok is not None
                        text = "" if reply.err is None else reply.err.payload.to_string()
                        unnamed += not ("memory_mb" in text or "seconds" in text)
            unserved += _hog(target)
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


def _hog(target: Target) -> int:
    """How many others are not answered while one asker asks for more than all places."""
    with target.session() as greedy:
        asked = [
            greedy.get("@sql/lake", payload=_BOMBS[-1], timeout=PATIENCE_S) for _ in range(_AT_ONCE)
        ]
        unserved = 0
        for _ in range(_OTHERS):
            with target.session() as other:
                unserved += not _works(other)
        del asked
    return unserved
