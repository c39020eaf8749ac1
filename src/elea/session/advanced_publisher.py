"""AdvancedPublisher: numbers its samples, keeps the last ones, and says that it is there."""

from __future__ import annotations

import struct
import threading
from collections import deque
from typing import Final, Self, final

from elea.encoding import Encoding
from elea.errors import SelectorError
from elea.ids import EntityGlobalId
from elea.keyexpr.keyexpr import KeyExpr
from elea.provenance import TimestampInstrumentation
from elea.qos import CongestionControl, Priority
from elea.query import ReplyKeyExpr
from elea.selector import time_range_of
from elea.session.advanced_config import CacheConfig, MissDetectionConfig
from elea.session.context import Context
from elea.session.convert import (
    IntoEncoding,
    IntoZBytes,
    octets,
    octets_or_none,
    wire_encoding,
    wire_stamp,
)
from elea.session.face import Timer
from elea.session.handlers import Callback
from elea.session.liveliness import LivelinessToken
from elea.session.matching import MatchingStatus
from elea.session.publisher import Publisher
from elea.session.query import Query
from elea.session.queryable import Queryable
from elea.session.session import Session
from elea.timestamp import NTP64, Timestamp
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.shared_extensions import SourceRef

_SN_MASK: Final = 0xFFFF_FFFF


@final
class AdvancedPublisher:
    """A publisher whose subscribers can ask for what they missed.

    Undeclared when nobody refers to it. See `declare_advanced_publisher`.
    """

    __slots__ = (
        "__weakref__",
        "_cache",
        "_eid",
        "_heart",
        "_kind",
        "_lock",
        "_publisher",
        "_queryable",
        "_sn",
        "_token",
        "_zid",
    )

    def __init__(
        self,
        session: Session,
        publisher: Publisher,
        *,
        cache: CacheConfig | None,
        miss_detection: MissDetectionConfig | None,
        detection: bool,
    ) -> None:
        self._publisher = publisher
        self._lock = threading.Lock()  # numbers and samples go out in one order
        self._sn: int | None = None if miss_detection is None else 0
        self._eid = publisher.id.eid
        self._zid = session.zid().to_bytes()
        name = "uhlc" if miss_detection is None else str(self._eid)
        own_key = f"{publisher.key_expr}/@adv/pub/{session.zid()}/{name}/_"
        self._cache: _Cache | None = None
        self._queryable: Queryable[None] | None = None
        self._token: LivelinessToken | None = None
        self._heart: _Heart | None = None
        if cache is not None:
            self._cache = _Cache(publisher, cache)
            answer = Callback(self._cache.answer, indirect=False)
            self._queryable = session.declare_queryable(own_key, answer)
            self._queryable._in_background = False
        if detection:
            self._token = session.liveliness().declare_token(own_key)
        if miss_detection is not None and miss_detection.period_ns:
            beats = session.declare_publisher(
                own_key,
                congestion_control=CongestionControl.BLOCK if miss_detection.sporadic else None,
            )
            self._heart = _Heart(beats, miss_detection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object, **_kwargs: object) -> None:
        self.undeclare()

    @property
    def id(self) -> EntityGlobalId:
        """Its identity."""
        return self._publisher.id

    @property
    def key_expr(self) -> KeyExpr:
        """The key it publishes on."""
        return self._publisher.key_expr

    @property
    def encoding(self) -> Encoding:
        """How its payloads are to be read, unless a `put` says otherwise."""
        return self._publisher.encoding

    @property
    def congestion_control(self) -> CongestionControl:
        """What happens to its samples where a queue is full."""
        return self._publisher.congestion_control

    @property
    def priority(self) -> Priority:
        """The priority of its samples."""
        return self._publisher.priority

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are subscribers for its key."""
        return self._publisher.matching_status

    def put(
        self,
        /,
        payload: IntoZBytes,
        *,
        encoding: IntoEncoding | None = None,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> None:
        """Publish a value; raises as `Publisher.put`."""
        known = wire_encoding(self._publisher.encoding if encoding is None else encoding)
        body = Put(octets(payload), wire_stamp(timestamp), known, octets_or_none(attachment))
        self._publish(body, timestamp_instrumentation)

    def delete(
        self,
        /,
        *,
        attachment: IntoZBytes | None = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
    ) -> None:
        """Publish the end of the key's value; raises as `Publisher.delete`."""
        body = Del(wire_stamp(timestamp), octets_or_none(attachment))
        self._publish(body, timestamp_instrumentation)

    def undeclare(self, /) -> None:
        """End it, its cache, its token and its heartbeat.

        Raises:
            ClosedError: it was undeclared before.
        """
        self._publisher.undeclare()
        for part in (self._queryable, self._token, self._heart):
            if part is not None:
                part.undeclare()

    def _publish(self, body: Put | Del, instrumentation: TimestampInstrumentation | None) -> None:
        with self._lock:
            if self._sn is not None:
                body.source = SourceRef(self._zid, self._eid, self._sn)
            self._publisher.send(body, instrumentation)
            if self._cache is not None:
                self._cache.keep(body)
            if self._sn is not None:
                if self._heart is not None:
                    self._heart.last_sn = self._sn
                self._sn = (self._sn + 1) & _SN_MASK

    def __repr__(self) -> str:
        return f"AdvancedPublisher({self._publisher!r})"


