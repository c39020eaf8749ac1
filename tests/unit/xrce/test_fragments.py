"""Payloads too long for a frame: cut, carried, put together, and what is wrong with some."""

from __future__ import annotations

import dataclasses

import pytest
from tests.xrce_session import BROKER, DEVICE, Pair, pair, settings

from elea.errors import InvalidValueError, RemoteProtocolError
from elea.xrce.channel.serial import Serial
from elea.xrce.encode import encode
from elea.xrce.fragments import Fragmentable, Reassembly, cut
from elea.xrce.framing import Marked
from elea.xrce.message_records import Frag, Ping, StreamData, WriteData
from elea.xrce.session.session import Delivered

NUMBERS = Serial(14)


def whole(payload: bytes, *, reliable: bool = True) -> StreamData:
    return StreamData(reliable=reliable, sync=False, sn=0, id=2, payload=payload)


def reassembly(message_len: int = 1_000, session_len: int = 2_000) -> Reassembly:
    return Reassembly(NUMBERS, message_len=message_len, session_len=session_len, idle_ns=100)


def part(
    sn: int,
    payload: bytes,
    base: int | None = 10,
    n: int | None = 3,
    *,
    reliable: bool = True,
    one: int = 2,
    conduit: int = 0,
) -> Marked:
    message = StreamData(reliable=reliable, sync=False, sn=sn, id=one, payload=payload)
    fragment = None if base is None else Frag(sn_base=base, n=n)
    return Marked(message, conduit, fragment)


def payloads(found: list[Marked]) -> list[bytes]:
    messages = [one.message for one in found]
    return [one.payload for one in messages if isinstance(one, StreamData | WriteData)]


def carried(made: Pair, message: Fragmentable, frame_len: int) -> list[bytes]:
    """Send a message from the device in fragments; what the broker's application got."""
    session = made.device.session
    assert session is not None
    for slice_ in cut(message, frame_len, NUMBERS):
        while not session.send(slice_.make, made.now_ns, fragment=slice_.marker):
            made.run(0.05)
    made.run(5)
    delivered = [one for _, one in made.broker_events if isinstance(one, Delivered)]
    made.broker_events.clear()
    return payloads([one.marked for one in delivered])


@pytest.mark.line("X-114")
@pytest.mark.parametrize("reliable", [True, False])
def test_a_mebibyte_over_frames_of_512_octets(reliable: bool) -> None:
    payload = bytes(range(256)) * 4_096
    device = dataclasses.replace(settings(), frame_len=512)
    made = pair(device, settings(BROKER, lease_s=30))
    sizes: list[int] = []
    made.drop = lambda frame: bool(sizes.append(len(frame)))  # type: ignore[func-returns-value]
    assert carried(made, whole(payload, reliable=reliable), 512) == [payload]
    assert max(sizes) <= 512
    slices = [slice_.make(0).payload for slice_ in cut(whole(payload), 512, NUMBERS)]
    assert len({len(one) for one in slices[:-1]}) == 1
    assert 0 < len(slices[-1]) <= len(slices[0])


@pytest.mark.line("X-114")
def test_what_fits_a_frame_has_no_marker() -> None:
    [one] = cut(whole(b"small"), 512, NUMBERS)
    assert one.marker is None
    assert one.make(7) == StreamData(reliable=True, sync=False, sn=7, id=2, payload=b"small")
    made = pair()
    assert carried(made, whole(b"small"), 512) == [b"small"]


def test_names_are_repeated_in_every_fragment() -> None:
    message = WriteData(reliable=True, sync=False, sn=0, resource=b"/lab/t", payload=bytes(300))
    slices = cut(message, 100, NUMBERS)
    assert len(slices) > 3
    for at, slice_ in enumerate(slices):
        made = slice_.make(40 + at)
        assert isinstance(made, WriteData)
        assert made.resource == b"/lab/t"
        assert slice_.marker is not None
        assert slice_.marker(40 + at) == Frag(sn_base=40, n=len(slices))
        assert len(encode(made)) + len(encode(slice_.marker(40 + at))) <= 100
    assert carried(pair(), message, 100) == [bytes(300)]


@pytest.mark.parametrize(("frame_len", "words"), [(9, "fragments need"), (20, "at most 8190")])
def test_what_cannot_be_cut_is_refused(frame_len: int, words: str) -> None:
    with pytest.raises(InvalidValueError, match=words):
        cut(whole(bytes(100_000)), frame_len, NUMBERS)


@pytest.mark.parametrize("payload_len", [10, 11, 1_270, 1_280, 20_000])
@pytest.mark.parametrize("frame_len", [20, 139, 140, 141, 16_500])
def test_no_fragment_is_longer_than_its_frame(frame_len: int, payload_len: int) -> None:
    payload = bytes(payload_len)
    pieces = cut(whole(payload), frame_len, NUMBERS)
    for at, piece in enumerate(pieces):
        sn = NUMBERS.after(NUMBERS.modulus - 1, at)
        markers = encode(piece.marker(sn)) if piece.marker is not None else b""
        assert len(markers + encode(piece.make(sn))) <= frame_len
    lengths = [len(piece.make(0).payload) for piece in pieces]
    assert sum(lengths) == payload_len
    assert len(set(lengths[:-1])) <= 1


