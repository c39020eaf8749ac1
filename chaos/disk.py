"""FaultDisk: a disk for logs that keeps what was not synchronised in memory, and fails on request.

What is written is seen at once, as on any operating system, and reaches the platter when it is
synchronised; some of it earlier, in pieces of a sector, in any order. A loss of power is the end of
the object, or of the process: what is on the platter then is what the next one finds. Names are
made, changed and removed in the order of the calls; that reaches the platter with the directory.
"""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import pyarrow as pa

from elea.store.log.disk import ANOTHER, File

SECTOR_LEN = 512


class PowerLossError(BaseException):
    """The power is gone. Nothing between here and the next start may catch it."""


class Platter(Protocol):
    """What survives: numbered contents, and names for some of them."""

    def load(self) -> dict[str, tuple[int, bytes]]: ...
    def write(self, inode: int, offset: int, data: bytes) -> None: ...
    def resize(self, inode: int, length: int) -> None: ...
    def link(self, name: str, inode: int) -> None: ...
    def unlink(self, name: str) -> None: ...


class MemoryPlatter:
    """In this process."""

    def __init__(self) -> None:
        self.contents: dict[int, bytearray] = {}
        self.names: dict[str, int] = {}

    def load(self) -> dict[str, tuple[int, bytes]]:
        return {
            name: (inode, bytes(self.contents.get(inode, b"")))
            for name, inode in self.names.items()
        }

    def write(self, inode: int, offset: int, data: bytes) -> None:
        content = self.contents.setdefault(inode, bytearray())
        content.extend(bytes(max(offset + len(data) - len(content), 0)))
        content[offset : offset + len(data)] = data

    def resize(self, inode: int, length: int) -> None:
        content = self.contents.setdefault(inode, bytearray())
        del content[length:]
        content.extend(bytes(length - len(content)))

    def link(self, name: str, inode: int) -> None:
        self.contents.setdefault(inode, bytearray())
        self.names[name] = inode

    def unlink(self, name: str) -> None:
        self.names.pop(name, None)


class FilesPlatter:
    """Real files, so that what survives the process is a directory anybody can open."""

    def __init__(self, root: Path, hidden: Path) -> None:
        self._root = root
        self._hidden = hidden
        hidden.mkdir(parents=True, exist_ok=True)
        root.mkdir(parents=True, exist_ok=True)

    def load(self) -> dict[str, tuple[int, bytes]]:
        for file in self._hidden.iterdir():
            file.unlink()
        found = {}
        paths = sorted(path for path in self._root.rglob("*") if path.is_file())
        for inode, path in enumerate(paths):
            os.link(path, self._hidden / str(inode))
            found[path.relative_to(self._root).as_posix()] = (inode, path.read_bytes())
        return found

    def write(self, inode: int, offset: int, data: bytes) -> None:
        descriptor = os.open(self._hidden / str(inode), os.O_WRONLY | os.O_CREAT, 0o644)
        os.pwrite(descriptor, data, offset)
        os.close(descriptor)

    def resize(self, inode: int, length: int) -> None:
        descriptor = os.open(self._hidden / str(inode), os.O_WRONLY | os.O_CREAT, 0o644)
        os.ftruncate(descriptor, length)
        os.close(descriptor)

    def link(self, name: str, inode: int) -> None:
        path = self._root / name
        path.parent.mkdir(exist_ok=True)
        hidden = self._hidden / str(inode)
        hidden.touch()
        fresh = self._hidden / "link"
        fresh.unlink(missing_ok=True)
        os.link(hidden, fresh)
        os.replace(fresh, path)

    def unlink(self, name: str) -> None:
        (self._root / name).unlink(missing_ok=True)


class _Inode:
    """A content as it is seen, and what of it is not on the platter."""

    def __init__(self, number: int, content: bytes) -> None:
        self.number = number
        self.content = bytearray(content)
        self.pending: list[tuple[int, bytes | None]] = []  # None: the length becomes this

    def reach(self, platter: Platter, which: list[tuple[int, bytes | None]]) -> None:
        for place, data in which:
            if data is None:
                platter.resize(self.number, place)
            else:
                platter.write(self.number, place, data)


P = ParamSpec("P")
R = TypeVar("R")


