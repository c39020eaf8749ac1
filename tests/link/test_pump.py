"""LinkPump, over socket pairs, on both pollers."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from tests.link.loops import Loop
from tests.link.rig import turns

from elea.errors import LimitError, LinkError
from elea.fast.intake import MORE
from elea.limits import DEFAULT_LIMITS, Limits
from elea.link.base import READ, WRITE, Buffer
from elea.link.memory import memory_pair
from elea.link.pump import CLOSED_HERE, PEER_CLOSED, LinkPump
from elea.link.socket_queue import unsent_len
from elea.link.stream import StreamLink
from elea.locator import Locator

BLOCK = bytes(range(256)) * 64


class End:
    """A pump and what it told."""

    def __init__(self, loop: Loop, link: StreamLink, limits: Limits = DEFAULT_LIMITS) -> None:
        self.data: list[bytes] = []
        self.times: list[int] = []
        self.closed: list[str] = []
        self.drained = 0
        self.inside: list[bool] = []
        self._loop = loop
        self.pump = LinkPump(
            link,
            loop.poller,
            on_data=self._on_data,
            on_closed=self._on_closed,
            on_drained=self._on_drained,
            limits=limits,
        )

    @property
    def received(self) -> bytes:
        return b"".join(self.data)

    def _on_data(self, data: bytes, now_ns: int) -> None:
        self.data.append(data)
        self.times.append(now_ns)
        self.inside.append(self._loop.poller.in_loop())

    def _on_closed(self, reason: str) -> None:
        self.closed.append(reason)
        self.inside.append(self._loop.poller.in_loop())

    def _on_drained(self) -> None:
        self.drained += 1
        self.inside.append(self._loop.poller.in_loop())


@pytest.fixture
def links() -> Iterator[tuple[StreamLink, StreamLink]]:
    one, other = memory_pair(Locator("memory/one"), Locator("memory/other"))
    yield one, other
    one.close()
    other.close()


Links = tuple[StreamLink, StreamLink]


def fill(end: End) -> int:
    """Send until octets wait; how many were sent."""
    sent = len(BLOCK)
    while not end.pump.send([BLOCK]):
        sent += len(BLOCK)
    return sent


def test_octets_are_delivered_on_the_loop_with_the_time(loop: Loop, links: Links) -> None:
    one, other = (End(loop, link) for link in links)
    one.pump.start()
    other.pump.start()
    assert one.pump.send([b"hello, ", b"world"]) == 0
    loop.until(lambda: other.received == b"hello, world")
    other.pump.send([b"back"])
    loop.until(lambda: one.received == b"back")
    assert all(one.inside + other.inside)
    assert other.times == sorted(other.times)
    assert other.times[0] > 0


def test_who_is_not_done_is_called_again_and_nothing_is_read_before(
    loop: Loop, links: Links
) -> None:
    one, other = (End(loop, link) for link in links)
    left = [3, 2]  # turns that each read takes
    calls: list[bytes] = []

    def on_data(data: bytes, now_ns: int) -> int:
        calls.append(data)
        if not left:
            return 0
        left[0] -= 1
        if left[0]:
            return MORE
        del left[0]
        return 0

    other.pump.on_data = on_data
    one.pump.start()
    other.pump.start()
    one.pump.send([b"first"])
    loop.until(lambda: bool(calls))
    one.pump.send([b"second"])
    one.pump.close(drain=True)
    loop.until(lambda: bool(other.closed))
    assert calls == [b"first", b"", b"", b"second", b""]
    assert other.closed == [PEER_CLOSED]


def test_what_the_link_does_not_take_waits_and_then_goes(loop: Loop, links: Links) -> None:
    one, other = (End(loop, link) for link in links)
    one.pump.start()
    sent = fill(one)
    assert one.pump.queued_len > 0
    assert one.pump.send([BLOCK, b"tail"]) == one.pump.queued_len
    sent += len(BLOCK) + 4
    other.pump.start()
    loop.until(lambda: len(other.received) == sent and one.drained == 1)
    assert other.received == BLOCK * (sent // len(BLOCK)) + b"tail"
    assert one.pump.queued_len == 0
    assert one.pump.send([b"direct again"]) == 0


def test_empty_buffers_mean_nothing_and_do_not_wait(loop: Loop, links: Links) -> None:
    one, other = (End(loop, link) for link in links)
    one.pump.start()
    assert one.pump.send([b""]) == 0
    sent = fill(one)
    one.pump.send([b"", b"end", b""])
    one.pump.send([b""])
    other.pump.start()
    loop.until(lambda: one.drained == 1)
    loop.until(lambda: len(other.received) == sent + 3)


def test_the_queue_has_a_bound(loop: Loop, links: Links) -> None:
    one = End(loop, links[0], replace(DEFAULT_LIMITS, link_queue_len=3 * len(BLOCK)))
    one.pump.start()
    fill(one)
    before = one.pump.queued_len
    with pytest.raises(LimitError, match="link_queue_len"):
        one.pump.send([BLOCK] * 3)
    assert one.pump.queued_len == before


def test_threads_that_send_at_once_do_not_cut_into_each_other(loop: Loop, links: Links) -> None:
    one, other = (End(loop, link) for link in links)
    one.pump.start()
    other.pump.start()
    per_thread, threads = 300, 4

    def work(mark: int) -> None:
        for number in range(per_thread):
            text = b"%d:%06d;" % (mark, number)
            one.pump.send([text[:4], text[4:]])

    workers = [threading.Thread(target=work, args=(mark,)) for mark in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    loop.until(lambda: other.received.count(b";") == per_thread * threads)
    parts = other.received.split(b";")[:-1]
    for mark in range(threads):
        own = [part for part in parts if part.startswith(b"%d:" % mark)]
        assert own == [b"%d:%06d" % (mark, number) for number in range(per_thread)]


def test_the_end_of_the_peer_is_told_once(loop: Loop, links: Links) -> None:
    one = End(loop, links[0])
    one.pump.start()
    links[1].write([b"bye"])
    links[1].close()
    loop.until(lambda: bool(one.closed))
    loop.run(one.pump.close)
    loop.run(lambda: None)
    assert one.received == b"bye"
    assert one.closed == [PEER_CLOSED]
    assert all(one.inside)
    assert one.pump.send([b"late"]) == 0
    assert links[0].fileno() == -1


def test_an_error_while_sending_is_told_on_the_loop(loop: Loop, links: Links) -> None:
    one = End(loop, links[0])
    links[1].abort()
    assert one.pump.send([b"x"]) == 0  # not even started: the end is told all the same
    assert one.closed == []
    loop.until(lambda: bool(one.closed))
    assert "write to memory/other" in one.closed[0]


@pytest.fixture
def reset(links: Links) -> Iterator[StreamLink]:
    """A link whose peer sent a lot, closed with data unread, and so reset the connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    link = StreamLink(accepted, links[0].info)
    for _ in range(4):
        peer.sendall(BLOCK)
    accepted.send(b"never read")
    peer.close()
    yield link
    link.close()


