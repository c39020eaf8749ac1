"""Named crash points and counters of rare events: hooks that do nothing unless they are asked to.

`ELEA_CRASH=log.after_write:17` kills the process, as `kill -9` does, when the point of that name is
reached for the 17th time. A test that is to hit every window between two effects goes through
`POINTS`; a campaign that is to meet every rare event asks `seen`.

Where several processes are one program, as with Spark, nobody inside can kill all of them. With
`ELEA_CRASH_HOLD=DIR` the first process that comes to a point whose name is a file in DIR takes that
file, which is then called `NAME.PID`, and stops. Whoever made the file sees that, and kills.
"""

from __future__ import annotations

import os
import signal
from typing import Final

ENVIRONMENT: Final = "ELEA_CRASH"
HOLD: Final = "ELEA_CRASH_HOLD"

# Every point there is, in the order in which a log goes through them.
POINTS: Final = (
    "log.before_open",
    "log.after_lock",
    "log.after_epoch",
    "log.before_cut",
    "log.after_cut",
    "log.before_write",
    "log.after_write",
    "log.after_sync",
    "log.after_index",
    "log.after_segment_created",
    "log.before_seal",
    "log.after_seal",
    "log.before_keys_rename",
    "log.before_pack",
    "log.after_pack_data",
    "log.before_pack_rename",
    "log.after_pack_rename",
    "log.before_unpacked_removed",
    "log.before_trim",
    "log.after_trim_data",
    "log.before_consumer_rename",
)

# The same of a query that writes tables, in the order of a batch; in three different processes.
QUERY_POINTS: Final = (
    "query.before_offsets",
    "query.after_offsets",
    "table.before_files",
    "table.after_files",
    "table.before_commit",
    "table.after_commit",
)


class _Armed:
    """Which point ends the process, and after how many times."""

    __slots__ = ("left", "name")

    def __init__(self, text: str) -> None:
        name, _, count = text.partition(":")
        self.name = name or None
        self.left = int(count) if count.isdecimal() else 1


_armed: Final = _Armed(os.environ.get(ENVIRONMENT, ""))
_holds: Final = os.environ.get(HOLD)
_seen: Final[dict[str, int]] = {}


def point(name: str) -> None:
    """End the process here, if the environment says so."""
    if name == _armed.name:
        _armed.left -= 1
        if _armed.left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
    if _holds is not None:
        _hold(_holds, name)


def _hold(directory: str, name: str) -> None:
    path = os.path.join(directory, name)
    try:
        os.rename(path, f"{path}.{os.getpid()}")
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGSTOP)


def sometimes(name: str) -> None:
    """Count an event that a campaign has to meet at least once."""
    _seen[name] = _seen.get(name, 0) + 1


def seen() -> dict[str, int]:
    """How often each event of `sometimes` happened in this process."""
    return dict(_seen)
