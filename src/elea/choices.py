"""Words and defaults that options of commands share with the modules that act on them.

They stand here, where next to nothing is imported: the parser of a command names them in `--help`,
which is printed without loading what the command does.
"""

from __future__ import annotations

from typing import Final

LOG_FORMATS: Final = ("text", "json")
LOG_FILE_LEN: Final = 10 << 20
LOG_FILES_COUNT: Final = 5

# Of the admin space: whether it may be read, and written.
PERMISSIONS: Final = {
    "r": (True, False),
    "w": (False, True),
    "rw": (True, True),
    "none": (False, False),
}

# Of access rules: what a message does, and which way it goes, in Eclipse Zenoh's words.
ACTIONS: Final = (
    "put",
    "delete",
    "declare_subscriber",
    "query",
    "declare_queryable",
    "reply",
    "liveliness_token",
    "declare_liveliness_subscriber",
    "liveliness_query",
)
FLOWS: Final = ("ingress", "egress")

# What octets may be taken for, and by which reading of the protocol.
FORMS: Final = ("stream", "batch", "network", "scouting")
DIALECTS: Final = ("eclipse", "specification")

TRAFFIC_SORTS: Final = ("traffic", "received", "sent", "drops", "waiting", "zid")
TRACED: Final = {"put": "subscriber", "get": "queryable", "subscribe": "publisher"}

ROS_RELEASES: Final = ("lyrical", "kilted", "jazzy", "humble")  # the newest first
ROS_VIA: Final = ("any", "rmw", "bridge")
ROS_CALL_S: Final = 10.0
ROS_SERVER_WAIT_S: Final = 3.0

SIM_SHAPES: Final = ("mesh", "chain", "star", "tree")
SIM_ROUTERS: Final = "routers"
SIM_LEVELS: Final = ("none", "calm", "rough")  # how much is done to a world
SIM_SECONDS: Final = 6.0

XRCE_GROUP: Final = "239.255.0.1:7447"
