"""What nodes of one session counted, by topic, and what they refused (R2-817)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from elea.limits import DEFAULT_LIMITS

if TYPE_CHECKING:
    from elea.ros.receive import Receiver

_log: Final = logging.getLogger("elea.ros")
_QUIET_S: Final = 60.0  # between two lines of one key and reason
_REASONS_COUNT_MAX: Final = 1_024
OTHER: Final = "*"  # stands for the topics beyond ros2_topics_count

# Name, kind, meaning; the first three have a label `topic`.
METRICS: Final = {
    "elea_ros2_messages": ("counter", "ROS messages received"),
    "elea_ros2_lost": ("counter", "ROS messages lost, by the numbers of their publishers"),
    "elea_ros2_decode_errors": ("counter", "ROS messages that could not be decoded"),
    "elea_ros2_tokens": ("gauge", "Tokens in the ROS graph"),
    "elea_ros2_tokens_bad": ("counter", "Tokens that could not be read, or exceed the limit"),
    "elea_ros2_attachments_bad": ("counter", "Attachments of another form than rmw_zenoh's"),
    "elea_ros2_clocks_ahead": ("counter", "ROS messages whose source time is ahead of the clock"),
}


@dataclass(slots=True)
class TopicCounts:
    """The messages of one topic."""

    messages: int = 0
    lost: int = 0
    decode_errors: int = 0

    def add(self, receiver: Receiver) -> None:
        """Add what a subscription counted."""
        self.messages += receiver.received
        self.lost += receiver.lost
        self.decode_errors += receiver.undecodable


class Counts:
    """Sums over the subscriptions of a session, those that were closed included.

    Args:
        clock: Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[Receiver, str] = {}
        self._closed: dict[str, TopicCounts] = {}
        self._attachments_bad = 0  # of what was closed, and of services
        self._clocks_ahead = 0  # of what was closed
        self._told: dict[tuple[str, str], float] = {}

    def join(self, topic: str, receiver: Receiver) -> None:
        """Count what a subscription receives from now on."""
        with self._lock:
            self._open[receiver] = topic

    def leave(self, receiver: Receiver) -> None:
        """Keep the counts of a subscription that is closed."""
        with self._lock:
            topic = self._open.pop(receiver, None)
            if topic is not None:
                self._of(self._closed, topic).add(receiver)
                self._attachments_bad += receiver.attachments_bad
                self._clocks_ahead += receiver.clocks_ahead

    def bad_attachment(self) -> None:
        """Count an attachment of a request or reply that is none of rmw_zenoh's."""
        with self._lock:
            self._attachments_bad += 1

    @property
    def attachments_bad(self) -> int:
        """Attachments of another form than rmw_zenoh's (R2-202)."""
        with self._lock:
            return self._attachments_bad + sum(one.attachments_bad for one in self._open)

    @property
    def clocks_ahead(self) -> int:
        """Messages whose source time is ahead of the clock; they were delivered (R2-206)."""
        with self._lock:
            return self._clocks_ahead + sum(one.clocks_ahead for one in self._open)

    def topics(self) -> dict[str, TopicCounts]:
        """The counts by topic; topics beyond `ros2_topics_count` are counted as `*`."""
        with self._lock:
            found = {
                topic: TopicCounts(one.messages, one.lost, one.decode_errors)
                for topic, one in self._closed.items()
            }
            for receiver, topic in self._open.items():
                self._of(found, topic).add(receiver)
        return found

    def refuse(self, key: str, reason: str) -> None:
        """Log a sample that could not be read, once a minute for each key and reason."""
        if self._is_due(key, reason):
            _log.warning("message on %a refused: %a", key, reason)

    def tell_ahead(self, key: str, gid: bytes) -> None:
        """Log that the clock of a publisher is ahead, once a minute for each."""
        if self._is_due(key, gid.hex()):
            _log.warning(
                "source time of messages on %a is ahead of this host's clock: delivered as sent;"
                " synchronise the clocks (publisher %s)",
                key,
                gid.hex(),
            )

    def _is_due(self, key: str, reason: str) -> bool:
        now_s, seen = self._clock(), (key, reason)
        with self._lock:
            if now_s - self._told.get(seen, -_QUIET_S) < _QUIET_S:
                return False
            if len(self._told) >= _REASONS_COUNT_MAX:
                self._told.clear()
            self._told[seen] = now_s
        return True

    def counted(self, tokens: int, tokens_bad: int) -> Iterator[tuple[str, str, int]]:
        """The metrics: name, topic or nothing, value."""
        for topic, one in sorted(self.topics().items()):
            yield "elea_ros2_messages", topic, one.messages
            yield "elea_ros2_lost", topic, one.lost
            yield "elea_ros2_decode_errors", topic, one.decode_errors
        yield "elea_ros2_tokens", "", tokens
        yield "elea_ros2_tokens_bad", "", tokens_bad
        yield "elea_ros2_attachments_bad", "", self.attachments_bad
        yield "elea_ros2_clocks_ahead", "", self.clocks_ahead

    @staticmethod
    def _of(counts: dict[str, TopicCounts], topic: str) -> TopicCounts:
        if topic not in counts and len(counts) >= DEFAULT_LIMITS.ros2_topics_count:
            topic = OTHER
        return counts.setdefault(topic, TopicCounts())
