"""The keys that an application said it will use often (`Session.declare_keyexpr`)."""

from __future__ import annotations

from elea.limits import EXPR_ID_MAX
from elea.session.face import Face
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr

_NO_ALIAS = 0  # more keys than there are numbers: the key travels as its text


class DeclaredKeys:
    """Each has an alias on the session's face; the node makes one of it on every link north."""

    __slots__ = ("_counts", "_face", "_free", "_ids", "_next_id")

    def __init__(self, face: Face) -> None:
        self._face = face
        self._counts: dict[str, int] = {}
        self._ids: dict[str, int] = {}
        self._free: list[int] = []
        self._next_id = 1

    def declare(self, key: str) -> None:
        """It will be used often; counted, for several parts of a program may say so."""
        self._face.check_open()
        count = self._counts.get(key, 0)
        self._counts[key] = count + 1
        if count == 0:
            self._ids[key] = self._new_id()
            self._tell(key)

    def undeclare(self, key: str) -> bool:
        """It is used no more; False if nobody said it would."""
        count = self._counts.pop(key, 0)
        if count > 1:
            self._counts[key] = count - 1
        elif count == 1:
            expr_id = self._ids.pop(key)
            if expr_id != _NO_ALIAS:
                self._free.append(expr_id)
                if not self._face.closed:
                    self._face.declare(UndeclareKeyExpr(expr_id))
        return count > 0

    def redeclare(self) -> None:
        """Say it all again, to another node."""
        for key in self._ids:
            self._tell(key)

    def _tell(self, key: str) -> None:
        expr_id = self._ids[key]
        if expr_id != _NO_ALIAS:
            self._face.declare(DeclareKeyExpr(expr_id, self._face.wire_key(key)))

    def _new_id(self) -> int:
        if self._free:
            return self._free.pop()
        if self._next_id > EXPR_ID_MAX:
            return _NO_ALIAS
        self._next_id += 1
        return self._next_id - 1
