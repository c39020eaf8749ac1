"""Whatever a hostile neighbour does, nothing in a live node grows beyond its bound.

The walk starts at the node and follows every reference: a container that somebody adds later and
forgets to bound fails here, whatever it is called.
"""

from __future__ import annotations

import gc
import os
import types
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum
from weakref import ref

import pytest
from tests.unit.node.worlds import settings

from elea.ids import WhatAmI
from elea.limits import Limits
from elea.node.links import NodeLink
from elea.node.node import Node
from elea.routing.stats import Drop
from elea.sim.network import link_info
from elea.transport.handshake import Opener, State
from elea.transport.negotiation import Offer
from elea.wire.batches import encode_batch
from elea.wire.buffer import Writer
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.data.reply import Reply
from elea.wire.fields import QOS_DECLARE, Stamp, WireExpr
from elea.wire.framing import StreamDecoder, frame
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest, InterestMode
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import Frame

FACES = 3
BOUND = 20
SMALL = Limits(
    aliases_count=BOUND,
    declarations_count=BOUND,
    declarations_node_count=2 * BOUND,
    interests_count=BOUND,
    queries_count=BOUND,
    routes_count=BOUND,
    cookies_count=BOUND,
    login_sources_count=BOUND,
    fragments_len=65_536,
    fragments_node_len=100_000,
    tx_queue_len=65_536,
    backlog_len=65_536,
)
# Three kinds, three faces, and what each of them is told: no container is legally larger.
ITEMS_MAX = 4 * FACES * BOUND
OCTETS_MAX = 4 * 1024 * 1024
CLIENT = 2
LOAD = 20 * ITEMS_MAX


class Hostile:
    """Somebody who is let in and then keeps no bound; it reads nothing."""

    def __init__(self, node: Node, link_id: int) -> None:
        self.node = node
        self.link_id = link_id
        node.link_opened(link_id, link_info("tcp", "hub:1", f"host-{link_id}:1"), 1)
        opener = Opener(Offer(zid=os.urandom(16), whatami=CLIENT), 1)
        stream = StreamDecoder()
        while opener.agreed is None:
            if opener.state is State.PEER_KNOWN:
                opener.proceed(1)
            for batch in opener.outgoing():
                node.link_data(link_id, frame(batch), 1)
            while (data := node.pull(link_id, 1)) is not None:
                stream.feed(data)
            while opener.agreed is None and stream.next_window():
                opener.receive_batch(bytes(stream.data[stream.start : stream.stop]), 1)
                if opener.state is State.PEER_KNOWN:
                    break
        self.sn = opener.agreed.own_initial_sn
        self.mask = opener.agreed.sn_mask

    def next_sn(self) -> int:
        sn, self.sn = self.sn, (self.sn + 1) & self.mask
        return sn

    def send(self, message: NetworkMessage) -> None:
        self.node.link_data(self.link_id, frame(encode_batch([Frame(self.next_sn()), message])), 2)

    def declare(self, body: Declaration) -> None:
        self.send(Declare(body, qos=QOS_DECLARE))


def declarations(one: Hostile, number: int) -> None:
    key = WireExpr(0, f"k/{one.link_id}/{number}")
    one.declare(DeclareSubscriber(number, key))
    one.declare(DeclareQueryable(number, key))
    one.declare(DeclareToken(number, key))


def aliases(one: Hostile, number: int) -> None:
    one.declare(DeclareKeyExpr(number % 60_000 + 1, WireExpr(0, f"alias/{number}")))


def interests(one: Hostile, number: int) -> None:
    one.send(Interest(number + 1, InterestMode.CURRENT_FUTURE, 0x0E, WireExpr(0, f"**/{number}")))


def queries(one: Hostile, number: int) -> None:
    one.declare(DeclareQueryable(1, WireExpr(0, "asked/**")))
    one.send(Request(number, WireExpr(0, f"asked/{number}"), Query(), timeout_ms=3_600_000))


def samples(one: Hostile, number: int) -> None:
    one.declare(DeclareSubscriber(1, WireExpr(0, "**")))
    one.send(Push(WireExpr(0, f"s/{number}"), Put(b"x", Stamp(number << 32, b"\x01"))))


def replies(one: Hostile, number: int) -> None:
    one.send(Response(number, WireExpr(0, "a"), Reply(Put(b"x"))))


def fragments(one: Hostile, number: int) -> None:
    piece = Fragment(one.next_sn(), bytes(1_000), more=True, first=number % 7 == 0)
    one.node.link_data(one.link_id, frame(encode_batch([piece])), 2)