@pytest.mark.parametrize("paused", [False, True])
def test_what_arrived_before_a_write_failed_is_read(
    paused: bool, loop: Loop, reset: StreamLink
) -> None:
    limits = replace(DEFAULT_LIMITS, link_turn_len=4_096, link_read_len=1_024)
    one = End(loop, reset, limits)
    one.pump.pause_reading()
    one.pump.start()
    while not one.pump._broken:  # the first write may be what the peer answers with a reset
        one.pump.send([b"x"])
    if paused:  # a neighbour that is read more slowly loses nothing either
        loop.run(lambda: None)
        assert not one.closed
    one.pump.resume_reading()
    loop.until(lambda: bool(one.closed))
    assert one.received == 4 * BLOCK
    assert "write to" in one.closed[0]
    assert one.pump.send([b"late"]) == 0


def test_close_drops_what_waits_and_drain_does_not(loop: Loop, links: Links) -> None:
    one, other = (End(loop, link) for link in links)
    one.pump.start()
    sent = fill(one)
    one.pump.close("enough", drain=True)
    assert one.pump.send([b"too late"]) == 0
    loop.run(lambda: None)
    assert one.closed == []
    other.pump.start()
    loop.until(lambda: bool(one.closed) and bool(other.closed))
    assert one.closed == ["enough"]
    assert other.closed == [PEER_CLOSED]
    assert len(other.received) == sent


