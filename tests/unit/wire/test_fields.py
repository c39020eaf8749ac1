"""Composite fields are plain values: equal by content, hashable, picklable."""

from __future__ import annotations

import copy

import pytest

from elea.wire.fields import Stamp, WireEncoding, WireExpr, key_flags

VALUES = [
    (WireExpr(1, "a", False), [WireExpr(2, "a", False), WireExpr(1, "b", False), WireExpr(1, "a")]),
    (Stamp(5, b"\xaa"), [Stamp(6, b"\xaa"), Stamp(5, b"\xab")]),
    (WireEncoding(5, b"v"), [WireEncoding(6, b"v"), WireEncoding(5)]),
]


@pytest.mark.parametrize(("value", "others"), VALUES, ids=lambda v: type(v).__name__)
def test_values(value: object, others: list[object]) -> None:
    twin = copy.deepcopy(value)  # by way of __reduce__
    assert twin is not value
    assert twin == value
    assert hash(twin) == hash(value)
    assert repr(twin) == repr(value)
    assert value != "something else"
    for other in others:
        assert value != other


@pytest.mark.parametrize(
    ("key", "flags"),
    [
        (WireExpr(1), 0x40),
        (WireExpr(1, "a"), 0x60),
        (WireExpr(0, "a", False), 0x20),
        (WireExpr(1, "", False), 0),
    ],
)
def test_key_flags(key: WireExpr, flags: int) -> None:
    assert key_flags(key) == flags
