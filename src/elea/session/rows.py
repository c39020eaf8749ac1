"""Rows of the log's schema as samples: the opposite of `ArrowBatches`, many at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from elea.answers import DROPPED
from elea.ids import ZenohId
from elea.session.convert import key_text, wire_encoding
from elea.session.publish import Lane, put_rows
from elea.session.session import Session
from elea.store.log.schema import RowKind
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.fields import Stamp

T = TypeVar("T")

_PUT: Final = int(RowKind.PUT)
_LANES_COUNT_MAX: Final = 65_536  # of key, encoding and qualities; then all are forgotten
_FLAG_BLOCK: Final = 0x08
_FLAG_BLOCK_FIRST: Final = 0x20
_QOS_COUNT: Final = 128  # of octets in a column of signed ones
_TIME_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF


class RowBatch:
    """Rows that are about to be published, as Python values."""

    __slots__ = ("attachments", "kinds", "lanes", "payloads", "special", "stamps")

    def __init__(
        self, batch: pa.RecordBatch, lanes: list[Lane], stamps: list[Stamp | None]
    ) -> None:
        self.lanes = lanes
        self.stamps = stamps
        self.kinds: list[int] = batch.column("kind").to_pylist()
        self.payloads: list[bytes] = batch.column("payload").to_pylist()
        self.attachments: list[bytes | None] = _values(batch.column("attachment"))
        # Which rows are more than a payload, in order.
        self.special = [
            number
            for number, (kind, attachment) in enumerate(
                zip(self.kinds, self.attachments, strict=True)
            )
            if kind != _PUT or attachment is not None
        ]

    def key(self, number: int) -> str:
        """The key of a row, as it is published."""
        return self.lanes[number].key

    def __len__(self) -> int:
        return len(self.lanes)


class RowPublisher:
    """Publishes rows as what they were: puts and deletes with all that came with them.

    Who published them first and under which number is not repeated: these are other samples.

    Args:
        session: Through which.
        original: Whether they keep their timestamps; else they get new ones, if the session gives
            any.
        block: Whether to wait where a queue is full, whatever was recorded.
        rename: What becomes of a key.
    """

    __slots__ = (
        "_block",
        "_core",
        "_lanes",
        "_original",
        "_own_id",
        "_rename",
        "_session",
        "dropped_count",
    )

    def __init__(
        self,
        session: Session,
        *,
        original: bool = True,
        block: bool = False,
        rename: Callable[[str], str] = str,
    ) -> None:
        self._session = session  # which is closed when nobody refers to it
        self._core = session._context.core
        self._own_id = session.zid().to_bytes()
        self._original = original
        self._block = block
        self._rename = rename
        self._lanes: dict[tuple[str, str, int], Lane] = {}
        self.dropped_count = 0  # a queue was full

    def load(self, batch: pa.RecordBatch) -> RowBatch:
        """Rows of `SCHEMA`, ready to be published.

        Raises:
            KeyExprError: a key is none.
            InvalidValueError: an encoding or a clock is none.
        """
        return RowBatch(batch, self._lanes_of(batch), self._stamps(batch))

    def publish(self, rows: RowBatch, first: int, end: int) -> None:
        """Publish the rows from `first` to before `end`, which are puts and deletes.

        Raises:
            ClosedError: the session is closed.
        """
        for place in range(bisect_left(rows.special, first), len(rows.special)):
            number = rows.special[place]
            if number >= end:
                break
            self._plain(rows, first, number)
            self._send(rows, number)
            first = number + 1
        self._plain(rows, first, end)

    def _plain(self, rows: RowBatch, first: int, end: int) -> None:
        self.dropped_count += put_rows(rows.lanes, rows.payloads, rows.stamps, first, end)

    def _send(self, rows: RowBatch, number: int) -> None:
        lane, stamp, attachment = rows.lanes[number], rows.stamps[number], rows.attachments[number]
        body: Put | Del
        if rows.kinds[number] == _PUT:
            body = Put(rows.payloads[number], stamp, lane.encoding, attachment)
        else:
            body = Del(stamp, attachment)
        if lane.send(body, None) == DROPPED:
            self.dropped_count += 1

    def _lanes_of(self, batch: pa.RecordBatch) -> list[Lane]:
        """The lane of each row. Few of them differ: those are found, the rest is columns."""
        keys, encodings = batch.column("key"), batch.column("encoding")
        names = [key_text(self._rename(key)) for key in keys.dictionary.to_pylist()]
        kinds: list[str] = encodings.dictionary.to_pylist()
        code = pc.add(pc.multiply(keys.indices.cast(pa.int64()), len(kinds)), encodings.indices)
        code = pc.add(pc.multiply(code, _QOS_COUNT), batch.column("qos")).dictionary_encode()
        lanes = []
        for one in code.dictionary.to_pylist():
            rest, qos = divmod(one, _QOS_COUNT)
            lanes.append(self._lane(names[rest // len(kinds)], kinds[rest % len(kinds)], qos))
        places: list[int] = code.indices.to_pylist()
        return [lanes[place] for place in places]

    def _lane(self, key: str, encoding: str, qos: int) -> Lane:
        found = self._lanes.get((key, encoding, qos))
        if found is None:
            if len(self._lanes) >= _LANES_COUNT_MAX:
                self._lanes.clear()
            chosen = qos & ~_FLAG_BLOCK_FIRST | _FLAG_BLOCK if self._block else qos
            wire_key, known = self._core.face.wire_key(key), wire_encoding(encoding)
            found = Lane(self._core.outbox, key, wire_key, known, chosen, True, True, True)
            self._lanes[key, encoding, qos] = found
        return found

    def _stamps(self, batch: pa.RecordBatch) -> list[Stamp | None]:
        times: list[int | None] = _values(batch.column("hlc"))
        if not self._original:
            return [None] * len(times)
        column = batch.column("hlc_id")
        ids = [ZenohId.parse(text).to_bytes() for text in column.dictionary.to_pylist()]
        ids.append(self._own_id)  # of timestamps whose clock is not known
        codes: list[int] = column.indices.fill_null(len(ids) - 1).to_pylist()
        return [
            None if time is None else Stamp(time & _TIME_MASK, ids[code])
            for time, code in zip(times, codes, strict=True)
        ]


def _values(column: pa.Array) -> list[T]:
    """Its values; that there is none is known without looking at each."""
    if column.null_count == len(column):
        column = pa.nulls(len(column))
    found: list[T] = column.to_pylist()
    return found
