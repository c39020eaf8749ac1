"""Consumers: who reads a log, how far each has come, and how long that counts.

Each is one small file, written by the consumer, so that it needs nothing but the directory. Its
lease says until when the log keeps rows for it: one that is gone for good holds nothing back.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from elea.errors import InvalidValueError, StoreError
from elea.limits import DEFAULT_LIMITS
from elea.store.log.disk import Disk, parts_of
from elea.store.log.recovery import replace

DIRECTORY: Final = "consumers"
_SUFFIX: Final = ".json"
_DAY_NS: Final = 86_400_000_000_000
LEASE_NS: Final = 7 * _DAY_NS  # a weekend, and the Monday on which somebody looks


@dataclass(frozen=True, slots=True)
class Consumer:
    """How far one has come.

    Args:
        offsets: By shard, the number after the last row it has done with.
        lease_until_ns: Since 1970; rows after that are not kept for it.
    """

    name: str
    log_id: uuid.UUID
    offsets: Mapping[int, int]
    lease_until_ns: int
    committed_ns: int


class Leases:
    """Whose lease lasts. A commit whose time is yet to come was made by a clock that was ahead.

    Such a lease begins when the commit is first seen here: else rows would be kept until that time.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, int]] = {}  # by name, time of the commit, first seen

    def live(self, consumers: Iterable[Consumer], now_ns: int) -> list[Consumer]:
        """Return the consumers that rows are kept for."""
        before, self._seen = self._seen, {}
        return [one for one in consumers if self._is_live(one, now_ns, before.get(one.name))]

    def _is_live(self, one: Consumer, now_ns: int, seen: tuple[int, int] | None) -> bool:
        if one.committed_ns <= now_ns:
            return now_ns < one.lease_until_ns
        if seen is None or seen[0] != one.committed_ns or seen[1] > now_ns:
            seen = (one.committed_ns, now_ns)
        self._seen[one.name] = seen
        return now_ns - seen[1] < one.lease_until_ns - one.committed_ns


@dataclass(slots=True)
class Found:
    """The consumers of a log, and files that should be one and are not."""

    consumers: list[Consumer] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)


def commit(
    disk: Disk,
    name: str,
    log_id: uuid.UUID,
    offsets: Mapping[int, int],
    *,
    now_ns: int,
    lease_ns: int = LEASE_NS,
) -> Consumer:
    """Make durable how far a consumer has come.

    Raises:
        InvalidValueError: not a name.
        StoreError: there are too many of them.
    """
    file = _file_of(name)
    disk.make_directory(DIRECTORY)
    others = [one for one in disk.names(DIRECTORY) if one.endswith(_SUFFIX)]
    limit = DEFAULT_LIMITS.log_consumers_count
    if name + _SUFFIX not in others and len(others) >= limit:
        raise StoreError(f"the log has {len(others)} consumers, at most {limit} are legal")
    consumer = Consumer(name, log_id, dict(offsets), now_ns + lease_ns, now_ns)
    text = {
        "consumer": name,
        "log": str(log_id),
        "offsets": {str(shard): seq for shard, seq in sorted(offsets.items())},
        "lease_until_ns": consumer.lease_until_ns,
        "committed_ns": now_ns,
    }
    replace(disk, file, (json.dumps(text) + "\n").encode(), "log.before_consumer_rename")
    return consumer


def forget(disk: Disk, name: str) -> None:
    """A consumer that is not coming back."""
    disk.remove(_file_of(name))
    disk.sync_directory(DIRECTORY)


def load(disk: Disk, log_id: uuid.UUID) -> Found:
    """The consumers of a log."""
    found = Found()
    for file in disk.names(DIRECTORY):
        name = file.removesuffix(_SUFFIX)
        if name == file:
            continue
        try:
            consumer = _parse(name, disk.read(f"{DIRECTORY}/{file}", 0))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            found.unreadable.append(file)
            continue
        if consumer.log_id == log_id:
            found.consumers.append(consumer)
    return found


def _parse(name: str, octets: bytes) -> Consumer:
    text = json.loads(octets)
    offsets = {int(shard): int(seq) for shard, seq in text["offsets"].items()}
    log_id = uuid.UUID(text["log"])
    return Consumer(name, log_id, offsets, int(text["lease_until_ns"]), int(text["committed_ns"]))


def check_name(name: str) -> None:
    """Refuse what cannot be the name of a consumer.

    Raises:
        InvalidValueError: it is not legal.
    """
    _file_of(name)


def _file_of(name: str) -> str:
    file = f"{DIRECTORY}/{name}{_SUFFIX}"
    try:
        parts_of(file)
    except StoreError as error:
        legal = "legal are letters, digits, '.', '_' and '-', the first a letter or digit"
        raise InvalidValueError("name of a consumer", f"saw {name!a}; {legal}") from error
    return file
