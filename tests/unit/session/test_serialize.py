"""Octets as zenoh.ext writes and reads them; the wheel is the reference."""

from __future__ import annotations

import struct

import pytest
import zenoh
import zenoh.ext as reference
from hypothesis import given
from hypothesis import strategies as st

from elea.errors import ZDeserializeError, ZError
from elea.session import serialize as ours
from elea.session.serialize import z_deserialize, z_serialize
from elea.zbytes import ZBytes

WIDTHS = (
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Int128",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt128",
)


def typed(name: str, number: int) -> tuple[object, object]:
    return getattr(ours, name)(number), getattr(reference, name)(number)


@pytest.mark.parametrize("name", WIDTHS)
def test_integers_have_their_width(name: str) -> None:
    kind = getattr(ours, name)
    for number in (kind.low, kind.high, 1):
        mine, theirs = typed(name, number)
        octets = z_serialize(mine).to_bytes()
        assert octets == reference.z_serialize(theirs).to_bytes()
        read = z_deserialize(kind, ZBytes(octets))
        assert read == number
        assert type(read) is kind
    for number in (kind.low - 1, kind.high + 1):
        with pytest.raises(AssertionError, match="too big"):
            kind(number)


PLAIN = [True, False, 7, -7, 1.5, "é", "", b"ab", bytearray(b"xy"), [1, 2], [], {"a": 1}, {}, {3}]
PLAIN += [(1, "x", 2.0), (), [[1], [2, 3]], "x" * 300, frozenset([3]), {"k": [True]}]


@pytest.mark.parametrize("value", PLAIN, ids=str)
def test_values_have_the_octets_of_the_reference(value: object) -> None:
    assert z_serialize(value).to_bytes() == reference.z_serialize(value).to_bytes()


@pytest.mark.parametrize(
    "value", [None, object(), [1, "a"], 2**31, -(2**31) - 1, range(3), 1j, {1: "a", 2: 3}]
)
def test_what_has_no_form_is_refused_alike(value: object) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011  # which one is what is compared
        reference.z_serialize(value)
    with pytest.raises(theirs.type):
        z_serialize(value)


TYPES = [int, bool, str, bytes, bytearray, float, list[int], list[str], dict[str, int]]
TYPES += [set[bool], tuple[int, str], tuple[()], list[list[bool]], dict[str, list[bytes]]]


@given(st.sampled_from(TYPES), st.binary(max_size=40))
def test_any_octets_are_read_alike(tp: type[object], octets: bytes) -> None:
    try:
        expected = reference.z_deserialize(tp, zenoh.ZBytes(octets))
    except reference.ZDeserializeError:
        with pytest.raises(ZDeserializeError):
            z_deserialize(tp, ZBytes(octets))
        return
    assert struct_equal(z_deserialize(tp, ZBytes(octets)), expected)


def struct_equal(mine: object, theirs: object) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return struct.pack("<d", mine) == struct.pack("<d", theirs)
    return mine == theirs


values = st.recursive(
    st.one_of(
        st.integers(-(2**31), 2**31 - 1).map(lambda number: (int, number)),
        st.booleans().map(lambda flag: (bool, flag)),
        st.text(max_size=8).map(lambda text: (str, text)),
        st.binary(max_size=8).map(lambda octets: (bytes, octets)),
        st.floats(allow_nan=False).map(lambda number: (float, number)),
    ),
    lambda inner: st.lists(inner, max_size=3).map(
        lambda pairs: (
            tuple[tuple(pair[0] for pair in pairs)],  # type: ignore[misc]
            tuple(pair[1] for pair in pairs),
        )
    ),
    max_leaves=8,
)


@given(values)
def test_what_was_written_is_read(pair: tuple[type[object], object]) -> None:
    tp, value = pair
    octets = z_serialize(value)
    assert octets.to_bytes() == reference.z_serialize(value).to_bytes()
    assert z_deserialize(tp, octets) == value


@pytest.mark.parametrize(
    ("tp", "error", "message"),
    [
        (list, ValueError, "specialized"),
        (tuple[int, ...], TypeError, "any size"),
        (object, TypeError, "not supported"),
        (int | None, TypeError, "not supported|converted"),
        (memoryview, TypeError, "not supported"),
    ],
)
def test_types_that_cannot_be_read(tp: type[object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        z_deserialize(tp, ZBytes(b"\0"))


def test_only_zbytes_are_read() -> None:
    with pytest.raises(TypeError, match="ZBytes"):
        z_deserialize(int, b"\0\0\0\0")  # type: ignore[arg-type]


def test_a_wrong_value_says_where() -> None:
    with pytest.raises(ZError, match="at byte 0: 4 octets are needed, 2 are left"):
        z_deserialize(int, ZBytes(b"\0\0"))
    with pytest.raises(ZDeserializeError, match="cannot be in"):
        z_deserialize(list[str], ZBytes(b"\xff\xff\xff\xff\xff\x01"))


def test_depth_is_bounded() -> None:
    nested: object = []
    for _ in range(100):
        nested = [nested]
    with pytest.raises(ValueError, match="deep"):
        z_serialize(nested)


def test_floats_of_32_bits() -> None:
    octets = z_serialize(ours.Float32(1.5)).to_bytes()
    assert octets == reference.z_serialize(reference.Float32(1.5)).to_bytes()
    assert type(z_deserialize(ours.Float32, ZBytes(octets))) is ours.Float32
    assert z_deserialize(ours.Float64, z_serialize(ours.Float64(0.1))) == 0.1
