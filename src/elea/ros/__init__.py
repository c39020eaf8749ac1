"""ROS 2 without ROS: nodes, the graph, messages and their types."""

from elea.errors import (
    NoServerError,
    ServiceError,
    ServiceTimeoutError,
    UnknownTypeError,
)
from elea.ros.catalog import Types
from elea.ros.context import Context
from elea.ros.default_types import types
from elea.ros.endpoints import Publisher, RawMessage, Subscription
from elea.ros.formats.messages import Message, MessageInfo, info_of, plain
from elea.ros.formats.qos import (
    CLOCK,
    DEFAULT,
    LATCHED,
    PARAMETER_EVENTS,
    ROSOUT,
    SENSOR_DATA,
    SERVICES,
    Durability,
    History,
    Liveliness,
    QoS,
    Reliability,
)
from elea.ros.graph import Graph
from elea.ros.node import Node
from elea.ros.services import Client, Service

__all__ = [
    "CLOCK",
    "DEFAULT",
    "LATCHED",
    "PARAMETER_EVENTS",
    "ROSOUT",
    "SENSOR_DATA",
    "SERVICES",
    "Client",
    "Context",
    "Durability",
    "Graph",
    "History",
    "Liveliness",
    "Message",
    "MessageInfo",
    "NoServerError",
    "Node",
    "Publisher",
    "QoS",
    "RawMessage",
    "Reliability",
    "Service",
    "ServiceError",
    "ServiceTimeoutError",
    "Subscription",
    "Types",
    "UnknownTypeError",
    "info_of",
    "plain",
    "types",
]
