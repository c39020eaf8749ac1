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
from elea.store.log.ends import Ends
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.log.segment import DATA, INDEX, stem_of
from elea.store.log.settings import LogSettings
from elea.store.recorder.book import Book
from elea.store.recorder.finder import Finder
from elea.store.recorder.flight import Answer, Given, Outcome, Place, Put, Refusal
from elea.store.recorder.marks import Mark, Question, mark_of_row
from elea.store.recorder.rows import Row, batch_of
from elea.store.recorder.windows import Identity
from elea.timestamp import NTP64, Timestamp

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
            for batch in reader.read(shard, reader.bounds(shard).first, position=True)
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


def row(number: int, key: str | None = None, at: int | None = None) -> Row:
    """A sample; a repeated one has the time it had."""
    identity = Identity("ab", 1, number)
    stamp = Timestamp(NTP64.from_value((1 + number if at is None else at) << 20), b"\x01")
    key = key or f"k/{number % 5}"
    return Row(key, RowKind.PUT, b"%d" % number, number, timestamp=stamp, identity=identity)


def question(number: int) -> Question:
    return Question(f"k/{number % 5}", Identity("ab", 1, number))


def batch(start: int, end: int) -> pa.RecordBatch:
    return batch_of([row(number) for number in range(start, end)])


def put(rig: Rig, *numbers: int) -> None:
    rig.book.store([Put(row(number), rig.answer(number)) for number in numbers])


@pytest.mark.parametrize("step", [1, 4_000])
def test_rows_that_came_again_by_the_thousand_were_stored_twice(rig: Rig, step: int) -> None:
    """As of a task of Spark that is tried again, with its rows in another order."""
    numbers = list(range(4_000 if step > 1 else 600))
    for attempt in range(3):
        for start in range(0, len(numbers), step):
            rig.book.land(batch_of([row(number) for number in numbers[start : start + step]]))
        assert rig.book.flush(WAIT_S)
        assert rig.book.counts.duplicates == attempt * len(numbers)
        random.Random(attempt).shuffle(numbers)
    assert rig.book.counts.unchecked == 0
    assert rig.numbers() == sorted(numbers)


def test_what_looking_for_repeats_costs_in_a_second_is_bounded() -> None:
    """Past the bound rows are stored twice rather than never, and counted."""
    rig = Rig()
    rig.book._limits = rig.book._finder._limits = replace(
        DEFAULT_LIMITS, record_suspects_count=100, record_looked_rows_count=3_000_000
    )
    for _ in range(2):
        rig.book.land(batch(0, 2_000))
        assert rig.book.flush(WAIT_S)
    counts = replace(rig.book.counts)
    assert counts.duplicates + counts.unchecked == 2_000
    assert 100 <= counts.duplicates <= 1_000
    rig.now_ns = 10**9
    rig.book.land(batch(0, 100))
    assert rig.book.counts.duplicates == counts.duplicates + 100
    rig.book.close()


def test_a_publisher_that_repeated_its_samples_got_no_receipt_for_them(rig: Rig) -> None:
    """It asked for each of them, one by one."""
    told: list[tuple[int, Outcome]] = []

    def receipt(mark: Mark, outcome: Outcome) -> None:
        told.append((mark.identity.sn, outcome))

    rig.book.tell_all(("ab", 1), b"nonce", receipt)
    rig.book.land(batch(0, 20))
    assert rig.book.flush(WAIT_S)
    first, told = told, []
    rig.book._finder._places.clear()
    rig.book.land(batch(5, 25))
    assert rig.book.flush(WAIT_S)
    expected = [(sn, replace_duplicate(outcome)) for sn, outcome in first if sn >= 5]
    assert sorted(one for one in told if one[0] < 20) == sorted(expected)
    assert [sn for sn, _ in told if sn >= 20] == list(range(20, 25))


def replace_duplicate(outcome: Outcome) -> Outcome:
    assert isinstance(outcome, Place)
    return outcome._replace(duplicate=True)


