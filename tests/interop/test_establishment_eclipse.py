"""Sessions are established with Eclipse nodes, refused, kept and made anew."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
import zenoh
from tests.interop.blocking_node import Node, RefusedError
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    Taken,
    eclipse_router,
    eventually,
    exchange,
    free_endpoint,
    has_been_told,
    matched,
    module_of,
    open_session,
    pair,
    port_of,
    session,
    sessions_at,
    settings_of,
    zid_of,
)
from tests.interop.recording_proxy import RecordingProxy, follow

import elea
from elea.transport.negotiation import Offer
from elea.wire.batches import encode_batch
from elea.wire.buffer import Reader
from elea.wire.codec import TransportMessage, decode_transport, encode_one
from elea.wire.conversation import Direction
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.framing import StreamDecoder, frame
from elea.wire.network.push import Push
from elea.wire.transport.close import Close, CloseReason
from elea.wire.transport.frame import Frame
from elea.wire.transport.init import Init
from elea.wire.transport.open import Open

line = pytest.mark.line
each_mode = pytest.mark.parametrize("mode", ["client", "peer"])
QUIET = {"transport/link/tx/lease": 60_000}  # a loss is noticed by its sign, not by silence


@contextmanager
def proxied_router(**more: object) -> Iterator[tuple[Any, RecordingProxy]]:
    """An Eclipse router behind a proxy."""
    with (
        eclipse_router(more=more) as (router, endpoint),
        RecordingProxy(port_of(endpoint)) as proxy,
    ):
        yield router, proxy


@contextmanager
def proxied_peer(**more: object) -> Iterator[tuple[Any, RecordingProxy]]:
    """An Elea peer that listens behind a proxy."""
    endpoint = free_endpoint()
    with (
        session(ELEA, "peer", listen=endpoint, more=more) as peer,
        RecordingProxy(port_of(endpoint)) as proxy,
    ):
        yield peer, proxy


# Opening and accepting


@line("E1")
@each_mode
def test_an_eclipse_router_lists_us_with_our_id_and_role(mode: str) -> None:
    with eclipse_router() as (router, endpoint), session(ELEA, mode, connect=endpoint) as ours:
        assert {zid: one["whatami"] for zid, one in sessions_at(router).items()} == {
            zid_of(ours): mode
        }
        assert [str(zid) for zid in ours.info.routers_zid()] == [zid_of(router)]


@line("E2")
@each_mode
def test_an_eclipse_node_opens_a_session_with_our_listener(mode: str) -> None:
    with pair(ELEA, mode) as (ours, theirs):
        assert [str(zid) for zid in theirs.info.peers_zid()] == [zid_of(ours)]
        exchange(ours, theirs, "e2")


@line("E3")
@each_mode
def test_the_cookie_goes_back_octet_for_octet(mode: str) -> None:
    with proxied_router() as (_, proxy), session(ELEA, mode, connect=proxy.endpoint):
        [ack] = [one for one in proxy.said(Direction.ACCEPTOR) if one["msg"] == "INIT_ACK"]
        [syn] = [one for one in proxy.said(Direction.INITIATOR) if one["msg"] == "OPEN_SYN"]
        assert ack["cookie"] == syn["cookie"]


@line("E3")
def test_an_empty_cookie_goes_back_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        endpoint = f"tcp/127.0.0.1:{listener.getsockname()[1]}"
        settings = settings_of("client", connect=endpoint)
        opened = threading.Thread(target=lambda: open_session(ELEA, settings).close())
        opened.start()
        link, _ = listener.accept()
        with link:
            syn = receive(link)
            assert isinstance(syn, Init)
            link.sendall(frame(encode_one(replace(syn, whatami=0, zid=b"\x77", cookie=b""))))
            answer = receive(link)
            assert isinstance(answer, Open)
            assert answer.cookie == b""
            link.sendall(frame(encode_one(Open(10, 0, lease_in_seconds=True))))
            opened.join(20)
        assert not opened.is_alive()


def receive(link: socket.socket) -> TransportMessage:
    """The next batch, of one message."""
    link.settimeout(20)
    stream = StreamDecoder()
    while (batch := stream.next_batch()) is None:
        data = link.recv(65_536)
        assert data, "the link ended"
        stream.feed(data)
    return decode_transport(Reader(batch))


@line("E4")
def test_no_batch_is_longer_than_agreed() -> None:
    small = {"transport/link/tx/batch_size": 2_048}
    with proxied_router(**small) as (router, proxy):
        got = Taken()
        router.declare_subscriber("e4/*", got)
        with session(ELEA, "client", connect=proxy.endpoint) as ours:
            block = elea.CongestionControl.BLOCK
            for number in range(300):
                ours.put(f"e4/{number}", bytes(number * 50), congestion_control=block)
            assert got.reach(300)
    sent = [
        len(batch)
        for where, batch, _ in follow(proxy.passed)
        if where.direction is Direction.INITIATOR
    ]
    # Two bytes of length stand in front. Fragments are cut for the longest sequence number, of
    # four bytes; numbers begin anywhere, one time in 128 below 2^21, where they take fewer.
    assert 2_046 - 3 <= max(sent) <= 2_046
    assert [len(one) for one in got.payloads] == [number * 50 for number in range(300)]


@line("E5", "E6", "K24")
@pytest.mark.parametrize("listener", [ELEA, ECLIPSE])
@pytest.mark.parametrize(("bits", "count"), [("8bit", 1_000), ("16bit", 20_500)])
def test_sequence_numbers_wrap(bits: str, count: int, listener: str) -> None:
    few = {"transport/link/tx/sequence_number_resolution": bits}
    with pair(listener, more={ECLIPSE: few}) as ends:
        for source, target in (ends, reversed(ends)):
            got = Taken()
            subscriber = target.declare_subscriber("e5", got)
            block = module_of(source).CongestionControl.BLOCK
            publisher = source.declare_publisher("e5", congestion_control=block, express=True)
            assert matched(publisher)
            for number in range(count):
                publisher.put(str(number))
            assert got.reach(count)
            assert got.payloads == [str(number).encode() for number in range(count)]
            subscriber.undeclare()


@line("E7")
def test_priorities_are_left_out_where_eclipse_has_none() -> None:
    with proxied_router(**{"transport/unicast/qos/enabled": False}) as (router, proxy):
        got = Taken()
        router.declare_subscriber("e7", got)
        with session(ELEA, "client", connect=proxy.endpoint) as ours:
            ours.put("e7", b"1", priority=elea.Priority.REAL_TIME)
            assert got.reach(1)
            exchange(ours, router, "e7/both")
            assert str(got.items[0].priority).endswith("REAL_TIME")
    assert proxy.connections == 1
    assert priorities_of_frames(proxy) == {5}


@line("E8")
def test_declarations_travel_as_control() -> None:
    with (
        proxied_router() as (router, proxy),
        session(ELEA, "client", connect=proxy.endpoint) as ours,
    ):
        ours.declare_subscriber("e8/**", Taken())
        assert eventually(lambda: has_been_told(router, "subscriber", "e8/**"))
    assert priorities_of_frames(proxy) == {0}


def priorities_of_frames(proxy: RecordingProxy) -> set[int]:
    found = set()
    for where, _, seen in follow(proxy.passed):
        tree: Any = seen.tree
        for message in tree["messages"]:
            if where.direction is Direction.INITIATOR and message["msg"] == "FRAME":
                found.add(next((one["priority"] for one in message.get("ext", ())), 5))
    return found


# What a listener refuses


@contextmanager
def listening() -> Iterator[tuple[Any, int]]:
    endpoint = free_endpoint()
    with session(ELEA, "peer", listen=endpoint) as ours:
        yield ours, port_of(endpoint)


def assert_available(ours: Any, port: int) -> None:
    with session(ECLIPSE, "client", connect=f"tcp/127.0.0.1:{port}") as theirs:
        exchange(ours, theirs, "available")


def answer_to(port: int, *batches: bytes) -> TransportMessage | None:
    """What a listener answers last; None if it closes the link without a word."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
        for batch in batches:
            link.sendall(batch)
        stream, last = StreamDecoder(), None
        while data := link.recv(65_536):
            stream.feed(data)
            while (batch := stream.next_batch()) is not None:  # type: ignore[assignment]
                last = decode_transport(Reader(batch))
        return last


