"""Zenoh conversations in a capture: TCP streams cut into batches, datagrams told apart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from elea.cli.pcap import Address, Segment, TcpStream, segments
from elea.errors import DecodeError, EleaError
from elea.wire.framing import StreamDecoder

if TYPE_CHECKING:
    from elea.wire.conversation import Conversation, Direction, Seen
    from elea.wire.dialect import Dialect
    from elea.wire.trace import Trace

SCOUTING_PORT: Final = 7446
CONNECTIONS_MAX: Final = 4_096  # followed at once; the oldest is forgotten first


@dataclass(slots=True)
class Record:
    """One batch of a capture; `error` instead of `seen` if it could not be decoded."""

    conn: str
    direction: Direction
    sequence: int
    time: float
    framing: str
    source: Address
    target: Address
    batch: bytes
    seen: Seen | None
    error: EleaError | None
    trace: Trace


@dataclass(slots=True)
class _Side:
    stream: TcpStream = field(default_factory=TcpStream)
    batches: StreamDecoder = field(default_factory=StreamDecoder)
    count: int = 0
    broken: bool = False


@dataclass(slots=True)
class _Connection:
    name: str
    initiator: Address
    talk: Conversation
    sides: dict[Direction, _Side]


class Capture:
    """Follows every Zenoh conversation of one capture file.

    `problems` tells, when done, what could not be followed: holes, and streams cut short.
    """

    def __init__(self, ports: frozenset[int], dialect: Dialect) -> None:
        self.problems: list[str] = []
        self._ports = ports
        self._dialect = dialect
        self._connections: dict[tuple[Address, Address, bool], _Connection] = {}
        self._scouts: dict[Address, None] = {}
        self._opened = 0

    def records(self, data: bytes) -> Iterator[Record]:
        """The batches of the capture file `data`, in the order their last octet was seen.

        Raises:
            CaptureError: if the file is no capture, or ends inside a packet.
        """
        for segment in segments(data):
            if segment.tcp:
                if not self._ports.isdisjoint((segment.source.port, segment.target.port)):
                    yield from self._tcp(segment)
            elif segment.payload:
                yield from self._udp(segment)
        for connection in self._connections.values():
            self._finish(connection)

    def _tcp(self, segment: Segment) -> Iterator[Record]:
        connection = self._connection(segment, renew=segment.syn and not segment.ack)
        direction = self._direction(connection, segment)
        side = connection.sides[direction]
        data = side.stream.accept(segment)
        if side.broken or not data:
            return
        side.batches.feed(data)
        while not side.broken:
            side.batches.low_latency = connection.talk.low_latency(direction)
            framing = "u32" if side.batches.low_latency else "u16"
            try:
                batch = side.batches.next_batch()
            except DecodeError as error:
                side.broken = True
                yield self._record(connection, direction, segment, framing, b"", error)
                return
            if batch is None:
                return
            yield self._record(connection, direction, segment, framing, batch)

    def _udp(self, segment: Segment) -> Iterator[Record]:
        if segment.target.port == SCOUTING_PORT:
            self._scouts[segment.source] = None
            if len(self._scouts) > CONNECTIONS_MAX:
                self._scouts.pop(next(iter(self._scouts)))
        elif segment.target not in self._scouts and self._ports.isdisjoint(
            (segment.source.port, segment.target.port)
        ):
            return
        scouting = segment.target.port == SCOUTING_PORT or segment.target in self._scouts
        connection = self._connection(segment)
        direction = self._direction(connection, segment)
        framing = "scouting" if scouting else "datagram"
        yield self._record(connection, direction, segment, framing, segment.payload)

    def _record(
        self,
        connection: _Connection,
        direction: Direction,
        segment: Segment,
        framing: str,
        batch: bytes,
        error: EleaError | None = None,
    ) -> Record:
        from elea.wire.trace import Trace

        side = connection.sides[direction]
        trace = Trace()
        seen: Seen | None = None
        if error is None:
            try:
                if framing == "scouting":
                    seen = connection.talk.scouting(batch, trace=trace)
                else:
                    seen = connection.talk.batch(batch, direction, trace=trace)
            except EleaError as fault:
                error = fault
        side.count += 1
        return Record(
            connection.name,
            direction,
            side.count - 1,
            segment.time,
            framing,
            segment.source,
            segment.target,
            batch,
            seen,
            error,
            trace,
        )

    def _connection(self, segment: Segment, *, renew: bool = False) -> _Connection:
        from elea.wire.conversation import Conversation, Direction

        low, high = sorted((segment.source, segment.target))
        key = (low, high, segment.tcp)
        known = self._connections.get(key)
        if known is not None and not renew:
            return known
        if known is not None:  # the same pair of ports, used again
            self._finish(known)
            del self._connections[key]
        dials = segment.syn and not segment.ack
        answers = segment.syn and segment.ack
        towards = segment.target.port in self._ports or segment.target.port == SCOUTING_PORT
        initiator = segment.source if dials or (towards and not answers) else segment.target
        acceptor = segment.target if initiator == segment.source else segment.source
        fresh = _Connection(
            f"{initiator}-{acceptor}#{self._opened}",
            initiator,
            Conversation(dialect=self._dialect),
            {one: _Side() for one in Direction},
        )
        self._opened += 1
        self._connections[key] = fresh
        if len(self._connections) > CONNECTIONS_MAX:
            self._finish(self._connections.pop(next(iter(self._connections))))
        return fresh

    def _direction(self, connection: _Connection, segment: Segment) -> Direction:
        from elea.wire.conversation import Direction

        dialled = segment.source == connection.initiator
        return Direction.INITIATOR if dialled else Direction.ACCEPTOR

    def _finish(self, connection: _Connection) -> None:
        for direction, side in connection.sides.items():
            what = f"{connection.name} {direction.value}"
            if side.stream.lost or side.stream.waiting:
                self.problems.append(f"{what}: packets are missing, not followed past the hole")
            elif side.batches.pending and not side.broken:
                self.problems.append(f"{what}: ends inside a batch")
