"""Which routes should exist: a table of discovered endpoints, and what follows from it (dds.md 7).

No DDS and no session here. The table is told of endpoints and returns the routes whose plan
changed; a plan depends on the endpoints there are, not on how they came (collisions excepted: of
two names with one key the first keeps it).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from typing import Final

from elea.dds.mapping import Names, concrete_of, is_pattern
from elea.dds.port import Endpoint
from elea.dds.qos import ReaderClass
from elea.dds.ros import InterfaceFilter
from elea.errors import InvalidValueError

_OWN_TOPICS: Final = "DCPS"  # what topics of DDS itself begin with


class Direction(Enum):
    """Which way a route carries samples."""

    FROM_DDS = "from_dds"
    TO_DDS = "to_dds"
    SERVICE_SRV = "service_srv"  # a ROS service whose server is in the domain
    SERVICE_CLI = "service_cli"  # a ROS service whose client is in the domain

    __hash__ = object.__hash__  # that of Enum is a Python call, thirty for each new route


class Verdict(Enum):
    """Why an endpoint has a route, or none (D-310)."""

    ROUTED = "Routed"
    NOT_ALLOWED = "NotAllowed"
    BAD_NAME = "BadName"
    COLLISION = "Collision"
    PATTERN_PARTITION = "PatternPartition"
    FULL = "Full"


@dataclass(frozen=True, slots=True)
class RouteId:
    """A route: one direction, one key or key expression, one type (D-301)."""

    direction: Direction
    key: str
    topic: str
    partition: str
    type_name: str
    type_hash: bytes = b""


@dataclass(frozen=True, slots=True)
class Routed:
    """What became of one partition of an endpoint."""

    verdict: Verdict
    key: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a route should be: its endpoints, by GUID in their order."""

    id: RouteId
    endpoints: tuple[Endpoint, ...]

    @property
    def classes(self) -> tuple[ReaderClass, ...]:
        """The classes of its writers, one mirror reader each."""
        return tuple(sorted({ReaderClass.of(one.qos) for one in self.endpoints}))

    @property
    def has_key(self) -> bool:
        """Whether its endpoints have key members, by their GUIDs."""
        return any(one.has_key for one in self.endpoints)

    @property
    def is_durable(self) -> bool:
        """Whether an endpoint keeps, or wants, what was written before."""
        return any(one.qos.is_durable for one in self.endpoints)


@dataclass(frozen=True, slots=True)
class Filter:
    """Which keys are bridged, and which way (D-206, D-207)."""

    allow: re.Pattern[str] | None = None
    deny: re.Pattern[str] | None = None
    directions: frozenset[Direction] = frozenset(Direction)
    interfaces: InterfaceFilter | None = None  # of ROS, by their names (D-670)
    rules: Callable[[str, Direction], bool] | None = None  # of the node (D-814)

    def allows(self, key: str, direction: Direction) -> bool:
        """Whether a key may be routed."""
        if direction not in self.directions:
            return False
        if self.allow is not None and self.allow.search(key) is None:
            return False
        if self.deny is not None and self.deny.search(key) is not None:
            return False
        return self.rules is None or self.rules(key, direction)

    def allows_topic(self, topic: str, *, is_writer: bool) -> bool:
        """Whether a topic of ROS may be routed."""
        interfaces = self.interfaces
        return interfaces is None or interfaces.allows_topic(topic, is_writer=is_writer)


@dataclass(slots=True)
class _Group:
    """The endpoints of one direction, key and type name."""

    topic: str
    partition: str
    endpoints: dict[bytes, Endpoint] = field(default_factory=dict)


_GroupId = tuple[Direction, str, str]  # direction, key, type name


