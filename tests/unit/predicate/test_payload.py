"""What a predicate sees of a sample, and layouts."""

from __future__ import annotations

import pytest

from elea.decode.formats import value_of
from elea.decode.layout import Layout, below
from elea.decode.layout_reader import read_cdr, read_serialized
from elea.decode.values import Kind
from elea.encoding import Encoding
from elea.errors import LimitError, PredicateError
from elea.ext import z_serialize
from elea.predicate import Enumerator, PayloadFields, parse, parse_layout
from elea.predicate.check import Remark, check, kind
from elea.predicate.model import Field


def value(payload: bytes, encoding: str, *path: str | int, **more: object) -> object:
    layout = more.get("layout")
    parsed = parse_layout(layout) if isinstance(layout, str) else None
    return PayloadFields(payload, Encoding(encoding), layout=parsed).field(path)


@pytest.mark.parametrize(
    ("payload", "encoding", "found"),
    [
        (b"21", "text/plain", 21),
        (b" -21.5\n", "text/plain;utf-8", -21.5),
        (b".5e1", "zenoh/string", 5.0),
        (b"21 degrees", "zenoh/string", "21 degrees"),
        (b"", "zenoh/string", ""),
        (b"1_000", "zenoh/string", "1_000"),
        (b"nan", "zenoh/string", "nan"),
        (b"1" * 600, "zenoh/string", "1" * 600),
        (b"\xff", "zenoh/string", None),
        (b"true", "application/json", True),
        (b"[1]", "application/ld+json", [1]),
        (b"\x18\x2a", "application/senml+cbor", 42),
        (b"\xf7", "application/cbor", None),
        (b"\xc1\x18\x2a", "application/cbor", 42),
        (b"NaN", "application/json", None),
        (b"21", "zenoh/bytes", None),
        (b"21", "application/yaml", None),
        (b"21", "application/cdr", None),
        (b"21", "mine", None),
    ],
)
def test_scalars(payload: bytes, encoding: str, found: object) -> None:
    assert value(payload, encoding, "value") == found
    assert value(payload, encoding, "temp") is None


def test_roots() -> None:
    payload = b'{"key": "inner", "property": 1, "temp": 2, "list": [{"a": 3}], "null": null}'
    fields = PayloadFields(
        payload,
        Encoding("application/json"),
        key="lab/t1",
        properties={"vendor": "me", "app": {"floor": 2}},
    )
    found = {
        ("key",): "lab/t1",
        ("key", "x"): None,
        ("property", "vendor"): "me",
        ("property", "app", "floor"): 2,
        ("property", "none"): None,
        ("property",): None,
        ("property", 0): None,
        ("value", "key"): "inner",
        ("value", "property"): 1,
        ("temp",): 2,
        ("value", "temp"): 2,
        ("list", 0, "a"): 3,
        ("list", 1): None,
        ("list", "a"): None,
        ("null",): None,
    }
    assert {path: fields.field(path) for path in found} == found
    plain = PayloadFields(payload, Encoding("application/json"))
    assert plain.field(("key",)) == "inner"
    assert plain.field(("property",)) == 1
    own = PayloadFields(b'{"value": 7, "temp": 2}', Encoding("application/json"))
    assert own.field(("value",)) == 7
    assert own.field(("value", "temp")) is None


def test_a_payload_is_decoded_when_asked_and_says_why_it_was_not() -> None:
    fields = PayloadFields(b"{", Encoding("application/json"), key="a")
    assert fields.field(("key",)) == "a"
    assert not fields.failure
    assert fields.field(("temp",)) is None
    assert "property name" in str(fields.failure)


@pytest.mark.parametrize(
    ("payload", "encoding", "reason"),
    [
        (b"[" * 100_000, "application/json", "recursion"),
        (b"9" * 5_000, "application/json", "digits"),
        (b"\xff", "application/json", "utf-8"),
        (b"Infinity", "application/json", "Infinity is no JSON"),
        (b"\xa2\x61a\x01\x61a\x02", "application/cbor", "twice"),
        (b"\x81" * 50 + b"\x01", "application/cbor", "deeper"),
    ],
)
def test_hostile_payloads_are_undecodable(payload: bytes, encoding: str, reason: str) -> None:
    fields = PayloadFields(payload, Encoding(encoding))
    assert fields.field(("value",)) is None
    assert fields.failure is not None
    assert reason in fields.failure


