"""A bridge as JSON: its admin space, in the layout of zenoh-bridge-dds, and its status (dds.md 19).

    @/<zid>/dds/version, .../config
    @/<zid>/dds/participant/<guid>[/{reader,writer}/<guid>/<topic>]
    @/<zid>/dds/route/{from_dds,to_dds}/<key>

By the DDS thread alone, except `status` and `counts`, which read numbers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from elea.config.kinds import Value
from elea.dds.from_dds import FromDds
from elea.dds.mapping import escape_name
from elea.dds.port import Endpoint, Mirror
from elea.dds.qos import INFINITE, KEEP_ALL, Durability, Qos
from elea.dds.routes import Routed, Verdict
from elea.dds.service_routes import ServiceRoute
from elea.errors import EleaError
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.version import VERSION

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge, Route

_UNMATCHED_NS = 5_000_000_000


def qos_json(qos: Qos) -> dict[str, Json]:
    """Return the policies of an endpoint; those with DDS's default are left out."""
    default = Qos()
    found: dict[str, Json] = {
        "reliability": {"kind": qos.reliability.name},
        "durability": {"kind": qos.durability.name},
        "history": {
            "kind": "KEEP_ALL" if qos.depth == KEEP_ALL else "KEEP_LAST",
            "depth": qos.depth,
        },
    }
    if qos.partitions:
        found["partitions"] = [*qos.partitions]
    if qos.ownership is not default.ownership:
        found["ownership"] = {"kind": qos.ownership.name, "strength": qos.strength}
    if qos.liveliness is not default.liveliness or qos.lease_ns != INFINITE:
        found["liveliness"] = {"kind": qos.liveliness.name, "lease_ns": _bounded(qos.lease_ns)}
    if qos.deadline_ns != INFINITE:
        found["deadline_ns"] = qos.deadline_ns
    if qos.lifespan_ns != INFINITE:
        found["lifespan_ns"] = qos.lifespan_ns
    if qos.by_source_time:
        found["destination_order"] = "BY_SOURCE_TIMESTAMP"
    if qos.representations:
        found["data_representation"] = [*qos.representations]
    if qos.user_data:
        found["user_data"] = qos.user_data.decode("utf-8", "backslashreplace")
    return found


def _bounded(nanoseconds: int) -> Json:
    return None if nanoseconds >= INFINITE else nanoseconds


