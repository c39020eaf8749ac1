"""Acknowledged puts: `put(..., ack="stored")` returns when a recorder has the sample on disk.

    session                                              recorder of a log
       PUT key, from (zid, eid, sn)             ------>  takes it as any other sample
       GET @elea/log/*/put/key?zid;eid;sn;ts..  ------>  answers when it is on disk
                                                <------  log, shard, seq

So the payload travels once. A recorder that did not get the sample says so, and is asked again with
the sample in the question. However often it is asked, it stores a sample once: it knows it by
source, key, timestamp and payload, and the question says all of these, so that no other sample is
meant. Where recorders send `receipts`, only the first put of a key asks.

Nothing here waits: an `Attempt` goes on when a reply or a timer comes, and its outcome is the
result of a promise, for threads and for coroutines alike.
"""

from __future__ import annotations

import json
import threading
import uuid
import zlib
from collections import deque
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal

from elea.answers import QUEUED, SENT
from elea.errors import (
    AckTimeoutError,
    ClosedError,
    EleaError,
    InvalidValueError,
    LocalProtocolError,
    NotRecordedError,
    NotStoredError,
)
from elea.ids import ZenohId
from elea.limits import DEFAULT_LIMITS
from elea.qos import CongestionControl, Locality
from elea.query import ConsolidationMode, QueryTarget
from elea.records import dataclass
from elea.sample import Reply
from elea.session import dispatch, receipts
from elea.session.context import Context
from elea.session.convert import key_text, nanoseconds
from elea.session.outlet import CallbackOutlet
from elea.session.ports import CallbackThread
from elea.session.promise import Promise
from elea.session.queries import TIMEOUT_ERROR, Ask, PendingGet
from elea.session.receipts import (
    PATIENCE_NS,
    Receipt,
    Receipts,
    body_digest,
    read_refusal,
    sample_digest,
)
from elea.timestamp import NTP64, Timestamp
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.data.query import QueryBody
from elea.wire.fields import WireEncoding, WireExpr
from elea.wire.network.push import Push
from elea.wire.shared_extensions import SourceRef, TimestampStack

if TYPE_CHECKING:
    from elea.session.spool import Spool

Ack = Literal["stored"]
ACK_QUALITY: Final = CongestionControl.BLOCK  # of acknowledged puts, unless they say otherwise

_STORED: Final = "stored"
_ANY_LOG: Final = "@elea/log/*/put/"
_WAIT_S: Final = 0.5  # a recorder that does not have the sample by then says so
_GRACE_NS: Final = 500_000_000  # a recorder that has just begun may not be known here yet
_RETRY_FIRST_NS: Final = 20_000_000
_RETRY_MAX_NS: Final = 1_000_000_000
_LOGS_COUNT: Final = 64  # whose names are remembered
_SN_MAX: Final = 0xFFFF_FFFF
_EID_FIRST: Final = 0x8000_0000  # the entities that a session declares count from 1


@dataclass(frozen=True, slots=True)
class StoredAck:
    """Where a sample is that was put with `ack="stored"`.

    Args:
        log: The identity of the log; None for a spool in memory.
        name: The name of the log; "spool" for a spool.
        shard: The shard of the log,
        seq: and the number of the row there, which is its offset for who reads the log.
        duplicate: Whether it was there already: this put, or one with its source, was repeated.
        spooled: Whether it waits here for a recorder, and the position is that in the spool.
        durable: Whether it is on disk. Only a spool in memory is not.
    """

    log: uuid.UUID | None
    name: str
    shard: int
    seq: int
    duplicate: bool = False
    spooled: bool = False
    durable: bool = True


Outcome = StoredAck | EleaError


@dataclass(slots=True)
class Entry:
    """A sample that is to be stored.

    Attributes:
        published: Whether subscribers were sent it. If not, that is done with the first question.
        kept_ns: When a spool took it, by the clock of this host; 0: none did.
    """

    key: str
    body: Put | Del
    qos: int
    destination: Locality = Locality.ANY
    stack: TimestampStack | None = None
    published: bool = False
    kept_ns: int = 0

    def __len__(self) -> int:
        """Its octets, about."""
        attachment = self.body.attachment or b""
        payload = self.body.payload if isinstance(self.body, Put) else b""
        return len(self.key) + len(payload) + len(attachment)