@line("E9")
def test_another_version_is_refused() -> None:
    syn = encode_one(Init(b"\x0e", 2, version=8))
    with listening() as (ours, port):
        assert answer_to(port, frame(syn)) == Close(CloseReason.INVALID)
        assert_available(ours, port)


@line("E10")
def test_a_changed_cookie_is_refused() -> None:
    with listening() as (ours, port):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as link:
            link.sendall(frame(encode_one(Init(b"\x0e", 2))))
            ack = receive(link)
            assert isinstance(ack, Init)
            assert ack.cookie is not None
            changed = bytes([ack.cookie[0] ^ 1]) + ack.cookie[1:]
            link.sendall(frame(encode_one(Open(10_000, 0, cookie=changed))))
            assert receive(link) == Close(CloseReason.INVALID)
        assert_available(ours, port)


@line("E11")
def test_a_silent_newcomer_is_let_go() -> None:
    endpoint = free_endpoint()
    hasty = {"transport/unicast/accept_timeout": 300}
    with pair(ELEA, "client", endpoint=endpoint, more={ELEA: hasty}) as (ours, theirs):
        assert answer_to(port_of(endpoint)) is None
        exchange(ours, theirs, "e11")


OFFERS: dict[str, dict[str, object]] = {
    "shared memory": {"transport/shared_memory/enabled": True},
    "compression": {"transport/unicast/compression/enabled": True},
    "low latency": {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False},
}


