"""CDR of DDS as columns: as the reader of single payloads reads it, and without one (D-880)."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from elea.decode.columns.base import Decoder
from elea.decode.columns.slices import LayoutDecoder
from elea.decode.columns.types import fit
from elea.decode.layout import (
    Enumeration,
    Layout,
    ListOf,
    MapOf,
    OptionalOf,
    Primitive,
    Structure,
    TupleOf,
    UnionOf,
    parse_layout,
)
from elea.decode.layout_reader import read_cdr
from elea.decode.layout_writer import write_cdr

line = pytest.mark.line

FIXED = [
    "{id: i32, x: f64, flag: bool, small: u8, far: i64}",
    "{mode: enum {ON, OFF}, level: enum8 {LOW, HIGH}, step: enum16 {A = 5, B = -3}, c: char}",
    "appendable {id: u8, x: f64, inner: appendable {a: i16, b: i64}, last: u8}",
    "mutable {id@0: i32, x@7: f64, inner@3: mutable {a@1: u8, b@9: i64}}",
    "{pose: [f64; 3], modes: [enum {ON, OFF}; 2], places: [{floor: i32, far: i64}; 2]}",
]
OTHERS = [
    "appendable {number: i32, text: string}",
    "{name: string, note: string?, far: f64?, after: u8}",
    "{reading: union (i32) {1, 2: whole: i32, 3: exact: f64, default: text: string}, after: i64}",
    "{reading: appendable union (enum {A, B}) {A: whole: i32, B: exact: [f64]}, after: u8}",
    "mutable {name@4: string, note@8: i64?, cells@9: [f32], deep@10: {a: i64, b: string}}",
    "appendable {places: [{floor: i32, room: string}], names: [string], modes: [enum8 {A, B}]}",
    "{name: string, mode: enum {ON, OFF, FAULT}, pose: [f64; 3], cells: [f32],"
    " places: [{floor: i32, room: string}], note: string?,"
    " reading: union (i32) {1: whole: i32, 2: exact: f64}}",
]


def drawn(layout: Layout, draw: random.Random) -> Any:
    """A value of a layout."""
    match layout:
        case Primitive(name="bool"):
            return draw.random() < 0.5
        case Primitive(name="string"):
            return "".join(draw.choices("abü", k=draw.randrange(6)))
        case Primitive(name="char"):
            return draw.choice("xy")
        case Primitive(name="f32" | "f64"):
            return float(draw.randrange(-50, 50))
        case Primitive():
            return draw.randrange(0 if layout.name[0] == "u" else -9, 100)
        case Enumeration():
            return draw.choice(list(layout.members))
        case Structure():
            return {name: drawn(member, draw) for name, member in layout.members}
        case OptionalOf():
            return None if draw.random() < 0.5 else drawn(layout.item, draw)
        case UnionOf():
            case = draw.choice(layout.cases)
            return {case.name: drawn(case.item, draw)}
        case ListOf():
            count = draw.randrange(4) if layout.count is None else layout.count
            return [drawn(layout.item, draw) for _ in range(count)]
        case TupleOf() | MapOf():
            raise AssertionError("not among the layouts")


def payloads_of(text: str, version: int, count: int) -> tuple[Layout, list[bytes]]:
    layout, draw = parse_layout(text), random.Random(text)
    return layout, [write_cdr(layout, drawn(layout, draw), version) for _ in range(count)]


def one_by_one(layout: Layout, payloads: list[bytes]) -> list[Any]:
    decoder = Decoder(layout)
    found = []
    for payload in payloads:
        try:
            [value] = pa.array([fit(read_cdr(layout, payload), layout)], decoder.type).to_pylist()
        except ValueError:
            value = "failed"
        found.append(value)
    return found


def decoded(layout: Layout, payloads: list[bytes]) -> list[Any]:
    outcome = LayoutDecoder(layout, cdr=True).decode(pa.array(payloads, pa.binary()))
    found: list[Any] = ["failed"] * len(payloads)
    for row, value in zip(outcome.rows.to_pylist(), outcome.values.to_pylist(), strict=True):
        found[row] = value
    assert {row for row, one in enumerate(found) if one == "failed"} == outcome.failed.keys()
    return found


@line("D-880", "D-873")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("text", FIXED)
def test_fixed_layouts_become_columns_without_an_object_per_sample(
    text: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, payloads = payloads_of(text, version, 200)
    expected = one_by_one(layout, payloads)
    read: list[bytes] = []
    monkeypatch.setattr(LayoutDecoder, "value", lambda _self, payload: read.append(payload))
    assert decoded(layout, payloads) == expected
    assert read == []


@line("D-880", "D-873")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("text", OTHERS)
def test_other_layouts_are_read_as_single_samples_are(
    text: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout, payloads = payloads_of(text, version, 300)
    expected = one_by_one(layout, payloads)
    count = 0
    real = LayoutDecoder.value

    def value(self: LayoutDecoder, payload: bytes) -> object:
        nonlocal count
        count += 1
        return real(self, payload)

    monkeypatch.setattr(LayoutDecoder, "value", value)
    assert decoded(layout, payloads) == expected
    if not text.startswith("mutable"):  # those of many shapes are read one by one
        assert count <= len(payloads) // 10


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("text", [*FIXED, *OTHERS])
def test_what_is_cut_or_changed_is_read_as_single_samples_are(text: str, version: int) -> None:
    layout, payloads = payloads_of(text, version, 24)
    draw = random.Random(version)
    wrong = [payload[: draw.randrange(len(payload))] for payload in payloads for _ in range(4)]
    for payload in payloads:
        for _ in range(8):
            changed = bytearray(payload)
            changed[draw.randrange(4, len(payload))] = draw.choice((0, 1, 2, 0x7F, 0xFF))
            wrong.append(bytes(changed))
    every = [*payloads, *wrong]
    draw.shuffle(every)
    assert repr(decoded(layout, every)) == repr(one_by_one(layout, every))  # NaN is not NaN


def test_members_of_an_older_type_are_null_and_of_a_newer_one_passed_over() -> None:
    old = parse_layout("appendable {id: i32}")
    new = parse_layout("appendable {id: i32, name: string, far: f64}")
    olds = [write_cdr(old, {"id": number}, 2) for number in range(40)]
    news = [write_cdr(new, {"id": number, "name": "x", "far": 1.0}, 2) for number in range(40)]
    assert decoded(new, olds) == [{"id": n, "name": None, "far": None} for n in range(40)]
    assert decoded(old, news) == [{"id": n} for n in range(40)]