def begin(
    context: Context,
    key: str,
    body: Put | Del,
    qos: int,
    *,
    destination: Locality,
    stack: TimestampStack | None,
    ack: object,
    timeout: float | None,
) -> Promise[StoredAck]:
    """Put with an acknowledgement; it is the promise's result.

    Raises:
        InvalidValueError: `ack` is not one of those there are, or the key has wildcards.
        LimitError: the key is too long for the question.
        ClosedError: the session is closed.
    """
    if ack != _STORED:
        seen = f"saw {ack!a}" if ack is not None else "saw `timeout` without it"
        raise InvalidValueError("ack", f"{seen}; legal are None and 'stored'")
    if "*" in key:
        raise InvalidValueError(
            "key of an acknowledged put", f"saw {key!a}; legal is a key without wildcards"
        )
    key_text(_ANY_LOG + key)
    timeout_ns = nanoseconds("timeout", timeout, context.core.face.settings.query_timeout_ns)
    entry = Entry(key, body, qos, destination, stack)
    future, result = acks_of(context).put(entry, timeout_ns)
    if result == QUEUED:
        context.wait_room()
    return future


def finish(context: Context, future: Promise[StoredAck]) -> StoredAck:
    """Wait for an acknowledgement.

    Raises:
        StoreError: it was refused, nobody records it, or nobody answered in time.
        ClosedError: the session was closed meanwhile.
        LocalProtocolError: waiting would hold up the event loop that is to bring it.
    """
    driver = context.driver
    if not future.done():
        dispatch.about_to_wait()
        if driver.idle is not None:
            driver.idle(future.done, None)
        elif driver.callback_thread is CallbackThread.CALLER:
            raise LocalProtocolError(
                "a session on an event loop cannot wait for an acknowledgement; await the put of"
                " elea.aio instead"
            )
    try:
        return future.result()
    finally:
        settle(context)


def settle(context: Context) -> None:
    """Whoever put has the answer: forward what waits meanwhile."""
    acks = context.acks
    if acks is not None and acks.spool is not None:
        acks.spool.pump()


def acks_of(context: Context) -> Acks:
    """The acknowledged puts of a session."""
    if context.acks is not None:
        return context.acks

    def make() -> Acks:
        if context.acks is None:
            context.acks = Acks(context)
        return context.acks

    return context.read(make)


