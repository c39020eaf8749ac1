"""Elea's transport against real Eclipse Zenoh nodes on loopback, as opener and as acceptor."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import zenoh
from tests.interop.blocking_node import Node, RefusedError, dial, drain

from elea.secret import Secret
from elea.transport.negotiation import Offer
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push
from elea.wire.transport.close import CloseReason

WAIT_S = 10
MEBI = 1 << 20
BLOCK = 0x08


@dataclass(frozen=True)
class Variant:
    """Settings of the Eclipse node, of Elea's offer, and what must be in force."""

    eclipse: Mapping[str, object] = field(default_factory=dict)
    offer: Mapping[str, object] = field(default_factory=dict)
    in_force: Mapping[str, object] = field(default_factory=dict)
    longest: int = MEBI
    burst: int = 400


QOS_OFF = {"transport/unicast/qos/enabled": False}
VARIANTS = {
    "default": Variant(in_force={"qos": True, "patch": 1}),
    "compression": Variant(
        {"transport/unicast/compression/enabled": True},
        {"compression": True},
        {"compression": True, "qos": True},
    ),
    "compression offered here only": Variant({}, {"compression": True}, {"compression": False}),
    "low latency": Variant(
        {"transport/unicast/lowlatency": True, **QOS_OFF},
        {"low_latency": True, "qos": False},
        {"low_latency": True},
        longest=40_000,
    ),
    "8 bit": Variant(
        {"transport/link/tx/sequence_number_resolution": "8bit"}, {}, {"sn_mask": 0x7F}
    ),
    "16 bit": Variant({}, {"resolution": 0x05}, {"sn_mask": 0x3FFF}, burst=20_000),
    "small batches there": Variant({"transport/link/tx/batch_size": 512}, {}, {"batch_len": 512}),
    "small batches here": Variant({}, {"batch_len": 300}, {"batch_len": 300}),
    "no qos there": Variant(QOS_OFF, {}, {"qos": False}),
    "no qos here": Variant({}, {"qos": False}, {"qos": False}),
    "patch 0": Variant({}, {"patch": 0}, {"patch": 0}),
    "shared memory offered there": Variant({"transport/shared_memory/enabled": True}, {}, {}),
    "region": Variant({}, {"region_name": "north"}, {}),
}


each_variant = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())


def config(settings: Mapping[str, object]) -> zenoh.Config:
    made = zenoh.Config()
    base: dict[str, object] = {
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
        "listen/endpoints": [],
    }
    for key, value in {**base, **settings}.items():
        made.insert_json5(key, json.dumps(value))
    return made


@contextmanager
def eclipse(settings: Mapping[str, object]) -> Iterator[zenoh.Session]:
    session = zenoh.open(config(settings))
    try:
        yield session
    finally:
        session.close()  # type: ignore[no-untyped-call]  # the wheel's stubs lack it