def test_questions_that_come_again_are_answered_from_memory(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host too slow to look for all samples in time looked for the same ones for ever."""
    put(rig, *range(6))
    rig.book.close()
    rig.book = rig.opened()  # which remembers no place
    rig.outcomes.clear()
    looked: list[Question] = []
    answer = Finder.answer

    def counted(self: Finder, question: Question) -> object:
        looked.append(question)
        return answer(self, question)

    monkeypatch.setattr(Finder, "answer", counted)
    asks = [replace_time(question(number), row(number)) for number in range(6)]
    for number, one in enumerate(asks):
        rig.book.ask(one, rig.answer(number), wait_ns=100)
    rig.now_ns = 200  # nobody waits any more
    rig.book.tend()
    rig.outcomes.clear()
    for turn in range(3):
        for number, one in enumerate(asks):
            rig.book.ask(one, rig.answer(100 * turn + number), wait_ns=1_000)
        rig.book.tend()
    assert all(isinstance(one, Place) for one in rig.outcomes.values())
    assert len(rig.outcomes) == 18
    assert len(looked) == 6, "each was looked for once"


def replace_time(question: Question, row: Row) -> Question:
    """The question with what is known of its sample."""
    assert row.timestamp is not None
    return question._replace(bits=row.timestamp.time.value)


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
    rig.book.ask(question(7), rig.answer(7), 0)
    rig.book.tend()
    assert rig.outcomes == {
        100: Place(0, 100, duplicate=True),
        101: Place(0, 101, duplicate=False),
        7: Place(0, 7, duplicate=False),
    }
    assert rig.numbers() == list(range(102))


def test_who_asks_first_is_answered_when_the_sample_came(rig: Rig) -> None:
    rig.book.ask(question(3), rig.answer(3), 1_000)
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
        rig.book.ask(question(1), lambda again: told.append(outcome.seq), 0)
        other = threading.Thread(target=rig.book.gaps, args=(0,))  # no lock is held here
        other.start()
        other.join(20)
        assert not other.is_alive()

    rig.book._tell = tell
    for number in range(4):
        rig.book.ask(question(number), take, 10**9)
    rig.book.land(batch(0, 4))
    assert given[0] == (4, threading.get_ident())
    assert told == [0, 1, 2, 3]


def test_who_asks_in_vain_is_told_so_in_time(rig: Rig) -> None:
    rig.book.ask(question(3), rig.answer(3), 1_000)
    rig.now_ns = 1_001
    rig.book.tend()
    assert isinstance(rig.outcomes[3], Refusal)
    assert rig.outcomes[3].error == "unknown"


def test_places_are_right_in_several_shards() -> None:
    rig = Rig(shards_count=3)
    rig.book.land(batch(0, 20))
    rig.book.store([Put(row(number), rig.answer(number)) for number in range(20, 60)])
    for number in range(5):
        rig.book.ask(question(number), rig.answer(number), 0)
    rig.book.tend()
    assert eventually(lambda: len(rig.outcomes) == 45)  # another thread may have written, and tells
    placed = {row["sn"]: (row["shard"], row["seq"]) for row in rig.rows()}
    for number, outcome in rig.outcomes.items():
        assert isinstance(outcome, Place)
        assert (outcome.shard, outcome.seq) == placed[number]
    rig.book.close()


@pytest.mark.parametrize("shards_count", [1, 3])
def test_only_the_sample_without_room_is_refused(
    shards_count: int, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig(shards_count=shards_count, quota_len=60_000)
    large = row(4)._replace(payload=bytes(70_000))
    rig.book.land(batch_of([large if number == 4 else row(number) for number in range(10)]))
    assert rig.book.flush(WAIT_S)
    assert rig.numbers() == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert (rig.book.counts.rows, rig.book.counts.dropped) == (9, 1)
    assert "70000 more are asked for, the quota is 60000" in caplog.text
    large = row(14)._replace(payload=bytes(70_000))
    puts = [large if number == 14 else row(number) for number in range(10, 20)]
    rig.book.store([Put(one, rig.answer(one.received_us)) for one in puts])
    refusal = rig.outcomes.pop(14)
    assert isinstance(refusal, Refusal)
    assert refusal.error == "full"
    placed = {
        one["sn"]: Place(int(str(one["shard"])), int(str(one["seq"])), duplicate=False)
        for one in rig.rows()
    }
    assert rig.outcomes == {n: placed[n] for n in (*range(10, 14), *range(15, 20))}
    assert rig.book.counts.dropped == 1  # a caller who is told loses nothing unseen
    rig.book.tend()
    rig.book.land(batch_of([row(4), row(5)]))  # from a cache, and small enough
    assert rig.book.flush(WAIT_S)
    assert list(rig.numbers()).count(4) == 1
    assert rig.book.counts.duplicates == 1
    rig.book.close()


@pytest.mark.parametrize("leak", [0.0, 1.0])
def test_rows_that_fit_are_looked_up_when_their_log_broke(leak: float) -> None:
    rig = Rig(quota_len=60_000)
    rig.disk._leak = leak
    rig.disk.sync_errors = 1
    rig.book.land(batch_of([row(0), row(1)._replace(payload=bytes(70_000)), row(2)]))
    assert rig.book.flush(WAIT_S)
    assert rig.numbers() == []
    rig.book.tend()
    assert rig.book.flush(WAIT_S)
    assert rig.numbers() == [0, 2]
    assert (rig.book.counts.rows, rig.book.counts.dropped) == (2, 1)
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
    assert rig.book.notes.drops_count == 10
    rig.disk.free_len = 1 << 40
    rig.book.tend()
    rig.book.land(batch(5, 8))  # from a cache, say
    assert rig.book.flush(WAIT_S)
    told = [row for row in rig.rows() if row["kind"] == RowKind.DROP]
    assert [(row["key"], row["payload"]) for row in told] == [("k/**", b"10")]
    assert rig.numbers() == [0, 5, 6, 7]
    assert rig.book.notes.drops_count == 0
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
    rig.book.ask(question(2), rig.answer(20), 0)
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


def test_rows_whose_offsets_were_skipped_after_damage_are_not_taken_for_stored() -> None:
    rig = Rig()
    put(rig, 0)
    rig.disk.sync_errors = 1
    put(rig, 1, 2, 3)
    assert 1 not in rig.outcomes
    Ends(rig.disk, rig.book.log_id).note(0, 4)
    for ending in (DATA, INDEX):
        rig.disk.remove(stem_of(0, 0) + ending)
    rig.book.tend()
    assert rig.book.flush(WAIT_S)
    assert rig.numbers() == [1, 2, 3]
    placed = [(row["shard"], row["seq"]) for row in rig.rows()]
    outcomes = [rig.outcomes[number] for number in (1, 2, 3)]
    assert [(one.shard, one.seq) for one in outcomes if isinstance(one, Place)] == placed
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
    def land(*numbers: int, filled: bool = False) -> None:
        rig.book.land(batch_of([row(number, "k/a") for number in numbers]), filled=filled)

    land(0, 1, 2)
    land(7, 8)
    rig.book.announced(("ab", 1, "k/a"))
    rig.now_ns = 10
    gaps = rig.book.gaps(5)
    land(4, filled=True)
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
    rig.book.ask(question(3), rig.answer(3), 1_000)
    rig.book.close()
    assert rig.outcomes[3] == Refusal("closed", "the recorder ends")


def told(rig: Rig) -> list[tuple[object, object]]:
    return [(row["key"], row["payload"]) for row in rig.rows()]


def test_a_claimed_number_on_another_key_takes_nothing_from_its_owner(rig: Rig) -> None:
    rig.book.land(batch_of([row(number, "k/mine", 900) for number in range(20)]))
    for number in range(20):
        rig.book.ask(question(number), rig.answer(100 + number), 10**9)
        put(rig, number)
    assert [rig.outcomes[number] for number in range(20)] == [
        Place(0, 20 + number, duplicate=False) for number in range(20)
    ]
    assert rig.numbers() == sorted([*range(20), *range(20)])
    for number in range(20):
        assert rig.outcomes[100 + number] == Place(0, 20 + number, duplicate=False)


@pytest.mark.parametrize("at", [0, 1, 2**40])  # past, and future
def test_a_claimed_number_on_the_same_key_takes_nothing_from_its_owner(rig: Rig, at: int) -> None:
    for number in range(10):
        forged = row(number, at=at)._replace(payload=b"forged")
        rig.book.land(batch_of([forged]))
        asked = question(number)._replace(
            bits=row(number).timestamp.time.value,  # type: ignore[union-attr]
            digest=mark_of_row(row(number)).digest,  # type: ignore[union-attr]
        )
        rig.book.ask(asked, rig.answer(100 + number), 10**9)
        rig.book.land(batch_of([row(number)]))
    assert rig.book.flush(WAIT_S)
    rig.book.tend()
    rows = rig.rows()
    for number in range(10):
        place = rig.outcomes[100 + number]
        assert isinstance(place, Place)
        assert rows[place.seq]["payload"] == b"%d" % number
        put(rig, number)  # repeated
        assert rig.outcomes[number] == Place(0, place.seq, duplicate=True)
    assert len(rig.rows()) == 20


def test_only_what_agrees_in_key_time_and_payload_is_a_duplicate(rig: Rig) -> None:
    one = row(7)
    others = [
        one._replace(payload=b"other"),
        one._replace(key="k/other"),
        one._replace(kind=RowKind.DELETE),
        one._replace(attachment=b"a"),
        row(7, at=3),
        row(7, at=30),
    ]
    for number, each in enumerate([one, *others, one, *others]):
        rig.book.store([Put(each, rig.answer(number))])
    assert [rig.outcomes[number].duplicate for number in range(14)] == [False] * 7 + [True] * 7  # type: ignore[union-attr]
    rig.book.land(batch_of([*others, one]))
    assert len(rig.rows()) == 7
    rig.book.close()
    rig.book = rig.opened()
    rig.book.land(batch_of([one, *others]))
    assert rig.book.flush(WAIT_S)
    assert len(rig.rows()) == 7


def test_a_publisher_that_begins_anew_loses_nothing_also_after_a_restart(rig: Rig) -> None:
    rig.book.land(batch(0, 20))
    for life in (1, 2):
        rig.book.land(batch_of([row(number, at=100 * life + number) for number in range(10)]))
        assert rig.book.flush(WAIT_S)
        assert len(rig.rows()) == 20 + 10 * life
        rig.book.close()
        rig.book = rig.opened()
    rig.book.land(batch(0, 20))  # what was before is known
    rig.book.land(batch_of([row(number, at=100 + number) for number in range(10)]))
    assert rig.book.flush(WAIT_S)
    assert len(rig.rows()) == 40
    assert rig.book.counts.duplicates == 30


def test_a_put_without_time_is_known_for_a_while_by_its_payload(rig: Rig) -> None:
    for number, received_us in enumerate([0, 5, 10**9]):
        one = row(7, at=number)._replace(received_us=received_us)
        rig.book.store([Put(one, rig.answer(number), is_stamped=False)])
        if number == 0:
            rig.book.close()
            rig.book = rig.opened()
    other = row(7, at=9)._replace(payload=b"other")
    rig.book.store([Put(other, rig.answer(3), is_stamped=False)])
    assert [rig.outcomes[number].duplicate for number in range(4)] == [False, True, False, False]  # type: ignore[union-attr]


def test_a_put_without_time_is_new_after_the_recorders_clock_was_set_back(rig: Rig) -> None:
    day_us = 86_400_000_000
    for number, received_us in enumerate([2 * day_us, day_us, day_us + 5]):
        one = row(7, at=number)._replace(received_us=received_us)
        rig.book.store([Put(one, rig.answer(number), is_stamped=False)])
        rig.book.close()
        rig.book = rig.opened()
    assert [rig.outcomes[number].duplicate for number in range(3)] == [False, False, True]  # type: ignore[union-attr]
    assert len(rig.rows()) == 2


def test_many_invented_sources_do_not_double_a_repeated_put(rig: Rig) -> None:
    rig.book._windows._limits = replace(DEFAULT_LIMITS, record_windows_count=8)
    put(rig, 1)
    for number in range(100):
        forged = row(number, f"k/{number}", at=2**43)
        rig.book.land(batch_of([forged._replace(identity=Identity(f"f{number}", 3, 1))]))
    rig.book._finder._places.clear()
    rig.outcomes.clear()
    put(rig, 1)
    assert rig.outcomes == {1: Place(0, 0, duplicate=True)}
    rig.book.land(batch_of([row(1)]))
    assert rig.book.flush(WAIT_S)
    assert rig.numbers().count(1) == 101


def test_a_number_that_several_samples_have_is_not_answered_without_more(rig: Rig) -> None:
    rig.book.land(batch_of([row(7), row(7, at=50)]))
    rig.book.ask(question(7), rig.answer(7), 0)
    rig.book.tend()
    refusal = rig.outcomes[7]
    assert isinstance(refusal, Refusal)
    assert "several samples" in refusal.detail
