"""The registry of encodings: one row per format, the same for all who look into payloads."""

from __future__ import annotations

import pytest

from elea.decode.formats import DECODERS, FORMATS, format_named, format_of, is_text, value_of
from elea.decode.layout import parse_layout
from elea.decode.paths import follow
from elea.encoding import NAMES, Encoding
from elea.operate.payload_text import payload_lines
from elea.predicate import PayloadFields
from elea.series import numbers
from elea.zbytes import ZBytes


def test_names_encodings_and_suffixes_belong_to_one_format() -> None:
    for all_of in (
        [one.name for one in FORMATS],
        [name for one in FORMATS for name in (*one.encodings, *one.undeclared)],
        [one.suffix for one in FORMATS if one.suffix],
        [one.message_encoding for one in FORMATS if one.message_encoding],
    ):
        assert len(set(all_of)) == len(all_of)
    assert list(DECODERS) == [one.name for one in FORMATS]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("application/json", "json"),
        ("text/json", "json"),
        ("application/json-patch+json", "json"),
        ("application/geo+json", "json"),
        ("application/senml+cbor", "cbor"),
        ("text/plain", "text"),
        ("application/cdr", "cdr"),
        ("zenoh/bytes", None),
        ("application/octet-stream", None),
        ("application/python-serialized-object", None),
        ("application/java-serialized-object", None),
        ("image/png", None),
    ],
)
def test_an_encoding_has_its_format(name: str, expected: str | None) -> None:
    found = format_named(name)
    assert (None if found is None else found.name) == expected
    assert format_of(Encoding(name)) is format_of(Encoding(f"{name};some")) is found


def test_every_predefined_encoding_is_found_by_number_as_by_name() -> None:
    assert all(format_of(Encoding(name)) is format_named(name) for name in NAMES)


def test_a_layout_says_what_payloads_hold_that_say_nothing() -> None:
    layout = parse_layout("{a: u8}")
    payload = bytes.fromhex("0001000007")
    for name in ("application/cdr", "zenoh/bytes", "application/octet-stream"):
        assert value_of(payload, Encoding(name), layout) == {"a": 7}
        assert value_of(payload, Encoding(name)) is None
    assert value_of(b'{"a": 8}', Encoding("application/json"), layout) == {"a": 8}
    assert value_of(b"", Encoding("application/protobuf"), layout) is None


@pytest.mark.parametrize(
    ("payload", "reason"),
    [(b"NaN", "NaN is no"), (b"[Infinity]", "no JSON"), (b"\xff", "utf-8"), (b"{", "Expecting")],
)
def test_what_is_no_json_is_refused(payload: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        value_of(payload, Encoding("application/json"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("text/csv", True),
        ("application/json", True),
        ("application/geo+json", True),
        ("application/soap+xml", True),
        ("zenoh/string", True),
        ("application/yaml", True),
        ("application/cbor", False),
        ("zenoh/bytes", False),
    ],
)
def test_texts_are_known_by_their_encoding(name: str, expected: bool) -> None:
    assert is_text(name) is expected


def test_what_json_cannot_write_is_not_shown_as_json() -> None:
    json = DECODERS["json"]
    assert json.text_of(b'{"a":1}', Encoding("text/json")) == '{\n  "a": 1\n}'
    for payload, reason in ((b"1e999", "beyond"), (b"[" * 40 + b"]" * 40, "deeper")):
        with pytest.raises(ValueError, match=reason):
            json.json_of(payload, Encoding("text/json"))


def test_a_truth_value_that_names_a_pair_was_found_at_position_1() -> None:
    """To Python, True and 1 are one name of a dict."""
    payload = bytes.fromhex("a2f50502f4")  # {true: 5, 2: false}
    value = value_of(payload, Encoding("application/cbor"))
    assert follow(value, (1,)) is None
    assert follow(value, (2,)) is False


CDR = bytes.fromhex("0001000007")


def test_a_layout_in_the_encoding_was_for_tables_alone() -> None:
    """Predicates, plots and the page took such payloads for bytes."""
    encoding = Encoding("application/cdr;{a: u8}")
    fields = PayloadFields(CDR, encoding)
    assert (fields.field(("a",)), fields.failure) == (7, None)
    assert numbers(CDR, encoding) == {"a": 7}
    assert payload_lines(ZBytes(CDR), encoding) == (str(encoding), ["{", '  "a": 7', "}"])
    shouted = Encoding("Application/CDR;{a: u8}")  # people are shown it all the same
    assert payload_lines(ZBytes(CDR), shouted)[1] == ["{", '  "a": 7', "}"]
    assert value_of(CDR, encoding, parse_layout("{b: u8}")) == {"b": 7}  # the one that is given
    assert value_of(b"\x07", Encoding("zenoh/serialized;(u8)")) == [7]


@pytest.mark.parametrize("schema", ["{a: u9}", "{a: u8", "[" * 60])
def test_what_is_no_layout_is_a_reason_and_no_error_for_others(schema: str) -> None:
    encoding = Encoding(f"application/cdr;{schema}")
    fields = PayloadFields(CDR, encoding)
    assert fields.field(("a",)) is None
    assert "the layout in the encoding" in str(fields.failure)
    assert numbers(CDR, encoding) == {}
    assert payload_lines(ZBytes(CDR), encoding)[0].endswith("5 octets")


def test_the_name_of_a_type_is_no_layout() -> None:
    assert value_of(CDR, Encoding("application/cdr;sensor_msgs/msg/Imu")) is None
