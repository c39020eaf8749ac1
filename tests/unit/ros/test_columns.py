"""Messages as columns: cut, walked together and read one by one, they are the same."""

from __future__ import annotations

import datetime
import random
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from tests.unit.ros.test_messages import messages

from elea.decode.columns import lockstep
from elea.decode.columns.base import Decoder
from elea.decode.columns.ros import RosDecoder, ros_layout
from elea.decode.columns.slices import LayoutDecoder
from elea.decode.columns.types import sql_type
from elea.ros.formats.attachment import Attachment
from elea.ros.formats.library import Library, MessageType
from elea.ros.formats.shipped import shipped
from elea.spark.decode import Plan, Rule, decode

line = pytest.mark.line
Value = Callable[[random.Random], dict[str, Any]]


def texts(draw: random.Random) -> str:
    return "".join(draw.choice("abcé_/") for _ in range(draw.randrange(8)))


def joints(draw: random.Random) -> dict[str, Any]:
    count = draw.randrange(5)
    return {
        "header": {"stamp": {"sec": draw.randrange(-9, 99), "nanosec": 7}, "frame_id": texts(draw)},
        "name": [texts(draw) for _ in range(count)],
        "position": [draw.random() for _ in range(draw.randrange(4))],
        "effort": [draw.random() for _ in range(count)],
    }


def transforms(draw: random.Random) -> dict[str, Any]:
    items = [
        {
            "header": {"frame_id": texts(draw)},
            "child_frame_id": texts(draw),
            "transform": {"translation": {"x": draw.random()}, "rotation": {"w": draw.random()}},
        }
        for _ in range(draw.randrange(4))
    ]
    return {"transforms": items}


def cloud(draw: random.Random) -> dict[str, Any]:
    return {
        "header": {"frame_id": texts(draw)},
        "height": 1,
        "width": 3,
        "fields": [{"name": name, "offset": 4, "datatype": 7, "count": 1} for name in "xyz"],
        "is_bigendian": draw.random() < 0.5,
        "data": draw.randbytes(draw.randrange(40)),
    }


def fixes(draw: random.Random) -> dict[str, Any]:
    return {
        "status": {"status": draw.randrange(-2, 3), "service": draw.randrange(1 << 16)},
        "position_covariance": [draw.random() for _ in range(9)],
        "position_covariance_type": draw.randrange(4),
    }


KINDS: list[tuple[str, Value]] = [
    ("sensor_msgs/msg/JointState", joints),
    ("tf2_msgs/msg/TFMessage", transforms),
    ("sensor_msgs/msg/PointCloud2", cloud),
    ("sensor_msgs/msg/NavSatFix", fixes),
]


def payloads_of(kind: MessageType, value: Value, count: int = 60) -> list[bytes]:
    draw = random.Random(5)
    return [kind.encode(value(draw)) for _ in range(count)]


def one_by_one(decoder: Decoder, payloads: list[bytes]) -> list[Any]:
    """What the slow way makes of payloads."""
    slow = RosDecoder(decoder.kind) if isinstance(decoder, RosDecoder) else decoder
    setattr(slow, "fast", lambda found: ([], range(len(found))))  # noqa: B010
    values: list[Any] = slow.decode(pa.array(payloads, pa.binary())).values.to_pylist()
    return values


@line("R2-384", "R2-385", "R2-905")
@pytest.mark.parametrize(("name", "value"), KINDS)
def test_columns_are_the_same_whichever_way_they_are_made(name: str, value: Value) -> None:
    kind = shipped().message(name)
    decoder = RosDecoder(kind)
    for payloads in (payloads_of(kind, value), [kind.encode(value(random.Random(1)))] * 40):
        column = pa.array(payloads, pa.binary())
        _parts, rest = decoder.fast(column)
        assert list(rest) == [], "every row takes the fast way"
        found = decoder.decode(column)
        found.values.validate(full=True)
        assert not found.failed
        assert found.values.to_pylist() == one_by_one(decoder, payloads)


