"""TransportStats: what went through one transport, and every message that did not and why."""

from __future__ import annotations

from typing import Final

PRIORITIES_COUNT: Final = 8


class TransportStats:
    """Counters of one transport. Nothing is dropped without one of them growing.

    `received_messages` is counted by the sink, which alone sees the messages of a frame.
    """

    __slots__ = (
        "blocked",
        "dropped_closed",
        "dropped_congestion",
        "dropped_link",
        "dropped_too_long",
        "lost_fragments",
        "missed_numbers",
        "received_batches",
        "received_frames",
        "received_messages",
        "received_octets",
        "sent_batches",
        "sent_messages",
        "sent_octets",
        "stale_frames",
        "undecodable_batches",
        "undecodable_messages",
    )

    def __init__(self) -> None:
        self.sent_messages = 0
        self.sent_batches = 0
        self.sent_octets = 0
        self.blocked = 0  # REFUSED was answered: the caller knows, nothing is lost
        self.dropped_congestion: list[int] = [0] * PRIORITIES_COUNT  # by priority
        self.dropped_too_long = 0  # longer than a batch where messages are not fragmented
        self.dropped_closed = 0  # sent after close
        self.dropped_link = 0  # batches too long for the only link that is left
        self.received_messages = 0
        self.received_batches = 0
        self.received_octets = 0
        self.received_frames = 0
        self.stale_frames = 0  # FRAMEs and FRAGMENTs that are old or duplicates
        self.missed_numbers = 0  # sequence numbers that never came, or too late
        self.lost_fragments: dict[str, int] = {}  # unfinished messages, by reason
        self.undecodable_messages = 0  # reassembled, but no message
        self.undecodable_batches = 0  # of members of a group; a link would have been closed

    def lose_fragments(self, reason: str) -> None:
        """Count an unfinished message that was given up."""
        self.lost_fragments[reason] = self.lost_fragments.get(reason, 0) + 1

    def as_dict(self) -> dict[str, object]:
        """All counters by name."""
        return {
            "sent_messages": self.sent_messages,
            "sent_batches": self.sent_batches,
            "sent_octets": self.sent_octets,
            "blocked": self.blocked,
            "dropped_congestion": list(self.dropped_congestion),
            "dropped_too_long": self.dropped_too_long,
            "dropped_closed": self.dropped_closed,
            "dropped_link": self.dropped_link,
            "received_messages": self.received_messages,
            "received_batches": self.received_batches,
            "received_octets": self.received_octets,
            "received_frames": self.received_frames,
            "stale_frames": self.stale_frames,
            "missed_numbers": self.missed_numbers,
            "lost_fragments": dict(self.lost_fragments),
            "undecodable_messages": self.undecodable_messages,
            "undecodable_batches": self.undecodable_batches,
        }
