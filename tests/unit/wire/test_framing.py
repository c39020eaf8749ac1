"""Batches in a byte stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.errors import DecodeError
from elea.wire.framing import StreamDecoder, frame

batch_lists = st.lists(st.binary(max_size=300), max_size=8)


def drain(decoder: StreamDecoder) -> list[bytes]:
    return list(iter(decoder.next_batch, None))


@given(batches=batch_lists, low_latency=st.booleans(), data=st.data())
def test_any_slicing_gives_the_same_batches(
    batches: list[bytes], low_latency: bool, data: st.DataObject
) -> None:
    stream = b"".join(frame(batch, low_latency=low_latency) for batch in batches)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    decoder = StreamDecoder()
    decoder.low_latency = low_latency
    found: list[bytes] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        decoder.feed(stream[start:stop])
        found += drain(decoder)
    assert found == batches
    assert decoder.pending == 0
    assert decoder.offset == len(stream)


def test_octet_by_octet() -> None:
    decoder = StreamDecoder()
    found = []
    for octet in frame(b"abc") + frame(b"") + frame(b"d"):
        decoder.feed(bytes((octet,)))
        found += drain(decoder)
    assert found == [b"abc", b"", b"d"]


def test_prefixes() -> None:
    assert frame(b"ab") == b"\x02\x00ab"
    assert frame(b"ab", low_latency=True) == b"\x02\x00\x00\x00ab"
    assert frame(bytes(65_535))[:2] == b"\xff\xff"
    with pytest.raises(ValueError, match="at most 65535 octets, got 65536"):
        frame(bytes(65_536))


def test_a_prefix_too_long_is_refused_before_its_batch_is_there() -> None:
    decoder = StreamDecoder(batch_len_max=100)
    decoder.feed(frame(bytes(100)) + b"\x65")
    assert decoder.next_batch() == bytes(100)
    assert decoder.next_batch() is None
    decoder.feed(b"\x00")
    with pytest.raises(DecodeError, match="a batch of 101 octets, at most 100") as caught:
        decoder.next_batch()
    assert caught.value.offset == 102


def test_a_low_latency_prefix_of_four_gigabytes() -> None:
    decoder = StreamDecoder()
    decoder.low_latency = True
    decoder.feed(b"\xff\xff\xff\xff")
    with pytest.raises(DecodeError, match="a batch of 4294967295 octets, at most 65535"):
        decoder.next_batch()


def test_low_latency_begins_between_two_batches() -> None:
    decoder = StreamDecoder()
    decoder.feed(frame(b"open") + frame(b"push", low_latency=True))
    assert decoder.next_batch() == b"open"
    decoder.low_latency = True
    assert decoder.next_batch() == b"push"


def test_what_is_pending() -> None:
    decoder = StreamDecoder()
    decoder.feed(frame(b"a") + b"\x05\x00b")
    assert drain(decoder) == [b"a"]
    assert decoder.pending == 3


def test_whoever_reads_what_is_wanted_gets_windows_without_copies() -> None:
    batches = [bytes([number]) * 1_000 for number in range(1, 6)]
    stream = b"".join(map(frame, batches))
    decoder = StreamDecoder()
    at, found, copies = 0, [], 0
    read_len = 1_500  # as much as there is at first
    while at < len(stream):
        data = stream[at : at + read_len]
        at += len(data)
        decoder.feed(data)
        while decoder.next_window():
            found.append(decoder.data[decoder.start : decoder.stop])
            copies += decoder.data is not data
        read_len = decoder.wanted_len or 1_500
    assert found == batches
    assert copies == 1  # of the batch that the first read cut
