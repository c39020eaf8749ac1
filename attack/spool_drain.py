"""A spool that has filled while nobody recorded is drained by a recorder that appears.

It is drained in batches, faster than one producer fills it, while others go on putting; each sample
is there once, those of one key in their order. The spool is declared with `live=False`: otherwise a
sample that is put in the moment in which the recorder appears may precede those that wait.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Target, until

import elea
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.settings import RecordingSettings

THREAT: Final = "a spool that never empties"
RSS_GROWTH: Final = 64 * MIB
SIZES: Final = {"small": 2_000, "full": 50_000}  # samples that wait
_KEYS: Final = 3
_ROOT: Final = "spool_drain"


def attack(target: Target, size: int) -> list[Check]:
    """Fill a spool, start a recorder, and put on meanwhile."""
    log = target.folder / "spool_drain"
    with target.session() as session, session.declare_spool(live=False) as spool:
        for number in range(size):
            session.put(f"{_ROOT}/{number % _KEYS}", f"{number}", ack="stored")
        waiting = spool.stats().waiting_count
        with target.session() as far, recorder(far, log):
            stop = threading.Event()
            late: list[int] = []
            producer = threading.Thread(target=_put_on, args=(session, size, stop, late))
            producer.start()
            began_s = time.monotonic()
            drained = until(lambda: spool.stats().forwarded_count >= waiting)
            took_s = time.monotonic() - began_s
            stop.set()
            producer.join()
            drained = drained and spool.drain(PATIENCE_S)
    rows = list(_rows(log))
    numbers = [number for _, number in rows]
    disorder = sum(
        1
        for key in range(_KEYS)
        for before, after in zip(of_key(rows, key), of_key(rows, key)[1:], strict=False)
        if after < before
    )
    return [
        Check("not_spooled", size - waiting, 0),
        Check("not_drained", float(not drained), 0),
        Check("lost", len(set(range(size + len(late))) - set(numbers)), 0),
        Check("twice", len(numbers) - len(set(numbers)), 0),
        Check("out_of_order", disorder, 0),
        Check("us_per_sample", took_s / size * 1e6, 200, timed=True),
    ]


def of_key(rows: list[tuple[str, int]], key: int) -> list[int]:
    """The numbers on one key, in the order of the log."""
    return [number for one, number in rows if one == f"{_ROOT}/{key}"]


def _put_on(session: elea.Session, first: int, stop: threading.Event, late: list[int]) -> None:
    while not stop.wait(0.002):
        number = first + len(late)
        session.put(f"{_ROOT}/{number % _KEYS}", f"{number}", ack="stored", timeout=PATIENCE_S)
        late.append(number)


@contextmanager
def recorder(session: elea.Session, log: Path) -> Iterator[Recorder]:
    """A recorder of what the spool has."""
    settings = RecordingSettings(
        name="drain",
        directory=log,
        key_exprs=(f"{_ROOT}/**",),
        log=LogSettings(low_water_percent=0),
    )
    with Recorder(session, [settings]) as made:
        yield made


def _rows(log: Path) -> Iterator[tuple[str, int]]:
    reader = LogReader(log)
    for shard in range(reader.shards_count):
        for batch in reader.read(shard, 0):
            keys, payloads = batch.column("key").to_pylist(), batch.column("payload").to_pylist()
            yield from ((str(key), int(text)) for key, text in zip(keys, payloads, strict=True))
