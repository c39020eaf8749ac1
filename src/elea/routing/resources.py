"""Aliases of one face, both ways: numbers that stand for key texts (behaviour.md 3.4)."""

from __future__ import annotations

from enum import Enum

from elea.limits import EXPR_ID_MAX
from elea.wire.fields import WireExpr


class AliasAnswer(Enum):
    """What became of an alias that the neighbour declared."""

    STORED = "stored"
    KNOWN = "known"  # the same key again
    CONFLICT = "conflict"  # another key under a number in use: the first stays
    FULL = "full"


class Aliases:
    """What the numbers of both sides mean on one face.

    `peer` are the neighbour's, `own` are ours. An alias is used by the side that did not declare
    it too: M=0 in a message refers to the receiver's table.
    """

    __slots__ = ("_next_id", "_own_ids", "_peer_ids", "count_max", "own", "peer")

    def __init__(self, count_max: int) -> None:
        self.count_max = min(count_max, EXPR_ID_MAX)
        self.peer: dict[int, str] = {}
        self.own: dict[int, str] = {}
        self._peer_ids: dict[str, int] = {}
        self._own_ids: dict[str, int] = {}
        self._next_id = 1

    def resolve(self, key: WireExpr) -> str | None:
        """The text of a received key, or None if its alias is unknown."""
        if key.scope == 0:
            return key.suffix
        head = (self.peer if key.sender else self.own).get(key.scope)
        return None if head is None else head + key.suffix

    def declared(self, expr_id: int, text: str) -> AliasAnswer:
        """The neighbour declared `expr_id`."""
        known = self.peer.get(expr_id)
        if known is not None:
            return AliasAnswer.KNOWN if known == text else AliasAnswer.CONFLICT
        if len(self.peer) >= self.count_max:
            return AliasAnswer.FULL
        self.peer[expr_id] = text
        self._peer_ids[text] = expr_id
        return AliasAnswer.STORED

    def undeclared(self, expr_id: int) -> bool:
        """The neighbour took `expr_id` back; whether it had declared it."""
        text = self.peer.pop(expr_id, None)
        if text is None:
            return False
        if self._peer_ids.get(text) == expr_id:
            del self._peer_ids[text]
        return True

    def assign(self, text: str) -> int | None:
        """A number of our own for `text`, to be declared; None if it has one or there is no room.

        The smallest number that neither side uses, as Eclipse chooses it.
        """
        if text in self._own_ids or text in self._peer_ids or len(self.own) >= self.count_max:
            return None
        while self._next_id in self.peer:
            self._next_id += 1
        expr_id = self._next_id
        if expr_id > EXPR_ID_MAX:
            return None
        self._next_id += 1  # ours are never taken back: everything below is in use
        self.own[expr_id] = text
        self._own_ids[text] = expr_id
        return expr_id

    def express(self, key: str) -> WireExpr:
        """The shortest form of `key` towards this neighbour; of two equals, with its own alias."""
        if not self.peer and not self.own:
            return WireExpr(0, key)
        end = len(key)
        while end > 0:
            head = key[:end]
            expr_id = self._peer_ids.get(head)
            if expr_id is not None:
                return WireExpr(expr_id, key[end:], False)
            expr_id = self._own_ids.get(head)
            if expr_id is not None:
                return WireExpr(expr_id, key[end:], True)
            end = key.rfind("/", 0, end)
        return WireExpr(0, key)


def plain_prefix(key: str) -> str:
    """The longest run of chunks at the start of `key` that hold no wildcard; may be empty.

    Example:
        >>> plain_prefix("demo/x/**"), plain_prefix("demo/x"), plain_prefix("a$*/b")
        ('demo/x', 'demo/x', '')
    """
    wild = key.find("*")
    if wild < 0:
        return key
    return key[: max(key.rfind("/", 0, wild), 0)]
