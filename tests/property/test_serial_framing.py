"""Laws of a serial line: what noise leaves whole arrives, and nothing else does."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elea.limits import SERIAL_BATCH_LEN_MAX, SERIAL_OFFERED_LEN
from elea.link.serial_framing import (
    ACK,
    FRAME_LEN_MAX,
    INIT,
    RESET,
    FrameReader,
    LineState,
    SerialLine,
    cobs_decode,
    cobs_encode,
    crc32,
    decode_frame,
    encode_frame,
)

BATCHES = st.binary(min_size=1, max_size=40) | st.binary(
    min_size=240, max_size=SERIAL_BATCH_LEN_MAX
)
FORGED = bytes.fromhex("04030211")  # any CRC


def opened() -> SerialLine:
    """A listener whose conversation has begun."""
    line = SerialLine(listens=True)
    assert line.receive(encode_frame(INIT)) == []
    assert line.take_output() == encode_frame(INIT | ACK)
    assert line.state is LineState.OPEN
    return line


def frame_of(body: bytes) -> bytes:
    return cobs_encode(body) + b"\0"


@pytest.mark.parametrize(
    ("data", "frame"),
    [  # as z-serial and zenoh-pico write them
        ("001100", "010203010211 0573ec75f900"),
        ("11220033", "0102040311220633 8d036dfb00"),
        ("", "010101010101010100"),
    ],
)
def test_frames_are_those_of_others(data: str, frame: str) -> None:
    assert encode_frame(0, bytes.fromhex(data)) == bytes.fromhex(frame)
    assert decode_frame(bytes.fromhex(frame)[:-1]) == (0, bytes.fromhex(data))


@given(st.binary(max_size=1_600))
def test_cobs_has_no_zero_and_reads_back(data: bytes) -> None:
    encoded = cobs_encode(data)
    assert 0 not in encoded
    assert len(encoded) <= len(data) + len(data) // 254 + 1
    assert cobs_decode(encoded) == data


@pytest.mark.parametrize("length", [253, 254, 255, 508, 509])
def test_runs_of_a_whole_block_read_back_in_both_forms(length: int) -> None:
    data = b"x" * length
    encoded = cobs_encode(data)
    assert cobs_decode(encoded) == data
    if length % 254 == 0:
        assert encoded[-1] == 1
        assert cobs_decode(encoded[:-1]) == data  # encoders may leave the last block out


def test_the_longest_batch_is_the_longest_frame() -> None:
    frame = encode_frame(0, b"x" * SERIAL_BATCH_LEN_MAX)
    assert len(frame) - 1 <= FRAME_LEN_MAX
    assert opened().receive(frame) == [b"x" * SERIAL_BATCH_LEN_MAX]


def test_the_longest_batch_offered_was_one_that_zenoh_pico_drops() -> None:
    """It decodes into 1507 bytes, and refuses what is longer before COBS is undone."""
    assert len(encode_frame(0, b"x" * SERIAL_OFFERED_LEN)) == 1_507


@given(st.lists(BATCHES, max_size=6), st.data())
def test_pieces_do_not_matter(batches: list[bytes], data: st.DataObject) -> None:
    line, octets = opened(), b"".join(encode_frame(0, batch) for batch in batches)
    got = []
    while octets:
        cut = data.draw(st.integers(1, len(octets)))
        got += line.receive(octets[:cut])
        octets = octets[cut:]
    assert got == batches
    assert line.dropped_count == 0


def test_a_cut_at_any_byte_costs_two_frames_and_no_more() -> None:
    cut, second, third = (encode_frame(0, bytes([0, n]) * 20) for n in (1, 2, 3))
    for at in range(len(cut)):
        line = opened()
        got = line.receive(cut[:at] + second + third)
        if at == 0:
            assert got == [bytes([0, 2]) * 20, bytes([0, 3]) * 20]
        else:
            assert got == [bytes([0, 3]) * 20]
            assert line.dropped_count == 1
        line = opened()
        assert line.receive(cut[at:] + second)[-1] == bytes([0, 2]) * 20


def test_no_flipped_bit_gives_another_batch() -> None:
    batch = bytes([0, 255, 0, 17]) * 8
    frame = encode_frame(0, batch)
    for bit in range(8 * len(frame)):
        spoilt = bytearray(frame)
        spoilt[bit // 8] ^= 1 << bit % 8
        line = opened()
        got = line.receive(bytes(spoilt) + b"\0" + encode_frame(0, b"next"))
        # Of the header the reserved bits mean nothing; the CRC does not cover them.
        assert got in ([b"next"], [batch, b"next"]), bit
        assert got[0] == batch or line.dropped_count >= 1
        assert line.state is LineState.OPEN


@given(st.binary(max_size=3_000), st.lists(BATCHES, min_size=1, max_size=3))
def test_after_any_noise_the_next_frames_arrive(noise: bytes, batches: list[bytes]) -> None:
    reader = FrameReader()
    before = list(reader.feed(noise + b"\0"))
    assert all(frame_of_noise in _frames(noise) for frame_of_noise in before)
    frames = b"".join(encode_frame(0, batch) for batch in batches)
    assert list(reader.feed(frames)) == [(0, batch) for batch in batches]


def _frames(noise: bytes) -> list[tuple[int, bytes] | None]:
    return [decode_frame(piece) for piece in noise.split(b"\0")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\0",
        b"\0\0\0" + b"\0\0\0",  # a byte short
        b"\0\5\0abcd" + crc32(b"abcd").to_bytes(4, "little"),
        b"\0\3\0abcd" + crc32(b"abcd").to_bytes(4, "little"),
        b"\0\xff\xffabcd" + crc32(b"abcd").to_bytes(4, "little"),
        b"\0\4\0abcd" + FORGED,
        bytes([INIT]) + b"\4\0abcd" + crc32(b"abcd").to_bytes(4, "little"),
        b"\0\xdd\5" + b"x" * 1_501 + crc32(b"x" * 1_501).to_bytes(4, "little"),
    ],
)
def test_forged_frames_are_counted_and_give_nothing(body: bytes) -> None:
    line = opened()
    assert line.receive(frame_of(body)) == []
    assert line.dropped_count == 1
    assert line.receive(encode_frame(0, b"next")) == [b"next"]


def test_a_frame_without_end_is_not_kept() -> None:
    line = opened()
    for _ in range(1_000):
        assert line.receive(b"\x7f" * 4_096) == []
        assert len(line._reader._partial) <= FRAME_LEN_MAX
    assert line.dropped_count == 1
    assert line.receive(b"\0" + encode_frame(0, b"next")) == [b"next"]


def test_zero_bytes_are_silence() -> None:
    line = opened()
    assert line.receive(b"\0" * 5_000 + encode_frame(0, b"a") + b"\0\0") == [b"a"]
    assert line.dropped_count == 0


def test_init_in_a_conversation_is_answered_with_reset() -> None:
    line = opened()
    got = line.receive(encode_frame(0, b"last") + encode_frame(INIT) + encode_frame(0, b"late"))
    assert got == [b"last"]
    assert line.take_output() == encode_frame(RESET)
    assert line.state is LineState.RESTARTED
    assert line.dropped_count == 1


def test_reset_in_a_conversation_ends_it() -> None:
    line = opened()
    line.receive(encode_frame(RESET))
    assert line.state is LineState.REFUSED
    assert line.is_over


def test_reset_lets_a_dialling_end_rest_and_dial_again() -> None:
    line = SerialLine(listens=False)
    line.dial()
    line.take_output()
    line.receive(encode_frame(RESET))
    assert line.state.value == "resting"
    assert line.take_output() == b""
    line.dial()
    assert line.take_output() == encode_frame(INIT)
    line.receive(encode_frame(INIT | ACK))
    assert line.state is LineState.OPEN
    line.dial()
    assert line.take_output() == b""


def test_a_looped_line_is_told_from_an_answer() -> None:
    line = SerialLine(listens=False)
    line.dial()
    line.receive(line.take_output())
    assert line.state is LineState.LOOPED


@pytest.mark.parametrize("flags", [ACK, RESET, INIT | ACK, INIT | RESET, 0])
def test_what_does_not_fit_a_listener_is_counted(flags: int) -> None:
    line = SerialLine(listens=True)
    line.receive(encode_frame(flags))
    assert line.state is LineState.LISTENING
    assert line.dropped_count == 1


@pytest.mark.parametrize("seed", range(60))
def test_two_ends_meet_after_any_losses(seed: int) -> None:
    """As link and connector have it: an end whose conversation is over begins a new one."""
    chance = random.Random(seed)
    near, far = SerialLine(listens=False), SerialLine(listens=True)

    def over(sent: bytes, noisy: bool) -> bytes:
        if not noisy or not sent:
            return sent
        at = chance.randrange(len(sent))
        return chance.choice(
            [b"", sent[:at], sent[at:], sent[:at] + b"\x2a" + sent[at + 1 :], sent]
        )

    for turn in range(40):
        noisy = turn < 30
        if near.is_over or (near.state is LineState.OPEN and far.state is not LineState.OPEN):
            near = SerialLine(listens=False)  # its lease has ended
        if far.is_over or (noisy and chance.random() < 0.1):
            far = SerialLine(listens=True)
        near.dial()
        far.receive(over(near.take_output(), noisy))
        near.receive(over(far.take_output(), noisy))
    assert near.state is far.state is LineState.OPEN
    assert far.receive(encode_frame(0, b"batch")) == [b"batch"]
