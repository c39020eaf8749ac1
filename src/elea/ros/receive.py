"""Receiver: the samples of a topic become messages; one is decoded when a member is first read.

A fleet publishes the same kind of message over and over: same length, same texts, other numbers. A
payload whose deciding bytes equal those of one that was decoded before (`formats.shapes`) is known
to be legal, and handed over as it came. Every other payload is decoded at once, so that one that is
not legal never reaches a callback.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any, Final

from elea.errors import DecodeError
from elea.lazy_sample import Sample
from elea.provenance import SampleKind

WINDOW_COUNT: Final = 64  # numbers of one publisher that are told apart (R2-254)
PUBLISHERS_COUNT_MAX: Final = 4_096  # whose numbers are remembered; as many keys
MISSES_MAX: Final = 32  # more than so many above the hits: shapes differ, comparing does not pay
AHEAD_NS_MAX: Final = 500_000_000  # source times further ahead are told; stamps of routers alike
_ATTACHED: Final[Any] = Struct("<qqx16s").unpack  # number, source time, gid
_ATTACHMENT_LEN: Final = 33
_GID_LEN: Final = 16
_NEW: Final[Any] = object.__new__


# What a message keeps of its arrival; `formats.messages` reads it: the payload, the key, the
# attachment (empty: none that can be read), the publisher's node, messages lost before it.
Received = tuple[bytes, "Track", bytes, str | None, int]


class Source:
    """One publisher: its highest number, and its last ones."""

    __slots__ = ("highest", "node", "seen")

    def __init__(self, highest: int) -> None:
        self.highest = highest
        self.seen: deque[int] = deque(maxlen=WINDOW_COUNT)
        self.node: str | None = None  # None: its token is not known yet


class Track:
    """One key: what it says of its messages, and how they are decoded.

    Args:
        topic: The fully qualified name of the topic.
        kind: A `MessageType`; None: messages cannot be decoded.
        reason: Why not.
    """

    __slots__ = ("cls", "hash", "hits", "kind", "length", "reason", "spans", "topic", "type")

    def __init__(self, topic: str, type: str, hash: str, kind: Any, reason: str) -> None:
        self.topic = topic
        self.type = type
        self.hash = hash
        self.kind = kind
        self.cls: Any = None if kind is None else kind.cls
        self.reason = reason
        self.hits = 0  # minus the misses
        self.length = -1  # of a payload of the shape; -1: there is none
        self.spans: list[tuple[int, int, bytes]] = []

    def fits(self, payload: bytes) -> bool:
        """Whether a payload has the shape of one that was decoded."""
        if len(payload) != self.length:
            return False
        for start, end, wanted in self.spans:  # noqa: SIM110  # no generator in compiled code
            if payload[start:end] != wanted:
                return False
        return True

    def decode(self, payload: bytes) -> Any:
        """Decode a payload now, and remember its shape.

        Raises:
            DecodeError: it is no message of the type.
        """
        message = self.kind.decode(payload)
        if self.hits > -MISSES_MAX:
            self.hits -= 1
            spans = self.kind.shape(payload)
            self.length = -1 if spans is None else len(payload)
            self.spans = [] if spans is None else list(spans)
        else:
            self.length = -1
        return message


class Receiver:
    """What a subscription does with every sample.

    Args:
        open_track: Gives what is known of a key.
        node_of: The name of the node of a gid, and whether it numbers each group of receivers.
        deliver: Called with each message, or with what `make_raw` made.
        on_failed: Called if `deliver` raised, while the error is handled.
        make_raw: Makes what is delivered of a payload that is not decoded, of `Received` and the
            reason.
        raw: Whether nothing is decoded.
        good_only: Whether messages that could not be decoded are counted and not delivered.
        on_refused: Called with the key and the reason for each sample that could not be read.
        on_ahead: Called with the key and the gid of each message from a clock that is ahead.

    Attributes:
        received: Messages, those that could not be decoded among them.
        undecodable: Messages that could not be decoded.
        lost: Messages of publishers that did not arrive, by their numbers (R2-205).
        attachments_bad: Attachments of another form than rmw_zenoh's (R2-202).
        clocks_ahead: Messages whose source time is ahead of this host's clock by more than
            `AHEAD_NS_MAX`; they are delivered as they came (R2-206).
    """

    __slots__ = (
        "_ahead_ns",
        "_deliver",
        "_good_only",
        "_make_raw",
        "_node_of",
        "_on_ahead",
        "_on_failed",
        "_on_refused",
        "_open_track",
        "_raw",
        "_sources",
        "_tracks",
        "attachments_bad",
        "clocks_ahead",
        "deletes",
        "duplicates",
        "lost",
        "received",
        "undecodable",
    )

    def __init__(
        self,
        open_track: Callable[[str], Track],
        node_of: Callable[[bytes], tuple[str | None, bool]],
        deliver: Callable[[Any], object],
        make_raw: Callable[[Received, str], Any],
        on_refused: Callable[[str, str], object],
        on_failed: Callable[[], object],
        on_ahead: Callable[[str, bytes], object],
        *,
        raw: bool,
        good_only: bool,
    ) -> None:
        self._open_track = open_track
        self._node_of = node_of
        self._deliver = deliver
        self._make_raw = make_raw
        self._on_refused = on_refused
        self._on_failed = on_failed
        self._on_ahead = on_ahead
        self._raw = raw
        self._good_only = good_only
        self._tracks: dict[str, Track] = {}
        self._sources: dict[bytes, Source] = {}
        self._ahead_ns = 0  # a source time up to this one is not ahead; the clock is read seldom
        self.received = 0
        self.undecodable = 0
        self.lost = 0
        self.attachments_bad = 0
        self.clocks_ahead = 0
        self.deletes = 0
        self.duplicates = 0

    def heard(self, sample: Sample) -> None:
        """Take a sample: count it, and deliver its message."""
        if sample.kind is not SampleKind.PUT:
            self.deletes += 1  # R2-226
            return
        key = sample.key_text
        track = self._tracks.get(key)
        if track is None:
            track = self._track(key)
        attachment = sample.attachment
        data = b"" if attachment is None else attachment.to_bytes()
        lost = 0
        node: str | None = None
        if len(data) == _ATTACHMENT_LEN and data[16] == _GID_LEN:
            number, time_ns, gid = _ATTACHED(data)
            source = self._sources.get(gid)
            if source is None:
                source = self._source(gid, number)
            lost = self._count(source, gid, number)
            if lost < 0:
                self.duplicates += 1
                return
            node = source.node
            if time_ns > self._ahead_ns:
                self._check_clock(key, gid, time_ns)
        elif attachment is not None:
            self.attachments_bad += 1
            self._on_refused(key, f"attachment of {len(data)} bytes")
            data = b""
        self.received += 1
        payload = sample.payload.to_bytes()
        if track.fits(payload):
            track.hits += 1
            message = _NEW(track.cls)
            message._received = (payload, track, data, node, lost)
        else:
            message = self._decoded(key, track, payload, data, node, lost)
            if message is None:
                return
        try:
            self._deliver(message)
        except Exception:  # the caller's code: the next message comes all the same (R2-603)
            self._on_failed()

    def _decoded(
        self, key: str, track: Track, payload: bytes, data: bytes, node: str | None, lost: int
    ) -> Any:
        """The message of a payload whose shape is new; None: none is delivered."""
        received = (payload, track, data, node, lost)
        if self._raw:
            return self._make_raw(received, "")
        reason = track.reason
        if track.kind is not None:
            try:
                message = track.decode(payload)
            except DecodeError as error:
                reason = str(error)
            else:
                message._received = received
                return message
        self.undecodable += 1
        self._on_refused(key, reason)
        return None if self._good_only else self._make_raw(received, reason)

    def _check_clock(self, key: str, gid: bytes, time_ns: int) -> None:
        """Count a source time that is ahead of the clock."""
        self._ahead_ns = time.time_ns() + AHEAD_NS_MAX
        if time_ns > self._ahead_ns:
            self.clocks_ahead += 1
            self._on_ahead(key, gid)

    def _track(self, key: str) -> Track:
        if len(self._tracks) >= PUBLISHERS_COUNT_MAX:
            self._tracks.clear()
        track = self._tracks[key] = self._open_track(key)
        return track

    def _source(self, gid: bytes, number: int) -> Source:
        if len(self._sources) >= PUBLISHERS_COUNT_MAX:
            del self._sources[next(iter(self._sources))]
        source = self._sources[gid] = Source(number - 1)
        return source

    def _count(self, source: Source, gid: bytes, number: int) -> int:
        """Messages of a publisher that are missing before this one; -1: it came before."""
        highest = source.highest
        if source.node is None:
            source.node = self._node_of(gid)[0]
        if number > highest:
            source.highest = number
            source.seen.append(number)
            # Publishers with backends number each group of receivers: holes are normal.
            if number == highest + 1 or self._node_of(gid)[1]:
                return 0
            self.lost += number - highest - 1
            return number - highest - 1
        if number in source.seen:
            return -1
        source.seen.append(number)
        return 0
