"""Batches: samples of one key that a spool forwards with one question.

    session                                              recorder of a log
       GET @elea/log/*/puts/key, with samples   ------>  stores them in this order, each once,
                                                <------  and answers when all are on disk

The payload of the question is a JSON array with one row per sample, a zero byte, and then the bytes
of payloads and attachments, one after the other. A row is

    [kind, zid, eid, sn, time, clock, encoding, payload length, attachment length or null]

with kind 0 for a put and 1 for a deletion, and time as the 64 bits of a timestamp. The answer has
`log`, `name` and `stored`: one array per sample, `[shard, seq, duplicate]` or `[reason, detail]`.
A question whose samples are of one kind says so, `kind=put` or `kind=delete`: access rules for the
other kind do not concern it then.
A recorder that takes no batches does not answer, and is asked sample by sample.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from elea.encoding import Encoding
from elea.errors import AckTimeoutError, EleaError, InvalidValueError, NotStoredError
from elea.ids import ZenohId
from elea.limits import DEFAULT_LIMITS
from elea.query import ConsolidationMode, QueryTarget
from elea.sample import Reply
from elea.session.ack import Acks, Entry, Outcome, StoredAck
from elea.session.outlet import CallbackOutlet
from elea.session.queries import TIMEOUT_ERROR, Ask, PendingGet
from elea.session.receipts import UNREADABLE, read_refusal
from elea.timestamp import NTP64, Timestamp
from elea.wire.data.put import Put as PutBody
from elea.wire.data.query import QueryBody
from elea.wire.fields import WireEncoding

_ANY_LOG: Final = "@elea/log/*/puts/"
PUT: Final = "put"
DELETE: Final = "delete"
_END: Final = b"\0"
_NUMBER_MAX: Final = 0xFFFF_FFFF
_TIME_MAX: Final = 0xFFFF_FFFF_FFFF_FFFF
_FIELDS_COUNT: Final = 9
_HEAD_LEN: Final = 1_024 * DEFAULT_LIMITS.spool_batch_count  # of rows; longer ones are not parsed


class BatchSample(NamedTuple):
    """One sample of a batch, as a recorder reads it."""

    is_delete: bool
    zid: str
    eid: int
    sn: int
    timestamp: Timestamp
    encoding: str
    payload: bytes
    attachment: bytes | None


def write_batch(entries: Sequence[Entry]) -> bytes:
    """The payload of a question."""
    rows: list[list[object]] = []
    data: list[bytes] = []
    for entry in entries:
        body = entry.body
        source, stamp = body.source, body.timestamp
        assert source is not None
        assert stamp is not None
        payload, encoding = b"", Encoding.ZENOH_BYTES
        if isinstance(body, PutBody):
            payload = body.payload
            if body.encoding is not None:
                encoding = Encoding.from_parts(body.encoding.id, body.encoding.schema or None)
        attachment = body.attachment
        rows.append(
            [
                *(
                    int(not isinstance(body, PutBody)),
                    str(ZenohId(source.zid)),
                    source.eid,
                    source.sn,
                ),
                *(stamp.time, str(ZenohId(stamp.id)), str(encoding), len(payload)),
                None if attachment is None else len(attachment),
            ]
        )
        data += [payload, attachment or b""]
    return b"".join([json.dumps(rows, separators=(",", ":")).encode(), _END, *data])


def kind_of(entries: Sequence[Entry]) -> str:
    """The parameters of a question: which kind its samples are of; nothing if of both."""
    are_puts = {isinstance(entry.body, PutBody) for entry in entries}
    if len(are_puts) > 1:
        return ""
    return f"kind={PUT if are_puts == {True} else DELETE}"


def read_batch(octets: bytes, kind: str | None = None) -> list[BatchSample]:
    """The samples of a question.

    Args:
        octets: Its payload.
        kind: What the question says of its samples; None: nothing.

    Raises:
        InvalidValueError: it is not a batch, or not of that kind.
    """
    head, end, data = octets.partition(_END)
    try:
        if len(head) > _HEAD_LEN:
            raise ValueError(f"expected at most {_HEAD_LEN} bytes of rows, got {len(head)}")
        rows = json.loads(head)
        if not end or not isinstance(rows, list):
            raise ValueError("expected a JSON array and a zero byte")
        if not 0 < len(rows) <= DEFAULT_LIMITS.spool_batch_count:
            most = DEFAULT_LIMITS.spool_batch_count
            raise ValueError(f"expected 1 to {most} samples, got {len(rows)}")
        samples = []
        offset = 0
        for row in rows:
            sample, offset = _read_row(row, data, offset)
            samples.append(sample)
        if kind is not None and any((PUT, DELETE)[one.is_delete] != kind for one in samples):
            raise ValueError(f"expected samples of kind {kind} alone")
        if offset != len(data):
            raise ValueError(f"expected {offset} bytes of samples, got {len(data)}")
    except (ValueError, TypeError, AttributeError, RecursionError, EleaError) as error:
        raise InvalidValueError("batch of samples", str(error)) from error
    return samples


def _read_row(row: object, data: bytes, offset: int) -> tuple[BatchSample, int]:
    if not isinstance(row, list) or len(row) != _FIELDS_COUNT:
        raise ValueError(f"expected rows of {_FIELDS_COUNT} fields, got {row!a:.100}")
    kind, zid, eid, sn, time, clock, encoding, payload_len, attachment_len = row
    if not all(isinstance(text, str) for text in (zid, clock, encoding)):
        raise ValueError(f"expected texts as zid, clock and encoding, got {row!a:.100}")
    lengths = [payload_len, 0 if attachment_len is None else attachment_len]
    bounds = [(kind, 1), (eid, _NUMBER_MAX), (sn, _NUMBER_MAX), (time, _TIME_MAX)]
    for value, most in [*bounds, *((one, len(data) - offset) for one in lengths)]:
        if type(value) is not int or not 0 <= value <= most:
            raise ValueError(f"expected a number from 0 to {most}, got {value!a:.100}")
    middle = offset + lengths[0]
    end = middle + lengths[1]
    if end > len(data):
        raise ValueError("a sample ends after the batch")
    sample = BatchSample(
        is_delete=kind == 1,
        zid=str(ZenohId.parse(zid)),
        eid=eid,
        sn=sn,
        timestamp=Timestamp(NTP64.from_value(time), ZenohId.parse(clock).to_bytes()),
        encoding=str(Encoding(encoding)),
        payload=data[offset:middle],
        attachment=None if attachment_len is None else data[middle:end],
    )
    return sample, end


class BatchAttempt:
    """Samples of one key on their way to a recorder.

    Args:
        done: Called once with the outcomes in order; None: no recorder takes this batch, and each
            sample is to be asked for alone.
    """

    def __init__(
        self,
        acks: Acks,
        entries: Sequence[Entry],
        timeout_ns: int,
        done: Callable[[list[Outcome] | None], None],
    ) -> None:
        self._acks = acks
        self._entries = entries
        self._timeout_ns = timeout_ns
        self._done = done
        self._stored: list[StoredAck | NotStoredError | None] = [None] * len(entries)
        self._refusal: NotStoredError | None = None
        self._timed_out = False
        self._is_answered = False
        self._is_over = False
        self._get: PendingGet | None = None

    def start(self) -> None:
        """Send the samples to their subscribers, if these have not got them, and ask."""
        context = self._acks.context

        def ask() -> None:
            for entry in self._entries:
                self._acks.publish(entry)
            first = self._entries[0]
            question = Ask(
                key=_ANY_LOG + first.key,
                parameters=kind_of(self._entries),
                target=QueryTarget.ALL,
                consolidation=ConsolidationMode.NONE,
                destination=first.destination,
                timeout_ns=self._timeout_ns,
                qos=first.qos,
                body=QueryBody(WireEncoding(0), write_batch(self._entries)),
                attachment=None,
            )
            outlet = CallbackOutlet(self._heard, self._ended, indirect=False)
            self._get = context.core.get(question, outlet)

        try:
            context.call(ask)
        except EleaError as error:
            self._finish([error] * len(self._entries))

    def _heard(self, value: object) -> None:
        assert isinstance(value, Reply)
        if value.err is not None:
            if value.err.payload == TIMEOUT_ERROR.result.payload:
                self._timed_out = True
            else:
                self._refusal = read_refusal(self._entries[0].key, value)
            return
        assert value.ok is not None
        for index, outcome in enumerate(self._read(value.ok.payload.to_bytes())):
            self._is_answered = True
            if not isinstance(self._stored[index], StoredAck):
                self._stored[index] = outcome
        stored = [one for one in self._stored if isinstance(one, StoredAck)]
        if len(stored) == len(self._entries):
            self._finish(list(stored))
            get, context = self._get, self._acks.context
            if get is not None and not get.ended:
                context.call(lambda: context.core.gets.cancel(get))

    def _read(self, octets: bytes) -> list[StoredAck | NotStoredError]:
        """What a recorder says; nothing, if no recorder says such a thing."""
        try:
            said = json.loads(octets)
            log, name, rows = uuid.UUID(said["log"]), str(said["name"]), said["stored"]
            if len(rows) != len(self._entries):
                return []
            found: list[StoredAck | NotStoredError] = []
            for entry, row in zip(self._entries, rows, strict=True):
                if isinstance(row[0], str):
                    found.append(NotStoredError(entry.key, name, row[0], str(row[1])))
                else:
                    found.append(StoredAck(log, name, int(row[0]), int(row[1]), bool(row[2])))
        except UNREADABLE:
            return []
        return found

    def _ended(self) -> None:
        """All that were asked have answered."""
        key = self._entries[0].key
        is_refused = self._refusal is not None and self._refusal.reason != "invalid"
        if not self._is_answered and not is_refused and not self._timed_out:
            self._finish(None)
            return
        late = AckTimeoutError(key, self._timeout_ns / 1e9)
        self._finish([one or self._refusal or late for one in self._stored])

    def _finish(self, outcomes: list[Outcome] | None) -> None:
        with self._acks.lock:
            if self._is_over:
                return
            self._is_over = True
        self._done(outcomes)
