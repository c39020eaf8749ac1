"""Routes of one key and direction: those of several types stand beside each other (D-265).

Owned by the DDS thread.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from elea.dds.from_dds import FromDds
from elea.dds.routes import Direction, RouteId
from elea.dds.shared_readers import SharedReaders
from elea.dds.to_dds import ToDds

if TYPE_CHECKING:
    from elea.dds.bridge import Route

Group = tuple[Direction, str]


def group_of(id_: RouteId) -> Group:
    """Return what the routes of a group share."""
    return id_.direction, id_.key


class RouteGroups:
    """Finds the routes beside a route."""

    def __init__(self) -> None:
        self._groups: dict[Group, dict[RouteId, Route]] = {}
        self._shared: dict[str, SharedReaders] = {}

    def add(self, route: Route) -> None:
        """Take a route."""
        self._groups.setdefault(group_of(route.id), {})[route.id] = route

    def remove(self, route: Route) -> None:
        """Forget a route."""
        group = group_of(route.id)
        routes = self._groups[group]
        del routes[route.id]
        if len(routes) < 2:
            self._shared.pop(route.id.key, None)
        if not routes:
            del self._groups[group]

    def has_other(self, route: Route) -> bool:
        """Whether another type of the same key has a route, too."""
        return len(self._groups.get(group_of(route.id), ())) > 1

    def others(self, route: Route) -> list[Route]:
        """Return the routes of the same key and direction."""
        return [
            one for one in self._groups.get(group_of(route.id), {}).values() if one is not route
        ]

    def of_same_name(self, route: Route) -> list[Route]:
        """Return the others whose types have the name of the route's, and another hash."""
        same = replace(route.id, type_hash=b"")
        return [one for one in self.others(route) if replace(one.id, type_hash=b"") == same]

    def lingering(self, route: Route) -> list[Route]:
        """Return those of the same name that have no endpoints any more.

        Endpoints of the new route may have matched their mirrors, if one type can be read as the
        other: samples would go to both, or to those of the old type alone.
        """
        return [one for one in self.of_same_name(route) if one.end_ns is not None]

    def from_dds(self, route: FromDds) -> list[FromDds]:
        """Return the others whose samples come from DDS."""
        return [one for one in self.others(route) if isinstance(one, FromDds)]

    def with_writer(self, route: FromDds, handle: int) -> FromDds | None:
        """Return the route of another type that has a writer."""
        return next((one for one in self.from_dds(route) if one.has(handle)), None)

    def shared_readers(self, route: ToDds) -> SharedReaders | None:
        """Return what the routes of the key wrote; None: there is one route alone."""
        if not self.has_other(route):
            return None
        found = self._shared.get(route.id.key)
        if found is None:
            routes = self._groups[group_of(route.id)]

            def readers_of(id_: RouteId) -> frozenset[int]:
                one = routes.get(id_)
                return one.readers_matched() if isinstance(one, ToDds) else frozenset()

            found = self._shared[route.id.key] = SharedReaders(readers_of)
        return found
