"""Kill a recorder again and again while a hostile publisher claims to be the honest ones.

What was acknowledged to an honest publisher (`publishers.py`) has to be at its place after each
kill, no sample of one may be there twice, and what waited in a spool has to be there in its order
in the end.

Recorders are forked from a process that has imported everything, so that a life is short.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

from chaos.publishers import (
    BOB_ZID,
    CAROL,
    AskPublisher,
    HostilePublisher,
    Ledger,
    Place,
    PutPublisher,
    SpoolPublisher,
)
from tests.ports import free_port

import elea
from elea.errors import EleaError
from elea.store.log.disk import RealDisk
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.log.verify import verify
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.settings import RecordingSettings

START_S = 30.0  # a recorder that has not begun by then is a problem
LIFE_S = 1.0  # then it is killed, however many puts were acknowledged
DRAIN_S = 120.0
SPOOLED_COUNT = 40  # puts to the spool after a kill, at most
SPOOL_S = 0.3  # for these
ACKS_COUNT = 40  # of a life, at most
WHOLE_EVERY = 100  # lives: read all of the log; else what is new
LOG = LogSettings(shards_count=2, segment_len=200_000, pack_age_ns=0, low_water_percent=0)
QUIET = {"scouting": {"multicast": {"enabled": False}}}


def record(directory: str, endpoint: str, ready: Connection) -> None:
    """The process that is killed."""
    session = elea.open({**QUIET, "mode": "peer", "listen": {"endpoints": [endpoint]}})
    settings = RecordingSettings(
        key_exprs=("k/**",), name="log", directory=Path(directory), log=LOG
    )
    with Recorder(session, [settings]):
        ready.send("ready")
        time.sleep(3_600)


@dataclass(slots=True)
class HostileVictim:
    """A log, what was acknowledged to honest publishers, and what was found wrong."""

    directory: Path
    seed: int
    ledger: Ledger = field(default_factory=Ledger)
    deaths_count: int = 0
    hostile_count: int = 0  # samples, questions and receipts of the hostile publisher
    slow_count: int = 0  # lives in which fewer puts were acknowledged than was meant
    silent_count: int = 0  # lives in which none was
    _rows: dict[Place, bytes] = field(default_factory=dict)
    _counts: Counter[bytes] = field(default_factory=Counter)
    _last_carol: int = 0
    _ends: list[int] = field(default_factory=list)
    _checked_count: int = 0  # of what was acknowledged

    @property
    def problems(self) -> list[str]:
        """What was found wrong."""
        return self.ledger.problems

    def die(self) -> None:
        """One life of the recorder, from its start to its violent end."""
        self.deaths_count += 1
        rng = random.Random(f"{self.seed} {self.deaths_count}")
        self._run(lambda endpoint, kill: self._live(endpoint, kill, rng))
        self.check(whole=self.deaths_count % WHOLE_EVERY == 0)

    def finish(self) -> None:
        """A last life, to forward what waits in the spool; then all is looked at."""
        self._run(self._drain)
        self.check(whole=True)
        missing = self.ledger.spooled - self._counts.keys()
        self.problems.extend(f"sample {one!r} was spooled and is gone" for one in sorted(missing))

    def _run(self, live: Callable[[str, Callable[[], None]], None]) -> None:
        endpoint = f"tcp/127.0.0.1:{free_port()}"
        fork = multiprocessing.get_context("forkserver")
        fork.set_forkserver_preload(["chaos.hostile"])
        here, there = fork.Pipe()
        process = fork.Process(
            target=record, args=(str(self.directory), endpoint, there), daemon=True
        )
        process.start()
        try:
            if not here.poll(START_S):
                self.problems.append("the recorder did not begin")
                return
            live(endpoint, process.kill)
        except EleaError as error:
            self.problems.append(f"the recorder was not reached: {error!r}")
        finally:
            process.kill()
            process.join()
            here.close()
            there.close()
        if process.exitcode != -signal.SIGKILL:
            self.problems.append(f"the recorder ended by itself with {process.exitcode}")

    def _live(self, endpoint: str, kill: Callable[[], None], rng: random.Random) -> None:
        """Put until so many were acknowledged, and kill it soon after that."""
        ledger = self.ledger
        acks_count = rng.randint(1, ACKS_COUNT)
        ledger.begin(acks_count)
        with (
            elea.open({**_client(endpoint), "id": "a11ce"}) as alice,
            elea.open({**_client(endpoint), "id": BOB_ZID}) as bob,
            elea.open({**_client(endpoint), "id": "ca401"}) as carol,
            elea.open(_client(endpoint)) as mallory,
        ):
            hostile = HostilePublisher(mallory, rng)
            publishers: list[PutPublisher | AskPublisher | HostilePublisher] = [
                PutPublisher(alice, "k/alice/1", ledger),
                PutPublisher(alice, "k/alice/2", ledger),
                AskPublisher(bob, ledger, rng),
                SpoolPublisher(carol, self._spool, ledger),
                hostile,
            ]
            threads = [threading.Thread(target=one.run) for one in publishers]
            for thread in threads:
                thread.start()
            self.slow_count += not ledger.has_enough.wait(LIFE_S)
            time.sleep(rng.random() * 0.02)
            kill()
            ledger.await_spooled(rng.randint(1, SPOOLED_COUNT), SPOOL_S)
            self.silent_count += ledger.acks_left == acks_count
            hostile.is_over = True
            for session in (alice, bob, carol, mallory):
                session.close()
            for thread in threads:
                thread.join()
            self.hostile_count += hostile.sent_count

    @property
    def _spool(self) -> str:
        return str(self.directory.parent / "spool")

    def _drain(self, endpoint: str, _: Callable[[], None]) -> None:
        with elea.open({**_client(endpoint), "id": "ca401"}) as carol:
            publisher = SpoolPublisher(carol, self._spool, self.ledger)
            if not publisher.spool.drain(DRAIN_S):
                self.problems.append(f"the spool was not drained: {publisher.spool.stats()}")

    def check(self, *, whole: bool = True) -> None:
        """Read what is new in the log, or all of it; and look at all that was acknowledged."""
        try:
            if whole:
                self._rows, self._counts, self._ends, self._last_carol = {}, Counter(), [], 0
                self._checked_count = 0
                damage = verify(RealDisk(self.directory, writable=False)).damage
                self.problems.extend(str(one) for one in damage)
            self._read()
        except (EleaError, OSError) as error:
            self.problems.append(f"failed open: {error!r}")
            return
        for payload, place in list(self.ledger.placed.items())[self._checked_count :]:
            if self._rows.get(place) != payload:
                found = self._rows.get(place)
                self.problems.append(f"sample {payload!r} was acknowledged at {place}: {found!r}")
        self._checked_count = len(self.ledger.placed)

    def _read(self) -> None:
        """The samples of honest publishers that are new: their places, order and number."""
        reader = LogReader(self.directory)
        self._ends = self._ends or [0] * reader.shards_count
        for shard, start in enumerate(self._ends):
            end = self._ends[shard] = reader.bounds(shard).end
            columns = ["key", "payload"]
            for batch in reader.read(shard, start, end, columns=columns, position=True):
                for row in batch.to_pylist():
                    if row["payload"].startswith(row["key"].encode() + b" "):
                        self._see(row["payload"], (row["shard"], row["seq"]))

    def _see(self, payload: bytes, place: Place) -> None:
        self._rows[place] = payload
        self._counts[payload] += 1
        if self._counts[payload] > 1:
            first = next(one for one, other in self._rows.items() if other == payload)
            self.problems.append(f"sample {payload!r} is there twice, at {first} and {place}")
        key, number = payload.decode().split(" ")
        if key == CAROL:
            if int(number) < self._last_carol:
                self.problems.append(f"sample {payload!r} at {place} is after {self._last_carol}")
            self._last_carol = max(self._last_carol, int(number))


def _client(endpoint: str) -> dict[str, object]:
    return {**QUIET, "mode": "client", "connect": {"endpoints": [endpoint]}}