def test_a_link_that_closes_lets_the_peer_read_everything(loop: Loop, links: Links) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname())
        accepted, _ = server.accept()
    with peer:
        one = End(loop, StreamLink(accepted, links[0].info))
        one.pump.start()
        sent = fill(one)  # more than the system takes, as the peer does not read
        one.pump.pause_reading()
        one.pump.close("enough", drain=True)
        peer.settimeout(60)

        def read_all() -> None:
            received = 0
            while received < sent:
                peer.sendall(b"x" * 512)  # on its way to a link that ends: it must not reset it
                received += len(peer.recv(len(BLOCK)))
            ends.append(peer.recv(1))

        ends: list[bytes] = []
        reader = threading.Thread(target=read_all)
        reader.start()
        loop.until(lambda: not reader.is_alive())
        assert ends == [b""]
        loop.run(lambda: None)
        assert one.closed == []  # as long as the peer may have unread data of it
    loop.until(lambda: one.closed == ["enough"])


def test_a_peer_that_does_not_close_is_not_waited_for_for_ever(loop: Loop, links: Links) -> None:
    one = End(loop, links[0])
    one.pump.start()
    one.pump.close("enough", drain=True)
    loop.run(lambda: None)
    assert one.closed == []
    one.pump.close("enough")
    loop.until(lambda: one.closed == ["enough"])


class Holding(StreamLink):
    """Takes everything, and passes it on one octet per write: as TLS may hold a whole record."""

    __slots__ = ("held",)

    def __init__(self, link: StreamLink) -> None:
        super().__init__(link._socket, link.info)
        self.held = bytearray()

    def wants(self, writing: bool) -> int:
        return super().wants(writing or bool(self.held))

    def write(self, buffers: Sequence[Buffer]) -> int:
        for buffer in buffers:
            self.held += buffer
        if self.held:
            super().write([bytes(self.held[:1])])
            del self.held[:1]
        return sum(map(len, buffers))


def test_what_waits_before_the_start_is_written_after_it(loop: Loop, links: Links) -> None:
    one, other = (End(loop, link) for link in links)
    sent = fill(one)
    other.pump.start()
    loop.run(lambda: None)
    one.pump.start()
    loop.until(lambda: len(other.received) == sent)


class Crossed(StreamLink):
    """Must read before it can write, then write before it can read: as TLS when keys change."""

    __slots__ = ("may_read", "may_write")

    def __init__(self, link: StreamLink) -> None:
        super().__init__(link._socket, link.info)
        self.may_read = True
        self.may_write = False

    def wants(self, writing: bool) -> int:
        wanted = READ if self.may_read else WRITE
        if writing:
            wanted |= WRITE if self.may_write else READ
        return wanted

    def read(self, limit: int) -> bytes | None:
        if not self.may_read:
            self.may_read = True
            return None
        data = super().read(1)
        if data == b"k":  # the key: writing is possible, and has to come before the next read
            self.may_write, self.may_read = True, False
        return data

    def write(self, buffers: Sequence[Buffer]) -> int:
        return super().write(buffers) if self.may_write else 0


def test_a_link_may_read_to_write_and_write_to_read(loop: Loop, links: Links) -> None:
    crossed = Crossed(links[0])
    one, other = End(loop, crossed), End(loop, links[1])
    one.pump.start()
    other.pump.start()
    assert one.pump.send([b"at last"]) == 7
    loop.run(lambda: None)
    assert other.received == b""
    other.pump.send([b"k"])
    loop.until(lambda: other.received == b"at last")
    other.pump.send([b"rest"])
    loop.until(lambda: one.received == b"krest")


def test_a_link_that_breaks_while_it_is_read_or_written(loop: Loop, links: Links) -> None:
    class Broken(StreamLink):
        """Takes nothing at first, then fails."""

        __slots__ = ("fails",)

        def write(self, buffers: Sequence[Buffer]) -> int:
            if getattr(self, "fails", False):
                raise LinkError("the cable was cut")
            self.fails = True
            return 0

        def read(self, limit: int) -> bytes | None:
            raise LinkError("the cable was cut")

    writing = End(loop, Broken(links[0]._socket, links[0].info))
    writing.pump.start()
    writing.pump.send([b"x"])
    loop.until(lambda: writing.closed == ["the cable was cut"])
    reading = End(loop, Broken(links[1]._socket, links[1].info))
    reading.pump.start()
    loop.until(lambda: reading.closed == ["the cable was cut"])


