"""What every scheme does alike. A new scheme joins by a line in `cases.py`."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable

import pytest
from tests.link.cases import BATCHES, EVERY, NETWORKS, OVER_TCP, RELIABLE, STREAMS, UNIX
from tests.link.rig import Case, Pair, Rig, turns

from elea.errors import LinkError
from elea.link.base import READ, WRITE

MakePair = Callable[[Case], Pair]
MakeRig = Callable[[Case], Rig]

every = pytest.mark.parametrize("case", EVERY, ids=str)
networks = pytest.mark.parametrize("case", NETWORKS, ids=str)
reliable = pytest.mark.parametrize("case", RELIABLE, ids=str)
streams = pytest.mark.parametrize("case", STREAMS, ids=str)
batches = pytest.mark.parametrize("case", BATCHES, ids=str)


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
    data = bytes(range(251)) * 80_000  # far beyond what two socket buffers hold
    sent = 0
    while taken := ends.near.write([data[sent : sent + 50_000], data[sent + 50_000 :]]):
        sent += taken
    assert 0 < sent < len(data)
    assert ends.read(ends.far, sent) == data[:sent]
    ends.turn(ends.near)
    ends.write(ends.near, b"more")
    assert ends.read(ends.far, 4) == b"more"


@batches
def test_one_buffer_is_one_batch(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    assert ends.read(ends.far, len(case.hello)) == case.hello
    largest = bytes(range(256)) * (ends.near.info.batch_len_max // 256)
    for batch in (b"a", b"bc", largest):
        assert ends.near.write([batch]) == len(batch)
        assert ends.next(ends.far) == batch
        assert ends.far.write([batch]) == len(batch)
        assert ends.next(ends.near) == batch
    assert ends.near.write([b"one", b"", b"two", b"three"]) == 11
    assert [ends.next(ends.far) for _ in range(3)] == [b"one", b"two", b"three"]
    assert ends.far.read(100) is None


@pytest.mark.parametrize("case", [case for case in BATCHES if case in RELIABLE], ids=str)
def test_batches_are_taken_whole_or_not_at_all(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    batches = [bytes([number]) * 60_000 for number in range(200)]
    sent = 0
    while ends.near.write([batches[sent]]):
        sent += 1
    assert 1 < sent < len(batches)
    assert ends.near.wants(False) & WRITE  # its own rest has to go first
    for number in range(sent):
        assert ends.next(ends.far) == batches[number]
        ends.near.write([])
    ends.write(ends.near, b"more")
    assert ends.next(ends.far) == b"more"


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


@reliable
def test_the_end_comes_after_the_last_octet(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    ends.write(ends.near, b"last ")
    ends.write(ends.near, b"words")
    ends.near.close()
    assert ends.read(ends.far, 100) == b"last words"
    assert ends.next(ends.far) == b""
    assert ends.far.read(10) == b""


@reliable
def test_the_other_end_may_close_just_as_well(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    ends.write(ends.near, b"unread")
    ends.write(ends.far, b"answer")
    ends.far.close()
    assert ends.read(ends.near, 6) == b"answer"
    assert ends.next(ends.near) == b""


@every
def test_closing_twice_and_using_a_closed_link(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    ends.near.close()
    ends.near.close()
    assert ends.near.fileno() == -1
    with pytest.raises(LinkError):
        ends.near.write([b"x"])


@reliable
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


@pytest.mark.parametrize("case", OVER_TCP, ids=str)
def test_a_reset_is_an_error_that_says_what_to_do(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    with socket.socket(fileno=os.dup(ends.far.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    ends.far.abort()
    with pytest.raises(LinkError, match="its log tells why"):
        ends.next(ends.near)


@networks
def test_what_is_known_about_a_link(case: Case, pair: MakePair) -> None:
    ends = pair(case)
    near, far = ends.near.info, ends.far.info
    assert near.scheme == far.scheme == near.remote.protocol == ends.listener.locator.protocol
    assert near.remote.address == ends.listener.locator.address
    if case is not UNIX:  # where the connecting end has no name
        assert far.remote.address == near.local.address
    assert near.stream == far.stream == (case in STREAMS)
    assert 1_024 < near.batch_len_max <= 65_535
    assert near.mtu == near.batch_len_max
    if near.remote.address.startswith(("127.0.0.1", "[::1]")):
        assert near.interfaces == far.interfaces == ("lo",)


@networks
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


@networks
def test_several_connections_to_one_listener_do_not_mix(case: Case, rig: MakeRig) -> None:
    one = rig(case)
    listener = one.listen()
    pairs = []
    for _ in range(5):
        near, far = one.meet(listener, one.dial(listener))
        pairs.append(Pair(one, listener, near, far))
    for number, ends in enumerate(pairs):
        assert ends.read(ends.far, len(case.hello)) == case.hello
        ends.write(ends.near, b"%d" % number)
    for number, ends in reversed(list(enumerate(pairs))):
        assert ends.read(ends.far, 1) == b"%d" % number
    assert len({ends.far.info.remote for ends in pairs}) == 5
