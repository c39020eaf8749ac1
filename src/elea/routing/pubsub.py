"""Where samples go: the destinations of a PUSH by region (behaviour.md 5.2)."""

from __future__ import annotations

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.canon import validate
from elea.routing.context import Context
from elea.routing.face import Face
from elea.routing.pubsub_hot import Destination, RouteCache
from elea.routing.regions import Bound, Region, RegionKind
from elea.routing.stats import Drop
from elea.routing.tables import Kind
from elea.routing.upstream import Upstream
from elea.wire.fields_hot import WireExpr


class Routes:
    """Computes routes. They stay in the tables' caches until something changes."""

    __slots__ = ("_limits", "_regions", "_stats", "_tables", "_upstream")

    def __init__(self, context: Context, upstream: Upstream) -> None:
        self._regions = {region.name: region for region in context.role.regions}
        self._tables = context.tables
        self._stats = context.stats
        self._limits = context.limits
        self._upstream = upstream

    def is_valid(self, key: str) -> bool:
        """Whether a received text is a canonical key expression; if not it is counted."""
        try:
            validate(key, self._limits)
        except (KeyExprError, LimitError):
            self._stats.drop(Drop.INVALID_KEY)
            return False
        return True

    def samples(self, cache: RouteCache, key: str) -> list[Destination] | None:
        """The route of samples on `key`, from now on cached; None if `key` is no key."""
        if not self.is_valid(key):
            return None
        source = self._regions[cache.region]
        faces: dict[int, Face] = {}
        for entry in self._tables.intersecting(Kind.SUBSCRIBER, key):
            for name, group in entry.owners.items():
                if self.crosses(source, self._regions[name]):
                    for face_id, owner in group.items():
                        faces[face_id] = owner.face
        for face in self.unsettled(source, Kind.SUBSCRIBER, key):
            faces[face.id] = face
        for face in self._tables.faces.values():
            # A group gets everything, whoever subscribed (behaviour.md 1.20).
            if face.spec.multicast and self.crosses(source, face.region):
                faces[face.id] = face
        route = [destination(faces[face_id], key) for face_id in sorted(faces)]
        if len(cache.samples) >= self._limits.routes_count:
            cache.samples.clear()
        cache.samples[key] = route
        return route

    @staticmethod
    def crosses(source: Region, target: Region) -> bool:
        """Whether messages from one region may go to another, or stay in a star."""
        return source.name != target.name or target.kind is RegionKind.BROKER

    def unsettled(self, source: Region, kind: Kind, key: str) -> list[Face]:
        """North faces that may have takers which they have not told of (behaviour.md 4.7, 4.8)."""
        if source.bound is Bound.NORTH:
            return []
        return [
            face
            for face in self._tables.faces.values()
            if (face.is_mutual and (face.overflowed or not face.ready))
            or (
                face.spec.gateway
                and face.is_north
                and not face.spec.multicast
                and not self._upstream.is_settled(face, kind, key)
            )
        ]


def destination(face: Face, key: str) -> Destination:
    """A face of a route, with the key as that face understands it."""
    if face.spec.local or face.spec.multicast:
        return Destination(face.id, WireExpr(0, key))
    return Destination(face.id, face.aliases.express(key))
