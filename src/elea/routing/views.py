"""What routing knows, for operators: read and never changed, named as Eclipse Zenoh names it."""

from __future__ import annotations

from collections.abc import Iterable

from elea.keyexpr.match import intersects
from elea.records import dataclass, field
from elea.routing.core import Routing
from elea.routing.face import Face
from elea.routing.linkstate.graph import Graph
from elea.routing.linkstate.trees import Edges, grow
from elea.routing.regions import CLIENT, PEER, ROUTER, Bound, RegionKind
from elea.routing.tables import OPTIONS, Entry, Kind

_ROLES = {
    RegionKind.BROKER: CLIENT,
    RegionKind.CLIENT: CLIENT,
    RegionKind.PEER: PEER,
    RegionKind.ROUTER: ROUTER,
}


@dataclass(slots=True)
class Sources:
    """Who has something, by role; ids in wire order, each once."""

    routers: dict[bytes, None] = field(default_factory=dict)
    peers: dict[bytes, None] = field(default_factory=dict)
    clients: dict[bytes, None] = field(default_factory=dict)

    def add(self, role: int, zid: bytes) -> None:
        """Name one; the role is an index of INIT."""
        (self.routers, self.peers, self.clients)[role][zid] = None


def region_of(routing: Routing, face_id: int) -> str:
    """The region of a face; `unknown` before it is open."""
    face = routing.tables.faces.get(face_id)
    return "unknown" if face is None else face.region.name


def entries(routing: Routing, kind: Kind, among: str | None = None) -> list[Entry]:
    """Every key of a kind, or at least those that intersect `among`: quickly, however many."""
    # A search for many keys takes long; whoever goes through them looks at each in any case.
    is_plain = among is not None and "*" not in among
    return routing.tables.intersecting(kind, among if is_plain else None)


def declared(
    routing: Routing, kind: Kind, among: str | None = None, some: Iterable[Entry] | None = None
) -> dict[str, Sources]:
    """Every key of a kind with those who declared it; only those that intersect `among`, if given.

    What comes from below is ours as well, towards those above: this node is named too.

    Args:
        some: Keys to look at, of those that `entries` gave: a part at a time where there are many.
    """
    own_role = _ROLES[routing.role.north.kind]
    found: dict[str, Sources] = {}
    for entry in entries(routing, kind, among) if some is None else some:
        if not entry.owners or (among is not None and not intersects(among, entry.key)):
            continue
        sources = found[entry.key] = Sources()
        for group in entry.owners.values():
            for owner in group.values():
                sources.add(_role(owner.face), owner.face.spec.zid)
                if not owner.face.is_north:
                    sources.add(own_role, routing.zid)
    return found


def wanted(routing: Routing, kind: Kind, among: str | None = None) -> dict[str, Sources]:
    """Every key that somebody wants to know entities of a kind for: publishers, queriers."""
    found: dict[str, Sources] = {}
    for face in routing.tables.faces.values():
        if face.region.kind in (RegionKind.ROUTER, RegionKind.CLIENT):
            continue  # they tell what is wanted elsewhere
        for registered in routing.registered(face.id):
            demand = registered.demand
            if not demand.options & OPTIONS[kind] or demand.key is None:
                continue
            if among is None or intersects(among, demand.key):
                sources = found.setdefault(demand.key, Sources())
                sources.add(_role(face), face.spec.zid)
    return found


def graphs(routing: Routing) -> dict[str, Graph | None]:
    """What is known of who is connected to whom, by region; None where nobody tells."""
    north = routing.role.north
    if north.kind is RegionKind.CLIENT:
        return {}
    found = {north.name: routing.graph()}
    if routing.role.has_peers_below:
        for region in routing.role.regions:
            if region.kind is RegionKind.PEER and region.bound is Bound.SOUTH:
                faces = routing.tables.faces.values()
                peers = [one.spec.zid for one in faces if one.region == region]
                found[region.name] = Graph([routing.zid, *peers])
    return found


def weights(routing: Routing, zid: bytes) -> tuple[int, int] | None:
    """The weights of a link between routers, as this end and the other say; 0: not said."""
    network = routing.network
    if network is None or zid not in network.own.links:
        return None
    node = network.nodes.get(zid)
    theirs = 0 if node is None else node.links.get(network.own.zid, 0)
    return network.own.links[zid], theirs


@dataclass(frozen=True, slots=True)
class RouterMap:
    """The network of routers as of one moment, seen from one of them.

    It is taken under the node's lock and refers to what is not changed afterwards. Its questions
    take long in large networks and are asked without the lock.
    """

    own: bytes
    nodes: tuple[bytes, ...]
    edges: Edges

    def successors(self, source: bytes) -> dict[bytes, bytes]:
        """By destination: the router that this one hands on to, on the source's tree."""
        tree = grow(self.edges, source, self.own)
        found = {}
        for target in self.nodes:
            hop = tree.hops.get(target, tree.parent)
            if target != self.own and hop is not None:
                found[target] = hop
        return found


def router_map(routing: Routing) -> RouterMap:
    """The network of routers now; without nodes if this is none of them."""
    network = routing.network
    if network is None:
        return RouterMap(routing.zid, (), {})
    return RouterMap(routing.zid, tuple(network.nodes), network.edges)


def _role(face: Face) -> int:
    """The list a face is named in: its region's, or its own where it is upstream of a client."""
    if face.region.kind is RegionKind.CLIENT:
        return face.spec.whatami
    return _ROLES[face.region.kind]
