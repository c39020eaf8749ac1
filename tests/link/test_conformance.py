"""What every scheme does alike. A new scheme joins by a line in `cases.py`."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable

import pytest
from tests.link.cases import EVERY, RESETTABLE, STREAMS
from tests.link.rig import Case, Pair, Rig, turns

from elea.errors import LinkError
from elea.link.base import READ, WRITE

MakePair = Callable[[Case], Pair]
MakeRig = Callable[[Case], Rig]

every = pytest.mark.parametrize("case", EVERY, ids=str)
streams = pytest.mark.parametrize("case", STREAMS, ids=str)


@every
def test_octets_go_both_ways(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    assert ends.read(ends.far, len(case.hello)) == case.hello
    ends.write(ends.near, b"ping")
    assert ends.read(ends.far, 4) == b"ping"
    ends.write(ends.far, b"pong!")
    assert ends.read(ends.near, 5) == b"pong!"


@every
def test_nothing_to_read_is_none_and_not_the_end(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    assert ends.near.read(100) is None
    ends.read(ends.far, len(case.hello))
    assert ends.far.read(100) is None
    assert ends.near.wants(False) & READ
    assert ends.near.wants(True) & (READ | WRITE) == READ | WRITE


@every
def test_many_small_writes_keep_their_order(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    ends.read(ends.far, len(case.hello))
    pieces = [b"%05d" % number for number in range(2_000)]
    for start in range(0, len(pieces), 20):
        # One write of many buffers and many writes of one, with the reader never far behind.
        batch = pieces[start : start + 10]
        assert ends.near.write(batch) == sum(map(len, batch))
        for piece in pieces[start + 10 : start + 20]:
            ends.write(ends.near, piece)
        expected = b"".join(pieces[start : start + 20])
        assert ends.read(ends.far, len(expected)) == expected


@streams
def test_a_slow_reader_holds_the_writer_up_and_loses_nothing(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    block = bytes(range(256)) * 256
    sent = 0
    refused = False
    for _ in range(2_000):  # far beyond what two socket buffers hold
        taken = ends.near.write([block, block])
        sent += taken
        if taken < 2 * len(block):
            refused = ends.near.write([block[taken % len(block) :]]) == 0
            break
    assert refused
    got = ends.read(ends.far, sent)
    assert got == (block * (sent // len(block) + 1))[:sent]
    ends.turn(ends.near)
    ends.write(ends.near, b"more")
    assert ends.read(ends.far, 4) == b"more"


@streams
def test_a_large_transfer_arrives_whole(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    data = bytes(range(251)) * 40_000
    left = memoryview(data)
    got = bytearray()
    for _ in turns():
        if left:
            left = left[ends.near.write([left[:100_000]]) :]
        piece = ends.far.read(65_536)
        if piece is None:
            ends.turn(*([ends.near] if left else []))
        else:
            got += piece
        if len(got) == len(data):
            break
    assert bytes(got) == data


@streams
def test_the_end_comes_after_the_last_octet(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    ends.write(ends.near, b"last words")
    ends.near.close()
    assert ends.read(ends.far, 100) == b"last words"
    assert ends.next(ends.far) == b""
    assert ends.far.read(10) == b""


@every
def test_closing_twice_and_using_a_closed_link(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    ends.near.close()
    ends.near.close()
    assert ends.near.fileno() == -1
    with pytest.raises(LinkError):
        ends.near.write([b"x"])


@streams
def test_closing_while_the_peer_writes_gives_it_an_error(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    block = b"x" * 65_536
    while ends.near.write([block]):
        pass
    ends.far.abort()

    def go_on() -> None:
        for _ in turns():
            ends.near.write([block])
            ends.near.read(65_536)
            ends.turn(ends.near)

    with pytest.raises(LinkError, match=r"write to|read from"):
        go_on()


@pytest.mark.parametrize("case", RESETTABLE, ids=str)
def test_a_reset_is_an_error_that_says_what_to_do(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    with socket.socket(fileno=os.dup(ends.far.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ends.far.abort()
    with pytest.raises(LinkError, match="its log tells why"):
        ends.next(ends.near)


@every
def test_what_is_known_about_a_link(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    near, far = ends.near.info, ends.far.info
    assert near.scheme == far.scheme == near.remote.protocol == ends.listener.locator.protocol
    assert near.remote.address == ends.listener.locator.address
    assert far.remote.address == near.local.address
    assert near.stream == far.stream == (case in STREAMS)
    assert 1_024 < near.batch_len_max <= 65_535
    assert near.mtu == near.batch_len_max
    if near.remote.address.startswith(("127.0.0.1", "[::1]")):
        assert near.interfaces == far.interfaces == ("lo",)


@every
def test_a_listener_that_is_closed_is_not_found(case: Case, rig: MakeRig) -> None:
    one = rig(case)
    listener = one.listen()
    locator = listener.locator
    listener.close()

    def connect() -> None:
        dialled = one.dial(listener)
        for _ in turns():
            link = dialled.step()
            if link is not None:  # where there is no connection, the first answer is the refusal
                link.write([case.hello])
                link.read(10)

    with pytest.raises(LinkError) as caught:
        connect()
    assert str(locator) in str(caught.value)
    assert "listen" in str(caught.value)


@streams
def test_several_connections_to_one_listener_do_not_mix(case: Case, rig: MakeRig) -> None:
    one = rig(case)
    listener = one.listen()
    pairs = []
    for _ in range(5):
        near, far = one.meet(listener, one.dial(listener))
        pairs.append(Pair(one, listener, near, far))
    for number, ends in enumerate(pairs):
        ends.write(ends.near, b"%d" % number)
    for number, ends in reversed(list(enumerate(pairs))):
        assert ends.read(ends.far, 1) == b"%d" % number
    assert len({ends.far.info.remote for ends in pairs}) == 5
