"""Conversation: what the handshake agreed decides how the next batch is read."""

from __future__ import annotations

import pytest

from elea.errors import DecodeError
from elea.limits import Limits
from elea.wire import compression
from elea.wire.batches import describe_network, encode_batch
from elea.wire.codec import encode_one
from elea.wire.conversation import Conversation, Direction, Seen
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.push import Push
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.init import Init
from elea.wire.transport.open import Open

I2A, A2I = Direction.INITIATOR, Direction.ACCEPTOR
PUSH = Push(WireExpr(0, "a/b"), Put(b"x" * 40))


def shake(
    conversation: Conversation,
    *,
    compressed: tuple[bool, bool] = (False, False),
    low_latency: tuple[bool, bool] = (False, False),
    patch: int = 1,
    until: int = 4,
) -> Conversation:
    """Run a handshake, or its first `until` batches."""
    syn = Init(b"\1", 2, compression=compressed[0], low_latency=low_latency[0], patch=patch)
    ack = Init(
        b"\2", 0, cookie=b"c", compression=compressed[1], low_latency=low_latency[1], patch=patch
    )
    steps: list[tuple[Direction, Init | Open]] = [
        (I2A, syn),
        (A2I, ack),
        (I2A, Open(10, 0, cookie=b"c")),
        (A2I, Open(10, 0)),
    ]
    for direction, message in steps[:until]:
        conversation.batch(encode_one(message), direction)
    return conversation


def send(conversation: Conversation, *fragments: Fragment) -> list[object]:
    """What each fragment completed, if anything."""
    trees = [conversation.batch(encode_one(one), I2A).tree for one in fragments]
    return [_only(tree).get("reassembled") for tree in trees]


def _only(tree: dict[str, object]) -> dict[str, object]:
    messages = tree["messages"]
    assert isinstance(messages, list)
    [message] = messages
    assert isinstance(message, dict)
    return message


def pieces(first_sn: int = 0, *, priority: int = 5, reliable: bool = True) -> list[Fragment]:
    """PUSH in three fragments."""
    octets = encode_one(PUSH)
    parts = octets[:10], octets[10:20], octets[20:]
    return [
        Fragment(first_sn + i, part, reliable, more=i < 2, priority=priority, first=i == 0)
        for i, part in enumerate(parts)
    ]


WHOLE = describe_network(PUSH)


@pytest.mark.parametrize("offers", [(True, True), (True, False), (False, True), (False, False)])
def test_compression_takes_both(offers: tuple[bool, bool]) -> None:
    conversation = shake(Conversation(), compressed=offers)
    for direction in Direction:
        assert conversation.compressed(direction) is all(offers)
        assert not conversation.low_latency(direction)


@pytest.mark.parametrize("offers", [(True, True), (True, False), (False, True), (False, False)])
def test_low_latency_takes_both(offers: tuple[bool, bool]) -> None:
    conversation = shake(Conversation(), low_latency=offers)
    assert conversation.low_latency(I2A) is all(offers)
    batch = encode_batch([PUSH, PUSH])
    if all(offers):
        seen = conversation.batch(batch, A2I)
        assert seen.tree == {"messages": [WHOLE, WHOLE]}
        assert seen.reencoded == batch
    else:
        with pytest.raises(DecodeError, match="outside a FRAME"):
            conversation.batch(batch, A2I)


@pytest.mark.parametrize(("until", "in_force"), [(1, []), (2, []), (3, [I2A]), (4, [I2A, A2I])])
def test_each_side_changes_after_its_own_open(until: int, in_force: list[Direction]) -> None:
    conversation = shake(Conversation(), compressed=(True, True), until=until)
    assert [one for one in Direction if conversation.compressed(one)] == in_force
    conversation = shake(Conversation(), low_latency=(True, True), until=until)
    assert [one for one in Direction if conversation.low_latency(one)] == in_force


def test_a_new_handshake_starts_uncompressed() -> None:
    conversation = shake(Conversation(), compressed=(True, True))
    again = compression.pack(encode_one(Init(b"\1", 2)))
    conversation.batch(again, I2A)
    assert not conversation.compressed(I2A)


def compressed_batch(data: bytes) -> Seen:
    return shake(Conversation(), compressed=(True, True)).batch(data, I2A)


def test_a_compressed_batch() -> None:
    frame = bytes.fromhex("2500") + encode_one(Push(WireExpr(1), Put(b"Z" * 300)))
    packed = compression.pack(frame)
    assert packed[0] == 1
    seen = compressed_batch(packed)
    assert seen.tree["batch_header"] == 1
    assert seen.tree["decompressed_len"] == len(frame)
    assert seen.unpacked == frame
    assert seen.reencoded == packed


def test_what_another_compressor_made_stays_as_it_is() -> None:
    # One literal run without a match: legal LZ4, twice what our own compressor makes.
    block = bytes((0xF0, 45)) + b"\x04" * 60
    assert compressed_batch(b"\x01" + block).reencoded == b"\x01" + block


