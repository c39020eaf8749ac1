"""Places: where ranges of a log are read. A directory, or somebody who serves it."""

from __future__ import annotations

import logging
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from elea.errors import ConfigError, EleaError, LinkError, MissingDependencyError, StoreError
from elea.spark.options import FLIGHT, ZENOH, Source
from elea.store.log import consumers
from elea.store.log.disk import RealDisk
from elea.store.log.location import Location
from elea.store.log.ranges import ALL_TIME, Span, cut, rows_of, seek
from elea.store.log.reader import Bounds, LogReader

_LOG: Final = logging.getLogger("elea.spark")
AGAIN: Final = "start the query again"  # it says whether its checkpoint fits
_FILE: Final = "file:"

# What one range read gives: rows from a number to a number, in order.
Rows = Iterator[tuple[int, int, pa.RecordBatch]]


class Place(Protocol):
    """A log that can be reached."""

    log_id: uuid.UUID

    def is_current(self) -> bool:
        """Whether it is still the log that it was, as far as is known."""

    def bounds(self) -> list[Bounds]:
        """Which rows each shard has now."""

    def seek(self, time: int) -> list[int]:
        """By shard, the first row that is not before a time."""

    def cut(self, shard: int, first: int, end: int, octets_count: int) -> int:
        """Where a range of so many octets ends; one row at least."""

    def read(
        self,
        shard: int,
        first: int,
        end: int,
        columns: Sequence[str],
        key_exprs: Sequence[str] = (),
        span: Span = ALL_TIME,
    ) -> Rows:
        """Rows of a range; OffsetError, CorruptLogError."""

    def committed(self, consumer: str) -> Mapping[int, int] | None:
        """How far a consumer has come; None: it is new."""

    def commit(self, consumer: str, offsets: Mapping[int, int], lease_s: int) -> None:
        """Say how far a consumer has come."""


def open_place(source: Source) -> Place:
    """The first place of a source that can be reached from here.

    Raises:
        StoreError: none can; it says what was seen at each.
    """
    seen = []
    for text in source.places:
        try:
            return _open(text, source)
        except ConfigError:
            raise
        except (EleaError, OSError) as error:
            seen.append(f"{text}: {error}")
    raise StoreError(f"no log at {'; '.join(seen)}")


def check_reached(source: Source) -> None:
    """Connect once, before a query begins, if every place of its log is one that is served.

    Raises:
        ConfigError: an endpoint or the configuration is wrong.
        LinkError: nothing listens at the endpoints, or at the Flight port that is named, or the
            connection is refused.
    """
    location = source.flight.location
    if location is not None and all(text.startswith(FLIGHT) for text in source.places):
        _check_listens(location, source.reach.timeout_s)
    if all(text.startswith((ZENOH, FLIGHT)) for text in source.places):
        from elea.spark import sessions  # late: as below

        sessions.check_reached(source.reach)


def _check_listens(location: Location, timeout_s: float) -> None:
    """Connect to a Flight port. gRPC would go on trying until the timeout."""
    try:
        socket.create_connection((location.host, location.port), timeout_s).close()
    except ConnectionRefusedError:
        raise LinkError(
            f"option flight: nothing listens at {location}; start the recorder with --flight, or"
            " check host and port"
        ) from None
    except OSError:  # it may be on its way up: it is asked again for as long as the timeout says
        pass


def _open(text: str, source: Source) -> Place:
    lossy = not source.fail_on_data_loss
    # Late: who has files needs neither a session nor Flight, and workers are started often.
    if text.startswith(ZENOH):
        from elea.spark.served import ServedPlace

        return ServedPlace(source.reach, text.removeprefix(ZENOH), lossy=lossy)
    if text.startswith(FLIGHT):
        try:
            from elea.spark.flights import FlightPlace
        except ImportError as error:  # not every Arrow has it
            raise MissingDependencyError("a log by flight", "arrow") from error
        return FlightPlace(source.reach, text.removeprefix(FLIGHT), source.flight, lossy=lossy)
    return FilePlace(_path(text), lossy=lossy)


def _path(text: str) -> Path:
    if not text.startswith(_FILE):
        return Path(text)
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        reason = f"saw {text!a}; legal is a path of the host that reads, zenoh:NAME or flight:NAME"
        raise ConfigError("option log", reason)
    return Path(unquote(parts.path))


class FilePlace:
    """A log on a disk of this host."""

    def __init__(self, directory: Path, *, lossy: bool) -> None:
        self._directory = directory
        self._reader = LogReader(directory, _tell if lossy else None)
        self.log_id = self._reader.log_id
        self._inode = directory.stat().st_ino

    def is_current(self) -> bool:
        # A reader keeps the directory that it opened, also when another has its name by now.
        try:
            return self._directory.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def bounds(self) -> list[Bounds]:
        if not self.is_current():
            raise StoreError(f"{self._directory} is not the log any more that it was: {AGAIN}")
        return [self._reader.bounds(shard) for shard in range(self._reader.shards_count)]

    def seek(self, time: int) -> list[int]:
        return [seek(self._reader, shard, time) for shard in range(self._reader.shards_count)]

    def cut(self, shard: int, first: int, end: int, octets_count: int) -> int:
        return cut(self._reader, shard, first, end, octets_count)

    def read(
        self,
        shard: int,
        first: int,
        end: int,
        columns: Sequence[str],
        key_exprs: Sequence[str] = (),
        span: Span = ALL_TIME,
    ) -> Rows:
        return rows_of(self._reader, shard, first, end, columns, key_exprs, span)

    def committed(self, consumer: str) -> Mapping[int, int] | None:
        found = consumers.load(self._reader.disk, self.log_id).consumers
        return next((one.offsets for one in found if one.name == consumer), None)

    def commit(self, consumer: str, offsets: Mapping[int, int], lease_s: int) -> None:
        disk = RealDisk(self._directory, writable=False)
        now_ns, lease_ns = time.time_ns(), lease_s * 1_000_000_000
        consumers.commit(disk, consumer, self.log_id, offsets, now_ns=now_ns, lease_ns=lease_ns)


def _tell(damage: object) -> None:
    _LOG.error("rows are passed because they are lost: %s", damage)
