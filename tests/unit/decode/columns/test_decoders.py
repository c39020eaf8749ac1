"""Each decoder: what was encoded comes back, as columns as one by one; what is bad says why."""

from __future__ import annotations

import io
import json
import math
import random
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from elea.decode.columns import rules
from elea.decode.columns.base import Decoder, Outcome, ValueDecoder
from elea.decode.columns.cbor_items import CborDecoder
from elea.decode.columns.ipc import IpcDecoder
from elea.decode.columns.json_lines import JsonDecoder, JsonTextDecoder
from elea.decode.columns.protobuf import ProtobufDecoder
from elea.decode.columns.ros import ros_layout
from elea.decode.columns.slices import LayoutDecoder
from elea.decode.columns.texts import TextDecoder
from elea.decode.columns.types import fit, sql_type, table_type
from elea.decode.layout import Layout, layout_text, parse_layout
from elea.errors import ConfigError
from elea.ext import z_serialize
from elea.limits import DEFAULT_LIMITS

READING = parse_layout(
    "{t: f64, n: u32, big: u64, on: bool, name: string, tags: [string], at: {x: i8}}"
)
readings = st.fixed_dictionaries(
    {},
    optional={
        "t": st.floats(allow_nan=False, allow_infinity=False),
        "n": st.integers(0, (1 << 32) - 1),
        "big": st.integers(0, (1 << 64) - 1),
        "on": st.booleans(),
        "name": st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        "tags": st.lists(st.text('ab{}[]"\\,:\n\u00e9', max_size=4), max_size=3),
        "at": st.fixed_dictionaries({"x": st.integers(-128, 127)}),
        "other": st.lists(st.dictionaries(st.text(max_size=2), st.none(), max_size=1), max_size=2),
    },
)


def outcome(decoder: Decoder, payloads: list[bytes]) -> Outcome:
    """What a decoder makes of payloads; every payload is a row or a failure, never both."""
    found = decoder.decode(pa.array(payloads, pa.binary()))
    found.values.validate(full=True)
    assert found.values.type == table_type(decoder.layout)
    rows = set(found.rows.to_pylist())
    assert rows | set(found.failed) == set(range(len(payloads)))
    assert rows.isdisjoint(found.failed)
    assert found.rows.to_pylist() == sorted(found.rows.to_pylist())
    assert all(found.failed.values()), "a reason is a text"
    return found


def one_by_one(decoder: Decoder, payloads: list[bytes]) -> dict[int, object]:
    found: dict[int, object] = {}
    for row, payload in enumerate(payloads):
        try:
            found[row] = fit(decoder.value(payload), decoder.layout)
        except (ValueError, RecursionError):
            continue
    return found


def check_agreement(decoder: Decoder, payloads: list[bytes]) -> Outcome:
    """As columns and one by one, the same."""
    found = outcome(decoder, payloads)
    expected = pa.array(list(one_by_one(decoder, payloads).values()), decoder.type)
    assert found.rows.to_pylist() == list(one_by_one(decoder, payloads))
    assert str(found.values.to_pylist()) == str(expected.to_pylist())  # NaN is NaN here
    return found


@given(st.lists(readings, min_size=1, max_size=4))
@settings(max_examples=25)
def test_json_comes_back(values: list[dict[str, object]]) -> None:
    payloads = [json.dumps(value).encode() for value in values] * 20  # enough for Arrow's parser
    found = outcome(JsonDecoder(READING), payloads)
    assert found.failed == {}
    for value, row in zip(values, found.values.to_pylist(), strict=False):
        for name, inner in row.items():
            assert inner == value.get(name), name


