"""Routes that end: what is passed on before, what is counted, and how long a stop waits."""

from __future__ import annotations

from typing import Any

import pytest
from tests.dds.peers import (
    LIMIT_S,
    bridge,
    matched_here,
    next_domain,
    peer,
    put,
    session_pair,
    until,
)

from elea.dds import bridge as bridge_module
from elea.dds import upkeep
from elea.dds.from_dds import FromDds
from elea.dds.pending_puts import PendingPuts
from elea.session.handlers import FifoChannel

line = pytest.mark.line
COUNT = 5


def chatter(value: int) -> bytes:
    return b"\0\1\0\0" + value.to_bytes(4, "little") + b"\1\0\0\0\0\0\0\0"


@line("D-307", "D-401", "D-407")
@pytest.mark.parametrize("has_room", [True, False])
def test_a_route_without_writers_passes_on_what_it_has_or_counts_it(
    monkeypatch: pytest.MonkeyPatch, has_room: bool
) -> None:
    domain = next_domain()
    if not has_room:
        monkeypatch.setattr(upkeep, "DRAIN_NS", 200_000_000)
    with (
        session_pair() as (near, far),
        bridge(near, domain, linger=0.1) as made,
        peer(domain) as other,
        far.declare_subscriber("Last", FifoChannel(100)) as subscriber,
    ):
        other.writer("w", "Last", "Chatter", depth=0)
        until(lambda: other.matched("w"))
        matched_here(made, "Last", 1)
        [route] = made.routes.values()
        assert isinstance(route, FromDds)
        with monkeypatch.context() as full:
            full.setattr(PendingPuts, "_put_run", lambda _puts, _run: False)
            other.write("w", [{"number": value, "text": ""} for value in range(COUNT)])
            until(lambda: route.pending_count)  # the others wait in the mirror reader
            other.acknowledged("w")
            other.delete("w")
            end_ns = until(lambda: route.end_ns)
            if has_room:
                until(lambda: made.now_ns() > end_ns + made.linger_ns)
                assert list(made.routes.values()) == [route]
            else:
                until(lambda: not made.routes)
        if has_room:
            got = [subscriber.handler.recv(LIMIT_S).payload.to_bytes() for _ in range(COUNT)]
            assert [int.from_bytes(one[4:8], "little") for one in got] == list(range(COUNT))
            until(lambda: not made.routes)
        lost = {} if has_room else {"route ended": COUNT}
        until(lambda: made.counts.from_dds.lost == lost)  # a route goes before it is counted


@line("D-008", "D-452")
def test_a_stop_counts_samples_that_were_not_written() -> None:
    domain = next_domain()
    with (
        session_pair() as (near, far),
        peer(domain) as other,
        bridge(near, domain) as made,
    ):
        other.reader("r", "Unwritten", "Chatter")
        until(lambda: other.matched("r"))
        [route] = made.routes.values()
        route.history.expect(1)  # type: ignore[union-attr]  # live samples wait for a query that never ends
        for value in range(COUNT):
            put(far, "Unwritten", chatter(value))
        until(lambda: route.pending_count == COUNT)
        made.stop()
        assert made.counts.to_dds.lost == {"route ended": COUNT}


@line("D-008")
def test_only_a_stop_waits_for_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = next_domain()
    timeouts: dict[int, int] = {}
    with (
        session_pair() as (near, far),
        peer(domain) as other,
        bridge(near, domain, linger=0.1) as made,
    ):

        def is_acknowledged(writer: int, timeout_ns: int) -> bool:
            timeouts[writer] = timeout_ns
            return False

        monkeypatch.setattr(made.dds, "is_acknowledged", is_acknowledged)
        handles: dict[str, int] = {}
        for topic in ("Leaves", "Stays"):
            other.reader(topic, topic, "Chatter")
            until(lambda topic=topic: other.matched(topic))  # type: ignore[misc]
            put(far, topic, chatter(1))
            assert len(other.taken(topic, 1)) == 1
            handles[topic] = _writer(made, topic)
        other.delete("Leaves")
        # A route is out of the table before its mirrors are deleted.
        until(lambda: handles["Leaves"] not in made.mirror_qos)
        assert len(made.routes) == 1
        assert timeouts[handles["Leaves"]] == 0
        made.stop()
        assert 0 < timeouts[handles["Stays"]] <= bridge_module.STOP_WAIT_NS
        assert made.counts.to_dds.lost == {"unacknowledged": 2}


def _writer(made: Any, topic: str) -> int:
    [route] = [one for id_, one in made.routes.items() if id_.topic == topic]
    [mirror] = route.mirrors
    return int(mirror.handle)