@pytest.mark.parametrize("drain", [True, False])
def test_what_the_link_itself_holds_is_written_too(drain: bool, loop: Loop, links: Links) -> None:
    one, other = End(loop, Holding(links[0])), End(loop, links[1])
    one.pump.start()
    other.pump.start()
    assert one.pump.send([b"one octet ", b"at a time"]) == 0
    if drain:
        one.pump.close(drain=True)
        loop.until(lambda: bool(other.closed))
    loop.until(lambda: other.received == b"one octet at a time")


def test_a_second_close_ends_the_draining(loop: Loop, links: Links) -> None:
    one = End(loop, links[0])
    one.pump.start()
    fill(one)
    one.pump.close(drain=True)
    one.pump.close()
    loop.until(lambda: one.closed == [CLOSED_HERE])
    assert one.pump.queued_len == 0


def test_close_inside_a_callback(loop: Loop, links: Links) -> None:
    one = End(loop, links[0])
    one.pump.on_data = lambda data, now_ns: one.pump.close("seen")
    one.pump.start()
    links[1].write([b"x"])
    loop.until(lambda: one.closed == ["seen"])


def test_an_error_in_on_data_closes_the_link_and_is_reported(loop: Loop, links: Links) -> None:
    one = End(loop, links[0])

    def fail(data: bytes, now_ns: int) -> None:
        raise RuntimeError("not understood")

    one.pump.on_data = fail
    one.pump.start()
    links[1].write([b"x"])
    loop.until(lambda: bool(one.closed))
    assert [str(error) for error in loop.errors] == ["not understood"]
    assert "internal error" in one.closed[0]


def test_a_paused_reader_holds_the_peer_up(loop: Loop, links: Links) -> None:
    one, other = (End(loop, link) for link in links)
    one.pump.start()
    other.pump.start()
    other.pump.pause_reading()
    sent = fill(one)
    loop.run(lambda: None)
    assert other.data == []
    assert one.pump.queued_len > 0
    other.pump.resume_reading()
    loop.until(lambda: len(other.received) == sent)


def test_one_link_does_not_keep_the_others_from_being_read(loop: Loop, links: Links) -> None:
    one, other = (End(loop, link) for link in links)
    quiet, voice = memory_pair(Locator("memory/quiet"), Locator("memory/voice"))
    heard = End(loop, quiet)
    one.pump.start()
    heard.pump.start()
    flooding = True

    def flood(data: bytes, now_ns: int) -> None:  # keeps its own link readable for ever
        if flooding:
            one.pump.send([BLOCK])

    other.pump.on_data = flood
    fill(one)
    other.pump.start()
    voice.write([b"me too"])
    loop.until(lambda: heard.received == b"me too")
    flooding = False
    voice.close()
    heard.pump.close()
    loop.until(lambda: bool(heard.closed))


def test_abort_is_silent_and_ignores_a_lock_that_is_held(loop: Loop, links: Links) -> None:
    one = End(loop, links[0])
    one.pump._lock.acquire()
    one.pump.abort()
    assert links[0].fileno() == -1
    assert one.pump.send([b"x"]) == 0
    assert one.closed == []
    for _ in turns():
        if links[1].read(10) == b"":
            break


def test_closing_after_the_poller_has_stopped_gives_up_the_descriptor(
    loop: Loop, links: Links
) -> None:
    one = End(loop, links[0])
    one.pump.start()
    loop.run(lambda: None)
    loop.poller.stop()
    one.pump.close()
    assert links[0].fileno() == -1


def test_it_tells_whether_the_other_end_takes_something() -> None:
    """Of what the system holds for a socket it knows as well: small reads tell no loop of room."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    with near, far:
        near.setblocking(False)
        with suppress(BlockingIOError):
            while True:
                near.send(bytes(65_536))
        held = unsent_len(near.fileno())
        assert held > 0
        deadline_s = time.monotonic() + 20
        while unsent_len(near.fileno()) == held and time.monotonic() < deadline_s:
            far.recv(65_536)
        assert unsent_len(near.fileno()) < held
    assert unsent_len(-1) == 0


def test_a_pump_has_moved_when_its_link_took_something(loop: Loop, links: Links) -> None:
    one, other = End(loop, links[0]), End(loop, links[1])
    one.pump.start()
    fill(one)
    assert one.pump.has_moved()
    assert not one.pump.has_moved()
    other.pump.start()
    loop.until(lambda: one.pump.queued_len == 0)
    assert one.pump.has_moved()