BAD_JSON = [
    *(b"", b"{", b"}", b"nope", b"[1]", b"5", b'{"t": "x"}', b'{"t": 1}{"t": 2}', b'{"t": 1} x'),
    *(b'{"name": "a\n', b'"}', b'{"name": "\\ud800"}', b'{"n": -1}', b'{"n": 4294967296}'),
    *(b'{"name": "\xff"}', b'{"zzz": "\xff"}', b'{"t": NaN}', b'{"t": 1}\0', b'{"t":1}{"t":2}\0}'),
    *(b'{"at": 5}', b'{"at": {"x": 128}}', b'{"tags": "a"}', b'{"on": 1}', b'{"big": -1}', b"\0"),
    *(b'{"a": ' * 100 + b"1" + b"}" * 100, b"[" * 50_000, b'{"t": tru}', b"{}{", b"{'t': 1}"),
]
ODD_JSON = [
    *(b" {}", b"{}\n", b'{"n": 5.0}', b'{"name": 5}', b'{"name": {"a": [1]}}', b'{"t": 1e400}'),
    *(
        b'{"t": null}',
        b'{"t": 1, "t": 2}',
        b'{"other": {"b": []}}',
        b'{\n"t"\n:\n1\n}',
        b'{"t": -0}',
    ),
    *(b'{"name": "\\u00e9\\n"}', b'{"big": 18446744073709551615}', b'{"at": {}}', b'{"at": null}'),
]


def test_bad_json_takes_nobody_with_it() -> None:
    rng = random.Random(3)
    payloads = [b'{"t": %d}' % number for number in range(2_000)] + BAD_JSON * 3 + ODD_JSON * 3
    rng.shuffle(payloads)
    found = check_agreement(JsonDecoder(READING), payloads)
    assert {payloads[row] for row in found.failed} == set(BAD_JSON)


def test_no_payload_takes_in_a_part_of_the_next() -> None:
    """Each of these reads as one object more or less with its neighbours, and must not."""
    tricks = [
        b'{"t": 1}{"t": 2}\0}',
        b'{"name": "}',
        b'{":1}',
        b'{"tags": ["}',
        b'{"]}',
        b'{"t": 1}{}',
    ]
    for trick in tricks:
        for other in tricks:
            payloads = [b'{"t": 7}'] * 100 + [trick, other] + [b'{"t": 8}'] * 100
            found = check_agreement(JsonDecoder(READING), payloads)
            assert set(found.failed) == {100, 101}


@given(st.binary(max_size=40))
def test_any_octets_are_a_value_or_a_reason(payload: bytes) -> None:
    for decoder in (
        JsonDecoder(READING),
        JsonTextDecoder(),
        CborDecoder(),
        CborDecoder(READING),
        TextDecoder(),
        TextDecoder(parse_layout("i16")),
        LayoutDecoder(READING, cdr=True),
        LayoutDecoder(READING, cdr=False),
        IpcDecoder(parse_layout("{a: i64}")),  # type: ignore[arg-type]
        ProtobufDecoder(*_protobuf()),
    ):
        outcome(decoder, [payload] * 20)


def test_layouts_of_which_arrow_parses_nothing() -> None:
    layout = parse_layout(
        "{m: map(string, i64), e: enum {OFF, ON}, b: bytes, p: (f64, f64), h: u128}"
    )
    payloads = [
        b'{"m": {"a": 1}, "e": "ON", "b": "AQI=", "p": [1, 2], "h": 99}',
        b'{"e": 7}',
        b'{"e": "NO"}',
    ]
    found = outcome(JsonDecoder(layout), payloads)
    assert found.values.to_pylist() == [
        {"m": [("a", 1)], "e": "ON", "b": b"\1\2", "p": {"_0": 1.0, "_1": 2.0}, "h": Decimal(99)},
        {"m": None, "e": "7", "b": None, "p": None, "h": None},
    ]
    assert found.failed == {2: "e: saw 'NO', legal is one of OFF, ON"}
    assert sql_type(found.values.type).startswith("STRUCT<`m`: MAP<STRING, BIGINT>, `e`: STRING")


def test_json_without_a_layout_is_its_text() -> None:
    found = outcome(JsonTextDecoder(), [b'{"a": [1]}', b"nope", b"5"])
    assert found.values.to_pylist() == ['{"a": [1]}', "5"]


