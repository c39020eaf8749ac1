"""A sample that is read in place is the one that the general decoder makes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests import strategies

from elea.errors import DecodeError
from elea.fast.plain import PlainPush
from elea.wire.buffer import Reader, Writer
from elea.wire.codec import decode_network
from elea.wire.data.put import Put
from elea.wire.data.put import encode as encode_put
from elea.wire.fields import Stamp, WireEncoding, WireExpr
from elea.wire.network.push import Push, encode
from elea.wire.shared_extensions import SourceRef

TAIL = bytes(64)  # what follows in a frame


def octets_of(push: Push) -> bytes:
    writer = Writer()
    encode(writer, push)
    return writer.to_bytes()


def octets_of_put(put: Put) -> bytes:
    writer = Writer()
    encode_put(writer, put)
    return writer.to_bytes()


def as_push(plain: PlainPush) -> Push:
    put = Put(plain.payload(), plain.stamp(), plain.encoding, plain.attachment(), plain.source())
    key = WireExpr(plain.scope, plain.suffix().decode(), plain.sender)
    return Push(key, put, plain.qos, None, plain.node_id)


@given(push=strategies.pushes())
def test_plain_samples_are_read_as_the_decoder_reads_them(push: Push) -> None:
    octets = octets_of(push)
    plain = PlainPush()
    after = plain.read(octets + TAIL, 0, len(octets) + len(TAIL))
    if after >= 0:
        assert after == len(octets)
        assert as_push(plain) == push


@given(push=strategies.pushes(), data=st.data())
def test_nothing_is_read_in_place_that_the_decoder_refuses(push: Push, data: st.DataObject) -> None:
    octets = bytearray(octets_of(push) + TAIL)
    for _ in range(data.draw(st.integers(1, 4))):
        octets[data.draw(st.integers(0, len(octets) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(octets)))
    wrong = bytes(octets[:cut])
    plain = PlainPush()
    after = plain.read(wrong, 0, len(wrong))
    if after < 0:
        return
    reader = Reader(wrong)
    try:
        plain.suffix().decode()
    except UnicodeDecodeError:  # it has no route: the text of a key is looked up as it is
        with pytest.raises(DecodeError, match="UTF-8"):
            decode_network(reader)
        return
    message = decode_network(reader)
    assert reader.pos == after
    assert isinstance(message, Push)
    found = as_push(plain)
    assert found == message


@pytest.mark.parametrize(
    "put",
    [
        Put(b""),
        Put(bytes(8)),
        Put(bytes(200)),
        Put(bytes(70_000)),
        Put(b"1", Stamp(7, b"\x01")),
        Put(b"1", Stamp(0xFFFF_FFFF_FFFF_FFFF, bytes(range(1, 17)))),
        Put(b"1", None, WireEncoding(5)),
        Put(b"1", None, WireEncoding(5, b"schema")),
        Put(b"1", None, None, b"attached"),
        Put(b"1", None, None, b""),
        Put(b"1", None, None, None, SourceRef(b"\x07", 3, 9)),
        Put(b"1", Stamp(1, b"\x01"), WireEncoding(1), b"a", SourceRef(b"\x07", 300, 1 << 31)),
    ],
)
@pytest.mark.parametrize("key", [WireExpr(3), WireExpr(300, "/x"), WireExpr(0, "a" * 200)])
@pytest.mark.parametrize("qos", [0x05, 0x1D])
@pytest.mark.parametrize("node_id", [0, 9])
def test_what_samples_look_like_is_plain(put: Put, key: WireExpr, qos: int, node_id: int) -> None:
    push = Push(key, put, qos, None, node_id)
    octets = octets_of(push)
    plain = PlainPush()
    assert plain.read(octets + TAIL, 0, len(octets) + len(TAIL)) == len(octets)
    assert as_push(plain) == push
    lazy = plain.lazy_stamp()
    assert (None if lazy is None else Stamp(lazy.time, lazy.id)) == put.timestamp
    body = octets_of_put(put)
    assert octets[plain.body_start :] == body
    assert plain.body_header == body[0]
    bare = Put(put.payload, None, put.encoding, put.attachment, put.source)
    assert octets[plain.rest_start :] == octets_of_put(bare)[1:]


@pytest.mark.parametrize("put", [Put(b""), Put(b"1234", Stamp(1 << 60, b"\x01"), WireEncoding(5))])
def test_the_last_sample_of_a_batch_is_plain_too(put: Put) -> None:
    for push in (Push(WireExpr(3), put), Push(WireExpr(3), put, 0x0D, None, 2)):
        octets = octets_of(push)
        plain = PlainPush()
        assert plain.read(octets, 0, len(octets)) == len(octets)
        assert as_push(plain) == push
        for cut in range(len(octets)):
            assert plain.read(octets[:cut], 0, cut) < 0


@given(pushes=st.lists(strategies.pushes(), max_size=5))
@example(pushes=[Push(WireExpr(1), Put(b"x", Stamp(1, b"\x01"))), Push(WireExpr(1), Put(b"y"))])
def test_nothing_of_one_sample_is_left_in_the_next(pushes: list[Push]) -> None:
    plain = PlainPush()
    for push in pushes:
        octets = octets_of(push)
        if plain.read(octets + TAIL, 0, len(octets) + len(TAIL)) >= 0:
            assert as_push(plain) == push
