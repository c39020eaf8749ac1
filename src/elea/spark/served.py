"""ServedPlace: a log that somebody serves by queries, `elea.store.logserver`."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from elea import heap
from elea.encoding import Encoding
from elea.errors import InvalidValueError, StoreError
from elea.query import ConsolidationMode
from elea.sample import Reply
from elea.session.handlers import FifoChannel, Handler
from elea.session.receipts import UNREADABLE
from elea.session.session import Session
from elea.spark.options import Reach
from elea.spark.places import AGAIN, Rows
from elea.spark.sessions import opened
from elea.store.log.head import HEAD, stream_head
from elea.store.log.ranges import ALL_TIME, Span, needed_of, of_keys
from elea.store.log.reader import Bounds
from elea.store.log.refusal import told_by
from elea.store.log.schema import POSITION, placed

_ROOT: Final = "@elea/log"
_AGAIN_S: Final = 0.05  # until who was busy, or away, is asked again
_ASK_LEN: Final = 8 * 1024 * 1024  # rows of one query, in octets, about
_ASK_ROWS_FIRST: Final = 20_000  # before it is known how long rows are
_AHEAD_COUNT: Final = 2  # queries under way at once: one is answered while another is read
_NOBODY: Final = "nobody serves it"
_TOKENS_S: Final = 1.0  # for the names of logs that are served, which an error lists
_SHOWN_COUNT: Final = 20
_REPLIES_COUNT: Final = 4_096  # of one query; each is a megabyte, or one block


class ServedPlace:
    """A log that somebody serves by queries: `elea.store.logserver`."""

    def __init__(self, reach: Reach, name: str, *, lossy: bool) -> None:
        self._reach = reach
        self._root = f"{_ROOT}/{name}"
        self._lossy = lossy
        self._row_len = _ASK_LEN // _ASK_ROWS_FIRST
        self._is_current = True
        self.log_id = uuid.UUID(str(self._info()["log"]))

    def is_current(self) -> bool:
        return self._is_current

    def bounds(self) -> list[Bounds]:
        return [Bounds(one["first"], one["end"]) for one in self._shards("")]

    def seek(self, time: int) -> list[int]:
        return [one["seek"] for one in self._shards(f"?time={time}")]

    def cut(self, shard: int, first: int, end: int, octets_count: int) -> int:
        # How long blocks are is known there; here, how long rows are on average.
        told = self._shards("?octets=true")[shard]
        row_len = max(1.0, told["octets"] / max(1, told["end"] - told["first"]))
        return min(end, first + max(1, int(octets_count / row_len)))

    def flight(self) -> str | None:
        """Where it can be read over Flight, too."""
        found = self._info().get("flight")
        return None if found is None else str(found)

    def committed(self, consumer: str) -> Mapping[int, int] | None:
        known = self._info()["consumers"]
        assert isinstance(known, dict)
        found = known.get(consumer)
        return None if found is None else {int(one): seq for one, seq in found["offsets"].items()}

    def commit(self, consumer: str, offsets: Mapping[int, int], lease_s: int) -> None:
        told = {"offsets": {str(one): seq for one, seq in offsets.items()}, "lease_s": lease_s}
        self._ask(f"{self._root}/commit/{consumer}", json.dumps(told))

    def read(
        self,
        shard: int,
        first: int,
        end: int,
        columns: Sequence[str],
        key_exprs: Sequence[str] = (),
        span: Span = ALL_TIME,
    ) -> Rows:
        """Ask for parts of the range, the next one while one is read."""
        heap.keep()  # answers are megabytes each
        session = opened(self._reach)
        asked: deque[tuple[int, Handler[Reply]]] = deque()
        wanted = _Wanted(shard, columns, key_exprs, span, lossy=self._lossy)
        asked_to = at = first
        while at < end:
            while asked_to < end and len(asked) < _AHEAD_COUNT:
                stop = min(end, asked_to + max(1, _ASK_LEN // self._row_len))
                asked.append((stop, self._get(session, wanted, (asked_to, stop), (first, end))))
                asked_to = stop
            stop, replies = asked.popleft()
            if at < stop:  # else a block went on to there
                at = yield from self._received(session, wanted, (at, stop, end), replies)
                asked_to = max(asked_to, at)

    def _get(
        self, session: Session, wanted: _Wanted, part: tuple[int, int], whole: tuple[int, int]
    ) -> Handler[Reply]:
        """Ask for a part of a range: for the blocks that begin in it, and what else begins it."""
        rows = f"lo={part[0]};hi={part[1]};first={whole[0]};end={whole[1]}"
        selector = f"{self._root}/read/{wanted.shard}?{rows}{wanted.parameters}"
        return session.get(
            selector,
            FifoChannel(_REPLIES_COUNT),
            consolidation=ConsolidationMode.NONE,
            timeout=self._reach.timeout_s,
        )

    def _received(
        self,
        session: Session,
        wanted: _Wanted,
        part: tuple[int, int, int],
        replies: Handler[Reply],
    ) -> Generator[tuple[int, int, pa.RecordBatch], None, int]:
        """What is answered; what is missing, because somebody was busy or went, is asked again.

        Args:
            part: From a row to a row, or to the end of the block that has it, within another.

        Returns:
            Where that was.
        """
        first, stop, end = part
        deadline_s = time.monotonic() + self._reach.timeout_s
        while True:
            reason = "no answer"
            for reply in replies:
                if reply.ok is None:
                    reason = _refusal(reply, wanted.shard, first)
                    continue
                low, high, octets = _piece(reply)
                if low != first:  # of somebody else who serves the same, or lost: ask again
                    reason = f"rows from {low} on came in place of {first}"
                    continue
                if high > low and octets:
                    self._row_len = max(1, len(octets) // (high - low))
                yield from wanted.rows(low, high, octets)
                first = high
                deadline_s = time.monotonic() + self._reach.timeout_s
                if first >= stop:
                    return first
            if time.monotonic() > deadline_s:
                raise StoreError(f"rows {first} to {stop - 1} of {self._root}: {reason}")
            threading.Event().wait(_AGAIN_S)
            replies = self._get(session, wanted, (first, stop), (first, end))

    def _shards(self, parameters: str) -> list[dict[str, int]]:
        told = self._info(parameters)
        if told["log"] != str(self.log_id):
            self._is_current = False
            reason = f"was log {self.log_id}, is now log {told['log']}: {AGAIN}"
            raise StoreError(f"{self._root} {reason}")
        shards = told["shards"]
        assert isinstance(shards, list)
        return shards

    def _info(self, parameters: str = "") -> dict[str, object]:
        return self._ask(f"{self._root}/info{parameters}", None)

    def _ask(self, selector: str, payload: str | None) -> dict[str, object]:
        """One answer; asked again for a while, since who serves may be starting again."""
        deadline_s = time.monotonic() + self._reach.timeout_s
        session = opened(self._reach)
        encoding = None if payload is None else Encoding.APPLICATION_JSON
        while True:
            reason = _NOBODY
            replies = session.get(
                selector, payload=payload, encoding=encoding, timeout=self._reach.timeout_s
            )
            for reply in replies:
                if reply.ok is None:
                    reason = _refusal(reply, 0, 0)
                    continue
                told = json.loads(reply.ok.payload.to_string())
                assert isinstance(told, dict)
                return told
            if time.monotonic() > deadline_s:
                hint = self._served(session) if reason == _NOBODY else ""
                raise StoreError(f"{selector}: {reason}{hint}")
            threading.Event().wait(_AGAIN_S)

    def _served(self, session: Session) -> str:
        """Which logs are served, for a name that is not."""
        tokens = session.liveliness().get(f"{_ROOT}/*", timeout=_TOKENS_S)
        found = {str(one.ok.key_expr).rpartition("/")[2] for one in tokens if one.ok is not None}
        if not found:
            return "; no log is served here: `elea record` and the recorder of a router do"
        names = ", ".join(sorted(found)[:_SHOWN_COUNT])
        return f"; served are {names}: the name is that of `elea record --name`"


class _Wanted:
    """What a range read is for, as parameters of queries; and from answers to rows."""

    def __init__(
        self,
        shard: int,
        columns: Sequence[str],
        key_exprs: Sequence[str],
        span: Span,
        *,
        lossy: bool,
    ) -> None:
        self.shard = shard
        self._columns = list(columns)
        self._key_exprs = key_exprs
        told = [";lossy=true"] if lossy else []
        # Whole blocks cost nobody anything but the way. Without payloads that is not worth it.
        # Their rows are counted, so that none may be missing.
        is_all = not key_exprs and span == ALL_TIME and not lossy
        self._is_whole = is_all and "payload" in columns
        if not self._is_whole:
            if span != ALL_TIME:
                told.append(f";from={span[0]};until={span[1]}")
            # A `;` or `|` in a key cannot be said in a parameter: they are left for us to filter.
            if key_exprs and not any(set(";|") & set(one) for one in key_exprs):
                told.append(f";keyexpr={'|'.join(key_exprs)}")
            positions = [field.name for field in POSITION if field.name in columns]
            told.append(f";columns={','.join([*needed_of(columns, key_exprs), *positions])}")
        self.parameters = "".join(told)

    def rows(self, first: int, end: int, octets: bytes) -> Rows:
        needed = needed_of(self._columns, self._key_exprs)
        source = pa.py_buffer(octets)
        # Whoever serves whole blocks may be of another release, with more columns or fewer.
        head = stream_head(source) if self._is_whole else HEAD
        fields = head.included(needed) if self._is_whole else None
        options = pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False)
        stream = pa.ipc.open_stream(source, options=options)
        at = first
        for batch in stream:
            stop = at + batch.num_rows if self._is_whole else end
            if self._is_whole:
                batch = placed(head.shaped(batch, needed, {}), self.shard, at)
            yield at, stop, of_keys(batch, self._key_exprs).select(self._columns)
            at = stop
        if self._is_whole and at != end:
            raise StoreError(f"rows {at} to {end - 1} are missing in an answer")


def _piece(reply: Reply) -> tuple[int, int, bytes]:
    sample = reply.ok
    assert sample is not None
    try:
        told = json.loads(b"" if sample.attachment is None else sample.attachment.to_bytes())
        return int(told["lo"]), int(told["hi"]), sample.payload.to_bytes()
    except UNREADABLE as error:
        raise InvalidValueError("answer", f"saw attachment {sample.attachment!a}") from error


def _refusal(reply: Reply, shard: int, first: int) -> str:
    """Why; an error that asking again does not mend is raised."""
    assert reply.err is not None
    return told_by(reply.err.payload.to_bytes(), shard, first)
