"""Acknowledged puts: `@elea/log/NAME/put/KEY` is answered when the sample is on disk.

With a payload the sample is recorded, then answered; with an identity (zid, eid, sn) and a
timestamp it is recorded once, however often it is asked for. Without a payload the answer says
where that sample is, which was received in the ordinary way; `ts` and `digest` say which one is
meant, as anybody may use any number. Who asks with `receipts=true` and a nonce is told of all other
samples of its entity without a question: `@elea/log/NAME/stored/ZID`. Each receipt has a proof,
made with the nonce.
"""

from __future__ import annotations

import json
import math
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Final, NamedTuple, Protocol

from elea.encoding import Encoding
from elea.errors import ClosedError, EleaError, InvalidValueError
from elea.ids import EntityGlobalId, EntityId, ZenohId
from elea.limits import DEFAULT_LIMITS, Limits
from elea.provenance import SourceInfo
from elea.qos import CongestionControl
from elea.session.handlers import Callback
from elea.session.query import Query, answer_last
from elea.session.queryable import Queryable
from elea.session.receipts import proof_of, send_receipts
from elea.session.session import Session
from elea.session.spool_batch import BatchSample, read_batch
from elea.store.log.schema import RowKind
from elea.store.recorder.book import Book
from elea.store.recorder.flight import Outcome, Place, Put, Refusal
from elea.store.recorder.marks import Mark, Question
from elea.store.recorder.put_batch import PutBatch
from elea.store.recorder.rows import Row
from elea.store.recorder.settings import Names
from elea.store.recorder.windows import ANY_KEY_EID, Identity
from elea.timestamp import Timestamp

PREFIX: Final = "@elea/log"
_NO_LOG: Final = Refusal("full", "there are too many logs, or this cannot be opened")
_NAME_AT, _VERB_AT, _KEY_AT = 2, 3, 4  # chunks of the key
_NS: Final = 1_000_000_000
_WAIT_NS_MIN: Final = 200_000_000  # what was received before has to get to the log
_WAIT_S_MAX: Final = 60.0
_ZIDS_COUNT: Final = 256  # that are remembered
_NUMBER_MAX: Final = 0xFFFF_FFFF


class Recording(Protocol):
    """What is asked of a recording."""

    names: Names

    def open_book(self, key: str) -> Book | None: ...
    def book_of(self, key: str) -> Book | None: ...
    def call(self, act: Callable[[], None]) -> None: ...
    def put(self, book: Book, put: Put) -> None: ...
    def hurry(self, key_expr: str) -> None: ...
    def hasten(self, eids: set[int]) -> None: ...
    def books(self) -> list[Book]: ...


class Asked(NamedTuple):
    """What a question says."""

    key: str
    kind: RowKind | None  # None: where is the sample of the identity?
    identity: Identity | None
    timestamp: Timestamp | None
    publishes: bool
    nonce: bytes | None  # for receipts; None: none are wanted
    digest: bytes | None
    wait_ns: int

    @property
    def question(self) -> Question:
        """Which sample is meant."""
        assert self.identity is not None
        bits = None if self.timestamp is None else self.timestamp.time.value
        return Question(self.key, self.identity, bits, self.digest)


