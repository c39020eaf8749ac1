"""Captures: every link type and byte order, TCP put in order, damage told as such."""

from __future__ import annotations

import itertools
import random

import pytest
from tests.unit.cli import captures
from tests.unit.cli.captures import CLIENT, ROUTER, SYN, tcp, udp

from elea.cli.pcap import EARLY_LEN_MAX, CaptureError, Segment, TcpStream, is_capture, segments

V6_CLIENT, V6_ROUTER = ("::1", 40_000), ("::1", 7447)


@pytest.mark.parametrize(
    "kind", [captures.ETHERNET, captures.NULL, captures.RAW, captures.SLL, captures.SLL2]
)
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("version", [4, 6])
def test_links_and_byte_orders(kind: int, order: str, version: int) -> None:
    ends = (CLIENT, ROUTER) if version == 4 else (V6_CLIENT, V6_ROUTER)
    packets = [tcp(*ends, 7, b"tcp"), udp(*ends, b"udp")]
    for data in (
        captures.pcap(packets, kind, order=order),
        captures.pcap(packets, kind, order=order, nano=True),
        captures.pcapng(packets, kind, order=order),
    ):
        assert is_capture(data)
        first, second = segments(data)
        assert (first.payload, first.tcp, first.sequence) == (b"tcp", True, 7)
        assert (second.payload, second.tcp) == (b"udp", False)
        assert (first.source.host, first.source.port) == ends[0]
        assert second.time - first.time == pytest.approx(0.001)


def test_vlan_tags_are_stepped_over() -> None:
    packet = udp(CLIENT, ROUTER, b"x")
    tagged = bytes(12) + b"\x81\0\0\x05" + b"\x08\0" + packet
    data = captures.pcap([packet], captures.ETHERNET)
    data = data[: 24 + 8] + (len(tagged).to_bytes(4, "little") * 2) + tagged
    assert [one.payload for one in segments(data)] == [b"x"]


def test_other_traffic_is_passed_over() -> None:
    arp = bytes(12) + b"\x08\x06" + bytes(28)
    data = captures.pcap([], captures.ETHERNET)
    data += (1).to_bytes(4, "little") + bytes(4) + len(arp).to_bytes(4, "little") * 2 + arp
    assert list(segments(data)) == []


@pytest.mark.parametrize("build", [captures.pcap, captures.pcapng])
def test_a_cut_anywhere_is_a_capture_error_or_a_shorter_capture(build: object) -> None:
    assert callable(build)
    whole = build([tcp(CLIENT, ROUTER, 1, b"payload"), udp(CLIENT, ROUTER, b"x")])
    complete = len(list(segments(whole)))
    refused = 0
    for end in range(4, len(whole)):
        try:
            assert len(list(segments(whole[:end]))) <= complete
        except CaptureError:
            refused += 1
    assert refused > len(whole) // 2


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"nonsense", "no pcap or pcapng magic"),
        (captures.pcap([udp(CLIENT, ROUTER, b"x")], 147), "link type 147"),
    ],
)
def test_what_is_no_capture_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(CaptureError, match=reason):
        list(segments(data))


def segment(sequence: int, payload: bytes, *, syn: bool = False) -> Segment:
    packet = tcp(CLIENT, ROUTER, sequence, payload, SYN if syn else 0)
    (one,) = segments(captures.pcap([packet]))
    return one


@pytest.mark.parametrize("start", [1_000, 0xFFFFFFF0])
@pytest.mark.parametrize("seed", range(20))
def test_segments_in_any_order_give_the_stream(start: int, seed: int) -> None:
    rng = random.Random(seed)
    data = rng.randbytes(200)
    cuts = sorted({0, 200, *(rng.randrange(200) for _ in range(8))})
    pieces = [segment(start + 1 + low, data[low:high]) for low, high in itertools.pairwise(cuts)]
    again = [segment(start + 1 + low, data[low : low + 30]) for low in (0, 40, 150)]
    arrived = pieces + again
    rng.shuffle(arrived)
    stream = TcpStream()
    assert stream.accept(segment(start, b"", syn=True)) == b""
    assert b"".join(stream.accept(one) for one in arrived) == data
    assert not stream.lost
    assert stream.waiting == 0


def test_a_hole_is_known_as_one() -> None:
    stream = TcpStream()
    stream.accept(segment(0, b"", syn=True))
    assert stream.accept(segment(1, b"abc")) == b"abc"
    assert stream.accept(segment(5, b"efg")) == b""
    assert stream.waiting == 3
    assert not stream.lost


def test_what_waits_for_a_hole_is_bounded() -> None:
    stream = TcpStream()
    stream.accept(segment(0, b"", syn=True))
    for at in range(0, EARLY_LEN_MAX + 60_000, 60_000):
        assert stream.accept(segment(10 + at, bytes(60_000))) == b""
    assert stream.lost
    assert stream.accept(segment(1, b"late")) == b""


def test_a_capture_that_begins_late_starts_with_what_it_has() -> None:
    stream = TcpStream()
    assert stream.accept(segment(77, b"middle")) == b"middle"