class _Cache:
    """The last samples of a publisher, and how they are asked for."""

    def __init__(self, publisher: Publisher, config: CacheConfig) -> None:
        self._key = publisher.key_expr
        self._wall_ns = publisher._context.driver.wall_ns
        self._express = config.replies_config.express
        self._kept: deque[Put | Del] = deque(maxlen=config.max_samples)

    def keep(self, body: Put | Del) -> None:
        self._kept.append(body)

    def answer(self, query: Query) -> None:
        """`_sn` chooses by number, `_time` by time, `_max` the newest of these."""
        with query:
            if query.accepts_replies() is not ReplyKeyExpr.ANY:
                return  # all it has is on another key than the question's
            try:
                chosen = self._choose(query)
            except (SelectorError, ValueError) as error:
                query.reply_err(str(error))
                return
            # A deletion is answered as one. Eclipse answers it as an empty PUT, but its subscribers
            # take either, and only this one tells a late joiner that the value is gone.
            for body in chosen:
                query.answer(self._key, body, express=self._express)

    def _choose(self, query: Query) -> list[Put | Del]:
        parameters = query.parameters
        kept = list(self._kept)
        numbers = parameters.get("_sn")
        if numbers is not None:
            first, last = _number_range(numbers)
            kept = [one for one in kept if one.source and first <= one.source.sn <= last]
        span = time_range_of(parameters)
        if span is not None:
            now_ns = self._wall_ns()
            kept = [
                one
                for one in kept
                if one.timestamp is None
                or span.contains(NTP64.from_value(one.timestamp.time), now_ns)
            ]
        newest = parameters.get("_max")
        return kept if newest is None else kept[max(0, len(kept) - int(newest)) :]


def _number_range(text: str) -> tuple[int, int]:
    """`a..b`, `a..`, `..b`; both ends belong to it."""
    first, dots, last = text.partition("..")
    last = last.removeprefix("=")
    if not dots:
        last = first
    return int(first or 0), int(last or _SN_MASK)


class _Heart:
    """Tells the number of the last sample, again and again."""

    __slots__ = ("_beats", "_pulse")

    def __init__(self, beats: Publisher, config: MissDetectionConfig) -> None:
        self._beats = beats
        context = beats._context
        self._pulse = _Pulse(context, beats, config)
        context.call(self._pulse.start)

    @property
    def last_sn(self) -> int | None:
        return self._pulse.last_sn

    @last_sn.setter
    def last_sn(self, sn: int) -> None:
        self._pulse.last_sn = sn

    def undeclare(self) -> None:
        self._pulse.stopped = True
        self._beats.undeclare()

    def __del__(self) -> None:
        self._pulse.stopped = True


class _Pulse:
    """The timer of a heart; it refers to nothing that refers to the publisher."""

    __slots__ = (
        "_core",
        "_key",
        "_period_ns",
        "_qos",
        "_sporadic",
        "_timer",
        "_told_sn",
        "last_sn",
        "stopped",
    )

    def __init__(self, context: Context, beats: Publisher, config: MissDetectionConfig) -> None:
        self._core = context.core
        self._key = beats._lane.key
        self._qos = beats._lane.qos
        self._period_ns = config.period_ns
        self._sporadic = config.sporadic
        self._told_sn: int | None = None
        self._timer: Timer | None = None
        self.last_sn: int | None = None
        self.stopped = False

    def start(self) -> None:
        self._timer = self._core.face.call_after(self._period_ns, self._beat)

    def _beat(self) -> None:
        """Under the lock."""
        if self.stopped or self._core.face.closed:
            return
        sn = self.last_sn
        if sn is not None and not (self._sporadic and sn == self._told_sn):
            self._told_sn = sn
            self._core.beat(self._key, struct.pack("<I", sn), self._qos)
        self.start()
