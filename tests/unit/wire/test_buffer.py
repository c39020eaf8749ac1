"""Reader and Writer: integers as the wire reference lists them, and bounds."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.errors import DecodeError
from elea.limits import DEFAULT_LIMITS
from elea.wire.buffer import Piece, Reader, Writer, check_zid
from elea.wire.dialect import Dialect

# Section 2.2, row by row.
VLE = {
    0: "00",
    1: "01",
    127: "7f",
    128: "80 01",
    300: "ac 02",
    2**14 - 1: "ff 7f",
    2**14: "80 80 01",
    2**21 - 1: "ff ff 7f",
    2**28 - 1: "ff ff ff 7f",
    2**28: "80 80 80 80 01",
    2**32 - 1: "ff ff ff ff 0f",
    2**35: "80 80 80 80 80 01",
    2**49 - 1: "ff ff ff ff ff ff 7f",
    2**56 - 1: "ff ff ff ff ff ff ff 7f",
    2**56: "80 80 80 80 80 80 80 80 01",
    2**63 - 1: "ff ff ff ff ff ff ff ff 7f",
    2**63: "80 80 80 80 80 80 80 80 80",
    2**64 - 1: "ff ff ff ff ff ff ff ff ff",
}


def written(value: int) -> bytes:
    writer = Writer()
    writer.z64(value)
    assert writer.size == len(writer.to_bytes())
    return writer.to_bytes()


@pytest.mark.parametrize("value", VLE)
def test_integers_of_the_reference(value: int) -> None:
    octets = bytes.fromhex(VLE[value])
    assert written(value) == octets
    reader = Reader(octets + b"\xff")
    assert reader.z64("x") == value
    assert reader.pos == len(octets)
    for length in range(len(octets)):
        with pytest.raises(DecodeError):
            Reader(octets[:length]).z64("x")


@pytest.mark.parametrize("octets", [1, 2, 3, 4, 5, 6, 7, 8])
def test_the_largest_integer_of_each_length(octets: int) -> None:
    largest = 2 ** (7 * octets) - 1
    assert len(written(largest)) == octets
    assert len(written(largest + 1)) == octets + 1


def test_the_ninth_octet_ends_an_integer_whatever_its_high_bit() -> None:
    reader = Reader(b"\xff" * 10)
    assert reader.z64("x") == 2**64 - 1
    assert reader.remaining() == 1
    assert Reader(b"\x80" * 8 + b"\x80\x01").z64("x") == 2**63


@pytest.mark.parametrize(
    ("octets", "value"),
    [("80 00", 0), ("81 80 00", 1), ("ff 80 80 80 80 80 80 80 00", 127), ("80 80 80 00", 0)],
)
def test_longer_forms_are_read(octets: str, value: int) -> None:
    assert Reader(bytes.fromhex(octets)).z64("x") == value


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_integers_round_trip(value: int) -> None:
    assert Reader(written(value)).z64("x") == value


@pytest.mark.parametrize("value", [-1, 2**64, -(2**70)])
def test_what_no_integer_holds_is_not_written(value: int) -> None:
    with pytest.raises(ValueError, match=r"0 to 2\^64-1"):
        Writer().z64(value)


@pytest.mark.parametrize("bits", [8, 16, 32])
def test_narrow_integers_keep_their_bounds(bits: int) -> None:
    def read(value: int) -> int:
        reader = Reader(written(value))
        return {8: reader.z8, 16: reader.z16, 32: reader.z32}[bits]("field")

    assert read(2**bits - 1) == 2**bits - 1
    for value in (2**bits, 2**64 - 1):
        with pytest.raises(DecodeError, match=f"field is {value}, legal is below 2.{bits}"):
            read(value)


def test_fixed_width() -> None:
    reader = Reader(bytes.fromhex("ff3412"))
    assert reader.u8("a") == 255
    assert reader.u16le("b") == 0x1234
    with pytest.raises(DecodeError, match="c needs 1 octet") as caught:
        reader.u8("c")
    assert caught.value.offset == 3
    with pytest.raises(DecodeError, match=r"d needs 2 octet\(s\), 1 remain"):
        Reader(b"\x01").u16le("d")


@pytest.mark.parametrize("length", [4, 2**31, 2**63 - 1, 2**63, 2**64 - 1])
def test_a_length_is_compared_before_anything_is_cut(length: int) -> None:
    for attempt in (Reader(b"abc").take, Reader(b"abc").utf8, Reader(b"abc").window):
        with pytest.raises(DecodeError, match=f"needs {length} octet"):
            attempt(length, "field")


def test_a_window_ends_where_it_was_told() -> None:
    reader = Reader(b"abcdef", 1, 5)
    window = reader.window(2, "window")
    assert window.take(2, "inside") == b"bc"
    assert window.peek() == -1
    with pytest.raises(DecodeError) as caught:
        window.u8("beyond")
    assert caught.value.offset == 3
    assert reader.rest("rest") == b"de"


def test_finish_names_what_is_left() -> None:
    reader = Reader(b"abc")
    with pytest.raises(DecodeError, match=r"thing ends 3 octet\(s\) before its declared length"):
        reader.finish("thing")
    reader.rest("all")
    reader.finish("thing")


def test_text_that_is_no_utf8_names_the_octet() -> None:
    with pytest.raises(DecodeError, match="field is not UTF-8") as caught:
        Reader(b"xxab\xff", 2).utf8(3, "field")
    assert caught.value.offset == 4


def test_pieces_can_be_rolled_back() -> None:
    writer = Writer()
    writer.raw(b"keep")
    mark = writer.mark()
    writer.text("é")
    writer.u16le(7)
    assert writer.size == 9
    writer.rollback(mark)
    assert writer.to_bytes() == b"keep"
    assert writer.size == 4


def test_many_pieces_are_joined_in_order() -> None:
    writer = Writer()
    for number in range(1000):
        writer.u16le(number)
    assert writer.to_bytes() == b"".join(n.to_bytes(2, "little") for n in range(1000))


@pytest.mark.parametrize("zid", [b"", bytes(17), bytes(1), bytes(16)])
def test_identifiers_that_name_nobody(zid: bytes) -> None:
    with pytest.raises(DecodeError):
        check_zid(zid, 0)


def test_high_order_zeros_of_an_identifier_are_tolerated() -> None:
    assert check_zid(b"\x01\x00", 0) == b"\x01\x00"


STEPS: dict[str, Callable[[Reader], object]] = {
    "u8": lambda reader: reader.u8("f"),
    "u16le": lambda reader: reader.u16le("f"),
    "z64": lambda reader: reader.z64("f"),
    "peek": lambda reader: reader.peek(),
    "take": lambda reader: reader.take(3, "f"),
    "last": lambda reader: reader.last(3, "f"),
    "window": lambda reader: reader.window(2, "f").rest("f"),
    "finish": lambda reader: reader.finish("f"),
    "rest": lambda reader: reader.last(reader.remaining(), "f"),
}


def read_by(reader: Reader, steps: list[str]) -> list[object]:
    """What each step gives, and how much remains then; or why there is no more."""
    seen: list[object] = []
    try:
        for step in steps:
            seen += [STEPS[step](reader), reader.remaining()]
    except DecodeError as error:
        seen.append(str(error))
    return seen


@given(
    st.integers(1_010, 1_024),
    st.lists(st.binary(max_size=4), max_size=4),
    st.lists(st.sampled_from(sorted(STEPS)), max_size=8),
)
def test_pieces_are_read_as_if_they_were_joined(
    filled_len: int, pieces: list[bytes], steps: list[str]
) -> None:
    whole = [bytes(filled_len), *pieces]
    reader = Reader.of_pieces([memoryview(whole[0]), *whole[1:]], DEFAULT_LIMITS, Dialect.ECLIPSE)
    plain = Reader(b"".join(whole))
    assert reader.take(1_010, "f") == plain.take(1_010, "f")
    assert read_by(reader, steps) == read_by(plain, steps)


def test_a_payload_in_pieces_is_the_rest_of_them() -> None:
    pieces: list[Piece] = [b"\x01" + bytes(70_000), bytearray(b"ab"), memoryview(b"cde")]
    reader = Reader.of_pieces(pieces, DEFAULT_LIMITS, Dialect.ECLIPSE)
    assert reader.u8("first") == 1
    assert reader.last(70_005, "payload") == bytes(70_000) + b"abcde"
    assert reader.peek() == -1
    assert reader.remaining() == 0
