"""Numbers, octets and counts of XRCE, and what generated records have in common."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from elea.errors import DecodeError, InvalidValueError, ShortError
from elea.xrce.buffer import Reader, put_byte, put_count, put_nat, put_octets, put_wide
from elea.xrce.encode import encode
from elea.xrce.message_records import Frag, Ping, Pong, StreamData

NUMBERS = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "80 01"),
    (300, "ac 02"),
    (16_383, "ff 7f"),
    (16_384, "80 80 01"),
    (2**21 - 1, "ff ff 7f"),
    (2**32, "80 80 80 80 10"),
    (2**56 - 1, "ff ff ff ff ff ff ff 7f"),
    (2**56, "80 80 80 80 80 80 80 80 01"),
    (2**63 - 1, "ff ff ff ff ff ff ff ff 7f"),
    (2**64 - 1, "ff ff ff ff ff ff ff ff ff 01"),
]


@pytest.mark.line("X-004")
@pytest.mark.parametrize(("number", "text"), NUMBERS)
def test_the_table_of_numbers_holds_both_ways(number: int, text: str) -> None:
    out = bytearray()
    put_nat(out, number, "n")
    assert out.hex(" ") == text
    reader = Reader(bytes.fromhex(text) + b"\xff")
    assert reader.nat("n") == number
    assert reader.pos == len(out)


@pytest.mark.line("X-005")
@pytest.mark.parametrize(
    ("text", "number"),
    [("80 00", 0), ("81 80 00", 1), ("80 80 80 80 80 80 80 80 80 00", 0), ("ff 80 80 00", 127)],
)
def test_padded_numbers_are_read(text: str, number: int) -> None:
    reader = Reader(bytes.fromhex(text))
    assert reader.nat("n") == number
    assert reader.at_end()


@pytest.mark.line("X-005")
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("80 80 80 80 80 80 80 80 80 80 00", "more than 10 octets"),
        ("80 80 80 80 80 80 80 80 80 02", "legal is below 2^64"),
        ("ff ff ff ff ff ff ff ff ff 7f", "legal is below 2^64"),
    ],
)
def test_numbers_too_long_or_too_large_are_malformed(text: str, words: str) -> None:
    with pytest.raises(DecodeError, match=words.replace("^", r"\^")) as caught:
        Reader(b"\0" + bytes.fromhex(text), 1).nat("n")
    assert not isinstance(caught.value, ShortError)
    assert caught.value.offset == 1


@pytest.mark.parametrize("text", ["", "80", "ff " * 8, "ff " * 9])
def test_a_number_that_is_cut_is_short(text: str) -> None:
    with pytest.raises(ShortError, match="the input ends inside n"):
        Reader(bytes.fromhex(text)).nat("n")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", ShortError),
        ("03 61 62", ShortError),
        ("ff ff ff ff ff ff ff ff ff 01 61", ShortError),
        ("05 61 62 63 64 65", DecodeError),
    ],
)
def test_octets_are_cut_only_out_of_what_is_there(text: str, error: type[DecodeError]) -> None:
    with pytest.raises(error) as caught:
        Reader(bytes.fromhex(text)).octets("o", 4 if text.startswith("05") else -1)
    assert type(caught.value) is error


@pytest.mark.parametrize("number", [0, 127, 2**64, 2**100 - 1])
def test_wide_numbers_both_ways(number: int) -> None:
    out = bytearray()
    put_wide(out, number, "n", 100)
    reader = Reader(bytes(out))
    assert reader.wide("n", 100) == number
    assert reader.at_end()
    for end in range(len(out)):
        with pytest.raises(ShortError):
            Reader(bytes(out[:end])).wide("n", 100)


@pytest.mark.parametrize("text", ["80 " * 14 + "04", "80 " * 15 + "00", "80 " * 16 + "00"])
def test_wide_numbers_are_bounded(text: str) -> None:
    data = bytes.fromhex(text)
    if len(data) == 16:  # one octet of padding is read
        assert Reader(data).wide("n", 100) == 0
        return
    with pytest.raises(DecodeError, match="n has more than 100 bits"):
        Reader(data).wide("n", 100)
    with pytest.raises(InvalidValueError):
        put_wide(bytearray(), 2**100, "n", 100)
    with pytest.raises(InvalidValueError):
        put_wide(bytearray(), -1, "n", 100)


def test_octets_counts_and_bytes_are_read_in_order() -> None:
    reader = Reader(b"\x02ab\x05\x07")
    assert reader.octets("o", 2) == b"ab"
    assert reader.count("c", 5) == 5
    assert reader.byte("b") == 7
    assert reader.at_end()
    with pytest.raises(ShortError):
        reader.byte("b")
    with pytest.raises(DecodeError, match="c has 6 elements, at most 5 are legal"):
        Reader(b"\x06").count("c", 5)


@pytest.mark.parametrize(
    "write",
    [
        lambda out: put_nat(out, -1, "f"),
        lambda out: put_nat(out, 2**64, "f"),
        lambda out: put_byte(out, 256, "f"),
        lambda out: put_byte(out, -1, "f"),
        lambda out: put_count(out, 3, "f", 2),
        lambda out: put_octets(out, b"abc", "f", 2),
    ],
)
def test_a_value_that_does_not_fit_its_field_is_refused(
    write: Callable[[bytearray], None],
) -> None:
    with pytest.raises(InvalidValueError, match="no f: "):
        write(bytearray())


def test_records_are_equal_by_kind_and_members() -> None:
    assert Ping(hash=1) == Ping(hash=1)
    assert Ping(hash=1) != Ping(hash=2)
    assert Ping(hash=1) != Pong(hash=1)
    assert Ping(hash=1) != 1
    assert repr(Frag(sn_base=1)) == "Frag(sn_base=1, n=None)"
    with pytest.raises(TypeError):
        hash(Ping(hash=1))


def test_a_sample_costs_four_octets() -> None:
    """The minimal overhead the protocol promises, for a reliable sample of two octets."""
    sample = StreamData(reliable=True, sync=False, sn=127, id=126, payload=b"on")
    assert len(encode(sample)) - len(sample.payload) == 4