LOADS = (declarations, aliases, interests, queries, samples, replies, fragments)


def reachable(root: object) -> Iterator[tuple[str, object]]:
    """Every object that lives because `root` does, with the way to it."""
    skipped = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, Enum, ref)
    seen = {id(root)}
    waiting: deque[tuple[str, object]] = deque([(type(root).__name__, root)])
    while waiting:
        way, one = waiting.popleft()
        yield way, one
        # What is being written is octets, however they are kept.
        for inner in () if isinstance(one, Writer) else gc.get_referents(one):
            if id(inner) not in seen and not isinstance(inner, skipped):
                seen.add(id(inner))
                waiting.append((f"{way} > {type(inner).__name__}", inner))


def grown(node: Node) -> list[str]:
    """The containers that are larger than anything may be, and what all octets come to."""
    found = []
    octets = 0
    for way, one in reachable(node):
        if isinstance(one, (dict, list, set, tuple, deque)) and len(one) > ITEMS_MAX:
            found.append(f"{way}: {len(one)} items")
        if isinstance(one, (bytes, bytearray, str)):
            octets += len(one)
        elif isinstance(one, Writer):
            octets += one.size
    if octets > OCTETS_MAX:
        found.append(f"{octets} octets in all")
    return found


def router(limits: Limits) -> Node:
    node = Node(settings(1, WhatAmI.ROUTER, timestamping=True), rng=os.urandom, limits=limits)
    node.tell_time(lambda: 1_700_000_000 * 10**9)
    node.start(1)
    return node


@pytest.mark.parametrize("load", LOADS, ids=lambda load: str(load.__name__))
def test_nothing_grows_beyond_its_bound_and_all_is_gone_at_the_end(load: object) -> None:
    assert callable(load)
    node = router(SMALL)
    crowd = [Hostile(node, number) for number in range(1, FACES + 1)]
    for number in range(LOAD // FACES):
        for one in crowd:
            load(one, number)
        node.effects()
    assert grown(node) == []
    for one in crowd:
        node.link_closed(one.link_id, "gone", 3)
    node.effects()
    node.dirty_links()
    assert node.routing.tables.declared_count == 0
    assert node.routing.is_empty()
    assert node.is_empty()


def test_who_left_is_gone_without_the_garbage_collector() -> None:
    """Each session left some 10 kB in a ring, which a flood of short ones made into megabytes."""
    node = router(SMALL)
    gc.disable()
    try:
        for number in range(70_001, 70_004):
            one = Hostile(node, number)
            declarations(one, 1)
            node.link_closed(number, "gone", 3)
        del one
        node.effects()
        # `isinstance` looks through weak proxies, which are among all objects, to what is gone.
        left = [each for each in gc.get_objects() if type(each) is NodeLink]
        assert [each.id for each in left if each.id > 70_000] == []
    finally:
        gc.enable()


def test_the_walk_finds_what_has_no_bound() -> None:
    """The canary: with the bound of declarations away, the same load is found."""
    node = router(replace(SMALL, declarations_count=10**6, declarations_node_count=10**6))
    one = Hostile(node, 1)
    for number in range(2 * ITEMS_MAX):
        declarations(one, number)
    assert any("items" in line for line in grown(node))


def test_all_faces_together_have_a_bound() -> None:
    node = router(SMALL)
    for number in range(1, 6):
        declarations_of = Hostile(node, number)
        for entity in range(BOUND // 3):
            declarations(declarations_of, entity)
    assert node.routing.tables.declared_count == SMALL.declarations_node_count
    assert node.routing.stats.drops[Drop.DECLARATION_LIMIT] == 5 * 18 - 40


def test_the_one_that_most_waits_for_goes_when_too_much_waits_for_all() -> None:
    node = router(replace(SMALL, waiting_node_len=60_000))
    [fat, thin, source] = [Hostile(node, number) for number in range(1, 4)]
    fat.declare(DeclareSubscriber(1, WireExpr(0, "fat")))
    thin.declare(DeclareSubscriber(1, WireExpr(0, "thin")))
    for number in range(50):
        source.send(Push(WireExpr(0, "fat"), Put(bytes(1_000))))
        if number % 10 == 0:
            source.send(Push(WireExpr(0, "thin"), Put(bytes(1_000))))
    node.handle_timer(3)
    assert len(node.neighbours()) == FACES  # 55 kB wait
    for _ in range(10):
        source.send(Push(WireExpr(0, "fat"), Put(bytes(1_000))))
    node.handle_timer(10**9)
    assert [one.link_id for one in (fat, thin, source) if node.intake(one.link_id) is None] == [1]