@pytest.mark.line("X-116")
def test_series_of_two_conduits_may_be_mixed() -> None:
    end = reassembly()
    assert end.receive(part(10, b"aa"), 0) == []
    assert end.receive(part(10, b"xx", conduit=1), 0) == []
    assert end.receive(part(11, b"bb"), 0) == []
    assert end.receive(part(10, b"..", reliable=False), 0) == []
    assert end.receive(part(11, b"yy", conduit=1), 0) == []
    [found] = end.receive(part(12, b"c"), 0)
    assert found == part(12, b"aabbc", base=None)
    [found] = end.receive(part(12, b"z", conduit=1), 0)
    assert payloads([found]) == [b"xxyyz"]
    assert found.conduit == 1
    assert end.receive(Marked(Ping(hash=1)), 0) == [Marked(Ping(hash=1))]


def test_a_series_without_a_count_ends_with_the_next_message_or_a_synch() -> None:
    end = reassembly()
    end.receive(part(10, b"aa", n=None), 0)
    end.receive(part(11, b"b", n=None), 0)
    assert payloads(end.receive(part(12, b"next", base=None), 0)) == [b"aab", b"next"]
    end.receive(part(20, b"aa", base=20, n=None), 0)
    end.receive(part(21, b"bb", base=20, n=None), 0)
    assert end.synch(0, 21, reliable=True) == []
    assert end.synch(0, 22, reliable=False) == []
    assert payloads(end.synch(0, 22, reliable=True)) == [b"aabb"]
    assert end.synch(0, 22, reliable=True) == []
    end.receive(part(30, b"aa", base=30, n=None), 0)
    assert payloads(end.receive(part(31, b"bb", base=31, n=1), 0)) == [b"aa", b"bb"]
    assert end.unneeded_count == 1
    assert end.dropped_count == 0


@pytest.mark.line("X-115")
@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ([part(10, b"aa"), part(11, b"b"), part(12, b"c")], []),  # uneven before the last
        ([part(10, b"aa"), part(11, b"bb"), part(12, b"ccc")], []),  # the last is larger
        ([part(10, b"aa"), part(11, b"bb", one=4), part(12, b"c")], []),  # another id
        ([part(10, b"aa"), part(12, b"c")], []),  # a gap
        ([part(10, b"aa", n=None), part(12, b"bb", n=None)], []),
        ([part(10, b"aa", n=None), part(12, b"x", base=None)], [b"x"]),
        ([part(11, b"bb"), part(12, b"c")], []),  # the beginning is missing
        ([part(10, b"aa"), part(11, b"x", base=None)], [b"x"]),  # it ends too early
    ],
)
def test_a_series_with_a_fault_is_dropped_and_counted_once(
    parts: list[Marked], found: list[bytes]
) -> None:
    end = reassembly()
    assert payloads([done for one in parts for done in end.receive(one, 0)]) == found
    assert end.dropped_count == 1
    again = [part(20, b"aa", 20), part(21, b"bb", 20), part(22, b"c", 20)]
    assert payloads([done for one in again for done in end.receive(one, 0)]) == [b"aabbc"]


@pytest.mark.line("X-115")
def test_kinds_are_not_mixed() -> None:
    end = reassembly()
    end.receive(part(10, b"aa", n=2), 0)
    named = WriteData(reliable=True, sync=False, sn=11, resource=b"/x", payload=b"b")
    assert end.receive(Marked(named, 0, Frag(sn_base=10, n=2)), 0) == []
    assert end.dropped_count == 1


@pytest.mark.line("X-115")
@pytest.mark.parametrize(("sn", "base", "n"), [(13, 10, 3), (9, 10, 3), (12, 13, None)])
def test_a_number_outside_of_its_series_is_a_violation(sn: int, base: int, n: int | None) -> None:
    with pytest.raises(RemoteProtocolError, match="in a series of") as caught:
        reassembly().receive(part(sn, b"a", base, n), 0)
    assert caught.value.close_reason == 255


@pytest.mark.line("X-115")
def test_a_series_that_is_too_long_ends_a_reliable_channel_only() -> None:
    end = reassembly()
    for reliable in (False, True):
        end.receive(part(10, bytes(600), reliable=reliable), 0)
    assert end.receive(part(11, bytes(600), reliable=False), 0) == []
    assert end.dropped_count == 1
    end.receive(part(20, bytes(600), 20, 2, reliable=False), 0)
    assert end.receive(part(21, bytes(600), 20, 2, reliable=False), 0) == []  # the last one
    assert end.dropped_count == 2
    with pytest.raises(RemoteProtocolError, match="at most 1000 are kept") as caught:
        end.receive(part(11, bytes(600)), 0)
    assert caught.value.close_reason == 3
    for conduit in range(3):
        end.receive(part(10, bytes(600), conduit=conduit), 0)
    with pytest.raises(RemoteProtocolError):
        end.receive(part(10, bytes(600), conduit=3), 0)


def test_a_series_without_news_is_dropped() -> None:
    end = reassembly()
    end.receive(part(10, b"aa"), 0)
    end.receive(part(11, b"bb"), 100)
    assert end.receive(part(12, b"c"), 201) == []
    assert end.dropped_count == 1


def test_a_device_that_sends_faulty_fragments_is_let_go() -> None:
    made = pair()
    frame = encode(Frag(sn_base=5, n=1)) + encode(whole(b"x"))
    made.broker.receive(frame, made.source, made.now_ns)
    assert DEVICE not in made.broker.pids()
