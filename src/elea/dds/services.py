"""Services and actions of ROS 2: which there are in the domain and elsewhere (D-665, D-666).

Owned by the DDS thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from elea.dds.port import Endpoint
from elea.dds.ros import (
    ACTION_SERVICES,
    action_of,
    key_name,
    name_key,
    service_label,
    service_topic,
)
from elea.dds.ros_tokens import ServiceAnnouncement
from elea.dds.routes import Direction, Plan, RouteId
from elea.dds.service_routes import ServiceClient, ServiceRoute, ServiceServer
from elea.errors import EleaError, InvalidValueError

if TYPE_CHECKING:
    from elea.dds.bridge import Bridge
    from elea.session.context import Declared

_ServiceId = tuple[str, str, bool]  # key, type, whether the route faces servers


class Services:
    """The endpoints of services, their routes, and the tokens that announce them."""

    def __init__(self, bridge: Bridge) -> None:
        self.endpoints: dict[bytes, Endpoint] = {}
        self.refused: dict[bytes, str] = {}  # reasons by GUID
        self._bridge = bridge
        self._members: dict[_ServiceId, dict[bytes, Endpoint]] = {}
        self._ids: dict[bytes, _ServiceId] = {}
        self._routes: dict[_ServiceId, ServiceRoute] = {}
        self._tokens: dict[str, Declared] = {}
        self._is_announcing = False

    def has_server(self, key: str, label: str) -> bool:
        """Whether the domain has a server of a service."""
        route = self._routes.get((key, label, True))
        return route is not None and route.is_local

    def add(self, endpoint: Endpoint) -> bool:
        """Take an endpoint of a service; False if it belongs to none."""
        topic = service_topic(endpoint.topic)
        if not self._bridge.settings.ros or topic is None or endpoint.qos.partitions:
            return False
        self.remove(endpoint.guid)
        self.endpoints[endpoint.guid] = endpoint
        faces_servers = topic.is_request is not endpoint.is_writer
        label = service_label(endpoint.type_name)
        try:
            key = name_key(topic.name, self._bridge.settings.namespace)
        except InvalidValueError as error:
            self.refused[endpoint.guid] = f"BadName: {error.reason}"
            return True
        if not self._allows(key, topic.name, is_server=faces_servers):
            self.refused[endpoint.guid] = "NotAllowed"
            return True
        id_ = key, label, faces_servers
        self._ids[endpoint.guid] = id_
        self._members.setdefault(id_, {})[endpoint.guid] = endpoint
        self._changed(id_, topic.name)
        return True

    def remove(self, guid: bytes) -> bool:
        """Forget an endpoint; False if it is none of a service."""
        if self.endpoints.pop(guid, None) is None:
            return False
        self.refused.pop(guid, None)
        id_ = self._ids.pop(guid, None)
        if id_ is not None:
            members = self._members[id_]
            del members[guid]
            if not members:
                del self._members[id_]
            self._changed(id_, "")
        return True

    def refilter(self) -> None:
        """Apply changed rules to all endpoints."""
        for endpoint in list(self.endpoints.values()):
            self.add(endpoint)

    def told(self, token: str, announced: ServiceAnnouncement, *, is_there: bool) -> None:
        """Another bridge announces a service or an action, or withdraws it."""
        for key, label in announced.services():
            name = key_name(key, self._bridge.settings.namespace)
            id_ = key, label, not announced.is_server
            route = self._routes.get(id_)
            if not is_there:
                if route is not None:
                    route.announced.discard(token)
                    self._changed(id_, name)
            elif self._allows(key, name, is_server=not announced.is_server):
                self._route(id_, name).announced.add(token)
                self._changed(id_, name)

    def _allows(self, key: str, name: str, *, is_server: bool) -> bool:
        filter_ = self._bridge.settings.filter
        way = Direction.SERVICE_SRV if is_server else Direction.SERVICE_CLI
        return filter_.allows(key, way) and (
            filter_.interfaces is None
            or filter_.interfaces.allows_service(f"/{name}", is_server=is_server)
        )

    def _route(self, id_: _ServiceId, name: str) -> ServiceRoute:
        key, label, faces_servers = id_
        route = self._routes.get(id_)
        if route is None:
            make = ServiceServer if faces_servers else ServiceClient
            route = self._routes[id_] = make(self._bridge, key, name, label)
            self._bridge.add_route(route)
        route.end_ns = None
        return route

    def _changed(self, id_: _ServiceId, name: str) -> None:
        """Follow what there is of a service: its route, the one that faces it, and tokens."""
        members = self._members.get(id_, {})
        route = self._routes.get(id_)
        if route is None and members:
            route = self._route(id_, name)
        if route is not None:
            endpoints = tuple(members[guid] for guid in sorted(members))
            route.update(Plan(route.id, endpoints))
            if route.is_used:
                route.end_ns = None
                self._bridge.upkeep.touch(route)
            else:
                self._bridge.end_later(route)
        other = self._routes.get((id_[0], id_[1], not id_[2]))
        if other is not None:
            self._bridge.upkeep.touch(other)
        if not self._is_announcing:
            self._is_announcing = True
            self._bridge.post(self._announce)

    def ended(self, id_: RouteId) -> None:
        """A route ended."""
        faces_servers = id_.direction is Direction.SERVICE_SRV
        self._routes.pop((id_.key, id_.type_name, faces_servers), None)

    def _announce(self, _now_ns: int) -> None:
        """Declare the tokens of what the domain has, and take back the others."""
        self._is_announcing = False
        wanted = set(self._wanted_tokens()) if self._bridge.settings.tokens else set()
        for gone in [one for one in self._tokens if one not in wanted]:
            self._bridge.undeclare(self._tokens.pop(gone))
        liveliness = self._bridge.session.liveliness()
        for token in sorted(wanted - self._tokens.keys()):
            try:
                self._tokens[token] = liveliness.declare_token(token)
            except EleaError:
                continue  # a type name that is no chunk of a key; the service is served anyway

    def _wanted_tokens(self) -> list[str]:
        zid = str(self._bridge.session.zid())
        found = []
        actions: dict[tuple[str, bool], dict[str, str]] = {}
        for (key, label, faces_servers), route in self._routes.items():
            if not route.is_local:
                continue
            action = action_of(key)
            if action is None:
                found.append(ServiceAnnouncement(zid, faces_servers, False, key, label).to_key())
            else:
                part = key.rpartition("/")[2]
                actions.setdefault((action, faces_servers), {})[part] = label
        for (action, is_server), parts in actions.items():
            label = parts.get("send_goal", "").removesuffix("_SendGoal")
            if label and len(parts) == len(ACTION_SERVICES):
                found.append(ServiceAnnouncement(zid, is_server, True, action, label).to_key())
        return found

    def stop(self) -> None:
        """Take the tokens back."""
        self._bridge.undeclare(*self._tokens.values())
        self._tokens.clear()
