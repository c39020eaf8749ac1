"""The reader of CBOR, against the examples of RFC 8949, appendix A and F."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.cli import cbor
from elea.cli.output import Json


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
    assert cbor.diagnose(cbor.loads(bytes.fromhex(octets))) == shown


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
    assert cbor.to_json(cbor.loads(bytes.fromhex(octets))) == value


@pytest.mark.parametrize("octets", ["a10102", "a2616101616102"])
def test_names_that_json_does_not_have(octets: str) -> None:
    with pytest.raises(ValueError, match="names"):
        cbor.to_json(cbor.loads(bytes.fromhex(octets)))


@pytest.mark.parametrize(
    ("octets", "why"),
    [
        ("", "0 octets are left"),
        ("1901", "1 octets are left"),
        ("1c", "28 is reserved"),
        ("41", "0 octets are left"),
        ("61ff", "utf-8"),
        ("81", "0 octets are left"),
        ("9b7fffffffffffffff", "0 octets are left"),  # a list of 2^63 items
        ("bb7fffffffffffffff", "0 octets are left"),
        ("5b7fffffffffffffff00", "1 octets are left"),
        ("a101", "1 octets are left"),
        ("5f", "0 octets are left"),
        ("5f00ff", "another kind"),
        ("5f5f4100ffff", "another kind"),  # a piece of pieces
        ("9f", "0 octets are left"),
        ("bf01ff", "31 is reserved"),
        ("1f", "no indefinite length"),
        ("df00ff", "no indefinite length"),
        ("ff", "31 is reserved"),
        ("f801", "simple value 1 in two octets"),
        ("0000", "1 octets after the item"),
        ("81" * 40 + "00", "deeper than 32"),
    ],
)
def test_what_is_no_cbor_is_refused(octets: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        cbor.loads(bytes.fromhex(octets))


@given(st.binary(max_size=200))
def test_any_octets_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        item = cbor.loads(data)
        assert len(cbor.diagnose(item)) < 100 * (len(data) + 1)
        cbor.to_json(item)
