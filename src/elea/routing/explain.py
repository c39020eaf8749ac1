"""What this node does with a key, and why: computed anew, sent to nobody, for operators."""

from __future__ import annotations

from enum import StrEnum
from itertools import islice
from typing import Final

from elea.keyexpr.match import intersects
from elea.records import dataclass, field
from elea.routing.core import Routing
from elea.routing.face import Face
from elea.routing.push import RouteCache
from elea.routing.queries import TARGET_BEST_MATCHING
from elea.routing.regions import LOCAL
from elea.routing.tables import OPTIONS, Kind, is_complete

_UNSETTLED: Final = "has not told what it has"
_GROUP: Final = "a group is sent everything"
_REASONS_SHOWN: Final = 8  # of one neighbour; it may have thousands of declarations
_EVERYTHING: Final = "is told of every subscriber"


class Action(StrEnum):
    """What somebody does with a key."""

    PUT = "put"
    GET = "get"
    SUBSCRIBE = "subscribe"


@dataclass(slots=True)
class Hop:
    """A neighbour, group or session that a message goes on to."""

    face: Face
    reasons: dict[str, None] = field(default_factory=dict)

    @property
    def why(self) -> list[str]:
        """Some of the reasons, and how many more there are."""
        more = len(self.reasons) - _REASONS_SHOWN
        return [*islice(self.reasons, _REASONS_SHOWN), *([f"{more} more"] if more > 0 else ())]


def explain(
    routing: Routing,
    action: Action,
    key: str,
    sender: bytes | None,
    root: bytes | None,
    target: int = TARGET_BEST_MATCHING,
) -> list[Hop]:
    """Where a message on `key` goes on to.

    Args:
        routing: The node's; nothing of it changes.
        action: What is done with the key.
        key: A canonical key expression.
        sender: The neighbour that the message comes from; None, or nobody known: a session here.
        root: The router where the message entered the network; None: the sender, if it is one.
        target: Of a query: which of those who can answer are asked.

    A subscription goes to those who may publish: routers pass it on along the tree of `root`,
    others are told of it because they declared a publisher.
    """
    source = _face(routing, sender)
    cache = _cache(routing, source, root)
    if action is Action.SUBSCRIBE:
        return _told(routing, key, source, cache)
    if action is Action.PUT:
        route = routing.routes.samples(cache, key) or []
    else:
        route = routing.queries.compute(cache, source, key, target)
    faces = routing.tables.faces
    hops = {one.face_id: Hop(faces[one.face_id]) for one in route}
    if source is not None:
        hops.pop(source.id, None)
    kind = Kind.SUBSCRIBER if action is Action.PUT else Kind.QUERYABLE
    _find_reasons(routing, kind, key, cache, hops)
    return list(hops.values())


def _face(routing: Routing, zid: bytes | None) -> Face | None:
    faces = routing.tables.faces.values()
    return next((one for one in faces if one.spec.zid == zid and not one.spec.local), None)


def _cache(routing: Routing, source: Face | None, root: bytes | None) -> RouteCache:
    """Routes as they are for what comes from there, without those that are remembered."""
    if source is None:
        return RouteCache(LOCAL.name, routing.zid)
    if source.is_router:
        return RouteCache(source.region.name, root or source.spec.zid)
    known = routing.routes.cache(source)
    assert known is not None  # it is, unless a router names another one
    cache = RouteCache(known.region, known.root)
    cache.north = known.north
    return cache


def _find_reasons(
    routing: Routing, kind: Kind, key: str, cache: RouteCache, hops: dict[int, Hop]
) -> None:
    for entry in routing.tables.intersecting(kind, key):
        for group in entry.owners.values():
            for owner in group.values():
                face = routing.routes.towards(owner.face, cache)
                hop = None if face is None else hops.get(face.id)
                complete = kind is Kind.QUERYABLE and is_complete(owner.info)
                why = f"{kind.name.lower()} {entry.key}{' (complete)' if complete else ''}"
                if hop is not None:
                    hop.reasons[why] = None
    for hop in hops.values():
        if not hop.reasons:
            hop.reasons[_GROUP if hop.face.spec.multicast else _UNSETTLED] = None


def _told(routing: Routing, key: str, source: Face | None, cache: RouteCache) -> list[Hop]:
    """Who is told of a subscriber."""
    children: list[Face] = []
    if routing.network is not None and cache.north:
        children = routing.network.children(cache.root)
    hops = [Hop(face, {_EVERYTHING: None}) for face in children if face is not source]
    for face in routing.tables.faces.values():
        if face is source or face.is_router or not _may_know(routing, face, source):
            continue
        if face.is_mutual or (face.is_north and face.spec.gateway):
            hops.append(Hop(face, {_EVERYTHING: None}))
            continue
        why: dict[str, None] = {}
        for registered in routing.registered(face.id):
            demand = registered.demand
            wants = demand.options & OPTIONS[Kind.SUBSCRIBER]
            if wants and (demand.key is None or intersects(demand.key, key)):
                why[f"publisher {demand.key or '**'}"] = None
        if why:
            hops.append(Hop(face, why))
    return hops


def _may_know(routing: Routing, face: Face, source: Face | None) -> bool:
    return source is None or routing.tables.can_see(Kind.SUBSCRIBER, face, source)