class Acks:
    """All acknowledged puts of a session that are under way, and who waits for a turn."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.spool: Spool | None = None
        self.receipts = Receipts(context)
        self.lock = threading.Lock()
        self._active: set[Attempt] = set()
        self._waiting: deque[Attempt] = deque()
        self._zid = context.zid.to_bytes()
        self._eid = 0
        self._sn = 0
        self._is_closed = False
        self._is_beginning = False  # some thread is at one that waited

    def put(self, entry: Entry, timeout_ns: int) -> tuple[Promise[StoredAck], int]:
        """Have a sample stored; SENT, or QUEUED if whoever puts is to wait for room."""
        spool = self.spool
        if spool is not None and spool.is_behind():
            later: Promise[StoredAck] = Promise()
            return later, spool.offer(entry, later)
        has_room = len(self._active) < DEFAULT_LIMITS.acks_count
        is_sent, result = has_room and self.needs_no_question(entry, timeout_ns), SENT
        if is_sent:  # first: the rest is done while it is under way
            result = self.context.call(lambda: self.publish(entry))
        future: Promise[StoredAck] = Promise()

        def done(outcome: Outcome) -> None:
            if isinstance(outcome, StoredAck):
                future.set_result(outcome)
            elif spool is not None and may_wait(outcome):
                spool.offer(entry, future, outcome)
            else:
                future.set_exception(outcome)

        grace_ns = 0 if spool is not None else _GRACE_NS
        attempt = Attempt(self, entry, timeout_ns, grace_ns, done)
        if is_sent:
            self._await_receipt(attempt)
        else:
            result = self.begin(attempt)
        return future, result

    def needs_no_question(self, entry: Entry, left_ns: int) -> bool:
        """Whether a receipt will come for a sample that was not sent yet."""
        is_new = entry.body.source is None
        return is_new and left_ns > 2 * PATIENCE_NS and self.receipts.come_for(entry.key)

    def _await_receipt(self, attempt: Attempt) -> None:
        with self.lock:
            is_closed = self._is_closed
            self._active.add(attempt)
        if is_closed:  # since it was sent
            attempt.give_up(ClosedError("session closed"))
        else:
            attempt.await_receipt()

    def begin(self, attempt: Attempt) -> int:
        """Start it, or have it wait for one of many to end."""
        with self.lock:
            if len(self._active) >= DEFAULT_LIMITS.acks_count:
                self._waiting.append(attempt)
                return SENT
            self._active.add(attempt)
        try:
            return attempt.start()
        except BaseException:
            with self.lock:
                self._active.discard(attempt)
            raise

    def left(self, attempt: Attempt) -> None:
        """One has ended: the next may begin."""
        with self.lock:
            self._active.discard(attempt)
        # One after the other: each of them may end at once, as all do on a session that is closed.
        while (following := self._next()) is not None:
            try:
                following.go_on()
            finally:
                self._is_beginning = False

    def _next(self) -> Attempt | None:
        """One that may begin; None, too, while another one begins: whoever began it goes on."""
        with self.lock:
            has_room = len(self._active) < DEFAULT_LIMITS.acks_count
            if self._is_beginning or not self._waiting or not has_room:
                return None
            self._is_beginning = True
            following = self._waiting.popleft()
            self._active.add(following)
            return following

    def identify(self, body: Put | Del) -> SourceRef:
        """Give a sample its time and its number, unless it has them. Under the node's lock.

        The number of the entity is made of the time: a node that starts again with the identity it
        had must not take numbers of samples that are stored already.
        """
        stamp = self.context.core.face.stamp
        if body.timestamp is None:
            body.timestamp = stamp()
        if body.source is not None:
            return body.source
        if self._eid == 0 or self._sn > _SN_MAX:
            self._eid = _EID_FIRST | zlib.crc32(stamp().time.to_bytes(8, "big"))
            self._sn = 0
        source = body.source = SourceRef(self._zid, self._eid, self._sn)
        self._sn += 1
        return source

    def publish(self, entry: Entry) -> int:
        """Send a sample to its subscribers. Under the node's lock."""
        core = self.context.core
        core.face.check_open()
        self.identify(entry.body)
        if entry.published:
            return SENT
        entry.published = True
        key = WireExpr(0, core.face.prefix + entry.key)
        push = Push(key, entry.body, entry.qos, None, 0, entry.stack)
        local = entry.destination is not Locality.REMOTE
        remote = entry.destination is not Locality.SESSION_LOCAL
        return core.outbox.publish_locked(entry.key, push, True, local, remote)

    def close(self) -> None:
        """The session is closed: nothing of this will be answered."""
        with self.lock:
            self._is_closed = True
            unfinished = [*self._active, *self._waiting]
            self._waiting.clear()
        for attempt in unfinished:
            attempt.give_up(ClosedError("session closed"))
        if self.spool is not None:
            self.spool.close()


