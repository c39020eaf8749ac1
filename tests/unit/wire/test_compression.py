"""The header octet of batches on a compressed transport."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.errors import DecodeError, MissingDependencyError
from elea.limits import Limits
from elea.wire import compression


@given(st.one_of(st.binary(max_size=200), st.integers(0, 5000).map(bytes)))
def test_packing_round_trips(data: bytes) -> None:
    packed = compression.pack(data)
    assert compression.unpack(packed) == data
    assert len(packed) <= len(data) + 1


def test_only_what_shrinks_is_packed() -> None:
    assert compression.pack(b"") == b"\0"
    assert compression.pack(b"abc") == b"\0abc"
    assert compression.pack(bytes(1000))[0] == 1


@pytest.mark.parametrize("header", [0x00, 0xFE])
def test_without_c_the_rest_is_as_it_is(header: int) -> None:
    assert compression.unpack(bytes((header,)) + b"abc") == b"abc"
    assert compression.unpack(bytes((header,))) == b""


def test_a_batch_without_its_header() -> None:
    with pytest.raises(DecodeError, match="starts with a header octet"):
        compression.unpack(b"")


# A block that copies one octet n times: a token, the octet, offset 1, and the length of the match.
def bomb(length: int) -> bytes:
    extra = length - 1 - 5 - 19  # the literal, the last literals, what the token holds
    return b"\x01\x1fA\x01\x00" + b"\xff" * (extra // 255) + bytes((extra % 255,)) + b"\x50AAAAA"


def test_a_block_up_to_the_bound() -> None:
    assert compression.unpack(bomb(65_535)) == b"A" * 65_535
    assert compression.unpack(bomb(1_000), limits=Limits(decompressed_len=1_000)) == b"A" * 1_000


@pytest.mark.parametrize("length", [65_536, 1_000_000, 16_000_000])
def test_a_block_beyond_the_bound_is_refused_within_memory(length: int) -> None:
    data = bomb(length)
    peaks = []
    for _ in range(5):  # the least counts: the first one fills caches, other threads count too
        tracemalloc.start()
        try:
            with pytest.raises(DecodeError, match="no LZ4 block of at most 65535 octets"):
                compression.unpack(data)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    # The room for one batch is reserved before a block is looked at, and no more than that.
    assert min(peaks) <= 65_535 + 16 * 1024


@pytest.mark.parametrize(
    "block", ["", "ff", "1f410000ff", "1f41ffff0050", "f0", "f0ff", "50414141"]
)
def test_what_is_no_block(block: str) -> None:
    with pytest.raises(DecodeError, match="no LZ4 block"):
        compression.unpack(b"\x01" + bytes.fromhex(block))


def test_a_block_cut_at_every_byte_is_refused_or_shorter() -> None:
    data = compression.pack(b"abcdefgh" * 40)
    whole = compression.unpack(data)
    for length in range(1, len(data)):
        try:
            assert whole.startswith(compression.unpack(data[:length]))
        except DecodeError:
            continue


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = compression.pack(bytes(100))
    monkeypatch.setattr(compression, "lz4_block", None)
    assert not compression.available()
    assert compression.pack(bytes(100)) == bytes(101)
    assert compression.unpack(b"\0abc") == b"abc"
    with pytest.raises(MissingDependencyError, match=r"elea\[compression\]"):
        compression.unpack(packed)
