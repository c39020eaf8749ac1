"""Liveliness: what tokens need beyond other declarations (behaviour.md 3.7, 5.12)."""

from __future__ import annotations

from elea.routing.context import Context
from elea.routing.declarations import Declarations
from elea.routing.face import EntityKey, Face
from elea.routing.interests.upstream import Asked, Upstream
from elea.routing.tables import ABSENT, PRESENT, Kind


class Liveliness:
    """Tokens that answer an interest, and tokens that vanish before anybody told of them."""

    __slots__ = ("_context", "_declarations", "_upstream")

    def __init__(self, context: Context, declarations: Declarations, upstream: Upstream) -> None:
        self._context = context
        self._declarations = declarations
        self._upstream = upstream

    def answered(self, gateway: Face, asked: Asked, name: EntityKey, key: str) -> None:
        """A token that was there when a gateway was asked for what is there.

        It is news to those who asked. Those who watch the future only are not told: for them it is
        as old as for the gateway.
        """
        is_news = asked.resync or asked.ended
        self._declarations.declare(Kind.TOKEN, gateway, name, key, PRESENT, quiet=not is_news)
        if not is_news:
            self._upstream.tell_waiting(asked, Kind.TOKEN, key)

    def vanished(self, key: str) -> None:
        """A token is gone that this node was never told of: those who watch learn its key."""
        tables = self._context.tables
        entry = tables.get(Kind.TOKEN, key)
        watching = self._context.demands.matching(Kind.TOKEN, key)
        for face in {one.face.id: one.face for one in watching}.values():
            if entry is None or tables.view(entry, face) == ABSENT:
                self._context.egress.undeclare(face, Kind.TOKEN, key, 0)
