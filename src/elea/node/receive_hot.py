"""FaceSink: the network messages of one neighbour, from the octets of a frame into routing."""

from __future__ import annotations

from typing import Final

from elea.routing.core import Routing
from elea.wire.buffer_hot import Reader
from elea.wire.codec_hot import decode_network
from elea.wire.network.push_hot import Push

_NETWORK_ID_MIN: Final = 0x19
_ID_MASK: Final = 0x1F


class FaceSink:
    """Takes the frames of one transport; `now_ns` is set before each batch."""

    __slots__ = ("_push", "face_id", "now_ns", "received", "routing")

    def __init__(self, routing: Routing, face_id: int) -> None:
        self.routing = routing
        self._push = routing.receive_push  # compiled: samples take no interpreted step
        self.face_id = face_id
        self.now_ns = 0
        self.received = 0

    def frame(self, reader: Reader, priority: int, reliable: bool) -> None:
        """Read network messages until the end, or the first octet that is none."""
        face_id = self.face_id
        now_ns = self.now_ns
        while True:
            octet = reader.peek()
            if octet < 0 or octet & _ID_MASK < _NETWORK_ID_MIN:
                return
            self.received += 1
            message = decode_network(reader)
            if isinstance(message, Push):
                self._push(face_id, message, reliable, now_ns)
            else:
                self.routing.receive(face_id, message, reliable, now_ns)

    def message(self, reader: Reader, priority: int, reliable: bool) -> None:
        """Read exactly one message, as reassembled from fragments."""
        self.received += 1
        self.routing.receive(self.face_id, decode_network(reader), reliable, self.now_ns)
