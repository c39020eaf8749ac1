"""Names of ROS 2, and the tokens by which bridges announce publishers and subscribers."""

from __future__ import annotations

import pytest

from elea.dds.announced import announced_guid
from elea.dds.qos import KEEP_ALL, Durability, Qos, Reliability
from elea.dds.ros import dds_type, is_ros_topic, topic_key, type_label
from elea.dds.ros_tokens import Announcement, qos_text, read_qos

line = pytest.mark.line
HASH = b"typehash=RIHS01_" + b"ab" * 32 + b";"


@line("D-661", "D-662")
def test_topics_of_ros_have_their_names() -> None:
    assert topic_key("rt/chatter", "/") == "chatter"
    assert topic_key("rt/tf", "/bot1") == "bot1/tf"
    assert topic_key("Square", "/bot1") is None
    assert is_ros_topic("rq/addRequest")
    assert is_ros_topic("ros_discovery_info")
    assert not is_ros_topic("Square")


@line("D-663")
def test_types_of_ros_have_their_names() -> None:
    for label, name in (
        ("std_msgs/msg/String", "std_msgs::msg::dds_::String_"),
        ("example/srv/Add_Request", "example::srv::dds_::Add_Request_"),
    ):
        assert type_label(name) == label
        assert dds_type(label) == name
    assert type_label("demo::Pose") == dds_type("demo::Pose") == "demo::Pose"


@line("D-665")
def test_announcements_round_trip() -> None:
    qos = Qos(reliability=Reliability.RELIABLE, depth=100)
    told = Announcement("ab12", True, "bot1/tf", "tf2_msgs/msg/TFMessage", qos)
    assert told.to_key() == "@/ab12/@ros2_lv/MP/bot1§tf/tf2_msgs§msg§TFMessage/:1::0,100"
    assert Announcement.read(told.to_key()) == told
    full = "@/ab12/@ros2_lv/MP/bot1§tf/tf2_msgs§msg§TFMessage/:1:0:0,100"
    assert Announcement.read(full) == told
    assert Announcement.read("@/ab12/@ros2_lv/SS/add/example§srv§Add") is None
    assert Announcement.read("@/ab12/@ros2_lv/MP/a/b/broken") is None


@pytest.mark.parametrize(
    ("qos", "text"),
    [
        (Qos(), ":0::"),
        (Qos(reliability=Reliability.RELIABLE, durability=Durability.TRANSIENT_LOCAL), ":1:1:"),
        (Qos(depth=KEEP_ALL), ":0::1,0"),
        (Qos(user_data=HASH), f":0:::{HASH.decode()}"),
    ],
)
def test_qos_in_tokens(qos: Qos, text: str) -> None:
    assert qos_text(qos) == text
    assert read_qos(text) == qos
    assert read_qos(":9:9:9") is None
    assert read_qos(":x") is None


@line("D-665")
def test_endpoints_elsewhere_have_guids_of_their_own() -> None:
    names = [
        f"@/ab12/@ros2_lv/MP/t{number}/std_msgs§msg§String/:1::0,10" for number in range(20_000)
    ]
    guids = {announced_guid(name, is_writer=False) for name in names}
    assert len(guids) == len(names)
    assert {len(one) for one in guids} == {16}
