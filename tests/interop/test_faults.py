"""What happens when neighbours die, freeze, stall or lie: real processes and real sockets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.child import Child, child
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    Taken,
    eclipse_router,
    eventually,
    exchange,
    free_endpoint,
    matched,
    node_of,
    port_of,
    replies_to,
    session,
    sessions_at,
    settings_of,
    zid_of,
)
from tests.interop.recording_proxy import RecordingProxy

import elea

line = pytest.mark.line
QUIET = {"transport/link/tx/lease": 60_000}  # a loss is noticed by its sign, not by silence
SHORT = {"transport/link/tx/lease": 1_000}
_WAIT = "transport/link/tx/queue/congestion_control/block/wait_before_close"


def talks(here: Any, there: Child, key: str) -> bool:
    """A sample of the other process arrives."""
    got = Taken()
    subscriber = here.declare_subscriber(key, got)

    def asked() -> bool:
        there.do("put", key)
        return got.reach(1, 0.1)

    arrived = eventually(asked)
    subscriber.undeclare()
    return arrived


@line("F1", "C83", "C84", "E22")
@pytest.mark.parametrize(("here", "there"), [(ELEA, ECLIPSE), (ECLIPSE, ELEA), (ELEA, ELEA)])
def test_a_killed_peer_is_gone_at_once(here: str, there: str) -> None:
    endpoint = free_endpoint()
    seen = Taken()
    with session(here, "peer", listen=endpoint, more=QUIET) as ours:
        ours.liveliness().declare_subscriber("f1/*", seen)
        with child(there, settings_of("peer", connect=endpoint, more=QUIET)) as peer:
            peer.do("token", "f1/alive")
            peer.do("keep queries", "f1/q")
            assert eventually(lambda: ("f1/alive", "PUT") in seen.changes)
            querier = ours.declare_querier("f1/q", timeout=600)
            assert matched(querier)
            replies = querier.get()
            assert talks(ours, peer, "f1/ready")  # the question before it has arrived as well
            peer.kill()
            assert eventually(lambda: ("f1/alive", "DELETE") in seen.changes)
            assert list(replies) == []  # it ends now, and not after ten minutes
            assert eventually(lambda: ours.info.transports() == [])
        # The place is free for the next one.
        with child(there, settings_of("peer", connect=endpoint, more=QUIET)) as peer:
            assert talks(ours, peer, "f1/again")


@line("F1", "C83")
def test_a_killed_client_of_the_same_router_is_gone_at_once() -> None:
    with (
        eclipse_router(more=QUIET) as (_, endpoint),
        session(ELEA, "client", connect=endpoint, more=QUIET) as ours,
        child(ECLIPSE, settings_of("client", connect=endpoint, more=QUIET)) as theirs,
    ):
        seen = Taken()
        theirs.do("token", "f1/client")
        ours.liveliness().declare_subscriber("f1/*", seen, history=True)
        assert seen.reach(1)
        theirs.kill()
        assert seen.reach(2)
        assert seen.changes == [("f1/client", "PUT"), ("f1/client", "DELETE")]


@line("F2", "E20")
def test_a_frozen_eclipse_peer_is_given_up_after_its_lease() -> None:
    endpoint = free_endpoint()
    seen = Taken()
    with (
        session(ELEA, "peer", listen=endpoint) as ours,
        child(ECLIPSE, settings_of("peer", connect=endpoint, more=SHORT)) as theirs,
    ):
        ours.liveliness().declare_subscriber("f2/*", seen)
        theirs.do("token", "f2/alive")
        assert eventually(lambda: ("f2/alive", "PUT") in seen.changes)
        theirs.stop()
        assert eventually(lambda: ("f2/alive", "DELETE") in seen.changes)
        assert eventually(lambda: ours.info.transports() == [])
        theirs.go_on()
        assert eventually(lambda: seen.changes[-1] == ("f2/alive", "PUT"))
        assert talks(ours, theirs, "f2/again")


@line("F2", "E19", "C84")
@pytest.mark.parametrize("mode", ["client", "peer"])
def test_when_we_freeze_eclipse_gives_us_up_after_our_lease(mode: str) -> None:
    with (
        eclipse_router() as (router, endpoint),
        child(ELEA, settings_of(mode, connect=endpoint, more=SHORT)) as ours,
    ):
        seen = Taken()
        router.liveliness().declare_subscriber("f2/*", seen)
        ours.do("token", "f2/ours")
        assert eventually(lambda: ("f2/ours", "PUT") in seen.changes)
        ours.stop()
        assert eventually(lambda: ("f2/ours", "DELETE") in seen.changes)
        assert ours.zid not in sessions_at(router)
        ours.go_on()
        assert eventually(lambda: seen.changes[-1] == ("f2/ours", "PUT"))


@line("F3", "T55", "T59")
@pytest.mark.parametrize("far", [ECLIPSE, ELEA])
def test_droppable_messages_to_a_stalled_reader_are_dropped_and_counted(far: str) -> None:
    endpoint = free_endpoint()
    with (
        session(ELEA, "peer", listen=endpoint) as ours,
        child(far, settings_of("peer", connect=endpoint)) as stalled,
        session(ECLIPSE, "peer", connect=endpoint) as lively,
    ):
        stalled.do("subscribe", "f3")
        publisher = ours.declare_publisher("f3", congestion_control=elea.CongestionControl.DROP)
        assert matched(publisher)
        stalled.stop()
        payload = bytes(50_000)
        waiting = 0
        for _ in range(2_000):  # far more than sockets and queues hold
            publisher.put(payload)
            waiting = max(waiting, waiting_len(ours))
        assert publisher_drops(ours) > 0
        assert waiting < 4 << 20
        exchange(ours, lively, "f3/lively")
        stalled.go_on()
        assert eventually(lambda: stalled.do("taken", "f3"))
        publisher.put(b"last")
        assert eventually(lambda: put_until(publisher, stalled, "f3", 4))


def put_until(publisher: Any, there: Child, key: str, length: int) -> bool:
    publisher.put(bytes(length))
    return length in there.do("taken", key)


def waiting_len(ours: Any) -> int:
    return sum(one.transport.pending_len for one in node_of(ours)._neighbours)


def publisher_drops(ours: Any) -> int:
    return sum(sum(one.dropped_congestion) for one in node_of(ours).transport_stats().values())


@line("F4", "T56")
@pytest.mark.parametrize("far", [ECLIPSE, ELEA])
def test_a_blocked_put_waits_and_then_the_link_goes(far: str) -> None:
    endpoint = free_endpoint()
    with (
        session(ELEA, "peer", listen=endpoint, more={_WAIT: 500_000}) as ours,
        child(far, settings_of("peer", connect=endpoint)) as stalled,
        session(ECLIPSE, "peer", connect=endpoint) as lively,
    ):
        stalled.do("subscribe", "f4")
        publisher = ours.declare_publisher("f4", congestion_control=elea.CongestionControl.BLOCK)
        assert matched(publisher)
        events: list[str] = []
        listener = ours.info.declare_transport_events_listener(
            lambda event: events.append(f"{event.kind} {event.transport.zid}")
        )
        stalled.stop()
        until(lambda: len(ours.info.transports()) == 1, lambda: publisher.put(bytes(50_000)))
        assert eventually(lambda: any(stalled.zid in event and "DEL" in event for event in events))
        exchange(ours, lively, "f4/lively")
        stalled.go_on()
        assert eventually(lambda: len(ours.info.transports()) == 2)
        assert talks(ours, stalled, "f4/again")
        listener.undeclare()


def until(reached: Callable[[], bool], step: Callable[[], object], count: int = 3_000) -> None:
    """Do something again and again until something is the case."""
    for _ in range(count):
        if reached():
            return
        step()
    assert reached()


@line("F4", "T54")
def test_a_slow_eclipse_subscriber_slows_a_blocking_publisher_and_loses_nothing() -> None:
    endpoint = free_endpoint()
    got: list[int] = []
    gate = threading.Event()

    def slow(sample: Any) -> None:
        gate.wait(20)
        got.append(int(bytes(sample.payload)[:8]))

    with (
        session(ELEA, "peer", listen=endpoint) as ours,
        session(ECLIPSE, "peer", connect=endpoint) as theirs,
    ):
        theirs.declare_subscriber("f5", slow)
        publisher = ours.declare_publisher("f5", congestion_control=elea.CongestionControl.BLOCK)
        assert matched(publisher)
        sent = 0

        def publish() -> None:
            nonlocal sent
            for number in range(600):
                publisher.put(b"%08d" % number + bytes(50_000))
                sent = number + 1

        thread = threading.Thread(target=publish)
        thread.start()
        assert eventually(lambda: waiting_len(ours) > 500_000 or sent == 600)
        gate.set()
        thread.join(60)
        assert eventually(lambda: len(got) == 600)
        assert got == list(range(600))


@line("F5", "E25")
@pytest.mark.parametrize("mode", ["client", "peer"])
def test_a_reset_link_is_made_again(mode: str) -> None:
    with (
        eclipse_router(more=QUIET) as (router, endpoint),
        RecordingProxy(port_of(endpoint)) as proxy,
        session(ELEA, mode, connect=proxy.endpoint, more=QUIET) as ours,
    ):
        for connection in range(3):
            exchange(ours, router, f"f6/{connection}")
            proxy.cut(connection)
            assert eventually(lambda count=connection + 2: proxy.connections >= count)  # type: ignore[misc]
        exchange(ours, router, "f6/last")
        assert eventually(lambda: list(sessions_at(router)) == [zid_of(ours)])


@line("F2", "E20")
def test_silence_on_a_connection_that_stays_open_ends_it() -> None:
    with (
        eclipse_router(more=SHORT) as (router, endpoint),
        RecordingProxy(port_of(endpoint)) as proxy,
        session(ELEA, "peer", connect=proxy.endpoint, more=SHORT) as ours,
    ):
        exchange(ours, router, "f7")
        proxy.hold()
        assert eventually(lambda: ours.info.transports() == [])
        assert eventually(lambda: sessions_at(router) == {})
        proxy.release()
        assert eventually(lambda: zid_of(ours) in sessions_at(router))
        exchange(ours, router, "f7/again")


@line("M184")
@pytest.mark.parametrize("mode", ["client", "peer"])
def test_coming_and_going_leaves_nothing_behind(mode: str) -> None:
    endpoint = free_endpoint()
    with session(ELEA, "peer", listen=endpoint) as ours:
        node = node_of(ours)
        kept = ours.declare_subscriber("m184/**", Taken())
        for turn in range(15):
            with session(ECLIPSE, mode, connect=endpoint) as theirs:
                token = theirs.liveliness().declare_token(f"m184/t/{turn}")
                theirs.declare_queryable(f"m184/q/{turn}", Taken())
                publisher = theirs.declare_publisher(f"m184/p/{turn}")
                assert matched(publisher)
                exchange(ours, theirs, f"m184/{turn}")
                assert list(replies_to(theirs.get, f"m184/none/{turn}")) == []
                token.undeclare()
        assert eventually(lambda: ours.info.transports() == [])
        kept.undeclare()
        assert list(ours.liveliness().get("m184/**")) == []
    assert node.is_empty()
