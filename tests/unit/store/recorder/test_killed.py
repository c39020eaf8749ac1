"""Recorders that are killed: while puts are acknowledged, and while samples are missing.

Of a publisher that numbers its samples each one is in the log, or a row says that it is missing:
whenever the recorder dies, and however often.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from chaos.disk import FaultDisk, MemoryPlatter
from chaos.hostile import HostileVictim
from chaos.recorder import RecorderVictim
from tests.unit.cli.ends import eventually, free_endpoint

import elea
from elea.errors import StoreError
from elea.ids import EntityGlobalId, EntityId
from elea.provenance import SourceInfo
from elea.store.log.disk import Disk
from elea.store.log.log import Log
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.log.settings import LogSettings
from elea.store.recorder.book import Book
from elea.store.recorder.rows import Row, batch_of
from elea.store.recorder.windows import Gap, Identity

WAIT_S = 20
ZID, EID = "ab", 7
CACHED = {4, 9, 13, 21}  # the publisher has these, and sends them when it is asked


def test_what_was_acknowledged_survives(tmp_path: Path) -> None:
    victim = RecorderVictim(tmp_path / "log", seed=5)
    for _ in range(3):
        victim.die()
    assert victim.problems == []
    assert victim.placed
    assert any(isinstance(one, bytes) for one in victim.placed)


def numbers(log: Path | Disk) -> tuple[list[int], list[int]]:
    """What is recorded, and what rows say is missing."""
    reader = LogReader(log)
    recorded: list[int] = []
    missing: list[int] = []
    for shard in range(reader.shards_count):
        for batch in reader.read(shard, 0):
            for row in batch.to_pylist():
                if row["kind"] == RowKind.GAP:
                    missing += range(row["sn"], row["sn"] + int(row["payload"]))
                elif row["sn"] is not None:
                    recorded.append(row["sn"])
    return recorded, missing


class Life:
    """A recorder's book on a disk, and the steps of what happens to it."""

    def __init__(self, platter: MemoryPlatter, seed: int, first: int) -> None:
        self.platter = platter
        self.disk = FaultDisk(platter, random.Random(seed))
        self.now_ns = 0
        self._first = first
        self._gaps: list[Gap] = []
        self.book = Book(
            *("log", "k/**", lambda: Log(self.disk, LogSettings(low_water_percent=0))),
            lambda _given: None,
            lambda: None,
            clock_ns=lambda: self.now_ns,
        )
        self.book.announced((ZID, EID, "k/a"))

    def steps(self) -> Iterator[Callable[[], object]]:
        first = self._first
        yield lambda: self._land(*range(first, first + 3))
        yield lambda: self._land(*range(first + 5, first + 8))
        yield from self.filling()
        yield lambda: self._land(first + 8, first + 10)
        yield lambda: self._land(first + 14)
        yield from self.filling()

    def filling(self) -> Iterator[Callable[[], object]]:
        """What a filler does."""
        yield self._look
        yield self._fill
        yield lambda: self.book.settle(self._gaps)
        yield self.book.tend

    def dies(self) -> MemoryPlatter:
        """What is left of it."""
        with self.disk.lock_of_threads:
            self.disk.lose_power()
            left = copy.deepcopy(self.platter)
        self.book.close()  # on a disk that nobody reads
        return left

    def _land(self, *sns: int) -> None:
        self.now_ns += 1
        rows = [Row("k/a", RowKind.PUT, b"x", 0, identity=Identity(ZID, EID, sn)) for sn in sns]
        self.book.land(batch_of(rows), filled=False)
        self.book.announced((ZID, EID, "k/a"))

    def _look(self) -> None:
        self.now_ns += 1
        self._gaps = self.book.gaps(0)

    def _fill(self) -> None:
        wanted = {sn for gap in self._gaps for sn in range(gap.start, gap.end)}
        found = sorted(wanted & CACHED)
        if found:
            self._land(*found)


STEPS_COUNT = 12


@pytest.mark.parametrize("is_flushed", [True, False])
@pytest.mark.parametrize("step", range(1, STEPS_COUNT + 1))
def test_every_number_is_recorded_or_told_whenever_the_recorder_dies(
    step: int, is_flushed: bool
) -> None:
    for again in range(0, STEPS_COUNT + 1, 3):
        platter, first = MemoryPlatter(), 0
        for life_steps in (step, again):
            life = Life(platter, step * 100 + again, first)
            for _, act in zip(range(life_steps), life.steps(), strict=False):
                act()
                if is_flushed:
                    assert life.book.flush(WAIT_S)
            platter = life.dies()
            first += 20
        last = Life(platter, 0, first)
        acts = list(last.steps())
        assert len(acts) == STEPS_COUNT
        for act in acts:
            act()
        assert last.book.flush(WAIT_S)
        recorded, missing = numbers(last.disk)
        last.book.close()
        assert Counter(recorded + missing) == Counter(range(min(recorded), first + 15))
        assert not CACHED & set(missing)


def test_a_gap_that_is_open_when_the_recorder_is_killed_is_told_by_the_next_one(
    tmp_path: Path,
) -> None:
    def put(session: elea.Session, *sns: int) -> None:
        source = EntityGlobalId(session.zid(), EntityId(7))
        for sn in sns:
            session.put("k/a", str(sn), source_info=SourceInfo(source, sn))

    def are_there(*sns: int) -> bool:
        try:
            return set(sns) <= set(numbers(tmp_path / "log")[0])
        except StoreError:  # it is being made
            return False

    victim = RecorderVictim(tmp_path / "log", seed=1, shards_count=1)
    for sns in ((1, 2, 5), (9,)):
        endpoint = free_endpoint()
        process = victim.start(endpoint)
        try:
            quiet = {"scouting": {"multicast": {"enabled": False}}, "id": "c0ffee"}
            asking = {"mode": "client", "connect": {"endpoints": [endpoint]}, **quiet}
            with elea.open(asking) as session:
                put(session, *sns)
                assert eventually(partial(are_there, *sns))
                beat = f"k/a/@adv/pub/{session.zid()}/7/_"
                session.put(beat, sns[-1].to_bytes(4, "little"))
                if sns == (9,):
                    assert eventually(lambda: len(numbers(tmp_path / "log")[1]) >= 5)
        finally:
            process.kill()
            process.wait()
            assert process.stderr is not None
            process.stderr.close()
    assert victim.problems == []
    recorded, missing = numbers(tmp_path / "log")
    assert recorded == [1, 2, 5, 9]
    assert sorted(missing) == [3, 4, 6, 7, 8]


def test_hostile_publishers_take_nothing_from_what_was_acknowledged(tmp_path: Path) -> None:
    victim = HostileVictim(tmp_path / "log", seed=3)
    for _ in range(30):  # a life is short, and on a busy machine it may be too short
        victim.die()
        if victim.deaths_count > 1 and victim.ledger.placed and victim.hostile_count:
            break
    victim.finish()
    assert victim.problems == []
    assert victim.ledger.placed
    assert victim.hostile_count
