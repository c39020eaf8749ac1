"""ROS 2 without ROS: nodes, the graph, messages and their types.

The names for programs are loaded on first use: `elea router` imports modules of this package, too.
"""

# Where each public name is defined; the imports for type checkers below are the same.
_HOME_OF = {
    "CLOCK": "elea.ros.formats.qos",
    "Client": "elea.ros.services",
    "Context": "elea.ros.context",
    "DEFAULT": "elea.ros.formats.qos",
    "Durability": "elea.ros.formats.qos",
    "Graph": "elea.ros.graph",
    "History": "elea.ros.formats.qos",
    "LATCHED": "elea.ros.formats.qos",
    "Liveliness": "elea.ros.formats.qos",
    "Message": "elea.ros.formats.messages",
    "MessageInfo": "elea.ros.formats.messages",
    "NoServerError": "elea.errors",
    "Node": "elea.ros.node",
    "PARAMETER_EVENTS": "elea.ros.formats.qos",
    "Publisher": "elea.ros.endpoints",
    "QoS": "elea.ros.formats.qos",
    "ROSOUT": "elea.ros.formats.qos",
    "RawMessage": "elea.ros.endpoints",
    "Reliability": "elea.ros.formats.qos",
    "SENSOR_DATA": "elea.ros.formats.qos",
    "SERVICES": "elea.ros.formats.qos",
    "Service": "elea.ros.services",
    "ServiceError": "elea.errors",
    "ServiceTimeoutError": "elea.errors",
    "Subscription": "elea.ros.endpoints",
    "Types": "elea.ros.catalog",
    "UnknownTypeError": "elea.errors",
    "info_of": "elea.ros.formats.messages",
    "plain": "elea.ros.formats.messages",
    "types": "elea.ros.default_types",
}

__all__ = [*_HOME_OF]

TYPE_CHECKING = False  # `typing` is not imported for this
if TYPE_CHECKING:
    from elea.errors import NoServerError as NoServerError
    from elea.errors import ServiceError as ServiceError
    from elea.errors import ServiceTimeoutError as ServiceTimeoutError
    from elea.errors import UnknownTypeError as UnknownTypeError
    from elea.ros.catalog import Types as Types
    from elea.ros.context import Context as Context
    from elea.ros.default_types import types as types
    from elea.ros.endpoints import Publisher as Publisher
    from elea.ros.endpoints import RawMessage as RawMessage
    from elea.ros.endpoints import Subscription as Subscription
    from elea.ros.formats.messages import Message as Message
    from elea.ros.formats.messages import MessageInfo as MessageInfo
    from elea.ros.formats.messages import info_of as info_of
    from elea.ros.formats.messages import plain as plain
    from elea.ros.formats.qos import CLOCK as CLOCK
    from elea.ros.formats.qos import DEFAULT as DEFAULT
    from elea.ros.formats.qos import LATCHED as LATCHED
    from elea.ros.formats.qos import PARAMETER_EVENTS as PARAMETER_EVENTS
    from elea.ros.formats.qos import ROSOUT as ROSOUT
    from elea.ros.formats.qos import SENSOR_DATA as SENSOR_DATA
    from elea.ros.formats.qos import SERVICES as SERVICES
    from elea.ros.formats.qos import Durability as Durability
    from elea.ros.formats.qos import History as History
    from elea.ros.formats.qos import Liveliness as Liveliness
    from elea.ros.formats.qos import QoS as QoS
    from elea.ros.formats.qos import Reliability as Reliability
    from elea.ros.graph import Graph as Graph
    from elea.ros.node import Node as Node
    from elea.ros.services import Client as Client
    from elea.ros.services import Service as Service
else:

    def __getattr__(name):
        from importlib import import_module

        if name not in _HOME_OF:
            raise AttributeError(f"module 'elea.ros' has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value  # the next access costs nothing
        return value

    def __dir__():
        return sorted({*globals(), *__all__})
