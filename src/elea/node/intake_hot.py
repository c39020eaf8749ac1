"""Intake: the octets of one link of a neighbour, without an interpreted step for samples."""

from __future__ import annotations

from collections.abc import Callable

from elea.errors import DecodeError, RemoteProtocolError
from elea.node.egress_hot import Egress
from elea.node.receive_hot import FaceSink
from elea.transport.events import Events
from elea.transport.unicast_hot import Transport
from elea.wire.framing_hot import StreamDecoder


class Intake:
    """One link that is part of a transport.

    Args:
        link_id: The link.
        transport: What it is part of.
        sink: Where the neighbour's messages go.
        stream: Cuts its octets into batches; None if it brings batches.
        egress: Where what it brings leaves again; it is told which link that is.
        on_events: Told what the transport noticed, and the time.
        on_error: Told why the link cannot go on, and the time.
    """

    __slots__ = (
        "_egress",
        "_link_id",
        "_on_error",
        "_on_events",
        "_stream",
        "_transport",
        "closed",
        "sink",
    )

    def __init__(
        self,
        link_id: int,
        transport: Transport,
        sink: FaceSink,
        stream: StreamDecoder | None,
        egress: Egress,
        on_events: Callable[[Events, int], None],
        on_error: Callable[[Exception, int], None],
    ) -> None:
        self._link_id = link_id
        self._transport = transport
        self.sink = sink
        self._stream = stream
        self._egress = egress
        self._on_events = on_events
        self._on_error = on_error
        self.closed = False  # what comes from now on means nothing

    def receive(self, data: bytes, now_ns: int) -> int:
        """Octets arrived; how many it would be best to read next, 0 for any number."""
        sink = self.sink
        sink.now_ns = now_ns
        self._egress.source_link_id = self._link_id
        self._egress.now_ns = now_ns
        stream = self._stream
        try:
            if stream is None:
                self._batch(data, 0, len(data), now_ns)
                return 0
            stream.feed(data)
            while not self.closed and stream.next_window():
                self._batch(stream.data, stream.start, stream.stop, now_ns)
            return stream.wanted_len
        except (DecodeError, RemoteProtocolError) as error:
            sink.general = True
            self._on_error(error, now_ns)
        finally:
            self._egress.source_link_id = -1
        return 0

    def _batch(self, data: bytes, start: int, stop: int, now_ns: int) -> None:
        if self.closed:
            return
        sink = self.sink
        events = self._transport.receive_batch(self._link_id, data, now_ns, sink, start, stop)
        if events:
            sink.general = True
            self._on_events(events, now_ns)
