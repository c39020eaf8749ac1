"""Type objects to layouts: the layout of a type reads what the DDS binding serialised."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dds.idl_types import TYPES, Mode, Place, Reading

from elea.dds.idl import idl_of
from elea.dds.port import Tier, TopicType
from elea.dds.representation import Extensibility
from elea.dds.schema import Schema, schema_key
from elea.dds.xtypes import (
    BITMASK,
    SEQUENCE,
    STRUCT,
    UNION,
    Member,
    NoLayoutError,
    TypeId,
    TypeObject,
    TypeSet,
)
from elea.decode.layout import layout_text, parse_layout
from elea.decode.layout_reader import read_cdr
from elea.decode.layout_writer import write_cdr
from elea.decode.values import Enumerator
from elea.errors import EleaError, LimitError
from elea.limits import DEFAULT_LIMITS

line = pytest.mark.line
reading: Any = Reading

VALUES: dict[str, tuple[Any, dict[str, object]]] = {
    "Chatter": (TYPES["Chatter"](1, "hi"), {"number": 1, "text": "hi"}),
    "Keyed": (TYPES["Keyed"](7, 9), {"id": 7, "value": 9}),
    "MutableKeyed": (TYPES["MutableKeyed"](7, 9), {"id": 7, "value": 9}),
    "NestedKeyed": (
        TYPES["NestedKeyed"](Place(1, "r"), 5),
        {"place": {"floor": 1, "room": "r"}, "value": 5},
    ),
    "Robot": (
        TYPES["Robot"](
            *("r1", Mode.FAULT, [1.0, 2.0, 3.0], [0.5], [Place(1, "x")], "n", reading(whole=4))
        ),
        {
            "name": "r1",
            "mode": "FAULT",
            "pose": [1.0, 2.0, 3.0],
            "cells": [0.5],
            "places": [{"floor": 1, "room": "x"}],
            "note": "n",
            "reading": {"whole": 4, "exact": None, "other": None},
        },
    ),
    "Tagged": (TYPES["Tagged"]("n", 3, 8), {"name": "n", "count": 3, "note": 8}),
}


def mapping_of(name: str) -> bytes:
    made = TYPES[name]
    made.__idl__.populate()
    made.__idl__.fill_type_data()
    octets: bytes = made.__idl__._xt_bytedata[1]
    return bytes(octets)


def types_of(name: str) -> TypeSet:
    found = TypeSet.read(b"", mapping_of(name))
    found.root = next(
        hash_
        for hash_, one in found.objects.items()
        if one.name.replace(".", "::") == f"demo::{name}"
    )
    return found


def plain(value: object) -> object:
    if isinstance(value, Enumerator):
        return next(name for name, number in value.members.items() if number == value.number)
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    return [plain(one) for one in value] if isinstance(value, list) else value


@line("D-872", "D-873", "D-879", "D-935")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("name", sorted(VALUES))
def test_layouts_read_and_write_what_dds_serialised(name: str, version: int) -> None:
    layout = types_of(name).layout()
    assert parse_layout(layout_text(layout)) == layout
    sample, expected = VALUES[name]
    value = read_cdr(layout, sample.serialize(use_version_2=version == 2))
    assert plain(value) == expected
    written = write_cdr(layout, value, version)
    assert plain(read_cdr(layout, written)) == expected
    again = TYPES[name].deserialize(written)
    assert again == sample


@line("D-872")
def test_what_a_type_says_of_itself() -> None:
    robot = types_of("Robot")
    assert isinstance(robot.top, TypeObject)
    assert robot.top.extensibility is Extensibility.APPENDABLE
    assert robot.key_paths() == (("name",),)
    assert types_of("NestedKeyed").key_paths() == (("place", "floor"), ("place", "room"))
    assert types_of("MutableKeyed").top.extensibility is Extensibility.MUTABLE  # type: ignore[union-attr]
    assert types_of("Chatter").key_paths() == ()


@line("D-269", "D-815", "D-831")
def test_type_objects_are_bounded() -> None:
    mapping = mapping_of("Robot")
    with pytest.raises(LimitError, match="dds_type_len"):
        TypeSet.read(b"", mapping, replace(DEFAULT_LIMITS, dds_type_len=10))
    with pytest.raises(LimitError, match="dds_type_members_count"):
        TypeSet.read(b"", mapping, replace(DEFAULT_LIMITS, dds_type_members_count=5))
    with pytest.raises(NoLayoutError):
        TypeSet(b"x").layout()


@line("D-815")
def test_any_bytes_are_a_type_mapping_or_an_error() -> None:
    mapping = mapping_of("Robot")
    chosen = random.Random(3)
    for _ in range(2_000):
        broken = bytearray(mapping[: chosen.randrange(len(mapping) + 1)])
        for _ in range(chosen.randrange(4)):
            if broken:
                broken[chosen.randrange(len(broken))] = chosen.randrange(256)
        try:
            found = TypeSet.read(b"", bytes(broken))
            for hash_ in found.objects:
                found.root = hash_
                found.layout()
        except (EleaError, NoLayoutError):
            continue


@line("D-815", "D-873")
@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_an_error(payload: bytes) -> None:
    for name in ("Robot", "Tagged", "MutableKeyed"):
        layout = types_of(name).layout()
        for header in (b"\0\1\0\0", b"\0\3\0\0", b"\0\x09\0\0", b"\0\x0b\0\0"):
            try:
                read_cdr(layout, header + payload)
            except (ValueError, UnicodeDecodeError):
                continue


@line("D-502", "D-871", "D-874")
def test_schemas_tell_keys_and_instances() -> None:
    types = types_of("NestedKeyed")
    type_ = TopicType(
        "demo::NestedKeyed", Tier.EXACT, True, types.root, b"", mapping_of("NestedKeyed")
    )
    schema = Schema.of(type_, "demo::NestedKeyed")
    sample, _ = VALUES["NestedKeyed"]
    assert schema.instance_text(sample.serialize(use_version_2=True), is_key=False) == "1,r"
    assert schema.key == schema_key("demo::NestedKeyed", types.root.hex())
    assert "struct NestedKeyed" in schema.idl
    assert schema.instance_text(b"", is_key=False) == ""
    assert Schema.of(replace(type_, mapping=b"\xff" * 9), "x").layout is None


@line("D-873")
@pytest.mark.parametrize(
    "text",
    [
        "{a: i32?, b: [string?]}",
        "mutable {a@1: u8, b@70000: string}",
        "union (i32) {1, -2: a: i8, default: b: string}",
        "appendable union (enum8 {X = 0, Y = -1}) {0: a: wstring}",
        "{e: enum16 {A = 0, B = 300}}",
    ],
)
def test_new_forms_of_layouts(text: str) -> None:
    layout = parse_layout(text)
    assert layout_text(layout) == text


@line("D-873", "D-879")
@pytest.mark.parametrize("version", [1, 2])
def test_new_forms_round_trip(version: int) -> None:
    layout = parse_layout(
        "{a: u8?, b: f64?, m: mutable {x@1: u8, y@20000: f64, z@3: string?}, w: wstring,"
        " u: union (bool) {1: yes: i64, 0: no: string}, e: enum8 {A, B}, t: (i8, i16),"
        " k: map(string, [f32; 2]), c: char, o: bytes}"
    )
    value = {
        "a": None,
        "b": 2.5,
        "m": {"x": 1, "y": 0.25, "z": None},
        "w": "wörld",
        "u": {"yes": None, "no": "nö"},
        "e": "B",
        "t": [1, -2],
        "k": {"p": [1.0, 2.0]},
        "c": "c",
        "o": b"123",
    }
    written = write_cdr(layout, value, version)
    assert plain(read_cdr(layout, written)) == value
    for end in range(4, len(written) - 3):
        with pytest.raises(ValueError):  # noqa: PT011  # of many kinds
            read_cdr(layout, written[:end])


@line("D-879")
@pytest.mark.parametrize(
    ("layout", "value"),
    [
        ("{a: u8}", {"a": 300}),
        ("{a: u8}", {"a": "x"}),
        ("{a: string}", {"a": 5}),
        ("{a: [i8; 2]}", {"a": [1]}),
        ("{a: enum {X}}", {"a": "Y"}),
        ("{a: bool}", {"a": 1}),
        ("union (i32) {1: a: i8, 2: b: i8}", {"a": 1, "b": 2}),
        ("union (i32) {1: a: i8}", {"z": 1}),
        ("{a: char}", {"a": "ab"}),
        ("{a: bytes}", {"a": "x"}),
        ("{a: map(string, i8)}", {"a": []}),
        ("{a: {b: i8}}", {"a": 1}),
    ],
)
def test_values_that_do_not_fit_are_refused(layout: str, value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # the text differs
        write_cdr(parse_layout(layout), value)


@line("D-786", "D-871")
def test_idl_has_the_types_of_idl_and_defines_what_it_uses() -> None:
    types = types_of("Robot")
    text = idl_of(types, "demo::Robot")
    assert "f64" not in text
    for part in (
        "  enum Mode {\n    @value(0) OFF,\n    @value(1) ON,\n    @value(7) FAULT\n  };\n",
        "  union Reading switch (int32) {\n    case 1: int32 whole;\n"
        "    case 2: case 3: double exact;\n    default: string other;\n  };\n",
        "    @key string name;\n    demo::Mode mode;\n    double pose[3];\n"
        "    sequence<float> cells;\n    sequence<demo::Place> places;\n"
        "    @optional string note;\n    demo::Reading reading;\n",
    ):
        assert part in text
    assert text.index("struct Place") < text.index("struct Robot")
    assert "@id(7) int32 value;" in idl_of(types_of("MutableKeyed"), "demo::MutableKeyed")
    assert idl_of(types, "no name") == ""


def _hash(number: int) -> bytes:
    return bytes([number]) * 14


def _of(number: int) -> TypeId:
    return TypeId(0xF2, _hash(number))


def _struct(*types: TypeId, base: TypeId | None = None, flags: int = 0) -> TypeObject:
    members = [Member(f"m{at}", at, flags, one) for at, one in enumerate(types)]
    return TypeObject(STRUCT, 1, "T", base, tuple(members))


_INT: Final = TypeId(0x04)
_KEY: Final = 0x20
LIES: Final[dict[str, dict[int, TypeObject]]] = {
    "28 levels of two": {
        **{at: _struct(_of(at + 1), _of(at + 1), flags=_KEY) for at in range(28)},
        28: _struct(_INT),
    },
    "itself, twice": {0: _struct(_of(0), _of(0), flags=_KEY)},
    "a base of its base": {0: _struct(_INT, base=_of(1)), 1: _struct(_INT, base=_of(0))},
    "a sequence of itself": {
        0: _struct(_of(1)),
        1: TypeObject(SEQUENCE, element=_of(1), bounds=(0,)),
    },
    "a bitmask of 4000 bits": {0: _struct(_of(1)), 1: TypeObject(BITMASK, bit_bound=4_000)},
    "one name twice": {
        0: TypeObject(STRUCT, 1, "T", None, (Member("x", 0, 0, _INT), Member("x", 1, 0, _INT)))
    },
}


@line("D-269", "D-815")
@pytest.mark.parametrize("lie", LIES)
def test_a_type_that_unfolds_without_end_held_up_the_bridge(lie: str) -> None:
    types = TypeSet(_hash(0), {_hash(at): one for at, one in LIES[lie].items()})
    with suppress(LimitError, NoLayoutError):
        assert len(types.key_paths()) <= 4_096
    assert isinstance(idl_of(types, "a::T"), str)
    with pytest.raises((LimitError, NoLayoutError)):
        types.layout()


@line("D-815")
def test_a_label_that_is_no_character_had_no_idl() -> None:
    union = TypeObject(UNION, 1, "U", None, (Member("a", 0, 0, _INT, (-5,)),), TypeId(0x10))
    types = TypeSet(_hash(0), {_hash(0): _struct(_of(1)), _hash(1): union})
    assert idl_of(types, "a::T") == ""
