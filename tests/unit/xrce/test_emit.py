"""The generator and the interpreter, on schemas other than the messages'."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from elea.errors import DecodeError, InvalidValueError, SchemaError
from elea.xrce.buffer import Reader
from elea.xrce.dsl.check import check
from elea.xrce.dsl.emit import emit
from elea.xrce.dsl.interpret import Interpreter, Note, Value

EXAMPLE = """Message = record { a: header 5 enum { x = 1, y = 2, z = 3 }, b: flag 5,
  c: case b of { true -> record { d: flag 6, e: nat } } }"""

# What the messages do not use: nested options, records with flags, lists of lists, ranges.
ODD = """
F = flag 7
pair  = record { first: byte, second: [[nat]] }
pairs = [pair]
Message = record {
  out: header 4 byte,
  reader: if flag 4 then record { in: nat, deep: if F then pairs },
  kind: enum { One = 1, Two = 2 },
  which: case kind of { One -> pairs, Two -> [byte] },
  small: nat,
  more: case small of { 0, 5 ... 9 -> nat, 2 -> nat },
  always: pairs
}
"""


@pytest.fixture
def generated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Turns a schema into its imported modules."""
    monkeypatch.syspath_prepend(str(tmp_path))
    names: list[str] = []

    def build(source: str) -> tuple[ModuleType, ModuleType]:
        package = tmp_path / "made"
        package.mkdir()
        (package / "__init__.py").touch()
        for name, text in emit(check(source), {}, package="made", source="a test").items():
            (package / name).write_text(text, encoding="utf-8")
            names.append(f"made.{name.removesuffix('.py')}")
        return importlib.import_module("made.decode"), importlib.import_module("made.encode")

    yield build
    for name in ["made", *names]:
        sys.modules.pop(name, None)


@pytest.mark.line("X-003")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("02", {"a": 2, "b": False, "c": None}),
        ("62 ac 02", {"a": 2, "b": True, "c": {"d": True, "e": 300}}),
    ],
)
def test_the_example_of_the_language_both_ways_through_both(
    text: str, value: Any, generated: Any
) -> None:
    data = bytes.fromhex(text)
    interpreter = Interpreter(check(EXAMPLE))
    assert interpreter.decode(data) == (value, len(data))
    assert interpreter.encode(value) == data
    decode, encode = generated(EXAMPLE)
    message = decode.read_message(Reader(data))
    assert message.tree() == value
    assert encode.encode(message) == data


def test_a_header_that_its_enum_does_not_know_is_malformed(generated: Any) -> None:
    decode, _ = generated(EXAMPLE)
    for read in (
        lambda: decode.read_message(Reader(b"\x04")),
        lambda: Interpreter(check(EXAMPLE)).decode(b"\x04"),
    ):
        with pytest.raises(DecodeError, match="a is 4, which is not defined") as caught:
            read()
        assert caught.value.offset == 0


@pytest.mark.parametrize(
    "value",
    [
        {"reader": None, "kind": 1, "which": [], "small": 1, "more": None},
        {
            "reader": {"in": 300, "deep": [{"first": 1, "second": [[1, 2], []]}]},
            "kind": 2,
            "which": b"ab",
            "small": 7,
            "more": 1,
        },
        {"reader": {"in": 0, "deep": None}, "kind": 9, "which": None, "small": 2, "more": 0},
    ],
)
def test_schemas_of_every_construct_agree(value: Any, generated: Any) -> None:
    always = [{"first": 255, "second": []}]
    value = {"out": 5, **value, "always": always}
    interpreter = Interpreter(check(ODD))
    data = interpreter.encode(value)
    assert interpreter.decode(data) == (value, len(data))
    decode, encode = generated(ODD)
    message = decode.read_message(Reader(data))
    tree = message.tree()
    assert tree["kind"] == value["kind"]
    assert tree["always"] == always
    assert tree["which"] == value["which"]
    if value["reader"] is not None:
        assert tree["reader_"] == {"in_": value["reader"]["in"], "deep": value["reader"]["deep"]}
    assert encode.encode(message) == data


def test_the_interpreter_refuses_values_that_do_not_fit() -> None:
    interpreter = Interpreter(check(EXAMPLE))
    values: list[Value] = [
        {"a": 2, "b": False, "c": {"d": True, "e": 1}},
        {"a": None, "b": False, "c": None},
        {"a": 2, "b": True, "c": {"d": True, "e": 2**64}},
    ]
    for value in values:
        with pytest.raises(InvalidValueError):
            interpreter.encode(value)


def test_notes_say_what_each_octet_is() -> None:
    notes: list[Note] = []
    Interpreter(check(EXAMPLE)).decode(bytes.fromhex("62 ac 02"), notes=notes)
    assert [(one.start, one.end, one.field, one.value) for one in notes] == [
        (0, 1, "a", 2),
        (1, 3, "e", 300),
    ]
    assert notes[0].meaning.startswith("y")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("Message = nat", "Message must be a record"),
        (
            "Message = record { k: header 5 enum { a = 1, b = 2 },"
            " body: case k of { a -> X, b -> X } } X = record { n: nat }",
            "an alternative of a family has its own record",
        ),
    ],
)
def test_what_cannot_be_generated_is_said(source: str, words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        emit(check(source), {}, package="made", source="a test")
