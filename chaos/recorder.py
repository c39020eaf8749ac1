"""Kill `elea record` again and again while puts are acknowledged, and look whether all is there.

Samples are put by queries, as any Zenoh client can: each has an identity, and one that was not
acknowledged in one life of the recorder is put again in the next. Others are put as Elea's sessions
do, which are told without a question, and never again. What was acknowledged has to be at its
place, and no sample twice.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from tests.ports import free_port

import elea
from elea.errors import EleaError
from elea.store.log.disk import RealDisk
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.log.verify import verify
from elea.store.log.writer import Writer

DEADLINE_S = 120
PUTS_COUNT = 3  # in between, one after the other
AT_ONCE = 8  # puts that wait for an acknowledgement
KEYS_COUNT = 5
ZID = "c0ffee"
CHECK = LogSettings(low_water_percent=0)
ANSWER_S = 5.0


@dataclass(slots=True)
class RecorderVictim:
    """A log that is recorded to, what was acknowledged, and what was found wrong."""

    directory: Path
    seed: int
    shards_count: int = 2
    next_number: int = 0
    unanswered: deque[int] = field(default_factory=deque)
    placed: dict[int | bytes, tuple[int, int]] = field(default_factory=dict)  # shard, seq
    puts_count: int = 0
    problems: list[str] = field(default_factory=list)
    deaths_count: int = 0
    repeated_count: int = 0  # that were there although nobody had been told

    def die(self) -> None:
        """One life of the recorder, from its start to its violent end."""
        self.deaths_count += 1
        rng = random.Random(f"{self.seed} {self.deaths_count}")
        endpoint = f"tcp/127.0.0.1:{free_port()}"
        process = self.start(endpoint)
        deadline = threading.Timer(DEADLINE_S, process.kill)
        deadline.start()
        try:
            with elea.open({"mode": "client", "connect": {"endpoints": [endpoint]}}) as session:
                self._work(session, process, rng)
        except EleaError as error:
            self.problems.append(f"the recorder was not reached: {error!r}")
        finally:
            deadline.cancel()
            process.kill()
            status = process.wait()
            assert process.stderr is not None
            process.stderr.close()
        if status != -signal.SIGKILL:
            self.problems.append(f"the recorder ended by itself with {status}")
        self._check()

    def start(self, endpoint: str) -> subprocess.Popen[str]:
        """A recorder that listens there, and has begun."""
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "elea.cli.main", "record", "k/**", "--name", "log"),
                *("--to", str(self.directory), "--shards", str(self.shards_count)),
                *("--listen", endpoint, "--cfg", "scouting/multicast/enabled:false"),
            ],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", *sys.path])},
        )
        assert process.stderr is not None
        told = []
        for line in process.stderr:
            told.append(line)
            if "records k/**" in line:
                return process
        self.problems.append(f"failed open: {told[-1:]}")
        return process

    def _work(
        self, session: elea.Session, process: subprocess.Popen[str], rng: random.Random
    ) -> None:
        """Put until the recorder is dead."""
        acknowledged_left = rng.randint(1, 60)
        while process.poll() is None:
            numbers = [self._take_number() for _ in range(rng.randint(1, AT_ONCE))]
            session.put("k/noise", bytes(200))
            self._put(session)
            questions = []
            for number in numbers:
                identity = f"zid={ZID};eid=1;sn={number};publish=false"
                selector = f"@elea/log/log/put/k/{number % KEYS_COUNT}?{identity}"
                payload = str(number).encode()
                questions.append(session.get(selector, payload=payload, timeout=ANSWER_S))
            for number, replies in zip(numbers, questions, strict=True):
                if self._is_acknowledged(number, list(replies)):
                    acknowledged_left -= 1
                    if acknowledged_left == 0:
                        threading.Timer(rng.random() * 0.02, process.kill).start()
                else:
                    self.unanswered.append(number)
            if not process.poll() and len(self.unanswered) > 10 * AT_ONCE:
                process.kill()

    def _put(self, session: elea.Session) -> None:
        for _ in range(PUTS_COUNT):
            payload = f"put {self.puts_count}".encode()
            self.puts_count += 1
            try:
                ack = session.put("k/put", payload, ack="stored", timeout=ANSWER_S)
            except EleaError:
                return
            self.placed[payload] = (ack.shard, ack.seq)

    def _take_number(self) -> int:
        if self.unanswered:
            return self.unanswered.popleft()
        self.next_number += 1
        return self.next_number - 1

    def _is_acknowledged(self, number: int, replies: list[elea.Reply]) -> bool:
        for reply in replies:
            if reply.ok is not None:
                told = json.loads(reply.ok.payload.to_string())
                self.placed[number] = (told["shard"], told["seq"])
                self.repeated_count += told["duplicate"]
                return True
        return False

    def _check(self) -> None:
        """Open it as the next recorder would, and read all of it."""
        try:
            disk = RealDisk(self.directory, writable=True)
            writer = Writer(disk, CHECK, lambda: 0)
            damage = writer.report.damage
            writer.close()
            damage += verify(disk).damage
            there = self._rows()
        except (EleaError, OSError) as error:
            self.problems.append(f"failed open: {error!r}")
            return
        self.problems += [str(one) for one in damage]
        places: dict[int | bytes, tuple[int, int]] = {}
        for place, sample in there.items():
            if places.setdefault(sample, place) != place:
                self.problems.append(f"sample {sample!r} is there twice")
        for sample, place in self.placed.items():
            if there.get(place) != sample:
                seen = there.get(place)
                self.problems.append(f"sample {sample!r} was acknowledged at {place}: {seen!r}")

    def _rows(self) -> dict[tuple[int, int], int | bytes]:
        """The samples that were put, by their places."""
        reader = LogReader(self.directory)
        columns = ["key", "sn", "zid", "payload"]
        found: dict[tuple[int, int], int | bytes] = {}
        for shard in range(reader.shards_count):
            for batch in reader.read(shard, 0, columns=columns, position=True):
                for row in batch.to_pylist():
                    if row["zid"] == ZID:
                        if row["payload"] != str(row["sn"]).encode():
                            self.problems.append(f"sample {row['sn']} is {row['payload']!r}")
                        found[row["shard"], row["seq"]] = row["sn"]
                    elif row["key"] == "k/put":
                        found[row["shard"], row["seq"]] = row["payload"]
        return found
