"""The registry of encodings: one row per format, the same for all who look into payloads."""

from __future__ import annotations

import pytest

from elea.decode.formats import DECODERS, FORMATS, format_named, format_of, is_text, value_of
from elea.decode.layout import parse_layout
from elea.decode.paths import follow
from elea.encoding import NAMES, Encoding


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
    assert json.text_of(b'{"a":1}') == '{\n  "a": 1\n}'
    for payload, reason in ((b"1e999", "beyond"), (b"[" * 40 + b"]" * 40, "deeper")):
        with pytest.raises(ValueError, match=reason):
            json.json_of(payload)


def test_a_truth_value_that_names_a_pair_was_found_at_position_1() -> None:
    """To Python, True and 1 are one name of a dict."""
    payload = bytes.fromhex("a2f50502f4")  # {true: 5, 2: false}
    value = value_of(payload, Encoding("application/cbor"))
    assert follow(value, (1,)) is None
    assert follow(value, (2,)) is False
