"""Columns: samples as rows of growing buffers, without an object for any of them.

A row is written where the sample is received, under the node's lock, and costs a few stores. Who
reads makes arrays of the buffers, in a thread of its own: `elea.session.arrow`. Columns that most
samples leave empty (who published it, its attachment) cost nothing until the first one has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from librt.strings import BytesWriter, write_i32_le, write_i64_le

from elea.fast.plain import PlainPush
from elea.lazy_sample import Sample
from elea.provenance import SampleKind
from elea.session.convert import wire_encoding, wire_source, wire_stamp
from elea.session.outlet import END, Channel, RowSink
from elea.wire.fields import WireEncoding

if TYPE_CHECKING:
    from mypy_extensions import i64


class Columns:
    """The rows of one batch. Ends of octets are counted from the first row's beginning.

    Keys, encodings, clocks and publishers are numbers into `keys` and so on; a number of -1 is
    none. `stamped`, `sourced` and `attached` say whether any row has those columns.
    """

    __slots__ = (
        "attached",
        "attachment_ends",
        "attachment_flags",
        "attachments",
        "clock_ids",
        "clocks",
        "eids",
        "encoding_ids",
        "encodings",
        "key_ids",
        "keys",
        "kinds",
        "payload_ends",
        "payloads",
        "qos",
        "received",
        "rows_count",
        "sns",
        "sourced",
        "stamped",
        "times",
        "zid_ids",
        "zids",
    )

    def __init__(self) -> None:
        self.rows_count: i64 = 0
        self.keys: dict[str, int] = {}
        self.key_ids = BytesWriter()
        self.payloads = BytesWriter()
        self.payload_ends = BytesWriter()
        self.kinds = BytesWriter()
        self.qos = BytesWriter()
        self.received = BytesWriter()  # microseconds since 1970
        self.encodings: dict[tuple[int, bytes], int] = {}
        self.encoding_ids = BytesWriter()
        self.stamped = False
        self.times = BytesWriter()  # NTP64
        self.clocks: dict[bytes, int] = {}
        self.clock_ids = BytesWriter()
        self.sourced = False
        self.zids: dict[bytes, int] = {}
        self.zid_ids = BytesWriter()
        self.eids = BytesWriter()
        self.sns = BytesWriter()
        self.attached = False
        self.attachments = BytesWriter()
        self.attachment_ends = BytesWriter()
        self.attachment_flags = BytesWriter()  # 1 where there is one

    def begin_stamps(self) -> None:
        """The first row with a timestamp: those before have none."""
        self.stamped = True
        blank(self.times, self.rows_count, b"\0\0\0\0\0\0\0\0")
        blank(self.clock_ids, self.rows_count, b"\xff\xff\xff\xff")

    def begin_sources(self) -> None:
        """The first row that says who published it."""
        self.sourced = True
        blank(self.zid_ids, self.rows_count, b"\xff\xff\xff\xff")
        blank(self.eids, self.rows_count, b"\0\0\0\0\0\0\0\0")
        blank(self.sns, self.rows_count, b"\0\0\0\0\0\0\0\0")

    def begin_attachments(self) -> None:
        """The first row with an attachment."""
        self.attached = True
        blank(self.attachment_ends, self.rows_count, b"\0\0\0\0")
        blank(self.attachment_flags, self.rows_count, b"\0")


def blank(writer: BytesWriter, count: i64, item: bytes) -> None:
    """Write the same item for so many rows."""
    times: int = count
    writer.write(item * times)


class Haste:
    """Whose rows are handed over when they come, unless the reader has something to do.

    The reader counts what it has done before it looks at `is_due`; rows are marked before the
    counts are looked at: one of the two sees to them.

    Attributes:
        eids: The entities that number these samples.
        is_due: Whether such a row waits.
        handed_count: Batches that were handed over,
        done_count: and of these, those that the reader is done with.
        hand: Takes a row that is alone while the reader has nothing to do, in place of the
            channel; False if it does not want it. Under the node's lock.
    """

    __slots__ = ("done_count", "eids", "hand", "handed_count", "is_due")

    def __init__(self) -> None:
        self.eids: set[int] = set()
        self.is_due = False
        self.handed_count = 0
        self.done_count = 0
        self.hand: Callable[[Columns], bool] | None = None


class ColumnsOutlet(RowSink):
    """An outlet that gathers samples into columns and hands them to a channel.

    Args:
        channel: Takes `Columns`.
        rows_count_max: A batch has at most so many rows,
        len_max: and about so many octets of payload and attachments.
        wall_ns: Tells the time of day.

    `on_first` is called with a batch that has its first row, unless that is in haste, under the
    node's lock: somebody is to call `seal_if` after a while.
    """

    __slots__ = (
        "_encoding",
        "_encoding_id",
        "_key",
        "_key_id",
        "_len_max",
        "_rows",
        "_rows_count_max",
        "_wall_ns",
        "channel",
        "haste",
        "now_us",
        "on_first",
    )

    def __init__(
        self, channel: Channel, rows_count_max: int, len_max: int, wall_ns: Callable[[], int]
    ) -> None:
        self.channel = channel
        self.on_first: Callable[[Columns], None] | None = None
        self.haste: Haste | None = None
        self._wall_ns = wall_ns
        self.now_us: i64 = 0  # when what comes next was received
        self._rows_count_max: i64 = rows_count_max
        self._len_max: i64 = len_max
        self._begin_batch()

    def accept(self, value: object) -> None:
        """Take a sample that is an object, or END."""
        if value is END:
            self.seal()
            self.channel.accept(END)
        elif isinstance(value, Sample):
            self._add_sample(value)
            self.end()

    def add(self, key: str, plain: PlainPush) -> None:
        """Take a sample as it stands in its batch."""
        rows = self._rows
        self._begin_row(key)
        rows.payloads.write(plain.payload())
        write_number(rows.payload_ends, len(rows.payloads))
        rows.kinds.append(0)
        qos: int = plain.qos
        rows.qos.append(qos)
        encoding = plain.encoding
        if encoding is not self._encoding:
            self._find_encoding(encoding)
        write_number(rows.encoding_ids, self._encoding_id)
        if plain.stamped or rows.stamped:
            self._add_stamp(plain.stamped, plain.time, plain.clock)
        if plain.sourced or rows.sourced:
            self._add_source(plain.sourced, plain.zid, plain.eid, plain.sn)
        if plain.attachment_start >= 0 or rows.attached:
            self._add_attachment(plain.attachment())
        self._end_row()

    def begin(self) -> None:
        """What comes next is received now."""
        self.now_us = self._wall_ns() // 1_000

    def end(self) -> None:
        """Nothing more comes now."""
        haste = self.haste
        if haste is None or not haste.is_due or haste.handed_count != haste.done_count:
            return
        rows = self._rows
        if rows.rows_count == 1 and haste.hand is not None and haste.hand(rows):
            haste.is_due = False
            haste.handed_count += 1
            self._begin_batch()
        else:
            self.seal()

    def seal(self) -> None:
        """Hand over what is there."""
        haste = self.haste
        if haste is not None:
            haste.is_due = False
        rows = self._rows
        if rows.rows_count == 0:
            return
        self._begin_batch()
        channel = self.channel
        if channel.offer(rows):
            if haste is not None:
                haste.handed_count += 1
        elif not channel.abandoned:
            channel.dropped_count += rows.rows_count - 1  # it counts values

    def seal_if(self, rows: Columns) -> None:
        """Hand over what is there, if it is still this batch."""
        if rows is self._rows:
            self.seal()

    def _begin_batch(self) -> None:
        self._rows = Columns()
        self._key = ""
        self._key_id: i64 = -1
        self._encoding: WireEncoding | None = None
        self._encoding_id: i64 = -1

    def _begin_row(self, key: str) -> None:
        rows = self._rows
        if self._key_id < 0 or key is not self._key:
            self._key = key
            self._key_id = number(rows.keys, key)
            if self._encoding_id < 0:
                self._find_encoding(None)
        write_number(rows.key_ids, self._key_id)
        write_i64_le(rows.received, self.now_us)

    def _end_row(self) -> None:
        rows = self._rows
        rows.rows_count += 1
        if (
            rows.rows_count >= self._rows_count_max
            or len(rows.payloads) + len(rows.attachments) >= self._len_max
        ):
            self.seal()
        elif rows.rows_count == 1 and self.on_first is not None:
            haste = self.haste
            if haste is None or not haste.is_due:  # else `end` or the reader sees to it
                self.on_first(rows)

    def _find_encoding(self, encoding: WireEncoding | None) -> None:
        self._encoding = encoding
        written = (0, b"") if encoding is None else (encoding.id, encoding.schema)
        encodings = self._rows.encodings
        found = encodings.get(written)
        if found is None:
            found = len(encodings)
            encodings[written] = found
        self._encoding_id = found

    def _add_stamp(self, stamped: bool, time: i64, clock: bytes) -> None:
        rows = self._rows
        if not rows.stamped:
            rows.begin_stamps()
        write_i64_le(rows.times, time if stamped else 0)
        clock_id: i64 = -1
        if stamped:
            clock_id = number_of_octets(rows.clocks, clock)
        write_number(rows.clock_ids, clock_id)

    def _add_source(self, sourced: bool, zid: bytes, eid: i64, sn: i64) -> None:
        rows = self._rows
        if not rows.sourced:
            rows.begin_sources()
        zid_id: i64 = -1
        if sourced:
            zid_id = number_of_octets(rows.zids, zid)
            haste = self.haste
            if haste is not None and haste.eids and eid in haste.eids:
                haste.is_due = True
        write_number(rows.zid_ids, zid_id)
        write_i64_le(rows.eids, eid if sourced else 0)
        write_i64_le(rows.sns, sn if sourced else 0)

    def _add_attachment(self, attachment: bytes | None) -> None:
        rows = self._rows
        if not rows.attached:
            rows.begin_attachments()
        if attachment is not None:
            rows.attachments.write(attachment)
        rows.attachment_flags.append(0 if attachment is None else 1)
        write_number(rows.attachment_ends, len(rows.attachments))

    def _add_sample(self, sample: Sample) -> None:
        rows = self._rows
        self.begin()
        self._begin_row(sample.key_text)
        rows.payloads.write(sample.payload.to_bytes())
        write_number(rows.payload_ends, len(rows.payloads))
        rows.kinds.append(1 if sample.kind is SampleKind.DELETE else 0)
        rows.qos.append(sample._qos & 0x7F)
        self._find_encoding(wire_encoding(sample.encoding))
        write_number(rows.encoding_ids, self._encoding_id)
        stamp = wire_stamp(sample.timestamp)
        if stamp is not None:
            time = stamp.time
            self._add_stamp(True, time - (1 << 64) if time >> 63 else time, stamp.id)
        elif rows.stamped:
            self._add_stamp(False, 0, b"")
        source = wire_source(sample.source_info)
        if source is not None:
            self._add_source(True, source.zid, source.eid, source.sn)
        elif rows.sourced:
            self._add_source(False, b"", 0, 0)
        attachment = sample.attachment
        if attachment is not None or rows.attached:
            self._add_attachment(None if attachment is None else attachment.to_bytes())
        self._end_row()


def number(known: dict[str, int], text: str) -> i64:
    """The number of a text, given when it is first seen."""
    found = known.get(text)
    if found is None:
        found = len(known)
        known[text] = found
    return found


def number_of_octets(known: dict[bytes, int], octets: bytes) -> i64:
    """The same for octets."""
    found = known.get(octets)
    if found is None:
        found = len(known)
        known[octets] = found
    return found


def write_number(writer: BytesWriter, value: int) -> None:
    """Write 32 bits."""
    write_i32_le(writer, value)