def test_cbor_names_that_are_numbers() -> None:
    payload = bytes.fromhex("a3 01 6161 6162 02 8103 04")
    assert value_of(payload, Encoding("application/cbor")) == {1: "a", "b": 2}
    assert value(payload, "application/cbor", "value", 1) == "a"


# --- layouts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "offset", "reason"),
    [
        ("", 0, "found the end"),
        ("i9", 0, "found 'i9'"),
        ("{}", 1, "a name"),
        ("{a i8}", 3, "expected ':'"),
        ("{a: i8, a: i8}", 8, "'a' is there already"),
        ("{a: i8", 6, "expected '}'"),
        ("[i8; 0]", 6, "1 to 1048576 items"),
        ("[i8; x]", 5, "an integer"),
        ("[i8", 3, "expected ']'"),
        ("()", 1, "found"),
        ("map(i8)", 0, "two types"),
        ("enum {A, A}", 9, "already"),
        ("enum {A = x}", 10, "an integer"),
        ("i8 i8", 3, "expected the end"),
        ("appendable i8", 11, "expected '{'"),
    ],
)
def test_layouts_that_are_none(text: str, offset: int, reason: str) -> None:
    with pytest.raises(PredicateError, match=reason) as caught:
        parse_layout(text)
    assert caught.value.offset == offset


def test_layouts_are_bounded() -> None:
    for start, end in (("[", "]"), ("(", ")"), ("{a: ", "}"), ("map(i8, ", ")")):
        parse_layout(start * 31 + "i8" + end * 31)
        with pytest.raises(LimitError, match="predicate_depth allows 32, got 33"):
            parse_layout(start * 32 + "i8" + end * 32)
    parse_layout("{" + "m" * 65_530 + ":i8}")
    with pytest.raises(LimitError, match="layout_len allows 65536, got 65537"):
        parse_layout("{" + "m" * 65_531 + ": i8}")


CDR_CASES = [
    ("{a: u8, b: u16}", "00010000 01 00 0200", {"a": 1, "b": 2}),
    ("{a: u8, b: i64}", "00000000 01 00000000000000 fffffffffffffffe", {"a": 1, "b": -2}),
    ("{a: u8, b: i64}", "00060000 01 000000 fffffffffffffffe", {"a": 1, "b": -2}),
    ("{a: f32, c: char}", "00010000 0000c03f 41", {"a": 1.5, "c": "A"}),
    ("{a: u128}", "00010000 ff" + "00" * 15, {"a": 255}),
    ("{a: i128}", "00000000" + "ff" * 16, {"a": -1}),
    ("{a: bytes, b: bool}", "00010000 02000000 0102 01", {"a": b"\1\2", "b": True}),
    ("[u16; 2]", "00010000 0100 0200", [1, 2]),
    ("[u16]", "00010000 02000000 0100 0200", [1, 2]),
    ("[u16]", "00070000 02000000 0100 0200", [1, 2]),
    ("[(u8, u8)]", "00070000 06000000 01000000 0102", [[1, 2]]),
    ("map(string, u8)", "00010000 01000000 02000000 6100 05", {"a": 5}),
    (
        "enum {OFF, ON = 5, MORE}",
        "00010000 06000000",
        Enumerator(6, {"OFF": 0, "ON": 5, "MORE": 6}),
    ),
    ("appendable {a: u8, b: u8}", "00090000 02000000 01 02", {"a": 1, "b": 2}),
    ("appendable {a: u8, b: u8}", "00090000 01000000 01", {"a": 1}),  # written by an older type
    ("(appendable {a: u8}, u8)", "00090000 03000000 01 ff ff 07", [{"a": 1}, 7]),  # by a newer
]


@pytest.mark.parametrize(("layout", "payload", "found"), CDR_CASES)
def test_cdr(layout: str, payload: str, found: object) -> None:
    octets = bytes.fromhex(payload)
    assert read_cdr(parse_layout(layout), octets) == found
    for length in range(len(octets)):
        try:
            read_cdr(parse_layout(layout), octets[:length])
        except ValueError:
            continue
        raise AssertionError(f"{length} octets of {len(octets)} were enough")


