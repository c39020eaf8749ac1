"""Replay of a log to ROS nodes: publishers with tokens, QoS and numbers of their own (R2-708)."""

from __future__ import annotations

import logging
import math
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from elea.errors import EleaError, InvalidValueError, UnknownTypeError
from elea.ros.endpoints import Publisher
from elea.ros.formats.attachment import parse_attachment
from elea.ros.formats.keys import TopicKey, parse_key
from elea.ros.formats.names import full_name
from elea.ros.formats.qos import CLOCK, DEFAULT, QoS
from elea.ros.formats.tokens import Kind, Token, parse_token
from elea.ros.node import Node
from elea.store.exchange.rows import Value, plain_rows
from elea.store.log.reader import LogReader
from elea.store.log.schema import RowKind
from elea.store.replay.merge import Choice, Merge

_log: Final = logging.getLogger("elea.ros")
_NS: Final = 1_000_000_000
_HEADER: Final = "std_msgs/msg/Header"


@dataclass(frozen=True)
class ReplayOptions:
    """What is replayed, and how.

    Attributes:
        topics: Names; none means all.
        remap: Names, and what they become.
        speed: 1 is as it was; 0 is as fast as possible.
        stamps: `keep`, or `now`: source times, and header stamps of known types, are those of now.
        clock_hz: How often `/clock` is published; 0: not at all.
        wait_s: How long to wait until each topic has a subscription.
        force: Publish although somebody else does.

    Raises:
        InvalidValueError: a value cannot be used.
    """

    topics: Sequence[str] = ()
    remap: Mapping[str, str] = field(default_factory=dict)
    speed: float = 1.0
    stamps: str = "keep"
    clock_hz: float = 0.0
    wait_s: float = 0.0
    force: bool = False

    def __post_init__(self) -> None:
        for name in (*self.topics, *self.remap, *self.remap.values()):
            full_name(name)
        if self.stamps not in ("keep", "now"):
            raise InvalidValueError("stamps", f"expected keep or now, got {self.stamps!a}")
        if not (0 <= self.speed < math.inf and 0 <= self.clock_hz < math.inf):
            raise InvalidValueError("speed", "expected 0 or more for speed and clock")


