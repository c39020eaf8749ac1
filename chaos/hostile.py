"""Kill a recorder again and again while hostile publishers claim to be the honest ones.

Honest publishers put with acknowledgements, as sessions do, and by queries with an identity, which
are repeated with their timestamps in the next life. A hostile one watches them, and uses their zid,
eid and numbers, past and future ones and always the same, on its own key and on theirs, with
timestamps of now, the past and the future; it repeats their samples, and forges receipts. What was
acknowledged to an honest publisher has to be at its place, and no sample of one twice.

Recorders are forked from a process that has imported everything, so that a life is short.
"""

from __future__ import annotations

import json
import multiprocessing
import random
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path

import elea
from elea.errors import EleaError
from elea.ids import EntityGlobalId, EntityId
from elea.provenance import SourceInfo
from elea.store.log.disk import RealDisk
from elea.store.log.reader import LogReader
from elea.store.log.settings import LogSettings
from elea.store.log.verify import verify
from elea.store.recorder.recorder import Recorder
from elea.store.recorder.settings import RecordingSettings
from elea.timestamp import NTP64, Timestamp

START_S = 30.0  # a recorder that has not begun by then is a problem
LIFE_S = 1.0  # then it is killed, however many puts were acknowledged
ANSWER_S = 5.0
ACKS_COUNT = 40  # of a life, at most
CHECK_EVERY = 10  # lives
LOG = LogSettings(shards_count=2, segment_len=200_000, pack_age_ns=0, low_water_percent=0)
QUIET = {"scouting": {"multicast": {"enabled": False}}}
HOSTILE_AGES_S = (0, -3_600, 3_600, 86_400 * 365)
REPLAY_ONE_IN = 10
ATTACK_S = 0.005  # between two attacks of three samples or more


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
    placed: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # shard, seq
    problems: list[str] = field(default_factory=list)
    deaths_count: int = 0
    hostile_count: int = 0  # samples and receipts of the hostile publisher
    slow_count: int = 0  # lives in which fewer puts were acknowledged than was meant
    repeated_count: int = 0  # puts that were there although nobody had been told
    _puts_count: int = 0
    _unanswered: deque[tuple[int, Timestamp]] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def die(self) -> None:
        """One life of the recorder, from its start to its violent end."""
        self.deaths_count += 1
        rng = random.Random(f"{self.seed} {self.deaths_count}")
        with socket.create_server(("127.0.0.1", 0)) as probe:
            endpoint = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
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
            self._live(endpoint, process.kill, rng)
        except EleaError as error:
            self.problems.append(f"the recorder was not reached: {error!r}")
        finally:
            process.kill()
            process.join()
            here.close()
            there.close()
        if process.exitcode != -signal.SIGKILL:
            self.problems.append(f"the recorder ended by itself with {process.exitcode}")
        if self.deaths_count % CHECK_EVERY == 0:
            self.check()

    def _live(self, endpoint: str, kill: Callable[[], None], rng: random.Random) -> None:
        """Put until so many were acknowledged, and kill it soon after that."""
        client = {**QUIET, "mode": "client", "connect": {"endpoints": [endpoint]}}
        enough = threading.Event()
        left = [rng.randint(1, ACKS_COUNT)]

        def acknowledged(payload: bytes, shard: int, seq: int) -> None:
            with self._lock:
                self.placed[payload] = (shard, seq)
                left[0] -= 1
                if left[0] <= 0:
                    enough.set()

        with (
            elea.open({**client, "id": "a11ce"}) as alice,
            elea.open({**client, "id": "c0ffee"}) as bob,
            elea.open(client) as mallory,
        ):
            hostile = _Hostile(mallory, rng)
            threads = [
                threading.Thread(target=self._put_all, args=(alice, "k/alice/1", acknowledged)),
                threading.Thread(target=self._put_all, args=(alice, "k/alice/2", acknowledged)),
                threading.Thread(target=self._ask_all, args=(bob, acknowledged)),
                threading.Thread(target=hostile.run),
            ]
            for thread in threads:
                thread.start()
            self.slow_count += not enough.wait(LIFE_S)
            time.sleep(rng.random() * 0.02)
            kill()
            hostile.is_over = True
            for session in (alice, bob, mallory):
                session.close()
            for thread in threads:
                thread.join()
            self.hostile_count += hostile.sent_count

    def _number(self) -> int:
        with self._lock:
            self._puts_count += 1
            return self._puts_count

    def _put_all(
        self, session: elea.Session, key: str, told: Callable[[bytes, int, int], None]
    ) -> None:
        """As a session does. What was not acknowledged is never put again."""
        try:
            while True:
                payload = f"{key} {self._number()}".encode()
                ack = session.put(key, payload, ack="stored", timeout=ANSWER_S)
                told(payload, ack.shard, ack.seq)
        except EleaError:
            return

    def _ask_all(self, session: elea.Session, told: Callable[[bytes, int, int], None]) -> None:
        """By queries. What was not acknowledged is put again in the next life."""
        while True:
            try:
                if self._unanswered:
                    number, stamp = self._unanswered.popleft()
                else:
                    number, stamp = self._number(), session.new_timestamp()
                payload = f"k/bob {number}".encode()
                self._unanswered.append((number, stamp))
                identity = f"zid=c0ffee;eid=1;sn={number};ts={stamp};publish=false"
                selector = f"@elea/log/log/put/k/bob?{identity}"
                for reply in session.get(selector, payload=payload, timeout=ANSWER_S):
                    if reply.ok is not None:
                        place = json.loads(reply.ok.payload.to_string())
                        self._unanswered.remove((number, stamp))
                        self.repeated_count += place["duplicate"]
                        told(payload, place["shard"], place["seq"])
                        break
            except EleaError:
                return

    def check(self) -> None:
        """Read all of the log."""
        try:
            damage = verify(RealDisk(self.directory, writable=False)).damage
            there, counts = self._rows()
        except (EleaError, OSError) as error:
            self.problems.append(f"failed open: {error!r}")
            return
        self.problems += [str(one) for one in damage]
        for payload, count in counts.items():
            if count > 1:
                self.problems.append(f"sample {payload!r} is there {count} times")
        for payload, place in self.placed.items():
            if there.get(place) != payload:
                seen = there.get(place)
                self.problems.append(f"sample {payload!r} was acknowledged at {place}: {seen!r}")

    def _rows(self) -> tuple[dict[tuple[int, int], bytes], Counter[bytes]]:
        """The samples of honest publishers, by their places, and how often they are there."""
        reader = LogReader(self.directory)
        there: dict[tuple[int, int], bytes] = {}
        for shard in range(reader.shards_count):
            for batch in reader.read(shard, 0, columns=["key", "payload"], position=True):
                for row in batch.to_pylist():
                    if row["payload"].startswith(row["key"].encode() + b" "):
                        there[row["shard"], row["seq"]] = row["payload"]
        return there, Counter(there.values())