class RouteTable:
    """The endpoints of a domain, and the plans of all routes.

    Args:
        names: How names become keys.
        filter_: What may be routed.
        pattern_writers: Whether writers in pattern partitions are bridged (D-108).
        count_max: Routes at most.
        renamed: Gives the key of a topic in the default partition, or None to leave it to `names`.
    """

    def __init__(
        self,
        names: Names,
        filter_: Filter,
        *,
        pattern_writers: bool = False,
        count_max: int = 10_000,
        renamed: Callable[[Endpoint], str | None] = lambda _endpoint: None,
    ) -> None:
        self.endpoints: dict[bytes, Endpoint] = {}
        self.plans: dict[RouteId, Plan] = {}
        self._names = names
        self._filter = filter_
        self._pattern_writers = pattern_writers
        self._count_max = count_max
        self._renamed = renamed
        self._groups: dict[_GroupId, _Group] = {}
        self._ids: dict[_GroupId, tuple[RouteId, ...]] = {}
        self._routed: dict[bytes, dict[str, Routed]] = {}  # by GUID, then by partition
        self._claims: dict[str, tuple[tuple[str, str], set[bytes]]] = {}  # names and GUIDs by key
        self._full: dict[bytes, None] = {}  # GUIDs that found no room, the first one first
        self._colliding: dict[str, set[bytes]] = {}  # GUIDs by the key that others have
        self._freed: set[str] = set()  # keys that nobody has any more

    def routed(self, guid: bytes) -> dict[str, Routed]:
        """Return what became of the partitions of an endpoint."""
        return self._routed.get(guid, {})

    def add(self, endpoint: Endpoint) -> set[RouteId]:
        """Take an endpoint that appeared or changed; returns the routes whose plan changed."""
        if endpoint.topic.startswith(_OWN_TOPICS):
            return set()
        known = self.endpoints.get(endpoint.guid)
        if known == endpoint:
            return set()
        touched = self._leave(endpoint.guid)
        self.endpoints[endpoint.guid] = endpoint
        touched |= self._enter(endpoint)
        return self._replan(touched)

    def remove(self, guid: bytes) -> set[RouteId]:
        """Forget an endpoint; an unknown GUID changes nothing (D-204)."""
        touched = self._leave(guid)
        self.endpoints.pop(guid, None)
        if touched:
            touched |= self._retry_refused()
        self._freed.clear()
        return self._replan(touched)

    def remove_participant(self, guid: bytes) -> set[RouteId]:
        """Forget all endpoints of a participant (D-205)."""
        changed: set[RouteId] = set()
        for one in [e.guid for e in self.endpoints.values() if e.guid[:12] == guid[:12]]:
            changed |= self.remove(one)
        return changed

    def filter_by(self, filter_: Filter) -> set[RouteId]:
        """Apply other rules to all endpoints (D-206, D-784)."""
        self._filter = filter_
        touched: set[_GroupId] = set()
        for endpoint in list(self.endpoints.values()):
            touched |= self._leave(endpoint.guid)
            touched |= self._enter(endpoint)
        return self._replan(touched)

    def _retry_refused(self) -> set[_GroupId]:
        """Route endpoints whose key, or room for whose route, has become free.

        No more than can be routed: a peer may have left thousands without room.
        """
        touched: set[_GroupId] = set()
        found = {guid for key in self._freed for guid in self._colliding.get(key, ())}
        room = max(0, self._count_max - len(self._groups))
        for guid in [*sorted(found), *islice(self._full, room)]:
            touched |= self._leave(guid)
            touched |= self._enter(self.endpoints[guid])
        return touched

    def _enter(self, endpoint: Endpoint) -> set[_GroupId]:
        touched: set[_GroupId] = set()
        found = self._routed[endpoint.guid] = {}
        for partition in endpoint.qos.partition_names:
            for key, routed in self._decide(endpoint, partition):
                found[partition if partition not in found else f"{partition} {key}"] = routed
                if routed.verdict is Verdict.ROUTED:
                    touched.add(self._join(endpoint, partition, key))
                elif routed.verdict is Verdict.FULL:
                    self._full[endpoint.guid] = None
                elif routed.verdict is Verdict.COLLISION:
                    self._colliding.setdefault(key, set()).add(endpoint.guid)
        return touched

    def _decide(self, endpoint: Endpoint, partition: str) -> Iterator[tuple[str, Routed]]:
        direction = Direction.FROM_DDS if endpoint.is_writer else Direction.TO_DDS
        if endpoint.is_writer and is_pattern(partition) and not self._pattern_writers:
            yield "", Routed(Verdict.PATTERN_PARTITION, reason=f"partition {partition}")
            return
        try:
            renamed = self._renamed(endpoint)
            keys = (
                (renamed,)
                if renamed is not None
                else self._names.selectors(partition, endpoint.topic)
            )
        except InvalidValueError as error:
            yield "", Routed(Verdict.BAD_NAME, reason=error.reason)
            return
        for key in keys:
            yield key, self._verdict(endpoint, partition, key, direction)

    def _verdict(
        self, endpoint: Endpoint, partition: str, key: str, direction: Direction
    ) -> Routed:
        allowed = self._filter.allows_topic(endpoint.topic, is_writer=endpoint.is_writer)
        if not allowed or not self._filter.allows(key, direction):
            return Routed(Verdict.NOT_ALLOWED, key)
        pair = partition, endpoint.topic
        owner, guids = self._claims.get(key, (pair, set()))
        if owner != pair:
            reason = f"partition {owner[0]!a}, topic {owner[1]!a} has this key"
            return Routed(Verdict.COLLISION, key, reason)
        group = direction, key, endpoint.type_name
        if group not in self._groups and len(self._groups) >= self._count_max:
            return Routed(Verdict.FULL, key, f"dds_routes_count is {self._count_max}")
        guids.add(endpoint.guid)
        self._claims[key] = pair, guids
        return Routed(Verdict.ROUTED, key)

    def _join(self, endpoint: Endpoint, partition: str, key: str) -> _GroupId:
        direction = Direction.FROM_DDS if endpoint.is_writer else Direction.TO_DDS
        id_ = direction, key, endpoint.type_name
        group = self._groups.get(id_)
        if group is None:
            group = self._groups[id_] = _Group(endpoint.topic, partition)
        group.endpoints[endpoint.guid] = endpoint
        return id_

    def _leave(self, guid: bytes) -> set[_GroupId]:
        touched: set[_GroupId] = set()
        endpoint = self.endpoints.get(guid)
        self._full.pop(guid, None)
        for routed in self._routed.pop(guid, {}).values():
            if routed.verdict is Verdict.COLLISION:
                colliding = self._colliding.get(routed.key, set())
                colliding.discard(guid)
                if not colliding:
                    self._colliding.pop(routed.key, None)
            if routed.verdict is not Verdict.ROUTED or endpoint is None:
                continue
            direction = Direction.FROM_DDS if endpoint.is_writer else Direction.TO_DDS
            id_ = direction, routed.key, endpoint.type_name
            group = self._groups.get(id_)
            if group is not None:
                group.endpoints.pop(guid, None)
                touched.add(id_)
                if not group.endpoints:
                    del self._groups[id_]
            self._unclaim(routed.key, guid)
        return touched

    def _unclaim(self, key: str, guid: bytes) -> None:
        claim = self._claims.get(key)
        if claim is not None:
            claim[1].discard(guid)
            if not claim[1]:
                del self._claims[key]
                self._freed.add(key)

    def _replan(self, touched: Iterable[_GroupId]) -> set[RouteId]:
        changed: set[RouteId] = set()
        for id_ in touched:
            group = self._groups.get(id_)
            plans = [] if group is None else list(_plans(id_, group))
            before = self._ids.pop(id_, ())
            if plans:
                self._ids[id_] = tuple(plan.id for plan in plans)
            for route in before:
                if route not in {plan.id for plan in plans}:
                    del self.plans[route]
                    changed.add(route)
            for plan in plans:
                if self.plans.get(plan.id) != plan:
                    self.plans[plan.id] = plan
                    changed.add(plan.id)
        return changed


def _plans(id_: _GroupId, group: _Group) -> Iterator[Plan]:
    """One plan per type; endpoints that send no type information join the first type (D-263)."""
    direction, key, type_name = id_
    hashes = sorted({one.type_hash for one in group.endpoints.values() if one.type_hash})
    by_hash: dict[bytes, list[Endpoint]] = {}
    for one in sorted(group.endpoints.values(), key=lambda endpoint: endpoint.guid):
        chosen = one.type_hash or (hashes[0] if hashes else b"")
        by_hash.setdefault(chosen, []).append(one)
    for type_hash, endpoints in by_hash.items():
        route = RouteId(direction, key, group.topic, group.partition, type_name, type_hash)
        yield Plan(route, tuple(endpoints))


def mirror_partition(partition: str) -> str:
    """Return the partition that the mirror reader of a route is in (D-108, D-302)."""
    return concrete_of(partition) if is_pattern(partition) else partition
