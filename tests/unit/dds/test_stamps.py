"""Stamps, attachments and headers, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.dds.representation import Extensibility, padded, refusal, version_of
from elea.dds.stamps import (
    DISPOSED,
    UNREGISTERED,
    Attachment,
    WriterClock,
    nanos_of,
    ntp64_of,
    source_time,
)
from elea.timestamp import NTP64

line = pytest.mark.line
GUID = bytes(range(1, 17))


@line("D-541")
@given(st.integers(0, 2**62))
def test_nanoseconds_survive_both_ways(nanoseconds: int) -> None:
    assert nanos_of(ntp64_of(nanoseconds)) == nanoseconds


@line("D-541", "D-542")
def test_stamps_follow_source_times() -> None:
    clock = WriterClock(GUID)
    now = 1_700_000_000_000_000_000
    first = clock.stamp(now, now)
    assert first == NTP64.from_nanos(now).value
    assert [clock.stamp(now, now) for _ in range(2)] == [first + 1, first + 2]
    assert clock.stamp(now - 5, now) == ntp64_of(now - 5)
    assert clock.stamp(0, now) is None
    assert clock.stamp(-5, now) is None
    assert clock.stamp(now + 100_000_001, now) is None
    assert clock.stamp(2**63, 2**64) is None


@line("D-543")
def test_source_times_to_dds() -> None:
    now = 10**18
    assert source_time(Attachment(source_ns=5), ntp64_of(7), now) == (5, False)
    assert source_time(None, ntp64_of(7), now) == (7, False)
    assert source_time(None, None, now) == (now, False)
    assert source_time(None, ntp64_of(now + 10**10 + 1), now) == (now, True)


@line("D-544", "D-545")
def test_attachments_are_as_specified() -> None:
    key = bytes.fromhex("00090000 04000000 07000000")
    told = Attachment(status=DISPOSED, key=key)
    expected = "02 01 01 01 09 0c 00 09 00 00 04 00 00 00 07 00 00 00"
    assert told.to_bytes() == bytes.fromhex(expected)
    assert Attachment.read(told.to_bytes()) == told
    assert Attachment(status=DISPOSED).to_bytes() == bytes.fromhex("01010101")
    assert Attachment().to_bytes() == b""
    unknown = bytes.fromhex("02 63 02 aabb 01 01 02")
    assert Attachment.read(unknown) == Attachment(status=UNREGISTERED)


@line("D-544", "D-935")
@given(
    st.builds(
        Attachment,
        st.integers(0, 3),
        st.none() | st.integers(0, 2**63 - 1),
        st.none() | st.binary(min_size=16, max_size=16),
        st.none() | st.binary(min_size=4, max_size=40),
    )
)
def test_attachments_round_trip(told: Attachment) -> None:
    if told.to_bytes():
        assert Attachment.read(told.to_bytes()) == told


@line("D-545", "D-815")
@given(st.binary(max_size=40))
def test_any_bytes_are_an_attachment_or_none(data: bytes) -> None:
    Attachment.read(data)


@line("D-545")
@pytest.mark.parametrize("data", ["", "02 01 01 01", "01 01 02 0101", "01 05 01 00", "01 09 01 00"])
def test_malformed_attachments_count_as_none(data: str) -> None:
    assert Attachment.read(bytes.fromhex(data)) is None


@line("D-453", "D-454")
def test_headers_are_checked_against_the_type() -> None:
    legal = {
        Extensibility.FINAL: {0, 1, 6, 7},
        Extensibility.APPENDABLE: {0, 1, 8, 9},
        Extensibility.MUTABLE: {2, 3, 10, 11},
        None: {0, 1, 2, 3, 6, 7, 8, 9, 10, 11},
    }
    for extensibility, numbers in legal.items():
        for number in range(0x20):
            payload = bytes((0, number, 0, 0))
            assert (refusal(payload, extensibility) is None) == (number in numbers)
    assert refusal(b"\xff\xff\0\0", None) == "unknown representation ffff"
    assert [version_of(bytes((0, one, 0, 0))) for one in (1, 3, 7, 11)] == [0, 0, 2, 2]
    assert padded(b"12345") == b"12345\0\0\0"
    assert padded(b"1234") == b"1234"
