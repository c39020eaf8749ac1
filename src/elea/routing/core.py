"""Routing: the object that is driven. Faces come and go, messages come in, messages go out.

It holds no rules of its own: it resolves keys and hands each message to the module whose matter it
is. See `docs/topics/routing.md` for how the modules work together.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import assert_never

from elea.errors import LocalProtocolError
from elea.limits import DEFAULT_LIMITS, Limits
from elea.routing.context import Context
from elea.routing.declarations import Declarations
from elea.routing.declared import INITIAL_INTEREST, Declared
from elea.routing.effects import Candidate, Output
from elea.routing.face import Face, FaceSpec
from elea.routing.id_space import IdSpace
from elea.routing.interests.demands import Registered
from elea.routing.interests.interests import Interests
from elea.routing.interests.upstream import Upstream
from elea.routing.linkstate.flooding import Flooding
from elea.routing.linkstate.gateways import Gateways
from elea.routing.linkstate.gossip import Gossip
from elea.routing.linkstate.graph import Graph
from elea.routing.linkstate.multihop import gossip_of
from elea.routing.linkstate.network import Network
from elea.routing.linkstate.routers import Routers
from elea.routing.linkstate.south_gossip import SouthGossip
from elea.routing.liveliness import Liveliness
from elea.routing.now import Now
from elea.routing.pubsub import Routes
from elea.routing.push import PushRouter, PushSource, RouteCache
from elea.routing.queries import Queries
from elea.routing.regions import RegionKind
from elea.routing.resources import Aliases
from elea.routing.roles.role import Role
from elea.routing.settings import RoutingSettings
from elea.routing.stats import Drop, RoutingStats
from elea.routing.tables import Kind, Tables
from elea.wire.codec import NetworkMessage
from elea.wire.data.error import Err
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest
from elea.wire.network.linkstate import LinkStateList
from elea.wire.network.oam import Oam
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal


class Routing:
    """The routing core of one node.

    `push(face_id, key, push, reliable)` routes a sample whose key is known as text, and
    `receive_push(face_id, push, reliable)` one as it came from the wire. Both are compiled
    and return the worst answer of the outputs the sample went to.

    Args:
        zid: The node's id, in wire order.
        role: `CLIENT_ROLE`, `PEER_ROLE` or `ROUTER_ROLE`.
        output: Where messages go.
        limits: What one neighbour may make this node remember.
        settings: Timeouts and gossip.
        now: The time, shared with those who tell it; calls that are given a time set it.
    """

    __slots__ = (
        "_context",
        "_declarations",
        "_declared",
        "_flooding",
        "_gateways",
        "_gossip",
        "_interests",
        "_liveliness",
        "_network",
        "_pushes",
        "_queries",
        "_routes",
        "_south",
        "_tables",
        "_upstream",
        "audience",
        "candidates",
        "debts",
        "now",
        "push",
        "receive_push",
        "refusals",
    )

    def __init__(
        self,
        zid: bytes,
        role: Role,
        output: Output,
        limits: Limits = DEFAULT_LIMITS,
        settings: RoutingSettings | None = None,
        now: Now | None = None,
    ) -> None:
        self.now = now or Now()
        context = Context(zid, role, output, limits, settings or RoutingSettings(), self.now)
        self._context = context
        self._tables = context.tables
        self._declarations = Declarations(context)
        self._upstream = Upstream(context, self._declarations)
        self._interests = Interests(context, self._declarations, self._upstream)
        self._liveliness = Liveliness(context, self._declarations, self._upstream)
        self._gossip, self._south = gossip_of(context)
        self._network: Routers | None = None
        self._flooding: Flooding | None = None
        if role.north.kind is RegionKind.ROUTER:
            self._network = Routers(context)
            self._flooding = Flooding(context, self._declarations, self._network)
        self._gateways = Gateways(context, self._network, self._south)
        self._routes = Routes(context, self._upstream, self._network, self._gateways)
        self._queries = Queries(context, self._routes)
        self._declared = Declared(
            context,
            self._declarations,
            self._upstream,
            self._liveliness,
            self._routes,
            self._flooding,
        )
        # What `connect_candidates` would give; a driver looks here after every chunk it reads.
        self.candidates, self.debts = context.candidates, context.debts
        self.refusals = context.refusals
        self._pushes = PushRouter(output, self._routes.samples)
        # Bound once: an interpreted method in between would cost as much as the routing.
        self.push = self._pushes.push
        self.receive_push = self._pushes.receive
        self.audience = self._pushes.audience

    def stamp_samples(self, stamp: Callable[[Push], Push | None]) -> None:
        """Let every sample pass through `stamp` before it goes on; None drops it."""
        self._pushes.stamp = stamp

    def push_source(self, face_id: int) -> PushSource | None:
        """The aliases of a face and the routes of what comes from it."""
        return self._pushes.sources.get(face_id)

    @property
    def role(self) -> Role:
        """The node's role."""
        return self._context.role

    @property
    def zid(self) -> bytes:
        """The node's id, in wire order."""
        return self._context.zid

    def open_face(self, face_id: int, spec: FaceSpec, now_ns: int) -> None:
        """A transport or a session is there; what it must hear unasked is sent at once.

        Raises:
            LocalProtocolError: the id is in use, or the region is none of this role's.
        """
        if face_id in self._tables.faces:
            raise LocalProtocolError(f"face {face_id} is open; close it or take another id")
        if spec.region not in self.role.regions:
            raise LocalProtocolError(f"{spec.region} is no region of this role; use Role.place")
        face = Face(face_id, spec, Aliases(self._context.limits.aliases_count))
        face.ids.in_use = partial(self._own_ids, face)
        in_flight = partial(self._queries.request_ids, face_id)
        face.request_ids = IdSpace(in_flight, first=0, largest=spec.request_id_max)
        tells = self._teller(face) is not None  # so that we know when it has told its first state
        face.ready = not (face.is_mutual or (spec.gateway and tells))
        self._tables.faces[face_id] = face
        self._open_source(face)
        self._tables.routes_changed()
        self._join(face, now_ns)
        for other in list(self._tables.faces.values()):
            if other.spec.local and other is not face:
                for text in list(other.aliases.peer.values()):
                    self._context.egress.key(face, text)
        self._upstream.open_face(face)
        self._declarations.open_face(face)
        if face.is_mutual:
            self._context.egress.final(face, INITIAL_INTEREST)

    def close_face(self, face_id: int, now_ns: int) -> None:
        """A transport or a session is gone, and with it all it said; unknown ids are ignored."""
        face = self._tables.faces.get(face_id)
        if face is not None and not face.leaving:
            self._close(face, now_ns)

    def _close(self, face: Face, now_ns: int) -> None:
        if self._declarations.takes_turns(face):
            face.leaving = True
            self._queries.close_face(face)  # nobody waits for its answers meanwhile
            self._context.timers.add(now_ns + 1, partial(self._close, face))
            return
        del self._tables.faces[face.id]
        del self._pushes.sources[face.id]
        self._tables.routes_changed()
        self._declarations.mute(face)
        self._interests.close_face(face)
        self._upstream.close_face(face)
        self._declarations.close_face(face)
        self._queries.close_face(face)
        self._leave(face, now_ns)

    def receive(self, face_id: int, message: NetworkMessage, reliable: bool, now_ns: int) -> None:
        """A message came in on a face. What cannot be used is dropped and counted."""
        if isinstance(message, Push):
            self.receive_push(face_id, message, reliable)
            return
        face = self._tables.faces.get(face_id)
        if face is None:
            self._context.stats.drop(Drop.UNKNOWN_FACE)
            return
        match message:
            case Declare():
                self._declared.receive(face, message)
            case Interest():
                self._interest(face, message, now_ns)
            case Request():
                self._request(face, message, reliable, now_ns)
            case Response():
                self._response(face, message, reliable)
            case ResponseFinal():
                self._queries.final(face, message.id)
            case Oam():
                self._oam(face, message, now_ns)
            case _:
                assert_never(message)

    def next_timer_ns(self) -> int | None:
        """When `handle_timer` has something to do."""
        return self._context.timers.next_ns()

    def handle_timer(self, now_ns: int) -> None:
        """Time passed."""
        self.now.ns = now_ns
        self._context.timers.fire(now_ns)

    def cancel_query(self, face_id: int, request_id: int) -> bool:
        """A session gave up one of its queries; its answers are dropped from now on."""
        face = self._tables.faces.get(face_id)
        return face is not None and self._queries.cancel(face, request_id)

    def is_ready(self, face_id: int) -> bool:
        """Whether a face has told its first state: D_FINAL of a peer, link state of a gateway."""
        face = self._tables.faces.get(face_id)
        return face is not None and face.ready

    def set_locators(self, locators: tuple[str, ...]) -> None:
        """Where the node listens, for gossip."""
        if self._gossip is not None:
            self._gossip.set_locators(locators)
        if self._network is not None:
            self._network.set_locators(locators)

    def graph(self) -> Graph | None:
        """Who is connected to whom in the north, as nodes tell it."""
        teller = self._gossip if self._network is None else self._network
        return None if teller is None else teller.graph()

    def connect_candidates(self) -> list[Candidate]:
        """Nodes that gossip told of since the last call; the node chooses whom to connect to."""
        connected = {face.spec.zid for face in self._tables.faces.values()}
        found = [one for one in self.candidates.values() if one.zid not in connected]
        self.candidates.clear()
        return found

    @property
    def stats(self) -> RoutingStats:
        """What was dropped, and why."""
        stats = self._context.stats
        drops = stats.drops
        # The compiled part counts for itself.
        drops[Drop.NO_SUBSCRIBER] = self._pushes.unwanted
        drops[Drop.FUTURE] = self._pushes.refused
        drops[Drop.UNKNOWN_FACE] += self._pushes.unknown_face
        drops[Drop.UNKNOWN_SCOPE] += self._pushes.unknown_scope
        drops[Drop.UNKNOWN_NODE] += self._pushes.unknown_node
        self._pushes.unknown_face = 0
        self._pushes.unknown_node = 0
        self._pushes.unknown_scope = 0
        return stats

    @property
    def tables(self) -> Tables:
        """What is known and what was told, for those who look at it and change nothing."""
        return self._tables

    @property
    def routes(self) -> Routes:
        """Computes where samples go, for those who look at it."""
        return self._routes

    @property
    def queries(self) -> Queries:
        """Computes where queries go, for those who look at it."""
        return self._queries

    def registered(self, face_id: int) -> list[Registered]:
        """The interests in the future that a face has."""
        return self._interests.registered(face_id)

    def has_asked(self, face_id: int, kind: Kind, key: str) -> bool:
        """Whether gateway `face_id` was asked for `kind` on `key`: what is there, and will be."""
        return self._upstream.has_asked(face_id, kind, key)

    def destinations(self, face_id: int, key: str) -> list[int]:
        """The faces that a sample from `face_id` on `key` goes to, computed anew."""
        source = self._pushes.sources[face_id].cache
        cache = RouteCache(source.region, source.root)
        cache.north = source.north
        route = self._routes.samples(cache, key) or []
        return [one.face_id for one in route if one.face_id != face_id]

    def is_quiet(self) -> bool:
        """Whether nothing is under way: no open query, no interest that waits for its end."""
        return self._queries.is_empty() and len(self._context.timers) == 0

    def is_empty(self) -> bool:
        """Whether nothing is remembered: true when all faces are closed."""
        return (
            self._tables.is_empty()
            and not self._pushes.sources
            and self._interests.is_empty()
            and self._upstream.is_empty()
            and self._queries.is_empty()
            and len(self._context.timers) == 0
            and (self._gossip is None or self._gossip.is_empty())
            and (self._south is None or self._south.is_empty())
            and (self._network is None or self._network.is_empty())
            and (self._flooding is None or self._flooding.is_empty())
        )

    @property
    def network(self) -> Routers | None:
        """The network of routers, if this is one of them; to look at."""
        return self._network

    @property
    def flooding(self) -> Flooding | None:
        """What routers were told, if this is one of them; to look at."""
        return self._flooding

    def _own_ids(self, face: Face) -> set[int]:
        """The numbers by which a face knows declarations and interests of this node."""
        ids = self._declarations.entity_ids(face, self._interests.registered(face.id))
        return ids.union(self._upstream.interest_ids(face.id))

    def _open_source(self, face: Face) -> None:
        aliases = face.aliases
        region = face.region.name
        if not face.is_router:
            cache = self._routes.cache(face)
            assert cache is not None  # only routers are named
            source = PushSource(face.id, cache, aliases.peer, aliases.own)
        else:
            cache = self._tables.root_cache(region, face.spec.zid)
            routes = partial(self._routes.cache, face)
            source = PushSource(face.id, cache, aliases.peer, aliases.own, routes)
        self._pushes.sources[face.id] = source

    def _teller(self, face: Face) -> Gossip | Network | SouthGossip | None:
        """Who listens to what a neighbour tells of nodes."""
        if face.is_router:
            return self._network
        return self._gossip if face.is_north else self._south

    def _join(self, face: Face, now_ns: int) -> None:
        """Let a neighbour take part in what nodes tell of each other."""
        self.now.ns = now_ns
        teller = self._teller(face)
        if teller is not None:
            teller.open_face(face)
        if face.is_north:
            self._recharge()

    def _leave(self, face: Face, now_ns: int) -> None:
        if face.is_router:
            assert self._flooding is not None  # what makes it a router's face
            self._flooding.close_face(face)
        self.now.ns = now_ns
        teller = self._teller(face)
        if teller is not None:
            teller.close_face(face)
        if face.is_north:
            if self._network is None or face.spec.zid not in self._network.nodes:
                self._tables.drop_root(face.spec.zid)
            self._recharge()

    def _recharge(self) -> None:
        """The north or what peers say of it changed: see who is in charge of the peers below."""
        if self._south is None:
            return
        for face in self._tables.faces.values():
            cache = None if face.is_router else self._routes.cache(face)
            if cache is not None:
                self._pushes.sources[face.id].cache = cache

    def _interest(self, face: Face, message: Interest, now_ns: int) -> None:
        key = None if message.key is None else self._declared.resolve(face, message.key)
        if key is None and message.key is not None:
            return
        self._interests.receive(face, message, key, now_ns)

    def _request(self, face: Face, message: Request, reliable: bool, now_ns: int) -> None:
        if face.spec.multicast:
            self._context.stats.drop(Drop.MULTICAST)
            return
        key = self._declared.resolve(face, message.key)
        self._queries.request(face, message, key, reliable, now_ns)

    def _response(self, face: Face, message: Response, reliable: bool) -> None:
        key = ""
        # An error may come without a key; nothing else may.
        if not isinstance(message.body, Err) or message.key.scope or message.key.suffix:
            resolved = self._declared.resolve(face, message.key)
            if resolved is None:
                return
            key = resolved
        self._queries.response(face, message, key, reliable)

    def _oam(self, face: Face, message: Oam, now_ns: int) -> None:
        if not isinstance(message.body, LinkStateList):
            self.refusals.receive(face, message)
            return
        self.now.ns = now_ns
        teller = self._teller(face)
        if teller is None or not teller.receive(face, message.body):
            self._context.stats.drop(Drop.GOSSIP_IGNORED)
            return
        self._recharge()
        if face.spec.gateway:
            face.ready = True
