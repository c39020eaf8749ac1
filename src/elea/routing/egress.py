"""Egress: control messages to one face, with keys in the form that face understands."""

from __future__ import annotations

from typing import Final

from elea.routing.effects import Output
from elea.routing.face import Face
from elea.routing.resources import plain_prefix
from elea.routing.tables import ABSENT, Kind, Tables, Told, distance_of, is_complete
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import OPTION_KEYEXPRS, Interest, InterestMode

# What Eclipse puts behind U_QUERYABLE and U_TOKEN between nodes that go by ids (behaviour.md 3.8).
_NO_KEY: Final = WireExpr(0, "", False)


class Egress:
    """Says what the other modules decided."""

    __slots__ = ("_output", "_tables")

    def __init__(self, output: Output, tables: Tables) -> None:
        self._output = output
        self._tables = tables

    def declaration(self, face: Face, body: Declaration, interest_id: int | None = None) -> None:
        self._output.send(face.id, Declare(body, interest_id, QOS_DECLARE), True)

    def final(self, face: Face, interest_id: int) -> None:
        self.declaration(face, DeclareFinal(), interest_id)

    def entity(
        self, face: Face, kind: Kind, key: str, told: Told, interest_id: int | None = None
    ) -> None:
        """Declare an entity under the id and info it is told with."""
        wire = self.key(face, key)
        body: Declaration
        if kind is Kind.SUBSCRIBER:
            body = DeclareSubscriber(told.id, wire)
        elif kind is Kind.QUERYABLE:
            info = told.info
            body = DeclareQueryable(told.id, wire, is_complete(info), distance_of(info))
        else:
            body = DeclareToken(told.id, wire)
        self.declaration(face, body, interest_id)

    def sourced(self, face: Face, kind: Kind, key: str, info: int, node_id: int) -> None:
        """Tell a router what another has, or has no more: by key, without ids."""
        body: Declaration
        if info != ABSENT:
            wire = self.key(face, key)
            if kind is Kind.SUBSCRIBER:
                body = DeclareSubscriber(0, wire)
            elif kind is Kind.QUERYABLE:
                body = DeclareQueryable(0, wire, is_complete(info), distance_of(info))
            else:
                body = DeclareToken(0, wire)
        elif kind is Kind.SUBSCRIBER:
            body = UndeclareSubscriber(0, WireExpr(0, key))
        elif kind is Kind.QUERYABLE:
            body = UndeclareQueryable(0, WireExpr(0, key))
        else:
            body = UndeclareToken(0, WireExpr(0, key))
        self._output.send(face.id, Declare(body, None, QOS_DECLARE, node_id=node_id), True)

    def undeclare(self, face: Face, kind: Kind, key: str, entity_id: int) -> None:
        """Take an entity back, by its id; by its key as well where that is understood.

        With id 0 the key is all there is: a token that the face was never told of has vanished.
        """
        wire: WireExpr | None = WireExpr(0, key) if face.spec.elea or entity_id == 0 else None
        body: Declaration
        if kind is Kind.SUBSCRIBER:
            body = UndeclareSubscriber(entity_id, wire)
        elif kind is Kind.QUERYABLE:
            body = UndeclareQueryable(entity_id, wire or _NO_KEY)
        else:
            body = UndeclareToken(entity_id, wire or _NO_KEY)
        self.declaration(face, body)

    def interest(
        self, face: Face, interest_id: int, mode: InterestMode, options: int, key: str | None
    ) -> None:
        """Ask a gateway; K allows it to use aliases in its answers."""
        wire = None if key is None else self.key(face, key)
        message = Interest(interest_id, mode, options | OPTION_KEYEXPRS, wire, QOS_DECLARE)
        self._output.send(face.id, message, True)

    def interest_final(self, face: Face, interest_id: int) -> None:
        message = Interest(interest_id, InterestMode.FINAL, qos=QOS_DECLARE)
        self._output.send(face.id, message, True)

    def key(self, face: Face, key: str) -> WireExpr:
        """`key` for a declaration or an interest; north, its plain prefix becomes an alias first.

        South faces get aliases only of their own making, and groups and sessions none at all.
        """
        if face.spec.local or face.spec.multicast:
            return WireExpr(0, key)
        if face.is_north:
            prefix = plain_prefix(key)
            expr_id = face.aliases.assign(prefix) if prefix else None
            if expr_id is not None:
                self._tables.routes_changed()
                self.declaration(face, DeclareKeyExpr(expr_id, WireExpr(0, prefix)))
        return face.aliases.express(key)
