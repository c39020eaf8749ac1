"""Keys of the configuration, as two nodes on loopback show them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.link.test_driver import until

import elea
from elea.config.config import Config
from elea.link.driver import Driver
from elea.link.poller import SelectorPoller
from elea.link.settings import LinkSettings
from elea.link.stream import StreamLink
from elea.node.node import Node
from elea.node.settings import NodeSettings
from elea.transport.reassembly import TOO_LONG
from elea.transport.stats import TransportStats

HERE = {"listen": {"endpoints": ["tcp/127.0.0.1:0"]}}
SILENT = {"scouting": {"multicast": {"enabled": False}}}


def driver_of(session: elea.Session) -> Driver:
    driver = session._context.driver
    assert isinstance(driver, Driver)
    return driver


def stats_of(session: elea.Session) -> TransportStats:
    driver = driver_of(session)
    with driver.lock:
        [stats] = driver.node.transport_stats().values()
    return stats


@contextmanager
def pair(
    transport: dict[str, Any], other: dict[str, Any] | None = None
) -> Iterator[tuple[elea.Session, elea.Session]]:
    """A peer with this section `transport`, and a client that is connected to it."""
    with elea.open({**HERE, **SILENT, "transport": transport}) as peer:
        where = str(driver_of(peer).bound()[0])
        client = {"mode": "client", "connect": {"endpoints": [where]}, "transport": other or {}}
        with elea.open({**client, **SILENT}) as session:
            until(lambda: driver_of(peer).node.transport_stats())
            yield peer, session


def test_a_message_longer_than_max_message_size_is_dropped_and_counted() -> None:
    with pair({"link": {"rx": {"max_message_size": 200_000}}}) as (peer, client):
        samples = peer.declare_subscriber("a")
        publisher = client.declare_publisher("a")
        until(lambda: publisher.matching_status.matching)
        publisher.put(bytes(300_000))
        publisher.put(bytes(100_000))
        assert len(samples.recv(timeout=20).payload) == 100_000
        assert stats_of(peer).lost_fragments[TOO_LONG] == 1


def test_as_much_is_read_at_once_as_buffer_size_says(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[int] = set()
    read = StreamLink.read

    def spy(link: StreamLink, length: int) -> bytes | None:
        asked.add(length)
        return read(link, length)

    monkeypatch.setattr(StreamLink, "read", spy)
    with pair({"link": {"rx": {"buffer_size": 123_456}}}):
        assert 123_456 in asked


def test_one_handshake_more_than_accept_pending_ends_the_oldest() -> None:
    with elea.open({**HERE, **SILENT, "transport": {"unicast": {"accept_pending": 1}}}) as peer:
        where = driver_of(peer).bound()[0].host_port()
        with socket.create_connection(where) as first:
            first.sendall(b"\x05\x00")  # a handshake has begun
            first.settimeout(20)
            with socket.create_connection(where) as second:
                second.sendall(b"\x05\x00")
                assert first.recv(1) == b""


def test_a_node_sends_as_many_keep_alives_as_configured() -> None:
    lease = {"lease": 2_000}
    often, seldom = {"link": {"tx": {**lease, "keep_alive": 40}}}, {"link": {"tx": lease}}
    with pair(often, seldom) as (peer, client):
        there, here = stats_of(client).received_batches, stats_of(peer).received_batches
        until(lambda: stats_of(peer).received_batches - here >= 2)
        assert stats_of(client).received_batches - there >= 6


def test_a_burst_is_looked_at_as_often_as_time_limit_says() -> None:
    text = (
        "{transport: {link: {tx: {queue: {batching: {time_limit: 250}}}}}, listen: {endpoints: []}}"
    )
    config = Config.from_json5(text)
    config.insert_json5("scouting/multicast/enabled", "false")
    node = Node(NodeSettings.from_config(config, os.urandom), rng=os.urandom)
    driver = Driver(node, SelectorPoller(), LinkSettings.from_config(config))
    due: list[int] = []
    driver.timers.call_at = lambda at_ns, call: due.append(at_ns)  # type: ignore[method-assign,assignment,return-value]
    driver._flow.burst_writes = 1
    driver._burst_turn()
    assert due[-1] == driver._flow.last_write_ns + 250_000_000
    driver.close(0)


def test_without_batching_nothing_waits_for_company() -> None:
    with pair({}, {"link": {"tx": {"queue": {"batching": {"enabled": False}}}}}) as (peer, client):
        samples = peer.declare_subscriber("a")
        publisher = client.declare_publisher("a")
        until(lambda: publisher.matching_status.matching)
        before = stats_of(client).sent_batches
        for _ in range(100):
            publisher.put(b"x")
        for _ in range(100):
            samples.recv(timeout=20)
        assert stats_of(client).sent_batches - before >= 100
        assert not driver_of(client).node.egress.flush_asked


@pytest.mark.parametrize("here", [True, False])
@pytest.mark.parametrize("there", [True, False])
def test_a_transport_has_priorities_if_both_sides_offer_them(here: bool, there: bool) -> None:
    offers = [{"unicast": {"qos": {"enabled": one}}} for one in (here, there)]
    with pair(*offers) as sessions:
        found = [one.is_qos for session in sessions for one in session.info.transports()]
        assert found == [here and there] * 2
        listener = sessions[1].info.declare_transport_events_listener(history=True)
        assert listener.recv().transport.is_qos == (here and there)


@pytest.mark.parametrize(
    "section",
    [
        {"listen": {"endpoints": ["tls/127.0.0.1:0#enable_mtsl=true"]}},
        {"connect": {"endpoints": ["tls/127.0.0.1:1#root_ca_certficate=ca.pem"]}},
    ],
    ids=["listen", "connect"],
)
def test_a_session_with_a_misspelt_option_of_an_endpoint_does_not_open(
    section: dict[str, Any],
) -> None:
    with pytest.raises(elea.ZError, match="unknown option"):
        elea.open({**section, **SILENT})
