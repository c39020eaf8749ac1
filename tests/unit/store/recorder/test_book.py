"""One log that is recorded to, on a disk that fails."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from chaos.disk import FaultDisk, MemoryPlatter
from tests.unit.cli.ends import eventually

from elea.errors import StoreError
from elea.limits import DEFAULT_LIMITS
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.log.settings import LogSettings
from elea.store.recorder.book import Book
from elea.store.recorder.flight import Answer, Given, Outcome, Place, Put, Refusal
from elea.store.recorder.rows import Row, batch_of
from elea.store.recorder.windows import Identity

WAIT_S = 20


class Rig:
    """A book, its disk, and what was answered."""

    def __init__(self, *, shards_count: int = 1, quota_len: int | None = None) -> None:
        self.disk = FaultDisk(MemoryPlatter(), random.Random(1), leak=0)
        self.settings = LogSettings(
            shards_count=shards_count, low_water_percent=0, quota_len=quota_len
        )
        self.outcomes: dict[int, Outcome] = {}
        self.now_ns = 0
        self.opens_left = 1_000
        self.book = self.opened()

    def opened(self) -> Book:
        limits = replace(DEFAULT_LIMITS, record_tail_rows_count=5_000)
        return Book(
            "log",
            "k/**",
            self._open,
            self._tell,
            lambda: None,
            limits=limits,
            clock_ns=lambda: self.now_ns,
        )

    def answer(self, number: int) -> Answer:
        def take(outcome: Outcome) -> None:
            assert number not in self.outcomes
            self.outcomes[number] = outcome

        return take

    def rows(self) -> list[dict[str, object]]:
        reader = LogReader(self.disk)
        return [
            row
            for shard in range(reader.shards_count)
            for batch in reader.read(shard, 0, position=True)
            for row in batch.to_pylist()
        ]

    def numbers(self) -> list[object]:
        return sorted(row["sn"] for row in self.rows() if row["kind"] == 0)  # type: ignore[type-var]

    def _open(self) -> Log:
        self.opens_left -= 1
        if self.opens_left < 0:
            raise StoreError("the disk is gone")
        return Log(self.disk, self.settings)

    def _tell(self, given: list[Given]) -> None:
        for answer, outcome in given:
            answer(outcome)


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.book.close()


def row(number: int, key: str | None = None) -> Row:
    identity = Identity("ab", 1, number)
    return Row(key or f"k/{number % 5}", RowKind.PUT, b"%d" % number, number, identity=identity)


def batch(start: int, end: int) -> pa.RecordBatch:
    return batch_of([row(number) for number in range(start, end)])


def put(rig: Rig, *numbers: int) -> None:
    rig.book.store([Put(row(number), rig.answer(number)) for number in numbers])


def test_a_repetition_is_told_the_first_place(rig: Rig) -> None:
    put(rig, 1, 2)
    first = dict(rig.outcomes)
    assert first == {1: Place(0, 0, duplicate=False), 2: Place(0, 1, duplicate=False)}
    rig.outcomes.clear()
    put(rig, 2, 3)
    assert rig.outcomes == {2: Place(0, 1, duplicate=True), 3: Place(0, 2, duplicate=False)}
    assert rig.numbers() == [1, 2, 3]
    assert rig.book.counts.duplicates == 1


def test_the_same_put_twice_at_once_is_stored_once(rig: Rig) -> None:
    rig.book.store([Put(row(1), rig.answer(10)), Put(row(1), rig.answer(11))])
    assert rig.outcomes == {10: Place(0, 0, duplicate=False), 11: Place(0, 0, duplicate=True)}


def test_places_are_found_after_a_restart(rig: Rig) -> None:
    rig.book.land(batch(0, 100))
    put(rig, 100)
    rig.book.close()
    rig.book = rig.opened()
    rig.outcomes.clear()
    put(rig, 100, 101)
    rig.book.ask("k/2", Identity("ab", 1, 7), rig.answer(7), 0)
    rig.book.tend()
    assert rig.outcomes == {
        100: Place(0, 100, duplicate=True),
        101: Place(0, 101, duplicate=False),
        7: Place(0, 7, duplicate=False),
    }
    assert rig.numbers() == list(range(102))


def test_who_asks_first_is_answered_when_the_sample_came(rig: Rig) -> None:
    rig.book.ask("k/3", Identity("ab", 1, 3), rig.answer(3), 1_000)
    rig.book.tend()
    assert rig.outcomes == {}
    rig.book.land(batch(0, 5))
    assert rig.outcomes == {3: Place(0, 3, duplicate=False)}


def test_answers_of_one_commit_are_given_together_by_who_wrote(rig: Rig) -> None:
    given: list[tuple[int, int]] = []
    told: list[int] = []

    def tell(answers: list[Given]) -> None:
        given.append((len(answers), threading.get_ident()))
        for answer, outcome in answers:
            answer(outcome)

    def take(outcome: Outcome) -> None:
        assert isinstance(outcome, Place)
        rig.book.ask("k/1", Identity("ab", 1, 1), lambda again: told.append(outcome.seq), 0)
        other = threading.Thread(target=rig.book.gaps, args=(0,))  # no lock is held here
        other.start()
        other.join(20)
        assert not other.is_alive()

    rig.book._tell = tell
    for number in range(4):
        rig.book.ask(f"k/{number}", Identity("ab", 1, number), take, 10**9)
    rig.book.land(batch(0, 4))
    assert given[0] == (4, threading.get_ident())
    assert told == [0, 1, 2, 3]


def test_who_asks_in_vain_is_told_so_in_time(rig: Rig) -> None:
    rig.book.ask("k/3", Identity("ab", 1, 3), rig.answer(3), 1_000)
    rig.now_ns = 1_001
    rig.book.tend()
    assert isinstance(rig.outcomes[3], Refusal)
    assert rig.outcomes[3].error == "unknown"


def test_places_are_right_in_several_shards() -> None:
    rig = Rig(shards_count=3)
    rig.book.land(batch(0, 20))
    rig.book.store([Put(row(number), rig.answer(number)) for number in range(20, 60)])
    for number in range(5):
        rig.book.ask(f"k/{number}", Identity("ab", 1, number), rig.answer(number), 0)
    rig.book.tend()
    assert eventually(lambda: len(rig.outcomes) == 45)  # another thread may have written, and tells
    placed = {row["sn"]: (row["shard"], row["seq"]) for row in rig.rows()}
    for number, outcome in rig.outcomes.items():
        assert isinstance(outcome, Place)
        assert (outcome.shard, outcome.seq) == placed[number]
    rig.book.close()


def test_refused_rows_are_counted_told_and_may_come_again() -> None:
    rig = Rig()
    put(rig, 0)
    rig.disk.free_len = 10
    rig.book.land(batch(1, 11))
    put(rig, 11)
    assert rig.book.flush(WAIT_S)
    refusal = rig.outcomes[11]
    assert isinstance(refusal, Refusal)
    assert refusal.error == "full"
    rig.book.tend()
    assert rig.book.flush(WAIT_S)
    assert rig.numbers() == [0]
    assert rig.book.counts.dropped == 10
    assert rig.book.owed_count == 10
    rig.disk.free_len = 1 << 40
    rig.book.tend()
    rig.book.land(batch(5, 8))  # from a cache, say
    assert rig.book.flush(WAIT_S)
    told = [row for row in rig.rows() if row["kind"] == RowKind.DROP]
    assert [(row["key"], row["payload"]) for row in told] == [("k/**", b"10")]
    assert rig.numbers() == [0, 5, 6, 7]
    assert rig.book.owed_count == 0
    rig.book.close()


@pytest.mark.parametrize("shards_count", [1, 3])
@pytest.mark.parametrize("leak", [0.0, 1.0])
def test_an_error_of_fsync_loses_and_repeats_nothing(shards_count: int, leak: float) -> None:
    rig = Rig(shards_count=shards_count)
    rig.disk._leak = leak
    put(rig, 0)
    rig.disk.sync_errors = 1
    thread = threading.Thread(target=put, args=(rig, 1, 2, 3))
    thread.start()
    thread.join(WAIT_S)
    assert 1 not in rig.outcomes  # nobody knows yet
    rig.book.land(batch(4, 30))
    rig.book.ask("k/2", Identity("ab", 1, 2), rig.answer(20), 0)
    rig.book.tend()
    assert rig.book.flush(WAIT_S)
    assert rig.book.counts.reopened == 1
    assert rig.numbers() == list(range(30))
    placed = {row["sn"]: (row["shard"], row["seq"]) for row in rig.rows()}
    for number, outcome in rig.outcomes.items():
        assert isinstance(outcome, Place)
        assert (outcome.shard, outcome.seq) == placed[2 if number == 20 else number]
    assert set(rig.outcomes) == {0, 1, 2, 3, 20}
    rig.book.close()


def test_a_disk_that_stays_away_refuses_and_drops() -> None:
    rig = Rig()
    rig.opens_left = 0
    rig.disk.sync_errors = 1
    put(rig, 1)
    rig.book.tend()
    assert rig.book.status()["state"] == "Failed"
    rig.book.land(batch(2, 5))
    put(rig, 9)
    assert isinstance(rig.outcomes[9], Refusal)
    assert rig.outcomes[9].error == "closed"
    assert rig.book.counts.dropped == 3
    rig.opens_left = 1
    rig.book.tend()
    assert rig.book.flush(WAIT_S)
    assert rig.outcomes[1] == Place(0, 0, duplicate=False)
    assert rig.numbers() == [1]
    assert [row["payload"] for row in rig.rows() if row["kind"] == RowKind.DROP] == [b"3"]
    rig.book.close()


def test_gaps_become_rows(rig: Rig) -> None:
    rig.book.land(batch(0, 3))
    rig.book.land(batch(7, 9))
    rig.now_ns = 10
    gaps = rig.book.gaps(5)
    rig.book.land(batch(4, 5), filled=True)
    rig.book.settle(gaps)
    rig.book.tend()
    assert rig.book.flush(WAIT_S)
    told = [row for row in rig.rows() if row["kind"] == RowKind.GAP]
    assert [(one["zid"], one["eid"], one["sn"], one["payload"]) for one in told] == [
        ("ab", 1, 3, b"1"),
        ("ab", 1, 5, b"2"),
    ]
    assert (rig.book.counts.gaps, rig.book.counts.filled) == (3, 1)
    assert rig.book.gaps(0) == []


def test_who_waits_at_the_end_is_told(rig: Rig) -> None:
    rig.book.ask("k/3", Identity("ab", 1, 3), rig.answer(3), 1_000)
    rig.book.close()
    assert rig.outcomes[3] == Refusal("closed", "the recorder ends")