@contextmanager
def router(settings: Mapping[str, object]) -> Iterator[tuple[zenoh.Session, int]]:
    """An Eclipse router on a free port of loopback."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    listen = {"mode": "router", "listen/endpoints": [f"tcp/127.0.0.1:{port}"]}
    with eclipse({**listen, **settings}) as session:
        yield session, port


def client(**changes: object) -> Offer:
    return Offer(**{"zid": b"\x0e\x1e\xa0", "whatami": 2, **changes})  # type: ignore[arg-type]


def put(key: str, payload: bytes, qos: int = 5 | BLOCK) -> Push:
    return Push(WireExpr(0, key), Put(payload), qos)


def subscribe(key: str) -> Declare:
    return Declare(DeclareSubscriber(7, WireExpr(0, key)), qos=QOS_DECLARE)


def payloads(messages: list[NetworkMessage]) -> list[bytes]:
    return [m.body.payload for m in messages if isinstance(m, Push) and isinstance(m.body, Put)]


def collect(session: zenoh.Session, key: str) -> queue.SimpleQueue[bytes]:
    """What a subscriber of an Eclipse session receives, from now on."""
    got: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    session.declare_subscriber(key, lambda sample: got.put(sample.payload.to_bytes()))
    return got


def numbered(count: int) -> list[bytes]:
    return [n.to_bytes(4, "little") for n in range(count)]


def check_in_force(node: Node, variant: Variant) -> None:
    for name, value in variant.in_force.items():
        assert getattr(node.transport.agreed, name) == value, name


@pytest.mark.line("E4", "E5", "E6", "E7", "E12", "K21", "K22", "K23")
@each_variant
def test_as_a_client_of_an_eclipse_router(variant: Variant) -> None:
    with router(variant.eclipse) as (session, port):
        got = collect(session, "up/**")
        node = Node.dial(port, client(**variant.offer))
        check_in_force(node, variant)
        big = bytes(range(256)) * (variant.longest // 256)
        # The declaration goes first: when the data behind it has arrived, it is in force.
        node.transport.send(subscribe("down/**"), True, 0)
        for payload in [*numbered(variant.burst), big]:
            node.send(put("up/a", payload))
        assert drain(got, variant.burst + 1) == [*numbered(variant.burst), big]
        for payload in [*numbered(variant.burst), big]:
            session.put("down/b", payload, congestion_control=zenoh.CongestionControl.BLOCK)
        node.run_until(lambda: len(payloads(node.sink.messages)) == variant.burst + 1)
        assert payloads(node.sink.messages) == [*numbered(variant.burst), big]
        assert not node.closed
        assert node.transport.stats.lost_fragments == {}
        assert node.transport.stats.stale_frames == 0
        node.close()


@pytest.mark.line("E2", "E4", "E5", "E6", "E7", "E12", "K21", "K22", "K23")
@each_variant
def test_as_the_acceptor_for_an_eclipse_client(variant: Variant) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        dialling = {"mode": "client", "connect/endpoints": [f"tcp/127.0.0.1:{port}"]}
        opened: queue.SimpleQueue[zenoh.Session] = queue.SimpleQueue()
        settings = {**dialling, **variant.eclipse}
        thread = threading.Thread(target=lambda: opened.put(zenoh.open(config(settings))))
        thread.start()
        node = Node.accept(listener, client(zid=b"\x0e\x2e", whatami=0, **variant.offer))
        session = opened.get(timeout=WAIT_S)
        thread.join()
        check_in_force(node, variant)
        got = collect(session, "down/**")
        node.run_until(lambda: any(isinstance(m, Declare) for m in node.sink.messages))
        big = bytes(range(256)) * (variant.longest // 256)
        for payload in [*numbered(variant.burst), big]:
            node.send(put("down/a", payload))
        assert drain(got, variant.burst + 1) == [*numbered(variant.burst), big]
        sender = threading.Thread(target=send_all, args=(session, [*numbered(variant.burst), big]))
        sender.start()
        node.run_until(lambda: len(payloads(node.sink.messages)) == variant.burst + 1)
        sender.join()
        assert payloads(node.sink.messages) == [*numbered(variant.burst), big]
        session.close()  # type: ignore[no-untyped-call]
        node.run_until(lambda: node.closed)
        node.release()


def send_all(session: zenoh.Session, what: list[bytes]) -> None:
    for payload in what:
        session.put("up/b", payload, congestion_control=zenoh.CongestionControl.BLOCK)


@pytest.mark.line("K22")
def test_long_low_latency_units_of_eclipse_are_taken() -> None:
    variant = VARIANTS["low latency"]
    with router(variant.eclipse) as (session, port):
        got = collect(session, "up/**")
        node = Node.dial(port, client(**variant.offer))
        node.send(subscribe("down/**"))
        node.send(put("up/a", b"declared"))
        drain(got, 1)
        session.put("down/b", bytes(200_000), congestion_control=zenoh.CongestionControl.BLOCK)
        node.run_until(lambda: payloads(node.sink.messages) == [bytes(200_000)])
        node.close()


# Priorities and reliabilities


@pytest.mark.line("T52", "K2")
def test_every_priority_and_reliability_arrives() -> None:
    with router({}) as (session, port):
        got = collect(session, "p/**")
        node = Node.dial(port, client())
        sent = []
        for priority in range(1, 8):
            for reliable in (False, True):
                payload = bytes([priority, reliable]) * 100_000
                node.send(put("p/x", payload, priority | BLOCK), reliable=reliable)
                sent.append(payload)
        assert sorted(drain(got, len(sent))) == sorted(sent)
        node.close()


# Authentication


@pytest.fixture
def dictionary(tmp_path: Path) -> dict[str, object]:
    path = tmp_path / "credentials.txt"
    path.write_text("alice:wonderland\n", encoding="utf-8")
    return {"transport/auth/usrpwd/dictionary_file": str(path)}


CREDENTIALS = {
    "transport/auth/usrpwd/user": "alice",
    "transport/auth/usrpwd/password": "wonderland",
}


def test_the_right_password_opens_an_eclipse_router(dictionary: dict[str, object]) -> None:
    with router(dictionary) as (session, port):
        got = collect(session, "a/**")
        node = Node.dial(port, client(user="alice", password=Secret("wonderland")))
        node.send(put("a/x", b"hello"))
        assert drain(got, 1) == [b"hello"]
        node.close()


@pytest.mark.parametrize(
    "credentials",
    [
        {},
        {"user": "alice", "password": Secret("looking-glass")},
        {"user": "bob", "password": Secret("wonderland")},
    ],
    ids=["none", "wrong password", "unknown user"],
)
def test_anything_else_is_refused_by_an_eclipse_router(
    credentials: dict[str, object], dictionary: dict[str, object]
) -> None:
    with router(dictionary) as (_, port):
        with pytest.raises(RefusedError) as caught:
            Node.dial(port, client(**credentials))
        assert caught.value.failure.by_peer
        assert caught.value.failure.close_reason == CloseReason.GENERIC


def test_credentials_nobody_asks_for_are_not_given() -> None:
    with router({}) as (_, port):
        with pytest.raises(RefusedError) as caught:
            Node.dial(port, client(user="alice", password=Secret("wonderland")))
        assert not caught.value.failure.by_peer


@pytest.mark.parametrize(
    ("settings", "accepted"),
    [
        (CREDENTIALS, True),
        ({**CREDENTIALS, "transport/auth/usrpwd/password": "wrong"}, False),
        ({}, False),
    ],
    ids=["right", "wrong", "none"],
)
def test_an_eclipse_client_must_know_its_password(
    settings: dict[str, object], accepted: bool
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        dialling = {"mode": "client", "connect/endpoints": [f"tcp/127.0.0.1:{port}"]}
        outcome: queue.SimpleQueue[zenoh.Session | zenoh.ZError] = queue.SimpleQueue()

        def dial() -> None:
            try:
                outcome.put(zenoh.open(config({**dialling, **settings})))
            except zenoh.ZError as error:
                outcome.put(error)

        thread = threading.Thread(target=dial)
        thread.start()
        offer = client(zid=b"\x0e\x2e", whatami=0, accounts={b"alice": Secret("wonderland")})
        if accepted:
            node = Node.accept(listener, offer)
            session = outcome.get(timeout=WAIT_S)
            assert node.transport.agreed.peer_user == "alice"
            assert isinstance(session, zenoh.Session)
            session.close()  # type: ignore[no-untyped-call]
            node.release()
        else:
            with pytest.raises(RefusedError):
                Node.accept(listener, offer)
            assert isinstance(outcome.get(timeout=WAIT_S), zenoh.ZError)
        thread.join()


# Admission


@pytest.mark.line("E15")
def test_a_second_link_of_one_client_is_refused_and_the_first_goes_on() -> None:
    with router({}) as (session, port):
        got = collect(session, "m/**")
        node = Node.dial(port, client())
        with pytest.raises(RefusedError) as caught:
            Node.dial(port, client())
        assert caught.value.failure.close_reason == CloseReason.MAX_LINKS
        node.send(put("m/x", b"still here"))
        assert drain(got, 1) == [b"still here"]
        node.close()


@pytest.mark.line("E15", "P109")
def test_two_nodes_that_dial_each_other_have_one_transport_with_two_links() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        offer = client(whatami=1)
        dialling = {"mode": "peer", "connect/endpoints": [f"tcp/127.0.0.1:{port}"]}
        with router({**dialling}) as (session, eclipse_port):
            got = collect(session, "t/**")
            node = Node.accept(listener, offer)
            second = node.add(dial(eclipse_port, offer))
            listener.close()  # what Eclipse dials again must be refused at once
            node.send(subscribe("t/**"))
            node.send(put("t/x", b"by the first"))
            assert drain(got, 1) == [b"by the first"]
            node.drop(1)
            node.send(put("t/x", b"by the second"))
            assert drain(got, 1) == [b"by the second"]
            # What Eclipse writes before it has noticed is lost with the link; after that, nothing.
            node.run_until(lambda: len(session.info.links()) == 1)
            session.put("t/y", bytes(MEBI), congestion_control=zenoh.CongestionControl.BLOCK)
            node.run_until(lambda: payloads(node.sink.messages) == [bytes(MEBI)])
            assert node.transport.link_ids == [second]
            node.close()
