"""From a put to the open batch: the hot path of a session outwards.

The caller's own thread takes the node's lock, hands the sample to this session's subscribers and
gives it to the node, which encodes it into the batch that is being filled. Nothing is queued here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from elea.answers import DROPPED, QUEUED, SENT
from elea.errors import ClosedError
from elea.fast.egress import Egress, Origin, Way
from elea.routing.push import PushSource
from elea.session.deliver import Inbox
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.fields import Stamp, WireEncoding, WireExpr
from elea.wire.network.push import Push
from elea.wire.shared_extensions import TimestampStack

_QOS_BLOCK: Final = 0x08
_SN_MASK: Final = 0xFFFF_FFFF
_MANY_COUNT: Final = 512  # values of one call that are published without letting others in


class Lock(Protocol):
    """The node's lock."""

    def acquire(self) -> bool: ...
    def release(self) -> None: ...


class PushPort(Protocol):
    """The part of a node that takes samples."""

    @property
    def direct(self) -> Egress | None: ...
    def push_source(self, face_id: int) -> PushSource | None: ...
    def local_push(
        self, face_id: int, key: str, push: Push, reliable: bool, now_ns: int
    ) -> int: ...
    def has_room(self, face_id: int, key: str, qos: int) -> bool: ...


class Aftermath(Protocol):
    """What is done once the lock is released."""

    def flush(self) -> None:
        """Write what is pending."""

    def work(self) -> None:
        """Run what is due."""

    def wait_room(self, key: str, qos: int) -> None:
        """A sample that may not be dropped found no room: wait until there is some."""


class Outbox:
    """The samples of one session on their way out.

    `stamp` makes timestamps for samples without one; None leaves them without.
    """

    __slots__ = (
        "acquire",
        "aftermath",
        "closed",
        "egress",
        "face_id",
        "flush",
        "inbox",
        "node",
        "now_ns",
        "release",
        "source",
        "stamp",
    )

    def __init__(
        self,
        lock: Lock,
        node: PushPort,
        face_id: int,
        inbox: Inbox,
        now_ns: Callable[[], int],
        stamp: Callable[[], Stamp] | None,
    ) -> None:
        self.inbox = inbox
        self.move(lock, node, face_id)
        self.now_ns = now_ns
        self.stamp = stamp
        self.closed = False
        self.aftermath: Aftermath | None = None
        self.flush: Callable[[], None] | None = None

    def move(self, lock: Lock, node: PushPort, face_id: int) -> None:
        """Publish through this node from now on."""
        self.take_lock(lock)
        self.node = node
        self.face_id = face_id
        self.egress = node.direct
        self.source = node.push_source(face_id)

    def take_lock(self, lock: Lock) -> None:
        """This is the node's lock from now on."""
        self.acquire: Callable[[], bool] = lock.acquire
        self.release: Callable[[], None] = lock.release

    def follow_up(self, aftermath: Aftermath) -> None:
        """Say who does what is to be done once the lock is released."""
        self.aftermath = aftermath
        self.flush = aftermath.flush

    def publish(self, key: str, push: Push, reliable: bool, local: bool, remote: bool) -> int:
        """Send a sample, write and run what is due: SENT, DROPPED or QUEUED of the ports."""
        self.acquire()
        try:
            result = self.publish_locked(key, push, reliable, local, remote)
        finally:
            self.release()
        self.settle(result, push.key.suffix, push.qos)
        return result

    def try_publish(self, key: str, push: Push, reliable: bool, local: bool, remote: bool) -> bool:
        """Send a sample if all who get it take it now; nobody gets it if not. Never waits."""
        self.acquire()
        try:
            suffix = push.key.suffix
            if (
                remote
                and not self.closed
                and not self.node.has_room(self.face_id, suffix, push.qos)
            ):
                return False
            result = self.publish_locked(key, push, reliable, local, remote)
        finally:
            self.release()
        self.settle(SENT, suffix, push.qos)
        return result != DROPPED

    def settle(self, result: int, key: str, qos: int) -> None:
        """Without the lock: write, run what is due, wait if there was no room."""
        if self.flush is not None:
            self.flush()
        if self.aftermath is not None:
            if self.inbox.has_work():
                self.aftermath.work()
            if result == QUEUED:
                self.aftermath.wait_room(key, qos)

    def publish_locked(
        self, key: str, push: Push, reliable: bool, local: bool, remote: bool
    ) -> int:
        """The same, by who holds the lock."""
        if self.closed:
            raise ClosedError("session closed")
        if self.stamp is not None and push.body.timestamp is None:
            push.body.timestamp = self.stamp()
        if local:
            self.inbox.push_local(key, push)
        if not remote:
            return 0
        return self.node.local_push(self.face_id, push.key.suffix, push, reliable, self.now_ns())


