"""Queries: REQUEST to those who can answer, RESPONSEs back, and an end, whatever happens.

An open query is held by the face that asked, under its own request id. Each destination has a
request id of its own; the query ends when all of them have ended, by RESPONSE_FINAL, by the loss of
their face, or by time (behaviour.md 5.6, 5.7).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from elea.answers import DROPPED
from elea.keyexpr.match import includes
from elea.records import dataclass, field
from elea.routing.context import Context
from elea.routing.face import Face
from elea.routing.pubsub import Routes
from elea.routing.push import Destination, RouteCache
from elea.routing.stats import Drop
from elea.routing.tables import Kind, is_complete
from elea.routing.timers import Timer
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal
from elea.wire.shared_extensions import EntityRef

TARGET_BEST_MATCHING: Final = 0
TARGET_ALL: Final = 1
TARGET_ALL_COMPLETE: Final = 2
_MS_NS: Final = 1_000_000
# Where request ids have more bits, years pass before one is used again.
_SMALL_ID_MAX: Final = 0xFFFF
# A session ends its own queries in time; it is only reminded if it does not.
_LOCAL_GRACE_NS: Final = 1_000_000_000
_TIMEOUT: Final = b"Timeout"
_TOO_MANY_QUERIES: Final = b"Too many open queries"
_NO_REQUEST_IDS: Final = b"Too many requests in flight: no request id of this neighbour is free"
_TOO_MANY_REPLIES: Final = b"Too many replies"


@dataclass(slots=True, eq=False)
class Query:
    """An open query, as the face that asked knows it."""

    source: Face
    id: int
    qos: int
    legs: dict[tuple[int, int], Leg] = field(default_factory=dict)  # by face, request id
    replies_count: int = 0
    replies_len: int = 0


@dataclass(slots=True, eq=False)
class Leg:
    """One destination of a query."""

    query: Query
    face: Face
    id: int
    timer: Timer | None = None

    @property
    def is_open(self) -> bool:
        return (self.face.id, self.id) in self.query.legs


@dataclass(frozen=True, slots=True)
class _Candidate:
    face: Face
    complete: bool
    unknown: bool  # it may have queryables, but has not told
    distance: float
    certain: bool = True  # it leads there; else a search is under way that will tell

    def rank(self) -> tuple[bool, float, int]:
        return (self.unknown, self.distance, self.face.id)


class Queries:
    """All open queries."""

    __slots__ = (
        "_context",
        "_legs",
        "_limits",
        "_open",
        "_output",
        "_regions",
        "_routes",
        "_stats",
        "_tables",
        "_unended",
    )

    def __init__(self, context: Context, routes: Routes) -> None:
        self._context = context
        self._tables = context.tables
        self._output = context.output
        self._stats = context.stats
        self._limits = context.limits
        self._regions = {region.name: region for region in context.role.regions}
        self._routes = routes
        self._open: dict[int, dict[int, Query]] = {}  # by the face that asked, its request id
        self._legs: dict[int, dict[int, Leg]] = {}  # by destination, its request id
        # By destination: ids of requests that timed out or were cancelled before it ended them.
        self._unended: dict[int, dict[int, None]] = {}

    def is_empty(self) -> bool:
        """Whether no query is open."""
        return not self._open and not self._legs

    def request(
        self, face: Face, request: Request, key: str | None, reliable: bool, now_ns: int
    ) -> None:
        """`face` asks; `key` is None if it could not be resolved."""
        mine = self._open.get(face.id, {})
        if request.id in mine:
            # Not ended either: that would end the one which is open.
            self._stats.drop(Drop.QUERY_DUPLICATE)
            return
        query = Query(face, request.id, request.qos)
        if key is None:
            self._end(query)
            return
        if len(mine) >= self._limits.queries_count and not face.spec.local:
            self._stats.drop(Drop.QUERY_LIMIT)
            self._error(query, _TOO_MANY_QUERIES)
            self._end(query)
            return
        route = self._route(face, key, request)
        legs: dict[int, Leg] = {}
        for one in route:
            leg = self._add_leg(query, one, now_ns, request.timeout_ms)
            if leg is not None:
                legs[one.face_id] = leg
        if not legs:
            if not route:
                self._stats.drop(Drop.NO_QUERYABLE)
            self._end(query)
            return
        # All legs exist before the first is sent: a session may answer from inside `send`.
        self._open.setdefault(face.id, {})[query.id] = query
        for one in route:
            asked = legs.get(one.face_id)
            if asked is None or not asked.is_open:
                continue  # refused, or ended while others were asked
            message = _readdressed(request, asked.id, one)
            if self._output.send(one.face_id, message, reliable) == DROPPED and asked.is_open:
                self._stats.drop(Drop.QUERY_CONGESTED)
                self._end_leg(asked)

    def response(self, face: Face, response: Response, key: str, reliable: bool) -> None:
        """`face` answered one of its requests; `key` is the resolved key of the answer."""
        leg = self._legs.get(face.id, {}).get(response.id)
        if leg is None:
            self._stats.drop(Drop.REPLY_LATE)
            return
        query = leg.query
        query.replies_count += 1
        query.replies_len += _payload_len(response)
        if not query.source.spec.local and (
            query.replies_count > self._limits.query_replies_count
            or query.replies_len > self._limits.query_replies_len
        ):
            self._stats.drop(Drop.REPLY_LIMIT)
            self._error(query, _TOO_MANY_REPLIES)
            self._abort(query)
            self._end(query)
            return
        message = Response(
            query.id,
            WireExpr(0, key),
            response.body,
            query.qos,
            response.responder,
            response.timestamp,
            response.ts_stack,
            response.extras,
        )
        self._output.send(query.source.id, message, reliable)

    def request_ids(self, face_id: int) -> Collection[int]:
        """The ids of the requests that a face has not ended."""
        legs = self._legs.get(face_id, {}).keys()
        unended = self._unended.get(face_id)
        return legs if unended is None else legs | unended.keys()

    def awaits(self, face_id: int, request_id: int) -> bool:
        """Whether somebody still waits for the answers of a face to a request."""
        return request_id in self._legs.get(face_id, {})

    def asker(self, face_id: int, request_id: int) -> int | None:
        """The face that waits for the answers of a face to a request."""
        leg = self._legs.get(face_id, {}).get(request_id)
        return None if leg is None else leg.query.source.id

    def final(self, face: Face, request_id: int) -> None:
        """`face` will not answer this request any more."""
        leg = self._legs.get(face.id, {}).get(request_id)
        if leg is None:
            unended = self._unended.get(face.id, {})
            if request_id in unended:
                del unended[request_id]
            self._stats.drop(Drop.REPLY_LATE)
            return
        self._end_leg(leg)

    def cancel(self, face: Face, request_id: int) -> bool:
        """The session that asked lost interest: forget the query, and say nothing more of it."""
        query = self._open.get(face.id, {}).get(request_id)
        if query is None:
            return False
        self._abort(query)
        return True

    def close_face(self, face: Face) -> None:
        """A face left: nobody waits for its answers, and nobody answers its queries."""
        for query in list(self._open.get(face.id, {}).values()):
            self._abort(query)
        for leg in list(self._legs.get(face.id, {}).values()):
            self._end_leg(leg)
        self._unended.pop(face.id, None)

    def _route(self, face: Face, key: str, request: Request) -> list[Destination]:
        target = request.target
        cache = self._routes.cache(face, request.node_id)
        if cache is None:
            self._stats.drop(Drop.UNKNOWN_NODE)
            return []
        route = cache.queries.get((key, target))
        if route is None:
            route = self.compute(cache, None, key, target)
            if len(cache.queries) >= self._limits.routes_count:
                cache.queries.clear()
            cache.queries[key, target] = route
        if any(one.face_id == face.id for one in route):
            # It is among those who could answer, and must not stand in for another.
            return self.compute(cache, face, key, target)
        return route

    def compute(
        self, cache: RouteCache, asking: Face | None, key: str, target: int
    ) -> list[Destination]:
        """The destinations of a query, chosen in each region for itself; nothing is remembered."""
        routes = self._routes
        source = self._regions[cache.region]
        regions: dict[str, list[_Candidate]] = {}
        for entry in self._tables.intersecting(Kind.QUERYABLE, key):
            covers = includes(entry.key, key)
            for name, group in entry.owners.items():
                if not routes.crosses(source, self._regions[name]):
                    continue
                for owner in group.values():
                    face = routes.towards(owner.face, cache)
                    if face is None or face is asking:
                        continue
                    complete = covers and is_complete(owner.info)
                    distance = routes.distance(owner.face)
                    certain = routes.is_certain(owner.face, cache)
                    found = _Candidate(face, complete, False, distance, certain)
                    regions.setdefault(name, []).append(found)
        for north in routes.unsettled(cache, Kind.QUERYABLE, key):
            regions.setdefault(north.region.name, []).append(_Candidate(north, False, True, 1.0))
        chosen: dict[int, Face] = {}
        for candidates in regions.values():
            for one in _choose(candidates, target):
                chosen[one.face.id] = one.face
        return [routes.destination(chosen[face_id], key, cache.root) for face_id in sorted(chosen)]

    def _add_leg(
        self, query: Query, target: Destination, now_ns: int, timeout_ms: int | None
    ) -> Leg | None:
        """Number a request to one destination; None, told and counted, if it has no number free."""
        face = self._tables.faces[target.face_id]
        request_id = face.request_ids.take()
        if request_id is None and face.id in self._unended:
            del self._unended[face.id]  # a neighbour that ends no request is asked on
            request_id = face.request_ids.take()
        if request_id is None:
            self._stats.drop(Drop.REQUEST_IDS)
            self._error(query, _NO_REQUEST_IDS, face.spec.zid)
            return None
        leg = Leg(query, face, request_id)
        query.legs[face.id, leg.id] = leg
        self._legs.setdefault(face.id, {})[leg.id] = leg
        timeout_ns = self._context.settings.queries_timeout_ns
        if timeout_ms is not None:
            timeout_ns = timeout_ms * _MS_NS
        if query.source.spec.local:
            timeout_ns += _LOCAL_GRACE_NS
        else:
            timeout_ns = min(timeout_ns, self._limits.query_timeout_ns)
        leg.timer = self._context.timers.add(now_ns + timeout_ns, lambda _: self._expire(leg))
        return leg

    def _expire(self, leg: Leg) -> None:
        self._stats.drop(Drop.QUERY_TIMEOUT)
        self._error(leg.query, _TIMEOUT, leg.face.spec.zid)
        if leg.is_open:
            self._keep_id(leg)
            self._end_leg(leg)

    def _end_leg(self, leg: Leg) -> None:
        """One destination is done; with the last one, so is the query."""
        self._forget_leg(leg)
        del leg.query.legs[leg.face.id, leg.id]
        if not leg.query.legs:
            self._forget_query(leg.query)
            self._end(leg.query)

    def _abort(self, query: Query) -> None:
        for leg in query.legs.values():
            self._keep_id(leg)
            self._forget_leg(leg)
        query.legs.clear()
        self._forget_query(query)

    def _keep_id(self, leg: Leg) -> None:
        """Give its id to no other request before the face has ended it.

        A late answer, and its end, would be taken for those of the other request.
        """
        if leg.face.spec.request_id_max > _SMALL_ID_MAX:
            return
        unended = self._unended.setdefault(leg.face.id, {})
        unended[leg.id] = None
        if len(unended) > self._limits.queries_count:
            del unended[next(iter(unended))]

    def _forget_leg(self, leg: Leg) -> None:
        assert leg.timer is not None
        leg.timer.cancel()
        legs = self._legs[leg.face.id]
        del legs[leg.id]
        if not legs:
            del self._legs[leg.face.id]

    def _forget_query(self, query: Query) -> None:
        mine = self._open[query.source.id]
        del mine[query.id]
        if not mine:
            del self._open[query.source.id]

    def _end(self, query: Query) -> None:
        self._output.send(query.source.id, ResponseFinal(query.id, query.qos), True)

    def _error(self, query: Query, payload: bytes, responder: bytes | None = None) -> None:
        """An answer of this node's own: no key, and the zid of who did not answer."""
        entity = EntityRef(self._context.zid if responder is None else responder, 0)
        message = Response(query.id, WireExpr(0), Err(payload), query.qos, entity)
        self._output.send(query.source.id, message, True)


def _readdressed(request: Request, request_id: int, to: Destination) -> Request:
    """The same question under another id, with its key as the destination understands it."""
    return Request(
        request_id,
        to.key,
        request.body,
        request.qos,
        request.target,
        request.budget,
        request.timeout_ms,
        request.timestamp,
        to.node_id,
        request.ts_stack,
        request.extras,
    )


def _choose(candidates: list[_Candidate], target: int) -> list[_Candidate]:
    """Which candidates of one region are asked (behaviour.md 5.6)."""
    if target == TARGET_ALL:
        return candidates
    if target == TARGET_ALL_COMPLETE:
        return [one for one in candidates if one.complete or one.unknown]
    complete = [one for one in candidates if one.complete]
    certain = [one for one in complete if one.certain]
    if certain:
        return [min(certain, key=_Candidate.rank)]
    return complete or candidates  # of those that may lead to a complete one, one does


def _payload_len(response: Response) -> int:
    body = response.body
    if isinstance(body, Err):
        return len(body.payload)
    return len(body.body.payload) if isinstance(body.body, Put) else 0