@line("E12", "E13")
@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS.keys())
def test_what_eclipse_offers_and_we_do_not_is_off(offer: dict[str, object]) -> None:
    with proxied_peer() as (ours, proxy):
        with session(ECLIPSE, "client", connect=proxy.endpoint, more=offer) as theirs:
            exchange(ours, theirs, "e12")
        [ack] = [one for one in proxy.said(Direction.ACCEPTOR) if one["msg"] == "INIT_ACK"]
        assert {one["ext"] for one in ack["ext"]} <= {"qos", "patch"}
    with pair(ECLIPSE, "client", more={ECLIPSE: offer}) as (ours, router):
        exchange(ours, router, "e12/dialled")


# One transport per neighbour


def stranger(**changes: object) -> Offer:
    return Offer(**{"zid": b"\x0e\x1e\xa0", "whatami": 2, **changes})  # type: ignore[arg-type]


@line("E14")
def test_a_second_link_of_a_known_node_is_refused_and_the_first_goes_on() -> None:
    with listening() as (ours, port):
        got = Taken()
        ours.declare_subscriber("e14", got)
        first = Node.dial(port, stranger())
        with pytest.raises(RefusedError) as caught:
            Node.dial(port, stranger())
        assert caught.value.failure.close_reason == CloseReason.MAX_LINKS
        first.send(Push(WireExpr(0, "e14"), Put(b"still here"), 0x0D))
        assert got.reach(1)
        assert len(ours.info.transports()) == 1
        first.close()


@line("E15")
@each_mode
def test_two_ways_to_one_router_are_one_transport(mode: str) -> None:
    ends = [free_endpoint(), free_endpoint()]
    both = {"listen/endpoints": ends}
    with (
        eclipse_router(ends[0], both) as (router, _),
        session(ELEA, mode, connect=ends) as ours,
    ):
        got = Taken()
        ours.declare_subscriber("e15", got)
        assert eventually(lambda: has_been_told(router, "subscriber", "e15"))
        for number in range(100):
            router.put("e15", str(number), congestion_control=zenoh.CongestionControl.BLOCK)
        assert got.reach(100)
        exchange(ours, router, "e15/after")  # nothing that was on its way is left
        assert got.payloads == [str(number).encode() for number in range(100)]
        assert len(sessions_at(router)) == 1
        assert len(ours.info.transports()) == 1


@line("E16")
def test_a_node_that_dials_itself_keeps_running() -> None:
    endpoint = free_endpoint()
    with session(ELEA, "peer", listen=endpoint, connect=endpoint) as ours:
        assert ours.info.transports() == []
        assert_available(ours, port_of(endpoint))


@line("E17")
def test_the_limit_of_sessions_refuses_newcomers_only() -> None:
    endpoint = free_endpoint()
    one = {"transport/unicast/max_sessions": 1}
    with pair(ELEA, "client", endpoint=endpoint, more={ELEA: one}) as (ours, theirs):
        with pytest.raises(zenoh.ZError):
            open_session(ECLIPSE, settings_of("client", connect=endpoint))
        exchange(ours, theirs, "e17")


