"""Asking who is there, and answering. wire.md 4, behaviour.md 1.13, threat T11.

A Scouter sends SCOUT at once and then after 1, 2, 4, 8, 8 ... seconds. A Responder answers a SCOUT
that asks for its role with one HELLO, at a bounded rate: whoever forges addresses cannot use it to
flood somebody else. Datagrams that are no scouting message are ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from elea.errors import DecodeError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.wire.batches import ScoutingMessage, decode_scouting, encode_scouting
from elea.wire.scouting.hello import Hello
from elea.wire.scouting.scout import Scout

SECOND_NS: Final = 1_000_000_000
PERIOD_MAX_NS: Final = 8 * SECOND_NS


class Scouter:
    """Looks for nodes.

    Args:
        what: The wanted roles as bits: 1 router, 2 peer, 4 client.
        zid: Who is asking; its own answers are ignored.
        now_ns: The time.
        limits: The node's bounds.

    Example:
        >>> scouter = Scouter(what=3, zid=b"a", now_ns=0)
        >>> scouter.handle_timer(now_ns=0)
        b'\\x01\\t\\x03'
        >>> scouter.next_timer_ns()
        1000000000
    """

    __slots__ = ("_limits", "_next_ns", "_period_ns", "_what", "_zid")

    def __init__(
        self, what: int, zid: bytes, now_ns: int, *, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._what = what
        self._zid = zid
        self._limits = limits
        self._next_ns = now_ns
        self._period_ns = SECOND_NS

    def next_timer_ns(self) -> int:
        """When to ask again."""
        return self._next_ns

    def handle_timer(self, now_ns: int) -> bytes | None:
        """The datagram to send to the group now, if it is time."""
        if now_ns < self._next_ns:
            return None
        self._next_ns = now_ns + self._period_ns
        self._period_ns = min(2 * self._period_ns, PERIOD_MAX_NS)
        return encode_scouting(Scout(self._what))

    def receive(self, datagram: bytes) -> Hello | None:
        """A datagram that came back: the HELLO of a wanted node, or None."""
        message = _decode(datagram, self._limits)
        if not isinstance(message, Hello) or message.zid == self._zid:
            return None
        return message if self._what >> message.whatami & 1 else None


class Responder:
    """Answers those who look.

    Args:
        zid: This node.
        whatami: Its role.
        limits: The node's bounds: answers per second, in all and per address.
    """

    __slots__ = ("_limits", "_sources", "_total", "_whatami", "_zid", "refused")

    def __init__(self, zid: bytes, whatami: int, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._zid = zid
        self._whatami = whatami
        self._limits = limits
        self._total = _Rate(limits.scout_replies_count)
        self._sources: dict[str, _Rate] = {}
        self.refused = 0  # datagrams left without an answer because there were too many

    def receive(
        self,
        datagram: bytes,
        address: str,
        locators: Callable[[], tuple[str, ...]],
        now_ns: int,
    ) -> bytes | None:
        """The answer to a datagram, if it deserves one.

        Args:
            datagram: What arrived.
            address: Where from, without port: what the rate is counted by.
            locators: Gives how the asker can reach this node; loopback only for askers on
                loopback. Called if there is an answer.
            now_ns: The time.
        """
        source = self._sources.get(address)
        if not self._total.has_room(now_ns) or (source and not source.has_room(now_ns)):
            self.refused += 1  # before it is read: a flood shall cost little
            return None
        message = _decode(datagram, self._limits)
        if not isinstance(message, Scout) or not message.what >> self._whatami & 1:
            return None
        if message.zid == self._zid:
            return None
        if not self._may_answer(address, now_ns):
            self.refused += 1
            return None
        return self._hello(locators())

    def _hello(self, locators: tuple[str, ...]) -> bytes:
        locators = locators[: self._limits.locators_count]
        answer = encode_scouting(Hello(self._zid, self._whatami, locators))
        while len(answer) > self._limits.hello_len and locators:
            locators = locators[:-1]
            answer = encode_scouting(Hello(self._zid, self._whatami, locators))
        return answer

    def _may_answer(self, address: str, now_ns: int) -> bool:
        source = self._sources.get(address)
        if source is None:
            self._forget(now_ns)
            if len(self._sources) >= self._limits.scout_sources_count:
                return False
            source = _Rate(self._limits.scout_replies_source_count)
        if not source.has_room(now_ns) or not self._total.has_room(now_ns):
            return False
        self._sources[address] = source
        source.count += 1
        self._total.count += 1
        return True

    def _forget(self, now_ns: int) -> None:
        """Drop addresses whose last second is over, oldest first."""
        for address in list(self._sources):
            if not self._sources[address].over(now_ns):
                return
            del self._sources[address]


class _Rate:
    """How many of so many per second were used."""

    __slots__ = ("_bound", "_start_ns", "count")

    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._start_ns: int | None = None
        self.count = 0

    def over(self, now_ns: int) -> bool:
        return self._start_ns is None or now_ns >= self._start_ns + SECOND_NS

    def has_room(self, now_ns: int) -> bool:
        if self.over(now_ns):
            self._start_ns = now_ns
            self.count = 0
        return self.count < self._bound


def _decode(datagram: bytes, limits: Limits) -> ScoutingMessage | None:
    try:
        return decode_scouting(datagram, limits=limits)
    except DecodeError:
        return None
