"""Where samples go: the destinations of a PUSH by region (behaviour.md 5.2)."""

from __future__ import annotations

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.canon import validate
from elea.routing.context import Context
from elea.routing.face import Face
from elea.routing.interests.upstream import Upstream
from elea.routing.linkstate.gateways import Gateways
from elea.routing.linkstate.routers import Routers
from elea.routing.push import Destination, RouteCache
from elea.routing.regions import Bound, Region, RegionKind
from elea.routing.stats import Drop
from elea.routing.tables import Kind
from elea.wire.fields import WireExpr


class Routes:
    """Computes routes. They stay in the tables' caches until something changes."""

    __slots__ = (
        "_gateways",
        "_limits",
        "_network",
        "_north",
        "_regions",
        "_stats",
        "_tables",
        "_upstream",
    )

    def __init__(
        self,
        context: Context,
        upstream: Upstream,
        network: Routers | None,
        gateways: Gateways,
    ) -> None:
        self._regions = {region.name: region for region in context.role.regions}
        self._north = context.role.north.name
        self._tables = context.tables
        self._stats = context.stats
        self._limits = context.limits
        self._upstream = upstream
        self._network = network
        self._gateways = gateways

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
                    for owner in group.values():
                        face = self.towards(owner.face, cache)
                        if face is not None:
                            faces[face.id] = face
        for face in self.unsettled(cache, Kind.SUBSCRIBER, key):
            faces[face.id] = face
        for face in self._tables.faces.values():
            # A group gets everything, whoever subscribed (behaviour.md 1.20).
            reached = self.crosses(source, face.region) and (cache.north or not face.is_north)
            if face.spec.multicast and reached:
                faces[face.id] = face
        route = [self.destination(faces[face_id], key, cache.root) for face_id in sorted(faces)]
        if len(cache.samples) >= self._limits.routes_count:
            cache.samples.clear()
        cache.samples[key] = route
        return route

    @staticmethod
    def crosses(source: Region, target: Region) -> bool:
        """Whether messages from one region may go to another, or stay in a star or on a tree."""
        within = target.kind is RegionKind.BROKER or target.kind is RegionKind.ROUTER
        return within or source.name != target.name

    def cache(self, face: Face, node_id: int = 0) -> RouteCache | None:
        """The routes of what comes from a face; None if it names a router that nobody knows."""
        region = face.region.name
        if face.is_router:
            assert self._network is not None  # what makes it a router's face
            root = self._network.source(face, node_id)
            return None if root is None else self._tables.root_cache(region, root)
        if face.is_north and self._gateways.watches_sources:
            return self._tables.root_cache(region, face.spec.zid)
        charged = self._gateways.in_charge(face)
        return self._tables.caches[region] if charged else self._tables.below[region]

    def towards(self, owner: Face, cache: RouteCache) -> Face | None:
        """The neighbour that leads to who owns something: itself, or the next router."""
        if owner.is_north and not cache.north:
            return None  # another gateway takes it there
        if owner.is_router:
            assert self._network is not None
            return self._network.hop(cache.root, owner.spec.zid)
        if cache.region == self._north and owner.is_south_peer:
            others = self._gateways.others(owner)
            if cache.root in others or not self._gateways.in_charge(owner):
                return None  # another gateway hands it over
        return owner

    def is_certain(self, owner: Face, cache: RouteCache) -> bool:
        """Whether `towards` leads to an owner, and not to a router that only might lead there."""
        if not owner.is_router:
            return True
        assert self._network is not None
        return self._network.is_certain(cache.root, owner.spec.zid)

    def distance(self, owner: Face) -> float:
        """How far an owner is (behaviour.md 3.6)."""
        if owner.spec.local:
            return 0.0
        if self._network is None or not owner.is_router:
            return 1.0
        return self._network.distance(owner.spec.zid)

    def destination(self, face: Face, key: str, root: bytes) -> Destination:
        """A face of a route, with the key as that face understands it."""
        if face.spec.local or face.spec.multicast:
            return Destination(face.id, WireExpr(0, key))
        node_id = 0 if self._network is None or not face.is_router else self._network.number(root)
        return Destination(face.id, face.aliases.express(key), node_id)

    def unsettled(self, cache: RouteCache, kind: Kind, key: str) -> list[Face]:
        """North faces that may have takers which they have not told of (behaviour.md 4.7, 4.8)."""
        if not cache.north or self._regions[cache.region].bound is Bound.NORTH:
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
