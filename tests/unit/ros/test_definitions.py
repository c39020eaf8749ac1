"""Definitions of messages, services and actions; their hashes; what is shipped."""

from __future__ import annotations

import contextlib
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rosbags.typesys import Stores, get_typestore
from tools import gen_ros_types

from elea.errors import ConfigError, InvalidValueError
from elea.ros.formats.definitions import Repeat, parse_message, split_text
from elea.ros.formats.library import Library
from elea.ros.formats.shipped import RELEASES, shipped

line = pytest.mark.line


@line("R2-326")
def test_the_grammar_of_messages() -> None:
    text = """
@verbatim (language="comment", text="x")
int32 a 5            # a default
string<=8 b "x # y"  # not a comment inside
wstring c
wstring<=4 d
string<=4[<=2] e
float64[3] f [1.0, 2, 3]
uint8[] g
byte h
char i
Header header
Other other
pkg2/Thing[<=3] things
bool j true
uint8 OK=1
string NAME='it''s # here'
float32 HALF=0.5
int64 LOW=-0x10
"""
    found = parse_message(text, "pkg/msg/A")
    types = {field.name: str(field.type) for field in found.fields}
    assert types == {
        "a": "int32",
        "b": "string<=8",
        "c": "wstring",
        "d": "wstring<=4",
        "e": "string<=4[<=2]",
        "f": "float64[3]",
        "g": "uint8[]",
        "h": "byte",
        "i": "char",
        "header": "std_msgs/Header",
        "other": "pkg/Other",
        "things": "pkg2/Thing[<=3]",
        "j": "bool",
    }
    defaults = {field.name: field.default for field in found.fields if field.default is not None}
    assert defaults == {"a": 5, "b": "x # y", "f": [1.0, 2.0, 3.0], "j": True}
    assert next((one.name, one.value) for one in found.constants) == ("OK", 1)
    assert found.constants[3].value == -16
    assert parse_message(found.text(), found.name) == found


@line("R2-326", "R2-811", "R2-812")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("int32", "expected a field"),
        ("time stamp", "of ROS 1"),
        ("int32<=3 a", "only texts"),
        ("int32[<=] a", "a number behind <="),
        ("int32[0] a", "1 to 1048576"),
        ("int32[9999999] a", "ros2_array_count"),
        ("int8 a 200", "a value of int8"),
        ("int8 a\nint8 a", "already"),
        ("bool B=2", "a value of bool"),
        ("int32 __import__('os')", "expected a field"),
        ("int32 a;b", "a value of int32"),
        ("\n".join(f"int8 a{number}" for number in range(5000)), "ros2_fields_count"),
        ("#" * (300 * 1024), "ros2_definition_len"),
    ],
)
def test_what_is_no_definition_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        parse_message(text, "pkg/msg/A")


@line("R2-812")
def test_a_type_that_contains_itself_is_refused() -> None:
    with pytest.raises(ConfigError, match="contains itself"):
        Library({"p/msg/A": "B b", "p/msg/B": "A[] a"}, "x").message("p/msg/A")
    with pytest.raises(ConfigError, match="contains itself"):
        Library({"p/msg/A": "B b", "p/msg/B": "B[] b"}, "x").message("p/msg/A")


@line("R2-811")
def test_types_inside_each_other_have_a_limit() -> None:
    files = {f"p/msg/A{number}": f"A{number + 1} a" for number in range(40)}
    with pytest.raises(ConfigError, match="ros2_definition_depth"):
        Library({**files, "p/msg/A40": "int8 a"}, "x").message("p/msg/A0")
    many = "\n".join(f"{'=' * 80}\nMSG: p/T{number}\nint8 a" for number in range(600))
    with pytest.raises(ConfigError, match="ros2_definition_types_count"):
        Library.of_text(f"int8 a\n{many}", "p/msg/A")


def test_a_type_that_is_not_defined_is_named() -> None:
    with pytest.raises(ConfigError, match=r"p/msg/A uses q/msg/B, which is not defined"):
        Library({"p/msg/A": "q/B b"}, "x").message("p/msg/A")


