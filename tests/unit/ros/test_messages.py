"""Messages as Python values and as bytes, held against other libraries."""

from __future__ import annotations

import pickle
import struct
import sys
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcap_ros2._dynamic import generate_dynamic
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from elea.errors import DecodeError
from elea.ros.formats import numbers
from elea.ros.formats.library import Library
from elea.ros.formats.messages import MessageInfo, info_of, plain
from elea.ros.formats.shipped import shipped

line = pytest.mark.line
IMU = shipped().message("sensor_msgs/msg/Imu")
JOINTS = shipped().message("sensor_msgs/msg/JointState")
JOINT_VALUES = {
    "header": {"stamp": {"sec": 7, "nanosec": 9}, "frame_id": "base"},
    "name": ["a", "bcd", ""],
    "position": [1.0, -2.5, 3.0],
    "velocity": [],
    "effort": [0.5],
}


@line("R2-221", "R2-602")
def test_a_message_both_ways() -> None:
    payload = JOINTS.encode(JOINT_VALUES)
    assert payload[:4] == b"\x00\x01\x00\x00"
    message: Any = JOINTS.decode(payload)
    assert message.header.stamp.sec == 7
    assert message.name == ["a", "bcd", ""]
    assert list(message.position) == [1.0, -2.5, 3.0]
    assert plain(message) == JOINT_VALUES
    assert JOINTS.encode(message) == payload
    assert JOINTS.encode(payload) == payload


@line("R2-221")
def test_payloads_of_big_endian_machines_are_read() -> None:
    kind = Library.of_text("int32 a\nstring b\nfloat64[] c\nuint16[2] d", "p/msg/A").message("p/A")
    body = struct.pack(">i", 7) + struct.pack(">I3sx", 3, b"hi\0") + struct.pack(">I", 1)
    body += struct.pack(">dHH", 2.5, 1, 2)
    assert plain(kind.decode(b"\0\0\0\0" + body)) == {"a": 7, "b": "hi", "c": [2.5], "d": [1, 2]}


@line("R2-602")
def test_messages_are_dataclasses() -> None:
    message: Any = IMU.cls()
    assert message.orientation.w == 1.0  # the default of the definition
    assert not hasattr(message, "__dict__")
    assert message == IMU.cls()
    assert message != JOINTS.cls()
    message.orientation.x = 3.0
    assert message != IMU.cls()
    assert asdict(message)["orientation"]["x"] == 3.0
    assert shipped().message("sensor_msgs/msg/NavSatFix").cls.COVARIANCE_TYPE_KNOWN == 3  # type: ignore[attr-defined]
    copied = pickle.loads(pickle.dumps(IMU.decode(IMU.encode(message))))
    assert copied == message
    keyword = Library.of_text("int8 class", "p/msg/A").message("p/msg/A")
    assert keyword.cls().class_ == 0
    assert keyword.encode({"class": 3})[4] == 3


@line("R2-602")
def test_numbers_are_views_that_cannot_be_written() -> None:
    message: Any = JOINTS.decode(JOINTS.encode(JOINT_VALUES))
    assert not message.position.flags.writeable


@line("R2-602")
def test_numbers_without_numpy(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)  # as where it is not installed
    numbers._numpy.cache_clear()
    request.addfinalizer(numbers._numpy.cache_clear)
    kind = Library.of_text("float64[] a\nuint8[3] b\nbool[] c\nint16[] d", "p/msg/A").message("p/A")
    payload = kind.encode({"a": [1.5, 2], "b": b"\1\2\3", "c": [True, False], "d": [-1]})
    message: Any = kind.decode(payload)
    assert plain(message) == {"a": [1.5, 2], "b": [1, 2, 3], "c": [True, False], "d": [-1]}
    assert kind.encode(message) == payload
    big = b"\0\0\0\0" + struct.pack(">I4xd3xxI", 1, 1.5, 0) + struct.pack(">Ih", 1, -2)
    assert list(kind.decode(big).d) == [-2]
    assert pickle.loads(pickle.dumps(message)) == message


