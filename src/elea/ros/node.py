"""Node: what ROS nodes see as one of them (section 15)."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, Self, TypeVar

from elea.errors import InvalidValueError, UnknownTypeError
from elea.ros import asking
from elea.ros.catalog import Types
from elea.ros.context import Context
from elea.ros.endpoints import (
    Endpoint,
    Publisher,
    Receive,
    Subscription,
    backends_for,
)
from elea.ros.formats.keys import NO_HASH
from elea.ros.formats.library import MessageType, ServiceType
from elea.ros.formats.messages import Message
from elea.ros.formats.names import checked_namespace, checked_node, full_name, long_type
from elea.ros.formats.qos import DEFAULT, ROSOUT, SERVICES, QoS
from elea.ros.formats.tokens import AnyToken, BridgeToken, Kind, Token
from elea.ros.graph import Graph, hash_of, is_bridged
from elea.ros.logger import Logger
from elea.ros.parameters import Parameters
from elea.ros.services import Client, Handle, Service
from elea.session.session import Session

TOPIC_WAIT_S: Final = 3.0
E = TypeVar("E", bound=Endpoint)


class Node:
    """A node of a fleet: publishers, subscriptions, services, clients.

    Args:
        name: As in `ros2 node list`, without its namespace.
        namespace: As `/robot1`.
        connect: Where the fleet's router is; without it, as rmw_zenoh finds it.
        session: An open session to use, which stays open.
        context: One that several nodes share.
        domain, prefix, types, ask_fleet: As for `Context`.
        parameters: Names and values that others may ask for and set.
        rosout: Publish what `get_logger()` is told.
        describe: Answer get_type_description.

    Raises:
        InvalidValueError: a name is none.
        ConfigError, LinkError: as `elea.open`.
    """

    def __init__(
        self,
        name: str,
        *,
        namespace: str = "/",
        connect: str | list[str] | None = None,
        session: Session | None = None,
        context: Context | None = None,
        domain: int | None = None,
        prefix: str = "",
        types: Types | None = None,
        ask_fleet: bool = True,
        parameters: Mapping[str, Any] | None = None,
        rosout: bool = True,
        describe: bool = True,
    ) -> None:
        self._name = checked_node(name)
        self._namespace = checked_namespace(namespace)
        self._owns_context = context is None
        self.context = context or Context(
            session,
            connect=connect,
            domain=domain,
            prefix=prefix,
            types=types,
            ask_fleet=ask_fleet,
        )
        self._token = self.context.node_token(self._namespace, self._name)
        self._lock = threading.Lock()
        self._endpoints: list[Endpoint] = []
        self._closed = False
        self._logger: Logger | None = None
        self.parameters: Parameters | None = None
        liveliness = self.context.session.liveliness()
        self._declared = liveliness.declare_token(self.context.token_key(self._token))
        try:
            if rosout:
                out = self.create_publisher("rcl_interfaces/msg/Log", "/rosout", qos=ROSOUT)
                self._logger = Logger(self.get_fully_qualified_name(), out)
            if describe:
                self.create_service(asking.SERVICE, f"~/{asking.NAME}", self._describe)
            if parameters is not None:
                self.parameters = Parameters(self, parameters)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_args: object) -> None:
        self.close()

    def close(self) -> None:
        """Withdraw endpoints, the token, and the session if it was opened here (R2-601)."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            endpoints, self._endpoints = self._endpoints, []
        for endpoint in reversed(endpoints):
            endpoint.close()
        if not self.context.session.is_closed():
            self._declared.undeclare()
        if self._owns_context:
            self.context.close()

    destroy_node = close

    @property
    def graph(self) -> Graph:
        """Who else is there."""
        return self.context.graph

    @property
    def types(self) -> Types:
        """The definitions that are known."""
        return self.context.types

    def get_name(self) -> str:
        """Its name."""
        return self._name

    def get_namespace(self) -> str:
        """Its namespace."""
        return self._namespace

    def get_fully_qualified_name(self) -> str:
        """Both."""
        return self._token.node_name

    def get_logger(self) -> Logger:
        """Tells others of what happens, on `/rosout`."""
        return self._logger or Logger(self.get_fully_qualified_name(), None)

    def create_publisher(
        self, type: str | type[Message], topic: str, qos: QoS | int = DEFAULT, *, via: str = "rmw"
    ) -> Publisher:
        """A publisher.

        Args:
            type: As `std_msgs/msg/String`, or a class of `types`.
            qos: Policies, or a depth.
            via: `rmw`, or `bridge` for nodes behind zenoh-bridge-ros2dds (R2-403).

        Raises:
            UnknownTypeError: no definition of the type is known.
            InvalidValueError: the name or the QoS is none, or endpoints of several hashes are
                there (R2-506).
        """
        name = self._full(topic)
        self.context.check_writable(f"a publisher of {name}")
        kind = self._kind(type, hash_for(self.graph.topic(name), _name_of(type)))
        policies = _policies(qos)
        token: Token | BridgeToken
        if via == "bridge":
            token = BridgeToken(self.context.zid, Kind.PUBLISHER, name, kind.name, policies)
        else:
            token = self.endpoint_token(Kind.PUBLISHER, name, kind.name, kind.hash, policies)
        return self._keep(Publisher(self.context, token, kind, policies))

    def create_subscription(
        self,
        type: str | type[Message] | None,
        topic: str,
        callback: Receive | None = None,
        qos: QoS | int = DEFAULT,
        *,
        raw: bool = False,
        hidden: bool = False,
        history: bool = False,
        via: str = "rmw",
    ) -> Subscription:
        """A subscription; messages go to the callback, or wait to be taken.

        Args:
            type: As for publishers; None: that of the topic, which must be known (`wait_for`).
            raw: Give messages as they come, with their bytes.
            hidden: Declare no token (R2-157).
            history: Ask publishers for what they keep, whatever the QoS says.
            via: `rmw` or `bridge`.

        Raises:
            UnknownTypeError: no definition of the type is known, and `raw` is not set.
            InvalidValueError: the topic is not known, or has several types.
        """
        name = self._full(topic)
        policies = _policies(qos)
        type_name = self._type_of_topic(name) if type is None else long_type(_name_of(type))
        there = [one for one in self.graph.topic(name) if one.type == type_name]
        kind: MessageType | None = None
        try:
            kind = self.types.message(type_name, hash_of(there))
        except UnknownTypeError:
            if not raw and type is not None and not there:
                raise
        token: Token | BridgeToken
        if via == "bridge":
            token = BridgeToken(self.context.zid, Kind.SUBSCRIPTION, name, type_name, policies)
        else:
            hash = hash_of(there) or (NO_HASH if kind is None else kind.hash)
            token = self.endpoint_token(Kind.SUBSCRIPTION, name, type_name, hash, policies)
        backends = None if via == "bridge" else backends_for(kind, policies)
        if backends is not None and isinstance(token, Token):
            token = _with_backends(token, backends)
        return self._keep(
            Subscription(
                self.context,
                token,
                policies,
                callback,
                raw=raw,
                history=history or any(one.qos.is_transient_local for one in there),
                hidden=hidden,
                buffers=backends is not None,
            )
        )

    def forward(self, name: str, type: str, hash: str, qos: QoS) -> Publisher:
        """A publisher of CDR that others made, of a type that need not be known."""
        policies = qos.resolved()
        self.context.check_writable(f"a publisher of {name}")
        token = self.endpoint_token(Kind.PUBLISHER, self._full(name), type, hash, policies)
        return self._keep(Publisher(self.context, token, None, policies))

    def subscribe(
        self, topic: str, type: str | None = None, *, timeout: float = TOPIC_WAIT_S, **options: Any
    ) -> Subscription:
        """A subscription to iterate over, with the type taken from the graph.

        Raises:
            InvalidValueError: nobody has the topic within the timeout.
        """
        name = self._full(topic)
        if type is None:
            self.graph.wait_until(lambda: self.graph.topic(name), timeout)
        options.setdefault("qos", _offered(self.graph.publishers(name)))
        if type is None and "via" not in options:
            known = self.graph.topic(name)
            options["via"] = "bridge" if known and all(map(is_bridged, known)) else "rmw"
        return self.create_subscription(type, topic, **options)

    def create_service(self, type: str, name: str, handle: Handle) -> Service:
        """A server; `handle` takes a request and returns the response.

        Raises:
            UnknownTypeError: no definition of the type is known.
        """
        full = self._full(name)
        self.context.check_writable(f"a server of {full}")
        kind = self._service(type, full)
        token = self.endpoint_token(Kind.SERVER, full, kind.name, kind.hash, SERVICES)
        return self._keep(Service(self.context, token, kind, handle))

    def create_client(self, type: str, name: str, *, via: str = "rmw") -> Client:
        """A client; raises as `create_service`."""
        full = self._full(name)
        self.context.check_writable(f"a call of {full}")
        kind = self._service(type, full)
        token: Token | BridgeToken
        if via == "bridge":
            token = BridgeToken(self.context.zid, Kind.CLIENT, full, kind.name)
        else:
            servers = [one for one in self.graph.servers(full) if one.type == kind.name]
            hash = hash_of(servers) or kind.hash
            token = self.endpoint_token(Kind.CLIENT, full, kind.name, hash, SERVICES)
        return self._keep(Client(self.context, token, kind))

    def _service(self, type: str, name: str) -> ServiceType:
        name_of_type = long_type(type, "srv")
        servers = [one for one in self.graph.servers(name) if one.type == name_of_type]
        hash = hash_of(servers)
        return self.types.service(name_of_type, None if hash == NO_HASH else hash)

    def _kind(self, type: str | type[Message], hash: str | None) -> MessageType:
        if isinstance(type, str):
            return self.types.message(type, hash)
        kind: MessageType = type._type
        return kind

    def _type_of_topic(self, name: str) -> str:
        types = sorted({one.type for one in self.graph.topic(name)})
        if not types:
            raise InvalidValueError("topic", f"nobody has {name}; give its type")
        if len(types) > 1:
            raise InvalidValueError("topic", f"{name} has the types {', '.join(types)}; give one")
        return types[0]

    def _full(self, name: str) -> str:
        return full_name(name, self._namespace, self._name)

    def endpoint_token(self, kind: Kind, name: str, type: str, hash: str, qos: QoS) -> Token:
        """A token for a new endpoint of this node."""
        eid, node = self.context.next_id(), self._token
        place = (node.domain, node.zid, node.nid, eid)
        return Token(*place, kind, node.namespace, node.node, name, type, hash, qos)

    def _keep(self, endpoint: E) -> E:
        with self._lock:
            self._endpoints.append(endpoint)
        return endpoint

    def _describe(self, request: Any) -> dict[str, Any]:
        """Answers get_type_description for the types of this node."""
        name = request.type_name
        for kind in self._message_types():
            if kind.name == name:
                return asking.described(
                    kind, request.type_hash, sources=request.include_type_sources
                )
        return {"successful": False, "failure_reason": f"{name} is no type of this node"}

    def _message_types(self) -> Iterator[MessageType]:
        with self._lock:
            endpoints = list(self._endpoints)
        for endpoint in endpoints:
            token = endpoint.token
            if isinstance(endpoint, Publisher):
                if endpoint.kind is not None:
                    yield endpoint.kind
            elif isinstance(endpoint, (Service, Client)):
                yield endpoint.kind.request
                yield endpoint.kind.response
            elif isinstance(token, Token):
                try:
                    yield self.types.message(token.type, token.hash)
                except UnknownTypeError:
                    continue


def hash_for(tokens: list[AnyToken], type: str) -> str | None:
    """The hash to publish with: that of the endpoints there are (R2-506).

    Raises:
        InvalidValueError: they have several.
    """
    name = long_type(type)
    found = {one.hash for one in tokens if isinstance(one, Token) and one.type == name}
    if len(found) > 1:
        reason = f"endpoints of {tokens[0].name} have the hashes {', '.join(sorted(found))}"
        raise InvalidValueError("topic", reason)
    return found.pop() if found else None


def _name_of(type: str | type[Message]) -> str:
    return type if isinstance(type, str) else str(type._type.name)


def _policies(qos: QoS | int) -> QoS:
    return (QoS(depth=qos) if isinstance(qos, int) else qos).resolved()


def _offered(publishers: list[AnyToken]) -> QoS:
    """The QoS to subscribe with, so that all of some publishers are heard."""
    depth = max((one.qos.depth for one in publishers), default=DEFAULT.depth)
    return QoS(depth=min(max(depth, DEFAULT.depth), 1_000))


def _with_backends(token: Token, backends: Mapping[str, str]) -> Token:

    return replace(token, backends=backends)
