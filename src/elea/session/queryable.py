"""Queryable: answers queries on matching keys."""

from __future__ import annotations

from typing import final

from elea.ids import EntityGlobalId
from elea.keyexpr.keyexpr import KeyExpr
from elea.session.context import Context
from elea.session.handlers import Delivery
from elea.session.listeners import H_co, Listening
from elea.session.query import Query
from elea.session.queryables import Answerer


@final
class Queryable(Listening[H_co]):
    """Receives queries.

    Undeclared when nobody refers to it, unless a function receives: that goes on in the background.
    """

    __slots__ = ("_answerer",)

    _kind = "queryable"

    def __init__(self, context: Context, delivery: Delivery[Query], answerer: Answerer) -> None:
        super().__init__(context, delivery)
        self._answerer = answerer

    @property
    def id(self) -> EntityGlobalId:
        """Its identity."""
        self._check()
        return self._context.entity(self._answerer.id)

    @property
    def key_expr(self) -> KeyExpr:
        """The key it answers queries on."""
        self._check()
        return KeyExpr._trusted(self._answerer.key)

    def _end(self) -> None:
        self._context.core.undeclare_answerer(self._answerer)

    def _forget(self) -> None:
        del self._answerer

    def __repr__(self) -> str:
        return "Queryable(undeclared)" if self._gone else f"Queryable({self._answerer.key!r})"
