"""What Eclipse Zenoh says in lively conversations is decoded and written back identically."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

import pytest
import zenoh
from tests.interop.ends import alive, replies_to
from tests.interop.recording_proxy import Passed, RecordingProxy, follow
from tests.ports import free_port

WAIT_S = 10

PRIORITIES = [
    zenoh.Priority.REAL_TIME,
    zenoh.Priority.INTERACTIVE_HIGH,
    zenoh.Priority.INTERACTIVE_LOW,
    zenoh.Priority.DATA_HIGH,
    zenoh.Priority.DATA,
    zenoh.Priority.DATA_LOW,
    zenoh.Priority.BACKGROUND,
]
CONGESTION = [zenoh.CongestionControl.DROP, zenoh.CongestionControl.BLOCK]
ENCODINGS = ["zenoh/bytes", "text/plain;utf-8", "application/json", "my/own;thing", "video/raw"]

VARIANTS: dict[str, dict[str, object]] = {
    "default": {},
    "compression": {"transport/unicast/compression/enabled": True},
    "low latency": {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False},
    "small batches": {"transport/link/tx/batch_size": 512},
    "16 bit": {"transport/link/tx/sequence_number_resolution": "16bit"},
    "no qos": {"transport/unicast/qos/enabled": False},
    "timestamps": {"timestamping/enabled": True},
    "shared memory": {"transport/shared_memory/enabled": True},
}


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
def node(settings: Mapping[str, object]) -> Iterator[zenoh.Session]:
    session = zenoh.open(config(settings))
    try:
        yield session
    finally:
        session.close()  # type: ignore[no-untyped-call]  # the wheel's stubs lack it


def chatter(one: zenoh.Session, other: zenoh.Session, rng: random.Random, *, large: bool) -> None:
    """Use every verb in both directions, with seeded variety."""
    got = threading.Event()
    subscriber = other.declare_subscriber("fleet/**", lambda sample: None)
    queryable = other.declare_queryable(
        "svc/*", lambda query: query.reply(query.key_expr, b"answer"), complete=True
    )
    refusing = other.declare_queryable("bad/x", lambda query: query.reply_err(b"no"))
    token = other.liveliness().declare_token("alive/b")
    # Declared last: once a sample reaches it, all the declarations before it are known as well.
    marker = other.declare_subscriber("ready/marker", lambda sample: got.set())
    for _ in range(100):
        one.put("ready/marker", b"", priority=zenoh.Priority.BACKGROUND)
        if got.wait(WAIT_S / 100):
            break
    assert got.is_set()
    watcher = one.liveliness().declare_subscriber("alive/*", lambda sample: None, history=True)
    publisher = one.declare_publisher("fleet/r1/imu", priority=zenoh.Priority.REAL_TIME)
    for number in range(25):
        publisher.put(
            rng.randbytes(rng.randrange(0, 40)),
            encoding=rng.choice(ENCODINGS),
            attachment=rng.choice([None, b"", b"note"]),
        )
        one.put(
            f"fleet/r{number}/é",
            rng.randbytes(rng.choice([0, 8, 900, 5_000])),
            priority=rng.choice(PRIORITIES),
            congestion_control=rng.choice(CONGESTION),
            express=rng.random() < 0.3,
            encoding=rng.choice(ENCODINGS),
        )
    one.delete("fleet/r1/imu", attachment=b"gone")
    if large:
        one.put(
            "fleet/big", rng.randbytes(120_000), congestion_control=zenoh.CongestionControl.BLOCK
        )
    for target in (zenoh.QueryTarget.ALL, zenoh.QueryTarget.BEST_MATCHING):
        ask = b"ask" * rng.choice([1, 2_000])
        assert (
            len(
                list(
                    replies_to(one.get, "svc/x?a=1;b=2", target=target, payload=ask, timeout=WAIT_S)
                )
            )
            == 1
        )
    assert len(list(replies_to(one.get, "bad/x", attachment=b"why", timeout=WAIT_S))) == 1
    assert alive(one, "alive/*", ["alive/b"])
    for entity in (publisher, watcher, token, refusing, queryable, marker, subscriber):
        entity.undeclare()  # type: ignore[no-untyped-call]  # the wheel's stubs lack it


@pytest.mark.line("K29")
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_lively_conversation_is_written_back(variant: str) -> None:
    settings = VARIANTS[variant]
    port = free_port()
    listener = {"mode": "router", "listen/endpoints": [f"tcp/127.0.0.1:{port}"], **settings}
    with ExitStack() as stack:
        stack.enter_context(node(listener))
        proxy = stack.enter_context(RecordingProxy(port))
        dialer = {
            "mode": "client",
            "connect/endpoints": [f"tcp/127.0.0.1:{proxy.port}"],
            **settings,
        }
        one = stack.enter_context(node(dialer))
        other = stack.enter_context(node(dialer))
        chatter(one, other, random.Random(variant), large=variant != "low latency")
    kinds = check(proxy.passed)
    assert {"INIT_SYN", "INIT_ACK", "OPEN_SYN", "OPEN_ACK", "CLOSE"} <= kinds
    assert {"PUSH", "REQUEST", "RESPONSE", "RESPONSE_FINAL", "DECLARE", "INTEREST"} <= kinds


@pytest.mark.line("K29")
@pytest.mark.parametrize("mode", ["router", "peer"])
def test_link_state_and_gossip_are_written_back(mode: str) -> None:
    port = free_port()
    with ExitStack() as stack:
        first = {"mode": mode, "listen/endpoints": [f"tcp/127.0.0.1:{port}"]}
        one = stack.enter_context(node(first))
        proxy = stack.enter_context(RecordingProxy(port))
        second = {
            "mode": mode,
            "listen/endpoints": [f"tcp/127.0.0.1:{free_port()}"],
            "connect/endpoints": [f"tcp/127.0.0.1:{proxy.port}"],
        }
        other = stack.enter_context(node(second))
        chatter(one, other, random.Random(mode), large=True)
    assert "OAM" in check(proxy.passed)


def check(passed: list[Passed]) -> set[str]:
    """Every batch re-encodes to itself; returns the kinds of messages met."""
    kinds: set[str] = set()
    for where, batch, seen in follow(passed):
        assert seen.reencoded == batch, f"{where.connection} {where.direction} {batch.hex()}"
        kinds |= _kinds(seen.tree)
    assert kinds
    return kinds


def _kinds(tree: object) -> set[str]:
    if isinstance(tree, dict):
        found = {str(tree["msg"])} if "msg" in tree else set()
        return found.union(*map(_kinds, tree.values()))
    if isinstance(tree, list):
        return set().union(*map(_kinds, tree))
    return set()
