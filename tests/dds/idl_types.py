# mypy: ignore-errors
"""Types of the DDS peers in tests; the bridge under test never sees this file.

No postponed annotations: the binding reads them as they are.
"""

from dataclasses import dataclass
from typing import Any, Optional

from cyclonedds.idl import IdlEnum, IdlStruct, IdlUnion
from cyclonedds.idl.annotations import appendable, final, key, member_id, mutable
from cyclonedds.idl.types import (
    array,
    case,
    default,
    float32,
    float64,
    int32,
    int64,
    sequence,
    uint8,
    uint64,
)


@dataclass
@final
class Chatter(IdlStruct, typename="demo::Chatter"):
    number: int32
    text: str


@dataclass
@appendable
class Version(IdlStruct, typename="demo::Version"):
    number: int32


@dataclass
@appendable
class NextVersion(IdlStruct, typename="demo::Version"):
    """The same program later: either type can be read as the other."""

    number: int32
    more: int32


@dataclass
@appendable
class Keyed(IdlStruct, typename="demo::Keyed"):
    id: int32
    key("id")
    value: int32


@dataclass
@final
class FinalKeyed(IdlStruct, typename="demo::FinalKeyed"):
    id: int32
    key("id")
    value: int32


@dataclass
@mutable
class MutableKeyed(IdlStruct, typename="demo::MutableKeyed"):
    id: int32
    key("id")
    value: int32
    member_id("value", 7)


@dataclass
@appendable
class NamedKeyed(IdlStruct, typename="demo::NamedKeyed"):
    name: str
    key("name")
    value: int32


@dataclass
@final
class Place(IdlStruct, typename="demo::Place"):
    floor: int32
    room: str


@dataclass
@appendable
class NestedKeyed(IdlStruct, typename="demo::NestedKeyed"):
    place: Place
    key("place")
    value: int32


@dataclass
@final
class Blob(IdlStruct, typename="demo::Blob"):
    number: int32
    data: sequence[uint8]


class Mode(IdlEnum, typename="demo::Mode"):
    OFF = 0
    ON = 1
    FAULT = 7


class Reading(IdlUnion, discriminator=int32, typename="demo::Reading"):
    whole: case[1, int32]
    exact: case[[2, 3], float64]
    other: default[str]


@dataclass
@appendable
class Robot(IdlStruct, typename="demo::Robot"):
    name: str
    key("name")
    mode: Mode
    pose: array[float64, 3]
    cells: sequence[float32]
    places: sequence[Place]
    note: Optional[str]  # noqa: UP045
    reading: Reading


@dataclass
@mutable
class Tagged(IdlStruct, typename="demo::Tagged"):
    name: str
    count: int32
    note: Optional[int32]  # noqa: UP045


@dataclass
@final
class AddRequest(IdlStruct, typename="example::srv::dds_::Add_Request_"):
    client: uint64  # what rmw_cyclonedds puts before each request and reply
    sequence: int64
    a: int64
    b: int64


@dataclass
@final
class AddReply(IdlStruct, typename="example::srv::dds_::Add_Response_"):
    client: uint64
    sequence: int64
    sum: int64


@dataclass
@final
class GoalRequest(IdlStruct, typename="example::action::dds_::Dock_SendGoal_Request_"):
    client: uint64
    sequence: int64
    berth: int32


@dataclass
@final
class GoalReply(IdlStruct, typename="example::action::dds_::Dock_SendGoal_Response_"):
    client: uint64
    sequence: int64
    accepted: int32


@dataclass
@final
class CancelRequest(IdlStruct, typename="action_msgs::srv::dds_::CancelGoal_Request_"):
    client: uint64
    sequence: int64
    goal: int32


@dataclass
@final
class CancelReply(IdlStruct, typename="action_msgs::srv::dds_::CancelGoal_Response_"):
    client: uint64
    sequence: int64
    code: int32


@dataclass
@final
class ResultRequest(IdlStruct, typename="example::action::dds_::Dock_GetResult_Request_"):
    client: uint64
    sequence: int64
    goal: int32


@dataclass
@final
class ResultReply(IdlStruct, typename="example::action::dds_::Dock_GetResult_Response_"):
    client: uint64
    sequence: int64
    result: int32


@dataclass
@final
class Feedback(IdlStruct, typename="example::action::dds_::Dock_FeedbackMessage_"):
    distance: int32


@dataclass
@final
class Status(IdlStruct, typename="action_msgs::msg::dds_::GoalStatusArray_"):
    status: int32


@dataclass
@final
class Gid(IdlStruct, typename="rmw_dds_common::msg::dds_::Gid_"):
    data: array[uint8, 16]


@dataclass
@final
class NodeEntities(IdlStruct, typename="rmw_dds_common::msg::dds_::NodeEntitiesInfo_"):
    node_namespace: str
    node_name: str
    reader_gid_seq: sequence[Gid]
    writer_gid_seq: sequence[Gid]


@dataclass
@final
class Entities(IdlStruct, typename="rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_"):
    gid: Gid
    node_entities_info_seq: sequence[NodeEntities]


TYPES: dict[str, Any] = {
    one.__name__: one
    for one in (
        *(
            Chatter,
            Version,
            NextVersion,
            Keyed,
            FinalKeyed,
            MutableKeyed,
            NamedKeyed,
            NestedKeyed,
            Blob,
        ),
        *(Robot, Tagged),
        *(AddRequest, AddReply, GoalRequest, GoalReply, CancelRequest, CancelReply),
        *(ResultRequest, ResultReply, Feedback, Status, Entities),
    )
}
