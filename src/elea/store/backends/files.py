"""The volume `fs`: one file per value, below one directory, to be read by people too.

    <root>/<dir>/robot/7/pose=      the value of robot/7/pose

A file is one line that describes the value, and then its octets as they are; an attachment follows:

    elea-value 1 <crc32> {"key": "robot/7/pose", "timestamp": ..., "encoding": ..., "len": 12}
    {"x": 1.25}

A key is text from the network, so it never becomes a path as it is (T40): each chunk is written
with letters, digits, `_`, `-`, `~` and `.` alone, all else as `%` and two digits, and what is too
long as a hash. Each step is taken from a directory that is open, and no link is followed. A file is
written beside its place, synchronised and then renamed, so it is there whole or not at all.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Final
from urllib.parse import quote

from elea.encoding import Encoding
from elea.errors import ConfigError, EleaError, StoreError
from elea.limits import DEFAULT_LIMITS
from elea.store.backend import Backend, Mark, OptionsVolume, StorageConfig, Stored, VolumeConfig
from elea.store.backends.disk import Place, Room
from elea.store.backends.options import IN_FILES
from elea.timestamp import Timestamp

_MAGIC: Final = b"elea-value 1 "
_HEAD_LEN_MAX: Final = 64 * 1024  # a line of description: the key is the longest part of it
_NAME_LEN_MAX: Final = 200  # of one name; file systems take 255
_PATH_LEN_MAX: Final = 1_024  # of all names of a key
_BLOCK_LEN: Final = 4_096  # a file takes whole blocks of the disk
_END: Final = "="  # ends the name of a value; in a chunk it is written %3D
_TEMPORARY: Final = ".new"
_LOCK: Final = ".lock"
_HASHED: Final = "%hashed"  # `%` and no two digits: no chunk is written so
_MARKS: Final = "%marks"
_DIRECTORY: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE: Final = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)

Names = tuple[str, ...]  # of directories and, last, of a file


class FilesVolume(OptionsVolume):
    """Options: `root`, `low_water_percent`. Of a storage: `dir`, `quota`."""

    def __init__(self, config: VolumeConfig) -> None:
        if not {os.open, os.mkdir, os.rename, os.unlink} <= os.supports_dir_fd:
            raise StoreError("the volume fs needs a POSIX system; use the volume sqlite")
        self._place = Place.of(config)

    def directory_of(self, storage: StorageConfig) -> Path:
        return self._place.directory(storage)

    def check_storage(self, storage: StorageConfig) -> None:
        IN_FILES.read(storage.options, f"storages/{storage.name}/volume")
        self._place.room(storage)

    @classmethod
    def check(cls, config: VolumeConfig, storages: Iterable[StorageConfig]) -> None:
        """Check options; also that no storage is below another, which would find it damaged."""
        storages = list(storages)
        super().check(config, storages)
        found = cls.directories(config, storages)
        for (name, one), (other, above) in permutations(found.items(), 2):
            if above in one.parents:
                reason = f"it is below that of the storage {other}; give it another one"
                raise ConfigError(f"storages/{name}/volume/dir", reason)

    def open(self, storage: StorageConfig) -> Backend:
        self.check_storage(storage)
        return FilesBackend(self._place.directory(storage), self._place.room(storage))


@dataclass(frozen=True, slots=True)
class _Head:
    """What the first line of a file says, and how long the line is."""

    key: str
    timestamp: Timestamp
    encoding: Encoding
    deletes: bool
    payload_len: int
    attachment_len: int | None
    head_len: int
    crc: int

    @property
    def file_len(self) -> int:
        return self.head_len + self.payload_len + (self.attachment_len or 0)


class FilesBackend(Backend):
    """The newest value of each key, in files below a directory that nobody else uses meanwhile."""

    def __init__(self, directory: Path, room: Room) -> None:
        self._directory = directory
        self._room = room
        self._pending: dict[Names, bytes | None] = {}  # not on disk yet; None: to be removed
        self._problems: list[str] = []
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._root = os.open(directory, _DIRECTORY)
        except OSError as error:
            raise StoreError(f"{directory}: {error.strerror}") from error
        try:
            self._lock = _locked(self._root, directory)
        except BaseException:
            os.close(self._root)
            raise
        self._room.used_len = self._disk_len()

    # Values.

    def put(self, key: str, value: Stored) -> None:
        self._write(_names(key), _image(key, value))

    def get(self, key: str) -> Stored | None:
        names = _names(key)
        image = self._pending[names] if names in self._pending else self._load(names)
        if image is None:
            return None
        head, value = self._read(names, image)
        if head.key != key:
            raise StoreError(f"{self._shown(names)} is damaged: it is the value of {head.key!a}")
        return value

    def delete(self, key: str, timestamp: Timestamp) -> None:
        self._write(_names(key), None)

    def entries(self) -> Iterator[tuple[str, Timestamp]]:
        self._problems.clear()
        for names, size in self._walk():
            if names[0] == _MARKS or names in self._pending:
                continue
            head = self._head(names, size)
            if head is not None:
                yield head.key, head.timestamp
        for names, image in self._pending.items():
            if image is not None and names[0] != _MARKS:
                head, _ = self._read(names, image)
                yield head.key, head.timestamp

    def problems(self) -> Sequence[str]:
        """The files that are damaged."""
        return self._problems

    # Marks.

    def mark(self, mark: Mark) -> None:
        """Remember a deletion or an update of many keys."""
        value = mark.value or Stored(b"", mark.timestamp)
        self._write(_mark_names(mark), _image(mark.key, value, deletes=mark.value is None))

    def unmark(self, mark: Mark) -> None:
        """Forget it."""
        self._write(_mark_names(mark), None)

    def marks(self) -> Iterator[Mark]:
        """All that is remembered."""
        found: list[Mark] = []
        for names, size in self._walk():
            if names[0] == _MARKS and self._head(names, size) is not None:
                image = self._load(names)
                if image is not None:
                    head, value = self._read(names, image)
                    found.append(Mark(head.key, head.timestamp, None if head.deletes else value))
        yield from sorted(found, key=lambda one: one.timestamp)

    # The disk.

    def flush(self) -> None:
        pending, self._pending = self._pending, {}
        touched: set[Names] = set()
        failure: Exception | None = None
        for names, image in pending.items():
            try:
                with self._parent(names, create=image is not None) as parent:
                    if parent is not None:
                        _apply(parent, names[-1], image)
                        touched.add(names[:-1])
                if image is None:
                    self._prune(names)
            except (OSError, StoreError) as error:
                failure = error
        for directory in touched:
            with self._parent((*directory, "")) as parent:
                if parent is not None:
                    os.fsync(parent)
        self._room.settled()
        if failure is not None:
            self._room.used_len = self._disk_len()
            raise StoreError(f"{self._directory}: {failure}") from failure

    def close(self) -> None:
        os.close(self._lock)
        os.close(self._root)

    def _write(self, names: Names, image: bytes | None) -> None:
        """Write, or remove, at the next flush; the last one of a name counts."""
        if names in self._pending:
            known = _disk_len(len(self._pending[names] or b""))
        else:
            known = _disk_len(self._size(names))
        self._room.take(_disk_len(len(image or b"")) - known)
        self._pending.pop(names, None)  # they are written in the order they came
        self._pending[names] = image

    def _disk_len(self) -> int:
        return sum(_disk_len(size) for _, size in self._walk())

    def _size(self, names: Names) -> int:
        with self._parent(names) as parent:
            if parent is not None:
                with suppress(FileNotFoundError):
                    return os.stat(names[-1], dir_fd=parent, follow_symlinks=False).st_size
        return 0

    def _load(self, names: Names) -> bytes | None:
        with self._parent(names) as parent:
            if parent is None:
                return None
            try:
                fd = os.open(names[-1], _FILE, dir_fd=parent)
            except FileNotFoundError:
                return None
            except OSError as error:
                raise StoreError(f"{self._shown(names)}: {error.strerror}") from error
            with open(fd, "rb") as file:
                return file.read()

    def _head(self, names: Names, size: int) -> _Head | None:
        """The description of a file; None, and a problem, if it is damaged."""
        try:
            with (
                self._parent(names) as parent,
                open(os.open(names[-1], _FILE, dir_fd=parent), "rb") as file,
            ):
                head = _parse(file.readline(_HEAD_LEN_MAX))
            if head.file_len != size:
                raise StoreError(f"it has {size} octets, {head.file_len} are due")
            if names[0] != _MARKS and _names(head.key) != names:
                raise StoreError(f"it is the value of {head.key!a}, whose place is another")
        except (EleaError, OSError) as error:
            if len(self._problems) < DEFAULT_LIMITS.storage_problems_count:
                self._problems.append(f"{self._shown(names)} is damaged: {error}")
            return None
        return head

    def _read(self, names: Names, image: bytes) -> tuple[_Head, Stored]:
        try:
            head = _parse(image[: image.find(b"\n") + 1])
            if zlib.crc32(image[len(_MAGIC) + 9 :]) != head.crc:
                raise StoreError("the checksum does not match")
        except EleaError as error:
            raise StoreError(f"{self._shown(names)} is damaged: {error}") from error
        end = head.head_len + head.payload_len
        attachment = None if head.attachment_len is None else image[end:]
        payload = image[head.head_len : end]
        return head, Stored(payload, head.timestamp, head.encoding, attachment)

    def _walk(self) -> Iterator[tuple[Names, int]]:
        """Every file with its size; what a crash left unfinished is removed."""
        for path, _, files, parent in os.fwalk(dir_fd=self._root, follow_symlinks=False):
            above = tuple(Path(path).parts)
            for name in files:
                if name.endswith(_END):
                    yield (
                        (*above, name),
                        os.stat(name, dir_fd=parent, follow_symlinks=False).st_size,
                    )
                elif name == _TEMPORARY:
                    os.unlink(name, dir_fd=parent)

    @contextmanager
    def _parent(self, names: Names, *, create: bool = False) -> Iterator[int | None]:
        """The directory of a file, open; None if it is not there."""
        fd: int | None = os.dup(self._root)
        try:
            for name in names[:-1]:
                if fd is not None:
                    above, fd = fd, None
                    try:
                        fd = _step(above, name, create=create)
                    except OSError as error:
                        raise StoreError(f"{self._shown(names)}: {error.strerror}") from error
                    finally:
                        os.close(above)
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    def _prune(self, names: Names) -> None:
        """Remove directories that hold nothing any more."""
        for depth in range(len(names) - 1, 0, -1):
            with self._parent(names[:depth]) as parent:
                if parent is None:
                    continue
                try:
                    os.rmdir(names[depth - 1], dir_fd=parent)
                except OSError:
                    return  # something is in it

    def _shown(self, names: Names) -> str:
        return str(self._directory.joinpath(*names))


def _step(parent: int, name: str, *, create: bool) -> int | None:
    try:
        return os.open(name, _DIRECTORY, dir_fd=parent)
    except FileNotFoundError:
        if not create:
            return None
    os.mkdir(name, 0o700, dir_fd=parent)
    os.fsync(parent)
    return os.open(name, _DIRECTORY, dir_fd=parent)


def _apply(parent: int, name: str, image: bytes | None) -> None:
    if image is None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=parent)
        return
    with open(os.open(_TEMPORARY, _NEW, 0o600, dir_fd=parent), "wb") as file:
        file.write(image)
        file.flush()
        os.fsync(file.fileno())
    os.rename(_TEMPORARY, name, src_dir_fd=parent, dst_dir_fd=parent)


def _locked(root: int, directory: Path) -> int:
    """Take the directory for this process, as long as the descriptor is open."""
    import fcntl  # POSIX only, as the whole volume

    lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=root)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            os.stat(_LOCK.upper(), dir_fd=root)
            raise StoreError(
                f"{directory}: this disk does not tell A from a, and keys do; use the volume sqlite"
            )
    except OSError as error:
        os.close(lock)
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise StoreError(f"{directory}: {error.strerror}") from error
        raise StoreError(f"{directory} is in use by another storage") from error
    except BaseException:
        os.close(lock)
        raise
    return lock


def _names(key: str) -> Names:
    """Where a key is: names of directories and of a file, of plain characters alone."""
    if not key:
        return (_END,)
    names = [_name(chunk) for chunk in key.split("/")]
    if max(map(len, names)) > _NAME_LEN_MAX or sum(map(len, names)) > _PATH_LEN_MAX:
        names = [_HASHED, hashlib.sha256(key.encode()).hexdigest()]
    return (*names[:-1], names[-1] + _END)


def _name(chunk: str) -> str:
    """A chunk as a name: no separator, no hidden file, no way up."""
    quoted = quote(chunk, safe="")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted


def _mark_names(mark: Mark) -> Names:
    kind = "delete" if mark.value is None else "put"
    return (_MARKS, f"{kind}-{hashlib.sha256(mark.key.encode()).hexdigest()}{_END}")


def _image(key: str, value: Stored, *, deletes: bool = False) -> bytes:
    """The octets of a file."""
    head: dict[str, object] = {
        "key": key,
        "time": value.timestamp.time.to_string_rfc3339_lossy(),  # for people
        "timestamp": str(value.timestamp),
        "encoding": str(value.encoding),
        "len": len(value.payload),
    }
    encoding = value.encoding
    if Encoding(str(encoding)) != encoding:  # its name does not say it all
        head["encoding_parts"] = [encoding.id, base64.b64encode(encoding.schema or b"").decode()]
    if value.attachment is not None:
        head["attachment_len"] = len(value.attachment)
    if deletes:
        head["deletes"] = True
    line = json.dumps(head, ensure_ascii=False).encode() + b"\n"
    content = line + value.payload + (value.attachment or b"")
    return b"%s%08x %s" % (_MAGIC, zlib.crc32(content), content)


def _parse(line: bytes) -> _Head:
    """The first line of a file.

    Raises:
        StoreError: it is none.
    """
    if not line.startswith(_MAGIC) or not line.endswith(b"\n"):
        raise StoreError("its first line is no description of a value")
    crc, _, text = line[len(_MAGIC) :].partition(b" ")
    try:
        head = json.loads(text)
        encoding = Encoding(head["encoding"])
        if "encoding_parts" in head:
            id, schema = head["encoding_parts"]
            encoding = Encoding.from_parts(id, base64.b64decode(schema) or None)
        attachment_len = head.get("attachment_len")
        return _Head(
            str(head["key"]),
            Timestamp.parse(head["timestamp"]),
            encoding,
            head.get("deletes") is True,
            int(head["len"]),
            None if attachment_len is None else int(attachment_len),
            len(line),
            int(crc, 16),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreError(f"its first line is no description of a value: {error}") from error


def _disk_len(size: int) -> int:
    return -(-size // _BLOCK_LEN) * _BLOCK_LEN