@line("R2-384")
def test_slices_alone_do_lists_of_structures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lockstep, "numpy", None)
    for name, value in KINDS:
        kind = shipped().message(name)
        payloads = [kind.encode(value(random.Random(3)))] * 40
        _, rest = RosDecoder(kind).fast(pa.array(payloads, pa.binary()))
        assert list(rest) == []


@line("R2-905", "R2-384")
@given(messages())
def test_random_definitions_become_the_same_columns(drawn: tuple[str, dict[str, Any]]) -> None:
    text, value = drawn
    kind = Library.of_text(text, "pkg/msg/A").message("pkg/msg/A")
    payloads = [kind.encode(value)] * 20 + [kind.encode({})] * 20
    decoder = RosDecoder(kind)
    found = decoder.decode(pa.array(payloads, pa.binary()))
    assert not found.failed
    assert found.values.to_pylist() == one_by_one(decoder, payloads)
    together, ok = lockstep.Together(pa.array(payloads, pa.binary())).values(decoder.layout)
    assert ok.all()
    assert together.cast(decoder.type).to_pylist() == found.values.to_pylist()


@line("R2-382", "R2-906", "R2-812")
def test_bad_rows_are_refused_and_the_others_stay() -> None:
    kind = shipped().message("sensor_msgs/msg/JointState")
    good = payloads_of(kind, joints, 40)
    bad = {
        "ends in": good[0][:-3],
        "bytes are left": good[1] + bytes(17),
        "header": b"\0",
        "expected UTF-8": kind.encode({"name": ["ab"]}).replace(b"ab", b"\xff\xff"),
        "items are told of": kind.encode({})[:20] + b"\xff\xff\xff\x7f" + bytes(12),
        "encapsulation": b"\0\3\0\0" + good[2][4:],
    }
    found = RosDecoder(kind).decode(pa.array([*good, *bad.values()], pa.binary()))
    assert found.rows.to_pylist() == list(range(40))
    assert len(found.failed) == len(bad)
    for number, reason in enumerate(bad):
        assert reason in found.failed[40 + number], found.failed


@line("R2-906")
def test_every_cut_of_many_payloads_is_refused() -> None:
    kind = shipped().message("tf2_msgs/msg/TFMessage")
    payload = kind.encode({"transforms": [{"child_frame_id": "abc"}] * 2})
    cuts = [payload[:length] for length in range(len(payload))]
    found = RosDecoder(kind).decode(pa.array([*cuts, payload], pa.binary()))
    assert found.rows.to_pylist() == [len(cuts)]


def test_big_endian_rows_are_read_beside_others() -> None:
    kind = Library.of_text("int32 a\nstring b", "p/msg/A").message("p/msg/A")
    big = b"\0\0\0\0" + struct.pack(">iI3s", 5, 3, b"hi\0")
    payloads = [kind.encode({"a": 1, "b": "x" * number}) for number in range(30)] + [big] * 3
    found = RosDecoder(kind).decode(pa.array(payloads, pa.binary()))
    assert found.values.to_pylist()[-1] == {"a": 5, "b": "hi"}