# Written by Eclipse Cyclone DDS 11.0.1 (`IdlStruct.serialize`).
FINAL = (
    "{luminosity: i32, on: bool, room: string, loc: {lat: f64, lon: f64}, tags: [string], state:"
    " enum {OFF, ON}, grid: [u16; 3], c: char, raw: bytes, locs: [{lat: f64, lon: f64}], states:"
    " [enum {OFF, ON}], big: i64, f: f32}"
)
STATES = {"OFF": 0, "ON": 1}
FINAL_VALUE = {
    "luminosity": 40,
    "on": True,
    "room": "music",
    "loc": {"lat": 48.0, "lon": 2.0},
    "tags": ["a", "b"],
    "state": Enumerator(1, STATES),
    "grid": [1, 2, 3],
    "c": "x",
    "raw": b"\1\2\3",
    "locs": [{"lat": 1.0, "lon": 2.0}],
    "states": [Enumerator(0, STATES), Enumerator(1, STATES)],
    "big": -5,
    "f": 1.5,
}
APPENDABLE = (
    "appendable {luminosity: i32, on: bool, room: string, loc: appendable {lat: f64, lon: f64},"
    " locs: [appendable {lat: f64, lon: f64}], texts: [string; 2], end: u8}"
)
APPENDABLE_VALUE = {
    "luminosity": 40,
    "on": True,
    "room": "music",
    "loc": {"lat": 48.0, "lon": 2.0},
    "locs": [{"lat": 1.0, "lon": 2.0}],
    "texts": ["a", "bc"],
    "end": 7,
}


@pytest.mark.parametrize(
    ("layout", "payload", "found"),
    [
        pytest.param(
            FINAL,
            "000100002800000001000000060000006d75736963000000000000000000000000004840000000000000"
            "004002000000020000006100000002000000620000000100000001000200030078000300000001020300"
            "0100000000000000000000000000f03f000000000000004002000000000000000100000000000000fbff"
            "ffffffffffff0000c03f",
            FINAL_VALUE,
            id="CDR 1",
        ),
        pytest.param(
            FINAL,
            "000000000000002801000000000000066d75736963000000000000004048000000000000400000000000"
            "000000000002000000026100000000000002620000000000000100010002000378000000000301020300"
            "00000001000000003ff0000000000000400000000000000000000002000000000000000100000000ffff"
            "fffffffffffb3fc00000",
            FINAL_VALUE,
            id="CDR 1, big endian",
        ),
        pytest.param(
            FINAL,
            "000700002800000001000000060000006d75736963000000000000000000484000000000000000401200"
            "000002000000020000006100000002000000620000000100000001000200030078000300000001020300"
            "1400000001000000000000000000f03f00000000000000400c000000020000000000000001000000fbff"
            "ffffffffffff0000c03f",
            FINAL_VALUE,
            id="CDR 2",
        ),
        pytest.param(
            APPENDABLE,
            "000100002800000001000000060000006d75736963000000000000000000000000004840000000000000"
            "00400100000000000000000000000000f03f000000000000004002000000610000000300000062630007",
            APPENDABLE_VALUE,
            id="CDR 1 of an appendable type",
        ),
        pytest.param(
            APPENDABLE,
            "00090000580000002800000001000000060000006d757369630000001000000000000000000048400000"
            "000000000040180000000100000010000000000000000000f03f00000000000000400f00000002000000"
            "610000000300000062630007",
            APPENDABLE_VALUE,
            id="delimited CDR 2",
        ),
    ],
)
def test_what_cyclone_dds_wrote(layout: str, payload: str, found: object) -> None:
    assert read_cdr(parse_layout(layout), bytes.fromhex(payload)) == found


