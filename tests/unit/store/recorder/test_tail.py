"""Whether a sample is recorded already is found out cheaply, whatever others put in the log."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from tests.unit.store.recorder.test_book import WAIT_S, Rig, put, row

from elea.store.log.reader import LogReader
from elea.store.log.single import Single
from elea.store.recorder.flight import Place
from elea.store.recorder.rows import batch_of
from elea.store.recorder.tail import Hits, Sought, Tail
from elea.store.recorder.windows import Identity

FAR = 2**63 + 2**40  # timestamps with the highest bit, far ahead of all


def single(key: str, sn: int | None, bits: int | None) -> Single:
    hlc = None if bits is None else ((bits ^ 2**63) & (2**64 - 1)) - 2**63
    return Single(key, 0, b"", None, "", None, hlc, "c", "ab", 7, sn, 0, 1_000_000)


@pytest.fixture(name="rig", params=[1, 3])
def _rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    found = Rig(shards_count=request.param)
    yield found
    found.book.close()


def test_rows_are_found_by_key_number_and_timestamp() -> None:
    tail = Tail(10_000)
    for seq in range(1_500):  # more than are kept as plain values
        tail.add_single(single(f"k/{seq % 3}", seq % 100, FAR + seq), seq)
    tail.add_single(single("k/0", None, 5), 1_500)
    tail.add_single(single("k/0", 7, None), 1_501)
    samples = [
        Sought("k/0", 0, FAR + 300),
        Sought("k/1", 0, FAR + 300),
        Sought("k/0", 7, FAR + 300),
        Sought("k/0", 99, FAR + 1_499),
    ]
    assert tail.find_samples(samples, 10).seqs == [300]
    assert tail.find_samples(samples[1:], 10).seqs == []
    assert tail.find_samples([Sought("k/0", 0, FAR - 1)], 10) == Hits([], 0)
    expected = [seq for seq in range(1_500) if seq % 3 == 0 and seq % 100 == 7]
    assert tail.find("k/0", [7]) == [*expected, 1_501]


def test_what_is_forgotten_is_known_to_be() -> None:
    tail = Tail(1_000)
    for start in range(0, 5_000, 50):
        rows = [row(seq, at=seq + 1) for seq in range(start, start + 50)]
        tail.add(batch_of(rows), pa.array(range(start, start + 50), pa.int64()))
    assert 3_800 <= tail.first_seq <= 4_000
    rest = range(tail.first_seq, 5_000)
    assert tail.find("k/1", range(5_000)) == [seq for seq in rest if seq % 5 == 1]


def test_a_number_that_others_used_first_does_not_cost_a_search_of_the_log(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(300):  # each in a block of its own, with times from one end to the other
        forged = [row(number, at=5), row(number, at=2**40)]
        rig.book.land(batch_of([one._replace(payload=b"junk") for one in forged]))
        assert rig.book.flush(WAIT_S)
    read: list[int] = []
    whole_read = LogReader.read

    def read_some(self: LogReader, shard: int, first: int, end: int, **more: object) -> object:
        read.append(end - first)
        return whole_read(self, shard, first, end, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(LogReader, "read", read_some)
    monkeypatch.setattr(LogReader, "select", None)
    rig.book.land(batch_of([row(200, at=5)._replace(payload=b"of the forged time")]))
    rig.book.land(batch_of([row(200, at=2**39)]))
    put(rig, 100)
    assert rig.book.flush(WAIT_S)
    assert isinstance(rig.outcomes[100], Place)
    assert not rig.outcomes[100].duplicate
    assert sum(read) < 10


def test_a_repeated_put_is_found_in_front_of_the_tail(rig: Rig) -> None:
    put(rig, 1)
    first = rig.outcomes.pop(1)
    assert isinstance(first, Place)
    for start in range(0, 20_000, 1_000):  # the tail of the rig has 5,000 rows
        others = [row(number, at=1_000 + number) for number in range(start, start + 1_000)]
        identity = Identity("other", 3, 0)
        rig.book.land(
            batch_of([one._replace(identity=identity._replace(sn=start + 9)) for one in others])
        )
        assert rig.book.flush(WAIT_S)
    for _ in range(2):
        rig.book._finder._places.clear()
        put(rig, 1)
        assert rig.outcomes.pop(1) == first._replace(duplicate=True)
        rig.book.close()
        rig.book = rig.opened()  # and after a start


def test_a_sample_that_agrees_but_for_its_number_is_stored(rig: Rig) -> None:
    """As of a program that rounds timestamps; a claimed number makes both of them suspects."""
    same = [row(number, "k/a", at=50)._replace(payload=b"ok") for number in (1, 2)]
    for number in (1, 2):
        rig.book.land(batch_of([row(number, "k/a", at=2**40)]))
    for _ in range(3):
        rig.book.land(batch_of(same))
    assert rig.book.flush(WAIT_S)
    assert rig.numbers() == [1, 1, 2, 2]
