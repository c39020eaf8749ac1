"""What a bridge answers: its description, schemas, and samples for late joiners.

Threads of the session bring queries; the DDS thread answers them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from elea.dds import ros
from elea.dds.from_dds import FromDds
from elea.dds.history import cache_key
from elea.dds.parameter_list import PROPERTY, Described, write_parameters
from elea.dds.port import Endpoint, TopicType
from elea.dds.qos import Durability
from elea.dds.routes import RouteId
from elea.dds.schema import PREFIX, Schema, Schemas
from elea.dds.state import LOG
from elea.decode.property_list import write_properties
from elea.selector import time_range_of
from elea.session.handlers import Callback
from elea.session.matching import MatchingStatus
from elea.session.query import Query
from elea.timestamp import NTP64, Timestamp

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.session.context import Declared

_PROPERTY: Final = "property"  # last chunk of the key of a resource's properties


class Answers:
    """The queryables of a bridge, and the schemas that it made."""

    def __init__(self, bridge: Bridge) -> None:
        self.schemas = Schemas()
        self._bridge = bridge
        self._declared: list[Declared] = []
        self._ros_hashes: dict[str, str] = {}  # of ROS types without type information, by name

    def start(self) -> None:
        """Declare the queryables."""
        self._declared = [
            self._queryable(f"{PREFIX}/**", self._schemas),
            self._queryable(f"{self._bridge.describe.root}/**", self._description),
            self._queryable(f"**/{_PROPERTY}", self._properties),
            *self._watch_recorders(),
        ]

    def _watch_recorders(self) -> list[Declared]:
        """Put all schemas again when a subscriber of theirs appears, such as a recorder."""
        publisher = self._bridge.session.declare_publisher(f"{PREFIX}/**")

        def put_again(_now_ns: int) -> None:
            for schema in self.schemas:
                self._put(schema)

        def told(status: MatchingStatus) -> None:
            if status.matching:
                self._bridge.post(put_again)

        handler = Callback(told, indirect=False)
        return [publisher.declare_matching_listener(handler), publisher]

    def stop(self) -> None:
        """Answer no more."""
        self._bridge.undeclare(*self._declared)

    def keep_for_late_joiners(self, route: FromDds) -> list[Declared]:
        """Answer history queries for a route, until what is returned is undeclared (D-563).

        With ROS names the route is asked as an advanced publisher is, and says by a token that
        it is there (D-664).
        """
        session = self._bridge.session
        zid = session.zid()
        ros = self._bridge.settings.ros
        key = cache_key(route.id.key, str(zid), ros=ros)
        found: list[Declared] = [self._queryable(key, lambda query: self._kept(route, query))]
        if ros:
            found.append(session.liveliness().declare_token(key))
        return found

    def publish_schema(self, type_: TopicType, label: str) -> None:
        """Make the schema of a type and put it (D-874)."""
        schema = self.schemas.of(type_, label)
        if schema is not None:
            self._put(schema)

    def _put(self, schema: Schema) -> None:
        if self._bridge.rights.allow_put(schema.key):
            text = self._json(schema)
            self._bridge.session.put(schema.key, text, encoding="application/json")

    def _json(self, schema: Schema) -> str:
        return schema.to_json(self._ros_hashes.get(schema.type.name, ""))

    def note_ros_hash(self, endpoint: Endpoint) -> None:
        """Keep the type hash that an endpoint announces in the schema of its type (D-877)."""
        declared = self._bridge.settings.types.get(endpoint.type_name)
        found = ros.type_hash_text(endpoint.qos.user_data)
        name = endpoint.type_name
        if declared is None or not found or self._ros_hashes.get(name) == found:
            return
        self._ros_hashes[name] = found
        if declared.ros_hash and declared.ros_hash != found:
            LOG.warning(
                "type %a: its definition has hash %s, a node announces %s: samples may not decode",
                name,
                declared.ros_hash,
                found,
            )
        for schema in self.schemas:
            if schema.type.name == name:
                self._put(schema)

    def _queryable(self, key: str, answer: Callable[[Query], None]) -> Declared:
        def act(query: Query) -> None:
            with query:
                answer(query)

        def asked(query: Query) -> None:
            self._bridge.post(lambda _now_ns: act(query))

        handler = Callback(asked, indirect=False)
        return self._bridge.session.declare_queryable(key, handler)

    def _schemas(self, query: Query) -> None:
        for schema in self.schemas:
            if query.key_expr.intersects(schema.key):
                query.reply(schema.key, self._json(schema), encoding="application/json")

    def _description(self, query: Query) -> None:
        for key, text in self._bridge.describe.answers(query.key_expr):
            query.reply(key, text, encoding="application/json")

    def _properties(self, query: Query) -> None:
        """Answer the properties of bridged resources, if nothing but them is asked (D-735)."""
        bridge, expr = self._bridge, query.key_expr
        if not str(expr).endswith(f"/{_PROPERTY}"):
            return  # `**` asks for data
        best: dict[str, tuple[Durability, Endpoint, RouteId]] = {}
        for id_, plan in bridge.table.plans.items():
            if "*" in id_.key or not expr.intersects(f"{id_.key}/{_PROPERTY}"):
                continue
            for one in plan.endpoints:
                if id_.key not in best or one.qos.durability > best[id_.key][0]:
                    best[id_.key] = one.qos.durability, one, id_
        for key, (_, endpoint, id_) in best.items():
            qos = replace(endpoint.qos, partitions=(id_.partition,) if id_.partition else ())
            type_ = bridge.types.by_hash(endpoint.type_hash)
            information = b"" if type_ is None else type_.info
            described = Described(endpoint.topic, endpoint.type_name, qos, information)
            listed = write_properties([(PROPERTY, write_parameters(described))])
            query.reply(f"{key}/{_PROPERTY}", listed)

    def _kept(self, route: FromDds, query: Query) -> None:
        bridge = self._bridge
        try:
            times = time_range_of(query.parameters)
            said = query.parameters.get("_max")
            count_max = None if said is None else max(0, int(said))
        except ValueError as error:
            query.reply_err(str(error))
            return
        wall_ns = bridge.wall_ns()
        for kept in route.sorter.cache.samples(bridge.now_ns(), count_max):
            stamp = Timestamp(NTP64.from_value(kept.time), kept.writer)
            if times is not None and not times.contains(stamp, wall_ns):
                continue
            bridge.counts.replies += 1
            query.reply(
                route.id.key,
                kept.payload,
                encoding=route.encoding,
                timestamp=stamp,
                attachment=kept.attachment or None,
            )
