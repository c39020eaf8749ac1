"""Marks: what makes a sample that very sample, in a few bytes.

A publisher's number is only a claim. Two rows are the same sample if key, timestamp, kind, payload,
attachment and encoding agree as well; a mark has the digest of these, but for the encoding: that is
not in the digest of a question or receipt, which publishers make.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from elea.encoding import Encoding
from elea.session.receipts import body_digest, sample_digest
from elea.store.log.schema import RowKind
from elea.store.log.single import Rows, Single
from elea.store.recorder.rows import Row
from elea.store.recorder.windows import NO_ROWS, Identity, WindowId
from elea.timestamp import DRIFT_NS_MAX

_NO_ENCODING = str(Encoding.ZENOH_BYTES)
_BITS = 0xFFFF_FFFF_FFFF_FFFF
# Routers stamp anew what is further ahead than the drift; their clocks may differ from ours.
_AHEAD_US = DRIFT_NS_MAX // 2_000
_STAMPED_US = 10_000_000  # between being stamped by a router and being received
MARKED = (
    *("key", "kind", "payload", "attachment", "encoding"),
    *("hlc", "hlc_id", "zid", "eid", "sn", "recv_ts"),
)


SampleId: TypeAlias = tuple[Identity, bytes, str]


class Mark(NamedTuple):
    """One sample of a publisher that numbers them."""

    identity: Identity
    key: str
    bits: int | None  # its timestamp
    body: bytes  # digest of kind, payload and attachment
    digest: bytes  # of key and timestamp, too
    received_us: int
    encoding: str = ""  # of a put
    clock: str | None = None  # whose timestamp it is

    @property
    def window(self) -> WindowId:
        """Of which window it is."""
        return (*self.identity.source, self.key)

    @property
    def sample(self) -> SampleId:
        """What only the same sample has."""
        return self.identity, self.digest, self.encoding

    def is_same(self, other: Mark) -> bool:
        """Whether it is the same sample."""
        return self.sample == other.sample

    def is_body(self, other: Mark) -> bool:
        """Whether all but the timestamp agrees."""
        own = (self.body, self.encoding, self.identity, self.key)
        return own == (other.body, other.encoding, other.identity, other.key)

    def is_retry(self, other: Mark, within_ns: int) -> bool:
        """Whether an earlier sample was received so short a time before that this may repeat it.

        If the recorder's clock was set back in between, it seems to have been received later.
        """
        return abs(self.received_us - other.received_us) <= within_ns // 1_000

    def may_be(self, other: Mark, within_ns: int, *, is_stamped: bool) -> bool:
        """Whether what was put by a question is a sample that is recorded.

        Args:
            within_ns: How long a put may be repeated without the timestamp of the sample.
            is_stamped: Whether the timestamp of the question is that of the publisher.
        """
        if is_stamped and self.is_same(other):
            return True
        if not self.is_body(other) or not self.is_retry(other, within_ns):
            return False
        return not is_stamped or self._was_stamped_anew_as(other)

    def _was_stamped_anew_as(self, other: Mark) -> bool:
        """Whether a router put the time of its own clock in place of one that was too far ahead.

        The sample that came through it has another timestamp than the question, which the
        publisher made.
        """
        if self.bits is None or other.bits is None or self.clock == other.clock:
            return False
        own_us, other_us = ((bits * 1_000_000) >> 32 for bits in (self.bits, other.bits))
        if (
            other_us < other.received_us - _STAMPED_US
        ):  # a router's may be ahead: it never goes back
            return False
        return own_us - other.received_us > _AHEAD_US


class Repeats:
    """Finds samples that are the same among those that are stored together."""

    def __init__(self) -> None:
        self._stamped: dict[SampleId, int] = {}
        self._bodies: dict[tuple[bytes, str, Identity, str], int] = {}

    def row_of(self, mark: Mark, row: int, *, is_stamped: bool) -> int:
        """The row of the first sample that is the same; `row`, if it is new."""
        stamped, body = mark.sample, (mark.body, mark.encoding, mark.identity, mark.key)
        before = self._stamped.get(stamped) if is_stamped else self._bodies.get(body)
        if before is None:
            before = row
        self._stamped.setdefault(stamped, before)
        self._bodies.setdefault(body, before)
        return before


class Question(NamedTuple):
    """Which sample is asked for. Without digest: the one with this number on this key."""

    key: str
    identity: Identity
    bits: int | None = None
    digest: bytes | None = None

    @property
    def window(self) -> WindowId:
        """Of which window it is."""
        return (*self.identity.source, self.key)

    def fits(self, mark: Mark) -> bool:
        """Whether a sample is the one."""
        return (
            self.identity == mark.identity
            and self.key == mark.key
            and (self.bits is None or self.bits == mark.bits)
            and (self.digest is None or self.digest == mark.digest)
        )


def mark_of(rows: Rows, row: int) -> Mark | None:
    """The mark of a row; None: it has no number."""
    if isinstance(rows, Single):
        values: tuple[object, ...] = (
            *(rows.key, rows.kind, rows.payload, rows.attachment, rows.encoding),
            *(rows.hlc, rows.hlc_id, rows.zid, rows.eid, rows.sn, rows.received_us),
        )
    else:
        values = tuple(
            rows.column(name)[row].value if name == "recv_ts" else rows.column(name)[row].as_py()
            for name in MARKED
        )
    return _mark(*values)  # type: ignore[arg-type]  # as the schema says


def mark_of_row(row: Row) -> Mark | None:
    """The same for a row that is no batch yet."""
    stamp = row.timestamp
    time, clock = (None, None) if stamp is None else (stamp.time.value, str(stamp.id))
    zid, eid, sn = row.identity or (None, None, None)
    values = (row.key, int(row.kind), row.payload, row.attachment, row.encoding, time, clock)
    return _mark(*values, zid, eid, sn, row.received_us)


def rows_of(rows: Rows, id: WindowId) -> list[tuple[int, int]]:
    """The rows of a window, with their numbers."""
    zid, eid, key = id
    if isinstance(rows, Single):
        is_there = rows.sn is not None and (rows.zid, rows.eid, rows.key) == id
        return [(0, rows.sn or 0)] if is_there else []
    if rows.num_rows == 1:  # a call of a kernel costs more than a row
        names = ("zid", "eid", "key", "sn")
        *only, sn = (rows.column(name)[0].as_py() for name in names)
        return [(0, sn)] if tuple(only) == id and sn is not None else []
    mask = pc.equal(rows.column("eid"), pa.scalar(eid, pa.int64()))
    for name, text in (("zid", zid), ("key", key)):
        column = rows.column(name)
        index = column.dictionary.index(text)
        if index.as_py() < 0:
            return []
        mask = pc.and_(mask, pc.equal(column.indices, index))
    mask = pc.and_(mask, pc.is_valid(rows.column("sn")))
    found = pc.indices_nonzero(mask)
    return list(zip(found.to_pylist(), rows.column("sn").take(found).to_pylist(), strict=True))


def repeated_rows(rows: Rows, marks: dict[int, Mark]) -> set[int]:
    """Those of some rows that are the same sample as a row before them."""
    if isinstance(rows, Single):
        return set()
    numbers: dict[WindowId, set[int]] = {}
    for mark in marks.values():
        numbers.setdefault(mark.window, set()).add(mark.identity.sn)
    found: set[int] = set()
    for id, wanted in numbers.items():
        seen: set[SampleId] = set()
        for row, sn in rows_of(rows, id):
            one = (marks.get(row) or mark_of(rows, row)) if sn in wanted else None
            if one is not None:
                if row in marks and one.sample in seen:
                    found.add(row)
                seen.add(one.sample)
    return found


def without_rows(rows: Rows, some: set[int]) -> Rows:
    """Rows but for some of them."""
    if not some:
        return rows
    if isinstance(rows, Single):
        return NO_ROWS
    return rows.take(pa.array([row for row in range(rows.num_rows) if row not in some], pa.int64()))


def _mark(
    key: str,
    kind: int,
    payload: bytes,
    attachment: bytes | None,
    encoding: str | None,
    hlc: int | None,
    clock: str | None,
    zid: str | None,
    eid: int | None,
    sn: int | None,
    received_us: int,
) -> Mark | None:
    if zid is None or eid is None or sn is None:
        return None
    bits = None if hlc is None else hlc & _BITS
    body = body_digest(kind, payload, attachment)
    digest = sample_digest(body, key, bits, clock)
    named = (encoding or _NO_ENCODING) if kind == RowKind.PUT else ""
    return Mark(Identity(zid, eid, sn), key, bits, body, digest, received_us, named, clock)
