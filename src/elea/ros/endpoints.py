"""Publishers and subscriptions of a node, as rmw_zenoh has them (sections 5 to 7)."""

from __future__ import annotations

import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from elea.errors import UnknownTypeError
from elea.limits import DEFAULT_LIMITS
from elea.qos import CongestionControl
from elea.qos import Reliability as Delivery
from elea.ros.catalog import Found
from elea.ros.context import Context
from elea.ros.formats.attachment import Attachment
from elea.ros.formats.keys import BUFFER_CPU, NO_HASH, TopicKey, parse_key
from elea.ros.formats.library import MessageType
from elea.ros.formats.messages import MessageInfo, info_from
from elea.ros.formats.qos import History, QoS
from elea.ros.formats.tokens import CPU_BACKEND, BridgeToken, Token
from elea.ros.receive import Received, Receiver, Track
from elea.session.advanced import declare_advanced_publisher, declare_advanced_subscriber
from elea.session.advanced_config import (
    CacheConfig,
    HistoryConfig,
    MissDetectionConfig,
    RecoveryConfig,
)

if TYPE_CHECKING:
    from elea.session.liveliness import LivelinessToken

_log: Final = logging.getLogger("elea.ros")
_HEARTBEAT_S: Final = 0.5

Receive = Callable[[Any], object]


@dataclass(frozen=True)
class RawMessage:
    """A message as it came.

    Attributes:
        reason: Why it was not decoded; empty: nobody asked for that.
    """

    payload: bytes
    info: MessageInfo
    reason: str = ""


class _Undeclared(Protocol):
    def undeclare(self) -> None: ...


class Endpoint:
    """What all endpoints share: a token, which comes last and goes first (R2-156)."""

    def __init__(self, context: Context, token: Token | BridgeToken, *, hidden: bool) -> None:
        self._context = context
        self.token = token
        self._declared: LivelinessToken | None = None
        self._hidden = hidden
        self._closed = False

    def _announce(self) -> None:
        if not self._hidden:
            key = self._context.token_key(self.token)
            self._declared = self._context.session.liveliness().declare_token(key)

    def _withdraw(self) -> None:
        if self._declared is not None:
            self._declared.undeclare()
            self._declared = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()

    def close(self) -> None:
        """Withdraw it; again is no error."""
        if not self._closed:
            self._closed = True
            if not self._context.session.is_closed():
                self._withdraw()
                self._end()

    def _end(self) -> None:
        raise AssertionError("each kind has its own")


class Publisher(Endpoint):
    """Publishes messages on a topic; made by `Node.create_publisher`."""

    def __init__(
        self, context: Context, token: Token | BridgeToken, kind: MessageType | None, qos: QoS
    ) -> None:
        super().__init__(context, token, hidden=False)
        self.kind = kind  # None: it publishes CDR alone
        self.qos = qos
        self._lock = threading.Lock()
        self._number = 0
        keeps_all = qos.history is History.KEEP_ALL
        blocks = keeps_all and qos.is_reliable
        self._publisher = declare_advanced_publisher(
            context.session,
            data_key(context, token),
            congestion_control=CongestionControl.BLOCK if blocks else CongestionControl.DROP,
            reliability=Delivery.RELIABLE if qos.is_reliable else Delivery.BEST_EFFORT,
            cache=CacheConfig(_depth(qos)) if qos.is_transient_local else None,
            sample_miss_detection=MissDetectionConfig(sporadic_heartbeat=_HEARTBEAT_S)
            if qos.is_transient_local and qos.is_reliable
            else None,
            publisher_detection=qos.is_transient_local,
        )
        self._announce()

    @property
    def topic_name(self) -> str:
        """The fully qualified name."""
        return self.token.name

    def publish(self, message: object, *, source_time: int | None = None) -> None:
        """Send a message: an object, a mapping, or CDR.

        Args:
            source_time: Nanoseconds since 1970; now if not given.

        Raises:
            ValueError: a member does not fit; nothing is sent (R2-606).
            ClosedError: the node is closed.
        """
        if self.kind is None:
            assert isinstance(message, bytes)
            payload = message
        else:
            payload = self.kind.encode(message)
        time_ns = time.time_ns() if source_time is None else source_time
        with self._lock:
            self._number += 1
            attached = Attachment(self._number, time_ns, self.token.gid or bytes(16))
            if isinstance(self.token, BridgeToken):
                self._publisher.put(payload)
            else:
                self._publisher.put(payload, attachment=attached.to_bytes())

    @property
    def key(self) -> str:
        """The key that messages are put on."""
        return data_key(self._context, self.token)

    @property
    def is_matched(self) -> bool:
        """Whether a subscriber of the key is known; recorders have no token in the graph."""
        return self._publisher.matching_status.matching

    def get_subscription_count(self) -> int:
        """How many subscriptions of the topic are known."""
        return len(self._context.graph.subscriptions(self.token.name))

    def wait_for_subscriptions(self, count: int = 1, timeout: float = 3.0) -> bool:
        """Wait until so many subscriptions are known."""
        return self._context.graph.wait_until(
            lambda: self.get_subscription_count() >= count, timeout
        )

    def _end(self) -> None:
        self._publisher.undeclare()


