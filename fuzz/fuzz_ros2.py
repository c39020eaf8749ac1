"""Fuzz what ROS writes: tokens, keys, attachments, definitions and payloads are read or refused."""

from __future__ import annotations

from elea.errors import ConfigError, DecodeError, InvalidValueError
from elea.ros.formats.attachment import Attachment, parse_attachment
from elea.ros.formats.keys import parse_key
from elea.ros.formats.library import Library
from elea.ros.formats.shipped import shipped
from elea.ros.formats.tokens import parse_token

JOINTS = shipped().message("sensor_msgs/msg/JointState")
CLOUD = shipped().message("sensor_msgs/msg/PointCloud2")
TRANSFORMS = shipped().message("tf2_msgs/msg/TFMessage")
KINDS = (JOINTS, CLOUD, TRANSFORMS)
HASH = shipped().hash("std_msgs/msg/String")

# A definition becomes objects for each of its lines; an item of a list of texts, one as well.
MEMORY_ALLOWANCE = 512 * 1024
SHORT_RUNS = 2_000
SEEDS = [
    b"\x00@ros2_lv/0/ab/0/1/MP/%/%/n/%t/std_msgs::msg::dds_::String_/"
    + HASH.encode()
    + b"/::,7:,:,:,,",
    b"\x00@/ab/@ros2_lv/MP/a/b\xc2\xa7c/:1::,10",
    b"\x010/a/b/std_msgs::msg::dds_::String_/" + HASH.encode() + b"/_buf_cpu",
    b"\x02" + Attachment(1, 2, bytes(16)).to_bytes(),
    b'\x03string<=5 a "x"\nint32[<=3] b\nHeader h\nfloat64 C=1.5',
    b"\x03B b\n===\nMSG: p/B\nuint8[16] id",
    b"\x04" + JOINTS.encode({"name": ["a", "b"], "position": [1.0]}),
    b"\x05" + CLOUD.encode({"fields": [{"name": "x"}], "data": b"abc"}),
    b"\x06" + TRANSFORMS.encode({"transforms": [{"child_frame_id": "w"}]}),
]


def one_input(data: bytes) -> None:
    kind, rest = data[:1], data[1:]
    try:
        if kind == b"\x00":
            parse_token(rest.decode("utf-8", "replace"))
        elif kind == b"\x01":
            parse_key(rest.decode("utf-8", "replace"))
        elif kind == b"\x02":
            parse_attachment(rest)
        elif kind == b"\x03":
            _ = Library.of_text(rest.decode("utf-8", "replace"), "p/msg/A").message("p/msg/A").hash
        else:
            KINDS[(kind or b"\x04")[0] % 3].decode(rest)
    except (ConfigError, DecodeError, InvalidValueError):
        pass
