"""Reception: what a batch of an established conversation may hold, and what it may not."""

from __future__ import annotations

import pytest
from tests.pairs import Collector
from tests.unit.transport.messages import put

from elea.errors import DecodeError, ProtocolError, RemoteProtocolError
from elea.limits import DEFAULT_LIMITS
from elea.transport.reassembly import Reassembly
from elea.transport.receive import Reception
from elea.transport.sequence import Received
from elea.transport.stats import TransportStats
from elea.wire.batches import encode_batch
from elea.wire.buffer import Reader
from elea.wire.codec import NETWORK_ID_MIN, Message, decode_network, encode_one
from elea.wire.transport.close import Close, CloseReason
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import Frame
from elea.wire.transport.init import Init
from elea.wire.transport.join import Join, NextSn
from elea.wire.transport.keepalive import KeepAlive
from elea.wire.transport.oam import TransportOam
from elea.wire.transport.open import Open

MASK = 0x7F


class Bench:
    """A Reception that expects number 0 on every conduit."""

    def __init__(self, *, qos: bool = True, bare: bool = False, patch: int = 1) -> None:
        self.stats = TransportStats()
        self.sink = Collector()
        self.rx = Reception(
            numbers=Received(MASK, 0),
            reassembly=Reassembly(mask=MASK, patch=patch, limits=DEFAULT_LIMITS, stats=self.stats),
            qos=qos,
            bare=bare,
            limits=DEFAULT_LIMITS,
            stats=self.stats,
        )

    def take(self, *messages: Message) -> Close | None:
        return self.rx.batch(encode_batch(messages), self.sink, 0)

    def got(self) -> list[bytes]:
        """The payloads that arrived."""
        return [message.body.payload for message in self.sink.messages]  # type: ignore[union-attr]


def test_frames_and_keep_alives_in_one_batch() -> None:
    bench = Bench()
    closed = bench.take(
        Frame(0), put(b"1"), put(b"2"), KeepAlive(), Frame(0, reliable=False), put(b"3"),
        Frame(1), put(b"4"), Frame(0, priority=7), put(b"5"), KeepAlive(),
    )  # fmt: skip
    assert closed is None
    assert bench.got() == [b"1", b"2", b"3", b"4", b"5"]
    conduits = [(priority, reliable) for _, priority, reliable in bench.sink.got]
    assert conduits == [(5, True), (5, True), (5, False), (5, True), (7, True)]
    assert bench.stats.received_frames == 4


def test_an_empty_batch_means_nothing() -> None:
    assert Bench().rx.batch(b"", Collector(), 0) is None


def test_a_gap_is_accepted_an_old_number_is_dropped_and_the_rest_of_the_batch_is_read() -> None:
    bench = Bench()
    bench.take(Frame(5), put(b"5"))
    bench.take(Frame(5), put(b"again"), put(b"again"), Frame(4), put(b"old"), Frame(6), put(b"6"))
    assert bench.got() == [b"5", b"6"]
    assert bench.stats.stale_frames == 2


def test_a_stale_frame_must_still_be_legal() -> None:
    bench = Bench()
    bench.take(Frame(5))
    with pytest.raises(DecodeError):
        bench.rx.batch(encode_one(Frame(5)) + b"\x1d", bench.sink, 0)


@pytest.mark.parametrize("message", [Frame(0x80), Fragment(0x80, b"x", first=True)])
def test_a_number_above_the_mask_ends_the_link(message: Frame | Fragment) -> None:
    with pytest.raises(RemoteProtocolError, match="127"):
        Bench().take(message)


@pytest.mark.parametrize(
    "message", [Frame(0, priority=0), Fragment(0, b"x", first=True, priority=7)]
)
def test_a_priority_without_qos_ends_the_link(message: Frame | Fragment) -> None:
    with pytest.raises(RemoteProtocolError, match="without QoS"):
        Bench(qos=False).take(message)


def test_an_explicit_default_priority_is_legal_without_qos() -> None:
    bench = Bench(qos=False)
    bench.rx.batch(bytes.fromhex("a5003105") + encode_one(put(b"x")), bench.sink, 0)
    assert bench.got() == [b"x"]


