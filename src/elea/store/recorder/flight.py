"""Flights: rows on their way to the disk, and who waits for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from elea.store.log.log import Log
from elea.store.log.single import Rows, Single, batch_of
from elea.store.log.writer import Stored, shard_of
from elea.store.recorder.rows import Row
from elea.store.recorder.spans import unwrapped
from elea.store.recorder.windows import Identity, SourceId, Taken

_LOG: Final = logging.getLogger("elea.store.recorder")


class Place(NamedTuple):
    """Where a sample is."""

    shard: int
    seq: int
    duplicate: bool


class Refusal(NamedTuple):
    """Why a sample is not there."""

    error: str  # full, closed, busy, invalid or unknown
    detail: str


Outcome: TypeAlias = Place | Refusal
Answer: TypeAlias = Callable[[Outcome], None]
Receipt: TypeAlias = Callable[[Identity, Outcome], None]
Given: TypeAlias = tuple[Answer, Outcome]


class Waiter(NamedTuple):
    """Who waits for a row of a flight."""

    row: int
    answer: Answer
    duplicate: bool


@dataclass(slots=True, eq=False)
class Flight:
    """Rows that were appended and are not known to be on disk."""

    batch: Rows
    taken: Taken
    waiters: list[Waiter] = field(default_factory=list)
    rows: dict[Identity, int] = field(default_factory=dict)  # of publishers that are asked about
    notes: list[Row] | None = None  # what it is made of, if we tell it ourselves
    told_count: int = 0  # rows that exist nowhere but with somebody who is told
    is_new: bool = False  # it never reached the log
    is_told: bool = False  # what became of it is known, and whoever waited has the answer

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for it, as far as is known."""
        return bool(self.waiters or self.rows)


class Put(NamedTuple):
    """A sample that somebody wants to be told of when it is on disk."""

    row: Row
    answer: Answer | None


def rows_of(batch: Rows, id: SourceId) -> list[tuple[int, int]]:
    """The rows of a publisher, with their numbers."""
    if isinstance(batch, Single):
        return [(0, batch.sn)] if batch.sn is not None and (batch.zid, batch.eid) == id else []
    if batch.num_rows == 1:  # a call of a kernel costs more than a row
        only, eid, sn = (batch.column(name)[0].as_py() for name in ("zid", "eid", "sn"))
        return [(0, sn)] if (only, eid) == id else []
    zids = batch.column("zid")
    zid_index = zids.dictionary.index(id[0])
    if zid_index.as_py() < 0:
        return []
    same_eid = pc.equal(batch.column("eid"), pa.scalar(id[1], pa.int64()))
    mask = pc.and_(pc.equal(zids.indices, zid_index), same_eid)
    rows = pc.indices_nonzero(mask)
    sns = batch.column("sn").take(rows).to_pylist()
    return list(zip(rows.to_pylist(), sns, strict=True))


def row_of(flight: Flight, identity: Identity) -> int | None:
    """The row of a sample in a flight; None: it is in another one, or on disk."""
    if identity in flight.rows:
        return flight.rows[identity]
    for start, end in flight.taken.get(identity.source, ()):
        if start <= unwrapped(identity.sn, start) < end:
            found = {sn: row for row, sn in rows_of(flight.batch, identity.source)}
            return found.get(identity.sn)
    return None


def received_us(batch: Rows) -> int:
    """When the first row was received."""
    if isinstance(batch, Single):
        return batch.received_us
    found: int = batch.column("recv_ts")[0].value
    return found


def _shards_of(batch: Rows, shards_count: int) -> list[int]:
    if isinstance(batch, Single):
        return [shard_of(batch.key, shards_count)]
    keys = batch.column("key")
    of_key = [shard_of(key, shards_count) for key in keys.dictionary.to_pylist()]
    return [of_key[index] for index in keys.indices.to_pylist()]


def places_of(
    batch: Rows, ranges: dict[int, tuple[int, int]], shards_count: int
) -> list[tuple[int, int]]:
    """Shard and number of each row."""
    if isinstance(batch, Single):
        return [(shard, start) for shard, (start, _) in ranges.items()]
    next_seq = {shard: start for shard, (start, _) in ranges.items()}
    places = []
    for shard in _shards_of(batch, shards_count) if shards_count > 1 else [0] * batch.num_rows:
        places.append((shard, next_seq[shard]))
        next_seq[shard] += 1
    return places


def by_shard(flight: Flight, shards_count: int) -> list[tuple[int, Flight]]:
    """A flight as one per shard."""
    shards = _shards_of(flight.batch, shards_count) if shards_count > 1 else [0]
    if len(set(shards)) == 1:
        return [(shards[0], flight)]
    parts = []
    for shard in sorted(set(shards)):
        rows = [row for row, one in enumerate(shards) if one == shard]
        new_row = {row: place for place, row in enumerate(rows)}
        parts.append(
            (
                shard,
                Flight(
                    batch_of(flight.batch).take(pa.array(rows, pa.int64())),
                    {},
                    [
                        one._replace(row=new_row[one.row])
                        for one in flight.waiters
                        if one.row in new_row
                    ],
                    {id: new_row[row] for id, row in flight.rows.items() if row in new_row},
                    None if flight.notes is None else [flight.notes[row] for row in rows],
                    is_new=flight.is_new,
                ),
            )
        )
    return parts


def written(log: Log, flight: Flight) -> Stored | BaseException:
    """Write what the log was claimed for: where it is, or why it is not there."""
    try:
        return log.store_claimed(flight.batch)
    except Exception as error:  # for everybody who waits
        return error


def finish(log: Log, future: Future[Stored]) -> None:
    """Wait for the disk; who waits for an answer is told what it said."""
    try:
        log.finish(future)
    except Exception as error:  # told to everybody who waits
        _LOG.debug("rows were not stored: %s", error)
