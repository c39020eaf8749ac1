"""What a route from DDS is about to put: runs of plain samples, single ones, and what puts them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from elea.dds.counts import RouteCounts
from elea.dds.qos import ReaderClass, Reliability
from elea.dds.rmw import RmwPublisher
from elea.dds.stamps import WriterClock
from elea.encoding import Encoding
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import SourceInfo
from elea.qos import CongestionControl, Priority
from elea.session.publisher import Origin, Publisher
from elea.timestamp import NTP64, Timestamp

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge


@dataclass(slots=True)
class Source:
    """One DDS writer of the route."""

    guid: bytes
    reader_class: ReaderClass
    clock: WriterClock
    origin: Origin | None
    is_durable: bool


@dataclass(slots=True)
class Run:
    """Samples of one writer that are put with nothing beside their stamps."""

    source: Source
    payloads: list[bytes]
    times: list[int]
    start: int = 0


@dataclass(slots=True)
class Single:
    """A sample with an attachment, or a deletion."""

    source: Source
    payload: bytes | None  # None: a deletion
    time: int
    attachment: bytes
    instance: str = ""  # the key of the instance, if each has its own


class PendingPuts:
    """Puts the samples of a route on its key, in their order, as far as there is room.

    Args:
        bridge: Whose session it is.
        key: Of the route.
        encoding: Of its samples.
        counts: Of the route.
        rmw: Where samples are put beside the key.
    """

    def __init__(
        self,
        bridge: Bridge,
        key: str,
        encoding: Encoding,
        counts: RouteCounts,
        rmw: RmwPublisher | None,
    ) -> None:
        self._bridge = bridge
        self._key = key
        self._encoding = encoding
        self._counts = counts
        self._rmw = rmw
        self._items: deque[Run | Single] = deque()
        self._publishers: dict[bool, Publisher] = {}  # by whether they block; made when needed

    def __bool__(self) -> bool:
        """Whether something waits for room."""
        return bool(self._items)

    @property
    def count(self) -> int:
        """Samples that wait for room."""
        return sum(
            len(one.payloads) - one.start if isinstance(one, Run) else 1 for one in self._items
        )

    @property
    def publisher(self) -> Publisher:
        """The one for reliable samples."""
        return self._publisher(blocks=True)

    def _publisher(self, *, blocks: bool) -> Publisher:
        found = self._publishers.get(blocks)
        if found is None:
            priority, express = self._bridge.settings.priority_of(self._key)
            found = self._publishers[blocks] = self._bridge.session.declare_publisher(
                KeyExpr(self._key),
                encoding=self._encoding,
                congestion_control=CongestionControl.BLOCK if blocks else CongestionControl.DROP,
                priority=Priority(priority),
                express=express,
            )
        return found

    def add(self, item: Run | Single) -> None:
        """Put an item after those that wait."""
        self._items.append(item)

    def begin_with(self, other: PendingPuts) -> None:
        """Put what waits in another route first."""
        self._items.extendleft(reversed(other._items))
        other._items.clear()

    def put(self, now_ns: int) -> bool:
        """Put what waits; False: there is no room for all of it (D-407)."""
        while self._items:
            item = self._items[0]
            if not (self._put_run(item) if isinstance(item, Run) else self._put_single(item)):
                return False
            self._items.popleft()
            self._counts.last_ns = now_ns
        return True

    def close(self) -> None:
        """Forget what waits, and undeclare."""
        self._items.clear()
        self._bridge.undeclare(*self._publishers.values())

    def _blocks(self, source: Source) -> bool:
        reliable = source.reader_class.reliability is Reliability.RELIABLE
        return reliable and self._bridge.settings.reliable_routes_blocking

    def _put_run(self, run: Run) -> bool:
        blocks = self._blocks(run.source)
        publisher = self._publisher(blocks=blocks)
        before = 0 if blocks else publisher.stats.dropped_count
        count = len(run.payloads)
        while run.start < count:
            start = run.start
            run.start = publisher.try_put_many(
                run.payloads, run.times, run.source.guid, run.source.origin, start
            )
            if run.start == start:
                return False
            counts = self._counts
            counts.samples += run.start - start
            counts.octets += sum(map(len, run.payloads[start : run.start]))
            if self._rmw is not None:
                for at in range(start, run.start):
                    self._rmw.put(run.payloads[at], run.source.guid, run.times[at], counts)
        if not blocks:
            dropped = publisher.stats.dropped_count - before
            if dropped:
                self._counts.samples -= dropped
                self._counts.lose("no room", dropped)
        return True

    def _put_single(self, item: Single) -> bool:
        key = item.instance or self._key
        if item.payload is None and not self._bridge.rights.allow_delete(key):
            self._counts.lose("access rules")
            return True
        stamp = None
        if item.time:
            stamp = Timestamp(NTP64.from_value(item.time), item.source.guid)
        origin = item.source.origin
        number = None
        if origin is not None:
            number = SourceInfo(self._bridge.origins.entity(origin.eid), origin.sn)
        blocks = self._blocks(item.source)
        publisher = self._publisher(blocks=blocks)
        if item.instance:
            done = self._bridge.instances.send(
                item.instance,
                item.payload,
                encoding=self._encoding,
                attachment=item.attachment or None,
                timestamp=stamp,
                source_info=number,
                blocks=blocks,
            )
        elif item.payload is None:
            done = publisher.try_delete(
                attachment=item.attachment, timestamp=stamp, source_info=number
            )
        else:
            done = publisher.try_put(
                item.payload,
                attachment=item.attachment or None,
                timestamp=stamp,
                source_info=number,
            )
        if not done and blocks:
            return False
        if origin is not None:
            origin.sn = (origin.sn + 1) & 0xFFFF_FFFF
        if not done:
            self._counts.lose("no room")
        elif item.payload is None:
            self._counts.deletes += 1
        else:
            self._counts.samples += 1
            self._counts.octets += len(item.payload)
            if self._rmw is not None:
                self._rmw.put(item.payload, item.source.guid, item.time, self._counts)
        return True
