"""The volume `sqlite`: one database file per storage, written ahead, committed in batches.

Tables: `samples` with a row per value, `marks` with what is remembered of deletions. `time` is
the 64 bits of a timestamp as an octet string, which sorts as they do; `readable` is a view for
people. Each row has a checksum, for SQLite has none of its own.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from elea.encoding import Encoding
from elea.errors import EleaError, StoreError
from elea.store.backend import Backend, Mark, OptionsVolume, StorageConfig, Stored, VolumeConfig
from elea.store.backends.disk import Place, Room
from elea.store.backends.options import IN_SQLITE
from elea.timestamp import NTP64, Timestamp, TimestampId

FILE_NAME: Final = "storage.sqlite"
_LOCKED_S: Final = 0.2  # whoever has it keeps it: waiting is no use
_FORMAT: Final = 1  # in the header of the database; another one is refused
_PAGE_LEN: Final = 4_096
_PAGES_COUNT_MAX: Final = 0xFFFF_FFFE  # what SQLite takes
_ROW_LEN: Final = 128  # what a row costs beside key, payload and attachment
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS samples (
  key TEXT NOT NULL, time BLOB NOT NULL, source BLOB NOT NULL, encoding INTEGER NOT NULL,
  schema BLOB, payload BLOB NOT NULL, attachment BLOB, crc INTEGER NOT NULL, ns INTEGER NOT NULL);
CREATE UNIQUE INDEX IF NOT EXISTS samples_by_key ON samples (key, time, source);
CREATE TABLE IF NOT EXISTS marks (
  key TEXT NOT NULL, time BLOB NOT NULL, source BLOB NOT NULL, encoding INTEGER NOT NULL,
  schema BLOB, payload BLOB NOT NULL, attachment BLOB, crc INTEGER NOT NULL,
  deletes INTEGER NOT NULL, PRIMARY KEY (key, deletes));
CREATE VIEW IF NOT EXISTS readable AS
  SELECT key, strftime('%Y-%m-%dT%H:%M:%fZ', ns / 1e9, 'unixepoch') AS time,
         CAST(payload AS TEXT) AS text FROM samples ORDER BY key, samples.time;
"""
_PUT: Final = """
INSERT OR REPLACE INTO samples
(key, time, source, encoding, schema, payload, attachment, crc, ns) VALUES (?,?,?,?,?,?,?,?,?)
"""
_GET: Final = """
SELECT key, time, source, encoding, schema, payload, attachment, crc FROM samples
WHERE key = ? ORDER BY time DESC, source DESC LIMIT 1
"""
_GET_BETWEEN: Final = """
SELECT key, time, source, encoding, schema, payload, attachment, crc FROM samples
WHERE key = ? AND time BETWEEN ? AND ? ORDER BY time, source
"""
_MARK: Final = """
INSERT OR REPLACE INTO marks
(key, time, source, encoding, schema, payload, attachment, crc, deletes) VALUES (?,?,?,?,?,?,?,?,?)
"""
_MARKS: Final = """
SELECT key, time, source, encoding, schema, payload, attachment, crc, deletes FROM marks
ORDER BY time
"""

_Row: TypeAlias = tuple[str, bytes, bytes, int, bytes | None, bytes, bytes | None, int]


class SqliteVolume(OptionsVolume):
    """Options: `root`, `low_water_percent`. Of a storage: `dir`, `quota`, `history`."""

    def __init__(self, config: VolumeConfig) -> None:
        self._place = Place.of(config)

    def directory_of(self, storage: StorageConfig) -> Path:
        return self._place.directory(storage)

    def check_storage(self, storage: StorageConfig) -> None:
        self._read(storage)

    def open(self, storage: StorageConfig) -> Backend:
        directory, quota_len, keeps_all = self._read(storage)
        # The database bounds itself by pages, so that the room only watches the disk. What is
        # written goes to the log, and from there to the database.
        room = Room(directory, None, self._place.low_water_percent, copies_count=2)
        kind = SqliteHistory if keeps_all else SqliteBackend
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            return kind(str(directory / FILE_NAME), room, quota_len)
        except OSError as error:
            raise StoreError(f"{directory}: {error.strerror}") from error

    def _read(self, storage: StorageConfig) -> tuple[Path, int | None, bool]:
        """Where a storage is, how much it may hold, and whether it keeps all values of a key."""
        path = f"storages/{storage.name}/volume"
        chosen = IN_SQLITE.read(storage.options, path)
        return self._place.directory(storage), chosen["quota"], chosen["history"] == "all"