class AckServer:
    """Answers who wants to know that a sample is on disk.

    Args:
        session: On which it is asked, and publishes.
        recording: To which samples go.
        limits: How many may wait.
    """

    def __init__(
        self, session: Session, recording: Recording, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._session = session
        self._recording = recording
        self._limits = limits
        self._lock = threading.Lock()
        self._waiting_count = 0
        self._waiting_len = 0
        self._asks_count = 0  # of those that wait, without a sample
        # Under its own name the recorder numbers what it publishes for others, so that it knows
        # it when it comes back. The number is chosen anew in each life: no life repeats another's.
        self._eid = ANY_KEY_EID | secrets.randbits(31)
        self._next_sn = 0
        self._ready: deque[tuple[Query, str, bytes]] = deque()  # answers to be sent
        self._receipts: deque[tuple[Book, str, str]] = deque()  # log, zid and row of each
        self.refused_count = 0
        names = recording.names
        name = "*" if names.is_template else names.name
        self._queryables: list[Queryable[None]] = [
            session.declare_queryable(
                f"{PREFIX}/{name}/put/{key_expr}",
                # Called by whoever brings the question: it only gets in line.
                Callback(partial(self._take, key_expr), indirect=False),
            )
            for key_expr in names.key_exprs
        ] + [
            session.declare_queryable(
                f"{PREFIX}/{name}/puts/{key_expr}", Callback(self._take_batch, indirect=False)
            )
            for key_expr in names.key_exprs
        ]

    def stop(self) -> None:
        """Take no more questions."""
        for one in self._queryables:
            with suppress(ClosedError):  # the session went first
                one.undeclare()

    def _take(self, key_expr: str, query: Query) -> None:
        """One question. It ends when it is answered, or nobody refers to it any more."""
        try:
            name, asked = _parsed(query)
            own_name = self._recording.names.of(asked.key)
        except EleaError as error:
            self._refuse(query, Refusal("invalid", str(error)))
            return
        if "*" not in name and name != own_name:
            query.drop()  # of another recorder
            return
        if not self._admit(query, 1):
            return
        if asked.kind is None:
            self._make_room()
        book = self._recording.book_of(asked.key)
        if book is not None:
            self._line_up(key_expr, query, asked, book)
        else:  # a log is opened by who may wait
            self._recording.call(lambda: self._open(key_expr, query, asked))

    def _admit(self, query: Query, count: int) -> bool:
        """Let samples wait for the disk, or refuse them."""
        length, limits = _length_of(query), self._limits
        with self._lock:
            is_busy = (
                self._waiting_count + count > limits.record_waiting_count
                or self._waiting_len + length > limits.record_waiting_len
            )
            if not is_busy:
                self._waiting_count += count
                self._waiting_len += length
        if is_busy:
            self._refuse(query, Refusal("busy", "too many wait already; ask again later"))
        return not is_busy

    def _make_room(self) -> None:
        """Have questions for samples that never come not keep samples out."""
        with self._lock:
            self._asks_count += 1
            is_crowded = self._asks_count > self._limits.record_waiting_count // 2
        if is_crowded:
            any(book.displace() for book in self._recording.books())

    def _leave(self, query: Query, count: int) -> None:
        """Samples wait no more."""
        with self._lock:
            self._waiting_count -= count
            self._waiting_len -= _length_of(query)

    def _take_batch(self, query: Query) -> None:
        """Many samples of one key, to be stored in their order."""
        try:
            name, key = _named(query, "puts")
            own_name = self._recording.names.of(key)
            payload = query.payload
            kinds = [text for name, text in query.parameters if name == "kind"]
            if len(kinds) > 1:
                raise InvalidValueError("kind", f"expected one or none, got {kinds!a}")
            octets = b"" if payload is None else payload.to_bytes()
            samples = read_batch(octets, kinds[0] if kinds else None)
        except EleaError as error:
            self._refuse(query, Refusal("invalid", str(error)))
            return
        if "*" not in name and name != own_name:
            query.drop()  # of another recorder
        elif self._admit(query, len(samples)):
            self._recording.call(partial(self._store_batch, query, key, samples))

    def _store_batch(self, query: Query, key: str, samples: list[BatchSample]) -> None:
        """By the desk."""
        book = self._recording.open_book(key)
        if book is None:
            self._leave(query, len(samples))
            self._refuse(query, _NO_LOG)
            return

        def done(outcomes: str) -> None:
            self._leave(query, len(samples))
            text = f'{book.head}, "stored": {outcomes}}}'
            self._ready.append((query, f"{PREFIX}/{book.name}/puts/{key}", text.encode()))

        for put in PutBatch(key, samples, done).puts(time.time_ns() // 1_000):
            self._recording.put(book, put)

    def _open(self, key_expr: str, query: Query, asked: Asked) -> None:
        book = self._recording.open_book(asked.key)
        if book is not None:
            self._line_up(key_expr, query, asked, book)
            return
        with self._lock:
            self._asks_count -= asked.kind is None
        self._leave(query, 1)
        self._refuse(query, _NO_LOG)

    def _line_up(self, key_expr: str, query: Query, asked: Asked, book: Book) -> None:
        if asked.kind is None:
            assert asked.identity is not None
            if asked.nonce is not None:
                self._send_receipts(book, asked.identity, asked.nonce)
            answer = partial(self._answer, query, asked, book, None)
            book.ask(asked.question, answer, asked.wait_ns)
            self._recording.hurry(key_expr)
            return
        row = self._row(query, asked)
        answer = partial(self._answer, query, asked, book, row)
        put = Put(row, answer, is_stamped=asked.timestamp is not None or asked.identity is None)
        self._recording.put(book, put)

    def _send_receipts(self, book: Book, identity: Identity, nonce: bytes) -> None:
        """From now on, tell who publishes under this identity of each sample."""
        if book.tell_all(identity.source, nonce, partial(self._receipt, book, nonce)):
            books = self._recording.books()
            self._recording.hasten(set().union(*(one.told_of_all() for one in books)))

    def _row(self, query: Query, asked: Asked) -> Row:
        assert asked.kind is not None
        identity = asked.identity
        if identity is None and asked.publishes:
            with self._lock:
                identity = Identity(str(self._session.zid()), self._eid, self._next_sn)
                self._next_sn = (self._next_sn + 1) & _NUMBER_MAX
        payload, attachment, encoding = query.payload, query.attachment, query.encoding
        return Row(
            asked.key,
            asked.kind,
            b"" if payload is None else payload.to_bytes(),
            time.time_ns() // 1_000,
            None if attachment is None else attachment.to_bytes(),
            str(encoding or Encoding.ZENOH_BYTES),
            asked.timestamp or self._session.new_timestamp(),
            identity,
        )

    # By whoever wrote the rows: nothing here waits.

    def send(self) -> None:
        """Send what was answered: receipts first, who hears both needs only them."""
        if self._receipts:
            self._publish_receipts()
        ready = []
        while self._ready:
            try:
                ready.append(self._ready.popleft())
            except IndexError:  # somebody else took the last one
                break
        if ready:
            with suppress(ClosedError):
                answer_last(ready, Encoding.APPLICATION_JSON)

    def _receipt(self, book: Book, nonce: bytes, mark: Mark, outcome: Outcome) -> None:
        shard, seq = (outcome.shard, outcome.seq) if isinstance(outcome, Place) else (0, None)
        proof = proof_of(nonce, mark.digest, str(book.log_id), shard, seq)
        zid, eid, sn = mark.identity
        place = "null" if seq is None else seq
        self._receipts.append((book, zid, f'[{eid},{sn},{shard},{place},"{proof}"]'))

    def _publish_receipts(self) -> None:
        rows: dict[tuple[Book, str], list[str]] = {}
        while self._receipts:
            try:
                book, zid, row = self._receipts.popleft()
            except IndexError:  # somebody else took the last one
                break
            rows.setdefault((book, zid), []).append(row)
        for (book, zid), some in rows.items():
            text = f'{book.head}, "stored": [{",".join(some)}]}}'
            try:
                send_receipts(self._session, book.name, zid, text.encode())
            except ClosedError:
                return

    def _answer(
        self, query: Query, asked: Asked, book: Book, row: Row | None, outcome: Outcome
    ) -> None:
        if row is None:
            with self._lock:
                self._asks_count -= 1
        if isinstance(outcome, Refusal):
            self._leave(query, 1)
            self._refuse(query, outcome)
            return
        key = f"{PREFIX}/{book.name}/put/{asked.key}"
        is_there = "true" if outcome.duplicate else "false"
        text = f'{book.head}, "shard": {outcome.shard}, "seq": {outcome.seq}'
        reply = (query, key, f'{text}, "duplicate": {is_there}}}'.encode())
        if row is not None and asked.publishes and not outcome.duplicate:
            # It is counted until it is published: what waits for the desk has a bound.
            self._recording.call(partial(self._publish_first, row, reply))
        else:
            self._leave(query, 1)
            self._ready.append(reply)

    # By the desk.

    def _publish_first(self, row: Row, reply: tuple[Query, str, bytes]) -> None:
        try:
            self._publish(row)
        finally:
            self._leave(reply[0], 1)
        self._ready.append(reply)
        self.send()

    def _publish(self, row: Row) -> None:
        source = None
        if row.identity is not None:
            zid, eid, sn = row.identity
            source = SourceInfo(EntityGlobalId(ZenohId.parse(zid), EntityId(eid)), sn)
        with suppress(ClosedError):
            if row.kind is RowKind.DELETE:
                self._session.delete(
                    row.key,
                    attachment=row.attachment,
                    timestamp=row.timestamp,
                    congestion_control=CongestionControl.BLOCK,
                    source_info=source,
                )
            else:
                self._session.put(
                    row.key,
                    row.payload,
                    encoding=row.encoding,
                    attachment=row.attachment,
                    timestamp=row.timestamp,
                    congestion_control=CongestionControl.BLOCK,
                    source_info=source,
                )

    def _refuse(self, query: Query, refusal: Refusal) -> None:
        self.refused_count += 1
        text = json.dumps({"error": refusal.error, "detail": refusal.detail})
        with suppress(ClosedError), query:
            query.reply_err(text, encoding=Encoding.APPLICATION_JSON)


def _length_of(query: Query) -> int:
    """The bytes of what a question brings."""
    return len(query.payload or b"") + len(query.attachment or b"")


def _named(query: Query, verb: str) -> tuple[str, str]:
    """The name of the log and the key that a question is about."""
    chunks = str(query.key_expr).split("/", _KEY_AT)
    key = chunks[_KEY_AT] if len(chunks) > _KEY_AT else ""
    if chunks[_VERB_AT : _VERB_AT + 1] != [verb] or not key or "*" in key:
        raise InvalidValueError(
            "key",
            f"expected {PREFIX}/NAME/{verb}/KEY without wildcards, got {str(query.key_expr)!a}",
        )
    return chunks[_NAME_AT], key


def _parsed(query: Query) -> tuple[str, Asked]:
    """The name that is asked for, and what is asked."""
    name, key = _named(query, "put")
    given: dict[str, str] = {}
    for parameter, text in query.parameters:
        given.setdefault(parameter, text)
    identity = _identity(given)
    kind = _kind(given, has_payload=query.payload is not None)
    if kind is None and identity is None:
        raise InvalidValueError(
            "parameters", "saw no payload and no zid, eid and sn; one of the two is needed"
        )
    stamp = given.get("ts")
    publishes = _truth(given, "publish", default=identity is None)
    # Without a nonce, as older sessions ask, there would be no proof: they ask each time.
    nonce = _octets(given, "nonce") if _truth(given, "receipts", default=False) else None
    wait_ns = max(int(_seconds(given) * _NS), _WAIT_NS_MIN)
    timestamp = None if stamp is None else Timestamp.parse(stamp)
    return name, Asked(
        *(key, kind, identity, timestamp, publishes, nonce),
        digest=_octets(given, "digest"),
        wait_ns=wait_ns,
    )


def _kind(given: dict[str, str], *, has_payload: bool) -> RowKind | None:
    text = given.get("kind")
    if text not in (None, "put", "delete"):
        raise InvalidValueError("kind", f"saw {text!a}; put and delete are legal")
    if text == "delete":
        return RowKind.DELETE
    return RowKind.PUT if has_payload or text == "put" else None


def _identity(given: dict[str, str]) -> Identity | None:
    texts = [given.get(name) for name in ("zid", "eid", "sn")]
    if all(text is None for text in texts):
        return None
    zid, eid, sn = texts
    if zid is None or eid is None or sn is None:
        raise InvalidValueError("identity", "saw a part of it; zid, eid and sn go together")
    numbers = []
    for text in (eid, sn):
        if not (text.isascii() and text.isdigit() and len(text) <= 10):
            raise InvalidValueError("eid, sn", f"saw {text!a}; a number of 32 bits is legal")
        numbers.append(int(text))
    if max(numbers) > _NUMBER_MAX:
        raise InvalidValueError("eid, sn", f"saw {numbers}; numbers of 32 bits are legal")
    return Identity(_zid(zid), *numbers)


@lru_cache(_ZIDS_COUNT)
def _zid(text: str) -> str:
    return str(ZenohId.parse(text))


def _truth(given: dict[str, str], name: str, *, default: bool) -> bool:
    text = given.get(name)
    if text is None:
        return default
    if text not in ("true", "false"):
        raise InvalidValueError(name, f"saw {text!a}; true and false are legal")
    return text == "true"


def _octets(given: dict[str, str], name: str) -> bytes | None:
    text = given.get(name)
    if text is None:
        return None
    try:
        octets = bytes.fromhex(text)
    except ValueError:
        octets = b""
    if not 8 <= len(octets) <= 64:
        raise InvalidValueError(name, f"expected 16 to 128 hexadecimal digits, got {text!a}")
    return octets


def _seconds(given: dict[str, str]) -> float:
    text = given.get("wait", "0") or "0"
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= _WAIT_S_MAX:
        raise InvalidValueError("wait", f"saw {text!a}; 0 to {_WAIT_S_MAX:g} seconds are legal")
    return seconds
