"""The worked predicates of xrce.md 3.4 and the lines of its checklist that are about predicates."""

from __future__ import annotations

import json
import struct

import pytest

from elea.encoding import Encoding
from elea.errors import LimitError, PredicateError, UnsupportedPredicateError
from elea.ext import z_serialize
from elea.predicate import PayloadFields, compile_predicate, parse, parse_layout
from elea.session.serialize import Int32

SAMPLE = {
    "luminosity": 40,
    "on": True,
    "room": "music",
    "loc": {"lat": 48.0, "lon": 2.0},
    "tags": ["a", "b"],
}
LAYOUT = parse_layout(
    "{luminosity: i32, on: bool, room: string, loc: {lat: f64, lon: f64}, tags: [string]}"
)
WORKED = [
    ("luminosity>0", True),
    ("luminosity > 40", False),
    ("luminosity BETWEEN 0 AND 40", True),
    ("luminosity NOT BETWEEN 10 AND 50", False),
    ("room = 'music'", True),
    ("room LIKE 'mu%'", True),
    ("room LIKE '_usic' AND NOT on = FALSE", True),
    ("NOT (room = 'bed' OR luminosity < 5)", True),
    ("loc.lat >= 48 AND loc.lon < 3", True),
    ("tags[1] = 'b'", True),
    ("missing > 1", None),
    ("missing > 1 OR on = TRUE", True),
    ("NOT missing > 1", None),
    ("room > 3", None),
    ("inRange(loc, '48.0,2.01', 800)", True),
    ("inRange(loc, '48.0,2.01', 743)", False),  # 744.0 m
    ("0x28 = luminosity", True),
]


def cdr_text(text: str, order: str, at: int) -> bytes:
    octets = text.encode() + b"\0"
    return b"\0" * (-at % 4) + struct.pack(order + "I", len(octets)) + octets


def cdr_sample(order: str, header: str, *, align: int, delimited: bool) -> bytes:
    """The sample in CDR, written down by hand."""
    body = struct.pack(order + "i?", 40, True)
    body += cdr_text("music", order, len(body))
    body += b"\0" * (-len(body) % align) + struct.pack(order + "dd", 48.0, 2.0)
    tags = struct.pack(order + "I", 2)
    for tag in "ab":
        tags += cdr_text(tag, order, len(tags))
    body += b"\0" * (-len(body) % 4)
    if delimited:
        body += struct.pack(order + "I", len(tags))
    return bytes.fromhex(header) + body + tags


ENCODED = {
    "json": PayloadFields(json.dumps(SAMPLE).encode(), Encoding("application/json")),
    "text json": PayloadFields(json.dumps(SAMPLE).encode(), Encoding("text/json;v1")),
    "cbor": PayloadFields(
        bytes.fromhex(
            "a56a6c756d696e6f736974791828626f6ef564726f6f6d656d75736963636c6f63a2636c6174f95200"
            "636c6f6ef94000647461677382616161 62"
        ),
        Encoding("application/cbor"),
    ),
    "cdr 1, little endian": PayloadFields(
        cdr_sample("<", "00010000", align=8, delimited=False),
        Encoding("application/cdr;Light"),
        layout=LAYOUT,
    ),
    "cdr 1, big endian": PayloadFields(
        cdr_sample(">", "00000000", align=8, delimited=False),
        Encoding("zenoh/bytes"),
        layout=LAYOUT,
    ),
    "cdr 2, little endian": PayloadFields(
        cdr_sample("<", "00070000", align=4, delimited=True),
        Encoding("application/cdr"),
        layout=LAYOUT,
    ),
    "cdr 2, big endian, as XTypes numbers it": PayloadFields(
        cdr_sample(">", "00100000", align=4, delimited=True),
        Encoding("application/cdr"),
        layout=LAYOUT,
    ),
    "serialized": PayloadFields(
        z_serialize((Int32(40), True, "music", (48.0, 2.0), ["a", "b"])).to_bytes(),
        Encoding("zenoh/serialized"),
        layout=LAYOUT,
    ),
}


@pytest.mark.parametrize("fields", ENCODED.values(), ids=list(ENCODED))
@pytest.mark.parametrize(("text", "verdict"), WORKED)
def test_x_079_worked_predicates(text: str, verdict: bool | None, fields: PayloadFields) -> None:
    assert compile_predicate(parse(text))(fields) is verdict
    assert fields.failure is None


def test_x_080_only_true_selects() -> None:
    test = compile_predicate(parse("v > 3"))
    payloads = [b'{"v": 4}', b'{"v": 3}', b'{"v": null}', b'{"w": 4}', b'{"v": "4"}', b"{", b"4"]
    json_ = Encoding("application/json")
    assert [p for p in payloads if test(PayloadFields(p, json_))] == [b'{"v": 4}']


