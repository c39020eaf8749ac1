"""Forwarded discovery: endpoints that other Elea bridges tell of are mirrored here (D-704).

The tokens `W` and `R` say that an endpoint is there; a query on
`@/<zid>/@dds/<domain>/endpoint/<guid>` brings its QoS and type as JSON. Owned by the DDS thread.
"""

from __future__ import annotations

import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from elea.dds.announced import announced_guid
from elea.dds.port import Endpoint, Tier, TopicType
from elea.dds.qos import Durability, Liveliness, Ownership, Qos, Reliability, Scope
from elea.dds.representation import Extensibility
from elea.errors import EleaError
from elea.json5 import Json
from elea.keyexpr.keyexpr import KeyExpr
from elea.sample import Reply
from elea.session.handlers import Callback
from elea.session.query import Query

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.session.context import Declared

_KINDS: Final[dict[str, Any]] = {
    "reliability": Reliability,
    "durability": Durability,
    "liveliness": Liveliness,
    "ownership": Ownership,
    "scope": Scope,
}
_TUPLES: Final = ("partitions", "representations")


def endpoint_json(endpoint: Endpoint, type_: TopicType | None) -> str:
    """Return an endpoint and its type as JSON."""
    qos: dict[str, Json] = {}
    for one in fields(Qos):
        value = getattr(endpoint.qos, one.name)
        if one.name in _TUPLES:
            value = list(value)
        qos[one.name] = value.hex() if isinstance(value, bytes) else value
    told: dict[str, Json] = {
        "guid": endpoint.guid.hex(),
        "topic": endpoint.topic,
        "type_name": endpoint.type_name,
        "qos": qos,
    }
    if type_ is not None and type_.tier is Tier.EXACT:
        extensibility = type_.extensibility
        told["type"] = {
            "hash": type_.hash.hex(),
            "has_key": type_.has_key,
            "information": type_.info.hex(),
            "mapping": type_.mapping.hex(),
            "extensibility": None if extensibility is None else extensibility.value,
        }
    return json.dumps(told)


def read_endpoint(payload: bytes, *, is_writer: bool) -> tuple[Endpoint, TopicType | None]:
    """Return what `endpoint_json` wrote, as an endpoint of the given side.

    Raises:
        ValueError: It is malformed.
    """
    try:
        told = json.loads(payload)
        known = {one.name: told["qos"][one.name] for one in fields(Qos) if one.name in told["qos"]}
        for name, kind in _KINDS.items():
            known[name] = kind(known[name])
        for name in _TUPLES:
            known[name] = tuple(known[name])
        known["user_data"] = bytes.fromhex(known["user_data"])
        guid = announced_guid(str(told["guid"]), is_writer=is_writer)
        given = told.get("type")
        type_ = None
        if given is not None:
            kind = given["extensibility"]
            type_ = TopicType(
                str(told["type_name"]),
                Tier.EXACT,
                bool(given["has_key"]),
                bytes.fromhex(given["hash"]),
                bytes.fromhex(given["information"]),
                bytes.fromhex(given["mapping"]),
                None if kind is None else Extensibility(kind),
            )
        type_hash = b"" if type_ is None else type_.hash
        endpoint = Endpoint(
            guid,
            guid,
            is_writer,
            str(told["topic"]),
            str(told["type_name"]),
            Qos(**known),
            type_hash=type_hash,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"malformed endpoint: {error}") from None
    return endpoint, type_


class Forwarding:
    """Tells other bridges of the endpoints here, and mirrors theirs."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self._root = f"@/{bridge.session.zid()}/@dds/{bridge.settings.domain}/endpoint"
        self._queryable: Declared | None = None
        self._waiting: list[Query] = []  # about endpoints whose types did not come yet
        self._there: dict[str, bytes] = {}  # GUIDs of those that stand for others, by token

    def start(self) -> None:
        """Answer what other bridges ask."""
        if not self._bridge.settings.forward_discovery:
            return
        post = self._bridge.post
        handler = Callback[Query](lambda query: post(lambda _now: self._answer(query)))
        self._queryable = self._bridge.session.declare_queryable(f"{self._root}/*", handler)

    def stop(self) -> None:
        """Answer no more."""
        self._bridge.undeclare(self._queryable)
        for query in self._waiting:
            query.drop()
        self._waiting.clear()

    def types_changed(self) -> None:
        """Answer queries whose types came meanwhile, or timed out."""
        waiting, self._waiting = self._waiting, []
        for query in waiting:
            self._answer(query)

    def _answer(self, query: Query) -> None:
        bridge = self._bridge
        endpoints = {
            key: endpoint
            for endpoint in bridge.table.endpoints.values()
            if query.key_expr.intersects(key := f"{self._root}/{endpoint.guid.hex()}")
        }
        # An answer without a type is final: the other bridge would mirror opaque samples.
        is_early = any(self._is_type_awaited(endpoint) for endpoint in endpoints.values())
        if is_early and len(self._waiting) < bridge.limits.dds_queries_waiting_count:
            self._waiting.append(query)
            return
        with query:
            for key, endpoint in endpoints.items():
                type_ = bridge.types.by_hash(endpoint.type_hash)
                query.reply(key, endpoint_json(endpoint, type_), encoding="application/json")

    def _is_type_awaited(self, endpoint: Endpoint) -> bool:
        type_hash = endpoint.type_hash
        return self._bridge.types.is_awaited(type_hash) and any(
            id_.type_hash == type_hash
            for id_ in self._bridge.routes  # which look it up
        )

    def told(self, token: str, *, is_there: bool) -> None:
        """A bridge has an endpoint, or has it no more: `@/zid/@dds/domain/kind/guid/key`."""
        if not self._bridge.settings.forward_discovery:
            return
        _, zid, _, domain, kind, guid, name = token.split("/")
        if not is_there:
            known = self._there.pop(token, None)
            if known is not None:
                self._bridge.announced.remove(known)
            return
        if guid[:24] in {one.hex() for one in self._bridge.presence.home}:
            return  # of the own domain
        self._there[token] = b""
        post = self._bridge.post

        def take(reply: Reply) -> None:
            if reply.ok is not None:
                payload = reply.ok.payload.to_bytes()
                post(lambda _now: self._add(token, name.replace("§", "/"), kind, payload))

        selector = KeyExpr(f"@/{zid}/@dds/{domain}/endpoint/{guid}")
        timeout = self._bridge.settings.queries_timeout_s
        try:
            self._bridge.session.get(selector, Callback(take, indirect=False), timeout=timeout)
        except EleaError:
            self._there.pop(token, None)

    def _add(self, token: str, key: str, kind: str, payload: bytes) -> None:
        if token not in self._there:
            return  # withdrawn meanwhile
        try:
            # A writer elsewhere becomes a mirror writer here, as if it had a reader.
            endpoint, type_ = read_endpoint(payload, is_writer=kind == "R")
        except ValueError:
            self._bridge.counts.refused += 1
            return
        if type_ is not None:
            self._bridge.types.adopt(type_)
        self._there[token] = endpoint.guid
        self._bridge.announced.add(endpoint, key)
