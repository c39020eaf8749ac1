"""Space: what devices want done in the data space, and what it has to tell them (18.2, 18.3).

All of it is done on the session of a node, by the thread of the hub. What comes from the session's
threads only gets in the hub's line.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol

from elea.devices.bridged import CACHE, BridgedTopics
from elea.devices.describe import Description
from elea.devices.follow import Follow
from elea.devices.hub import Hub
from elea.devices.persistent import PersistentStore
from elea.encoding import Encoding
from elea.errors import (
    ClosedError,
    EleaError,
    InvalidValueError,
)
from elea.ids import EntityGlobalId, EntityId
from elea.keyexpr.keyexpr import KeyExpr
from elea.limits import Limits
from elea.parameters import Parameters
from elea.predicate.evaluate import compile_predicate
from elea.predicate.payload import PayloadFields
from elea.predicate.projection import filter_of
from elea.provenance import SampleKind, SourceInfo
from elea.qos import CongestionControl, Priority
from elea.query import ConsolidationMode, QueryConsolidation, QueryTarget, ReplyKeyExpr
from elea.sample import Reply
from elea.sample import Sample as SpaceSample
from elea.selector import Selector, time_range_of
from elea.session.context import Declared
from elea.session.handlers import Callback
from elea.session.matching import MatchingStatus
from elea.session.query import Query
from elea.session.session import Session
from elea.xrce.gateway.effects import (
    Ask,
    Describe,
    Effect,
    Joined,
    Left,
    Lost,
    Put,
    Subscribe,
    Undescribe,
    Unsubscribe,
    Unwatch,
    Watch,
)
from elea.xrce.names import from_key
from elea.xrce.qualities import PROPERTY_NAME, Level
from elea.xrce.samples.durability import DurableStore
from elea.xrce.samples.sample import Sample

_LOG: Final = logging.getLogger("elea.devices")
ROOT: Final = "@xrce"
TOPICS: Final = "dds"  # below the gateway's root: tokens of topics that devices describe
_SLASH: Final = "§"  # stands for a slash in a chunk
_ENTITIES: Final = 1 << 31  # numbers of devices, beyond those of the session's own entities
_SN_MASK: Final = 0xFFFF_FFFF
_SEEN_COUNT: Final = 64  # samples that may come once more, for another subscriber
_ITEM_LEN: Final = 512  # what one in the line costs beside its payload


@dataclass(slots=True)
class SpaceCounters:
    """What went between devices and the data space."""

    put: int = 0
    told: int = 0  # samples of others
    dropped: int = 0  # samples of others that found the line full, or have no plain key
    queries: int = 0
    queries_refused: int = 0  # they found the line full
    replies: int = 0
    asked: int = 0
    answers_dropped: int = 0  # beyond what one question may bring


@dataclass(slots=True)
class _Present:
    """A device in the data space."""

    token: Declared
    number: int  # of its entity
    entity: EntityGlobalId | None = None  # from its first sample on
    sn: int = 0


class _Ends(Protocol):
    def undeclare(self) -> None: ...


class Space:
    """Does on a session what a gateway wants done.

    Args:
        session: Of the node.
        hub: Whose thread calls `act`.
        bridged: What bridges tell of DDS topics.
        key_exprs: The keys that queries are answered for.
        transient: What is kept in memory.
        persistent: What is kept on disk, and made sure of before devices are answered.
    """

    def __init__(
        self,
        session: Session,
        hub: Hub,
        bridged: BridgedTopics,
        *,
        key_exprs: tuple[str, ...],
        limits: Limits,
        transient: DurableStore | None = None,
        persistent: PersistentStore | None = None,
        describe: Description,
    ) -> None:
        self.counters = SpaceCounters()
        self._session = session
        self._hub = hub
        self._bridged = bridged
        self._gateway = hub.gateway
        self._limits = limits
        self._persistent = persistent
        self._describe = describe
        self._zid = session.zid()
        self._root = f"{ROOT}/{self._zid}"
        self._devices: dict[bytes, _Present] = {}
        self._entities: set[int] = set()
        self._next_entity = _ENTITIES
        self._subscribers: dict[str, Declared] = {}
        self._watched: dict[str, _Watched] = {}
        self._topics: dict[str, Declared] = {}  # tokens of resources that devices describe
        self._seen: deque[SpaceSample] = deque(maxlen=_SEEN_COUNT)
        stores = [one for one in (transient, persistent) if one is not None]
        self._follow = Follow(stores, self._subscribe)
        if persistent is not None:
            self._follow.begin(persistent.keys())
        self._queryables: list[Declared] = []
        questions = Callback(self._asked, indirect=False)
        for key_expr in dict.fromkeys((*key_exprs, f"{self._root}/**")):
            self._queryables.append(session.declare_queryable(key_expr, questions))

    def close(self) -> None:
        """Take back all that was declared; the hub has ended."""
        declared: list[_Ends] = [*self._queryables, *self._subscribers.values()]
        declared += self._follow.declared()
        declared += [one.token for one in self._devices.values()]
        declared += self._watched.values()
        declared += self._topics.values()
        for one in declared:
            with suppress(ClosedError):  # the session went first
                one.undeclare()

    # By the hub: effects.

    def settle(self) -> bool:
        """Return when what is persistent is on disk; False: not all of it is."""
        return self._persistent is None or self._persistent.flush()

    def act(self, effect: Effect) -> None:
        """Do what the gateway wants done."""
        match effect:
            case Put():
                self._put(effect)
            case Joined():
                self._joined(effect.pid)
            case Left():
                self._left(effect)
            case Lost():
                _log_losses(effect)
            case Subscribe():
                known = self._follow.take(effect.key_expr)
                self._subscribers[effect.key_expr] = known or self._subscribe(effect.key_expr)
            case Unsubscribe():
                self._follow.keep(effect.key_expr, self._subscribers.pop(effect.key_expr))
            case Watch():
                self._watched[effect.key_expr] = _Watched(self, effect.key_expr)
            case Unwatch():
                self._watched.pop(effect.key_expr).undeclare()
            case Ask():
                self._ask(effect)
            case Describe():
                self._describe_topic(effect.key_expr)
            case Undescribe():
                self._topics.pop(effect.key_expr).undeclare()

    def _describe_topic(self, key: str) -> None:
        """Tell bridges of a resource that a device describes as a topic of DDS (D-736)."""
        token = KeyExpr(f"{self._root}/{TOPICS}/{key.replace('/', _SLASH)}")
        self._topics[key] = self._session.liveliness().declare_token(token)

    def _subscribe(self, key_expr: str) -> Declared:
        # A KeyExpr, because texts are remembered as legal, and these do not come again.
        told = Callback(self._take, indirect=False)
        return self._session.declare_subscriber(KeyExpr(key_expr), told)

    def _joined(self, pid: bytes) -> None:
        known = self._devices.pop(pid, None)
        if known is not None:  # it began anew before the end of its last session was told
            known.token.undeclare()
        key_expr = KeyExpr(f"{self._root}/session/{pid.hex()}")
        token = self._session.liveliness().declare_token(key_expr)
        number = self._next_entity
        self._entities.add(number)
        self._next_entity = number + 1 if number < _SN_MASK else _ENTITIES
        self._devices[pid] = _Present(token, number)

    def _left(self, effect: Left) -> None:
        known = self._devices.pop(effect.pid, None)
        if known is not None:
            self._entities.discard(known.number)
            known.token.undeclare()
        self._describe.left(effect)

    def _put(self, effect: Put) -> None:
        sample = effect.sample
        device = self._devices[effect.pid]
        if device.entity is None:
            device.entity = EntityGlobalId(self._zid, EntityId(device.number))
        source = SourceInfo(device.entity, device.sn)
        device.sn = (device.sn + 1) & _SN_MASK
        control = CongestionControl.BLOCK if sample.reliable else CongestionControl.DROP
        self.counters.put += 1
        if sample.level and sample.key not in self._subscribers:
            self._follow.note(sample.key)
        if sample.deleted:
            self._session.delete(
                sample.key,
                congestion_control=control,
                timestamp=sample.timestamp,
                source_info=source,
            )
            return
        self._session.put(
            sample.key,
            sample.payload,
            encoding=sample.encoding,
            congestion_control=control,
            priority=_priority(sample.priority),
            timestamp=sample.timestamp,
            source_info=source,
        )

    # By threads of the session: samples of others.

    def _take(self, sample: SpaceSample) -> None:
        if self._is_ours(sample.source_info):
            return  # a device wrote it, and the gateway has told the others
        if not self._hub.call(lambda now_ns: self._tell(sample, now_ns), _length(sample)):
            self.counters.dropped += 1

    def _is_ours(self, source: SourceInfo | None) -> bool:
        return (
            source is not None
            and source.source_id.eid in self._entities
            and source.source_id.zid == self._zid
        )

    def _tell(self, sample: SpaceSample, now_ns: int) -> None:
        # Subscriptions may overlap; each hands over the same sample, one right after the other.
        if any(one is sample for one in self._seen):
            return
        self._seen.append(sample)
        told = self._sample(sample)
        if told is None:
            self.counters.dropped += 1
            return
        self.counters.told += 1
        self._gateway.put(told, now_ns)
        if told.deleted:
            self._follow.deleted(told.key)

    def _sample(self, sample: SpaceSample) -> Sample | None:
        """A sample as devices are told it; None if its key is none of one resource."""
        if "*" in sample.key_text:
            return None
        try:
            return Sample.of_key(
                sample.key_text,
                sample.payload.to_bytes(),
                sample.timestamp or self._session.new_timestamp(),
                encoding=sample.encoding,
                deleted=sample.kind is SampleKind.DELETE,
                level=self._bridged.level_of(sample.key_text),
            )
        except InvalidValueError:  # devices have no way to spell it
            return None

    # What devices ask.

    def _ask(self, ask: Ask) -> None:
        self.counters.asked += 1
        gathered = _Gathered(self, ask, 2 * len(ask.key_exprs))
        parameters = Parameters({"_filter": ask.predicate}) if ask.predicate else None
        for key_expr in ask.key_exprs:
            self._bridged.want(key_expr)
            self._session.get(  # what bridges keep of durable writers; the gateway selects
                KeyExpr(f"{key_expr}/{CACHE}"),
                Callback(gathered.take_kept, gathered.end, indirect=False),
                target=QueryTarget.ALL,
                consolidation=QueryConsolidation(ConsolidationMode.NONE),
                accept_replies=ReplyKeyExpr.ANY,
                timeout=ask.timeout_ns / 1e9,
            )
            self._session.get(
                Selector(KeyExpr(key_expr), parameters),
                Callback(gathered.take, gathered.end, indirect=False),
                target=QueryTarget.ALL,
                consolidation=QueryConsolidation(ConsolidationMode.LATEST),
                timeout=ask.timeout_ns / 1e9,
            )

    def gathered(self, ask: Ask, samples: list[Sample], dropped_count: int) -> None:
        """All that was answered, to the device that asked."""
        self.counters.answers_dropped += dropped_count
        answer: Callable[[int], None] = partial(self._gateway.answered, ask.query_id, samples)
        self._hub.call(answer, needed=True)

    # What others ask.

    def _asked(self, query: Query) -> None:
        if not self._hub.call(lambda _now_ns: self._answer(query), _ITEM_LEN):
            self.counters.queries_refused += 1
            with query:
                query.reply_err("the XRCE gateway is behind, ask again later")

    def _answer(self, query: Query) -> None:
        self.counters.queries += 1
        with query:
            if self._answer_topics(query):
                return
            if str(query.key_expr).startswith(f"{ROOT}/"):
                for key, text in self._describe.answers(self._root, query.key_expr):
                    query.reply(key, text, encoding=Encoding.APPLICATION_JSON)
                return
            try:
                selected = list(self._selected(query))
            except (EleaError, ValueError) as error:
                query.reply_err(f"the XRCE gateway: {error}")
                return
            for sample in selected:
                self.counters.replies += 1
                query.reply(
                    sample.key,
                    sample.payload,
                    encoding=sample.encoding,
                    timestamp=sample.timestamp,
                )

    def _answer_topics(self, query: Query) -> bool:
        """Answer a bridge that asks for what a device says of a topic; False: it is not asked."""
        prefix, text = f"{self._root}/{TOPICS}/", str(query.key_expr)
        if not text.startswith(prefix) or "*" in text:
            return False
        key = text.removeprefix(prefix).replace(_SLASH, "/")
        described = self._gateway.description_of(key)
        if described is not None:
            query.reply(text, described)
        return True

    def _selected(self, query: Query) -> Iterator[Sample]:
        """What is kept that a query asks for.

        Raises:
            SelectorError, PredicateError, LimitError: Its parameters are not legal.
        """
        times = time_range_of(query.parameters)
        predicate = filter_of(query.parameters)
        test = None if predicate is None else compile_predicate(predicate)
        wall_ns = self._session.new_timestamp().time.as_nanos()
        for sample in self._kept(query.key_expr):
            if times is not None and not times.contains(sample.timestamp, wall_ns):
                continue
            layout = None if test is None else self._bridged.layout_of(sample.encoding)
            if test is None or test(
                PayloadFields(sample.payload, sample.encoding, key=sample.key, layout=layout)
            ):
                yield sample

    def _kept(self, key_expr: KeyExpr) -> list[Sample]:
        text = str(key_expr)
        at_rest = self._gateway.at_rest
        if "*" not in text:
            return at_rest.matching(from_key(text).path)
        found = at_rest.matching("**")
        if text.endswith((f"/{PROPERTY_NAME}", "*")):
            found += at_rest.matching(f"**/{PROPERTY_NAME}")
        return [one for one in found if key_expr.intersects(one.key)]


class _Watched:
    """Whether anybody reads a key expression that devices write."""

    __slots__ = ("_key_expr", "_listener", "_publisher", "_space")

    def __init__(self, space: Space, key_expr: str) -> None:
        self._space = space
        self._key_expr = key_expr
        self._publisher = space._session.declare_publisher(KeyExpr(key_expr))
        told = Callback(self._changed, indirect=False)
        self._listener = self._publisher.declare_matching_listener(told)
        space._hub.call(self._look, needed=True)

    def undeclare(self) -> None:
        self._listener.undeclare()
        self._publisher.undeclare()

    def _changed(self, _status: MatchingStatus) -> None:
        self._space._hub.call(self._look, needed=True)

    def _look(self, now_ns: int) -> None:
        """Tell how it is now: what was told on the way may be outdated."""
        if self._space._watched.get(self._key_expr) is self:
            matched = self._publisher.matching_status.matching
            self._space._gateway.matched(self._key_expr, now_ns, matched=matched)


class _Gathered:
    """The answers to one question, until the last one has come."""

    def __init__(self, space: Space, ask: Ask, open_count: int) -> None:
        self._space = space
        self._ask = ask
        self._open_count = open_count
        self._samples: list[Sample] = []
        self._length = 0
        self._dropped_count = 0

    def take_kept(self, reply: Reply) -> None:
        """Take a sample that a bridge keeps: it is transient at least."""
        self.take(reply, Level.TRANSIENT)

    def take(self, reply: Reply, level_min: Level | None = None) -> None:
        if reply.ok is None:
            return
        limits = self._space._limits
        sample = self._space._sample(reply.ok)
        if sample is not None and level_min is not None and (sample.level or 0) < level_min:
            sample = replace(sample, level=level_min)
        length = _length(reply.ok)
        full = (
            len(self._samples) >= limits.xrce_answers_count
            or self._length + length > limits.xrce_answers_len
        )
        if sample is None or full:
            self._dropped_count += 1
            return
        self._samples.append(sample)
        self._length += length

    def end(self) -> None:
        self._open_count -= 1
        if not self._open_count:
            self._space.gathered(self._ask, self._samples, self._dropped_count)


def _log_losses(effect: Lost) -> None:
    """Log the first of a kind, the tenth, the hundredth: a device may lose much."""
    for kind, before, total in zip(Lost.KINDS, effect.before, effect.total, strict=True):
        if total and len(str(total)) > len(str(before)) * bool(before):
            _LOG.warning("XRCE device %s: %d %s", effect.pid.hex(), total, kind)


def _length(sample: SpaceSample) -> int:
    return len(sample.payload) + _ITEM_LEN


def _priority(number: int) -> Priority:
    """What a device may ask for: anything but the protocol's own."""
    return Priority(number) if 1 <= number <= Priority.MIN.value else Priority.DATA