class Attempt:
    """One sample on its way to a recorder, until it is stored, refused, or the time is over."""

    __slots__ = (
        "_acks",
        "_deadline_ns",
        "_done",
        "_entry",
        "_expected",
        "_get",
        "_grace_until_ns",
        "_is_unasked",
        "_is_unknown",
        "_is_whole",
        "_refusal",
        "_retry_ns",
        "_timed_out",
        "_timeout_ns",
        "is_over",
        "key",
    )

    def __init__(
        self,
        acks: Acks,
        entry: Entry,
        timeout_ns: int,
        grace_ns: int,
        done: Callable[[Outcome], None],
    ) -> None:
        now_ns = acks.context.driver.now_ns()
        self._acks = acks
        self._entry = entry
        self._timeout_ns = timeout_ns
        self._deadline_ns = now_ns + timeout_ns
        self._grace_until_ns = now_ns + grace_ns
        self._done = done
        self._retry_ns = _RETRY_FIRST_NS
        self._get: PendingGet | None = None
        self._refusal: NotStoredError | None = None
        self._is_unknown = False
        self._is_whole = False  # the sample is in the question
        self._timed_out = False
        self._is_unasked = False  # a receipt is to come without a question
        self._expected: SourceRef | None = None  # of which sample a receipt may come
        self.key = entry.key
        self.is_over = False

    @property
    def digest(self) -> bytes:
        """The digest of the sample, which has its timestamp by now."""
        return entry_digest(self._entry)

    def start(self) -> int:
        """Ask for the first time, or once more: SENT, or QUEUED if whoever puts is to wait."""
        context, entry = self._acks.context, self._entry
        core = context.core
        left_ns = self._deadline_ns - context.driver.now_ns()
        if left_ns <= 0:
            self.give_up(self._refusal or self._late())
            return SENT
        if self._acks.needs_no_question(entry, left_ns):
            result = context.call(lambda: self._acks.publish(entry))
            self.await_receipt()
            return result
        self._refusal, self._is_unknown, self._timed_out = None, False, False
        self._is_whole = entry.published and not self._is_unasked
        self._is_unasked = False

        def ask() -> int:
            self._expect()
            result = self._acks.publish(entry)
            outlet = CallbackOutlet(self._heard, self._ended, indirect=False)
            nonce = self._acks.receipts.nonce
            question = _question(entry, left_ns, nonce, whole=self._is_whole)
            self._get = core.get(question, outlet)
            return result

        return context.call(ask)

    def await_receipt(self) -> None:
        """The sample was sent, and a receipt comes without a question."""
        acks, source = self._acks, self._entry.body.source
        assert source is not None
        self._is_unasked, self._expected = True, source
        eid, sn = source.eid, source.sn
        acks.context.call(lambda: acks.receipts.expect(eid, sn, self, is_asked=False))
        acks.receipts.look_back(eid, sn, self)

    def receive(self, receipt: Receipt) -> None:
        """A recorder says what became of the sample."""
        if receipt.seq is not None:
            try:
                log = _log_id(receipt.log)
            except ValueError:
                return
            self.give_up(StoredAck(log, receipt.name, receipt.shard, receipt.seq))
        elif self._is_unasked:
            self.go_on()  # who asks is told why it was refused

    def go_on(self) -> None:
        """The same where nobody would be told of a failure."""
        if self.is_over:
            return
        try:
            self.start()
        except EleaError as error:
            self.give_up(error)

    def give_up(self, outcome: Outcome) -> None:
        """End with an outcome, if it has not ended."""
        with self._acks.lock:
            if self.is_over:
                return
            self.is_over = True
        self._done(outcome)  # first: who waits takes a while to wake up
        get, context = self._get, self._acks.context
        if self._expected is not None:
            self._acks.receipts.forget(self._expected.eid, self._expected.sn)
        if get is not None and not get.ended:
            context.call(lambda: context.core.gets.cancel(get))
        self._acks.left(self)

    def _expect(self) -> None:
        """Under the node's lock, before the sample is sent: receipts are for numbers of ours."""
        acks, body = self._acks, self._entry.body
        if body.source is None:
            acks.receipts.declare()
            source = self._expected = acks.identify(body)
            acks.receipts.expect(source.eid, source.sn, self, is_asked=True)

    def _heard(self, value: object) -> None:
        assert isinstance(value, Reply)
        if self.is_over:
            return
        if value.ok is not None:
            ack = _read_ack(value.ok.payload.to_bytes())
            if ack is not None:
                self.give_up(ack)
            return
        assert value.err is not None
        if value.err.payload == TIMEOUT_ERROR.result.payload:  # ours, or that of a node between
            self._timed_out = True
            return
        refusal = read_refusal(self._entry.key, value)
        if refusal.reason == "unknown":
            self._is_unknown = True
        else:
            self._refusal = refusal

    def _ended(self) -> None:
        """All that were asked have answered, and none of them has the sample on disk."""
        if self.is_over:
            return
        now_ns = self._acks.context.driver.now_ns()
        if self._timed_out:
            self.give_up(self._refusal or self._late())
        elif not self._is_whole and (self._is_unknown or self._refusal is None):
            self.go_on()  # with the sample in the question
        elif self._is_unknown or (self._refusal is not None and self._refusal.reason == "busy"):
            self._retry_later(now_ns)
        elif self._refusal is not None:
            self.give_up(self._refusal)
        elif now_ns >= self._grace_until_ns:
            self.give_up(NotRecordedError(self._entry.key))
        else:
            self._retry_later(now_ns)

    def _retry_later(self, now_ns: int) -> None:
        face = self._acks.context.core.face
        delay_ns = max(1, min(self._retry_ns, self._deadline_ns - now_ns))
        self._retry_ns = min(2 * self._retry_ns, _RETRY_MAX_NS)
        clock = CallbackOutlet(lambda _: self.go_on(), None, indirect=False)
        try:
            self._acks.context.call(
                lambda: face.call_after(delay_ns, lambda: face.emit(clock, None))
            )
        except EleaError as error:
            self.give_up(error)

    def _late(self) -> AckTimeoutError:
        return AckTimeoutError(self._entry.key, self._timeout_ns / 1e9)