class Lane:
    """A publisher's samples on their way out: one key, one set of qualities."""

    __slots__ = (
        "_generation",
        "_local_generation",
        "_source",
        "_ways",
        "dropped_count",
        "encoding",
        "key",
        "local",
        "outbox",
        "qos",
        "reliable",
        "remote",
        "sent_count",
        "wire_key",
    )

    def __init__(
        self,
        outbox: Outbox,
        key: str,
        wire_key: WireExpr,
        encoding: WireEncoding | None,
        qos: int,
        reliable: bool,
        local: bool,
        remote: bool,
    ) -> None:
        self.outbox = outbox
        self.key = key
        self.wire_key = wire_key
        self.encoding = encoding
        self.qos = qos
        self.reliable = reliable
        self.local = local
        self.remote = remote
        self._ways: list[Way] | None = None
        self._source: PushSource | None = None  # what they were found with
        self._generation = -1
        self._local_generation = -1
        self.sent_count = 0
        self.dropped_count = 0

    def put(self, payload: bytes) -> int:
        """Publish octets and nothing else."""
        outbox = self.outbox
        outbox.acquire()
        try:
            result = self._put(payload)
            if result == SENT and self._is_settled():
                return SENT
        finally:
            outbox.release()
        outbox.settle(result, self.wire_key.suffix, self.qos)
        return result

    def put_many(self, payloads: list[bytes]) -> None:
        """Publish one value after the other, taking the lock once for many."""
        outbox = self.outbox
        index = 0
        while index < len(payloads):
            result = SENT
            outbox.acquire()
            try:
                stop = min(index + _MANY_COUNT, len(payloads))
                while index < stop and result != QUEUED:
                    result = self._put(payloads[index])
                    index += 1
            finally:
                outbox.release()
            outbox.settle(result, self.wire_key.suffix, self.qos)

    def try_many(
        self, payloads: list[bytes], times: list[int], id: bytes, origin: Origin | None, start: int
    ) -> int:
        """Publish values from `start` on while there is room; where it stopped. Never waits.

        `times` are those of their timestamps, by the clock `id`; the node's own where one is 0.
        """
        outbox = self.outbox
        index = start
        outbox.acquire()
        try:
            waits = self.remote and not outbox.closed and bool(self.qos & _QOS_BLOCK)
            stop = min(start + _MANY_COUNT, len(payloads))
            while index < stop and not (waits and not self._has_room()):
                time = times[index]
                self._put(payloads[index], Stamp(time, id) if time else None, origin)
                if origin is not None:
                    origin.sn = (origin.sn + 1) & _SN_MASK
                index += 1
        finally:
            outbox.release()
        outbox.settle(SENT, self.wire_key.suffix, self.qos)
        return index

    def _has_room(self) -> bool:
        """Whether all who get a sample would take it now. Under the lock."""
        ways = self._ways
        outbox = self.outbox
        source = self._source
        if (
            ways is None
            or source is None
            or source is not outbox.source
            or source.cache.generation != self._generation
        ):
            return outbox.node.has_room(outbox.face_id, self.wire_key.suffix, self.qos)
        for way in ways:
            outlet = way.outlet
            queues = outlet.queues
            if outlet.stuck or (queues is not None and not queues.has_room(self.qos)):
                return False
        return True

    def _put(self, payload: bytes, stamp: Stamp | None = None, origin: Origin | None = None) -> int:
        """Under the lock."""
        outbox = self.outbox
        ways = self._ways
        source = self._source
        if (
            ways is None
            or source is not outbox.source
            or source is None
            or source.cache.generation != self._generation
            or outbox.inbox.local.generation != self._local_generation
            or outbox.closed
        ):
            ways = self._find_ways()
        result = SENT
        if ways is None:
            number = None if origin is None else origin.ref()
            body = Put(payload, stamp, self.encoding, None, number)
            push = Push(self.wire_key, body, self.qos)
            result = outbox.publish_locked(self.key, push, self.reliable, self.local, self.remote)
        else:
            egress = outbox.egress
            assert egress is not None
            if stamp is None and outbox.stamp is not None:
                stamp = outbox.stamp()
            for way in ways:
                answer = egress.send_value(way, payload, stamp, self.reliable, origin)
                if answer > result:
                    result = answer
        if result == DROPPED:
            self.dropped_count += 1
        else:
            self.sent_count += 1
        return result

    def _is_settled(self) -> bool:
        """Whether nobody wants what was put, or somebody is going to write it soon."""
        egress = self.outbox.egress
        if egress is None or self._ways is None:
            return False
        return not self._ways or (egress.flush_asked and not egress.wants_flush())

    def _find_ways(self) -> list[Way] | None:
        """How values leave; None if there is more to do than to send them. Under the lock."""
        outbox = self.outbox
        egress = outbox.egress
        source = outbox.source
        self._ways = None
        if egress is None or source is None or outbox.closed:
            return None
        if not self.remote or (self.local and outbox.inbox.local.matching(self.key)):
            return None
        route = source.cache.samples.get(self.wire_key.suffix)
        if route is None:
            return None  # the general way computes it
        empty = Put(b"", None, self.encoding)
        self._ways = egress.ways(route, source.face_id, empty, self.qos)
        self._source = source
        self._generation = source.cache.generation
        self._local_generation = outbox.inbox.local.generation
        return self._ways

    def try_send(self, body: Put | Del) -> bool:
        """Publish a sample if all who get it take it now; nobody gets it if not."""
        push = Push(self.wire_key, body, self.qos)
        sent = self.outbox.try_publish(self.key, push, self.reliable, self.local, self.remote)
        if sent:
            self.sent_count += 1
        else:
            self.dropped_count += 1
        return sent

    def send(self, body: Put | Del, stack: TimestampStack | None) -> int:
        """Publish a sample."""
        push = Push(self.wire_key, body, self.qos, None, 0, stack)
        outbox = self.outbox
        result = outbox.publish(self.key, push, self.reliable, self.local, self.remote)
        if result == DROPPED:
            self.dropped_count += 1
        else:
            self.sent_count += 1
        return result


def put_rows(
    lanes: list[Lane], payloads: list[bytes], stamps: list[Stamp | None], first: int, end: int
) -> int:
    """Publish the rows from `first` to before `end`, each on its lane; how many were dropped.

    They are of one session, and have nothing beside payload, timestamp and what their lane says.
    """
    dropped_count = 0
    while first < end:
        result = SENT
        outbox = lanes[first].outbox
        outbox.acquire()
        try:
            stop = min(first + _MANY_COUNT, end)
            while first < stop and result != QUEUED:
                result = lanes[first]._put(payloads[first], stamps[first])
                first += 1
                if result == DROPPED:
                    dropped_count += 1
        finally:
            outbox.release()
        last = lanes[first - 1]
        outbox.settle(result, last.wire_key.suffix, last.qos)
    return dropped_count
