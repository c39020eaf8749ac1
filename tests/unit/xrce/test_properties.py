"""What lists of properties say, and how messages share frames."""

from __future__ import annotations

import pytest

from elea.errors import RemoteProtocolError
from elea.xrce.buffer import Reader
from elea.xrce.declaration_records import Property
from elea.xrce.decode import read_message
from elea.xrce.encode import encode
from elea.xrce.message_records import Open
from elea.xrce.packing import pack
from elea.xrce.properties import VENDOR_CODE, SessionProperties


def read(*pairs: tuple[int, str]) -> SessionProperties:
    return SessionProperties.read(
        Property(id=one, value=bytes.fromhex(text)) for one, text in pairs
    )


def test_nothing_said_means_the_defaults() -> None:
    said = SessionProperties.read(None)
    assert (said.bits, said.conduits_count, said.commit_mode) == (14, 1, 0)
    assert said.listed() == ()


def test_the_example_of_the_specification() -> None:
    said = read((4, "07"), (10, "01"))
    assert (said.bits, said.commit_mode) == (7, 1)
    opening = Open(version=1, pid=b"\x01", lease=0, locators=(), properties=said.listed())
    assert encode(opening).hex(" ").endswith("02 04 01 07 0a 01 01")


@pytest.mark.line("X-013")
def test_a_value_longer_than_it_needs_is_a_prefix() -> None:
    message = read_message(Reader(bytes.fromhex("23 01 01 aa 00 00 01 04 02 07 ff")))
    assert isinstance(message, Open)
    assert SessionProperties.read(message.properties).bits == 7


def test_the_first_of_equal_ids_counts() -> None:
    assert read((4, "07"), (4, "0b")).bits == 7


@pytest.mark.parametrize(("one", "text"), [(2, ""), (4, "80"), (10, "")])
def test_a_value_too_short_is_a_parameter_that_is_not_supported(one: int, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=f"property {one} holds no number") as caught:
        read((one, text))
    assert caught.value.close_reason == 5


@pytest.mark.parametrize(
    ("text", "fits"), [("03", False), ("04", True), ("3f", True), ("40", False)]
)
def test_lengths_of_sequence_numbers(text: str, fits: bool) -> None:
    if fits:
        assert read((4, text)).bits == int(text, 16)
        return
    with pytest.raises(RemoteProtocolError, match="legal are 4 to 63") as caught:
        read((4, text))
    assert caught.value.close_reason == 4


def test_odd_ids_are_ours_only_from_our_vendor() -> None:
    ours = (0, VENDOR_CODE.hex() + "aa")
    assert read(ours, (7, "80 08"), (9, "03")).frame_len == 1_024
    assert read(ours, (7, "80 08"), (9, "03")).capabilities == 3
    stranger = read((0, "01 10"), (7, "80 08"), (9, "03"))
    assert (stranger.frame_len, stranger.capabilities) == (None, 0)
    assert read(ours, (7, "80"), (9, ""), (15, "80")) == read(ours)
    assert read(ours, (15, "20 80 20 ff")).store == (32, 4_096)
    assert read(ours, (15, "20")).store == (32, None)


def test_what_is_said_reads_back() -> None:
    said = SessionProperties(
        vendor=VENDOR_CODE,
        conduits_count=8,
        bits=28,
        commit_mode=7,
        authentication=b"key",
        client_hash=b"h",
        frame_len=20,
        capabilities=6,
        store=(32, 4_096),
    )
    assert SessionProperties.read(said.listed()) == said
    assert [one.id for one in said.listed()] == [0, 2, 4, 7, 9, 10, 12, 14, 15]


def test_messages_share_frames_in_order() -> None:
    small = [bytes.fromhex(text) for text in ("4e 00", "0c 01", "93 0c 02", "b3 0c 03", "0c 04")]
    assert pack(small, 100) == [
        b"".join(small[:4]),
        small[4],  # not behind a marker that may last
    ]
    assert pack(small, 4) == [b"".join(small[:2]), small[2], small[3], small[4]]
    assert pack([bytes(10)], 4) == [bytes(10)]
    assert pack([], 4) == []
