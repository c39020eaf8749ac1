"""Keys of the configuration, as the transports and the state of a node show them."""

from __future__ import annotations

import os
from typing import Any

import pytest
from tests.unit.node.test_backlog import agreed, push

from elea.answers import DROPPED, SENT
from elea.config.config import Config
from elea.limits import DEFAULT_LIMITS
from elea.node.neighbour import ConnectionState
from elea.node.neighbours import Neighbours
from elea.node.node import Node
from elea.node.settings import NodeSettings, limits_of
from elea.routing.core import Routing
from elea.transport.unicast import Transport

MESSAGES_MAX = 2_000


def settings(**link: Any) -> NodeSettings:
    config = Config.from_mapping({"transport": {"link": link}})
    return NodeSettings.from_config(config, os.urandom)


def transport(**link: Any) -> Transport:
    terms = agreed(qos=True)
    made = Transport(terms, settings=settings(**link).transport)
    made.add_link(1, terms, 0)
    return made


def room(made: Transport, priority: int) -> int:
    """How many droppable messages are taken before one is dropped."""
    for count in range(MESSAGES_MAX):
        if made.send(push("a", 0, priority), True, 0) == DROPPED:
            return count
    return MESSAGES_MAX


def test_a_queue_holds_as_many_batches_as_configured() -> None:
    sizes = {"data": 1, "data_low": 4}
    made = transport(tx={"batch_size": 1_000, "queue": {"size": sizes}})
    small, larger, unset = room(made, 5), room(made, 6), room(made, 7)
    assert 0 < small < larger < unset
    assert larger <= 4 * (small + 1)


@pytest.mark.parametrize("batching", [True, False])
def test_messages_share_batches_unless_configured_otherwise(batching: bool) -> None:
    made = transport(tx={"queue": {"batching": {"enabled": batching}}})
    for name in "abc":
        small = push(name, 0)
        small.body.payload = b"x"  # type: ignore[union-attr]  # it is a Put
        assert made.send(small, True, 0) == SENT
    batches = 0
    while made.pull(1, 0) is not None:
        batches += 1
    assert batches == (1 if batching else 3)


def test_keep_alives_are_as_many_per_lease_as_configured() -> None:
    made = transport(tx={"keep_alive": 10})
    assert made.handle_timer(999_999_999) == ()
    assert len(made.handle_timer(1_000_000_000)) == 1  # of a lease of 10 s
    assert transport().handle_timer(1_000_000_000) == ()


def test_bounds_that_the_configuration_sets() -> None:
    text = """{transport: {unicast: {accept_pending: 7},
                           link: {rx: {max_message_size: 1000000000, buffer_size: 300000}}}}"""
    limits = limits_of(Config.from_json5(text))
    assert limits.accept_pending_count == 7
    assert limits.message_len == limits.fragments_len == limits.fragments_node_len == 1_000_000_000
    assert limits.link_read_len == limits.link_turn_len == 300_000
    assert limits_of(Config()) == DEFAULT_LIMITS
    client = limits_of(Config.from_json5("{mode: 'client'}"))
    assert client.declarations_count == DEFAULT_LIMITS.router_declarations_count


def test_opening_waits_for_declarations_unless_configured_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for awaited, state in (
        (True, ConnectionState.WAITING),
        (False, ConnectionState.CONNECTED),
    ):
        config = Config.from_mapping(
            {
                "open": {"return_conditions": {"declares": awaited}},
                "scouting": {"multicast": {"enabled": False}},
            }
        )
        node = Node(NodeSettings.from_config(config, os.urandom), rng=os.urandom)
        monkeypatch.setattr(Neighbours, "faces", lambda neighbours: [1])
        monkeypatch.setattr(Routing, "is_ready", lambda routing, face_id: False)
        assert node.connection_state() is state
