"""FaceSink: the network messages of one neighbour, from the octets of a frame into routing."""

from __future__ import annotations

from typing import Final

from elea.routing.core import Routing
from elea.wire.buffer_hot import Reader
from elea.wire.codec_hot import decode_network

_NETWORK_ID_MIN: Final = 0x19
_ID_MASK: Final = 0x1F


class FaceSink:
    """Takes the frames of one transport; `now_ns` is set before each batch."""

    __slots__ = ("face_id", "now_ns", "received", "routing")

    def __init__(self, routing: Routing, face_id: int) -> None:
        self.routing = routing
        self.face_id = face_id
        self.now_ns = 0
        self.received = 0

    def frame(self, reader: Reader, priority: int, reliable: bool) -> None:
        """Read network messages until the end, or the first octet that is none."""
        routing = self.routing
        face_id = self.face_id
        now_ns = self.now_ns
        while reader.peek() & _ID_MASK >= _NETWORK_ID_MIN:
            if reader.peek() < 0:
                return
            self.received += 1
            routing.receive(face_id, decode_network(reader), reliable, now_ns)

    def message(self, reader: Reader, priority: int, reliable: bool) -> None:
        """Read exactly one message, as reassembled from fragments."""
        self.received += 1
        self.routing.receive(self.face_id, decode_network(reader), reliable, self.now_ns)
