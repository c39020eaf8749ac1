"""Messages to batches: priorities, express, congestion, bounded queues. behaviour.md 2.1 to 2.7.

A caller's message is encoded straight into the open batch of its priority; nothing is kept as an
object. A batch that is full, or that the link asks for, is joined once, its length in front. A
message longer than a batch is serialised once and cut when the link asks for the pieces, so that
other priorities go in between. Each priority is one Lane with two sequence numbers; without QoS
there is one Lane, without FRAMEs (low latency) there are no numbers.

A Lane that holds more than its bound is congested: droppable messages are dropped and
counted, blocking ones are REFUSED. A message is taken whole or not at all, so a
Lane holds at most that bound and one message.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final

from elea.answers import DROPPED, REFUSED, SENT
from elea.transport.sequence import PRIORITY_DEFAULT
from elea.transport.stats import PRIORITIES_COUNT, TransportStats
from elea.wire.buffer import Writer
from elea.wire.codec import NetworkMessage, encode
from elea.wire.dialect import Dialect
from elea.wire.fields import FLAG_Z, QOS_DECLARE
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest
from elea.wire.network.oam import Oam
from elea.wire.network.push import Push
from elea.wire.network.push import encode as encode_push

if TYPE_CHECKING:
    from mypy_extensions import i64

UNFIT: Final = 4  # not so simple: it was not taken

_FRAME: Final = 0x05
_FRAGMENT: Final = 0x06
_RELIABLE: Final = 0x20
_MORE: Final = 0x40
_QOS_EXTENSION: Final = 0x31
_FIRST_EXTENSION: Final = 0x02

_BLOCK: Final = 0x08
_EXPRESS: Final = 0x10
_BLOCK_FIRST: Final = 0x20

_LENGTH_LEN_MAX: Final = 5  # of a payload's length
_FRAME_LEN_MAX: Final = 12  # header, sequence number, priority
_JOIN_COUNT_MAX: Final = 512  # pieces that are joined at once: that takes 80 octets for each

_NO_CHANNEL: Final = -1  # the open batch has no FRAME yet


class Split:
    """A message that is cut into FRAGMENTs as the link asks for them.

    What stands before a large payload is kept apart from it: a payload is not copied.
    """

    __slots__ = ("first", "head", "length", "payload", "piece_len", "pos", "reliable", "sn")

    def __init__(self, parts: list[bytes], sn: int, reliable: bool, piece_len: int) -> None:
        self.payload = parts.pop() if len(parts[-1]) >= piece_len else b""
        self.head = b"".join(parts)
        self.length: i64 = len(self.head) + len(self.payload)
        self.sn = sn
        self.reliable = reliable
        self.piece_len: i64 = piece_len
        self.pos: i64 = 0
        self.first = True

    def take(self, start: i64, stop: i64) -> list[bytes | memoryview]:
        """These octets of the message."""
        head_len: i64 = len(self.head)
        if start >= head_len:
            return [memoryview(self.payload)[start - head_len : stop - head_len]]
        if stop <= head_len:
            return [self.head[start:stop]]
        return [self.head[start:], memoryview(self.payload)[: stop - head_len]]


class Lane:
    """One priority: its open batch, its finished ones, its two sequence numbers."""

    __slots__ = (
        "channel",
        "link_id",
        "open",
        "priority",
        "queue_len",
        "queued_len",
        "ready",
        "sn_best_effort",
        "sn_reliable",
        "waiting",
    )

    def __init__(self, priority: int, initial_sn: int, opened: Writer, queue_len: int) -> None:
        self.priority = priority
        self.queue_len: i64 = queue_len
        self.sn_reliable = initial_sn
        self.sn_best_effort = initial_sn
        self.open = opened
        self.channel: i64 = _NO_CHANNEL  # of the FRAME under way: 1 reliable, 0 best effort
        self.ready: deque[bytes | Split] = deque()
        self.queued_len: i64 = 0  # octets in `ready`
        self.link_id = -1  # the link that serves it
        self.waiting: object = None  # the one block-first message that may wait


class TxQueues:
    """Everything that waits to be sent to one neighbour or group.

    Args:
        batch_len: The longest batch, its length prefix included.
        prefix_len: Octets in front of a batch: 2, 4 for low latency, 0 on datagrams.
        qos: Whether there are eight priorities.
        mask: The largest sequence number.
        initial_sn: The first one, on every conduit.
        bare: Low latency: messages outside FRAMEs, never fragmented.
        queue_lens: What each priority may hold, in bytes.
        batching: Whether messages share batches.
        stats: Where to count.
        dialect: How messages are written.
    """

    __slots__ = (
        "_bare",
        "_batch_len",
        "_batching",
        "_dialect",
        "_lanes",
        "_mask",
        "_prefix_len",
        "_qos",
        "_sn_len",
        "_stats",
        "_value_len_max",
        "express_pending",
        "queue_len",
    )

    def __init__(
        self,
        *,
        batch_len: int,
        prefix_len: int,
        qos: bool,
        mask: int,
        initial_sn: int,
        bare: bool,
        queue_lens: tuple[int, ...],
        stats: TransportStats,
        batching: bool = True,
        dialect: Dialect = Dialect.ECLIPSE,
    ) -> None:
        self._batch_len: i64 = batch_len
        self._prefix_len: i64 = prefix_len
        # What is certain to fit an empty batch, whatever stands in front.
        self._value_len_max: i64 = batch_len - prefix_len - _FRAME_LEN_MAX
        self._qos = qos
        self._mask = mask
        self._sn_len: i64 = (mask.bit_length() + 6) // 7
        self._bare = bare
        self._batching = batching
        self.queue_len = max(queue_lens) if qos else queue_lens[PRIORITY_DEFAULT]
        self._stats = stats
        self._dialect = dialect
        self.express_pending = False
        self._lanes: list[Lane] = []
        for priority in range(PRIORITIES_COUNT) if qos else (PRIORITY_DEFAULT,):
            lane = Lane(priority, initial_sn, self._blank(), queue_lens[priority])
            self._lanes.append(lane)

    # From the caller.

    def send(self, message: NetworkMessage, reliable: bool) -> int:
        """Take a message: SENT, DROPPED or REFUSED.

        Raises:
            ValueError: if it cannot be encoded; nothing has changed then.
        """
        if isinstance(message, Push):
            qos = message.qos
        elif isinstance(message, (Declare, Interest, Oam)):
            qos = QOS_DECLARE  # losing one would corrupt the neighbour's tables
        else:
            qos = message.qos
        lane = self._lanes[qos & 0x07 if self._qos else 0]
        if lane.queued_len + lane.open.size > lane.queue_len:
            return self._congested(lane, message, qos)
        lane.waiting = None
        return self._place(lane, message, reliable, qos)

    def has_room(self, qos: int) -> bool:
        """Whether `send` would take a message of this quality."""
        lane = self._lanes[qos & 0x07 if self._qos else 0]
        return lane.queued_len + lane.open.size <= lane.queue_len

    def send_value(self, head: bytes, payload: bytes, qos: int, reliable: bool) -> int:
        """Take a PUSH as octets: `head` ends before the length of the payload.

        UNFIT: it was not taken, and `send` knows what to do with it.
        """
        lane = self._lanes[qos & 0x07 if self._qos else 0]
        writer = lane.open
        size: i64 = len(head) + len(payload) + _LENGTH_LEN_MAX
        if lane.queued_len + writer.size > lane.queue_len or size > self._value_len_max:
            return UNFIT
        if writer.size + size + _FRAME_LEN_MAX > self._batch_len:
            self._seal(lane)
            writer = lane.open
        channel: i64 = 1 if reliable else 0
        if lane.channel != channel and not self._bare:
            self._begin_frame(lane, reliable)
            self._count_frame(lane, reliable)
        writer.raw(head)
        writer.block(payload)
        lane.waiting = None
        if qos & _EXPRESS:
            self.express_pending = True
        self._stats.sent_messages += 1
        if not self._batching:
            self._seal(lane)
        return SENT

    def forward(self, head: bytes, stamp: bytes, rest: bytes, qos: int, reliable: bool) -> int:
        """Take a PUSH as octets in three pieces; UNFIT as above."""
        lane = self._lanes[qos & 0x07 if self._qos else 0]
        writer = lane.open
        size: i64 = len(head) + len(stamp) + len(rest)
        if lane.queued_len + writer.size > lane.queue_len or size > self._value_len_max:
            return UNFIT
        if writer.size + size + _FRAME_LEN_MAX > self._batch_len:
            self._seal(lane)
            writer = lane.open
        channel: i64 = 1 if reliable else 0
        if lane.channel != channel and not self._bare:
            self._begin_frame(lane, reliable)
            self._count_frame(lane, reliable)
        parts = writer.parts
        parts.append(head)
        if stamp:
            parts.append(stamp)
        parts.append(rest)
        writer.size += size
        lane.waiting = None
        if qos & _EXPRESS:
            self.express_pending = True
        self._stats.sent_messages += 1
        if not self._batching:
            self._seal(lane)
        return SENT

    # To the link.

    def pull(self, link_id: int) -> bytes | None:
        """The next batch for `link_id`, the most urgent first; length in front."""
        parts: list[bytes | memoryview] = []
        return b"".join(parts) if self.pull_into(link_id, parts) else None

    def pull_into(self, link_id: int, parts: list[bytes | memoryview]) -> bool:
        """As `pull`, into a list of what is to be written; whether there was a batch."""
        for lane in self._lanes:
            if lane.link_id != link_id:
                continue
            length: i64 = self._take(lane, parts)
            if length > 0:
                stats = self._stats
                stats.sent_batches += 1
                stats.sent_octets += length
                if self.express_pending and self.pending_len() == 0:
                    self.express_pending = False
                return True
        return False

    def pending_len(self) -> int:
        """Octets that wait, on all priorities."""
        total: i64 = 0
        for lane in self._lanes:
            total += lane.queued_len
            if lane.open.size > self._prefix_len:
                total += lane.open.size
        return total

    def waits_for(self, link_id: int) -> bool:
        """Whether `pull(link_id)` would give a batch."""
        for lane in self._lanes:
            if lane.link_id == link_id and (
                lane.queued_len > 0 or lane.open.size > self._prefix_len
            ):
                return True
        return False

    # From the transport.

    def priorities(self) -> list[int]:
        """The priorities there are, most urgent first."""
        return [lane.priority for lane in self._lanes]

    def link_of(self, priority: int) -> int:
        """The link that serves a priority."""
        return self._lane(priority).link_id

    def assign(self, priority: int, link_id: int, batch_len: int) -> None:
        """Let `link_id` serve a priority; what waits and is too long for it is dropped."""
        lane = self._lane(priority)
        lane.link_id = link_id
        if lane.queued_len == 0:
            return
        kept: deque[bytes | Split] = deque()
        for item in lane.ready:
            if self._item_len(lane, item) > batch_len:
                self._stats.dropped_link += 1
                lane.queued_len -= _waiting_len(item)
            else:
                kept.append(item)
        lane.ready = kept

    def next_sn(self, priority: int, reliable: bool) -> int:
        """The sequence number that the next FRAME of a conduit will have."""
        lane = self._lane(priority)
        return lane.sn_reliable if reliable else lane.sn_best_effort

    def resize(self, batch_len: int) -> None:
        """Make batches of at most `batch_len` octets from now on."""
        self._batch_len = batch_len
        self._value_len_max = self._batch_len - self._prefix_len - _FRAME_LEN_MAX
        for lane in self._lanes:
            if lane.open.size > self._batch_len:
                self._seal(lane)

    def clear(self) -> None:
        """Forget everything that waits."""
        for lane in self._lanes:
            lane.ready.clear()
            lane.queued_len = 0
            lane.open = self._blank()
            lane.channel = _NO_CHANNEL
        self.express_pending = False

    # Inside.

    def _lane(self, priority: int) -> Lane:
        return self._lanes[priority if self._qos else 0]

    def _blank(self) -> Writer:
        writer = Writer(self._dialect)
        if self._prefix_len > 0:
            writer.raw(bytes(self._prefix_len))  # the length is known when the batch is sealed
        return writer

    def _place(self, lane: Lane, message: NetworkMessage, reliable: bool, qos: int) -> int:
        """Write a message behind what the open batch holds."""
        writer = lane.open
        mark = writer.mark()
        channel: i64 = 1 if reliable else 0
        starts = lane.channel != channel and not self._bare
        if starts:
            self._begin_frame(lane, reliable)
        try:
            if isinstance(message, Push):
                encode_push(writer, message)
            else:
                encode(writer, message)
        except BaseException:
            writer.rollback(mark)
            raise
        if writer.size > self._batch_len:
            writer.rollback(mark)
            return self._overflow(lane, message, reliable, qos)
        if starts:
            self._count_frame(lane, reliable)
        if qos & _EXPRESS:
            self.express_pending = True
        self._stats.sent_messages += 1
        if not self._batching:
            self._seal(lane)
        return SENT

    def _begin_frame(self, lane: Lane, reliable: bool) -> None:
        """Write a FRAME header; the number is taken only once a message stands behind it."""
        writer = lane.open
        header = _FRAME | _RELIABLE if reliable else _FRAME
        sn = lane.sn_reliable if reliable else lane.sn_best_effort
        if lane.priority != PRIORITY_DEFAULT:
            writer.u8(header | FLAG_Z)
            writer.z64(sn)
            writer.u8(_QOS_EXTENSION)
            writer.u8(lane.priority)
        else:
            writer.u8(header)
            writer.z64(sn)

    def _count_frame(self, lane: Lane, reliable: bool) -> None:
        if reliable:
            lane.channel = 1
            lane.sn_reliable = (lane.sn_reliable + 1) & self._mask
        else:
            lane.channel = 0
            lane.sn_best_effort = (lane.sn_best_effort + 1) & self._mask

    def _overflow(self, lane: Lane, message: NetworkMessage, reliable: bool, qos: int) -> int:
        """The message did not fit behind what the open batch holds."""
        if lane.open.size > self._prefix_len:
            self._seal(lane)
            return self._place(lane, message, reliable, qos)
        if self._bare:
            self._stats.dropped_too_long += 1
            return DROPPED
        writer = Writer(self._dialect)
        encode(writer, message)
        self._split(lane, writer.parts, reliable)
        if qos & _EXPRESS:
            self.express_pending = True
        self._stats.sent_messages += 1
        return SENT

    def _split(self, lane: Lane, parts: list[bytes], reliable: bool) -> None:
        piece_len = self._batch_len - self._prefix_len - self._fragment_head_len(lane)
        sn = lane.sn_reliable if reliable else lane.sn_best_effort
        split = Split(parts, sn, reliable, piece_len)
        length: i64 = split.length
        count: int = (length + piece_len - 1) // piece_len
        # Taken now: whatever is sent on this conduit later has a later number.
        if reliable:
            lane.sn_reliable = (sn + count) & self._mask
        else:
            lane.sn_best_effort = (sn + count) & self._mask
        lane.ready.append(split)
        lane.queued_len += length

    def _fragment_head_len(self, lane: Lane) -> i64:
        """Header, the longest sequence number, First, and the priority if it is written."""
        fixed: i64 = 2 if lane.priority == PRIORITY_DEFAULT else 4
        return fixed + self._sn_len

    def _item_len(self, lane: Lane, item: bytes | Split) -> i64:
        """How long a batch of `item` gets."""
        if isinstance(item, Split):
            return item.piece_len + self._prefix_len + self._fragment_head_len(lane)
        return len(item)

    def _congested(self, lane: Lane, message: NetworkMessage, qos: int) -> int:
        if qos & _BLOCK:
            self._stats.blocked += 1
            return REFUSED
        if qos & _BLOCK_FIRST and (lane.waiting is None or lane.waiting is message):
            lane.waiting = message
            self._stats.blocked += 1
            return REFUSED
        self._stats.dropped_congestion[qos & 0x07] += 1
        return DROPPED

    def _seal(self, lane: Lane) -> None:
        """Finish the open batch and begin another."""
        batch = self._finish(lane)
        lane.ready.append(batch)
        lane.queued_len += len(batch)

    def _finish(self, lane: Lane) -> bytes:
        writer = lane.open
        prefix_len = self._prefix_len
        if prefix_len > 0:
            length: int = writer.size - prefix_len
            writer.parts[0] = length.to_bytes(prefix_len, "little")
        lane.open = self._blank()
        lane.channel = _NO_CHANNEL
        parts = writer.parts
        return b"".join(parts) if len(parts) <= _JOIN_COUNT_MAX else writer.to_bytes()

    def _take(self, lane: Lane, parts: list[bytes | memoryview]) -> i64:
        """Add the next batch of a priority to `parts`; its length."""
        if lane.queued_len == 0:
            if lane.open.size <= self._prefix_len:
                return 0
            batch = self._finish(lane)
        else:
            item = lane.ready[0]
            if isinstance(item, Split):
                return self._cut(lane, item, parts)
            lane.ready.popleft()
            lane.queued_len -= len(item)
            batch = item
        parts.append(batch)
        return len(batch)

    def _cut(self, lane: Lane, split: Split, parts: list[bytes | memoryview]) -> i64:
        """The next FRAGMENT of `split`, alone in its batch."""
        start: i64 = split.pos
        stop: i64 = start + split.piece_len
        length: i64 = split.length
        header = _FRAGMENT | _RELIABLE if split.reliable else _FRAGMENT
        if stop < length:
            header |= _MORE
        else:
            stop = length
        marked = lane.priority != PRIORITY_DEFAULT
        head = Writer(self._dialect)
        head.u8(header | FLAG_Z if marked or split.first else header)
        head.z64(split.sn)
        if marked:
            head.u8(_QOS_EXTENSION | FLAG_Z if split.first else _QOS_EXTENSION)
            head.u8(lane.priority)
        if split.first:
            head.u8(_FIRST_EXTENSION)
            split.first = False
        split.sn = (split.sn + 1) & self._mask
        split.pos = stop
        lane.queued_len -= stop - start
        if stop == length:
            lane.ready.popleft()
        batch_len: int = head.size + (stop - start)
        if self._prefix_len > 0:
            parts.append(batch_len.to_bytes(self._prefix_len, "little") + head.to_bytes())
        else:
            parts.append(head.to_bytes())
        parts.extend(split.take(start, stop))
        return self._prefix_len + batch_len


def _waiting_len(item: bytes | Split) -> i64:
    if isinstance(item, Split):
        return item.length - item.pos
    return len(item)
