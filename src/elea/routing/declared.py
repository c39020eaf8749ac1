"""Declared: what neighbours and sessions declare, by the rules of behaviour.md 3 and 4.

Aliases, entities and the ends of interests come in here; tables, interests, liveliness and the
network of routers learn what passes.
"""

from __future__ import annotations

from typing import Final, assert_never

from elea.routing.context import Context
from elea.routing.declarations import Declarations
from elea.routing.face import Face
from elea.routing.interests.upstream import Upstream
from elea.routing.linkstate.flooding import Flooding
from elea.routing.liveliness import Liveliness
from elea.routing.pubsub import Routes
from elea.routing.resources import AliasAnswer
from elea.routing.stats import Drop
from elea.routing.tables import PRESENT, Kind, pack_info
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare

INITIAL_INTEREST: Final = 0  # what peers answer each other without being asked (behaviour.md 4.7)


class Declared:
    """Applies declarations of a face.

    Args:
        context: Of the node's routing.
        declarations: Keeps entities and tells others of them.
        upstream: Knows what was asked for, and waits for the ends of answers.
        liveliness: Told of tokens.
        routes: Knows whether a key is valid.
        flooding: Told what routers declare of each other; None if this is no router.
    """

    __slots__ = (
        "_context",
        "_declarations",
        "_flooding",
        "_liveliness",
        "_routes",
        "_upstream",
    )

    def __init__(
        self,
        context: Context,
        declarations: Declarations,
        upstream: Upstream,
        liveliness: Liveliness,
        routes: Routes,
        flooding: Flooding | None,
    ) -> None:
        self._context = context
        self._declarations = declarations
        self._upstream = upstream
        self._liveliness = liveliness
        self._routes = routes
        self._flooding = flooding

    def receive(self, face: Face, message: Declare) -> None:
        """Apply a declaration, or drop and count it."""
        if not (face.is_router and self._of_router(face, message)):
            self._declare(face, message)

    def _of_router(self, face: Face, message: Declare) -> bool:
        """A router declared something of a router; False if it is something else."""
        flooding = self._flooding
        assert flooding is not None
        body = message.body
        info = PRESENT
        match body:
            case DeclareSubscriber() | UndeclareSubscriber():
                kind = Kind.SUBSCRIBER
            case DeclareQueryable() | UndeclareQueryable():
                kind = Kind.QUERYABLE
            case DeclareToken() | UndeclareToken():
                kind = Kind.TOKEN
            case _:
                return False
        if body.key is None or not (body.key.scope or body.key.suffix):
            self._context.stats.drop(Drop.UNKNOWN_ENTITY)  # routers go by keys
            return True
        key = self.resolve(face, body.key)
        if key is None:
            return True
        if isinstance(body, DeclareQueryable):
            info = pack_info(complete=body.complete, distance=body.distance)
        if isinstance(body, (DeclareSubscriber, DeclareQueryable, DeclareToken)):
            flooding.declared(face, message.node_id, kind, key, info)
        else:
            flooding.undeclared(face, message.node_id, kind, key)
        return True

    def resolve(self, face: Face, wire: WireExpr) -> str | None:
        """Return the canonical key that a face means, or None, counted."""
        key = face.aliases.resolve(wire)
        if key is None:
            self._context.stats.drop(Drop.UNKNOWN_SCOPE)
            return None
        return key if self._routes.is_valid(key) else None

    def _declare(self, face: Face, message: Declare) -> None:
        """A neighbour or a session declared something of its own, or took it back."""
        body = message.body
        match body:
            case DeclareSubscriber():
                self._entity(face, Kind.SUBSCRIBER, body.id, body.key, PRESENT, message.interest_id)
            case DeclareQueryable():
                info = pack_info(complete=body.complete, distance=body.distance)
                self._entity(face, Kind.QUERYABLE, body.id, body.key, info, message.interest_id)
            case DeclareToken():
                self._entity(face, Kind.TOKEN, body.id, body.key, PRESENT, message.interest_id)
            case UndeclareSubscriber():
                self._entity_gone(face, Kind.SUBSCRIBER, body.id, body.key)
            case UndeclareQueryable():
                self._entity_gone(face, Kind.QUERYABLE, body.id, body.key)
            case UndeclareToken():
                self._entity_gone(face, Kind.TOKEN, body.id, body.key)
            case DeclareKeyExpr() if not face.spec.multicast:
                self._alias(face, body)
            case DeclareKeyExpr():
                # Its members share the face: their numbers would contradict each other.
                self._context.stats.drop(Drop.MULTICAST)
            case UndeclareKeyExpr():
                if face.aliases.undeclared(body.id):
                    self._context.tables.routes_changed()
                else:
                    self._context.stats.drop(Drop.UNKNOWN_ENTITY)
            case DeclareFinal():
                self._final(face, message.interest_id)
            case _:
                assert_never(body)

    def _final(self, face: Face, interest_id: int | None) -> None:
        """A face has told all that an interest asked for, or all it has at its begin."""
        if interest_id == INITIAL_INTEREST:
            if face.is_mutual and not face.ready:
                face.ready = True
                self._context.tables.routes_changed()
        elif interest_id is not None:
            self._upstream.ended(face, interest_id)
        else:
            self._context.stats.drop(Drop.UNKNOWN_INTEREST)

    def _alias(self, face: Face, body: DeclareKeyExpr) -> None:
        """A face gave a key a number."""
        if body.key.scope != 0 or body.id == 0:
            self._context.stats.drop(Drop.ALIAS_SCOPE)
            return
        if not self._routes.is_valid(body.key.suffix):
            return
        match face.aliases.declared(body.id, body.key.suffix):
            case AliasAnswer.STORED:
                self._context.tables.routes_changed()
                if face.spec.local:  # an application asks for short messages: so do we, north
                    for other in list(self._context.tables.faces.values()):
                        self._context.egress.key(other, body.key.suffix)
            case AliasAnswer.CONFLICT:
                self._context.stats.drop(Drop.ALIAS_CONFLICT)
            case AliasAnswer.FULL:
                self._context.stats.drop(Drop.ALIAS_LIMIT)
            case AliasAnswer.KNOWN:
                pass

    def _entity(
        self,
        face: Face,
        kind: Kind,
        entity_id: int,
        wire: WireExpr,
        info: int,
        interest_id: int | None,
    ) -> None:
        """A neighbour or a session declared an entity."""
        key = self.resolve(face, wire)
        if key is None:
            return
        if face.spec.multicast and kind is not Kind.SUBSCRIBER:
            self._context.stats.drop(Drop.MULTICAST)
            return
        # The members of a group share its face, and their ids mean nothing.
        name = key if entity_id == 0 or face.spec.multicast else entity_id
        asked = None
        if interest_id is not None and interest_id != INITIAL_INTEREST:
            if kind is Kind.TOKEN and not face.is_north:
                self._context.stats.drop(Drop.TOKEN_ANSWER)
                return
            asked = self._upstream.find(face, interest_id)
            if asked is None and entity_id == 0:
                # Part of a snapshot that nobody waits for any more; it will never be taken back.
                self._context.stats.drop(Drop.UNSOLICITED)
                return
            if asked is not None and asked.demand is None:
                self._upstream.relay(asked, kind, key, info)
                return
        if face.spec.gateway and not self._context.demands.wants(kind, key):
            if name in face.remote[kind]:  # until now it was the name of another key
                self._declarations.undeclare(kind, face, name)
            self._context.stats.drop(Drop.UNSOLICITED)
            return
        if self._context.tables.is_full(face) and name not in face.remote[kind]:
            self._context.stats.drop(Drop.DECLARATION_LIMIT)
            self._overflow(face)
            return
        if asked is not None and kind is Kind.TOKEN:
            self._liveliness.answered(face, asked, name, key)
        else:
            self._declarations.declare(kind, face, name, key, info)

    def _overflow(self, face: Face) -> None:
        """A face declared more than may be kept: what it has is unknown from now on."""
        if not face.overflowed:
            face.overflowed = True
            self._context.tables.routes_changed()

    def _entity_gone(self, face: Face, kind: Kind, entity_id: int, wire: WireExpr | None) -> None:
        """A neighbour or a session took an entity back, by its id, or by its key if that is 0."""
        if entity_id != 0 and entity_id in face.remote[kind]:
            self._declarations.undeclare(kind, face, entity_id)
            return
        key = None
        if wire is not None and (wire.scope != 0 or wire.suffix):  # an empty key means nothing
            key = self.resolve(face, wire)
            if key is None:
                return
        if key is not None and entity_id == 0 and key in face.remote[kind]:
            self._declarations.undeclare(kind, face, key)
        elif key is not None and kind is Kind.TOKEN and face.spec.gateway:
            # Never declared to us: with id 0 to clients, with a new id to peers.
            self._liveliness.vanished(key)
        else:
            self._context.stats.drop(Drop.UNKNOWN_ENTITY)
