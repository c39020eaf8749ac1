"""ShardWriter: the end of one shard, where rows are appended.

One block at a time: written, made durable, and only then told in the index. So a record of the
index says that its block was durable once; and when a block is whole, all before it were durable.
"""

from __future__ import annotations

import contextlib
import errno
from typing import Final

from elea import crash
from elea.errors import StoreError
from elea.store.log import block
from elea.store.log.disk import Disk, File
from elea.store.log.head import HEAD, Head
from elea.store.log.record import RECORD_LEN, Record
from elea.store.log.segment import DATA, INDEX, directory_of, stem_of
from elea.store.log.settings import LogSettings
from elea.store.log.single import Rows

# After a small block zeros are written where the next ones go: to synchronise octets of a file that
# does not grow takes a quarter less time. To Arrow they are the end of the stream.
_SMALL_LEN: Final = 8 * 1024
_AHEAD_LEN: Final = 64 * 1024
_ZEROS: Final = bytes(_AHEAD_LEN)
_NS: Final = 1_000_000_000
_APPENDED_MAX: Final = 0xFFFF_FFFF


class ShardWriter:
    """Appends blocks to the last segment of a shard, and begins the next one.

    Args:
        next_seq: The number of the next row.
        first_seq: Of the segment to go on with; None: the next row begins a new one.
        data_len: What that one has, in octets; 0: not even its schema,
        blocks_count: and in blocks.
        began_ns: When its first row came.
        head: How segments begin.
    """

    __slots__ = (
        "_ahead",
        "_began_ns",
        "_blocks_count",
        "_data",
        "_disk",
        "_entry",
        "_epoch",
        "_head",
        "_index",
        "_pending",
        "_seed",
        "_settings",
        "data_len",
        "first_seq",
        "newest_seq",
        "next_seq",
        "sealed",
        "shard",
    )

    def __init__(
        self,
        disk: Disk,
        shard: int,
        seed: int,
        epoch: int,
        settings: LogSettings,
        *,
        next_seq: int,
        first_seq: int | None,
        data_len: int,
        blocks_count: int,
        began_ns: int,
        head: Head = HEAD,
    ) -> None:
        self._disk = disk
        self._head = head
        self._seed = seed
        self._epoch = epoch
        self._settings = settings
        self.shard = shard
        self.next_seq = next_seq
        self.first_seq = next_seq if first_seq is None else first_seq
        self.data_len = data_len
        self._blocks_count = blocks_count
        self._began_ns = began_ns
        self._ahead = 0  # where the zeros that were written end
        self._data: File | None = None
        self._index: File | None = None
        self._pending: Record | None = None
        self._entry = b""  # what the index will say of it
        self.sealed: list[int] = []  # segments that were closed since somebody asked
        self.newest_seq = self.first_seq  # the first row of the newest segment there is
        if first_seq is not None or next_seq > 0:
            self._open()

    @property
    def stem(self) -> str:
        """The name of the segment."""
        return stem_of(self.shard, self.first_seq)

    def write(self, rows: Rows, now_ns: int) -> Record:
        """Write a block. It is not durable, and nobody sees it."""
        assert self._pending is None, "one block at a time"
        if self.is_due(now_ns):
            self.seal()
        if self._data is None:
            self._begin(now_ns)
        assert self._data is not None
        if not self._blocks_count:
            self._began_ns = now_ns
        data, record, self._entry = block.encode(
            *(rows, self.next_seq, self._epoch, self.data_len, self._seed),
            self._settings.compression,
            self._head,
            appended_s=min(max(now_ns // _NS, 0), _APPENDED_MAX),
        )
        crash.point("log.before_write")
        try:
            self._data.write(self.data_len, data)
        except OSError:
            # Whatever is there of it is no block, and the next one is written over it.
            with contextlib.suppress(OSError):
                self._cut(self._data)
            raise
        if len(data) <= _SMALL_LEN and record.end > self._ahead:
            with contextlib.suppress(OSError):  # no room, and none is needed
                self._data.write(record.end, _ZEROS)
                self._ahead = record.end + _AHEAD_LEN
        block.recycle(data)
        crash.point("log.after_write")
        self._pending = record
        return record

    def sync(self) -> None:
        """The block survives a loss of power from here on. An OSError ends the writer."""
        assert self._data is not None
        self._data.sync()
        crash.point("log.after_sync")

    def publish(self) -> Record:
        """Readers may see the block, which is durable."""
        record = self._pending
        assert record is not None
        assert self._index is not None
        self._index.write(self._blocks_count * RECORD_LEN, self._entry)
        crash.point("log.after_index")
        self._pending = None
        self._blocks_count += 1
        self.data_len = record.end
        self.next_seq = record.end_seq
        return record

    def check_linked(self) -> None:
        """Whether what was written can be found by its name.

        Raises:
            OSError: a file was deleted, renamed or replaced, and with it what was acknowledged.
        """
        for file, kind in ((self._data, DATA), (self._index, INDEX)):
            if file is not None and not self._disk.has_file(self.stem + kind, file):
                reason = f"{self.stem}{kind} was deleted, renamed or replaced"
                raise FileNotFoundError(errno.ENOENT, reason)

    def withdraw(self) -> None:
        """The block is not to be: another shard had no room for its part of the rows.

        It is whole, so that it has to be gone from the disk before anybody is told that it is.
        """
        if self._pending is not None:
            assert self._data is not None
            self._cut(self._data)
            self._data.sync()
            self._pending = None

    def is_due(self, now_ns: int) -> bool:
        """Whether the segment is long or old enough to be closed."""
        if self._data is None or not self._blocks_count:
            return False
        # The clock may have been set back: what began in the future is closed, too.
        if abs(now_ns - self._began_ns) >= self._settings.segment_age_ns:
            return True
        return self.data_len >= self._settings.segment_len

    def seal(self) -> None:
        """Close the segment: its index is durable, too."""
        if self._data is None or self._index is None:
            return
        crash.point("log.before_seal")
        self._index.sync()
        crash.point("log.after_seal")
        self.close()
        if self._blocks_count:
            self.sealed.append(self.first_seq)
            self.first_seq = self.next_seq
            self.data_len = 0
            self._blocks_count = 0

    def roll(self, now_ns: int) -> None:
        """Close the segment if it has rows, and begin the next one."""
        if self._blocks_count:
            self.seal()
            self._begin(now_ns)

    def close(self, *, is_owner: bool = True) -> None:
        """Close the files.

        Args:
            is_owner: Whether the lock is held: otherwise another writer may have appended, and
                nothing is cut.
        """
        has_zeros = self._data is not None and self._pending is None and self._ahead > self.data_len
        if self._data is not None and has_zeros and is_owner:
            with contextlib.suppress(OSError):  # zeros do no harm
                self._cut(self._data)
        for file in (self._data, self._index):
            if file is not None:
                file.close()
        self._data = self._index = None

    def _cut(self, data: File) -> None:
        self._ahead = 0
        data.truncate(self.data_len)

    def _begin(self, now_ns: int) -> None:
        """A new segment: its name is durable before any block in it is acknowledged."""
        self._began_ns = now_ns
        self.data_len = self._ahead = 0
        self._open()
        self.newest_seq = self.first_seq
        crash.point("log.after_segment_created")

    def _open(self) -> None:
        data = self._disk.open(self.stem + DATA)
        index = self._disk.open(self.stem + INDEX)
        if self.data_len < len(self._head):
            try:
                data.truncate(0)
                index.truncate(0)
                data.write(0, self._head.octets)
                self._disk.sync_directory(directory_of(self.shard))
            except BaseException:
                data.close()
                index.close()
                raise
            self.data_len = len(self._head)
        self._data, self._index = data, index


def room(used_len: int, space: tuple[int, int], settings: LogSettings) -> int:
    """Return how many more bytes may be written; a negative number: too many are there."""
    total, free = space
    on_disk = int(free - total * settings.low_water_percent / 100)
    quota = settings.quota_len
    return on_disk if quota is None else min(quota - used_len, on_disk)


def refusal(
    used_len: int, more: int, space: tuple[int, int], settings: LogSettings
) -> StoreError | None:
    """Why so many more octets are not written, if they are not."""
    quota = settings.quota_len
    if quota is not None and used_len + more > quota:
        return StoreError(
            f"the log has {used_len} octets and {more} more are asked for, the quota is {quota};"
            " raise the quota, or retain less"
        )
    total, free = space
    if free - more < total * settings.low_water_percent / 100:
        return StoreError(
            f"{free} of {total} octets of the disk are free, {more} are asked for and"
            f" {settings.low_water_percent:g} % are to stay free; make room on the disk, or lower"
            " low_water_percent where the configuration sets it"
        )
    return None
