"""Backlog: messages that found no room at a neighbour and may not be dropped. behaviour.md 2.5.

Each priority has a line of its own, so that one which is stuck holds up no other. Whoever sent a
message that stands here waits; nothing of its priority goes before it, blocking or not: order is
promised per priority, and a message that may be dropped is dropped rather than let past.

A session that sent such a message waits by itself. A neighbour does not: past `backlog_len` the
links that its messages come from are not read until half of it is gone (threat T28).
"""

from __future__ import annotations

from collections import deque
from typing import Final

from elea.answers import DROPPED, QUEUED, REFUSED
from elea.records import dataclass, field
from elea.transport.multicast import GroupTransport
from elea.transport.unicast import Transport
from elea.wire.codec import NetworkMessage
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.data.reply import Reply
from elea.wire.network.push import Push
from elea.wire.network.response import Response

_MESSAGE_LEN: Final = 256  # of a message without its payload
_PRIORITY: Final = 0x07
_BLOCK: Final = 0x08
_BLOCK_FIRST: Final = 0x20


@dataclass(slots=True)
class _Line:
    since_ns: int  # when it last moved
    messages: deque[tuple[NetworkMessage, bool]] = field(default_factory=deque)


class Backlog:
    """What waits for one neighbour, or for one group."""

    __slots__ = ("_lines", "_transport", "pending_len", "sources")

    def __init__(self, transport: Transport | GroupTransport) -> None:
        self._transport = transport
        self.pending_len = 0  # octets that wait, as far as payloads count
        self.sources: dict[int, None] = {}  # links that are not read until there is room
        self._lines: dict[int, _Line] = {}  # by priority; never an empty one

    def __len__(self) -> int:
        return len(self._lines)

    def send(self, message: NetworkMessage, reliable: bool, now_ns: int) -> int:
        """Give a message to the transport, or let it wait or drop it behind those that wait."""
        line = self._lines.get(self._lane(message))
        if line is None:
            result = self._transport.send(message, reliable, now_ns)
            if result != REFUSED:
                return result
            line = self._lines[self._lane(message)] = _Line(now_ns)
            line.messages.append((message, reliable))
            self.pending_len += _weight(message)
            return QUEUED
        # Of those that block if they are the first of their kind, one may wait.
        if message.qos & _BLOCK or (
            message.qos & _BLOCK_FIRST
            and not any(one.qos & _BLOCK_FIRST for one, _ in line.messages)
        ):
            line.messages.append((message, reliable))
            self.pending_len += _weight(message)
            return QUEUED
        self._transport.stats.dropped_congestion[message.qos & _PRIORITY] += 1
        return DROPPED

    def has_room(self, qos: int) -> bool:
        """Whether a message of this quality would neither wait nor be dropped now."""
        lane = qos & _PRIORITY if self._transport.qos else 0
        return lane not in self._lines and self._transport.queues.has_room(qos)

    def retry(self, now_ns: int) -> None:
        """Something was written, so there may be room again."""
        if self._transport.pending_len > self._transport.queue_len // 2:
            # Whoever waits is let go on when there is work for a while, not batch by batch.
            self.moved(now_ns)
            return
        for lane, line in list(self._lines.items()):
            while line.messages:
                message, reliable = line.messages[0]
                if self._transport.send(message, reliable, now_ns) == REFUSED:
                    break
                line.messages.popleft()
                self.pending_len -= _weight(message)
                line.since_ns = now_ns
            if not line.messages:
                del self._lines[lane]

    def moved(self, now_ns: int) -> None:
        """What was written before is on its way: the neighbour is slow, but takes something."""
        for line in self._lines.values():
            line.since_ns = now_ns

    def stuck_since_ns(self) -> int | None:
        """Since when the line that moved least recently has not moved."""
        if not self._lines:
            return None
        return min(line.since_ns for line in self._lines.values())

    def waiting_count(self) -> int:
        """How many messages wait."""
        return sum(len(line.messages) for line in self._lines.values())

    def clear(self) -> None:
        """Nobody waits any more: what did is dropped."""
        self._transport.stats.dropped_closed += self.waiting_count()
        self._lines.clear()
        self.pending_len = 0

    def _lane(self, message: NetworkMessage) -> int:
        return message.qos & _PRIORITY if self._transport.qos else 0


def _weight(message: NetworkMessage) -> int:
    """About what a message holds in memory."""
    body = message.body if isinstance(message, (Push, Response)) else None
    if isinstance(body, Reply):
        body = body.body
    return _MESSAGE_LEN + (len(body.payload) if isinstance(body, (Put, Err)) else 0)
