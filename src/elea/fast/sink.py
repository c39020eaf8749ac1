"""FaceSink: the network messages of one neighbour, from the octets of a frame into routing.

Most of what arrives are samples. Those are read here, in place: they are handed to sessions of this
node, and their octets go into the batches of other nodes, without a message being made of them.
Whatever is not quite so plain (another message, an extension that is rare, a sample without a route
that is known, octets that are wrong) is left to the general way, which starts again at its first
octet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from elea.fast.egress import Egress, Guard, Outlet, RawSink
from elea.fast.plain import PlainPush
from elea.fast.stamping import KEEP, Stamper
from elea.fast.traffic import KeyCount, KeyTraffic
from elea.limits import DEFAULT_LIMITS
from elea.routing.core import Routing
from elea.routing.now import Now
from elea.routing.push import Destination, PushSource, RouteCache
from elea.wire.buffer import Piece, Reader
from elea.wire.codec import NetworkMessage, decode_network
from elea.wire.data.put import Put
from elea.wire.network.push import Push

if TYPE_CHECKING:
    from mypy_extensions import i64

ALL: Final = 1 << 60  # messages in one turn
_NETWORK_ID_MIN: Final = 0x19
_ID_MASK: Final = 0x1F
_FLAG_T: Final = 0x20  # of a PUT: it has a timestamp
_NO_ALIAS: Final = -1
_SCOPE_BITS: Final = 14  # of the aliases that are read in place
_HEAD_LEN_MAX: Final = 1_024  # a sample in fragments is plain if its payload begins within


class Hop:
    """One neighbour that gets a sample."""

    __slots__ = ("destination", "outlet")

    def __init__(self, outlet: Outlet, destination: Destination) -> None:
        self.outlet = outlet
        self.destination = destination


class Aim:
    """Where the samples of a key go, as long as no table changes."""

    __slots__ = ("count", "frame", "hops", "key", "sinks")

    def __init__(self, key: str, sinks: list[RawSink], hops: list[Hop], count: KeyCount) -> None:
        self.key = key
        self.sinks = sinks
        self.hops = hops
        self.count = count  # of what was received on the key
        self.frame: i64 = -1  # the last one of which sinks know that it began


class FaceSink:
    """Takes the frames of one transport; the time is told to `now` before each batch.

    Args:
        routing: Where messages go.
        face_id: Whose they are.
        egress: The output of routing; None if that is something else, which must see every message.
        stamper: Gives timestamps to samples, as routing does; None if nobody does.
        keys_max: Keys that are remembered, as they stand in messages.
        traffic: Counts what is received, by key; None: nobody can ask.
    """

    __slots__ = (
        "_aim",
        "_aims",
        "_alias",
        "_counting",
        "_egress",
        "_frame",
        "_generation",
        "_keys_max",
        "_plain",
        "_push",
        "_routes",
        "_source",
        "_stamper",
        "_touched",
        "_traffic",
        "face_id",
        "general",
        "guard",
        "left",
        "now",
        "received",
        "routing",
        "served",
    )

    def __init__(
        self,
        routing: Routing,
        face_id: int,
        egress: Egress | None = None,
        stamper: Stamper | None = None,
        keys_max: int = DEFAULT_LIMITS.routes_count,
        traffic: KeyTraffic | None = None,
    ) -> None:
        self._traffic = KeyTraffic(0, 0) if traffic is None else traffic
        self._counting: i64 = 0  # the generation of its counters
        self.routing = routing
        self._push = routing.receive_push  # compiled: samples take no interpreted step
        self._egress = egress
        self._stamper = stamper
        self.face_id = face_id
        self.guard: Guard | None = None  # of what comes in
        self.now: Now = routing.now
        self.received = 0
        self.general = False  # something else came than samples that were read in place
        self.left = ALL  # so many messages may yet be read in this turn; samples in place are free
        self.served: list[RawSink] = []  # the sessions that got samples
        self._plain = PlainPush()
        self._source: PushSource | None = None
        # Where samples went, by their keys as they stand in messages, until a table changes or
        # an alias; ours are never taken back.
        self._aims: dict[bytes, Aim] = {}
        self._routes: RouteCache | None = None  # that those are of,
        self._generation = -1  # and which ones
        self._keys_max = keys_max
        # And the last one, until something else than a sample comes.
        self._alias: i64 = _NO_ALIAS
        self._aim = Aim("", [], [], self._traffic.of(""))
        self._frame: i64 = 0
        self._touched: list[RawSink] = []

    def begin(self) -> None:
        """Octets arrived: forget what came of those before."""
        self.general = False
        if self.served:
            self.served = []

    def frame(self, reader: Reader, priority: int, reliable: bool) -> bool:
        """Read network messages until the end, or the first octet that is none.

        False: there are more, and others shall have their turn before.
        """
        self._begin_frame()
        try:
            return self._messages(reader, reliable)
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
            if self._traffic.active and isinstance(message, Push):
                self._count(message)
            self.routing.receive(self.face_id, message, reliable, self.now.ns)

    def pieces(self, pieces: list[Piece], reliable: bool) -> bool:
        """Take a plain sample that came in fragments: its payload is copied once, into one."""
        self._begin_frame()
        try:
            return self._whole(pieces, reliable)
        finally:
            self._end_frame()

    def _whole(self, pieces: list[Piece], reliable: bool) -> bool:
        plain = self._plain
        first = pieces[0]
        head = bytes(first[:_HEAD_LEN_MAX])
        length = 0
        for piece in pieces:
            length += len(piece)
        after: int = plain.read_head(head, 0, len(head))
        if self._source is None or after != length or plain.attachment_start >= 0:
            return False
        if not self._find():
            return False
        rest: list[Piece] = [memoryview(first)[plain.payload_start :]]
        rest.extend(pieces[1:])
        stamper = self._stamper
        if stamper is not None and stamper.stamp_plain(plain) is None:
            return False
        plain.data = b"".join(rest)
        plain.payload_start = 0
        plain.payload_stop = len(plain.data)
        aim = self._aim
        aim.count.add(1, length, self.now.ns)
        for sink in aim.sinks:
            sink.raw(aim.key, plain)
        if aim.hops:
            body = Put(plain.data, plain.stamp(), plain.encoding, None, plain.source())
            for hop in aim.hops:
                self._send(hop, body, reliable)
        self.received += 1
        return True

    def _messages(self, reader: Reader, reliable: bool) -> bool:
        face_id = self.face_id
        now_ns = self.now.ns
        begun = False
        while True:
            if self._source is not None and self._samples(reader, reliable):
                return True
            octet = reader.peek()
            if octet < 0 or octet & _ID_MASK < _NETWORK_ID_MIN:
                return True
            if begun and self.left <= 0:
                return False
            begun = True
            self.left -= 1
            self.received += 1
            self.general = True
            message = decode_network(reader)
            self._end_run()
            guard = self.guard
            if guard is not None:
                passed = guard.check(message, reliable)
                if passed is None:
                    continue
                message = passed
            if isinstance(message, Push):
                if self._traffic.active:
                    self._count(message)
                self._push(face_id, message, reliable)
            else:
                self._alias = _NO_ALIAS  # tables may change
                self.routing.receive(face_id, message, reliable, now_ns)

    def _samples(self, reader: Reader, reliable: bool) -> bool:
        """Hand on plain samples until something else comes; whether all was read."""
        data = reader.data
        end: i64 = reader.end
        pos: i64 = reader.pos
        plain = self._plain
        stamper = self._stamper
        now_ns: i64 = self.now.ns
        count: i64 = 0
        run_start: i64 = pos  # of samples with one aim, which are counted together
        run_count: i64 = 0
        while pos < end:
            after: i64 = plain.read(data, pos, end)
            if after < 0:
                break
            alias: i64 = (plain.node_id << _SCOPE_BITS | plain.scope) << 1
            if plain.sender:
                alias |= 1
            if alias != self._alias or plain.suffix_start != plain.suffix_stop:
                if run_count > 0:
                    self._aim.count.add(run_count, pos - run_start, now_ns)
                run_start = pos
                run_count = 0
                if not self._find():
                    break
            stamp = KEEP if stamper is None else stamper.stamp_plain(plain)
            if stamp is None:
                break
            aim = self._aim
            for sink in aim.sinks:
                sink.raw(aim.key, plain)
            if aim.hops:
                self._forward(stamp, after, reliable)
            count += 1
            run_count += 1
            pos = after
        if run_count > 0:
            self._aim.count.add(run_count, pos - run_start, now_ns)
        reader.pos = pos
        self.received += count
        return pos >= end

    def _forward(self, stamp: bytes, after: i64, reliable: bool) -> None:
        """Let the sample that was just read go on to other nodes, its timestamp replaced."""
        plain = self._plain
        egress = self._egress
        assert egress is not None
        qos: i64 = plain.qos
        header: i64 = plain.body_header
        if stamp:
            header |= _FLAG_T
            rest = plain.data[plain.rest_start : after]
        else:
            rest = plain.data[plain.body_start + 1 : after]
        body: Put | None = None
        for hop in self._aim.hops:
            head = hop.destination.head(qos, header)
            if egress.forward(hop.outlet, head, stamp, rest, qos, reliable):
                continue
            if body is None:
                body = Put(
                    plain.payload(),
                    plain.stamp(),
                    plain.encoding,
                    plain.attachment(),
                    plain.source(),
                )
            self._send(hop, body, reliable)

    def _send(self, hop: Hop, body: Put, reliable: bool) -> None:
        """The general way out, for what is too long or finds no room."""
        egress = self._egress
        assert egress is not None
        where = hop.destination
        message = Push(where.key, body, self._plain.qos, None, where.node_id)
        egress.send(where.face_id, message, reliable)

    def _begin_frame(self) -> None:
        self._alias = _NO_ALIAS
        self._frame += 1
        traffic = self._traffic
        if traffic.generation != self._counting or (
            traffic.active and self.now.ns >= traffic.until_ns
        ):
            self._recount()
        if self._egress is not None and self.guard is None:
            self._source = self.routing.push_source(self.face_id)
        else:
            self._source = None

    def _recount(self) -> None:
        """Counting began, or ended: forget the counters that are remembered."""
        traffic = self._traffic
        if traffic.active and self.now.ns >= traffic.until_ns:
            traffic.stop()
        self._counting = traffic.generation
        self._aims.clear()

    def _count(self, message: Push) -> None:
        """Count a sample that goes the general way."""
        source = self.routing.push_source(self.face_id)
        wire = message.key
        key = wire.suffix
        if source is not None and wire.scope != 0:
            head = (source.peer if wire.sender else source.own).get(wire.scope)
            if head is None:
                return
            key = head + key
        body = message.body
        octets = len(key) + (len(body.payload) if isinstance(body, Put) else 0)
        self._traffic.of(key).add(1, octets, self.now.ns)

    def _end_frame(self) -> None:
        self._end_run()
        self._source = None
        if self._touched:
            for sink in self._touched:
                sink.end_frame()
            self._touched = []

    def _end_run(self) -> None:
        """Somebody else may use the clock now."""
        if self._stamper is not None:
            self._stamper.end()

    def _find(self) -> bool:
        """Find out who takes the sample that was just read; False if nobody knows yet."""
        plain = self._plain
        source = self._source
        assert source is not None
        self._alias = _NO_ALIAS
        routes = source.cache
        if routes is not self._routes or routes.generation != self._generation:
            self._aims.clear()
            self._routes = routes
            self._generation = routes.generation
        written = b""
        is_near = plain.node_id == 0  # the routes of other routers have generations of their own
        if is_near:
            written = plain.data[plain.start : plain.suffix_stop]
            aim = self._aims.get(written)
            if aim is not None:
                self._take(aim)
                return True
        aim = self._look_up(source)
        if aim is None:
            return False
        if is_near:
            if len(self._aims) >= self._keys_max:
                self._aims.clear()
            self._aims[written] = aim
        self._take(aim)
        return True

    def _take(self, aim: Aim) -> None:
        """This is where the sample goes; its sinks are told once in each frame."""
        self._aim = aim
        plain = self._plain
        if plain.suffix_start == plain.suffix_stop:
            alias: i64 = (plain.node_id << _SCOPE_BITS | plain.scope) << 1
            self._alias = alias | 1 if plain.sender else alias
        if aim.frame == self._frame:
            return
        aim.frame = self._frame
        for sink in aim.sinks:
            if sink not in self._touched:
                self._touched.append(sink)
                sink.begin_frame()
                if sink not in self.served:
                    self.served.append(sink)

    def _look_up(self, source: PushSource) -> Aim | None:
        """Who takes the sample by the tables; None if it is to go the general way."""
        plain = self._plain
        routes = source.cache
        if plain.node_id != 0 and source.routes is not None:
            entered = source.routes(plain.node_id)
            if entered is None:
                return None
            routes = entered
        key = ""
        if plain.scope != 0:
            head = (source.peer if plain.sender else source.own).get(plain.scope)
            if head is None:
                return None
            key = head
        if plain.suffix_start != plain.suffix_stop:
            try:
                key += plain.suffix().decode("utf-8")
            except UnicodeDecodeError:
                return None
        route = routes.samples.get(key)
        return None if route is None else self._aim_of(source, route, key)

    def _aim_of(self, source: PushSource, route: list[Destination], key: str) -> Aim | None:
        """The sessions and neighbours of a route; None if it is to go the general way."""
        egress = self._egress
        assert egress is not None
        sinks: list[RawSink] = []
        hops: list[Hop] = []
        for destination in route:
            if destination.face_id == source.face_id:
                continue
            outlet = egress.outlets.get(destination.face_id)
            if outlet is None or outlet.guard is not None:
                return None
            raw = outlet.raw
            if raw is not None:
                sinks.append(raw)
            elif outlet.queues is not None:
                hops.append(Hop(outlet, destination))
            else:
                return None
        return Aim(key, sinks, hops, self._traffic.of(key)) if sinks or hops else None