class _Hostile:
    """A publisher that claims to be others."""

    def __init__(self, session: elea.Session, rng: random.Random) -> None:
        self._session = session
        self._rng = random.Random(rng.random())
        self._seen: deque[elea.Sample] = deque(maxlen=100)
        self.is_over = False
        self.sent_count = 0

    def run(self) -> None:
        """Attack until it is over."""
        try:
            self._session.declare_subscriber("k/**", self._seen.append)
            while not self.is_over:
                if self._seen:
                    self._attack(self._seen[-1])
                time.sleep(ATTACK_S)
        except EleaError:
            return

    def _attack(self, sample: elea.Sample) -> None:
        info, rng, session = sample.source_info, self._rng, self._session
        if info is None or sample.payload.to_bytes().startswith(b"junk"):
            zid, eid, sn = elea.ZenohId.parse("c0ffee"), 1, rng.randrange(1_000)
        else:
            zid, eid, sn = info.source_id.zid, int(info.source_id.eid), info.source_sn
        sn = max(0, rng.choice([7, sn, sn + 1, sn + rng.randint(1, 50), sn - 1]))
        source = SourceInfo(EntityGlobalId(zid, EntityId(eid)), sn)
        stamp = session.new_timestamp()
        bits = stamp.time.value + (rng.choice(HOSTILE_AGES_S) << 32)
        moved = Timestamp(NTP64.from_value(bits), stamp.id)
        key = rng.choice(["k/mallory", "k/alice/1", "k/alice/2", "k/bob"])
        junk = b"junk %d" % rng.randrange(5)
        session.put(key, junk, source_info=source, timestamp=moved)
        if sample.timestamp is not None and info is not None:
            same_key = str(sample.key_expr)
            session.put(same_key, junk, source_info=info, timestamp=sample.timestamp)
            if rng.randrange(REPLAY_ONE_IN) == 0:
                payload = sample.payload.to_bytes()
                session.put(same_key, payload, source_info=info, timestamp=sample.timestamp)
        if rng.randrange(4) == 0:
            identity = f"zid=c0ffee;eid=1;sn={sn};publish=false;ts={moved}"
            session.get(f"@elea/log/log/put/k/bob?{identity}", lambda _: None, payload=junk)
        rows = [[eid, sn + ahead, 0, rng.randrange(1_000), "00" * 12] for ahead in range(3)]
        said = {"log": "00000000-0000-4000-8000-000000000000", "name": "log", "stored": rows}
        session.put(f"@elea/log/log/stored/{zid}", json.dumps(said))
        self.sent_count += 3