@pytest.mark.parametrize(
    ("text", "offset", "reason"),
    [
        ("luminosity >", 12, "expected a field, a number"),
        ("luminosity", 10, "expected a comparison"),
        ("> 3", 0, r"expected NOT, '\(' or a field"),
        ("a = 1 AND", 9, "found the end"),
        ("a = 1 b = 2", 6, "expected AND, OR or the end, found 'b'"),
        ("(a = 1", 6, r"expected AND, OR or '\)', found the end"),
        ("a = 1)", 5, r"found '\)'"),
        ("a BETWEEN 1 OR 2", 12, "expected AND and the upper end"),
        ("a NOT = 1", 6, "expected BETWEEN after NOT"),
        ("a = 'x", 4, "a text without its closing '"),
        ("a = 'x''", 4, "a text without its closing '"),
        ('"a = 1', 0, 'a name without its closing "'),
        ("a = = 1", 4, "found '='"),
        ("a == 1", 3, "found '='"),
        ("a[x] = 1", 2, "a position from 0 on"),
        ("a[-1] = 1", 2, "a position from 0 on"),
        ("a[1 = 1", 4, "expected '\\]'"),
        ("a. = 1", 3, "the name of a member"),
        ("a.5 = 1", 2, "the name of a member"),
        ("like = 1", 0, "found 'like'"),
        ("a = b.c.", 8, "the name of a member"),
        ("a = %", 4, "found '%'"),
        ("a = 1e999", 4, "larger than any float"),
        ("length(a)", 0, "no truth value"),
        ("length() = 1", 0, "takes 1 arguments, got 0"),
        ("inRange(a, b)", 0, "takes 3 arguments, got 2"),
        ("length(a b) = 1", 9, r"expected ',' or '\)'"),
        ("a = 1;", 5, "found ';'"),
        ("a = 0x", 5, "found 'x'"),
        ("NOT", 3, "found the end"),
        ("()", 1, r"found '\)'"),
    ],
)
def test_x_081_syntax_errors_say_where_and_what_was_legal(
    text: str, offset: int, reason: str
) -> None:
    with pytest.raises(PredicateError, match=reason) as caught:
        parse(text)
    assert caught.value.offset == offset
    assert caught.value.text == text
    assert not isinstance(caught.value, UnsupportedPredicateError)


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("foo(1)", 0),
        ("a = 1 AND INRANGE(a, b, 3)", 10),
        ("SELECT * FROM t WHERE a = 1", 0),
        ("select a from t", 0),
        ("a = 1 ORDER BY a", 6),
        ("js: a > 1", 0),
        (" py:a>1", 0),
    ],
)
def test_x_081_what_is_not_here_is_said_so(text: str, offset: int) -> None:
    with pytest.raises(UnsupportedPredicateError) as caught:
        parse(text)
    assert caught.value.offset == offset


@pytest.mark.parametrize("text", ["select = 1", "order > 1 AND join LIKE 'a'", "where.x = 1"])
def test_x_081_fields_may_be_named_like_statements(text: str) -> None:
    assert str(parse(text)) == text


def test_x_082_parameters() -> None:
    fields = ENCODED["json"]
    values = ["40", "'music'", "TRUE", "48.0,2.01", "-1e3", "0x28"]
    text = "luminosity = %0 AND room = %1 AND on = %2 AND inRange(loc, %3, 800) AND %4 < %05"
    assert compile_predicate(parse(text, values))(fields) is True
    with pytest.raises(PredicateError, match="%6 has no value; 6 are given") as caught:
        parse("a = 1 OR b = %6", values)
    assert caught.value.offset == 13
    with pytest.raises(PredicateError, match="%0 has no value; 0 are given"):
        parse("a = %0", [])


@pytest.mark.parametrize("value", ["", "music", "'a' 'b'", "1 2", "a=1", "48.0,", "nan,1", "1_0,2"])
def test_x_082_a_parameter_is_a_literal(value: str) -> None:
    with pytest.raises(PredicateError):
        parse("a = %0", [value])


def test_x_082_parameters_stay_until_they_are_given() -> None:
    predicate = parse("a BETWEEN %0 AND %01")
    assert str(predicate) == "a BETWEEN %0 AND %1"
    with pytest.raises(PredicateError, match="give it when parsing"):
        compile_predicate(predicate)


def test_bounds_are_said_by_name() -> None:
    with pytest.raises(LimitError, match="predicate_len allows 4096, got 4097"):
        parse("a = '" + "x" * 4091 + "'")
    parse("a = '" + "x" * 4090 + "'")
    with pytest.raises(LimitError, match="predicate_len"):
        parse("a = '" + "é" * 2_046 + "'")
    for opening, closing in (("(", ")"), ("NOT ", ""), ("NOT(", ")")):
        deep = 32 // len(opening.replace(" ", "").replace("NOT", "N"))
        parse(opening * deep + "a = 1" + closing * deep)
        with pytest.raises(LimitError, match="predicate_depth allows 32, got 33"):
            parse(opening * (deep + 1) + "a = 1" + closing * (deep + 1))
    with pytest.raises(LimitError, match="predicate_len"):
        parse("a = %0", ["1" * 5_000])


@pytest.mark.parametrize("before", ["exists(a)", "NOT a = 1", "(a = 1)", "length(lower(a)) = 1"])
def test_what_went_before_is_no_depth(before: str) -> None:
    start = f"{before} AND " * 40
    parse(start + "(" * 32 + "a = 1" + ")" * 32)
    with pytest.raises(LimitError, match="predicate_depth allows 32, got 33"):
        parse(start + "(" * 33 + "a = 1" + ")" * 33)
