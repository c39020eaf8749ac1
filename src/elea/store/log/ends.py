"""Ends: how many rows each shard has acknowledged, in a file outside the shards.

It is written after the block and its record, and before anybody is told that the rows are safe. It
is not synchronised: after a loss of power it may tell of fewer rows than there are, never of more.
After a kill it tells all of them, whatever became of segments and indexes.
"""

from __future__ import annotations

import contextlib
import struct
import uuid
from typing import Final

from elea.store.log.checksum import crc32
from elea.store.log.disk import Disk, File
from elea.store.log.record import seed_of

NAME: Final = "ends"
_END: Final = struct.Struct("<Q")
_SLOT: Final = struct.Struct("<QI4x")  # the number after the last row, and a checksum


def read_ends(disk: Disk, log_id: uuid.UUID, shards_count: int) -> list[int]:
    """The number after the last row of each shard; 0 where nobody wrote it down."""
    try:
        octets = disk.read(NAME, 0)
    except FileNotFoundError:
        octets = b""
    found = []
    for shard in range(shards_count):
        slot = octets[shard * _SLOT.size : (shard + 1) * _SLOT.size]
        end, crc = _SLOT.unpack(slot) if len(slot) == _SLOT.size else (0, 0)
        found.append(end if crc == _crc(end, log_id, shard) else 0)
    return found


class Ends:
    """Writes them down, for one writer."""

    __slots__ = ("_file", "_log_id")

    def __init__(self, disk: Disk, log_id: uuid.UUID) -> None:
        self._log_id = log_id
        self._file: File = disk.open(NAME)

    def note(self, shard: int, end: int) -> None:
        """Rows of a shard are durable, up to before this number."""
        slot = _SLOT.pack(end, _crc(end, self._log_id, shard))
        with contextlib.suppress(OSError):  # no room: what is there is true still
            self._file.write(shard * _SLOT.size, slot)

    def close(self) -> None:
        """No more of them."""
        self._file.close()


def _crc(end: int, log_id: uuid.UUID, shard: int) -> int:
    return crc32(_END.pack(end), seed_of(log_id, shard))