@pytest.mark.parametrize(
    ("layout", "payload", "reason"),
    [
        ("u8", "0004000001", "encapsulation 0x0004 is not read"),
        ("[u8]", "00010000 ffffffff 00", "are told of"),
        ("string", "00010000 01000000 61", "NUL"),
        ("string", "00010000 00000000", "NUL"),
        ("bool", "00010000 02", "a bool is 0 or 1"),
        ("map(f32, u8)", "00010000 01000000 00000000 01", "neither text nor integer"),
        ("appendable {a: u16}", "00090000 01000000 0100", "past the end"),
    ],
)
def test_cdr_that_is_none(layout: str, payload: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_cdr(parse_layout(layout), bytes.fromhex(payload))


@pytest.mark.parametrize(
    ("layout", "written", "path", "found"),
    [
        ("{temp: f64, room: string}", (21.5, "music"), ("room",), "music"),
        ("(f64, string)", (21.5, "music"), ("value", 0), 21.5),
        ("map(string, [i32])", {"a": [1, 2]}, ("a", 1), 2),
        ("[bool]", [True, False], ("value", 1), False),
        ("bytes", b"abc", ("value",), b"abc"),
        ("string", "x" * 300, ("value",), "x" * 300),
    ],
)
def test_the_serialization_format(
    layout: str, written: object, path: tuple[str | int, ...], found: object
) -> None:
    payload = z_serialize(written).to_bytes()
    assert value(payload, "zenoh/serialized", *path, layout=layout) == found
    assert value(payload, "zenoh/serialized", *path) is None  # nothing says what it is


@pytest.mark.parametrize("payload", ["80" * 10, "ff" * 9 + "01", "05"])
def test_lengths_are_believed_as_far_as_there_are_octets(payload: str) -> None:
    with pytest.raises(ValueError, match=r"64 bits|are told of"):
        read_serialized(parse_layout("string"), bytes.fromhex(payload))
    with pytest.raises(ValueError, match="no enumerations"):
        read_serialized(parse_layout("enum {A}"), b"\0")


# --- checks ---------------------------------------------------------------------------------------

TYPE = (
    "{n: i8, x: f32, b: bool, s: string, c: char, e: enum {OFF, ON}, l: [i8], a: [i8; 2], t: (i8,"
    " string), m: map(string, i8), p: {lat: f64, lon: f64}, o: bytes}"
)


@pytest.mark.parametrize(
    "text",
    [
        "n = 1 AND x > 1 AND n < x AND s = c AND b = 1 AND b = n",
        "e = 'ON' AND e > 0 AND e = e",
        "l[7] = 1 AND a[1] = 1 AND t[1] = 'a' AND m.anything = 1 AND p.lat > 1",
        "value.n = 1 AND key LIKE 'a' AND property.vendor = 1",
        "length(s) > 1 AND inRange(p, '1,2', 3) AND exists(l) AND abs(n) = 1",
    ],
)
def test_nothing_to_remark(text: str) -> None:
    assert check(parse(text), parse_layout(TYPE)) == []


@pytest.mark.parametrize(
    ("text", "part", "reason"),
    [
        ("n = 1 OR s > 3", "s > 3", "text does not compare with integer"),
        ("x = b", "x = b", "float does not compare with boolean"),
        ("n LIKE 'a'", "n LIKE 'a'", "LIKE compares texts, not integer"),
        ("e LIKE 'O%'", "e LIKE 'O%'", "LIKE compares texts, not enumeration"),
        ("p = 1", "p = 1", "a structure compares with nothing"),
        ("NOT l = missing", "l = l", "a list compares with nothing"),
        ("o = 'a'", "o = 'a'", "a bytes compares with nothing"),
        ("e = 'PINK'", "e = 'PINK'", "'PINK' is none of OFF, ON"),
        ("n BETWEEN 'a' AND 3", "n BETWEEN 'a' AND 3", "integer does not compare with text"),
        ("length(s) = 'a'", "length(s) = 'a'", "integer does not compare with text"),
    ],
)
def test_remarks(text: str, part: str, reason: str) -> None:
    text = text.replace("missing", "l")
    assert check(parse(text), parse_layout(TYPE)) == [Remark(part, reason)]


@pytest.mark.parametrize(
    ("layout", "text", "offset"),
    [
        (TYPE, "n = 1 AND z = 1", 10),
        (TYPE, "p.alt = 1", 0),
        (TYPE, "a[2] = 1", 0),
        (TYPE, "t[2] = 1", 0),
        (TYPE, "n[0] = 1", 0),
        ("f32", "temp = 1", 0),
    ],
)
def test_a_field_that_the_type_does_not_have(layout: str, text: str, offset: int) -> None:
    with pytest.raises(PredicateError, match="the type has no") as caught:
        check(parse(text), parse_layout(layout), text=text)
    assert caught.value.offset == offset
    assert caught.value.text == text


def test_kinds() -> None:
    layout: Layout = parse_layout(TYPE)
    names = ("n", "x", "b", "s", "e", "l", "t", "m", "o")
    assert [kind(Field((name,)), layout) for name in names] == [
        *(Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN, Kind.TEXT, Kind.ENUMERATION),
        *(Kind.LIST, Kind.LIST, Kind.STRUCTURE, Kind.BYTES),
    ]
    assert below(layout, ("l", "x")) is None
    assert check(parse("a > 'x' AND 1 = 'x'")) == [
        Remark("1 = 'x'", "integer does not compare with text")
    ]
