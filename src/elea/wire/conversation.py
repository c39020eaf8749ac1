"""Conversation: both directions of one link, followed from outside.

Decoding a batch needs what the handshake agreed: whether a compression header stands in front,
whether messages stand outside FRAMEs, and what earlier FRAGMENTs held. A Conversation watches INIT
and OPEN go by and keeps that state, for `elea explain` and for captures. It judges nothing: what a
node must refuse is the transport's business.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from elea.errors import DecodeError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.records import dataclass, field
from elea.wire import compression
from elea.wire.batches import (
    decode_scouting,
    describe_batch,
    describe_network,
    describe_scouting,
    encode_batch,
    encode_scouting,
)
from elea.wire.codec import BatchDecoder, Message, decode_one
from elea.wire.dialect import Dialect
from elea.wire.extensions import Tree
from elea.wire.trace import Trace
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.init import Init
from elea.wire.transport.open import Open

# What follows the largest sequence number of each resolution is 0 (wire.md 5.9).
_SN_WRAPS: Final = frozenset({2**7, 2**14, 2**28, 2**63})


class Direction(Enum):
    """Who sent a batch: the node that dialled, or the one that accepted."""

    INITIATOR = "i2a"
    ACCEPTOR = "a2i"


@dataclass(slots=True)
class Seen:
    """One batch, decoded."""

    batch: bytes
    tree: Tree
    reencoded: bytes
    trace: Trace
    unpacked: bytes  # what the trace's offsets count in, when the batch was compressed
    ignored: int = 0  # octets after an INIT, OPEN or scouting message, which mean nothing


@dataclass(slots=True)
class _Partial:
    """The fragments of an unfinished message, and the number the next one must have."""

    next_sn: int
    data: bytearray = field(default_factory=bytearray)


@dataclass(slots=True)
class _Side:
    """What is remembered of one direction."""

    compression: bool = False
    low_latency: bool = False
    patch: int = 0
    handshaking: bool = True
    partial: dict[tuple[int, bool], _Partial] = field(default_factory=dict)


class Conversation:
    """Follows the batches of one link in the order they were sent."""

    __slots__ = ("_dialect", "_limits", "_sides")

    def __init__(
        self, *, dialect: Dialect = Dialect.ECLIPSE, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._dialect = dialect
        self._limits = limits
        self._sides = {direction: _Side() for direction in Direction}

    def low_latency(self, direction: Direction) -> bool:
        """Whether the next batch of `direction` has the low-latency framing."""
        return self._in_force(direction) and all(one.low_latency for one in self._sides.values())

    def compressed(self, direction: Direction) -> bool:
        """Whether the next batch of `direction` starts with a compression header."""
        return self._in_force(direction) and all(one.compression for one in self._sides.values())

    def batch(
        self,
        data: bytes,
        direction: Direction,
        *,
        bare: bool | None = None,
        trace: Trace | None = None,
    ) -> Seen:
        """Decode the next batch of `direction`.

        Args:
            data: The batch without its length prefix.
            direction: Who sent it.
            bare: Whether network messages may stand outside a FRAME; by default as negotiated.
            trace: Where to note the fields; given, it survives an error.

        Raises:
            DecodeError: if the octets are no batch.
            MissingDependencyError: if it is compressed and lz4 is not installed.
        """
        tree: Tree = {}
        unpacked = data
        packed = bool(data) and self.compressed(direction)
        if packed:
            unpacked = compression.unpack(data, limits=self._limits)
            tree["batch_header"] = data[0]
            if data[0] & compression.FLAG_COMPRESSED:
                tree["decompressed_len"] = len(unpacked)
        trace = Trace() if trace is None else trace
        decoder = BatchDecoder(
            unpacked,
            self._limits,
            self._dialect,
            trace,
            self.low_latency(direction) if bare is None else bare,
        )
        messages: list[Message] = list(iter(decoder.next, None))
        _note_ignored(trace, unpacked, decoder.ignored)
        trees = describe_batch(messages)
        self._reassemble(messages, trees, direction)
        self._watch(messages, direction)
        tree["messages"] = trees
        reencoded = encode_batch(messages, dialect=self._dialect)
        if packed:
            reencoded = self._repack(data, unpacked, reencoded)
        return Seen(data, tree, reencoded, trace, unpacked, decoder.ignored)

    def scouting(self, data: bytes, *, trace: Trace | None = None) -> Seen:
        """Decode a scouting datagram.

        Raises:
            DecodeError: if it holds neither SCOUT nor HELLO.
        """
        trace = Trace() if trace is None else trace
        message = decode_scouting(data, limits=self._limits, dialect=self._dialect, trace=trace)
        tree: Tree = {"messages": [describe_scouting(message)]}
        ignored = len(data) - max(note.stop for note in trace.notes)
        _note_ignored(trace, data, ignored)
        return Seen(data, tree, encode_scouting(message), trace, data, ignored)

    def _in_force(self, direction: Direction) -> bool:
        # Both apply after each side's own OPEN: INIT and OPEN are never packed (wire.md 3.3, 3.4).
        return not self._sides[direction].handshaking

    def _watch(self, messages: list[Message], direction: Direction) -> None:
        side = self._sides[direction]
        for message in messages:
            if isinstance(message, Init):
                side.compression = message.compression
                side.low_latency = message.low_latency
                side.patch = message.patch
                side.handshaking = True
            elif isinstance(message, Open):
                side.handshaking = False

    def _reassemble(self, messages: list[Message], trees: list[Tree], direction: Direction) -> None:
        for message, tree in zip(reversed(messages), reversed(trees), strict=False):
            # A FRAGMENT fills the rest of its batch: only the last message can be one.
            if not isinstance(message, Fragment):
                return
            whole = self._collect(message, self._sides[direction])
            if whole is not None:
                tree["reassembled"] = self._describe_whole(whole)
            return

    def _describe_whole(self, whole: bytes) -> Tree:
        try:
            return describe_network(decode_one(whole, self._limits, self._dialect))
        except DecodeError as error:
            # It costs the peer this message only, not the batch (wire.md 3.6).
            return {"error": {"offset": error.offset, "reason": error.reason}}

    def _collect(self, fragment: Fragment, side: _Side) -> bytes | None:
        """Add a fragment to its message as wire.md 5.10 has it; the message, if it is whole."""
        conduit = (fragment.priority, fragment.reliable)
        partial = side.partial.pop(conduit, None)
        if fragment.drop:
            return None
        if fragment.first:
            partial = None
        if partial is None:
            if not fragment.first and all(one.patch for one in self._sides.values()):
                return None  # the rest of a message whose beginning was lost
            partial = _Partial(fragment.sn)
        if fragment.sn != partial.next_sn and not (
            fragment.sn == 0 and partial.next_sn in _SN_WRAPS
        ):
            return None  # a piece is missing
        partial.next_sn = fragment.sn + 1
        self._check_room(len(partial.data) + len(fragment.payload))
        partial.data += fragment.payload
        if not fragment.more:
            return bytes(partial.data)
        side.partial[conduit] = partial
        return None

    def _check_room(self, length: int) -> None:
        others = sum(len(p.data) for one in self._sides.values() for p in one.partial.values())
        for bound, wanted in (
            (self._limits.message_len, length),
            (self._limits.fragments_len, length + others),
        ):
            if wanted > bound:
                raise DecodeError(f"unfinished messages of more than {bound} octets", 0)

    def _repack(self, data: bytes, unpacked: bytes, reencoded: bytes) -> bytes:
        if not data[0] & compression.FLAG_COMPRESSED:
            return data[:1] + reencoded
        if reencoded == unpacked:
            # The same content: what another compressor made of it stays as it is.
            return data
        return compression.pack(reencoded)


def _note_ignored(trace: Trace, data: bytes, count: int) -> None:
    if count:
        start = len(data) - count
        trace.field(start, len(data), "ignored", data[start:])
        trace.meaning("octets after this message mean nothing")