def test_texts_and_numbers() -> None:
    texts = outcome(TextDecoder(), ["é".encode(), b"\xff", b""])
    assert texts.values.to_pylist() == ["é", ""]
    floats = outcome(TextDecoder(parse_layout("f64")), [b"1.5", b" -2e3\n", b"x", b"", b"nan"])
    assert floats.values.to_pylist()[:2] == [1.5, -2000.0]
    assert math.isnan(floats.values.to_pylist()[2])
    assert set(floats.failed) == {2, 3}
    assert outcome(TextDecoder(parse_layout("f64")), [b"1.5", b" 2 "]).values.to_pylist() == [
        1.5,
        2,
    ]
    small = outcome(TextDecoder(parse_layout("u8")), [b"255", b"256", b"-1", "٣".encode()])
    assert small.values.to_pylist() == [255]
    truths = outcome(TextDecoder(parse_layout("bool")), [b"true", b"0", b"maybe"])
    assert truths.values.to_pylist() == [True, False]
    assert outcome(TextDecoder(parse_layout("bytes")), [b"\x41"]).values.to_pylist() == [b"A"]


def test_cbor() -> None:
    reading = bytes.fromhex("a3 6174 fb3ff8000000000000 616e 182a 646e616d65 626869")
    decoder = CborDecoder(READING)
    found = outcome(decoder, [reading, reading[:-1], reading + b"\0", b"\x9f" * 100, b""])
    assert (
        found.values.to_pylist()[0] | {"t": 1.5, "n": 42, "name": "hi"}
        == found.values.to_pylist()[0]
    )
    assert len(found.failed) == 4
    twice = bytes.fromhex("a2 6174 01 6174 02")
    assert "twice" in outcome(decoder, [twice]).failed[0]
    text = outcome(CborDecoder(), [reading, b"\x43abc", b"\xa1\xf5\x01"])
    assert text.values.to_pylist() == ['{"t":1.5,"n":42,"name":"hi"}', '"YWJj"']


def cbor_of(value: object, *, wide: bool) -> bytes:
    """A small writer, which takes the shortest form or the widest."""

    def head(major: int, number: int) -> bytes:
        if number < 24 and not wide:
            return bytes([major << 5 | number])
        for info, code in ((24, ">B"), (25, ">H"), (26, ">I"), (27, ">Q")):
            if (number < 1 << 8 * struct.calcsize(code) and not wide) or info == 27:
                return bytes([major << 5 | info]) + struct.pack(code, number)
        raise AssertionError

    match value:
        case None:
            return b"\xf6"
        case bool():
            return b"\xf5" if value else b"\xf4"
        case int():
            return head(0, value) if value >= 0 else head(1, -1 - value)
        case float():
            return b"\xfb" + struct.pack(">d", value)
        case str():
            return head(3, len(value.encode())) + value.encode()
        case list():
            return head(4, len(value)) + b"".join(cbor_of(one, wide=wide) for one in value)
        case dict():
            inner = (cbor_of(one, wide=wide) for pair in value.items() for one in pair)
            return head(5, len(value)) + b"".join(inner)
        case _:
            raise AssertionError


@given(st.lists(readings, min_size=1, max_size=3), st.booleans(), st.data())
@settings(max_examples=60)
def test_cbor_as_columns_and_one_by_one(
    values: list[dict[str, object]], wide: bool, data: st.DataObject
) -> None:
    payloads = [cbor_of(value, wide=wide) for value in values] * 20
    decoder = CborDecoder(READING)
    found = check_agreement(decoder, payloads)
    assert found.failed == {}
    for value, row in zip(values, found.values.to_pylist(), strict=False):
        assert {name: inner for name, inner in row.items() if inner is not None} == {
            name: inner for name, inner in value.items() if name != "other"
        }
    for _ in range(data.draw(st.integers(1, 6))):
        row = data.draw(st.integers(0, len(payloads) - 1))
        payload = bytearray(payloads[row])
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
        payloads[row] = bytes(payload)
    check_agreement(decoder, payloads)


