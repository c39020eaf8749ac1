"""ROS 2 names: topics, services and types of DDS as ROS 2 writes them (dds.md 16).

Pure. `/chatter` of ROS 2 is the DDS topic `rt/chatter`; its key is `chatter`, or
`bot1/chatter` in the namespace `/bot1`. A service `/add` is the topics `rq/addRequest` and
`rr/addReply`; an action is three services and two topics below `/NAME/_action`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from elea.dds.mapping import checked_key

DISCOVERY_TOPIC: Final = "ros_discovery_info"
_TOPIC: Final = "rt/"
_SERVICES: Final = ("rq/", "rr/", "rs/", "rp/", "ra/")
_TYPE: Final = re.compile(r"(\w+)::(msg|srv|action)::dds_::(\w+)_")
_TYPE_HASH: Final = re.compile(rb"typehash=RIHS[0-9]{2}_[0-9a-f]{64};")
_REQUEST: Final = ("rq/", "Request", "_Request_")
_REPLY: Final = ("rr/", "Reply", "_Response_")
_ACTION: Final = re.compile(r"(?P<name>.+)/_action/(?P<part>\w+)")
ACTION_SERVICES: Final = ("send_goal", "cancel_goal", "get_result")
ACTION_TOPICS: Final = ("feedback", "status")


class Interface(Enum):
    """Kinds of ROS interfaces, as `allow` and `deny` name them (D-670)."""

    PUBLISHER = "publishers"
    SUBSCRIBER = "subscribers"
    SERVICE_SERVER = "service_servers"
    SERVICE_CLIENT = "service_clients"
    ACTION_SERVER = "action_servers"
    ACTION_CLIENT = "action_clients"


@dataclass(frozen=True, slots=True)
class InterfaceFilter:
    """Which ROS interfaces are bridged: expressions that match the whole name (D-670).

    With `allow`, a kind that it does not list is not bridged, as in zenoh-bridge-ros2dds.
    """

    allow: Mapping[Interface, re.Pattern[str]] | None = None
    deny: Mapping[Interface, re.Pattern[str]] = field(default_factory=dict)

    def allows(self, kind: Interface, name: str) -> bool:
        """Whether an interface is bridged; `name` begins with `/`."""
        if self.allow is not None:
            allowed = self.allow.get(kind)
            if allowed is None or allowed.fullmatch(name) is None:
                return False
        denied = self.deny.get(kind)
        return denied is None or denied.fullmatch(name) is None

    def allows_topic(self, topic: str, *, is_writer: bool) -> bool:
        """Whether a DDS topic is bridged; topics of an action are judged as the action."""
        if not topic.startswith(_TOPIC):
            return self.allow is None
        name = "/" + topic.removeprefix(_TOPIC)
        action = action_of(name)
        if action is not None:
            kind = Interface.ACTION_SERVER if is_writer else Interface.ACTION_CLIENT
            return self.allows(kind, action)
        return self.allows(Interface.PUBLISHER if is_writer else Interface.SUBSCRIBER, name)

    def allows_service(self, name: str, *, is_server: bool) -> bool:
        """Whether a service is bridged; services of an action are judged as the action."""
        action = action_of(name)
        if action is not None:
            kind = Interface.ACTION_SERVER if is_server else Interface.ACTION_CLIENT
            return self.allows(kind, action)
        return self.allows(
            Interface.SERVICE_SERVER if is_server else Interface.SERVICE_CLIENT, name
        )


def action_of(name: str) -> str | None:
    """Return the action that a topic or service belongs to; None if it belongs to none.

    Example:
        >>> action_of("/dock/_action/send_goal"), action_of("/chatter")
        ('/dock', None)
    """
    found = _ACTION.fullmatch(name)
    if found is None or found["part"] not in (*ACTION_SERVICES, *ACTION_TOPICS):
        return None
    return found["name"]


def type_hash_of(user_data: bytes) -> bytes:
    """Return the part of an endpoint's user data that says its ROS type hash; empty: none."""
    found = _TYPE_HASH.search(user_data)
    return b"" if found is None else found[0]


def type_hash_text(user_data: bytes) -> str:
    """Return the ROS type hash in an endpoint's user data, as `RIHS01_...`; empty: none.

    Example:
        >>> type_hash_text(b"typehash=RIHS01_" + b"0" * 64 + b";")[:9]
        'RIHS01_00'
    """
    return type_hash_of(user_data).decode().partition("=")[2].rstrip(";")


