"""Flights: rows on their way to the disk, and who waits for them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from elea.store.log.log import Log
from elea.store.log.single import Rows, Single, batch_of
from elea.store.log.writer import Stored, shard_of
from elea.store.recorder.marks import Mark, SampleId, mark_of, rows_of
from elea.store.recorder.rows import Row
from elea.store.recorder.spans import Span, unwrapped
from elea.store.recorder.windows import Taken, WindowId

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


DISPLACED: Final = Refusal("busy", "too many ask for samples that have not come; ask again later")
CLOSED: Final = Refusal("closed", "the recorder ends")
MISSED: Final = Refusal("unknown", "it was not received; put it with its payload")
AMBIGUOUS: Final = Refusal(
    "unknown", "several samples have this number; name `ts` and `digest`, or put its payload too"
)
Outcome: TypeAlias = Place | Refusal
Answer: TypeAlias = Callable[[Outcome], None]
Receipt: TypeAlias = Callable[[Mark, Outcome], None]
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
    marks: dict[int, Mark] = field(default_factory=dict)  # of rows that are asked about
    notes: list[Row] | None = None  # what it is made of, if we tell it ourselves
    told_rows: frozenset[int] | None = None  # not counted as lost if refused: callers are told
    is_new: bool = False  # it never reached the log
    is_told: bool = False  # what became of it is known, and whoever waited has the answer

    def __post_init__(self) -> None:
        """The rows that are put are those for which somebody waits from the beginning."""
        if self.told_rows is None:
            self.told_rows = frozenset(one.row for one in self.waiters)

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for it, as far as is known."""
        return bool(self.waiters or self.marks)


class Put(NamedTuple):
    """A sample that somebody wants to be told of when it is on disk."""

    row: Row
    answer: Answer | None
    is_stamped: bool = True  # the timestamp is of whoever put it


def in_flight_rows(
    flights: Iterable[Flight], id: WindowId, sn: int, fits: Callable[[Mark], bool]
) -> list[tuple[Flight, int]]:
    """The rows of a number under way that fit."""
    return [(flight, row) for flight in flights for row in _rows_in(flight, id, sn, fits)]


def _rows_in(flight: Flight, id: WindowId, sn: int, fits: Callable[[Mark], bool]) -> list[int]:
    if id not in flight.taken:
        return []
    rows = [row for row, number in rows_of(flight.batch, id) if number == sn]
    marks = [(row, flight.marks.get(row) or mark_of(flight.batch, row)) for row in rows]
    return [row for row, mark in marks if mark is not None and fits(mark)]


def samples_of(flights: Iterable[Flight], wanted: Iterable[Mark]) -> set[SampleId]:
    """The samples under way that have the numbers of some."""
    numbers: dict[WindowId, set[int]] = {}
    for mark in wanted:
        numbers.setdefault(mark.window, set()).add(mark.identity.sn)
    found: set[SampleId] = set()
    for flight in flights:
        for id in flight.taken.keys() & numbers.keys():
            for row, sn in rows_of(flight.batch, id):
                one = mark_of(flight.batch, row) if sn in numbers[id] else None
                if one is not None:
                    found.add(one.sample)
    return found


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
    return [
        (found, _part(flight, [row for row, shard in enumerate(shards) if shard == found]))
        for found in sorted(set(shards))
    ]


def divided(flight: Flight, refused: Sequence[int]) -> tuple[Flight, Flight]:
    """A flight as two: the rows that were kept, and those that were refused."""
    left = set(refused)
    kept = [row for row in range(flight.batch.num_rows) if row not in left]
    return _part(flight, kept), _part(flight, refused)


def _part(flight: Flight, rows: Sequence[int]) -> Flight:
    new_row = {row: place for place, row in enumerate(rows)}
    return Flight(
        batch_of(flight.batch).take(pa.array(rows, pa.int64())),
        {id: _spans(flight, id, new_row) for id in flight.taken},
        [one._replace(row=new_row[one.row]) for one in flight.waiters if one.row in new_row],
        {new_row[row]: mark for row, mark in flight.marks.items() if row in new_row},
        None if flight.notes is None else [flight.notes[row] for row in rows],
        frozenset(new_row[row] for row in flight.told_rows or () if row in new_row),
        is_new=flight.is_new,
    )


def _spans(flight: Flight, id: WindowId, rows: Container[int]) -> list[Span]:
    """The numbers of some rows that were new when the flight began."""
    spans = flight.taken[id]
    near = spans[0][0] if spans else 0
    numbers = [unwrapped(sn, near) for row, sn in rows_of(flight.batch, id) if row in rows]
    is_new = [any(start <= number < end for start, end in spans) for number in numbers]
    return [(number, number + 1) for number, new in zip(numbers, is_new, strict=True) if new]


def written(log: Log, flight: Flight) -> Stored | BaseException:
    """Write what the log was claimed for: where it is, or why it is not there."""
    try:
        return log.store_claimed(flight.batch, divisible=True)
    except Exception as error:  # for everybody who waits
        return error


def finish(log: Log, future: Future[Stored]) -> None:
    """Wait for the disk; who waits for an answer is told what it said."""
    try:
        log.finish(future)
    except Exception as error:  # told to everybody who waits
        _LOG.debug("rows were not stored: %s", error)
