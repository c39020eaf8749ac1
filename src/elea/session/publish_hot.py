"""From a put to the open batch: the hot path of a session outwards.

The caller's own thread takes the node's lock, hands the sample to this session's subscribers and
gives it to the node, which encodes it into the batch that is being filled. Nothing is queued here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from elea.errors import ClosedError
from elea.session.deliver_hot import Inbox
from elea.wire.data.delete import Del
from elea.wire.data.put_hot import Put
from elea.wire.fields_hot import Stamp, WireEncoding, WireExpr
from elea.wire.network.push_hot import Push
from elea.wire.shared_extensions import TimestampStack


class Lock(Protocol):
    """The node's lock."""

    def acquire(self) -> bool: ...
    def release(self) -> None: ...


class PushPort(Protocol):
    """The part of a node that takes samples."""

    def local_push(
        self, face_id: int, key: str, push: Push, reliable: bool, now_ns: int
    ) -> int: ...


class Aftermath(Protocol):
    """What is done once the lock is released."""

    def flush(self) -> None:
        """Write what is pending."""

    def work(self) -> None:
        """Run what is due."""

    def wait_room(self) -> None:
        """A sample that may not be dropped found no room: wait until there is some."""


class Outbox:
    """The samples of one session on their way out.

    `stamp` makes timestamps for samples without one; None leaves them without.
    """

    __slots__ = (
        "aftermath",
        "closed",
        "face_id",
        "flush",
        "inbox",
        "lock",
        "node",
        "now_ns",
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
        self.lock = lock
        self.node = node
        self.face_id = face_id
        self.inbox = inbox
        self.now_ns = now_ns
        self.stamp = stamp
        self.closed = False
        self.aftermath: Aftermath | None = None
        self.flush: Callable[[], None] | None = None

    def follow_up(self, aftermath: Aftermath) -> None:
        """Say who does what is to be done once the lock is released."""
        self.aftermath = aftermath
        self.flush = aftermath.flush

    def publish(self, key: str, push: Push, reliable: bool, local: bool, remote: bool) -> int:
        """Send a sample, write and run what is due: SENT, DROPPED or FULL of the ports."""
        lock = self.lock
        lock.acquire()
        try:
            result = self.publish_locked(key, push, reliable, local, remote)
        finally:
            lock.release()
        if self.flush is not None:
            self.flush()
        if self.aftermath is not None:
            if self.inbox.has_work():
                self.aftermath.work()
            if result == 2:  # FULL of `elea.session.ports`
                self.aftermath.wait_room()
        return result

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
        self.sent_count = 0
        self.dropped_count = 0

    def put(self, payload: bytes) -> int:
        """Publish octets and nothing else."""
        return self.send(Put(payload, None, self.encoding), None)

    def send(self, body: Put | Del, stack: TimestampStack | None) -> int:
        """Publish a sample."""
        push = Push(self.wire_key, body, self.qos, None, 0, stack)
        outbox = self.outbox
        result = outbox.publish(self.key, push, self.reliable, self.local, self.remote)
        if result == 1:  # DROPPED of `elea.session.ports`
            self.dropped_count += 1
        else:
            self.sent_count += 1
        return result