@line("R2-381")
def test_types_of_columns() -> None:
    text = "builtin_interfaces/Time t\nbuiltin_interfaces/Duration d\nuint8[16] id\nuint8[3] few\n"
    text += "uint64 big\nbyte[] raw\nwstring w\nchar c\nuint32 u\nEmpty e"
    text += "\n===\nMSG: p/Empty\n"
    kind = Library.of_text(text, "p/msg/A").message("p/msg/A")
    decoder = RosDecoder(kind)
    assert {one.name: sql_type(one.type) for one in decoder.type} == {
        "t": "TIMESTAMP",
        "d": "BIGINT",
        "id": "BINARY",
        "few": "ARRAY<SMALLINT>",
        "big": "DECIMAL(20, 0)",
        "raw": "BINARY",
        "w": "STRING",
        "c": "SMALLINT",
        "u": "BIGINT",
        "e": "STRUCT<`structure_needs_at_least_one_member`: SMALLINT>",
    }
    value = {
        "t": {"sec": -1, "nanosec": 1_500_000_000},
        "d": {"sec": 2, "nanosec": 5},
        "id": range(16),
        "raw": b"ab",
        "w": "Ü",
        "big": (1 << 64) - 1,
    }
    [row] = decoder.decode(pa.array([kind.encode(value)], pa.binary())).values.to_pylist()
    assert row["t"] == datetime.datetime(1970, 1, 1, 0, 0, 0, 500_000, datetime.UTC)
    assert (row["d"], row["id"], row["raw"], row["w"]) == (
        2_000_000_005,
        bytes(range(16)),
        b"ab",
        "Ü",
    )
    assert row["big"] == (1 << 64) - 1


def batch_of(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    schema = pa.schema(
        [
            ("key", pa.string()),
            ("kind", pa.int8()),
            ("encoding", pa.string()),
            ("payload", pa.binary()),
            ("attachment", pa.binary()),
        ]
    )
    defaults = {"kind": 0, "encoding": "zenoh/bytes", "attachment": None}
    return pa.RecordBatch.from_pylist([{**defaults, **row} for row in rows], schema)


@line("R2-381", "R2-202", "R2-751", "R2-256")
def test_rows_have_what_keys_and_attachments_say() -> None:
    kind = shipped().message("std_msgs/msg/String")
    key = f"3/r7/chat/std_msgs::msg::dds_::String_/{kind.hash}"
    payload = kind.encode({"data": "hi"})
    attached = Attachment(9, 1_700_000_000_123_456_789, bytes(range(16))).to_bytes()
    rule = Rule(
        decoder="ros2",
        message=kind.name,
        definitions=kind.text.encode(),
        key_expr=f"*/**/std_msgs::msg::dds_::String_/{kind.hash}",
        topic="/{robot}/chat",
    )
    other = f"3/r7/chat/std_msgs::msg::dds_::String_/RIHS01_{'0' * 64}"
    found = decode(
        batch_of(
            [
                {"key": key, "payload": payload, "attachment": attached},
                {"key": key, "payload": payload},
                {"key": key, "payload": payload, "attachment": b"odd"},
                {"key": other, "payload": payload},
                {"key": f"{key}/_buf/{'a' * 32}", "payload": payload},
                {"key": "fleet/x", "payload": payload},
            ]
        ),
        Plan((rule,), "dead"),
    )
    first, second, third = found.rows.to_pylist()
    assert (first["robot"], first["ros_topic"], first["ros_domain"]) == ("r7", "/r7/chat", 3)
    assert (first["ros_type"], first["ros_hash"]) == (kind.name, kind.hash)
    assert (first["ros_seq"], first["ros_gid"]) == (9, bytes(range(16)))
    assert first["ros_source_time"].timestamp() == pytest.approx(1_700_000_000.123456)
    assert (first["data"], first["ros_hash_ok"], first["ros_node"]) == ("hi", True, None)
    assert (second["ros_seq"], third["ros_gid"]) == (None, None)
    assert found.dead is not None
    assert found.dead["reason"].to_pylist() == [
        "no definition of std_msgs/msg/String RIHS01_0000…; give `definitions`",
        "device buffer",
        "no decoder for zenoh/bytes",
    ]


def test_cdr_without_ros_takes_the_fast_ways_too() -> None:
    kind = shipped().message("tf2_msgs/msg/TFMessage")
    layout = ros_layout(kind.text, kind.name)
    payloads = payloads_of(kind, transforms)
    decoder = LayoutDecoder(layout, cdr=True)
    column = pa.array(payloads, pa.binary())
    assert list(decoder.fast(column)[1]) == []
    found = decoder.decode(column).values.to_pylist()
    assert found == one_by_one(LayoutDecoder(layout, cdr=True), payloads)
