"""Write the definitions of common ROS 2 packages that Elea ships (R2-322).

    python tools/gen_ros_types.py

Messages are those of the type stores of `rosbags`, per release; services, actions and what else
those stores lack are below. Definitions are kept without comments. `tests/unit/ros` holds the
hashes of all of them against those of rosbags and of ROS itself.
"""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "src" / "elea" / "ros" / "formats" / "data" / "interfaces.json.xz"
RELEASES: Final = ("humble", "jazzy", "kilted", "lyrical")
_DEFAULTS: Final = {  # the stores have none
    "geometry_msgs/msg/Quaternion": {"x": "0", "y": "0", "z": "0", "w": "1"},
    "type_description_interfaces/msg/FieldType": {"type_id": "0"},
}
_SIMPLE: Final = {
    "Bool": "bool",
    "Byte": "byte",
    "Char": "char",
    "Float32": "float32",
    "Float64": "float64",
    "Int8": "int8",
    "Int16": "int16",
    "Int32": "int32",
    "Int64": "int64",
    "String": "string",
    "UInt8": "uint8",
    "UInt16": "uint16",
    "UInt32": "uint32",
    "UInt64": "uint64",
    "WString": "wstring",
}
MORE: Final = {
    **{f"example_interfaces/msg/{name}": f"{type} data" for name, type in _SIMPLE.items()},
    "example_interfaces/msg/Empty": "",
    "example_interfaces/srv/AddTwoInts": "int64 a\nint64 b\n---\nint64 sum",
    "example_interfaces/srv/SetBool": "bool data\n---\nbool success\nstring message",
    "example_interfaces/srv/Trigger": "---\nbool success\nstring message",
    "example_interfaces/action/Fibonacci": (
        "int32 order\n---\nint32[] sequence\n---\nint32[] sequence"
    ),
    "action_tutorials_interfaces/action/Fibonacci": (
        "int32 order\n---\nint32[] sequence\n---\nint32[] partial_sequence"
    ),
    "std_srvs/srv/Empty": "---",
    "std_srvs/srv/SetBool": "bool data\n---\nbool success\nstring message",
    "std_srvs/srv/Trigger": "---\nbool success\nstring message",
    "action_msgs/srv/CancelGoal": (
        "GoalInfo goal_info\n---\nint8 ERROR_NONE=0\nint8 ERROR_REJECTED=1\n"
        "int8 ERROR_UNKNOWN_GOAL_ID=2\nint8 ERROR_GOAL_TERMINATED=3\n"
        "int8 return_code\nGoalInfo[] goals_canceling"
    ),
    "rcl_interfaces/srv/GetParameters": "string[] names\n---\nParameterValue[] values",
    "rcl_interfaces/srv/GetParameterTypes": "string[] names\n---\nuint8[] types",
    "rcl_interfaces/srv/SetParameters": (
        "Parameter[] parameters\n---\nSetParametersResult[] results"
    ),
    "rcl_interfaces/srv/SetParametersAtomically": (
        "Parameter[] parameters\n---\nSetParametersResult result"
    ),
    "rcl_interfaces/srv/ListParameters": (
        "uint64 DEPTH_RECURSIVE=0\nstring[] prefixes\nuint64 depth\n---\n"
        "ListParametersResult result"
    ),
    "rcl_interfaces/srv/DescribeParameters": (
        "string[] names\n---\nParameterDescriptor[] descriptors"
    ),
    "rcl_interfaces/srv/GetLoggerLevels": "string[] names\n---\nLoggerLevel[] levels",
    "rcl_interfaces/srv/SetLoggerLevels": (
        "LoggerLevel[] levels\n---\nSetLoggerLevelsResult[] results"
    ),
    "lifecycle_msgs/srv/ChangeState": "Transition transition\n---\nbool success",
    "lifecycle_msgs/srv/GetState": "---\nState current_state",
    "lifecycle_msgs/srv/GetAvailableStates": "---\nState[] available_states",
    "lifecycle_msgs/srv/GetAvailableTransitions": (
        "---\nTransitionDescription[] available_transitions"
    ),
    "type_description_interfaces/srv/GetTypeDescription": (
        "string type_name\nstring type_hash\nbool include_type_sources true\n---\n"
        "bool successful\nstring failure_reason\nTypeDescription type_description\n"
        "TypeSource[] type_sources\nKeyValue[] extra_information"
    ),
    "tf2_msgs/srv/FrameGraph": "---\nstring frame_yaml",
    "tf2_msgs/action/LookupTransform": (
        "string target_frame\nstring source_frame\nbuiltin_interfaces/Time source_time\n"
        "builtin_interfaces/Duration timeout\nbuiltin_interfaces/Time target_time\n"
        "string fixed_frame\nbool advanced\n---\ngeometry_msgs/TransformStamped transform\n"
        "tf2_msgs/TF2Error error\n---"
    ),
    "nav_msgs/srv/GetMap": "---\nnav_msgs/OccupancyGrid map",
    "nav_msgs/srv/GetPlan": (
        "geometry_msgs/PoseStamped start\ngeometry_msgs/PoseStamped goal\nfloat32 tolerance\n---\n"
        "nav_msgs/Path plan"
    ),
    "nav_msgs/srv/SetMap": (
        "nav_msgs/OccupancyGrid map\ngeometry_msgs/PoseWithCovarianceStamped initial_pose\n---\n"
        "bool success"
    ),
    "sensor_msgs/srv/SetCameraInfo": (
        "sensor_msgs/CameraInfo camera_info\n---\nbool success\nstring status_message"
    ),
}


def main() -> int:
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_bytes(packed())
    print(f"==> {TARGET.relative_to(ROOT)}, {TARGET.stat().st_size} bytes")
    return 0


def packed() -> bytes:
    """The file: what all releases share, and what each has of its own."""
    releases = {name: {**_store(name), **MORE} for name in RELEASES}
    newest = releases[RELEASES[-1]]
    shared = {
        name: text
        for name, text in newest.items()
        if all(one.get(name) == text for one in releases.values())
    }
    told = {
        "shared": shared,
        **{
            release: {name: text for name, text in files.items() if name not in shared}
            for release, files in releases.items()
        },
    }
    return lzma.compress(json.dumps(told, sort_keys=True, separators=(",", ":")).encode(), preset=9)


def _store(release: str) -> dict[str, str]:
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores[f"ROS2_{release.upper()}"])
    return {name: _text(name, *said) for name, said in store.fielddefs.items()}


def _text(name: str, constants: Any, fields: Any) -> str:
    lines = [f"{type} {constant}={_literal(value)}" for constant, type, value in constants]
    for member, type in fields:
        if member == "structure_needs_at_least_one_member":
            continue
        default = _DEFAULTS.get(name, {}).get(member)
        lines.append(f"{_type(type)} {member}" + (f" {default}" if default else ""))
    return "\n".join(lines)


def _type(said: Any) -> str:
    kind, inner = int(said[0]), said[1]
    if kind == 1:
        base, bound = inner
        return f"{base}<={bound}" if bound else str(base)
    if kind == 2:
        return str(inner).replace("/msg/", "/")
    item, count = inner
    if kind == 3:
        return f"{_type(item)}[{count}]"
    return f"{_type(item)}[<={count}]" if count else f"{_type(item)}[]"


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else repr(value)


if __name__ == "__main__":
    sys.exit(main())