def _alone(
    method: Callable[Concatenate[FaultDisk, P], R],
) -> Callable[Concatenate[FaultDisk, P], R]:
    """One thread at a time: a log has two."""

    def call(self: FaultDisk, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.lock_of_threads:
            return method(self, *args, **kwargs)

    return call


class FaultDisk:
    """A disk whose power, room and honesty can be taken away.

    Args:
        platter: What survives.
        rng: Decides what reaches it early.
        leak: How probable it is, at each write, that something does.

    Attributes:
        steps_left: So many calls that change something until the power is lost.
        sync_errors: So many synchronisations to come that fail, and lose what they should keep.
        free_len: Octets that may still be written.
        lies: Whether synchronising does nothing at all, which no log survives: a canary for tests.
    """

    def __init__(self, platter: Platter, rng: random.Random, leak: float = 0.2) -> None:
        self._platter = platter
        self._rng = rng
        self._leak = leak
        self._names: dict[str, _Inode] = {}
        for name, (number, content) in platter.load().items():
            self._names[name] = _Inode(number, content)
        self._inodes_count = 1 + max((one.number for one in self._names.values()), default=0)
        self._directory_changes: dict[str, list[tuple[str, _Inode | None]]] = {}
        self._open: list[_Inode] = [*self._names.values()]
        self.steps_left: int | None = None
        self.sync_errors = 0
        self.free_len = 1 << 40
        self.lies = False
        self.lock_of_threads = threading.RLock()

    @_alone
    def lose_power(self) -> None:
        """Some of what was not synchronised is on the platter, the rest is gone."""
        for inode in self._open:
            inode.reach(self._platter, [one for one in inode.pending if self._rng.random() < 0.5])
        for changes in self._directory_changes.values():
            self._apply(changes[: self._rng.randint(0, len(changes))])

    def step(self) -> None:
        """Something is about to change."""
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left <= 0:
                self.lose_power()
                raise PowerLossError

    def make_directory(self, name: str) -> None:
        """Directories are just there."""

    @_alone
    def names(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        return sorted(
            name.removeprefix(prefix)
            for name in self._names
            if name.startswith(prefix) and "/" not in name.removeprefix(prefix)
        )

    @_alone
    def open(self, name: str) -> File:
        if name not in self._names:
            self.step()
            inode = _Inode(self._inodes_count, b"")
            self._inodes_count += 1
            self._open.append(inode)
            self._names[name] = inode
            self._change(name, inode)
        return _FaultFile(self, self._names[name])

    def map(self, name: str) -> pa.Buffer:
        return pa.py_buffer(self.read(name, 0))

    @_alone
    def read(self, name: str, offset: int) -> bytes:
        if name not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", name)
        return bytes(self._names[name].content[offset:])

    def size(self, name: str) -> int:
        return len(self.read(name, 0))

    def modified_ns(self, name: str) -> int:
        return 0

    @_alone
    def rename(self, old: str, new: str) -> None:
        self.step()
        inode = self._names.pop(old)
        self._names[new] = inode
        self._change(new, inode)
        self._change(old, None)

    @_alone
    def remove(self, name: str) -> None:
        if name in self._names:
            self.step()
            del self._names[name]
            self._change(name, None)

    @_alone
    def sync_directory(self, name: str) -> None:
        self.step()
        if not self.lies:
            self._apply(self._directory_changes.pop(name, []))

    def space(self) -> tuple[int, int]:
        return 1 << 40, 1 << 40

    def lock(self) -> File | None:
        return _FaultFile(self, _Inode(-1, b""))

    def lock_holder(self) -> str:
        return ANOTHER

    def has_file(self, name: str, file: File) -> bool:
        return True

    @_alone
    def write(self, inode: _Inode, offset: int, data: bytes) -> None:
        self.step()
        room = data[: self.free_len]
        self.free_len -= len(room)
        for place, sector in _sectors(offset, room):
            inode.pending.append((place, sector))
        inode.content.extend(bytes(max(offset + len(room) - len(inode.content), 0)))
        inode.content[offset : offset + len(room)] = room
        if self._rng.random() < self._leak:
            # Not forgotten: writing the same again, later, changes nothing.
            some = [one for one in inode.pending if self._rng.random() < 0.5]
            if all(data is not None for _, data in inode.pending):
                inode.reach(self._platter, some)
        if len(room) < len(data):
            raise OSError(errno.ENOSPC, "no space left on device")

    @_alone
    def truncate(self, inode: _Inode, length: int) -> None:
        self.step()
        del inode.content[length:]
        inode.content.extend(bytes(length - len(inode.content)))
        inode.pending.append((length, None))

    @_alone
    def sync(self, inode: _Inode) -> None:
        self.step()
        if self.sync_errors:
            self.sync_errors -= 1
            inode.pending = [one for one in inode.pending if self._rng.random() < 0.3]
            inode.reach(self._platter, inode.pending)
            inode.pending.clear()
            raise OSError(errno.EIO, "input/output error")
        if not self.lies:
            inode.reach(self._platter, inode.pending)
            inode.pending.clear()

    def _change(self, name: str, inode: _Inode | None) -> None:
        directory = name.rpartition("/")[0]
        self._directory_changes.setdefault(directory, []).append((name, inode))

    def _apply(self, changes: list[tuple[str, _Inode | None]]) -> None:
        for name, inode in changes:
            if inode is None:
                self._platter.unlink(name)
            else:
                self._platter.link(name, inode.number)


class _FaultFile:
    def __init__(self, disk: FaultDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode

    def write(self, offset: int, data: bytes | memoryview) -> None:
        self._disk.write(self._inode, offset, bytes(data))

    def truncate(self, length: int) -> None:
        self._disk.truncate(self._inode, length)

    def sync(self) -> None:
        self._disk.sync(self._inode)

    def close(self) -> None:
        """What was written stays where it is."""


def _sectors(offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
    while data:
        count = SECTOR_LEN - offset % SECTOR_LEN
        yield offset, data[:count]
        offset += count
        data = data[count:]