class SqliteBackend(Backend):
    """The newest value of each key, in a database that nobody else opens meanwhile."""

    def __init__(self, path: str, room: Room, quota_len: int | None) -> None:
        self._path = path
        self._room = room
        self._lost = ""  # why the batch was undone before its end
        with self._named("open"):
            # One thread opens it and another uses it, never both at a time.
            self._db = sqlite3.connect(
                path, timeout=_LOCKED_S, isolation_level=None, check_same_thread=False
            )
        try:
            with self._named("open"):
                self._prepare(quota_len)
        except BaseException:
            self._db.close()
            raise

    def put(self, key: str, value: Stored) -> None:
        self._room.take(len(key) + len(value) + _ROW_LEN)
        with self._named("put", key):
            self._begin()
            self._make_way(key, value)
            self._db.execute(_PUT, (*_row(key, value), value.timestamp.time.as_nanos()))

    def get(self, key: str) -> Stored | None:
        with self._named("get", key):
            row = self._db.execute(_GET, (key,)).fetchone()
        return None if row is None else self._read(row)

    def delete(self, key: str, timestamp: Timestamp) -> None:
        with self._named("delete", key):
            self._begin()
            self._db.execute(
                "DELETE FROM samples WHERE key = ? AND (time, source) <= (?, ?)",
                (key, *_stamp(timestamp)),
            )

    def entries(self) -> Iterator[tuple[str, Timestamp]]:
        with self._named("list"):
            rows = self._db.execute("SELECT key, max(time), source FROM samples GROUP BY key")
            for key, time, source in rows:
                yield key, _timestamp(time, source)

    def flush(self) -> None:
        with self._named("commit"):
            if self._db.in_transaction:
                try:
                    self._db.execute("COMMIT")
                except sqlite3.Error:
                    if self._db.in_transaction:
                        self._db.execute("ROLLBACK")
                    with suppress(sqlite3.Error):  # what is in the log twice makes room
                        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    raise
        self._room.settled()
        lost, self._lost = self._lost, ""
        if lost:
            raise StoreError(f"{lost}; what came before it, since the last commit, is lost")

    def close(self) -> None:
        self._db.close()

    def mark(self, mark: Mark) -> None:
        """Remember a deletion or an update of many keys."""
        with self._named("mark", mark.key):
            self._begin()
            self._db.execute(_MARK, (*_mark_row(mark), mark.value is None))

    def unmark(self, mark: Mark) -> None:
        """Forget it."""
        with self._named("unmark", mark.key):
            self._begin()
            self._db.execute(
                "DELETE FROM marks WHERE key = ? AND deletes = ?", (mark.key, mark.value is None)
            )

    def marks(self) -> Iterator[Mark]:
        """All that is remembered."""
        with self._named("list"):
            for *row, deletes in self._db.execute(_MARKS).fetchall():
                value = self._read(tuple(row))
                yield Mark(row[0], value.timestamp, None if deletes else value)

    def _prepare(self, quota_len: int | None) -> None:
        execute = self._db.execute
        execute("PRAGMA locking_mode = EXCLUSIVE")
        execute("PRAGMA journal_mode = WAL")
        execute("PRAGMA synchronous = FULL")
        if quota_len is not None:
            pages = min(max(1, quota_len // _PAGE_LEN), _PAGES_COUNT_MAX)
            execute(f"PRAGMA max_page_count = {pages}")
        [found] = execute("PRAGMA user_version").fetchone()
        if found not in (0, _FORMAT):
            raise StoreError(f"{self._path}: its format is {found}, this version reads {_FORMAT}")
        problems = [row[0] for row in execute("PRAGMA quick_check(1)")]
        if problems != ["ok"]:
            raise StoreError(
                f"{self._path} is damaged: {problems[0]}; restore it, or save what can be had with"
                " the command `sqlite3 FILE .recover`"
            )
        if found == _FORMAT:
            return  # nothing to write: a full disk can be read
        execute("BEGIN EXCLUSIVE")
        for statement in _SCHEMA.split(";\n"):
            execute(statement)
        execute(f"PRAGMA user_version = {_FORMAT}")
        execute("COMMIT")

    def _begin(self) -> None:
        if not self._db.in_transaction:
            self._db.execute("BEGIN")

    def _make_way(self, key: str, value: Stored) -> None:
        self._db.execute("DELETE FROM samples WHERE key = ?", (key,))

    def _read(self, row: _Row | tuple[object, ...]) -> Stored:
        try:
            return _value(row)
        except (EleaError, TypeError, ValueError) as error:
            raise StoreError(f"{self._path}: the row of {row[0]!a} is damaged: {error}") from error

    @contextmanager
    def _named(self, verb: str, key: str | None = None) -> Iterator[None]:
        """What SQLite raises, with what was tried."""
        try:
            yield
        except sqlite3.Error as error:
            what = verb if key is None else f"{verb} {key!a}"
            told = f"{self._path}: {what} failed: {error}"
            # A full disk may end the transaction, not just the statement; `flush` tells.
            if key is not None and verb != "get" and not self._db.in_transaction:
                self._lost = told
            raise StoreError(told) from error


class SqliteHistory(SqliteBackend):
    """Every value of each key."""

    def history(self, key: str, first: int, last: int) -> Iterator[Stored]:
        """The values between two times."""
        with self._named("get", key):
            rows = self._db.execute(_GET_BETWEEN, (key, first.to_bytes(8), last.to_bytes(8)))
            for row in rows:
                yield self._read(row)

    def _make_way(self, key: str, value: Stored) -> None:
        pass  # all stay


def _stamp(timestamp: Timestamp) -> tuple[bytes, bytes]:
    return timestamp.time.value.to_bytes(8), timestamp.id.to_bytes()


def _timestamp(time: bytes, source: bytes) -> Timestamp:
    return Timestamp(NTP64.from_value(int.from_bytes(time)), TimestampId.from_bytes(source))


def _row(key: str, value: Stored) -> _Row:
    time, source = _stamp(value.timestamp)
    encoding = value.encoding
    parts = (time, source, encoding.id, encoding.schema, value.payload, value.attachment)
    return (key, *parts, _crc(key, *parts))


def _mark_row(mark: Mark) -> _Row:
    return _row(mark.key, mark.value or Stored(b"", mark.timestamp))


def _value(row: _Row | tuple[object, ...]) -> Stored:
    key, time, source, encoding, schema, payload, attachment, crc = row
    assert isinstance(key, str)
    if not (isinstance(time, bytes) and isinstance(source, bytes) and isinstance(payload, bytes)):
        raise ValueError("a column has another type")
    if not (isinstance(encoding, int) and isinstance(crc, int)):
        raise ValueError("a column has another type")
    if not isinstance(schema, bytes | None) or not isinstance(attachment, bytes | None):
        raise ValueError("a column has another type")
    if _crc(key, time, source, encoding, schema, payload, attachment) != crc:
        raise ValueError("the checksum does not match")
    return Stored(
        payload, _timestamp(time, source), Encoding.from_parts(encoding, schema), attachment
    )


def _crc(
    key: str,
    time: bytes,
    source: bytes,
    encoding: int,
    schema: bytes | None,
    payload: bytes,
    attachment: bytes | None,
) -> int:
    parts = (key.encode(), time, source, str(encoding).encode(), schema or b"", attachment or b"")
    return zlib.crc32(payload, zlib.crc32(b"\0".join(parts)))
