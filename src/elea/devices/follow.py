"""Follow: subscriptions to what is kept although no device of ours writes it any more.

Others may write or delete it, and queries are to be answered accordingly. Beyond a bound there is
one subscription to everything, as a storage has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from elea.keyexpr.keyexpr import KeyExpr
from elea.session.context import Declared
from elea.xrce.samples.durability import DurableStore

EVERYTHING: Final = "**"
FOLLOWED_COUNT: Final = 1_024

Subscribe = Callable[[str], Declared]


class Follow:
    """Key expressions without a publisher of ours, as long as something of them is kept.

    Args:
        stores: What is kept.
        subscribe: Declares a subscriber.
    """

    def __init__(self, stores: Sequence[DurableStore], subscribe: Subscribe) -> None:
        self._stores = stores
        self._subscribe = subscribe
        self._followed: dict[str, Declared] = {}
        self._all: Declared | None = None

    def begin(self, keys: Iterable[str]) -> None:
        """Follow what is kept from before."""
        for key in keys:
            self.note(key)

    def note(self, key: str) -> None:
        """Something of this key is kept, and no publisher of it was declared."""
        if self._all is None and key not in self._followed:
            self.keep(key, self._subscribe(key))

    def keep(self, key_expr: str, subscriber: Declared) -> None:
        """Devices want it no longer: go on with it if something is kept of it, else end it."""
        if self._all is not None or not self._is_kept(key_expr):
            subscriber.undeclare()
            return
        self._followed[key_expr] = subscriber
        if len(self._followed) > FOLLOWED_COUNT:
            self._all = self._subscribe(EVERYTHING)
            self._end_each()

    def take(self, key_expr: str) -> Declared | None:
        """The subscriber of a key expression that devices want again."""
        return self._followed.pop(key_expr, None)

    def deleted(self, key: str) -> None:
        """A sample was taken away: what is about nothing else need not be followed."""
        for key_expr in [one for one in self._followed if KeyExpr(one).intersects(key)]:
            if not self._is_kept(key_expr):
                self._followed.pop(key_expr).undeclare()

    def declared(self) -> list[Declared]:
        """All subscribers."""
        return [*self._followed.values(), *([self._all] if self._all is not None else [])]

    def _is_kept(self, key_expr: str) -> bool:
        if "*" not in key_expr:
            return any(store.holds(key_expr) for store in self._stores)
        wanted = KeyExpr(key_expr)
        kept = (sample.key for store in self._stores for sample in store.matching("**"))
        return any(map(wanted.intersects, kept))

    def _end_each(self) -> None:
        for subscriber in self._followed.values():
            subscriber.undeclare()
        self._followed.clear()
