"""ROS 2 without ROS: nodes, the graph, messages and their types.

The names for programs are here and are loaded on first use: a router imports modules of this
package, too, and needs neither nodes nor numpy for them.
"""

# Where each public name is defined; the imports for type checkers below are the same.
_HOMES = {
    "elea.errors": "NoServerError ServiceError ServiceTimeoutError UnknownTypeError",
    "elea.ros.catalog": "Types",
    "elea.ros.context": "Context",
    "elea.ros.default_types": "types",
    "elea.ros.endpoints": "Publisher RawMessage Subscription",
    "elea.ros.formats.messages": "Message MessageInfo info_of plain",
    "elea.ros.formats.qos": """
        CLOCK DEFAULT LATCHED PARAMETER_EVENTS ROSOUT SENSOR_DATA SERVICES Durability History
        Liveliness QoS Reliability
    """,
    "elea.ros.graph": "Graph",
    "elea.ros.node": "Node",
    "elea.ros.services": "Client Service",
}

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

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