@pytest.mark.parametrize(
    "message",
    [
        TransportOam(3, b"body"),
        Join(b"\x0a", 1, 10, NextSn(0, 0)),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_without_meaning_here_are_skipped(message: TransportOam | Join) -> None:
    bench = Bench()
    bench.take(message, Frame(0), put(b"x"))
    assert bench.got() == [b"x"]


@pytest.mark.parametrize("message", [Init(b"\x0a", 1), Open(10, 0)])
def test_init_and_open_are_ignored_with_what_follows_them(message: Init | Open) -> None:
    bench = Bench()
    assert bench.take(message, Frame(0), put(b"x")) is None
    assert bench.got() == []


def test_everything_after_close_is_ignored() -> None:
    bench = Bench()
    closed = bench.rx.batch(
        encode_batch([Frame(0), put(b"x"), Close(CloseReason.GENERIC, True)]) + b"\xff",
        bench.sink,
        0,
    )
    assert closed == Close(CloseReason.GENERIC, True)
    assert bench.got() == [b"x"]


def test_a_network_message_outside_a_frame_ends_the_link() -> None:
    with pytest.raises(DecodeError, match="outside a FRAME"):
        Bench().take(put())


@pytest.mark.parametrize("octets", ["ff", "05", "05001d", "050018", "1f", "06", "0a", "08"])
def test_garbage_ends_the_link(octets: str) -> None:
    bench = Bench()
    with pytest.raises(ProtocolError):
        bench.rx.batch(bytes.fromhex(octets), bench.sink, 0)


def test_fragments_become_one_message() -> None:
    bench = Bench()
    data = encode_one(put(b"x" * 100))
    bench.take(Fragment(0, data[:50], more=True, first=True, priority=6))
    bench.take(Frame(0, priority=1), put(b"between"))
    bench.take(Fragment(1, data[50:] + b"trailing octets mean nothing", priority=6))
    assert bench.got() == [b"between", b"x" * 100]
    assert bench.sink.got[1][1:] == (6, True)


def test_a_frame_between_two_fragments_of_its_conduit_kills_the_message() -> None:
    bench = Bench()
    data = encode_one(put(b"x" * 100))
    bench.take(Fragment(0, data[:50], more=True, first=True))
    bench.take(Frame(1), put(b"between"))
    bench.take(Fragment(2, data[50:]))
    bench.take(Fragment(3, data, first=True))
    assert bench.got() == [b"between", b"x" * 100]


def test_a_duplicated_fragment_does_no_harm() -> None:
    bench = Bench()
    data = encode_one(put(b"x" * 100))
    for sn, more in ((0, True), (0, True), (1, True), (1, True), (2, False)):
        bench.take(Fragment(sn, data[40 * sn : 40 * sn + 40], more=more, first=sn == 0))
    assert bench.got() == [b"x" * 100]
    assert bench.stats.stale_frames == 2


@pytest.mark.parametrize("before", [0, 30, 5_000])
def test_a_fragment_may_stand_behind_other_messages(before: int) -> None:
    bench = Bench()
    data = encode_one(put(bytes(10_000)))
    bench.take(Fragment(0, data[:5_000], more=True, first=True))
    bench.take(Frame(0, priority=1), put(bytes(before)), Fragment(1, data[5_000:]))
    assert bench.got() == [bytes(before), bytes(10_000)]


def test_a_reassembled_message_that_is_none_costs_itself_only() -> None:
    bench = Bench()
    bench.take(Fragment(0, b"\x1d", first=True))
    bench.take(Fragment(1, b"", first=True))
    assert bench.stats.undecodable_messages == 2
    bench.take(Frame(2), put(b"x"))
    assert bench.got() == [b"x"]


def test_low_latency_takes_bare_messages_and_nothing_framed() -> None:
    bench = Bench(qos=False, bare=True)
    bench.take(put(b"1"), put(b"2"), KeepAlive(), put(b"3"))
    assert bench.got() == [b"1", b"2", b"3"]
    assert bench.sink.got[0][1:] == (5, True)
    for message in (Frame(0), Fragment(0, b"x", first=True)):
        with pytest.raises(RemoteProtocolError, match="low-latency"):
            bench.take(message)
    assert bench.take(Close(0), put(b"4")) == Close(0)


def test_a_sink_that_reads_nothing_cannot_hang_the_loop() -> None:
    class Lazy(Collector):
        def frame(self, reader: Reader, priority: int, reliable: bool) -> bool:
            return True

    with pytest.raises(DecodeError):
        Bench(bare=True).rx.batch(encode_one(put()), Lazy(), 0)
    with pytest.raises(DecodeError):
        Bench().rx.batch(encode_batch([Frame(0), put()]), Lazy(), 0)


class Sipping(Collector):
    """A sink that takes two messages at a time."""

    def frame(self, reader: Reader, priority: int, reliable: bool) -> bool:
        for _ in range(2):
            if not reader.remaining() or reader.peek() & 0x1F < NETWORK_ID_MIN:
                return True
            self.got.append((decode_network(reader), priority, reliable))
        return not reader.remaining() or reader.peek() & 0x1F < NETWORK_ID_MIN


def test_a_sink_may_take_a_batch_in_several_turns() -> None:
    messages = (
        Frame(0), put(b"1"), put(b"2"), put(b"3"), KeepAlive(), Frame(0, reliable=False),
        put(b"4"), put(b"5"), put(b"6"), Frame(1, priority=7), put(b"7"), Close(0),
    )  # fmt: skip
    whole, bench = Bench(), Bench()
    assert whole.take(*messages) == Close(0)
    bench.sink = Sipping()
    closed = bench.take(*messages)
    turns = 1
    while bench.rx.behind:
        assert closed is None
        closed = bench.rx.resume(bench.sink, 0)
        turns += 1
    assert closed == Close(0)
    assert turns == 3
    assert bench.sink.got == whole.sink.got


def test_messages_without_frames_too() -> None:
    bench = Bench(bare=True)
    bench.sink = Sipping()
    bench.take(put(b"1"), put(b"2"), put(b"3"))
    assert bench.rx.behind
    assert bench.rx.resume(bench.sink, 0) is None
    assert bench.got() == [b"1", b"2", b"3"]
    assert not bench.rx.behind