def test_a_member_called_info_hides_nothing() -> None:
    grid: Any = shipped().message("nav_msgs/msg/OccupancyGrid").cls()
    assert grid.info.width == 0
    grid._received = (b"", MessageInfo("/map", "t", "h"))
    assert info_of(grid) == MessageInfo("/map", "t", "h")
    assert IMU.cls().info is None


@line("R2-326")
def test_an_empty_message_has_one_byte() -> None:
    empty = shipped().message("std_msgs/msg/Empty")
    assert empty.encode({}) == b"\0\1\0\0\0"
    assert plain(empty.decode(b"\0\1\0\0\0")) == {}
    inner = Library.of_text("E e\nint8 a\n===\nMSG: p/E\n", "p/msg/A").message("p/msg/A")
    assert plain(inner.decode(inner.encode({"a": 5}))) == {"e": {}, "a": 5}


@line("R2-606", "R2-503")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"orientation": {"w": "x"}}, r"orientation\.w: expected a number, got 'x'"),
        ({"orientation": {"v": 1}}, r"orientation\.v: .* no such member"),
        ({"orientatoin": {}}, "did you mean orientation"),
        ({"orientation_covariance": [1.0]}, "expected 9 items, got 1"),
        ({"header": {"stamp": {"nanosec": -1}}}, r"header\.stamp\.nanosec: expected an integer"),
        ({"header": {"frame_id": 7}}, r"header\.frame_id: expected a text"),
        ({"header": {"frame_id": "a\0b"}}, "without NUL"),
        ({"header": 5}, "expected a mapping"),
        ({"orientation_covariance": "abcdefghi"}, "a list of numbers"),
        ([], "expected a mapping"),
    ],
)
def test_a_wrong_value_is_refused_with_its_path(value: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        IMU.encode(value)


@line("R2-606")
def test_bounds_of_texts_and_lists_hold_for_writers() -> None:
    kind = Library.of_text("string<=2 a\nint8[<=1] b\nbool c\nstring[] d", "p/msg/A").message("p/A")
    for value, reason in (
        ({"a": "abc"}, "at most 2 bytes"),
        ({"b": [1, 2]}, "at most 1 items"),
        ({"b": [True]}, r"b\[0\]: expected a number"),
        ({"c": 2}, "true or false"),
        ({"d": "ab"}, "expected a list"),
        ({"d": [1]}, r"d\[0\]: expected a text"),
    ):
        with pytest.raises(ValueError, match=reason):
            kind.encode(value)


@line("R2-382")
def test_a_few_bytes_more_are_padding() -> None:
    payload = IMU.encode({})
    for more in range(4):
        IMU.decode(payload + bytes(more))
    with pytest.raises(DecodeError, match="17 bytes are left"):
        IMU.decode(payload + bytes(17))


@line("R2-382", "R2-906")
def test_a_payload_that_is_cut_says_where_it_ends() -> None:
    for kind, value in ((IMU, {}), (JOINTS, JOINT_VALUES)):
        payload = kind.encode(value)
        for length in range(len(payload)):
            with pytest.raises(DecodeError):
                kind.decode(payload[:length])
    with pytest.raises(DecodeError, match=r"ends in orientation\.w"):
        IMU.decode(IMU.encode({})[:50])


@line("R2-812")
def test_counts_that_lie_take_no_memory() -> None:
    kind = shipped().message("tf2_msgs/msg/TFMessage")
    with pytest.raises(DecodeError, match="items are told of"):
        kind.decode(b"\0\1\0\0\xff\xff\xff\xff" + bytes(64))
    with pytest.raises(DecodeError, match="ends in position"):
        JOINTS.decode(JOINTS.encode({})[:-12] + b"\xff\xff\xff\x7f" + bytes(16))


def test_bools_and_texts_are_checked() -> None:
    kind = Library.of_text("bool a\nbool[] b\nstring c", "p/msg/A").message("p/msg/A")
    good = kind.encode({"a": True, "b": [True], "c": "x"})
    for at, octet in ((4, 2), (12, 7), (21, 1), (20, 0xFF)):
        with pytest.raises(DecodeError):
            kind.decode(good[:at] + bytes([octet]) + good[at + 1 :])


@line("R2-383")
def test_cdr_2_is_read_and_parameter_lists_are_refused() -> None:
    kind = Library.of_text("int8 a\nfloat64 b\nint32[] c", "p/msg/A").message("p/msg/A")
    body = struct.pack("<bxxxdIi", 5, 2.5, 1, 9)
    assert plain(kind.decode(b"\0\7\0\0" + body)) == {"a": 5, "b": 2.5, "c": [9]}
    with pytest.raises(DecodeError, match="encapsulation"):
        kind.decode(b"\0\3\0\0" + body)
    with pytest.raises(DecodeError, match="header"):
        kind.decode(b"\0\1")


def test_wide_texts_both_ways() -> None:
    kind = Library.of_text("wstring a\nwstring<=2 b\nint8 c", "p/msg/A").message("p/msg/A")
    value = {"a": "Grüße 🙂", "b": "ok", "c": 1}
    assert plain(kind.decode(kind.encode(value))) == value
    with pytest.raises(ValueError, match="at most 2 units"):
        kind.encode({"b": "abc"})


PRIMITIVES = {
    "bool": st.booleans(),
    "int8": st.integers(-128, 127),
    "uint8": st.integers(0, 255),
    "int16": st.integers(-(1 << 15), (1 << 15) - 1),
    "uint32": st.integers(0, (1 << 32) - 1),
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "uint64": st.integers(0, (1 << 64) - 1),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "string": st.text(
        st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=9
    ),
}


@st.composite
def messages(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A definition and a value of it; an inner type is `In`."""
    inner = draw(st.lists(st.sampled_from(sorted(PRIMITIVES)), min_size=1, max_size=4))
    lines, values = [], {}
    for number in range(draw(st.integers(1, 6))):
        base = draw(st.sampled_from([*sorted(PRIMITIVES), "In"]))
        value: Any
        if base == "In":
            value = st.fixed_dictionaries(
                {f"i{place}": PRIMITIVES[one] for place, one in enumerate(inner)}
            )
        else:
            value = PRIMITIVES[base]
        repeat = draw(st.sampled_from(["", "[3]", "[]", "[<=4]"]))
        if repeat == "[3]":
            value = st.lists(value, min_size=3, max_size=3)
        elif repeat:
            value = st.lists(value, max_size=4)
        lines.append(f"{base}{repeat} f{number}")
        values[f"f{number}"] = draw(value)
    text = "\n".join(lines)
    text += f"\n{'=' * 80}\nMSG: pkg/In\n"
    return text + "\n".join(f"{one} i{place}" for place, one in enumerate(inner)), values


def as_plain(value: Any) -> Any:
    """What another library made."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, (bytes, bytearray)):
        return list(value)
    if isinstance(value, (list, tuple)):
        return [as_plain(item) for item in value]
    if hasattr(value, "__slots__") or hasattr(value, "__dataclass_fields__"):
        names = getattr(value, "__dataclass_fields__", None) or value.__slots__
        return {name: as_plain(getattr(value, name)) for name in names if name[0] in "fi"}
    return value


@line("R2-905")
@given(messages())
def test_other_libraries_read_the_same_and_write_the_same(
    drawn: tuple[str, dict[str, Any]],
) -> None:
    text, value = drawn
    kind = Library.of_text(text, "pkg/msg/A").message("pkg/msg/A")
    payload = kind.encode(value)
    assert plain(kind.decode(payload)) == value
    store = get_typestore(Stores.EMPTY)
    store.register(get_types_from_msg(text, "pkg/msg/A"))
    assert as_plain(store.deserialize_cdr(payload, "pkg/msg/A")) == value
    assert kind.hash == store.hash_rihs01("pkg/msg/A")
    dynamic = generate_dynamic("pkg/msg/A", text)["pkg/msg/A"]
    assert as_plain(dynamic(payload)) == value
    written = store.serialize_cdr(store.deserialize_cdr(payload, "pkg/msg/A"), "pkg/msg/A")
    assert plain(kind.decode(bytes(written))) == value
    big = store.serialize_cdr(
        store.deserialize_cdr(payload, "pkg/msg/A"), "pkg/msg/A", little_endian=False
    )
    assert plain(kind.decode(bytes(big))) == value
