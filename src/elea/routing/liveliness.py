"""Liveliness: what tokens need beyond other declarations (behaviour.md 3.7, 5.12)."""

from __future__ import annotations

from elea.routing.declarations import Declarations
from elea.routing.demands import Demands
from elea.routing.egress import Egress
from elea.routing.face import EntityKey, Face
from elea.routing.interests import Asked, Interests
from elea.routing.tables import ABSENT, PRESENT, Kind, Tables


class Liveliness:
    """Tokens that answer an interest, and tokens that vanish before anybody told of them."""

    __slots__ = ("_declarations", "_demands", "_egress", "_interests", "_tables")

    def __init__(
        self,
        tables: Tables,
        demands: Demands,
        declarations: Declarations,
        interests: Interests,
        egress: Egress,
    ) -> None:
        self._tables = tables
        self._demands = demands
        self._declarations = declarations
        self._interests = interests
        self._egress = egress

    def answered(self, gateway: Face, asked: Asked, name: EntityKey, key: str) -> None:
        """A token that was there when a gateway was asked for what is there.

        It is news to those who asked. Those who watch the future only are not told: for them it is
        as old as for the gateway.
        """
        is_news = asked.resync or asked.ended
        self._declarations.declare(Kind.TOKEN, gateway, name, key, PRESENT, quiet=not is_news)
        if not is_news:
            self._interests.tell_waiting(asked, Kind.TOKEN, key)

    def vanished(self, key: str) -> None:
        """A token is gone that this node was never told of: those who watch learn its key."""
        entry = self._tables.get(Kind.TOKEN, key)
        faces = {one.face.id: one.face for one in self._demands.matching(Kind.TOKEN, key)}
        for face in faces.values():
            if entry is None or self._tables.view(entry, face) == ABSENT:
                self._egress.undeclare(face, Kind.TOKEN, key, 0)
