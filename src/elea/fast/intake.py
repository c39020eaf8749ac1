"""Intake: the octets of one link of a neighbour, without an interpreted step for samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.errors import DecodeError, RemoteProtocolError
from elea.fast.egress import Egress
from elea.fast.sink import ALL, FaceSink
from elea.transport.events import Events
from elea.transport.unicast import Transport
from elea.wire.framing import StreamDecoder

MORE: Final = -1


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

    def receive(self, data: bytes, now_ns: int, turn_count: int = ALL) -> int:
        """Octets arrived; how many it would be best to read next, 0 for any number.

        MORE: after `turn_count` messages there are others. Call it with nothing before octets that
        come later, when others have had their turn.
        """
        sink = self.sink
        sink.left = turn_count
        sink.now.ns = now_ns
        self._egress.source_link_id = self._link_id
        stream = self._stream
        try:
            if self._transport.behind:
                self._settle(self._transport.resume(self._link_id, now_ns, sink), now_ns)
            if stream is None:
                if data:
                    self._batch(data, 0, len(data), now_ns)
            else:
                stream.feed(data)
                while not self.closed and not self._transport.behind and stream.next_window():
                    self._batch(stream.data, stream.start, stream.stop, now_ns)
            if self._transport.behind and not self.closed:
                return MORE
            return 0 if stream is None else stream.wanted_len
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
        self._settle(events, now_ns)

    def _settle(self, events: Events, now_ns: int) -> None:
        if events:
            self.sink.general = True
            self._on_events(events, now_ns)