class Description:
    """Tells about a bridge."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self.root = f"@/{bridge.session.zid()}/dds"

    def answers(self, key_expr: KeyExpr) -> Iterator[tuple[str, str]]:
        """Yield the keys and JSON that a query is answered with."""
        for key, value in self._all():
            try:
                if key_expr.intersects(key):
                    yield key, json.dumps(value)
            except EleaError:
                continue  # a name that is no key; its participant shows it all the same

    def _all(self) -> Iterator[tuple[str, Json]]:
        bridge, root = self._bridge, self.root
        yield f"{root}/version", f"{VERSION} ({bridge.dds.version})"
        yield f"{root}/config", _plain(dict(bridge.settings.said))
        for participant in list(bridge.presence.participants.values()):
            prefix = f"{root}/participant/{participant.guid.hex()}"
            properties: dict[str, Json] = {**participant.properties}
            qos: dict[str, Json] = {
                "entity_name": participant.name,
                "user_data": participant.user_data.decode("utf-8", "backslashreplace"),
                "properties": properties,
            }
            yield prefix, {"key": participant.guid.hex(), "qos": qos}
        for guid, node in bridge.graph.nodes():
            name = escape_name(f"{node.namespace}/{node.name}".replace("//", "/").lstrip("/"))
            yield (
                f"{root}/node/{guid.hex()}/{name}",
                {
                    "namespace": node.namespace,
                    "name": node.name,
                    "readers": [one.hex() for one in node.readers],
                    "writers": [one.hex() for one in node.writers],
                },
            )
        for endpoint in [*bridge.admission.endpoints(), *bridge.admission.hidden.values()]:
            kind = "writer" if endpoint.is_writer else "reader"
            place = f"{root}/participant/{endpoint.participant.hex()}/{kind}/{endpoint.guid.hex()}"
            yield f"{place}/{escape_name(endpoint.topic)}", self.endpoint(endpoint)
        for route in list(bridge.routes.values()):
            kind = route.id.direction.value
            yield f"{root}/route/{kind}/{route.id.key}", self.route(route)

    def endpoint(self, endpoint: Endpoint) -> dict[str, Json]:
        """Return one endpoint with what became of it."""
        bridge = self._bridge
        routes: dict[str, Json] = {}
        for partition, routed in bridge.table.routed(endpoint.guid).items():
            routes[partition or "*"] = _routed(routed)
        refused = bridge.services.refused.get(endpoint.guid)
        if refused is not None:
            routes["*"] = refused if refused == "NotAllowed" else {"CreationFailure": refused}
        if endpoint.guid in bridge.admission.hidden:
            routes["*"] = {"CreationFailure": "an endpoint of another bridge"}
        return {
            "key": endpoint.guid.hex(),
            "participant_key": endpoint.participant.hex(),
            "topic_name": endpoint.topic,
            "type_name": endpoint.type_name,
            "keyless": not endpoint.has_key,
            "type_hash": endpoint.type_hash.hex() or None,
            "qos": qos_json(endpoint.qos),
            "routes": routes,
        }

    def route(self, route: Route) -> dict[str, Json]:
        """Return one route."""
        if isinstance(route, ServiceRoute):
            return self._service(route)
        is_from = isinstance(route, FromDds)
        mirrors = route.mirrors
        mirror = mirrors[0].guid.hex() if mirrors else ""
        local: list[Json] = [one.guid.hex() for one in route.plan.endpoints]
        remote: list[Json] = []
        if not isinstance(route, FromDds):
            remote = [one.decode() for one in sorted(route.sources)]
        counts = route.counts
        lost: dict[str, Json] = {**counts.lost}
        found: dict[str, Json] = {
            "topic_name": route.id.topic,
            "topic_type": route.id.type_name,
            "keyless": not any(one.has_key for one in route.plan.endpoints),
            ("dds_reader" if is_from else "dds_writer"): mirror,
            ("remote_routed_readers" if is_from else "remote_routed_writers"): remote,
            ("local_routed_writers" if is_from else "local_routed_readers"): local,
            "state": route.state.value.value,
            "tier": None if route.tier is None else route.tier.value,
            "type_hash": route.id.type_hash.hex() or None,
            "partition": route.id.partition,
            "mirrors": [one.guid.hex() for one in mirrors],
            "qos_mirror": self._mirror_qos(mirrors),
            "counts": {
                "samples": counts.samples,
                "bytes": counts.octets,
                "deletes": counts.deletes,
                "deletes_ignored": counts.deletes_ignored,
                "lost": lost,
                "pending": route.pending_count,
                "age_ms": self._age(counts.last_ns),
                **self._library_counts(route),
            },
            "unmatched": self._unmatched(route),
            "last_error": route.state.error or None,
            "next_attempt": self._until(route.state.next_ns),
        }
        if isinstance(route, FromDds):
            kinds = [one.qos.durability for one in route.plan.endpoints]
            found["durability"] = max(kinds, default=Durability.VOLATILE).name
            found["live_instances"] = route.instances_count
            found["cache"] = {"samples": route.sorter.cache.count, "bytes": route.sorter.cache.len}
        if any(one.has_key for one in route.plan.endpoints) and not self._bridge.has_key(
            route.plan
        ):
            found["instances"] = "unknown"
        return found

    def _service(self, route: ServiceRoute) -> dict[str, Json]:
        counts = route.counts
        lost: dict[str, Json] = {**counts.lost}
        return {
            "service_name": f"/{route.name}",
            "service_type": route.id.type_name,
            "local_endpoints": [one.guid.hex() for one in route.plan.endpoints],
            "remote_routes": [*sorted(route.announced)],
            "state": route.state.value.value,
            "tier": None if route.tier is None else route.tier.value,
            "mirrors": [one.guid.hex() for one in route.mirrors],
            "qos_mirror": self._mirror_qos(route.mirrors),
            "counts": {
                "samples": counts.samples,
                "bytes": counts.octets,
                "lost": lost,
                "pending": route.pending_count,
                "age_ms": self._age(counts.last_ns),
            },
            "last_error": route.state.error or None,
            "next_attempt": self._until(route.state.next_ns),
        }

    def _mirror_qos(self, mirrors: list[Mirror]) -> Json:
        known = [self._bridge.mirror_qos.get(one.handle) for one in mirrors]
        return [qos_json(one[0]) for one in known if one is not None]

    def _age(self, last_ns: int) -> Json:
        return (self._bridge.now_ns() - last_ns) // 1_000_000 if last_ns else None

    def _until(self, next_ns: int | None) -> Json:
        return None if next_ns is None else max(0, next_ns - self._bridge.now_ns()) / 1e9

    def _library_counts(self, route: Route) -> dict[str, Json]:
        total: Counter[str] = Counter()
        for mirror in route.mirrors:
            total.update(self._bridge.dds.counts(mirror, is_writer=not isinstance(route, FromDds)))
        return {**total}

    def _unmatched(self, route: Route) -> list[Json]:
        """Endpoints that no mirror matched within 5 s, with the policy if DDS names one (D-313)."""
        if not route.mirrors or self._bridge.now_ns() - route.made_ns < _UNMATCHED_NS:
            return []
        is_writer = not isinstance(route, FromDds)
        matched: set[int] = set()
        policy = ""
        for mirror in route.mirrors:
            found = self._bridge.dds.unmatched(mirror, is_writer=is_writer)
            matched.update(found.matched)
            policy = found.policy or policy
        return [
            {"guid": one.guid.hex(), "policy": policy or None}
            for one in route.plan.endpoints
            if one.handle not in matched
        ]

    def status(self) -> dict[str, Json]:
        """Return the bridge as a whole; any thread may ask."""
        bridge = self._bridge
        states: dict[str, Json] = dict(
            Counter(route.state.value.value for route in list(bridge.routes.values()))
        )
        counts: dict[str, Json] = {**self.counts()}
        idle_ns = bridge.now_ns() - bridge.turn_ns
        return {
            "domain": bridge.settings.domain,
            "guid": bridge.dds.guid.hex(),
            "library": bridge.dds.version,
            "loopback": bridge.settings.is_loopback,
            "interfaces": [*bridge.settings.discovery.interfaces],
            "participants": len(bridge.presence.participants),
            "endpoints": len(bridge.admission.endpoints()),
            "routes": len(bridge.routes),
            "routes_by_state": states,
            "standby": bridge.is_standby,
            "stuck": bridge.doing if idle_ns > bridge.STUCK_NS else None,
            "counts": counts,
        }

    def counts(self) -> dict[str, int]:
        """Return all counters by name; any thread may ask."""
        bridge = self._bridge
        total = bridge.counts
        found = {
            "participants": len(bridge.presence.participants),
            "endpoints": len(bridge.admission.endpoints()),
            "routes": len(bridge.routes),
            "cache_samples": bridge.budget.count,
            "cache_bytes": bridge.budget.len,
            "cache_dropped": bridge.budget.dropped_count,
            "queries": bridge.history.asked_count,
            "queries_dropped": bridge.history.dropped_count,
            "replies": total.replies,
            "type_lookups": bridge.types.lookups_count,
            "type_failures": bridge.types.failures_count,
            "no_room": total.no_room,
            "refused": total.refused,
            "failures": total.failures,
            "stamps_replaced": total.stamps_replaced,
            "datagrams_dropped": bridge.dds.dropped_datagrams(),
            "turn_us_max": total.turn_ns_max // 1_000,
            "duplicates": sum(total.duplicates.values()),
        }
        for route in list(bridge.routes.values()):
            found[f"routes_{route.state.value.name.lower()}"] = (
                found.get(f"routes_{route.state.value.name.lower()}", 0) + 1
            )
        for name, kept in (
            ("from_dds", total.from_dds),
            ("to_dds", total.to_dds),
            ("service", total.services),
        ):
            routes = [
                one.counts
                for one in list(bridge.routes.values())
                if one.id.direction.value.startswith(name)
            ]
            every = [kept, *routes]
            found[f"{name}_samples"] = sum(one.samples for one in every)
            found[f"{name}_bytes"] = sum(one.octets for one in every)
            found[f"{name}_deletes"] = sum(one.deletes for one in every)
            lost: Counter[str] = Counter()
            for one in every:
                lost.update(dict(one.lost))
            found[f"{name}_lost"] = sum(lost.values())
            for reason, count in lost.items():
                found[f"{name}_lost_{reason.replace(' ', '_')}"] = count
        return found


def _routed(routed: Routed) -> Json:
    if routed.verdict is Verdict.ROUTED:
        return {"Routed": routed.key}
    if routed.verdict is Verdict.NOT_ALLOWED:
        return "NotAllowed"
    return {"CreationFailure": f"{routed.verdict.value}: {routed.reason}"}


def _plain(value: Value) -> Json:
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value)