CDR = parse_layout(
    "{stamp: {sec: i32, nanosec: u32}, frame: string, q: [f64; 4], ok: bool, data: [u16], id: u64,"
    " raw: bytes}"
)


def cdr(number: int, frame: str, data: list[int]) -> bytes:
    out = bytearray(b"\0\1\0\0")

    def put(code: str, *values: float) -> None:
        for value in values:
            width = struct.calcsize(f"<{code}")
            out.extend(bytes(-(len(out) - 4) % width) + struct.pack(f"<{code}", value))

    put("i", number)
    put("I", 5, len(frame.encode()) + 1)
    out.extend(frame.encode() + b"\0")
    put("d", 0.5, 1, 2, number)
    put("B", number % 2)
    put("I", len(data))
    put("H", *data)
    put("Q", (1 << 63) + number)
    put("I", 3)
    out.extend(b"abc")
    return bytes(out)


frames = st.sampled_from(["base", "odom", "", "é", "a longer frame"])


@given(
    st.lists(
        st.tuples(st.integers(0, 1000), frames, st.lists(st.integers(0, 65535), max_size=3)),
        min_size=1,
        max_size=80,
    ),
    st.data(),
)
@settings(max_examples=50)
def test_cdr_as_columns_and_one_by_one(
    values: list[tuple[int, str, list[int]]], data: st.DataObject
) -> None:
    payloads = [cdr(*value) for value in values]
    for _ in range(data.draw(st.integers(0, 3))):
        row = data.draw(st.integers(0, len(payloads) - 1))
        payload = bytearray(payloads[row])
        payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
        payloads[row] = bytes(payload[: data.draw(st.integers(0, len(payload)))])
    check_agreement(LayoutDecoder(CDR, cdr=True), payloads)


def test_cdr_of_a_fleet_and_what_is_wrong_with_some() -> None:
    payloads = [cdr(number, "base_link", [1, 2]) for number in range(300)]
    payloads[100] = payloads[100][:20]
    payloads[150] = payloads[150].replace(b"base", b"b\xffse")
    payloads[200] = b"\0\0" + payloads[200][2:]  # big endian, it says
    payloads[250] = b""
    decoder = LayoutDecoder(CDR, cdr=True)
    found = check_agreement(decoder, payloads)
    assert set(found.failed) == {100, 150, 200, 250}
    parts, rest = decoder.fast(pa.array(payloads, pa.binary()))
    assert sum(len(rows) for rows, _ in parts) > 250, "columns, not one by one"
    assert len(list(rest)) < 50


@pytest.mark.parametrize(
    "text", ["{a: i32, s: string, l: [f32], b: bytes}", "(u8, bool, [i64; 2])", "f64"]
)
def test_the_serialization_format(text: str) -> None:
    layout = parse_layout(text)
    from elea.ext import Float32, Float64, Int32, Int64, UInt8

    values: dict[str, list[object]] = {
        "{": [(Int32(n), "é" * (n % 3), [Float32(1.5)] * (n % 2), b"xy") for n in range(60)],
        "(": [(UInt8(n), n % 2 == 0, (Int64(n), Int64(-n))) for n in range(60)],
        "f": [Float64(n / 2) for n in range(60)],
    }
    payloads = [bytes(z_serialize(value)) for value in values[text[0]]]
    found = check_agreement(LayoutDecoder(layout, cdr=False), [*payloads, payloads[-1][:-1], b""])
    assert set(found.failed) == {60, 61}


