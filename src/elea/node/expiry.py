"""Links that end with a certificate: `close_link_on_expiration`. behaviour.md 1.18.

A certificate ends at a time of day, which may be set while a node runs. So the time of day is asked
again now and then, rather than once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

EXPIRED: Final = "a certificate of the link has expired"
SECOND_NS: Final = 1_000_000_000
_LOOK_NS: Final = 600 * SECOND_NS  # a clock that was set is noticed by then


class Expiries:
    """When which link ends.

    Example:
        >>> links = Expiries()
        >>> links.tell_time(lambda: 1_000 * SECOND_NS)
        >>> links.watch(7, 1_005, now_ns=0)
        >>> links.next_timer_ns(), links.take(now_ns=0)
        (5000000000, [])
        >>> links.tell_time(lambda: 1_006 * SECOND_NS)
        >>> links.take(now_ns=5_000_000_000), links.next_timer_ns()
        ([7], None)
    """

    __slots__ = ("_by_link", "_look_ns", "_wall_ns")

    def __init__(self) -> None:
        self._by_link: dict[int, int] = {}  # the end, in seconds since 1970
        self._look_ns = 0
        self._wall_ns: Callable[[], int] | None = None

    def __len__(self) -> int:
        return len(self._by_link)

    def tell_time(self, wall_ns: Callable[[], int]) -> None:
        """Whom to ask for the time of day."""
        self._wall_ns = wall_ns

    def watch(self, link_id: int, expires_s: int | None, now_ns: int) -> None:
        """A link was made; None: it ends with no certificate."""
        if expires_s is not None and self._wall_ns is not None:
            self._by_link[link_id] = expires_s
            self._aim(now_ns)

    def forget(self, link_id: int) -> None:
        """A link is gone."""
        self._by_link.pop(link_id, None)

    def next_timer_ns(self) -> int | None:
        """When to look again."""
        return self._look_ns if self._by_link else None

    def take(self, now_ns: int) -> list[int]:
        """The links that end now; each is told once."""
        if not self._by_link or now_ns < self._look_ns or self._wall_ns is None:
            return []
        wall_s = self._wall_ns() // SECOND_NS
        ended = [link_id for link_id, end_s in self._by_link.items() if end_s <= wall_s]
        for link_id in ended:
            del self._by_link[link_id]
        self._aim(now_ns)
        return ended

    def _aim(self, now_ns: int) -> None:
        if self._by_link and self._wall_ns is not None:
            left_ns = min(self._by_link.values()) * SECOND_NS - self._wall_ns()
            self._look_ns = now_ns + min(max(left_ns, 0), _LOOK_NS)