@line("R2-326", "R2-906")
@given(st.text(max_size=120))
def test_any_text_is_a_definition_or_refused(text: str) -> None:
    for given_text in (text, f"int32 {text}", f"string A={text}", f"float64[] a {text}"):
        with contextlib.suppress(ConfigError, InvalidValueError):
            parse_message(given_text, "p/msg/A")


@line("R2-351", "R2-354")
@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("std_msgs/msg/String", "df668c740482bbd4"),
        ("std_msgs/msg/Char", "3ad2d04dd29ba19d"),
        ("std_msgs/msg/Empty", "20b625256f32d5db"),
        ("sensor_msgs/msg/Imu", "7d9a00ff13108089"),
        ("sensor_msgs/msg/PointCloud2", "9198cabf7da3796a"),
        ("sensor_msgs/msg/JointState", "a13ee3a330e346c9"),
        ("example_interfaces/srv/AddTwoInts", "e118de6bf5eeb66a"),
        ("rcl_interfaces/srv/GetParameters", "bf9803d5c74cf989"),
        ("rcl_interfaces/srv/ListParameters", "3e6062bfbb27bfb8"),
        ("action_msgs/msg/GoalStatusArray", "6c1684b00f177d37"),
        ("action_tutorials_interfaces/action/Fibonacci_GetResult", "8b47e383f1e31f6d"),
        ("type_description_interfaces/srv/GetTypeDescription", "69b9c19c10214059"),
    ],
)
def test_hashes_are_those_that_ros_publishes(name: str, begins: str) -> None:
    assert shipped().hash(name).removeprefix("RIHS01_").startswith(begins)


@line("R2-352", "R2-353", "R2-354", "R2-322", "R2-904")
@pytest.mark.parametrize("release", RELEASES)
def test_shipped_definitions_have_the_hashes_of_rosbags(release: str) -> None:
    """Where a type holds `char`, rosbags differs: AddTwoInts shows that its number is 3."""
    store, library = get_typestore(Stores[f"ROS2_{release.upper()}"]), shipped(release)
    differ = {name for name in store.fielddefs if store.hash_rihs01(name) != library.hash(name)}
    assert differ - {"service_msgs/msg/ServiceEventInfo"} == {
        "std_msgs/msg/Char",
        *(f"rmw_dds_common/msg/{name}" for name in ("Gid", "NodeEntitiesInfo")),
        "rmw_dds_common/msg/ParticipantEntitiesInfo",
    }
    assert len(store.fielddefs) >= 150


@line("R2-322")
def test_the_shipped_file_is_current() -> None:
    data = (gen_ros_types.TARGET).read_bytes()
    assert lzma.decompress(data) == lzma.decompress(gen_ros_types.packed())


@line("R2-322")
def test_every_shipped_type_can_be_used() -> None:
    library = shipped("lyrical")
    for name in library.names():
        if "/srv/" in name:
            library.service(name)
        elif "/action/" in name:
            library.action(name)
        else:
            kind = library.message(name)
            assert kind.decode(kind.encode({})) == kind.cls()
    with pytest.raises(ConfigError, match="ros2/distro"):
        shipped("noetic")


@line("R2-302", "R2-353")
def test_parts_of_services_and_actions_are_types() -> None:
    action = shipped().action("example_interfaces/action/Fibonacci")
    request = action.send_goal.request
    assert [field.name for field in request.definition.fields] == ["goal_id", "goal"]
    assert action.feedback.name == "example_interfaces/action/Fibonacci_FeedbackMessage"
    event = shipped().message("example_interfaces/srv/AddTwoInts_Event").definition
    assert [field.type.repeat for field in event.fields[1:]] == [Repeat.BOUNDED] * 2


@line("R2-702")
def test_a_text_with_all_it_uses_is_read_back() -> None:
    imu = shipped().message("sensor_msgs/msg/Imu")
    assert f"\n{'=' * 80}\nMSG: std_msgs/Header\n" in imu.text
    assert Library.of_text(imu.text, imu.name).message(imu.name).hash == imu.hash
    assert set(split_text(imu.text, imu.name)) == set(imu.definitions)


def test_data_has_a_notice_of_its_origin() -> None:
    assert "Apache" in Path(gen_ros_types.TARGET.parent / "NOTICE").read_text(encoding="utf-8")