def _protobuf() -> tuple[bytes, str]:
    """A descriptor set, made without a compiler."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    kind = file.enum_type.add(name="Kind")
    kind.value.add(name="NONE", number=0)
    kind.value.add(name="SOME", number=1)
    inner = file.message_type.add(name="Inner")
    inner.field.add(name="x", number=1, type=1, label=1)
    message = file.message_type.add(name="M")
    for name, number, type in (("id", 1, 4), ("name", 2, 9), ("on", 3, 8), ("raw", 4, 12)):
        message.field.add(name=name, number=number, type=type, label=1)
    message.field.add(name="at", number=5, type=11, type_name=".t.Inner", label=1)
    message.field.add(name="all", number=6, type=11, type_name=".t.Inner", label=3)
    message.field.add(name="kind", number=7, type=14, type_name=".t.Kind", label=1)
    message.field.add(name="ns", number=8, type=5, label=3)
    entry = message.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=3, label=1)
    message.field.add(name="tags", number=9, type=11, type_name=".t.M.TagsEntry", label=3)
    loop = file.message_type.add(name="Loop")
    loop.field.add(name="next", number=1, type=11, type_name=".t.Loop", label=1)
    file.message_type.add(name="Empty")
    return descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), "t.M"


def test_protobuf() -> None:
    descriptors, name = _protobuf()
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    message = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    full = message(id=(1 << 64) - 1, name="é", on=True, raw=b"\1", ns=[1, -2], kind=1)
    full.at.x = 2.5
    full.all.add(x=1)
    full.tags["a"] = 5
    bad = full.SerializeToString()[:-1]
    found = outcome(ProtobufDecoder(descriptors, name), [full.SerializeToString(), b"", bad])
    assert found.values.to_pylist() == [
        {
            "id": Decimal((1 << 64) - 1),
            "name": "é",
            "on": True,
            "raw": b"\1",
            "at": {"x": 2.5},
            "all": [{"x": 1.0}],
            "kind": "SOME",
            "ns": [1, -2],
            "tags": [("a", 5)],
        },
        {"id": 0, "name": "", "on": False, "raw": b"", "at": None, "all": [], "kind": "NONE"}
        | {"ns": [], "tags": []},
    ]
    assert found.failed[2].startswith("no t.M")
    assert outcome(ProtobufDecoder(descriptors, "t.Empty"), [b""]).failed == {}
    with pytest.raises(ConfigError, match="holds itself"):
        ProtobufDecoder(descriptors, "t.Loop")
    with pytest.raises(ConfigError, match="no message 't"):
        ProtobufDecoder(descriptors, "t.N")


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    out = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(out, table.schema, options=options) as writer:
        writer.write_table(table)
    return out.getvalue()


TABLE = parse_layout("{a: i64, b: string, c: f64}")


def test_arrow_tables_become_rows() -> None:
    table = pa.table({"a": [1, 2], "b": pa.array(["x", "y"]).dictionary_encode(), "more": [1, 2]})
    payloads = [
        stream(table),
        stream(table, "zstd"),
        stream(table.slice(0, 0)),
        stream(table, "lz4"),
    ]
    found = IpcDecoder(TABLE).decode(pa.array(payloads))  # type: ignore[arg-type]
    assert found.rows.to_pylist() == [0, 0, 1, 1, 3, 3]
    assert found.values.to_pylist()[:2] == [
        {"a": 1, "b": "x", "c": None},
        {"a": 2, "b": "y", "c": None},
    ]
    assert found.failed == {}


def test_arrow_bombs_are_not_opened() -> None:
    many = pa.table({"a": pa.nulls(DEFAULT_LIMITS.decode_rows_count + 1, pa.null())})
    wide = pa.table({"a": [0] * 60_000, "b": ["x" * 2_000] * 60_000})
    typed = pa.table({"a": [b"\0"]})
    packed = stream(wide, "zstd")
    assert len(packed) < DEFAULT_LIMITS.decode_len
    payloads = [stream(many), packed, stream(typed), b"", b"x" * 40, stream(typed)[:-12]]
    found = IpcDecoder(TABLE).decode(pa.array(payloads))  # type: ignore[arg-type]
    assert set(found.failed) == {0, 1, 2, 3, 4, 5}
    assert "rows" in found.failed[0]
    assert "octets unpacked" in found.failed[1]


@given(st.binary(min_size=1, max_size=4), st.data())
@settings(max_examples=200)
def test_arrow_streams_with_an_octet_changed(noise: bytes, data: st.DataObject) -> None:
    payload = bytearray(stream(pa.table({"a": [1, 2, 3], "b": ["x", None, "zz"]}), "lz4"))
    at = data.draw(st.integers(0, len(payload) - len(noise)))
    payload[at : at + len(noise)] = noise
    found = IpcDecoder(TABLE).decode(pa.array([bytes(payload)]))  # type: ignore[arg-type]
    found.values.validate(full=True)


def test_message_definitions_of_ros() -> None:
    text = (
        "# comment\nstd_msgs/Header header\nQuaternion orientation  # of us\n"
        'float64[9] covariance\nuint8 KIND=5\nstring<=10 name "abc"\nuint8[] data\n'
        "float32[<=5] some\nbool on true\n" + "=" * 80 + "\nMSG: sensor_msgs/Quaternion\n"
        "float64 x 0\nfloat64 w 1\n"
    )
    assert layout_text(ros_layout(text, "sensor_msgs/msg/Imu")) == (
        "{header: {stamp: {sec: i32, nanosec: u32}, frame_id: string},"
        " orientation: {x: f64, w: f64}, covariance: [f64; 9], name: string, data: bytes,"
        ' some: [f32], "on": bool}'.replace('"on"', layout_text(parse_layout('{"on": bool}'))[1:3])
    )
    same = ros_layout(text, "sensor_msgs::msg::dds_::Imu_")
    assert same == ros_layout(text, "sensor_msgs/Imu")
    assert layout_text(ros_layout("", "std_msgs/msg/Empty")) == (
        "{structure_needs_at_least_one_member: u8}"
    )
    for bad, complaint in (
        ("float64", "expected a field"),
        ("wstring s", "decoder ros2"),
        ("a/B b\n===\nMSG: a/B\na/B b", "contains itself"),
        ("a/B b\n===\nfloat64 x", "MSG: type"),
        ("float64[0] x", "1 to"),
    ):
        with pytest.raises(ConfigError, match=complaint):
            ros_layout(bad, "p/M")


@pytest.mark.parametrize(
    "text",
    [
        '{a: f64, "select": [i8; 3]}',
        "(u8, map(string, {x: bool}))",
        "enum {A = 3, B = 4}",
        "appendable {a: char}",
    ],
)
def test_a_layout_is_written_as_it_is_read(text: str) -> None:
    layout: Layout = parse_layout(text)
    assert parse_layout(layout_text(layout)) == layout


@pytest.mark.parametrize("name", ["json", "cbor", "serialized", "cdr"])
def test_every_format_becomes_columns_payload_by_payload(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A format that is added has no faster way at first."""
    payloads = {
        "json": b'{"a": 7}',
        "cbor": bytes.fromhex("a1616107"),
        "serialized": b"\x07",
        "cdr": bytes.fromhex("0001000007"),
    }
    octets = pa.array([payloads[name], b""], pa.binary())
    fast = rules.Rule(decoder=name, layout="{a: i16}" if name in ("json", "cbor") else "{a: u8}")
    expected = fast.compiled().decode(octets)
    monkeypatch.delitem(rules._MAKERS, name)
    rules._decoder.cache_clear()
    try:
        found = fast.compiled().decode(octets)
        assert isinstance(fast.compiled(), ValueDecoder)
    finally:
        rules._decoder.cache_clear()
    assert found.values.to_pylist() == expected.values.to_pylist() == [{"a": 7}]
    assert list(found.failed) == list(expected.failed) == [1]


def test_a_format_that_does_not_describe_itself_needs_a_layout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(rules._MAKERS, "serialized")
    with pytest.raises(ConfigError, match="serialized does not say what it holds"):
        rules.Rule(decoder="serialized")
