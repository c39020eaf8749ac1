"""LogServer: a log for those who do not have its files, by queries.

    @elea/log/NAME            token: somebody serves this log
    @elea/log/NAME/info       what it is and has; `time=` where that begins, `octets=true` how long
    @elea/log/NAME/density    rows and bytes by time: `from`, `to` in seconds since 1970, `bins`
    @elea/log/NAME/keys       the keys it has rows of, and how many of each; `max` of them
    @elea/log/NAME/read/SHARD rows `lo` to `hi`; of `columns`, `keyexpr`, `from`, `until`; `lossy`;
                              `first`, `end`: of a range that is asked for in parts
    @elea/log/NAME/commit/WHO how far a consumer has come

Rows go as Arrow streams, whole blocks as they are on disk wherever that is possible: nothing is
decompressed here. Queries wait in one line per kind; past its bound they are refused.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from elea import heap
from elea.encoding import Encoding
from elea.errors import (
    ClosedError,
    CorruptLogError,
    InvalidValueError,
    OffsetError,
)
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.limits import DEFAULT_LIMITS, Limits
from elea.parameters import Parameters
from elea.session.handlers import Callback
from elea.session.query import Query
from elea.session.session import Session
from elea.store.flight.door import Door
from elea.store.line import Line
from elea.store.log import consumers
from elea.store.log.density import BINS_COUNT_MAX, density
from elea.store.log.log import Log
from elea.store.log.ranges import ALL_TIME, block_start, checked_columns, rows_of, seek
from elea.store.log.reader import LogReader
from elea.store.log.refusal import refusal_of
from elea.store.log.schema import SCHEMA
from elea.store.rows import compacted

PREFIX: Final = "@elea/log"
_LOG: Final = logging.getLogger("elea.store.log")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_ARROW: Final = Encoding("application/vnd.apache.arrow.stream")
_LEASE_S_MAX: Final = 10 * 365 * 86_400
_TIME_MAX: Final = 2**64
_COMMIT: Final = "commit/*"
_KINDS: Final = ("info", "density", "keys", _COMMIT)  # of questions, each a queryable
_KEYS_COUNT: Final = 20_000  # in one answer
_SECONDS_MAX: Final = 2**32

_FRACTION: Final = 2.0**32  # of a second, in a timestamp

_Piece = tuple[int, int, bytes]  # from a row to a row, as an Arrow stream


class LogServer:
    """Serves one log until `stop`.

    Args:
        session: Where it is served.
        name: One chunk of a key: letters, digits, `-`, `_` and `.`.
        source: The log's directory, or a reader of it.
        log: Who writes it, if that is here: it commits consumers then, and `info` tells that
            the log is being recorded.
        key_exprs: What it records, for `info`.
        door: By which it can be read as well; `info` tells where that is.

    Raises:
        InvalidValueError: not a name.
        StoreError: there is no log.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        source: LogReader | Path | str,
        log: Log | None = None,
        *,
        key_exprs: Sequence[str] = (),
        door: Door | None = None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.name = checked_name(name)
        self._reader = source if isinstance(source, LogReader) else LogReader(source)
        self._log = log
        self._key_exprs = list(key_exprs)
        self._door = door
        self._limits = limits
        self._reading = threading.Lock()  # a reader is not for two threads
        self._lines: list[Line] = []
        self.refused_count = 0  # queries, because the line was full
        heap.keep()  # answers are megabytes each
        if door is not None:
            door.add(self.name, self._reader.disk, session)
        root = f"{PREFIX}/{self.name}"
        questions = self._line("info", lambda query, number: self._answer(query, _KINDS[number]))
        ranges = self._line("read", lambda query, _: self._read(query))
        self._declared = [
            *(
                session.declare_queryable(f"{root}/{kind}", _taking(questions, number))
                for number, kind in enumerate(_KINDS)
            ),
            session.declare_queryable(f"{root}/read/*", _taking(ranges, 0)),
        ]
        self._token = session.liveliness().declare_token(root)

    def stop(self) -> None:
        """Answer no more."""
        if self._door is not None:
            self._door.remove(self.name, self._reader.disk)
        for declared in (self._token, *self._declared):
            with suppress(ClosedError):  # the session went first
                declared.undeclare()
        for line in self._lines:
            line.stop()

    def _line(self, kind: str, answer: Callable[[Query, int], None]) -> Line:
        line = Line(
            f"log-{self.name}-{kind}",
            1,  # a reader is not for two threads
            self._limits.log_queries_count,
            answer,
            _failed,
            self._full,
        )
        self._lines.append(line)
        return line

    def _full(self) -> None:
        self.refused_count += 1

    def _answer(self, query: Query, kind: str) -> None:
        if kind == _COMMIT:
            key = str(query.key_expr)
            told = self._commit(key.rpartition("/")[2], query)
        else:
            key = f"{PREFIX}/{self.name}/{kind}"
            answers = {"info": self._info, "density": self._density, "keys": self._keys}
            told = answers[kind](query.parameters)
        query.reply(key, json.dumps(told), encoding=Encoding.APPLICATION_JSON)

    def _keys(self, parameters: Parameters) -> dict[str, Json]:
        most = _KEYS_COUNT
        if "max" in parameters:
            most = min(most, _number(parameters, "max", _TIME_MAX))
        with self._reading:
            found = self._reader.keys()
        told: dict[str, Json] = {key: found[key] for key in sorted(found)[:most]}
        return {"keys": told, "left_out": len(found) - len(told)}

    def _density(self, parameters: Parameters) -> dict[str, Json]:
        bins = _number(parameters, "bins", BINS_COUNT_MAX) if "bins" in parameters else 100
        if not bins:
            raise InvalidValueError("bins", f"saw 0; legal are 1 to {BINS_COUNT_MAX}")
        since, until = (_time(parameters, name) for name in ("from", "to"))
        if since is not None and until is not None and since >= until:
            raise InvalidValueError("from", "saw a time that is not before `to`")
        with self._reading:
            found = density(self._reader, bins, since, until)
        return {
            "from": found.since / _FRACTION,
            "to": found.until / _FRACTION,
            "rows": list(found.rows),
            "bytes": list(found.octets),
            "lost": found.lost_count,
            "cut": found.is_cut,
        }

    def _info(self, parameters: Parameters) -> dict[str, Json]:
        time_ = _number(parameters, "time", _TIME_MAX) if "time" in parameters else None
        shards: list[Json] = []
        with self._reading:
            for shard in range(self._reader.shards_count):
                bounds = self._reader.bounds(shard)
                told: dict[str, Json] = {"first": bounds.first, "end": bounds.end}
                if parameters.get("octets") == "true":
                    told["octets"] = self._reader.stat(shard).octets_count
                if time_ is not None:
                    told["seek"] = seek(self._reader, shard, time_)
                shards.append(told)
            found = consumers.load(self._reader.disk, self._reader.log_id)
        known: dict[str, Json] = {
            one.name: {
                "offsets": {str(shard): seq for shard, seq in one.offsets.items()},
                "lease_until_ns": one.lease_until_ns,
            }
            for one in found.consumers
        }
        found_at: dict[str, Json] = {}
        if self._door is not None and self._door.location is not None:
            found_at["flight"] = self._door.location
        return {
            "log": str(self._reader.log_id),
            "name": self.name,
            "shards": shards,
            "key_exprs": list(self._key_exprs),
            "consumers": known,
            "recording": self._log is not None,
            **found_at,
        }

    def _commit(self, consumer: str, query: Query) -> dict[str, Json]:
        offsets, lease_s = self._offsets_of(b"" if query.payload is None else bytes(query.payload))
        lease_ns = lease_s * 1_000_000_000
        if self._log is not None:
            self._log.commit_consumer(consumer, offsets, lease_ns)
        else:
            disk, log_id = self._reader.disk, self._reader.log_id
            now_ns = time.time_ns()
            consumers.commit(disk, consumer, log_id, offsets, now_ns=now_ns, lease_ns=lease_ns)
        kept: dict[str, Json] = {str(shard): seq for shard, seq in sorted(offsets.items())}
        return {
            "log": str(self._reader.log_id),
            "consumer": consumer,
            "offsets": kept,
            "lease_s": lease_s,
        }

    def _offsets_of(self, payload: bytes) -> tuple[dict[int, int], int]:
        legal = '{"offsets": {"0": 123}, "lease_s": 600}'
        try:
            told = json.loads(payload)
            offsets = {int(shard): seq for shard, seq in told["offsets"].items()}
            lease_s = told.get("lease_s", consumers.LEASE_NS // 1_000_000_000)
            numbers = [*offsets.values(), lease_s]
            if not all(isinstance(one, int) and one >= 0 for one in numbers):
                raise ValueError("a number that is none")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InvalidValueError("commit", f"saw {payload[:80]!a}; legal is {legal}") from error
        for shard, seq in offsets.items():
            self._check_shard(shard)
            with self._reading:
                end = self._reader.bounds(shard).end
            if seq > end:
                raise OffsetError(shard, seq, 0, end)
        return offsets, min(lease_s, _LEASE_S_MAX)

    def _check_shard(self, shard: int) -> None:
        count = self._reader.shards_count
        if not 0 <= shard < count:
            raise InvalidValueError("shard", f"saw {shard}; legal are 0 to {count - 1}")

    def _read(self, query: Query) -> None:
        text = str(query.key_expr).rpartition("/")[2]
        if not text.isdecimal():
            raise InvalidValueError("shard", f"saw {text!a}; a read is of one of them")
        shard = int(text)
        self._check_shard(shard)
        parameters = query.parameters
        low, high = self._range(shard, parameters)
        key = query.key_expr
        pieces = self._pieces(shard, low, high, parameters)
        stall_s = self._limits.historian_stall_ns / 1e9
        while query.is_wanted() and query.wait_room(stall_s):  # else the asker left, or is stuck
            with self._reading:
                piece = next(pieces, None)
            if piece is None:
                return
            first, end, octets = piece
            where = {"lo": first, "hi": end} | ({"last": True} if end >= high else {})
            query.reply(key, octets, encoding=_ARROW, attachment=json.dumps(where))

    def _range(self, shard: int, parameters: Parameters) -> tuple[int, int]:
        """The rows to answer with. A block that two parts of a range share is of the first one.

        Else both would have to decode it and to encode their rows anew.
        """
        low, high = (_number(parameters, name, _TIME_MAX) for name in ("lo", "hi"))
        if "first" not in parameters:
            return low, high
        first, end = (_number(parameters, name, _TIME_MAX) for name in ("first", "end"))
        with self._reading:
            low, high = (
                min(block_start(self._reader, shard, seq), end) if first < seq < end else seq
                for seq in (low, high)
            )
        return low, high

    def _pieces(self, shard: int, low: int, high: int, parameters: Parameters) -> Iterator[_Piece]:
        """A range in replies: each row once, in order, and none beside them."""
        text = parameters.get("columns")
        columns = checked_columns(SCHEMA.names if text is None else text.split(","))
        key_exprs = [str(KeyExpr(one)) for one in parameters.values("keyexpr")]
        since = _number(parameters, "from", _TIME_MAX) if "from" in parameters else ALL_TIME[0]
        until = _number(parameters, "until", _TIME_MAX) if "until" in parameters else ALL_TIME[1]
        span = (since, until)
        reader = self._reader
        if parameters.get("lossy") == "true":
            tell = partial(_LOG.error, "log %s is read although damaged: %s", self.name)
            reader = LogReader(reader.disk, tell)
        if low >= high:
            yield low, high, _stream([], _schema_of(columns))
            return
        at = low
        if text is None and not key_exprs and span == ALL_TIME:
            found = self._blocks(reader, shard, low, high)
        else:
            rows = rows_of(reader, shard, low, high, columns, key_exprs, span)
            found = self._encoded((first, end, compacted(batch)) for first, end, batch in rows)
        for _, end, octets in found:
            yield at, end, octets  # `at`: rows that are lost, or not wanted, are of the next reply
            at = end
        if at < high:
            yield at, high, _stream([], _schema_of(columns))

    def _blocks(self, reader: LogReader, shard: int, low: int, high: int) -> Iterator[_Piece]:
        """Whole blocks as they are on disk, several if they are small; parts of blocks as rows."""
        gathered: list[bytes | pa.Buffer] = []  # the head of their segments, and blocks
        gathered_len, start, at = 0, low, low
        for segment, record in reader.blocks(shard, low, high):
            end = min(record.end_seq, high)
            octets = None
            if (at, end) == (record.first_seq, record.end_seq):
                # One that is damaged or gone is told by the reader, in its words.
                with suppress(CorruptLogError, FileNotFoundError):
                    if segment.head.is_known:
                        octets = segment.octets(record)
            too_much = gathered_len + record.length > self._limits.log_reply_len
            is_other = octets is None or gathered[:1] != [segment.head.octets]
            if gathered_len and (is_other or too_much):
                yield start, at, b"".join(gathered)
                gathered, gathered_len, start = [], 0, at
            if octets is None:
                rows = rows_of(reader, shard, at, end, SCHEMA.names)
                yield from self._encoded(rows)
                start = end
            else:
                gathered += [octets] if gathered else [segment.head.octets, octets]
                gathered_len += octets.size
            at = end
        if gathered_len:
            yield start, at, b"".join(gathered)
        if at < high:
            yield from self._encoded(rows_of(reader, shard, at, high, SCHEMA.names))

    def _encoded(self, found: Iterator[tuple[int, int, pa.RecordBatch]]) -> Iterator[_Piece]:
        for first, end, batch in found:
            step = batch.num_rows * self._limits.log_block_len // max(1, batch.nbytes)
            if end - first != batch.num_rows or step >= batch.num_rows:
                yield first, end, _stream([batch], batch.schema)
                continue
            step = max(1, step)  # rows as long as that are few
            for at in range(0, batch.num_rows, step):
                part = batch.slice(at, step)
                yield first + at, first + at + part.num_rows, _stream([part], batch.schema)


def checked_name(name: str) -> str:
    """The name of a log.

    Raises:
        InvalidValueError: it is none.
    """
    if _NAME.fullmatch(name) is None:
        legal = "legal are letters, digits, '-', '_' and '.', 128 at most"
        raise InvalidValueError("name of a log", f"saw {name!a}; {legal}")
    return name


def _failed(query: Query, error: Exception) -> None:
    """Tell the asker what went wrong: a disk may raise anything."""
    with suppress(ClosedError):
        query.reply_err(json.dumps(refusal_of(error)), encoding=Encoding.APPLICATION_JSON)


def _taking(line: Line, number: int) -> Callback[Query]:
    """Called by whoever brings a query: it only gets in line."""
    return Callback(partial(line.take, number), indirect=False)


def _time(parameters: Parameters, name: str) -> int | None:
    """Seconds since 1970 as the 64 bits of a timestamp; None: not given."""
    text = parameters.get(name)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < _SECONDS_MAX:
        raise InvalidValueError(name, f"saw {text!a}; legal are seconds since 1970")
    return int(seconds * _FRACTION)


def _number(parameters: Parameters, name: str, bound: int) -> int:
    text = parameters.get(name)
    if text is None or not text.isdecimal() or len(text) > 20 or int(text) > bound:
        raise InvalidValueError(f"parameter {name}", f"saw {text!a}; legal is a number")
    return int(text)


def _schema_of(columns: Sequence[str]) -> pa.Schema:
    return pa.schema([field for field in SCHEMA if field.name in columns])


def _stream(batches: list[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    octets: bytes = sink.getvalue().to_pybytes()
    return octets
