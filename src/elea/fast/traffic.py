"""KeyTraffic: messages and bytes received per key, counted while an operator asks for them.

The fast path adds to the counter that its remembered aim holds, once for a run of samples with the
same key and without a look-up. While nobody asks, all aims hold one counter that nobody reads.
Counting begins and ends by a new `generation`, at which receivers forget their aims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

OTHERS: Final = ""  # in place of a key: all keys beyond the limit


class KeyCount:
    """What was received on one key."""

    __slots__ = ("last_ns", "messages", "octets")

    def __init__(self) -> None:
        self.messages: i64 = 0
        self.octets: i64 = 0  # of samples as they travelled: head, payload, attachment
        self.last_ns: i64 = 0

    def add(self, messages: i64, octets: i64, now_ns: i64) -> None:
        """Count samples that came together."""
        self.messages += messages
        self.octets += octets
        self.last_ns = now_ns


class KeyTraffic:
    """The counters of a node. Used under the node's lock.

    Args:
        keys_count: Keys with a counter of their own; further keys share one.
        keep_ns: How long counting goes on after it was asked for last.
    """

    __slots__ = (
        "_counts",
        "_keep_ns",
        "_keys_count",
        "_others",
        "_spare",
        "active",
        "generation",
        "since_ns",
        "until_ns",
    )

    def __init__(self, keys_count: int, keep_ns: int) -> None:
        self._keys_count = keys_count
        self._keep_ns = keep_ns
        self._counts: dict[str, KeyCount] = {}
        self._others = KeyCount()
        self._spare = KeyCount()  # what nobody reads
        self.active = False
        self.generation: i64 = 0
        self.since_ns: i64 = 0
        self.until_ns: i64 = 0

    def want(self, now_ns: i64) -> None:
        """Count from now on, or go on counting."""
        if self.active and now_ns >= self.until_ns:
            self.stop()
        self.until_ns = now_ns + self._keep_ns
        if not self.active:
            self.active = True
            self.since_ns = now_ns
            self.generation += 1

    def stop(self) -> None:
        """Count no more, and forget the counters."""
        self.active = False
        self.generation += 1
        self._counts = {}
        self._others = KeyCount()

    def of(self, key: str) -> KeyCount:
        """The counter of a key, to be remembered until `generation` changes."""
        if not self.active:
            return self._spare
        count = self._counts.get(key)
        if count is None:
            if len(self._counts) >= self._keys_count:
                return self._others
            count = self._counts[key] = KeyCount()
        return count

    def counts(self) -> list[tuple[str, int, int, int]]:
        """Key, messages, bytes and time of the last message of every counter that is not 0."""
        found = [
            (key, int(one.messages), int(one.octets), int(one.last_ns))
            for key, one in self._counts.items()
            if one.messages
        ]
        rest = self._others
        if rest.messages:
            found.append((OTHERS, int(rest.messages), int(rest.octets), int(rest.last_ns)))
        return found
