"""Publishers of the campaign with hostile ones: honest ones, and one that claims to be them.

- `PutPublisher` puts with acknowledgements, as sessions do. Nothing is put twice.
- `AskPublisher` puts by queries with an identity and a timestamp, several at once. What was not
  answered is put again in the next life, and so is a part of what was: its answer counts as lost.
- `SpoolPublisher` has a spool on disk, which forwards in the next life what no recorder took.
- `HostilePublisher` watches them, and uses their zid, eid and numbers, past and future ones and
  always the same, on its own key and on theirs, with timestamps of now, the past and the future;
  repeats their samples, forges receipts, sends broken batches, and asks for what never comes.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import elea
from elea.errors import EleaError
from elea.ids import EntityGlobalId, EntityId
from elea.provenance import SourceInfo
from elea.timestamp import NTP64, Timestamp

ANSWER_S = 5.0
AT_ONCE = 6  # questions
LOST_ANSWER_ONE_IN = 6
HOSTILE_AGES_S = (0, -3_600, 3_600, 86_400 * 365)
REPLAY_ONE_IN = 10
ATTACK_S = 0.005  # between two attacks of three samples or more
WAITING_COUNT = 300  # in a spool, before its publisher slows down
BOB, BOB_ZID = "k/bob", "c0ffee"
CAROL = "k/carol"
KEYS = ("k/mallory", "k/alice/1", "k/alice/2", BOB, CAROL)
_NO_LOG = "00000000-0000-4000-8000-000000000000"

Place = tuple[int, int]  # shard, offset


@dataclass(slots=True)
class Ledger:
    """What honest publishers put, and what they were told. Of all lives."""

    placed: dict[bytes, Place] = field(default_factory=dict)
    spooled: set[bytes] = field(default_factory=set)  # that a spool took
    unanswered: deque[tuple[int, Timestamp]] = field(default_factory=deque)
    problems: list[str] = field(default_factory=list)
    repeated_count: int = 0  # puts that were in the log before they were put
    acks_left: int = 0
    has_enough: threading.Event = field(default_factory=threading.Event)
    has_spooled: threading.Event = field(default_factory=threading.Event)
    _spooled_end: int = 0
    _puts_count: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, acks_count: int) -> None:
        """Begin a life: wait for so many acknowledgements."""
        self.acks_left = acks_count
        self.has_enough.clear()
        self.has_spooled.clear()

    def await_spooled(self, count: int, timeout_s: float) -> None:
        """Wait until so many more are in the spool, or for a time."""
        with self._lock:
            self._spooled_end = len(self.spooled) + count
        self.has_spooled.wait(timeout_s)

    def promise(self, payload: bytes) -> None:
        """A spool has a sample."""
        with self._lock:
            self.spooled.add(payload)
            if len(self.spooled) >= self._spooled_end > 0:
                self.has_spooled.set()

    def next_number(self) -> int:
        """The number of the next sample."""
        with self._lock:
            self._puts_count += 1
            return self._puts_count

    def acknowledge(self, payload: bytes, place: Place) -> None:
        """A recorder said where a sample is; it says the same when it is asked again."""
        with self._lock:
            before = self.placed.setdefault(payload, place)
            if before != place:
                self.problems.append(f"sample {payload!r} was acknowledged at {before} and {place}")
            self.acks_left -= 1
            if self.acks_left <= 0:
                self.has_enough.set()


class PutPublisher:
    """Puts with `ack="stored"`, one after the other."""

    def __init__(self, session: elea.Session, key: str, ledger: Ledger) -> None:
        self._session, self._key, self._ledger = session, key, ledger

    def run(self) -> None:
        """Put until the session is closed."""
        try:
            while True:
                payload = f"{self._key} {self._ledger.next_number()}".encode()
                ack = self._session.put(self._key, payload, ack="stored", timeout=ANSWER_S)
                if ack.spooled:
                    self._ledger.promise(payload)
                else:
                    self._ledger.acknowledge(payload, (ack.shard, ack.seq))
                self._rest()
        except EleaError:
            return

    def _rest(self) -> None:
        """Before the next one."""


class SpoolPublisher(PutPublisher):
    """The same with a spool on disk: a put returns if there is no recorder, too."""

    def __init__(self, session: elea.Session, directory: str, ledger: Ledger) -> None:
        super().__init__(session, CAROL, ledger)
        self.spool = session.declare_spool(directory)

    def _rest(self) -> None:
        """Let the spool come after, or there would be no end of it."""
        if self.spool.stats().waiting_count > WAITING_COUNT:
            time.sleep(ATTACK_S)


class AskPublisher:
    """Puts by queries, and again what was not answered."""

    def __init__(self, session: elea.Session, ledger: Ledger, rng: random.Random) -> None:
        self._session, self._ledger = session, ledger
        self._rng = random.Random(rng.random())

    def run(self) -> None:
        """Put until the session is closed."""
        ledger, session = self._ledger, self._session
        try:
            while True:
                asked = []
                for _ in range(self._rng.randint(1, AT_ONCE)):
                    if ledger.unanswered:
                        number, stamp = ledger.unanswered.popleft()
                    else:
                        number, stamp = ledger.next_number(), session.new_timestamp()
                    asked.append((number, stamp))
                self._put(asked)
        except EleaError:
            return

    def _put(self, asked: list[tuple[int, Timestamp]]) -> None:
        questions = []
        left = list(asked)
        try:
            for number, stamp in asked:
                identity = f"zid={BOB_ZID};eid=1;sn={number};ts={stamp};publish=false"
                selector = f"@elea/log/log/put/{BOB}?{identity}"
                payload = f"{BOB} {number}".encode()
                questions.append(self._session.get(selector, payload=payload, timeout=ANSWER_S))
            for one, replies in zip(asked, questions, strict=True):
                if self._is_answered(one[0], list(replies)):
                    left.remove(one)
        finally:
            self._ledger.unanswered += left

    def _is_answered(self, number: int, replies: list[elea.Reply]) -> bool:
        for reply in replies:
            if reply.ok is not None:
                told = json.loads(reply.ok.payload.to_string())
                self._ledger.repeated_count += told["duplicate"]
                payload = f"{BOB} {number}".encode()
                self._ledger.acknowledge(payload, (told["shard"], told["seq"]))
                return told["duplicate"] or self._rng.randrange(LOST_ANSWER_ONE_IN) > 0
        return False


class HostilePublisher:
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
                    self._attack(self._rng.choice([self._seen[-1], self._seen[0]]))
                time.sleep(ATTACK_S)
        except EleaError:
            return

    def _attack(self, sample: elea.Sample) -> None:
        info, rng, session = sample.source_info, self._rng, self._session
        if info is None or sample.payload.to_bytes().startswith(b"junk"):
            zid, eid, sn = elea.ZenohId.parse(BOB_ZID), 1, rng.randrange(1_000)
        else:
            zid, eid, sn = info.source_id.zid, int(info.source_id.eid), info.source_sn
        sn = max(0, rng.choice([7, sn, sn + 1, sn + rng.randint(1, 50), sn - 1]))
        source = SourceInfo(EntityGlobalId(zid, EntityId(eid)), sn)
        stamp = session.new_timestamp()
        bits = stamp.time.value + (rng.choice(HOSTILE_AGES_S) << 32)
        moved = Timestamp(NTP64.from_value(bits), stamp.id)
        junk = b"junk %d" % rng.randrange(5)
        session.put(rng.choice(KEYS), junk, source_info=source, timestamp=moved)
        if sample.timestamp is not None and info is not None:
            same_key = str(sample.key_expr)
            session.put(same_key, junk, source_info=info, timestamp=sample.timestamp)
            if rng.randrange(REPLAY_ONE_IN) == 0:
                payload = sample.payload.to_bytes()
                session.put(same_key, payload, source_info=info, timestamp=sample.timestamp)
        if rng.randrange(4) == 0:
            self._ask(zid, eid, sn, moved, junk)
        rows = [[eid, sn + ahead, 0, rng.randrange(1_000), "00" * 12] for ahead in range(3)]
        said = {"log": _NO_LOG, "name": "log", "stored": rows}
        session.put(f"@elea/log/log/stored/{zid}", json.dumps(said))
        self.sent_count += 3

    def _ask(self, zid: elea.ZenohId, eid: int, sn: int, stamp: Timestamp, junk: bytes) -> None:
        """By queries: put as others, ask for what never comes, send batches and broken ones."""

        def ask(selector: str, payload: bytes | None) -> None:
            self._session.get(selector, _ignore, payload=payload, timeout=ANSWER_S)
            self.sent_count += 1

        key, rng = self._rng.choice(KEYS), self._rng
        row = [0, str(zid), eid, sn, stamp.time.value, str(stamp.id), "", len(junk), None]
        batch = json.dumps([row] * rng.randint(1, 3)).encode() + b"\0" + junk * 3
        whole = json.dumps([row]).encode() + b"\0" + junk
        asks: list[Callable[[], None]] = [
            lambda: ask(
                f"@elea/log/log/put/{BOB}?zid={BOB_ZID};eid=1;sn={sn};publish=false;ts={stamp}",
                junk,
            ),
            lambda: ask(f"@elea/log/log/put/{key}?zid={zid};eid={eid};sn={sn};wait=60", None),
            lambda: ask(f"@elea/log/log/put/{key}?zid={zid};eid={eid};sn={sn}", junk),
            lambda: ask(f"@elea/log/*/puts/{key}", whole),
            lambda: ask(f"@elea/log/*/puts/{key}", batch),
            lambda: ask(f"@elea/log/*/puts/{key}", rng.randbytes(rng.randrange(100))),
        ]
        rng.choice(asks)()


def _ignore(_: elea.Reply) -> None:
    """Not interested in the answer."""