class RosReplay:
    """Publishes the messages of a log again, as a node that others see.

    Attributes:
        published: Messages so far.
        left_out: Rows that are no messages of ROS, or of other topics.
    """

    def __init__(self, node: Node, directory: Path, options: ReplayOptions) -> None:
        self._node = node
        self._reader = LogReader(directory)
        self._options = options
        self._publishers: dict[TopicKey, tuple[Publisher, bool]] = {}
        self._offered = self._offered_qos()
        self.published = 0
        self.left_out = 0
        if directory.is_dir():
            node.types.load(directory)

    def run(
        self, sleep: Callable[[float], None] = time.sleep, now_ns: Callable[[], int] = time.time_ns
    ) -> int:
        """Publish all of it; how many messages.

        Raises:
            EleaError: somebody publishes one of the topics already (R2-709).
        """
        self._declare()
        clock = None
        if self._options.clock_hz:
            clock = self._node.create_publisher("rosgraph_msgs/msg/Clock", "/clock", CLOCK)
        merge = Merge([self._reader], Choice(("**",), by_reception=True))
        first_ns: int | None = None
        start_ns = now_ns()
        told_ns = 0
        for run in merge:
            for row in plain_rows(run.batch):
                received = row["recv_ts"]
                assert isinstance(received, int)
                at_ns = received * 1_000
                first_ns = at_ns if first_ns is None else first_ns
                self._wait(start_ns + self._scaled(at_ns - first_ns), sleep, now_ns)
                if clock is not None and at_ns - told_ns >= _NS / self._options.clock_hz:
                    told_ns = at_ns
                    clock.publish({"clock": {"sec": at_ns // _NS, "nanosec": at_ns % _NS}})
                self._publish(row, now_ns)
        return self.published

    def _scaled(self, ns: int) -> int:
        return int(ns / self._options.speed) if self._options.speed else 0

    def _wait(self, due_ns: int, sleep: Callable[[float], None], now_ns: Callable[[], int]) -> None:
        left_ns = due_ns - now_ns()
        if left_ns > 0 and self._options.speed:
            sleep(left_ns / _NS)

    def _offered_qos(self) -> dict[TopicKey, list[QoS]]:
        found: dict[TopicKey, list[QoS]] = {}
        for key in self._reader.keys("@ros2_lv/**"):
            try:
                token = parse_token(key)
            except InvalidValueError:
                continue
            if isinstance(token, Token) and token.kind is Kind.PUBLISHER:
                found.setdefault(token.topic, []).append(token.qos)
        return found

    def _declare(self) -> None:
        """All publishers before the first message, so that subscriptions find them."""
        domain = self._node.context.domain
        for key in self._reader.keys("**"):
            topic = parse_key(key)
            if topic is None or topic.is_device_buffer or not self._is_chosen(topic):
                continue
            if not topic.is_legal:  # its rows are left out, and no others
                _log.warning("topic %a [%a] is none that ROS can have", topic.name, topic.type)
                continue
            plain = TopicKey(topic.domain, topic.name, topic.type, topic.hash)
            if plain in self._publishers:
                continue
            name = self._options.remap.get(topic.name, topic.name)
            others = [
                one for one in self._node.graph.publishers(name)
                if one.zid != self._node.context.zid
            ]  # fmt: skip
            if others and not self._options.force:
                reason = f"{others[0].node_name} publishes {name} in domain {domain}"
                raise EleaError(f"{reason}; give --remap {name}:=/other, or --force")
            qos = self._offered.get(plain, [DEFAULT])[0]
            made = self._node.forward(name, topic.type, topic.hash, qos)
            self._publishers[plain] = (made, self._has_header(topic))
        for publisher, _ in self._publishers.values():
            if self._options.wait_s:
                publisher.wait_for_subscriptions(1, self._options.wait_s)

    def _is_chosen(self, topic: TopicKey) -> bool:
        return not self._options.topics or topic.name in self._options.topics

    def _has_header(self, topic: TopicKey) -> bool:
        """Whether a message begins with a header whose stamp may be set."""
        if self._options.stamps != "now":
            return False
        try:
            fields = self._node.types.message(topic.type, topic.hash).definition.fields
        except UnknownTypeError:
            return False
        return bool(fields) and fields[0].type.base == _HEADER and not fields[0].type.repeat

    def _publish(self, row: dict[str, Value], now_ns: Callable[[], int]) -> None:
        topic = parse_key(str(row["key"])) if row["kind"] == RowKind.PUT else None
        plain = None if topic is None else replace(topic, suffix="")
        known = None if plain is None else self._publishers.get(plain)
        payload = row["payload"]
        if known is None or topic is None or topic.is_device_buffer:
            self.left_out += 1
            return
        assert isinstance(payload, bytes)
        publisher, has_header = known
        source_ns: int | None = None
        if self._options.stamps == "now":
            source_ns = now_ns()
            payload = stamped(payload, source_ns) if has_header else payload
        else:
            attached = row["attachment"]
            found = parse_attachment(attached) if isinstance(attached, bytes) else None
            source_ns = None if found is None else found.source_time_ns
        publisher.publish(payload, source_time=source_ns)
        self.published += 1


def stamped(payload: bytes, now_ns: int) -> bytes:
    """A payload whose header, which comes first, has another stamp.

    Example:
        >>> stamped(bytes.fromhex("00010000 0100000002000000"), 3 * 10**9 + 4).hex(" ", -4)
        '00010000 03000000 04000000'
    """
    order = "<" if payload[1:2] == b"\x01" else ">"
    if len(payload) < 12:
        return payload
    return payload[:4] + struct.pack(f"{order}iI", now_ns // _NS, now_ns % _NS) + payload[12:]
