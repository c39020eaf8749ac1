"""Frames of streams, and markers inside frames."""

from __future__ import annotations

import random

import pytest

from elea.errors import DecodeError, LimitError, ShortError
from elea.limits import XRCE_FRAME_LEN_MAX
from elea.xrce.framing import (
    FrameStream,
    Marked,
    conduit_marker,
    conduit_number,
    frame_prefix,
    read_frame,
    write_marked,
)
from elea.xrce.message_records import Frag, KeepAlive, Ping, Scout, StreamData, Synch

SAMPLE = StreamData(reliable=True, sync=False, sn=300, id=2, payload=b"AAAA")
FRAG = Frag(sn_base=300, n=3)


def frame(text: str) -> list[Marked]:
    return list(read_frame(bytes.fromhex(text)))


def written(marked: Marked) -> str:
    out = bytearray()
    write_marked(out, marked)
    return out.hex(" ")


def framed(*messages: bytes) -> bytes:
    return b"".join(frame_prefix(one) + one for one in messages)


def drained(stream: FrameStream) -> list[bytes]:
    found = []
    while (one := stream.next_frame()) is not None:
        found.append(one)
    return found


@pytest.mark.line("X-019")
@pytest.mark.parametrize(
    ("text", "number"),
    [("93", 1), ("b3", 2), ("d3", 3), ("f3", 4), ("13 05", 5), ("13 c8 01", 200), ("13 00", 0)],
)
def test_conduits_in_both_forms(text: str, number: int) -> None:
    [marked] = frame(f"{text} 0c 01")
    assert marked == Marked(Ping(hash=1), conduit=number)
    if number:
        assert written(marked) == f"{text} 0c 01"
        assert conduit_number(conduit_marker(number)) == number
    else:
        assert written(marked) == "0c 01"


@pytest.mark.line("X-020")
def test_a_marker_is_about_the_next_message_only() -> None:
    first, second = frame("b3 47 00 02 01 61 47 01 02 01 62")
    assert (first.conduit, second.conduit) == (2, 0)
    text = "93 52 ac 02 03 47 ac 02 02 04 41 41 41 41"
    [both] = frame(text)
    assert both == Marked(SAMPLE, conduit=1, fragment=FRAG)
    assert written(both) == text


@pytest.mark.line("X-021")
@pytest.mark.parametrize(
    ("text", "words", "offset"),
    [
        ("0c 01 93", "a Conduit marker and nothing after it", 2),
        ("93 52 ac 02 03", "a Frag marker and nothing after it", 0),
        ("93 b3 0c 01", "a Conduit marker after another", 0),
        ("12 01 12 01 07 01 02 00", "a Frag marker before Frag", 0),
        ("12 01 93 07 01 02 00", "a Frag marker before Conduit", 0),
        ("12 01 0c 01", "a Frag marker before Ping", 0),
        ("12 01 48 01 02 00", "a Frag marker before BatchedData", 0),
        ("52 01 00 07 01 02 00", "a Frag marker for no fragments", 0),
    ],
)
def test_a_marker_where_none_may_be_is_malformed(text: str, words: str, offset: int) -> None:
    with pytest.raises(DecodeError, match=words) as caught:
        frame(text)
    assert not isinstance(caught.value, ShortError)
    assert caught.value.offset == offset


def test_messages_before_an_error_have_been_given_out() -> None:
    messages = read_frame(bytes.fromhex("0c 01 0c 02 0a 0c 03"))
    assert [next(messages).message, next(messages).message] == [Ping(hash=1), Ping(hash=2)]
    with pytest.raises(DecodeError, match="kind is 10"):
        next(messages)


@pytest.mark.line("X-016")
@pytest.mark.parametrize("seed", range(20))
def test_frames_of_a_stream_however_it_is_cut(seed: int) -> None:
    rng = random.Random(seed)
    frames = [b"\x01\x01", bytes(127), bytes(128), bytes(300), b"\x0c\x05"]
    data = framed(*frames)
    stream = FrameStream()
    found, at = [], 0
    while at < len(data):
        step = rng.choice((1, 2, 3, 50, 500))
        stream.receive(data[at : at + step])
        at += step
        found += drained(stream)
    assert found == frames
    assert stream.pending_len == 0


def test_a_scout_on_a_stream_is_three_octets() -> None:
    stream = FrameStream()
    stream.receive(b"\x02\x01\x01")
    [one] = drained(stream)
    assert list(read_frame(one)) == [Marked(Scout(mask=1))]


@pytest.mark.line("X-017")
@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_a_length_of_zero_ends_the_lengths(step: int) -> None:
    messages = ["4e 00", "b3 47 00 02 01 61", "93 52 ac 02 03 47 ac 02 02 04 41 41 41 41", "0c 01"]
    data = framed(b"\x0c\x07") + b"\0" + bytes.fromhex("".join(messages))
    stream = FrameStream()
    found: list[bytes] = []
    for at in range(0, len(data), step):
        stream.receive(data[at : at + step])
        found += drained(stream)
    assert stream.unframed
    assert [one.hex(" ") for one in found] == ["0c 07", *messages]
    assert list(read_frame(found[1])) == [Marked(Synch(reliable=True, sync=False, sn=0))]


def test_a_frame_longer_than_the_limit_cannot_be_followed() -> None:
    stream = FrameStream()
    stream.receive(b"\xff\xff\x03")
    assert stream.next_frame() is None  # 65535, and nothing of it has come
    stream = FrameStream()
    stream.receive(b"\x80\x80\x04")
    with pytest.raises(DecodeError, match="a frame of 65536 octets, at most 65535"):
        stream.next_frame()
    stream = FrameStream(frame_len_max=10)
    stream.receive(b"\x0b")
    with pytest.raises(DecodeError, match="at most 10"):
        stream.next_frame()


def test_a_length_that_never_ends_is_malformed() -> None:
    stream = FrameStream()
    for _ in range(10):
        stream.receive(b"\x80")
        if stream.pending_len < 10:
            assert stream.next_frame() is None
    with pytest.raises(DecodeError, match="more than 10 octets"):
        stream.next_frame()


def test_a_message_without_length_is_bounded_too() -> None:
    stream = FrameStream(frame_len_max=100)
    stream.receive(b"\0\x07\x01\x02\x7f" + bytes(90))
    assert stream.next_frame() is None
    stream.receive(bytes(6))
    with pytest.raises(DecodeError, match="a message of more than 100 octets"):
        stream.next_frame()


def test_rubbish_without_lengths_is_an_error_at_once() -> None:
    stream = FrameStream()
    stream.receive(b"\0\x0a")
    with pytest.raises(DecodeError, match="kind is 10"):
        stream.next_frame()


@pytest.mark.parametrize("length", [0, XRCE_FRAME_LEN_MAX + 1])
def test_a_frame_that_has_no_legal_length_is_refused(length: int) -> None:
    with pytest.raises(LimitError):
        frame_prefix(bytes(length))


def test_keep_alive_is_carried_as_it_is() -> None:
    assert frame("10 04 c0 ff ee 01") == [Marked(KeepAlive(pid=b"\xc0\xff\xee\x01"))]
