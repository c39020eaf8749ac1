"""A PUSH of a PUT, read in place: no object is made of it. wire.md 7.1, 8.1.

What reads samples by the million uses one `PlainPush` for all of them. It reads what nearly every
sample looks like: any key, QoS, the router it entered at, any timestamp, an encoding, who published
it, an attachment, a payload in the batch. Of anything else, and of octets that are wrong, it says
that they are not plain; `push.decode` then reads them from the start, and knows what to say of
them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elea.hints import mypyc_attr
from elea.wire.fields import QOS_DEFAULT, Stamp, WireEncoding
from elea.wire.shared_extensions import SourceRef

if TYPE_CHECKING:
    from mypy_extensions import i64

NOT_PLAIN: Final = -1

_ID_MASK: Final = 0x1F
_PUSH: Final = 0x1D
_PUT: Final = 0x01
_FLAG_N: Final = 0x20
_FLAG_M: Final = 0x40
_FLAG_T: Final = 0x20
_FLAG_E: Final = 0x40
_FLAG_Z: Final = 0x80
_QOS: Final = 0x21
_NODE_ID: Final = 0x33
_SOURCE_INFO: Final = 0x41
_ATTACHMENT: Final = 0x43
_HEAD_LEN: Final = 4  # of the shortest message: two headers, no alias, no payload
_TIME_LEN_MAX: Final = 9
_SOURCE_LEN_MIN: Final = 2 + 1 + 1 + 1 + 1
_TIME_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_SCHEMAS_COUNT_MAX: Final = 256
_ENCODINGS: Final = [WireEncoding(number) for number in range(64)]


@mypyc_attr(acyclic=True)
class PlainStamp:
    """A timestamp whose 64 bits are made an integer, which is large, if somebody asks for it."""

    __slots__ = ("_time", "id")

    def __init__(self, time: i64, id: bytes) -> None:
        self._time = time
        self.id = id

    @property
    def time(self) -> int:
        wide: int = self._time  # widened first: a mask of 64 bits is no machine integer
        return wide & _TIME_MASK


class PlainPush:
    """The sample that was read last. Payload and attachment are positions in `data`.

    `time` is 64 bits as a signed number: from 2038 on it is negative. From `start` to `suffix_stop`
    stand its header and its key, an alias and a text. From `body_start` on stands the PUT, whose
    first octet is `body_header`; from `rest_start` on what follows its timestamp.
    """

    __slots__ = (
        "_after",
        "_schemas",
        "attachment_start",
        "attachment_stop",
        "body_header",
        "body_start",
        "clock",
        "data",
        "eid",
        "encoding",
        "node_id",
        "payload_start",
        "payload_stop",
        "qos",
        "rest_start",
        "scope",
        "sender",
        "sn",
        "sourced",
        "stamped",
        "start",
        "suffix_start",
        "suffix_stop",
        "time",
        "zid",
    )

    def __init__(self) -> None:
        self.data = b""
        self.start: i64 = 0
        self.scope: i64 = 0
        self.sender = False
        self.suffix_start: i64 = 0
        self.suffix_stop: i64 = 0
        self.qos: i64 = QOS_DEFAULT
        self.node_id: i64 = 0
        self.body_header: i64 = 0
        self.body_start: i64 = 0
        self.rest_start: i64 = 0
        self.stamped = False
        self.time: i64 = 0
        self.clock = b""
        self.encoding: WireEncoding | None = None
        self.sourced = False
        self.zid = b""
        self.eid: i64 = 0
        self.sn: i64 = 0
        self.attachment_start: i64 = -1
        self.attachment_stop: i64 = -1
        self.payload_start: i64 = 0
        self.payload_stop: i64 = 0
        self._after: i64 = 0
        self._schemas: dict[bytes, WireEncoding] = {}

    def read(self, data: bytes, pos: i64, end: i64) -> i64:
        """Read the message at `pos`; where the next one begins, or NOT_PLAIN."""
        after: i64 = self.read_head(data, pos, end)
        return after if after <= end else NOT_PLAIN

    def read_head(self, data: bytes, pos: i64, end: i64) -> i64:
        """As `read`, for a message that may end after `end`, somewhere in its payload."""
        if pos + _HEAD_LEN > end:
            return NOT_PLAIN
        header: i64 = data[pos]
        if header & _ID_MASK != _PUSH:
            return NOT_PLAIN
        self.data = data
        self.start = pos
        at: i64 = self._read_key(data, pos + 1, end, header)
        self.qos = QOS_DEFAULT
        self.node_id = 0
        if header & _FLAG_Z and at >= 0:
            at = self._read_qualities(data, at, end)
        if at < 0 or at + 2 > end:
            return NOT_PLAIN
        header = data[at]
        self.body_header = header
        self.body_start = at
        at += 1
        if header & _ID_MASK != _PUT:
            return NOT_PLAIN
        if header & _FLAG_T:
            at = self._read_stamp(data, at, end)
        else:
            self.stamped = False
        self.rest_start = at
        self.encoding = None
        if header & _FLAG_E and at >= 0:
            at = self._read_encoding(data, at, end)
        self.sourced = False
        self.attachment_start = -1
        if header & _FLAG_Z and at >= 0:
            at = self._read_extensions(data, at, end)
        if at < 0:
            return NOT_PLAIN
        length: i64 = self._read_length(data, at, end)
        if length < 0:
            return NOT_PLAIN
        self.payload_start = self._after
        self.payload_stop = self._after + length
        return self.payload_stop

    def restamp(self, time: i64, clock: bytes) -> None:
        """Give it another timestamp. What stands in `data` stays as it is."""
        self.stamped = True
        self.time = time
        self.clock = clock

    def suffix(self) -> bytes:
        """The text of the key, as it stands in the message."""
        return self.data[self.suffix_start : self.suffix_stop]

    def payload(self) -> bytes:
        """The payload, copied out of the batch."""
        return self.data[self.payload_start : self.payload_stop]

    def attachment(self) -> bytes | None:
        """The attachment, copied out of the batch."""
        if self.attachment_start < 0:
            return None
        return self.data[self.attachment_start : self.attachment_stop]

    def stamp(self) -> Stamp | None:
        """The timestamp."""
        if not self.stamped:
            return None
        wide: int = self.time  # widened first: a mask of 64 bits is no machine integer
        return Stamp(wide & _TIME_MASK, self.clock)

    def lazy_stamp(self) -> PlainStamp | None:
        """The timestamp, for whom it is of no interest most of the time."""
        return PlainStamp(self.time, self.clock) if self.stamped else None

    def source(self) -> SourceRef | None:
        """Who published it."""
        return SourceRef(self.zid, self.eid, self.sn) if self.sourced else None

    def _read_key(self, data: bytes, at: i64, end: i64, header: i64) -> i64:
        scope: i64 = data[at]
        at += 1
        if scope >= 0x80:
            high: i64 = data[at]
            if high >= 0x80:
                return NOT_PLAIN
            scope = scope & 0x7F | high << 7
            at += 1
        self.scope = scope
        self.sender = header & _FLAG_M != 0
        self.suffix_start = at
        self.suffix_stop = at
        if header & _FLAG_N:
            length: i64 = self._read_length(data, at, end)
            at = self._after
            if length < 0 or length > end - at:
                return NOT_PLAIN
            self.suffix_start = at
            self.suffix_stop = at + length
            at += length
        return at

    def _read_qualities(self, data: bytes, at: i64, end: i64) -> i64:
        """QoS, the router where it entered the network, or both in this order."""
        if at + 4 > end:
            return NOT_PLAIN
        header: i64 = data[at]
        if header & 0x7F == _QOS:
            self.qos = data[at + 1]
            if self.qos >= 0x80:
                return NOT_PLAIN
            at += 2
            if header == _QOS:
                return at
            header = data[at]
        self.node_id = data[at + 1]
        if header != _NODE_ID or self.node_id >= 0x80:
            return NOT_PLAIN
        return at + 2

    def _read_stamp(self, data: bytes, at: i64, end: i64) -> i64:
        if at + _TIME_LEN_MAX + 1 > end:
            return NOT_PLAIN
        time: i64 = 0
        shift: i64 = 0
        octet: i64 = data[at]
        while octet >= 0x80 and shift < 56:
            time |= (octet & 0x7F) << shift
            shift += 7
            at += 1
            octet = data[at]
        # The ninth octet has no continuation bit: all of it is value (wire.md 2.2).
        if shift == 56 and octet >= 0x80:
            octet -= 0x100
        self.time = time | octet << shift
        length: i64 = data[at + 1]
        at += 2
        if length > 16 or at + length > end:
            return NOT_PLAIN
        clock = data[at : at + length]
        if clock != self.clock:
            if clock.count(0) == length:
                return NOT_PLAIN  # none, or all zero
            self.clock = clock
        self.stamped = True
        return at + length

    def _read_encoding(self, data: bytes, at: i64, end: i64) -> i64:
        if at + 2 > end:
            return NOT_PLAIN
        number: i64 = data[at]
        if number >= 0x80:
            return NOT_PLAIN
        at += 1
        if not number & 1:
            self.encoding = _ENCODINGS[number >> 1]
            return at
        length: i64 = data[at]
        if length >= 0x80 or at + 1 + length > end:
            return NOT_PLAIN
        written = data[at - 1 : at + 1 + length]
        encoding = self._schemas.get(written)
        if encoding is None:
            if len(self._schemas) >= _SCHEMAS_COUNT_MAX:
                self._schemas.clear()
            encoding = WireEncoding(number >> 1, written[2:])
            self._schemas[written] = encoding
        self.encoding = encoding
        return at + 1 + length

    def _read_extensions(self, data: bytes, at: i64, end: i64) -> i64:
        """SourceInfo, an attachment, or both in this order."""
        if at + 2 > end:
            return NOT_PLAIN
        header: i64 = data[at]
        if header & 0x7F == _SOURCE_INFO:
            at = self._read_source(data, at + 1, end)
            if at < 0 or header == _SOURCE_INFO:
                return at
            if at + 2 > end:
                return NOT_PLAIN
            header = data[at]
        if header != _ATTACHMENT:
            return NOT_PLAIN
        length: i64 = self._read_length(data, at + 1, end)
        at = self._after
        if length < 0 or length > end - at:
            return NOT_PLAIN
        self.attachment_start = at
        self.attachment_stop = at + length
        return at + length

    def _read_source(self, data: bytes, at: i64, end: i64) -> i64:
        if at + _SOURCE_LEN_MIN > end:
            return NOT_PLAIN
        stop: i64 = at + 1 + data[at]
        zid_len: i64 = (data[at + 1] >> 4) + 1
        if data[at] >= 0x80 or data[at + 1] & 0x0F or stop > end:
            return NOT_PLAIN
        at += 2
        zid = data[at : at + zid_len]
        if zid != self.zid:
            if zid.count(0) == zid_len:
                return NOT_PLAIN
            self.zid = zid
        self.eid = self._read_length(data, at + zid_len, end)
        if self.eid < 0:
            return NOT_PLAIN
        self.sn = self._read_length(data, self._after, end)
        if self.sn < 0 or self._after != stop:
            return NOT_PLAIN
        self.sourced = True
        return stop

    def _read_length(self, data: bytes, at: i64, end: i64) -> i64:
        """An integer below 2^32; -1 if there is none. `_after` is where it ends."""
        value: i64 = 0
        shift: i64 = 0
        while at < end and shift <= 28:
            octet: i64 = data[at]
            at += 1
            value |= (octet & 0x7F) << shift
            if octet < 0x80:
                self._after = at
                return value if value <= 0xFFFFFFFF else -1
            shift += 7
        return -1
