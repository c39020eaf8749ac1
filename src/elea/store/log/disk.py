"""Disk: all that a log asks of a file system, and the one that the operating system gives.

Names are relative to the log's directory, at most one directory deep, and made of numbers and fixed
words: no key and no name of a user ever becomes a path without being checked here. Tests put a disk
in its place that loses, tears, reorders, flips and refuses.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import re
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from elea.errors import StoreError

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
ANOTHER: Final = "another process"
_MODE: Final = 0o640
_DIRECTORY_MODE: Final = 0o750


class File(Protocol):
    """An open file that is written to."""

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Write at a place; all of it, or OSError."""

    def truncate(self, length: int) -> None:
        """Cut, or fill up with zeros."""

    def sync(self) -> None:
        """Return when all that was written survives a loss of power; OSError: nobody knows."""

    def close(self) -> None:
        """No more of it."""


class Disk(Protocol):
    """The file system below one directory."""

    def make_directory(self, name: str) -> None:
        """A directory that may exist already."""

    def names(self, directory: str) -> list[str]:
        """What is in a directory, sorted; nothing if it does not exist."""

    def open(self, name: str) -> File:
        """A file to write to, made if it does not exist."""

    def map(self, name: str) -> pa.Buffer:
        """The octets of a file as it is now, without copying; FileNotFoundError."""

    def read(self, name: str, offset: int) -> bytes:
        """The octets of a file from a place on; FileNotFoundError."""

    def size(self, name: str) -> int:
        """How long a file is; FileNotFoundError."""

    def modified_ns(self, name: str) -> int:
        """When a file was written last, in nanoseconds since 1970."""

    def rename(self, old: str, new: str) -> None:
        """In one step, in place of what was there."""

    def remove(self, name: str) -> None:
        """A file that may be gone already."""

    def sync_directory(self, name: str) -> None:
        """Return when names made, changed and removed there survive a loss of power."""

    def space(self) -> tuple[int, int]:
        """The octets of the disk, and how many are free for us."""

    def lock(self) -> File | None:
        """Keep other writers out; None: there is one."""

    def lock_holder(self) -> str:
        """Which process has the lock, for people; at least that it is another one."""

    def has_file(self, name: str, file: File) -> bool:
        """Whether an open file is the one of this name, by the path that the log was opened with.

        False once it, or a directory above it, was deleted, renamed or replaced.
        """


def parts_of(name: str) -> tuple[str, str]:
    """Directory and file of a name.

    Raises:
        StoreError: it is not one that a log may use.
    """
    directory, _, file = name.rpartition("/")
    if (directory and not _NAME.match(directory)) or not _NAME.match(file):
        raise StoreError(
            f"saw the name {name!a} of a file; legal are letters, digits, '.', '_' and '-'"
        )
    return directory, file


class RealDisk:
    """A directory of the operating system. Symbolic links below it are not followed."""

    __slots__ = ("_directories", "_root")

    def __init__(self, root: Path, *, writable: bool) -> None:
        self._directories: dict[str, int] = {}
        self._root = os.path.abspath(root)  # the process may change its directory
        if writable:
            root.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
        self._directories[""] = os.open(root, os.O_RDONLY | os.O_DIRECTORY)

    def close(self) -> None:
        """Give the directories back."""
        while self._directories:
            os.close(self._directories.popitem()[1])

    def __del__(self) -> None:
        self.close()

    def make_directory(self, name: str) -> None:
        parts_of(name)
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, _DIRECTORY_MODE, dir_fd=self._directories[""])

    def names(self, directory: str) -> list[str]:
        # By a descriptor of its own: all who list by one share the place they have come to.
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            descriptor = os.open(".", flags, dir_fd=self._directory(directory))
        except FileNotFoundError:
            return []
        try:
            return sorted(os.listdir(descriptor))
        finally:
            os.close(descriptor)

    def open(self, name: str) -> File:
        return RealFile(self._open(name, os.O_RDWR | os.O_CREAT))

    def map(self, name: str) -> pa.Buffer:
        descriptor = self._open(name, os.O_RDONLY)
        try:
            if os.fstat(descriptor).st_size == 0:
                return pa.py_buffer(b"")
            return pa.py_buffer(mmap.mmap(descriptor, 0, prot=mmap.PROT_READ))
        finally:
            os.close(descriptor)

    def read(self, name: str, offset: int) -> bytes:
        with os.fdopen(self._open(name, os.O_RDONLY), "rb") as file:
            file.seek(offset)
            return file.read()

    def size(self, name: str) -> int:
        return self._stat(name).st_size

    def modified_ns(self, name: str) -> int:
        return self._stat(name).st_mtime_ns

    def rename(self, old: str, new: str) -> None:
        (from_directory, from_file), (to_directory, to_file) = parts_of(old), parts_of(new)
        os.rename(
            from_file,
            to_file,
            src_dir_fd=self._directory(from_directory),
            dst_dir_fd=self._directory(to_directory),
        )

    def remove(self, name: str) -> None:
        directory, file = parts_of(name)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file, dir_fd=self._directory(directory))

    def sync_directory(self, name: str) -> None:
        os.fsync(self._directory(name))

    def space(self) -> tuple[int, int]:
        found = os.fstatvfs(self._directories[""])
        return found.f_frsize * found.f_blocks, found.f_frsize * found.f_bavail

    def lock(self) -> File | None:
        file = RealFile(self._open("lock", os.O_RDWR | os.O_CREAT))
        try:
            fcntl.flock(file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            return None
        return file

    def lock_holder(self) -> str:
        try:
            found = os.stat("lock", dir_fd=self._directories[""])
            text = Path("/proc/locks").read_text(encoding="ascii")
        except OSError:  # not every system tells
            return ANOTHER
        place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        holders = re.findall(rf"\bFLOCK +\w+ +WRITE +([1-9][0-9]*) +{place} ", text)
        return f"{ANOTHER} ({holders[0]})" if holders else ANOTHER

    def has_file(self, name: str, file: File) -> bool:
        assert isinstance(file, RealFile)
        try:
            ours = os.fstat(file.descriptor)
            named = os.stat(f"{self._root}/{name}", follow_symlinks=False)
        except OSError:
            return False
        return (ours.st_ino, ours.st_dev) == (named.st_ino, named.st_dev)

    def _directory(self, name: str) -> int:
        found = self._directories.get(name)
        if found is None:
            parts_of(name)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            opened = os.open(name, flags, dir_fd=self._directories[""])
            found = self._directories.setdefault(name, opened)
            if found != opened:  # another thread was faster
                os.close(opened)
        return found

    def _open(self, name: str, flags: int) -> int:
        directory, file = parts_of(name)
        flags |= os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(file, flags, _MODE, dir_fd=self._directory(directory))

    def _stat(self, name: str) -> os.stat_result:
        directory, file = parts_of(name)
        return os.stat(file, dir_fd=self._directory(directory), follow_symlinks=False)


class RealFile:
    """A descriptor."""

    __slots__ = ("descriptor",)

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def write(self, offset: int, data: bytes | memoryview) -> None:
        view = memoryview(data)
        while view:
            count = os.pwrite(self.descriptor, view, offset)
            offset += count
            view = view[count:]

    def truncate(self, length: int) -> None:
        os.ftruncate(self.descriptor, length)

    def sync(self) -> None:
        os.fdatasync(self.descriptor)

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
