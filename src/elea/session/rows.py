"""Rows of the log's schema as samples: the opposite of `ArrowBatches`, many at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

import pyarrow as pa

from elea.ids import ZenohId
from elea.node.egress_hot import DROPPED, FULL, SENT
from elea.session.convert import key_text, wire_encoding
from elea.session.session import Session
from elea.store.log.schema import RowKind
from elea.wire.data.delete import Del
from elea.wire.data.put_hot import Put
from elea.wire.fields_hot import Stamp, WireEncoding, WireExpr
from elea.wire.network.push_hot import Push

T = TypeVar("T")

_DELETE: Final = int(RowKind.DELETE)
_MANY_COUNT: Final = 512  # rows that are published without letting others in
_FLAG_BLOCK: Final = 0x08
_FLAG_BLOCK_FIRST: Final = 0x20


class RowBatch:
    """Rows that are about to be published, as Python values."""

    __slots__ = (
        "attachments",
        "encodings",
        "hlc_ids",
        "hlcs",
        "keys",
        "kinds",
        "payloads",
        "qos",
        "wire_keys",
    )

    def __init__(self, batch: pa.RecordBatch, rename: Callable[[str], str], prefix: str) -> None:
        keys = batch.column("key")
        texts = [key_text(rename(key)) for key in keys.dictionary.to_pylist()]
        wire_keys = [WireExpr(0, prefix + key) for key in texts]
        ids: list[int] = keys.indices.to_pylist()
        self.keys = [texts[id] for id in ids]
        self.wire_keys = [wire_keys[id] for id in ids]
        self.kinds: list[int] = batch.column("kind").to_pylist()
        self.payloads: list[bytes] = batch.column("payload").to_pylist()
        self.attachments: list[bytes | None] = _values(batch.column("attachment"))
        self.hlcs: list[int | None] = _values(batch.column("hlc"))
        self.qos: list[int] = batch.column("qos").to_pylist()
        encoding = batch.column("encoding")
        known = [wire_encoding(one) for one in encoding.dictionary.to_pylist()]
        self.encodings: list[WireEncoding | None] = [
            known[id] for id in encoding.indices.to_pylist()
        ]
        clock = batch.column("hlc_id")
        clocks = [ZenohId.parse(one).to_bytes() for one in clock.dictionary.to_pylist()]
        self.hlc_ids: list[bytes | None] = [
            None if id is None else clocks[id] for id in clock.indices.to_pylist()
        ]

    def __len__(self) -> int:
        return len(self.keys)


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

    __slots__ = ("_block", "_context", "_original", "_own_id", "_rename", "dropped_count")

    def __init__(
        self,
        session: Session,
        *,
        original: bool = True,
        block: bool = False,
        rename: Callable[[str], str] = str,
    ) -> None:
        self._context = session._context
        self._own_id = session.zid().to_bytes()
        self._original = original
        self._block = block
        self._rename = rename
        self.dropped_count = 0  # a queue was full, or nobody is connected

    def load(self, batch: pa.RecordBatch) -> RowBatch:
        """Rows of `SCHEMA`, ready to be published.

        Raises:
            KeyExprError: a key is none.
            InvalidValueError: an encoding or a clock is none.
        """
        return RowBatch(batch, self._rename, self._context.core.face.prefix)

    def publish(self, rows: RowBatch, first: int, end: int) -> None:
        """Publish the rows from `first` to before `end`, which are puts and deletes.

        Raises:
            ClosedError: the session is closed.
        """
        outbox = self._context.core.outbox
        while first < end:
            stop = min(first + _MANY_COUNT, end)
            result = SENT
            outbox.acquire()
            try:
                while first < stop and result != FULL:
                    result = outbox.publish_locked(
                        rows.keys[first], self._push(rows, first), True, True, True
                    )
                    first += 1
                    if result == DROPPED:
                        self.dropped_count += 1
            finally:
                outbox.release()
            outbox.settle(result)

    def _push(self, rows: RowBatch, number: int) -> Push:
        hlc = rows.hlcs[number]
        stamp = None
        if hlc is not None and self._original:
            stamp = Stamp(hlc & 0xFFFF_FFFF_FFFF_FFFF, rows.hlc_ids[number] or self._own_id)
        attachment = rows.attachments[number]
        body: Put | Del
        if rows.kinds[number] == _DELETE:
            body = Del(stamp, attachment)
        else:
            body = Put(rows.payloads[number], stamp, rows.encodings[number], attachment)
        qos = rows.qos[number]
        if self._block:
            qos = qos & ~_FLAG_BLOCK_FIRST | _FLAG_BLOCK
        return Push(rows.wire_keys[number], body, qos)


def _values(column: pa.Array) -> list[T]:
    """Its values; that there is none is known without looking at each."""
    if column.null_count == len(column):
        column = pa.nulls(len(column))
    found: list[T] = column.to_pylist()
    return found