@line("E18")
@each_mode
def test_an_idle_session_is_kept_alive(mode: str) -> None:
    short = {"transport/link/tx/lease": 1_000}
    with (
        proxied_router(**short) as (router, proxy),
        session(ELEA, mode, connect=proxy.endpoint, more=short) as ours,
    ):
        assert eventually(lambda: beats(proxy, Direction.INITIATOR) >= 12)
        assert eventually(lambda: beats(proxy, Direction.ACCEPTOR) >= 12)
        assert proxy.connections == 1
        assert zid_of(ours) in sessions_at(router)


def beats(proxy: RecordingProxy, direction: Direction) -> int:
    return sum(one["msg"] == "KEEP_ALIVE" for one in proxy.said(direction))


# The end of a session


@line("E21")
@each_mode
def test_we_say_goodbye(mode: str) -> None:
    with proxied_router(**QUIET) as (router, proxy):
        with session(ELEA, mode, connect=proxy.endpoint, more=QUIET):
            assert len(sessions_at(router)) == 1
        assert eventually(lambda: not sessions_at(router))
        assert proxy.said(Direction.INITIATOR)[-1]["msg"] == "CLOSE"


@line("E22")
@pytest.mark.parametrize("farewell", ["CLOSE", "reset"])
@pytest.mark.parametrize("listener", [ELEA, ECLIPSE])
def test_everything_of_a_lost_neighbour_is_withdrawn(farewell: str, listener: str) -> None:
    endpoint = free_endpoint()
    seen = Taken()
    quiet = {ELEA: QUIET, ECLIPSE: QUIET}
    with (
        RecordingProxy(port_of(endpoint)) as proxy,
        pair(listener, endpoint=endpoint, dialled=proxy.endpoint, more=quiet) as (ours, theirs),
    ):
        ours.liveliness().declare_subscriber("e22/*", seen)
        token = theirs.liveliness().declare_token("e22/alive")
        theirs.declare_subscriber("e22", Taken())
        theirs.declare_queryable("e22", Taken())
        publisher, querier = ours.declare_publisher("e22"), ours.declare_querier("e22")
        assert matched(publisher)
        assert matched(querier)
        assert seen.reach(1)
        if farewell == "CLOSE":
            theirs.close()
        else:
            proxy.refuse()
            proxy.cut(0)
        assert seen.reach(2)
        assert seen.changes == [("e22/alive", "PUT"), ("e22/alive", "DELETE")]
        assert matched(publisher, by_somebody=False)
        assert matched(querier, by_somebody=False)
        assert eventually(lambda: ours.info.transports() == [])
        del token


@line("E23", "M183")
@pytest.mark.parametrize(
    "garbage",
    [b"\x00", b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 70_000, frame(b"\x1f\xff\xff")],
    ids=["short", "text", "long", "no message"],
)
def test_garbage_at_a_listener_harms_nobody(garbage: bytes) -> None:
    endpoint = free_endpoint()
    with pair(ELEA, "client", endpoint=endpoint) as (ours, theirs):
        with socket.create_connection(("127.0.0.1", port_of(endpoint)), timeout=20) as link:
            link.sendall(garbage)
            link.shutdown(socket.SHUT_WR)
            while link.recv(65_536):
                pass
        exchange(ours, theirs, "e23")
        assert len(ours.info.transports()) == 1


@line("E24")
def test_gaps_and_repetitions_of_numbers_do_not_end_a_session() -> None:
    with listening() as (ours, port):
        got = Taken()
        ours.declare_subscriber("e24", got)
        node = Node.dial(port, stranger())
        first = node.transport.agreed.own_initial_sn
        [(sock, _)] = node.links.values()

        def send(step: int, text: bytes) -> None:
            sn = (first + step) & node.transport.agreed.sn_mask
            push = Push(WireExpr(0, "e24"), Put(text), 0x0D)
            sock.sendall(frame(encode_batch([Frame(sn), push])))

        for step, text in [(0, b"a"), (1, b"b"), (1, b"again"), (50, b"gap"), (49, b"old")]:
            send(step, text)
        send(51, b"c")
        assert got.reach(4)
        assert got.payloads == [b"a", b"b", b"gap", b"c"]
        node.close()
