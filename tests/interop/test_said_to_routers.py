"""An Elea router between Eclipse nodes and a raw transport, which says what Eclipse cannot be made
to say, and sees what Eclipse does not show."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.interop.blocking_node import Node
from tests.interop.child import child
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    Taken,
    eventually,
    exchange,
    free_endpoint,
    has_been_told,
    matched,
    node_of,
    port_of,
    session,
    settings_of,
    zid_of,
)
from tests.interop.ends import eclipse_router as eclipse
from tests.interop.raw import CLIENT, ROUTER, declare, heard, interests, key, wait_for
from tests.interop.recording_proxy import RecordingProxy

from elea.ids import ZenohId
from elea.transport.negotiation import Offer
from elea.wire.conversation import Direction
from elea.wire.data.put import Put
from elea.wire.fields import QOS_DECLARE
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.interest import (
    OPTION_AGGREGATE,
    OPTION_KEYEXPRS,
    OPTION_QUERYABLES,
    OPTION_SUBSCRIBERS,
    OPTION_TOKENS,
    Interest,
    InterestMode,
)
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam
from elea.wire.network.push import Push

line = pytest.mark.line
RAW = b"\x0e\x2e"


@contextlib.contextmanager
def around(whatami: int, **offer: Any) -> Iterator[tuple[Any, Any, Node]]:
    """An Elea router, an Eclipse client of it, and a raw node beside it."""
    endpoint = free_endpoint()
    with (
        session(ELEA, "router", listen=endpoint) as router,
        session(ECLIPSE, "client", connect=endpoint) as client,
    ):
        node = Node.dial(port_of(endpoint), Offer(zid=RAW, whatami=whatami, **offer))
        try:
            yield router, client, node
        finally:
            node.close()


def texts(node: Node) -> list[str]:
    """The keys of the subscribers that a raw node was told of, in full."""
    heads = {one.id: one.key.suffix for one in heard(node, DeclareKeyExpr)}
    return [heads.get(one.key.scope, "") + one.key.suffix for one in heard(node, DeclareSubscriber)]


@line("R118")
def test_an_aggregate_interest_has_one_answer() -> None:
    with around(CLIENT, batch_len=2_048, qos=False) as (router, client, small):
        subscribers = [client.declare_subscriber(f"r118/{name}", Taken()) for name in "ab"]
        publishers = [router.declare_publisher(f"r118/{name}") for name in "ab"]
        assert all(map(matched, publishers))  # the router knows both
        options = OPTION_KEYEXPRS | OPTION_SUBSCRIBERS | OPTION_AGGREGATE
        asked = Interest(1, InterestMode.CURRENT_FUTURE, options, key("r118/*"), qos=QOS_DECLARE)
        small.send(asked)
        wait_for(small, DeclareFinal)
        assert texts(small) == ["r118/*"]
        subscribers[0].undeclare()
        got = Taken()
        client.declare_subscriber("r118/c", got)
        assert eventually(lambda: say(small, "r118/c", got))
        assert texts(small) == ["r118/*"]
        assert heard(small, UndeclareSubscriber) == []


def say(node: Node, text: str, got: Taken) -> bool:
    node.send(Push(key(text), Put(b"1")))
    return got.reach(1, 0.2)


@line("R133")
@pytest.mark.parametrize(
    "wrong",
    ["", "/a", "a/", "a//b", "a/**/**", "a/**/*", "a/$*", "a#b", "a?b", "a/b$c", "a/x**"],
)
def test_what_has_an_invalid_key_is_dropped_and_nothing_else(wrong: str) -> None:
    with around(CLIENT) as (router, client, node):
        got = Taken()
        client.declare_subscriber("**", got)
        node.send(declare(DeclareSubscriber(7, key(wrong))))
        node.send(Push(key(wrong), Put(b"wrong")))
        assert eventually(lambda: say(node, "r133/right", got))
        assert set(got.payloads) == {b"1"}
        assert len(router.info.transports()) == 2


@line("R144")
def test_a_client_that_is_stalled_holds_up_nobody() -> None:
    endpoint = free_endpoint()
    with (
        session(ELEA, "router", listen=endpoint) as router,
        child(ECLIPSE, settings_of("client", connect=endpoint)) as stalled,
        session(ECLIPSE, "client", connect=endpoint) as source,
        session(ECLIPSE, "client", connect=endpoint) as lively,
    ):
        stalled.do("subscribe", "r144/**")
        publisher = source.declare_publisher("r144/a")
        assert matched(publisher)
        stalled.stop()
        waiting = 0

        def fill() -> bool:
            """More than sockets and queues hold, once the publisher has not dropped most of it."""
            nonlocal waiting
            for _ in range(500):
                publisher.put(bytes(50_000))
                neighbours = list(node_of(router)._neighbours)
                waiting = max(waiting, sum(one.transport.pending_len for one in neighbours))
            stats = node_of(router).transport_stats().values()
            return sum(sum(one.dropped_congestion) for one in stats) > 0

        assert eventually(fill)
        assert waiting < 16 << 20
        exchange(source, lively, "lively")
        stalled.go_on()
        assert eventually(lambda: stalled.do("taken", "r144/**"))


@line("R151")
def test_nothing_passes_where_nobody_wants_it() -> None:
    here = free_endpoint()
    with (
        eclipse() as (theirs, endpoint),
        RecordingProxy(port_of(endpoint)) as proxy,
        session(ELEA, "router", listen=here, connect=proxy.endpoint),
        session(ECLIPSE, "client", connect=here) as source,
        session(ECLIPSE, "client", connect=here) as near,
        session(ECLIPSE, "client", connect=endpoint) as far,
    ):
        wanted, mine = Taken(), Taken()
        far.declare_subscriber("r151/wanted", wanted)
        near.declare_subscriber("r151/*", mine)
        assert eventually(lambda: has_been_told(theirs, "subscriber", "r151/*"))
        assert eventually(lambda: source.put("r151/wanted", b"1") or wanted.reach(1, 0.2))
        count = len(mine)
        for number in range(20):
            source.put("r151/unwanted", b"%d" % number)
        assert mine.reach(count + 20)
        wanted_count = len(wanted)
        source.put("r151/wanted", b"last")
        assert wanted.reach(wanted_count + 1)
        said = [one for one in proxy.said(Direction.INITIATOR) if one["msg"] == "PUSH"]
        assert len(said) == len(wanted)


def told(node: Node, sn: int, links: tuple[int, ...], router: bytes) -> None:
    """The raw router describes itself (0), the Elea router (1) and one behind itself (2)."""
    states = [
        LinkState(0, sn, RAW, 1, links=links),
        LinkState(1, 0, router, 1),
        LinkState(2, 1, b"\x0e\x2f", 1, links=(0,)),
    ]
    node.send(Oam(ID_LINKSTATE, LinkStateList(states), QOS_DECLARE))


@line("R156")
def test_an_old_description_is_ignored() -> None:
    with around(ROUTER) as (router, client, node):
        zid = ZenohId.parse(zid_of(router)).octets

        def reached() -> bool:
            with router._context.driver.lock:
                return node_of(router).routing.network.hop(zid, b"\x0e\x2f") is not None

        def settled() -> None:
            """What was said before has been heard: a sample came after it."""
            count = len(got)
            assert eventually(lambda: say(node, "r156", got) and len(got) > count)

        got = Taken()
        client.declare_subscriber("r156", got)
        told(node, 5, (1, 2), zid)
        assert eventually(reached)
        told(node, 4, (1,), zid)
        told(node, 5, (1,), zid)
        settled()
        assert reached()
        told(node, 6, (1,), zid)
        assert eventually(lambda: not reached())


@line("R160")
def test_routers_neither_ask_each_other_nor_answer() -> None:
    with around(ROUTER) as (router, client, node):
        told(node, 1, (1,), ZenohId.parse(zid_of(router)).octets)
        publisher = client.declare_publisher("r160/a")
        client.declare_subscriber("r160/b", Taken())
        client.liveliness().declare_subscriber("r160/*", Taken())
        options = OPTION_KEYEXPRS | OPTION_SUBSCRIBERS | OPTION_QUERYABLES | OPTION_TOKENS
        node.send(Interest(3, InterestMode.CURRENT_FUTURE, options, qos=QOS_DECLARE))
        assert not publisher.matching_status.matching
        node.send(declare(DeclareSubscriber(0, key("r160/a"))))
        assert matched(publisher)

        def arrives() -> bool:
            publisher.put(b"1")  # the way there may be found later than that somebody is there
            with contextlib.suppress(AssertionError):
                node.run_until(lambda: bool(heard(node, Push)), 0.3)
            return bool(heard(node, Push))

        assert eventually(arrives)
        assert interests(node) == []
        assert heard(node, DeclareFinal) == []
        assert texts(node) == ["r160/b"]  # unasked, as between routers
