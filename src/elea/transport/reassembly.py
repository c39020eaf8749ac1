"""Fragments back to one message, bounded in octets and time. wire.md 5.10, threat T05.

Per conduit at most one message is under way. The rules follow the table of wire.md: with patch 1
the First marker begins a message and Drop ends it unfinished; without, any fragment may begin one.
A missing piece costs the message, never the link.
"""

from __future__ import annotations

from typing import Final

from elea.limits import Limits
from elea.transport.sequence import following
from elea.transport.stats import TransportStats
from elea.wire.buffer import Piece
from elea.wire.transport.fragment import Fragment

SMALL_LEN: Final = 4_096  # shorter pieces are gathered in one buffer

BROKEN: Final = "a piece is missing"
HEADLESS: Final = "its beginning is missing"
ABANDONED: Final = "its sender gave up"
TOO_LONG: Final = "longer than message_len"
CROWDED: Final = "no room in fragments_len"
CROWDED_NODE: Final = "no room in fragments_node_len"
IDLE: Final = "no piece for fragment_idle_ns"


class _Chain:
    """The pieces of one unfinished message."""

    __slots__ = ("conduit", "expected_sn", "length", "owner", "pieces", "touched_ns")

    def __init__(
        self, owner: Reassembly, conduit: tuple[int, bool], expected_sn: int, now_ns: int
    ) -> None:
        self.owner = owner
        self.conduit = conduit
        self.expected_sn = expected_sn
        self.length = 0
        self.pieces: list[Piece] = []
        self.touched_ns = now_ns

    def append(self, payload: bytes | memoryview) -> None:
        self.length += len(payload)
        if len(payload) >= SMALL_LEN:
            self.pieces.append(payload)
            return
        # An object per octet would cost a hundred times what the bounds count.
        last = self.pieces[-1] if self.pieces else None
        if isinstance(last, bytearray):
            last += payload
        else:
            self.pieces.append(bytearray(payload))


class FragmentPool:
    """What all conversations of a node hold for unfinished messages, together (T05).

    Many neighbours, each within its own bound, could still fill the memory: past the bound of the
    node, the message that had no news for longest is given up, whoever sent it.
    """

    __slots__ = ("_chains", "_len_max", "pending_len")

    def __init__(self, len_max: int) -> None:
        self._len_max = len_max
        self._chains: dict[_Chain, int] = {}  # octets held; the one touched longest ago first
        self.pending_len = 0

    def __len__(self) -> int:
        return len(self._chains)

    def grew(self, chain: _Chain, length: int) -> None:
        """A chain got a piece: it is the newest; the oldest goes if there is too much."""
        self._chains[chain] = self._chains.pop(chain, 0) + length
        self.pending_len += length
        while self.pending_len > self._len_max:
            oldest = next(iter(self._chains))
            oldest.owner.give_up(oldest.conduit, CROWDED_NODE)

    def forget(self, chain: _Chain) -> None:
        """A chain is whole, or given up."""
        self.pending_len -= self._chains.pop(chain, 0)


class Reassembly:
    """The unfinished messages of one direction of one conversation."""

    __slots__ = ("_chains", "_limits", "_mask", "_patch", "_pool", "_stats", "pending_len")

    def __init__(
        self,
        *,
        mask: int,
        patch: int,
        limits: Limits,
        stats: TransportStats,
        pool: FragmentPool | None = None,
    ) -> None:
        self._pool = FragmentPool(limits.fragments_node_len) if pool is None else pool
        self._mask = mask
        self._patch = patch
        self._limits = limits
        self._stats = stats
        self._chains: dict[tuple[int, bool], _Chain] = {}  # the one touched longest ago first
        self.pending_len = 0  # octets held for unfinished messages

    def add(self, fragment: Fragment, now_ns: int) -> list[Piece] | None:
        """Take a fragment whose number was accepted; the pieces of the message it ends, if any."""
        return self.add_piece(
            fragment.priority,
            fragment.reliable,
            fragment.sn,
            fragment.payload,
            now_ns,
            more=fragment.more,
            first=fragment.first,
            drop=fragment.drop,
        )

    def add_piece(
        self,
        priority: int,
        reliable: bool,
        sn: int,
        payload: bytes | memoryview,
        now_ns: int,
        *,
        more: bool,
        first: bool = False,
        drop: bool = False,
    ) -> list[Piece] | None:
        """`add`, without the object. A view keeps its batch alive until the message is whole."""
        conduit = (priority, reliable)
        chain = self._begin(conduit, sn, now_ns, first=first, drop=drop)
        if chain is None:
            return None
        if sn != chain.expected_sn:
            self.give_up(conduit, BROKEN)
            return None
        if chain.length + len(payload) > self._limits.message_len:
            self.give_up(conduit, TOO_LONG)
            return None
        # Last in the order of touching: who waits longest is the first to go.
        self._chains[conduit] = self._chains.pop(conduit)
        chain.expected_sn = following(sn, self._mask)
        chain.touched_ns = now_ns
        chain.append(payload)
        self.pending_len += len(payload)
        if not more:
            self._forget(conduit)
            return chain.pieces
        self._pool.grew(chain, len(payload))
        while self.pending_len > self._limits.fragments_len:
            self.give_up(next(iter(self._chains)), CROWDED)
        return None

    def next_timer_ns(self) -> int | None:
        """When the oldest unfinished message dies."""
        for chain in self._chains.values():
            return chain.touched_ns + self._limits.fragment_idle_ns
        return None

    def handle_timer(self, now_ns: int) -> None:
        """Give up messages that had no news for too long."""
        while self._chains:
            conduit, chain = next(iter(self._chains.items()))
            if now_ns < chain.touched_ns + self._limits.fragment_idle_ns:
                return
            self.give_up(conduit, IDLE)

    def clear(self) -> None:
        """Give everything up to make room for others."""
        while self._chains:
            self.give_up(next(iter(self._chains)), CROWDED)

    def forget_all(self) -> None:
        """The conversation is over: nothing waits for its end any more."""
        for conduit in list(self._chains):
            self._forget(conduit)

    def give_up(self, conduit: tuple[int, bool], reason: str) -> None:
        """Drop an unfinished message, and count it."""
        self._forget(conduit)
        self._stats.lose_fragments(reason)

    def _begin(
        self, conduit: tuple[int, bool], sn: int, now_ns: int, *, first: bool, drop: bool
    ) -> _Chain | None:
        """The chain that a fragment continues or begins; None if it does neither."""
        chain = self._chains.get(conduit)
        if self._patch >= 1:
            if chain is not None and (first or drop):
                self.give_up(conduit, ABANDONED if drop else BROKEN)
                chain = None
            if drop:
                return None
            if chain is None and not first:
                self._stats.lose_fragments(HEADLESS)
                return None
        if chain is None:
            chain = self._chains[conduit] = _Chain(self, conduit, sn, now_ns)
        return chain

    def _forget(self, conduit: tuple[int, bool]) -> None:
        chain = self._chains.pop(conduit)
        self.pending_len -= chain.length
        self._pool.forget(chain)