@dataclass(frozen=True, slots=True)
class ServiceTopic:
    """A DDS topic of a service."""

    name: str  # of the service, without the first `/`
    is_request: bool


def service_topic(topic: str) -> ServiceTopic | None:
    """Return the service that a DDS topic belongs to; None if it belongs to none.

    Example:
        >>> service_topic("rq/addRequest"), service_topic("rt/addRequest")
        (ServiceTopic(name='add', is_request=True), None)
    """
    for prefix, suffix, _ in (_REQUEST, _REPLY):
        if topic.startswith(prefix) and topic.endswith(suffix):
            name = topic[len(prefix) : -len(suffix)]
            return ServiceTopic(name, prefix == _REQUEST[0]) if name else None
    return None


def service_topics(name: str) -> tuple[str, str]:
    """Return the topics of requests and replies of a service; inverse of `service_topic`.

    Example:
        >>> service_topics("add")
        ('rq/addRequest', 'rr/addReply')
    """
    request, reply = (f"{prefix}{name}{suffix}" for prefix, suffix, _ in (_REQUEST, _REPLY))
    return request, reply


def service_label(type_name: str) -> str:
    """Return the type of a service from that of its requests or replies.

    Example:
        >>> service_label("example::srv::dds_::Add_Request_")
        'example/srv/Add'
    """
    for _, _, suffix in (_REQUEST, _REPLY):
        if type_name.endswith(suffix):
            return type_label(type_name.removesuffix(suffix) + "_")
    return type_label(type_name)


def service_types(label: str) -> tuple[str, str]:
    """Return the DDS types of requests and replies of a service type.

    Example:
        >>> service_types("example/srv/Add")
        ('example::srv::dds_::Add_Request_', 'example::srv::dds_::Add_Response_')
    """
    base = dds_type(label).removesuffix("_")
    return base + _REQUEST[2], base + _REPLY[2]


def is_ros_topic(topic: str) -> bool:
    """Whether a DDS topic belongs to ROS 2."""
    return topic.startswith((_TOPIC, *_SERVICES)) or topic == DISCOVERY_TOPIC


def topic_key(topic: str, namespace: str) -> str | None:
    """Return the key of a ROS topic; None if the DDS topic is none of ROS's topics.

    Raises:
        InvalidValueError: The name makes no key.

    Example:
        >>> topic_key("rt/chatter", "/bot1"), topic_key("Square", "/")
        ('bot1/chatter', None)
    """
    if not topic.startswith(_TOPIC):
        return None
    return name_key(topic.removeprefix(_TOPIC), namespace)


def name_key(name: str, namespace: str) -> str:
    """Return the key of a ROS name without its first `/`; raises as `topic_key`."""
    prefix = namespace.strip("/")
    return checked_key(f"{prefix}/{name}" if prefix else name)


def key_name(key: str, namespace: str) -> str:
    """Return the ROS name of a key, without the first `/`: inverse of `name_key`.

    A key outside of the namespace is a name as it is, so that robots with namespaces of their
    own see each other's.

    Example:
        >>> key_name("bot1/tf", "/bot1"), key_name("tf", "/"), key_name("bot2/tf", "/bot1")
        ('tf', 'tf', 'bot2/tf')
    """
    prefix = namespace.strip("/")
    return key.removeprefix(f"{prefix}/") if prefix else key


def key_topic(key: str, namespace: str) -> str:
    """Return the DDS topic of a ROS key.

    Example:
        >>> key_topic("bot1/tf", "/bot1")
        'rt/tf'
    """
    return f"{_TOPIC}{key_name(key, namespace)}"


def type_label(type_name: str) -> str:
    """Return a type as ROS 2 writes it (D-663).

    Example:
        >>> type_label("std_msgs::msg::dds_::String_"), type_label("demo::Pose")
        ('std_msgs/msg/String', 'demo::Pose')
    """
    found = _TYPE.fullmatch(type_name)
    return type_name if found is None else "/".join(found.groups())


def dds_type(label: str) -> str:
    """Return the DDS type of a ROS type; inverse of `type_label`.

    Example:
        >>> dds_type("std_msgs/msg/String")
        'std_msgs::msg::dds_::String_'
    """
    parts = label.split("/")
    return f"{parts[0]}::{parts[1]}::dds_::{parts[2]}_" if len(parts) == 3 else label
