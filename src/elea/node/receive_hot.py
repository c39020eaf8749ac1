"""FaceSink: the network messages of one neighbour, from the octets of a frame into routing.

Most of what arrives are samples for sessions of this node. Those are read here, in place, and
handed over without a message being made of them. Whatever is not quite so plain (another message,
an extension that is rare, a sample that goes on to other nodes, octets that are wrong) is left to
the general way, which starts again at its first octet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elea.node.egress_hot import Egress, Guard, RawSink
from elea.routing.core import Routing
from elea.routing.pubsub_hot import PushSource
from elea.transport.reassembly import Piece
from elea.wire.buffer_hot import Reader
from elea.wire.codec_hot import NetworkMessage, decode_network
from elea.wire.network.push_hot import Push
from elea.wire.plain_hot import PlainPush

if TYPE_CHECKING:
    from mypy_extensions import i64

_NETWORK_ID_MIN: Final = 0x19
_ID_MASK: Final = 0x1F
_NO_ALIAS: Final = -1
_HEAD_LEN_MAX: Final = 1_024  # a sample in fragments is plain if its payload begins within
_TEXTS_COUNT_MAX: Final = 4_096  # keys written out in full that are remembered, per neighbour


class FaceSink:
    """Takes the frames of one transport; `now_ns` is set before each batch.

    Args:
        routing: Where messages go.
        face_id: Whose they are.
        egress: The output of routing; None if that is something else, which must see every message.
    """

    __slots__ = (
        "_alias",
        "_egress",
        "_key",
        "_plain",
        "_push",
        "_sinks",
        "_source",
        "_texts",
        "_touched",
        "face_id",
        "general",
        "guard",
        "now_ns",
        "received",
        "routing",
        "served",
    )

    def __init__(self, routing: Routing, face_id: int, egress: Egress | None = None) -> None:
        self.routing = routing
        self._push = routing.receive_push  # compiled: samples take no interpreted step
        self._egress = egress
        self.face_id = face_id
        self.guard: Guard | None = None  # of what comes in
        self.now_ns = 0
        self.received = 0
        self.general = False  # something else came than samples for sessions
        self.served: list[RawSink] = []  # the sessions that got samples
        self._texts: dict[bytes, str] = {}
        self._plain = PlainPush()
        # Where the last sample went, until something else than a sample comes.
        self._source: PushSource | None = None
        self._alias: i64 = _NO_ALIAS
        self._key = ""
        self._sinks: list[RawSink] = []
        self._touched: list[RawSink] = []

    def begin(self) -> None:
        """Octets arrived: forget what came of those before."""
        self.general = False
        if self.served:
            self.served = []

    def frame(self, reader: Reader, priority: int, reliable: bool) -> None:
        """Read network messages until the end, or the first octet that is none."""
        self._alias = _NO_ALIAS
        self._source = None
        if self._egress is not None and self.guard is None:
            self._source = self.routing.push_source(self.face_id)
        try:
            self._messages(reader, reliable)
        finally:
            self._end_frame()

    def message(self, reader: Reader, priority: int, reliable: bool) -> None:
        """Read exactly one message, as reassembled from fragments."""
        self.received += 1
        self.general = True
        message: NetworkMessage | None = decode_network(reader)
        guard = self.guard
        if guard is not None and message is not None:
            message = guard.check(message, reliable)
        if message is not None:
            self.routing.receive(self.face_id, message, reliable, self.now_ns)

    def pieces(self, pieces: list[Piece]) -> bool:
        """Take a plain sample that came in fragments: its payload is copied once, into one."""
        if self._egress is None or self.guard is not None:
            return False
        source = self._source = self.routing.push_source(self.face_id)
        plain = self._plain
        first = pieces[0]
        head = bytes(first[:_HEAD_LEN_MAX])
        length = 0
        for piece in pieces:
            length += len(piece)
        after: int = plain.read_head(head, 0, len(head))
        if source is None or after != length or plain.attachment_start >= 0:
            return False
        self._alias = _NO_ALIAS
        if plain.suffix_start == plain.suffix_stop:
            found = self._find_alias(_NO_ALIAS)
        else:
            found = self._find_text()
        if found:
            rest: list[Piece] = [memoryview(first)[plain.payload_start :]]
            rest.extend(pieces[1:])
            plain.data = b"".join(rest)
            plain.payload_start = 0
            plain.payload_stop = len(plain.data)
            for sink in self._sinks:
                sink.raw(self._key, plain)
            self.received += 1
        self._end_frame()
        return found

    def _messages(self, reader: Reader, reliable: bool) -> None:
        face_id = self.face_id
        now_ns = self.now_ns
        while True:
            if self._source is not None and self._samples(reader):
                return
            octet = reader.peek()
            if octet < 0 or octet & _ID_MASK < _NETWORK_ID_MIN:
                return
            self.received += 1
            self.general = True
            message = decode_network(reader)
            guard = self.guard
            if guard is not None:
                passed = guard.check(message, reliable)
                if passed is None:
                    continue
                message = passed
            if isinstance(message, Push):
                self._push(face_id, message, reliable, now_ns)
            else:
                self._alias = _NO_ALIAS  # tables may change
                self.routing.receive(face_id, message, reliable, now_ns)

    def _samples(self, reader: Reader) -> bool:
        """Hand over plain samples until something else comes; whether all was read."""
        data = reader.data
        end: i64 = reader.end
        pos: i64 = reader.pos
        plain = self._plain
        count: i64 = 0
        while pos < end:
            after: i64 = plain.read(data, pos, end)
            if after < 0:
                break
            alias: i64 = plain.scope << 1 | (1 if plain.sender else 0)
            if plain.suffix_start == plain.suffix_stop:
                if alias != self._alias and not self._find_alias(alias):
                    break
            elif not self._find_text():
                break
            for sink in self._sinks:
                sink.raw(self._key, plain)
            count += 1
            pos = after
        reader.pos = pos
        self.received += count
        return pos >= end

    def _end_frame(self) -> None:
        if self._touched:
            for sink in self._touched:
                sink.end_frame()
            self._touched = []

    def _find_alias(self, alias: i64) -> bool:
        plain = self._plain
        source = self._source
        assert source is not None
        key = (source.peer if plain.sender else source.own).get(plain.scope)
        if key is None or not self._find(source, key):
            return False
        self._alias = alias
        return True

    def _find_text(self) -> bool:
        plain = self._plain
        source = self._source
        assert source is not None
        suffix = plain.suffix()
        text = self._texts.get(suffix)
        if text is None:
            text = suffix.decode("utf-8", "replace")  # a key that is no UTF-8 has no route
            if len(self._texts) >= _TEXTS_COUNT_MAX:
                self._texts.clear()
            self._texts[suffix] = text
        self._alias = _NO_ALIAS
        if plain.scope == 0:
            return self._find(source, text)
        head = (source.peer if plain.sender else source.own).get(plain.scope)
        return head is not None and self._find(source, head + text)

    def _find(self, source: PushSource, key: str) -> bool:
        """Look up which sessions take a key; False: others do too, or nobody knows yet."""
        route = source.cache.samples.get(key)
        if route is None:
            return False
        egress = self._egress
        assert egress is not None
        sinks: list[RawSink] = []
        for destination in route:
            if destination.face_id == source.face_id:
                continue
            outlet = egress.outlets.get(destination.face_id)
            if outlet is None or outlet.raw is None:
                return False
            sinks.append(outlet.raw)
        if not sinks:
            return False
        for sink in sinks:
            if sink not in self._touched:
                self._touched.append(sink)
                sink.begin_frame()
                if sink not in self.served:
                    self.served.append(sink)
        self._sinks = sinks
        self._key = key
        return True
