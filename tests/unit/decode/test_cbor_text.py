"""CBOR for people and programs, against the examples of RFC 8949, appendix A."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.cbor import loads
from elea.cli.output import Json
from elea.decode.cbor_text import diagnose, to_json


@pytest.mark.parametrize(
    ("octets", "shown"),
    [
        ("00", "0"),
        ("17", "23"),
        ("1818", "24"),
        ("1903e8", "1000"),
        ("1bffffffffffffffff", "18446744073709551615"),
        ("c249010000000000000000", "18446744073709551616"),
        ("3bffffffffffffffff", "-18446744073709551616"),
        ("c349010000000000000000", "-18446744073709551617"),
        ("20", "-1"),
        ("f90000", "0.0"),
        ("f98000", "-0.0"),
        ("f93c00", "1.0"),
        ("fb3ff199999999999a", "1.1"),
        ("fa47c35000", "100000.0"),
        ("f90001", "5.960464477539063e-08"),
        ("f97c00", "Infinity"),
        ("f97e00", "NaN"),
        ("f9fc00", "-Infinity"),
        ("f4", "false"),
        ("f5", "true"),
        ("f6", "null"),
        ("f7", "undefined"),
        ("f0", "simple(16)"),
        ("f8ff", "simple(255)"),
        ("c11a514b67b0", "1(1363896240)"),
        ("d74401020304", "23(h'01020304')"),
        ("d818456449455446", "24(h'6449455446')"),
        ("40", "h''"),
        ("60", '""'),
        ("62225c", '"\\"\\\\"'),
        ("63e6b0b4", '"水"'),
        ("80", "[]"),
        ("83010203", "[\n  1,\n  2,\n  3\n]"),
        ("a0", "{}"),
        ("a201020304", "{\n  1: 2,\n  3: 4\n}"),
        ("a161618201f5", '{\n  "a": [\n    1,\n    true\n  ]\n}'),
        ("5f42010243030405ff", "h'0102030405'"),
        ("7f657374726561646d696e67ff", '"streaming"'),
        ("9fff", "[]"),
        ("9f018202039f0405ffff", "[\n  1,\n  [\n    2,\n    3\n  ],\n  [\n    4,\n    5\n  ]\n]"),
        ("bf6346756ef563416d7421ff", '{\n  "Fun": true,\n  "Amt": -2\n}'),
        ("59025800" + "11" * 599, f"h'00{'11' * 511}' ...88 more"),
    ],
)
def test_diagnostic_notation(octets: str, shown: str) -> None:
    assert diagnose(loads(bytes.fromhex(octets))) == shown


@pytest.mark.parametrize(
    ("octets", "value"),
    [
        ("a26161016162820203", {"a": 1, "b": [2, 3]}),
        ("4401ff0203", "Af8CAw"),
        ("c074323031332d30332d32315432303a30343a30305a", "2013-03-21T20:04:00Z"),
        ("83f7f97e00f93c00", [None, None, 1.0]),
    ],
)
def test_json(octets: str, value: Json) -> None:
    assert to_json(loads(bytes.fromhex(octets))) == value


@pytest.mark.parametrize("octets", ["a10102", "a2616101616102"])
def test_names_that_json_does_not_have(octets: str) -> None:
    with pytest.raises(ValueError, match="names"):
        to_json(loads(bytes.fromhex(octets)))


@given(st.binary(max_size=200))
def test_any_octets_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        item = loads(data)
        assert len(diagnose(item)) < 100 * (len(data) + 1)
        to_json(item)