def may_wait(outcome: EleaError) -> bool:
    """Whether a put that failed so may succeed later, when a recorder is back."""
    if isinstance(outcome, NotStoredError):
        return outcome.reason != "invalid"
    return isinstance(outcome, NotRecordedError | AckTimeoutError)


def entry_digest(entry: Entry) -> bytes:
    """The digest of a sample that has its timestamp, as a recorder makes it of its row."""
    body, stamp = entry.body, entry.body.timestamp
    assert stamp is not None
    is_put = isinstance(body, Put)
    said = body_digest(not is_put, body.payload if isinstance(body, Put) else b"", body.attachment)
    return sample_digest(said, entry.key, stamp.time, str(ZenohId(stamp.id)))


def _question(entry: Entry, timeout_ns: int, nonce: bytes, *, whole: bool) -> Ask:
    """Ask whether a sample is on disk; with the sample itself, that it be put there."""
    body = entry.body
    source, stamp = body.source, body.timestamp
    assert source is not None
    assert stamp is not None
    parameters = f"zid={ZenohId(source.zid)};eid={source.eid};sn={source.sn}"
    parameters += f";ts={Timestamp(NTP64.from_value(stamp.time), stamp.id)}"
    value, attachment = None, None
    if whole:
        attachment = body.attachment
        parameters += ";publish=false"
        if isinstance(body, Put):
            value = QueryBody(body.encoding or WireEncoding(0), body.payload)
        else:
            parameters += ";kind=delete"
    else:
        parameters += f";wait={min(_WAIT_S, timeout_ns / 1e9):g};digest={entry_digest(entry).hex()}"
        parameters += f";receipts=true;nonce={nonce.hex()}"
    return Ask(
        key=_ANY_LOG + entry.key,
        parameters=parameters,
        target=QueryTarget.ALL,
        consolidation=ConsolidationMode.NONE,
        destination=entry.destination,
        timeout_ns=max(timeout_ns, 1),
        qos=entry.qos,
        body=value,
        attachment=attachment,
    )


def _read_ack(octets: bytes) -> StoredAck | None:
    """What a recorder says of a sample that it has on disk; None: no recorder says such a thing."""
    try:
        said = json.loads(octets)
        return StoredAck(
            log=_log_id(said["log"]),
            name=str(said["name"]),
            shard=int(said["shard"]),
            seq=int(said["seq"]),
            duplicate=bool(said.get("duplicate", False)),
        )
    except receipts.UNREADABLE:
        return None


@lru_cache(_LOGS_COUNT)
def _log_id(text: str) -> uuid.UUID:
    return uuid.UUID(text)
