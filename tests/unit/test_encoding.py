from __future__ import annotations

import pickle

import pytest

from elea.encoding import CUSTOM_ID, NAMES, Encoding
from elea.errors import InvalidValueError


def test_every_name_has_its_constant() -> None:
    for number, name in enumerate(NAMES):
        attribute = name.upper().replace("/", "_").replace("-", "_").replace("+", "_")
        constant = getattr(Encoding, attribute)
        assert (constant.id, constant.schema, str(constant)) == (number, None, name)
        assert Encoding(name) == constant == name
    annotated = {key for key in Encoding.__annotations__ if key.isupper()}
    assert len(annotated) == len(NAMES) == 53
    assert all(hasattr(Encoding, key) for key in annotated)


@pytest.mark.parametrize(
    ("text", "id", "schema", "shown"),
    [
        (None, 0, None, "zenoh/bytes"),
        ("", 0, None, "zenoh/bytes"),
        ("text/plain;utf-8", 4, b"utf-8", "text/plain;utf-8"),
        ("text/plain;", 4, None, "text/plain"),
        ("text/plain;a;b", 4, b"a;b", "text/plain;a;b"),
        ("my/custom;sch", CUSTOM_ID, b"my/custom;sch", "my/custom;sch"),
        ("TEXT/PLAIN", CUSTOM_ID, b"TEXT/PLAIN", "TEXT/PLAIN"),
        (";x", CUSTOM_ID, b";x", ";x"),
        ("unknown(600)", CUSTOM_ID, b"unknown(600)", "unknown(600)"),
    ],
)
def test_from_text(text: str | None, id: int, schema: bytes | None, shown: str) -> None:
    encoding = Encoding(text)
    assert (encoding.id, encoding.schema, str(encoding)) == (id, schema, shown)
    assert hash(encoding) == hash(shown)
    assert eval(repr(encoding)) == encoding


@pytest.mark.parametrize(
    ("id", "schema", "shown"),
    [
        (600, None, "unknown(600)"),
        (600, b"s", "unknown(600);s"),
        (CUSTOM_ID, None, "unknown(65535)"),
        (CUSTOM_ID, b"", ""),
        (4, b"", "text/plain;"),
        (4, b"\xff", "text/plain;\\xff"),
    ],
)
def test_what_only_the_wire_can_bring(id: int, schema: bytes | None, shown: str) -> None:
    encoding = Encoding.from_parts(id, schema)
    assert (encoding.id, encoding.schema, str(encoding)) == (id, schema, shown)


def test_schema_is_replaced() -> None:
    assert Encoding.TEXT_PLAIN.with_schema("a").with_schema("b") == "text/plain;b"
    assert Encoding("my/custom;old").with_schema("new") == "my/custom;new"
    assert Encoding("my/custom").with_schema("new") == "my/custom;new"
    assert Encoding("my/custom;old").with_schema("") == "my/custom"
    assert Encoding.TEXT_PLAIN.with_schema("").schema == b""
    assert Encoding.TEXT_PLAIN == "text/plain"


def test_schema_is_at_most_255_octets() -> None:
    Encoding.TEXT_PLAIN.with_schema("x" * 255)
    for text in ("text/plain;" + "x" * 256, "é" * 128):
        with pytest.raises(InvalidValueError, match="256 octets, at most 255"):
            Encoding(text)
    with pytest.raises(InvalidValueError, match="256 octets, at most 255"):
        Encoding.TEXT_PLAIN.with_schema("x" * 256)
    with pytest.raises(InvalidValueError, match="256 octets, at most 255"):
        Encoding.from_parts(4, bytes(256))
    assert Encoding.TEXT_PLAIN != "x" * 300


def test_ids_have_16_bits_and_text_is_unicode() -> None:
    for id in (-1, 0x10000):
        with pytest.raises(InvalidValueError, match="65535"):
            Encoding.from_parts(id)
    with pytest.raises(InvalidValueError, match="UTF-8"):
        Encoding("\ud800")


def test_equality_with_other_types() -> None:
    assert Encoding.TEXT_PLAIN != 4
    assert Encoding.TEXT_PLAIN is not None
    assert Encoding.TEXT_PLAIN.with_schema("x") != Encoding.TEXT_PLAIN


def test_pickles() -> None:
    encoding = Encoding("text/plain;utf-8")
    assert pickle.loads(pickle.dumps(encoding)) == encoding


def test_only_texts_name_an_encoding() -> None:
    for call in (Encoding, Encoding.TEXT_PLAIN.with_schema):
        with pytest.raises(TypeError, match="text, got int"):
            call(1)  # type: ignore[arg-type]  # what is refused