class Subscription(Endpoint):
    """Receives messages of a topic; made by `Node.create_subscription` and `Node.subscribe`.

    Args:
        callback: Called with each message; without it, messages wait for whoever iterates.
        raw: Give `RawMessage`, not decoded.
        history: Ask publishers for what they keep, whatever the QoS says.

    Attributes:
        dropped: Messages that were not read in time.
        heard: Takes a sample, as the session does.
    """

    def __init__(
        self,
        context: Context,
        token: Token | BridgeToken,
        qos: QoS,
        callback: Receive | None = None,
        *,
        raw: bool = False,
        history: bool = False,
        hidden: bool = False,
        buffers: bool = False,
    ) -> None:
        super().__init__(context, token, hidden=hidden)
        self.qos = qos
        self.dropped = 0
        self._raw = raw
        self._receiver = Receiver(
            self._track,
            self._node_of,
            self._enqueue if callback is None else callback,
            _raw,
            context.counts.refuse,
            self._callback_failed,
            context.counts.tell_ahead,
            raw=raw,
            good_only=callback is not None and not raw,
        )
        self.heard = self._receiver.heard
        context.counts.join(token.name, self._receiver)
        self._queue: deque[Any] = deque()
        self._ready = threading.Condition()
        keeps_all = qos.history is History.KEEP_ALL
        self._queue_len = DEFAULT_LIMITS.ros2_queue_len if keeps_all else max(1, qos.depth)
        wants_history = qos.is_transient_local or history
        key = data_key(context, token, any_hash=True)
        keys = [key, f"{key}/{BUFFER_CPU}"] if buffers else [key]
        self._subscribers = [self._subscribed(one, wants_history) for one in keys]
        self._announce()

    def _subscribed(self, key: str, wants_history: bool) -> _Undeclared:
        """A subscriber of Zenoh; one that asks for nothing is an ordinary one."""
        if not wants_history:
            return self._context.session.declare_subscriber(key, self.heard)
        keeps_all = self.qos.history is History.KEEP_ALL
        return declare_advanced_subscriber(
            self._context.session,
            key,
            self.heard,
            history=HistoryConfig(
                detect_late_publishers=True,
                max_samples=None if keeps_all else _depth(self.qos),
            ),
            recovery=RecoveryConfig(heartbeat=True) if self.qos.is_reliable else None,
            subscriber_detection=True,
        )

    @property
    def topic_name(self) -> str:
        """The fully qualified name."""
        return self.token.name

    @property
    def lost(self) -> int:
        """Messages of publishers that did not arrive, by their numbers."""
        return self._receiver.lost

    @property
    def received(self) -> int:
        """Messages that came, those that could not be decoded among them."""
        return self._receiver.received

    @property
    def undecodable(self) -> int:
        """Messages that could not be decoded."""
        return self._receiver.undecodable

    def take(self, timeout: float | None = None) -> Any:
        """The next message.

        Raises:
            TimeoutError: none came in time.
            StopIteration: the subscription is closed.
        """
        with self._ready:
            if not self._ready.wait_for(lambda: self._queue or self._closed, timeout):
                raise TimeoutError(f"no message on {self.token.name} within {timeout:g} s")
            if not self._queue:
                raise StopIteration
            return self._queue.popleft()

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                yield self.take()
            except StopIteration:
                return

    def close(self) -> None:
        """Withdraw it; whoever waits for messages is released."""
        super().close()
        with self._ready:
            self._ready.notify_all()

    def _end(self) -> None:
        for subscriber in self._subscribers:
            subscriber.undeclare()
        self._context.counts.leave(self._receiver)

    def _track(self, key: str) -> Track:
        """What the key of a message says, and how it is decoded."""
        topic = parse_key(key, self._context.prefix)
        if topic is None:
            topic = TopicKey(self.token.domain, self.token.name, self.token.type, NO_HASH)
        found, reason = self._decoder(topic)
        kind = None if found is None else found.kind
        return Track(topic.name, topic.type, topic.hash, kind, reason)

    def _node_of(self, gid: bytes) -> tuple[str | None, bool]:
        token = self._context.graph.publisher(gid)
        if token is None:
            return None, False
        return token.node_name, token.backends is not None

    def _decoder(self, topic: TopicKey) -> tuple[Found | None, str]:
        if self._raw or topic.is_device_buffer:
            return None, "device buffer"
        types = self._context.types
        try:
            return types.find(topic.type, topic.hash), ""
        except UnknownTypeError as error:
            types.tell_once(error)
            return None, error.reason

    def _callback_failed(self) -> None:
        _log.exception("callback of %s failed", self.token.name)

    def _enqueue(self, message: Any) -> None:
        with self._ready:
            if len(self._queue) >= self._queue_len:
                self._queue.popleft()
                self.dropped += 1
            self._queue.append(message)
            self._ready.notify()


def _raw(received: Received, reason: str) -> RawMessage:
    return RawMessage(received[0], info_from(*received[1:]), reason)


def data_key(context: Context, token: Token | BridgeToken, *, any_hash: bool = False) -> str:
    """The key of an endpoint's data."""
    if isinstance(token, BridgeToken):
        name = token.name.removeprefix("/")
        return f"{context.prefix}/{name}" if context.prefix else name
    return context.key(token.name, token.type, "*" if any_hash else token.hash)


def backends_for(kind: MessageType | None, qos: QoS) -> dict[str, str] | None:
    """What the token of a subscription says of memories (R2-251)."""
    if kind is None or qos.is_transient_local or not kind.has_bytes:
        return None
    return dict(CPU_BACKEND)


def is_async(function: object) -> bool:
    """Whether a callback is a coroutine function."""
    return inspect.iscoroutinefunction(function)


def _depth(qos: QoS) -> int:
    return DEFAULT_LIMITS.ros2_queue_len if qos.history is History.KEEP_ALL else qos.depth
