"""The extension chain by itself: bare chains, bounds, and what is put back where."""

from __future__ import annotations

import pytest

from elea.errors import DecodeError
from elea.limits import Limits
from elea.wire.buffer import Reader, Writer
from elea.wire.extensions import (
    Chain,
    ChainReader,
    Extension,
    ExtensionTable,
    Extras,
    Known,
    decode_chain,
    encode_chain,
)

TABLE = ExtensionTable("TEST", Known(0x21, "number"), Known(0x02, "unit"), Known(0x33, "must"))


def read(text: str, limits: Limits | None = None) -> tuple[dict[int, int], Extras | None]:
    """The known values of a chain, 0 is the default of each number; and what was kept."""
    reader = Reader(bytes.fromhex(text), limits=limits or Limits())
    chain = ChainReader(reader, TABLE, 0x80)
    values: dict[int, int] = {}
    while chain.next():
        if chain.header in (0x21, 0x33):
            values[chain.header] = chain.z64("number", 0)
        elif chain.header == 0x02:
            values[chain.header] = 1
        else:
            chain.keep()
    reader.finish("chain")
    return values, chain.extras()


def write(values: dict[int, int], extras: Extras | None) -> str:
    chain = Chain(extras)
    chain.add(0x21, values.get(0x21, 0), present=bool(values.get(0x21)))
    if 0x02 in values:
        chain.add(0x02)
    chain.add(0x33, values.get(0x33, 0), present=bool(values.get(0x33)))
    writer = Writer()
    assert bool(chain) is bool(chain), "asking whether there is a chain must not change it"
    chain.write(writer)
    return writer.to_bytes().hex()


@pytest.mark.parametrize(
    ("text", "extras"),
    [
        ("2107", None),
        ("a107823307", None),
        ("2100", Extras(b"\x21")),
        ("b3072107", Extras(b"\x33\x21")),
        ("a1074a0161", Extras(unknown=(Extension(0x4A, b"a"),))),
        ("ca01612107", Extras(b"\x4a\x21", (Extension(0x4A, b"a"),))),
        (
            "8e8eae0702",
            Extras(b"\x0e\x0e\x2e\x02", (Extension(0x0E), Extension(0x0E), Extension(0x2E, 7))),
        ),
        ("b30082a1000e", Extras(b"\x33\x02\x21\x0e", (Extension(0x0E),))),
    ],
)
def test_a_chain_is_written_back_as_it_came(text: str, extras: Extras | None) -> None:
    values, kept = read(text)
    assert kept == extras
    assert write(values, kept) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("a1072108", "2108"), ("a1002108", "2108"), ("a1072100", "2100"), ("828202", "02")],
)
def test_repeated_extensions_leave_the_last(text: str, canonical: str) -> None:
    values, kept = read(text)
    assert write(values, kept) == canonical
    assert read(canonical) == (values, kept)


def test_what_changed_since_is_written_in_its_place() -> None:
    values, kept = read("b3072107")
    values[0x33] = 9
    values[0x02] = 1
    assert write(values, kept) == "b309a10702"
    values[0x21] = 0  # it stood in the chain: its default is written out
    assert write(values, kept) == "b309a10002"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "extension needs 1"),
        ("13", "TEST: unknown mandatory extension 0x13"),
        ("23", "extension value needs 1"),
        ("43", "extension value length needs 1"),
        ("430261", "extension value needs 2"),
        ("438080808010", "extension value length is 4294967296"),
        ("63", "0b11 is reserved"),
        ("8e", "extension needs 1"),
        ("8e" * 33, "TEST has more than 32 extensions"),
    ],
)
def test_refused(text: str, reason: str) -> None:
    with pytest.raises(DecodeError, match=reason):
        read(text)


def test_the_bound_is_the_one_of_the_limits() -> None:
    read("8e0e", Limits(extensions_count=2))
    with pytest.raises(DecodeError, match="more than 2 extensions"):
        read("8e8e0e", Limits(extensions_count=2))


def test_a_known_id_with_another_encoding_or_m_bit_is_unknown() -> None:
    values, kept = read("81a20723" + "08")
    assert values == {}
    assert kept == Extras(unknown=(Extension(0x01), Extension(0x22, 7), Extension(0x23, 8)))


def test_bare_chains() -> None:
    extensions = (Extension(0x1F), Extension(0x22, 2**64 - 1), Extension(0x41, b""))
    octets = encode_chain(extensions)
    assert octets == bytes.fromhex("9fa2" + "ff" * 9 + "4100")
    assert decode_chain(Reader(octets), "auth") == extensions
    with pytest.raises(DecodeError, match="auth ends 1"):
        decode_chain(Reader(octets + b"\0"), "auth")
