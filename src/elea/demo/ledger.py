"""Ledger: every sample that a fleet sent, by its identity, and whether its storing was confirmed.

A file of lines, written by the fleet and read by who holds it against the tables: neither recorder
nor pipeline have a part in it.
"""

from __future__ import annotations

import csv
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from elea.errors import StoreError

SENT: Final = "sent"  # and nobody was asked whether it is stored
STORED: Final = "stored"  # a recorder has it on disk
WAITING: Final = "waiting"  # on the robot's own disk
REFUSED: Final = "refused"
_STATES: Final = (SENT, STORED, WAITING, REFUSED)


class Id(NamedTuple):
    """Which sample of which publisher."""

    zid: str
    eid: int
    sn: int


def numbered_id(key: str, number: int) -> Id:
    """The identity of a sample by its key and the number in its payload.

    Tiny devices and DDS writers do not know as which publisher gateway and bridge present them.
    """
    return Id(key, 0, number)


def ros_id(gid: bytes, number: int) -> Id:
    """The identity of a ROS message: its publisher's gid and sequence number."""
    return Id(gid.hex(), 0, number)


class LedgerWriter:
    """Writes a ledger; several threads may.

    Args:
        path: Its file, which is made.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("x", encoding="utf-8", newline="")
        self._lines = csv.writer(self._file)
        self._lock = threading.Lock()
        self.counts = dict.fromkeys(_STATES, 0)

    def write(self, key: str, ids: Iterable[Id], state: str) -> None:
        """What is known of samples of a key from now on."""
        with self._lock:
            for id in ids:
                self._lines.writerow((key, *id, state))
                self.counts[state] += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._file.close()


@dataclass(slots=True)
class Ledger:
    """What a fleet sent: the key of each sample, and the last that is known of it."""

    keys: dict[Id, str] = field(default_factory=dict)
    states: dict[Id, str] = field(default_factory=dict)
    repeated: list[Id] = field(default_factory=list)  # given to two samples: a defect of the fleet

    @classmethod
    def read(cls, path: Path) -> Self:
        """The ledger of a file.

        Raises:
            StoreError: a line is none.
        """
        made = cls()
        try:
            with path.open(encoding="utf-8", newline="") as lines:
                for number, line in enumerate(csv.reader(lines), 1):
                    try:
                        key, zid, eid, sn, state = line
                        made._take(key, Id(zid, int(eid), int(sn)), state)
                    except ValueError:
                        raise StoreError(f"{path}, line {number}: saw {line!a}") from None
        except OSError as error:
            raise StoreError(f"no ledger: {error}") from error
        return made

    def _take(self, key: str, id: Id, state: str) -> None:
        if state not in _STATES:
            raise ValueError
        if id in self.keys and self.states[id] != WAITING:
            self.repeated.append(id)
        self.keys[id], self.states[id] = key, state

    def count(self, *states: str) -> int:
        """How many samples are in one of some states; all without."""
        return sum(state in states for state in self.states.values()) if states else len(self.keys)