def test_a_batch_that_did_not_shrink() -> None:
    seen = compressed_batch(b"\x00\x04")
    assert seen.tree == {"batch_header": 0, "messages": [{"msg": "KEEP_ALIVE"}]}
    assert seen.reencoded == b"\x00\x04"


def test_reserved_bits_of_the_batch_header_are_kept() -> None:
    seen = compressed_batch(b"\xfe\x04")
    assert seen.tree["batch_header"] == 0xFE
    assert seen.reencoded == b"\xfe\x04"


def test_changed_content_is_packed_anew() -> None:
    batch = bytes.fromhex("25 8000") + b"\x1a\x01" * 40  # a sequence number longer than need be
    seen = compressed_batch(compression.pack(batch))
    assert compression.unpack(seen.reencoded) == bytes.fromhex("25 00") + b"\x1a\x01" * 40


def test_an_empty_batch_means_nothing() -> None:
    for conversation in (Conversation(), shake(Conversation(), compressed=(True, True))):
        seen = conversation.batch(b"", I2A)
        assert seen.tree == {"messages": []}
        assert seen.reencoded == b""


def test_octets_after_init_are_shown_as_ignored() -> None:
    seen = Conversation().batch(encode_one(Init(b"\1", 2)) + b"\x04", I2A)
    assert seen.trace.notes[-1].field == "ignored"
    assert seen.trace.notes[-1].value == b"\x04"


def test_scouting() -> None:
    seen = Conversation().scouting(bytes.fromhex("010903"))
    assert seen.reencoded == bytes.fromhex("010903")
    with pytest.raises(DecodeError):
        Conversation().scouting(b"")


def test_fragments_make_a_message() -> None:
    assert send(shake(Conversation()), *pieces()) == [None, None, WHOLE]


def test_fragments_of_several_conduits_interleave() -> None:
    conversation = shake(Conversation())
    conduits = [pieces(0), pieces(7, priority=1), pieces(0, reliable=False)]
    interleaved = [fragment for step in zip(*conduits, strict=True) for fragment in step]
    assert send(conversation, *interleaved) == [None] * 6 + [WHOLE] * 3


def test_both_directions_are_apart() -> None:
    conversation = shake(Conversation())
    first, second, last = pieces()
    send(conversation, first, second)
    seen = conversation.batch(encode_one(last), A2I)
    assert "reassembled" not in _only(seen.tree)
    assert send(conversation, last) == [WHOLE]


def test_first_starts_over() -> None:
    conversation = shake(Conversation())
    assert send(conversation, *pieces()[:2], *pieces(9)) == [None] * 4 + [WHOLE]


def test_drop_discards_what_was_collected() -> None:
    conversation = shake(Conversation())
    first, second, last = pieces()
    drop = Fragment(2, b"garbage", more=True, drop=True)
    assert send(conversation, first, second, drop, last) == [None] * 4
    assert send(conversation, *pieces(3)) == [None, None, WHOLE]


@pytest.mark.parametrize(("patch", "result"), [(0, WHOLE), (1, None)])
def test_without_first_only_patch_0_begins(patch: int, result: object) -> None:
    conversation = shake(Conversation(), patch=patch)
    bare = pieces()
    bare[0].first = False
    assert send(conversation, *bare) == [None, None, result]


def test_a_missing_piece_discards_the_message() -> None:
    first, _, last = pieces()
    for conversation in (Conversation(), shake(Conversation())):
        assert send(conversation, first, last) == [None, None]
        assert send(conversation, *pieces(9)) == [None, None, WHOLE]


@pytest.mark.parametrize("modulus", [2**7, 2**14, 2**28, 2**63])
def test_sequence_numbers_wrap(modulus: int) -> None:
    wrapped = pieces(modulus - 1)
    wrapped[1].sn, wrapped[2].sn = 0, 1
    assert send(shake(Conversation()), *wrapped) == [None, None, WHOLE]


def test_a_reassembled_message_that_is_none_costs_itself_only() -> None:
    [whole] = send(Conversation(), Fragment(0, b"\x1d", first=True))
    assert whole == {"error": {"offset": 1, "reason": "key scope needs 1 octet(s), 0 remain"}}


def test_one_message_is_bounded() -> None:
    exact = len(encode_one(PUSH))
    assert send(Conversation(limits=Limits(message_len=exact)), *pieces())[-1] == WHOLE
    conversation = Conversation(limits=Limits(message_len=exact - 1))
    with pytest.raises(DecodeError, match=f"more than {exact - 1} octets"):
        send(conversation, *pieces())
    small = encode_one(Push(WireExpr(1), Put(b"")))
    assert send(conversation, Fragment(9, small, first=True)) != [None]


def test_all_unfinished_messages_are_bounded_together() -> None:
    conversation = Conversation(limits=Limits(fragments_len=25))
    send(conversation, pieces()[0], pieces(priority=1)[0])
    with pytest.raises(DecodeError, match="more than 25 octets"):
        send(conversation, pieces(priority=2)[0])
    with pytest.raises(DecodeError, match="more than 25 octets"):
        conversation.batch(encode_one(pieces()[0]), A2I)
