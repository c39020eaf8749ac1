"""One batch of an established conversation, message by message. behaviour.md 2.8.

FRAMEs go to the sink, straight from the batch; FRAGMENTs through reassembly. INIT, OPEN, JOIN, OAM
and KEEP_ALIVE mean nothing here: that something arrived has renewed the lease. CLOSE ends all.
"""

from __future__ import annotations

from typing import Final

from elea.errors import DecodeError, RemoteProtocolError
from elea.limits import Limits
from elea.transport.events import FrameSink
from elea.transport.reassembly import Reassembly
from elea.transport.sequence import PRIORITY_DEFAULT, Received
from elea.transport.stats import TransportStats
from elea.wire.buffer import Piece, Reader
from elea.wire.codec import NETWORK_ID_MIN, decode_network, decode_transport
from elea.wire.dialect import Dialect
from elea.wire.fields import FLAG_Z
from elea.wire.transport.close import Close
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import decode as decode_frame
from elea.wire.transport.init import Init
from elea.wire.transport.open import Open

_ID_MASK: Final = 0x1F
_FRAME: Final = 0x05
_FRAGMENT: Final = 0x06
_FLAG_R: Final = 0x20
_RESERVED: Final = 0x40
_MORE: Final = 0x40


class Reception:
    """What is known of one sender: its sequence numbers and its unfinished messages."""

    __slots__ = (
        "_bare",
        "_dialect",
        "_limits",
        "_qos",
        "_rest",
        "_rest_priority",
        "_rest_reliable",
        "_stats",
        "behind",
        "numbers",
        "reassembly",
    )

    def __init__(
        self,
        *,
        numbers: Received,
        reassembly: Reassembly,
        qos: bool,
        bare: bool,
        limits: Limits,
        stats: TransportStats,
        dialect: Dialect = Dialect.ECLIPSE,
    ) -> None:
        self.numbers = numbers
        self.reassembly = reassembly
        self._qos = qos
        self._bare = bare
        self._limits = limits
        self._stats = stats
        self._dialect = dialect
        self.behind = False  # a batch was read in part: `resume`, before the next one
        self._rest: Reader | None = None
        self._rest_priority = PRIORITY_DEFAULT
        self._rest_reliable = True

    def batch(
        self, data: bytes, sink: FrameSink, now_ns: int, start: int = 0, stop: int = -1
    ) -> Close | None:
        """Take one batch, `data[start:stop]`; the CLOSE in it, if there is one.

        Raises:
            DecodeError: if the octets are no batch.
            RemoteProtocolError: if they are one that must not be sent here.
        """
        return self._read(Reader(data, start, stop, self._limits, self._dialect), sink, now_ns)

    def resume(self, sink: FrameSink, now_ns: int) -> Close | None:
        """Go on with a batch of which the sink did not take everything; as `batch`."""
        reader = self._rest
        assert reader is not None  # what `behind` says
        self._rest = None
        self.behind = False
        if not self._hand_over(reader, sink, self._rest_priority, self._rest_reliable):
            return None
        return self._read(reader, sink, now_ns)

    def _read(self, reader: Reader, sink: FrameSink, now_ns: int) -> Close | None:
        while True:
            octet = reader.peek()
            if octet < 0:
                return None
            kind = octet & _ID_MASK
            if kind == _FRAME:
                if not self._frame(reader, sink):
                    return None
            elif kind == _FRAGMENT and not octet & FLAG_Z:
                self._plain_fragment(reader, sink, now_ns)
                return None
            elif kind >= NETWORK_ID_MIN:
                if not self._bare:
                    raise reader.error(f"network message 0x{kind:02x} outside a FRAME")
                if not self._hand_over(reader, sink, PRIORITY_DEFAULT, True):
                    return None
                self._check_progress(reader, kind)
            else:
                message = decode_transport(reader)
                if isinstance(message, Close):
                    return message
                if isinstance(message, Fragment):
                    self._fragment(message, sink, now_ns)
                elif isinstance(message, (Init, Open)):
                    return None  # what follows one of these in a batch means nothing

    def _hand_over(self, reader: Reader, sink: FrameSink, priority: int, reliable: bool) -> bool:
        """Let the sink read messages; whether it took all there are."""
        if sink.frame(reader, priority, reliable):
            return True
        self.behind = True
        self._rest = reader
        self._rest_priority = priority
        self._rest_reliable = reliable
        return False

    def _frame(self, reader: Reader, sink: FrameSink) -> bool:
        header = reader.u8("header")
        if header & (FLAG_Z | _RESERVED):
            frame = decode_frame(reader, header)
            sn = frame.sn
            priority = frame.priority
        else:
            sn = reader.z64("sn")
            priority = PRIORITY_DEFAULT
        reliable = header & _FLAG_R != 0
        self._check(sn, priority, "FRAME")
        if self.numbers.accept(priority, reliable, sn):
            self._stats.received_frames += 1
            return self._hand_over(reader, sink, priority, reliable)
        self._stats.stale_frames += 1
        # Its messages are read to find where it ends, and mean nothing.
        while reader.peek() & _ID_MASK >= NETWORK_ID_MIN and reader.remaining() > 0:
            decode_network(reader)
        return True

    def _plain_fragment(self, reader: Reader, sink: FrameSink, now_ns: int) -> None:
        """A FRAGMENT without extensions: all but the first, at the default priority."""
        header = reader.u8("header")
        sn = reader.z64("sn")
        reliable = header & _FLAG_R != 0
        self._check(sn, PRIORITY_DEFAULT, "FRAGMENT")
        if not self.numbers.accept(PRIORITY_DEFAULT, reliable, sn):
            self._stats.stale_frames += 1
            return
        payload: bytes | memoryview
        if 8 * reader.remaining() >= 7 * len(reader.data):
            # Copied once, when the message is whole; the view keeps little else alive.
            payload = memoryview(reader.data)[reader.pos : reader.end]
        else:
            payload = reader.rest("fragment")
        whole = self.reassembly.add_piece(
            PRIORITY_DEFAULT, reliable, sn, payload, now_ns, more=header & _MORE != 0
        )
        if whole is not None:
            self._whole(whole, PRIORITY_DEFAULT, reliable, sink)

    def _fragment(self, fragment: Fragment, sink: FrameSink, now_ns: int) -> None:
        self._check(fragment.sn, fragment.priority, "FRAGMENT")
        if not self.numbers.accept(fragment.priority, fragment.reliable, fragment.sn):
            self._stats.stale_frames += 1
            return
        whole = self.reassembly.add(fragment, now_ns)
        if whole is not None:
            self._whole(whole, fragment.priority, fragment.reliable, sink)

    def _whole(self, pieces: list[Piece], priority: int, reliable: bool, sink: FrameSink) -> None:
        """Hand over a message that is complete."""
        try:
            if sink.pieces(pieces, reliable):
                return
            reader = Reader.of_pieces(pieces, self._limits, self._dialect)
            sink.message(reader, priority, reliable)
        except DecodeError:
            # It costs the peer this message only (wire.md 3.6).
            self._stats.undecodable_messages += 1

    def _check(self, sn: int, priority: int, what: str) -> None:
        if self._bare:
            raise RemoteProtocolError(f"a {what} on a low-latency transport")
        if sn > self.numbers.mask:
            raise RemoteProtocolError(
                f"{what} {sn} is above {self.numbers.mask}, the largest sequence number"
            )
        if priority != PRIORITY_DEFAULT and not self._qos:
            raise RemoteProtocolError(
                f"{what} of priority {priority}, without QoS only {PRIORITY_DEFAULT} is legal"
            )

    def _check_progress(self, reader: Reader, kind: int) -> None:
        if reader.remaining() > 0 and reader.peek() & _ID_MASK >= NETWORK_ID_MIN:
            raise reader.error(f"network message 0x{kind:02x} was not read")
