"""What nodes may say to an Elea client or peer, said by a raw transport in their place.

Eclipse nodes say these things at times that a test cannot choose; the protocol allows each of them
at any time.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.interop.blocking_node import Node
from tests.interop.ends import ELEA, Taken, eventually, exchange, free_endpoint, port_of, session
from tests.interop.raw import (
    PEER,
    accepted,
    declare,
    final,
    heard,
    interests,
    key,
    wait_for,
)

from elea.transport.negotiation import Offer
from elea.wire.batches import encode_batch
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.data.reply import Reply
from elea.wire.extensions import Extension, Extras
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.framing import frame
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import (
    OPTION_AGGREGATE,
    OPTION_KEYEXPRS,
    OPTION_QUERYABLES,
    OPTION_SUBSCRIBERS,
    OPTION_TOKENS,
    Interest,
    InterestMode,
)
from elea.wire.network.oam import Oam
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal
from elea.wire.transport.fragment import Fragment
from elea.wire.transport.frame import Frame
from elea.wire.transport.keepalive import KeepAlive

line = pytest.mark.line
DATA = 0x0D  # priority 5, blocking
EVERYTHING = OPTION_KEYEXPRS | OPTION_SUBSCRIBERS | OPTION_QUERYABLES | OPTION_TOKENS


def put(expr: WireExpr, payload: bytes) -> Push:
    return Push(expr, Put(payload), DATA)


def settled(session_: Any, node: Node) -> None:
    """Everything said to the session so far was taken: it answers what is said last."""
    count = len(heard(node, ResponseFinal))
    node.send(Request(90_000 + count, key("settled"), Query(), qos=DATA))
    wait_for(node, ResponseFinal, count + 1)


def in_thread(call: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    return thread


# To a client


@line("C68")
def test_a_question_for_nobody_is_ended() -> None:
    with accepted("client") as (_, node):
        node.send(Request(7, key("nobody"), Query(), qos=DATA))
        [end] = wait_for(node, ResponseFinal)
        assert end.id == 7
        assert heard(node, Response) == []


@line("C75")
def test_samples_are_sent_until_the_router_has_answered() -> None:
    with accepted("client") as (ours, node):
        publisher = ours.declare_publisher("c75")
        [interest] = wait_for(node, Interest)
        publisher.put(b"before")
        wait_for(node, Push)
        node.send(final(interest.id))
        settled(ours, node)
        publisher.put(b"filtered")
        node.send(declare(DeclareSubscriber(1, key("c75")), interest.id))
        settled(ours, node)
        publisher.put(b"after")
        pushes = wait_for(node, Push, 2)
        assert [one.body.payload for one in pushes if isinstance(one.body, Put)] == [
            b"before",
            b"after",
        ]


@line("C79")
def test_declarations_come_with_an_interest_without_and_again() -> None:
    with accepted("client") as (ours, node):
        publisher = ours.declare_publisher("c79")
        querier = ours.declare_querier("c79")
        first, second = wait_for(node, Interest, 2)
        assert not publisher.matching_status.matching
        node.send(declare(DeclareSubscriber(3, key("c79")), first.id))
        node.send(declare(DeclareSubscriber(3, key("c79"))))
        node.send(final(first.id))
        node.send(declare(DeclareQueryable(3, key("c79"), complete=False)))
        node.send(declare(DeclareQueryable(3, key("c79"), complete=True), second.id))
        node.send(final(second.id))
        settled(ours, node)
        assert publisher.matching_status.matching
        assert querier.matching_status.matching
        node.send(declare(UndeclareSubscriber(3)))
        node.send(declare(UndeclareQueryable(3)))
        settled(ours, node)
        assert not publisher.matching_status.matching
        assert not querier.matching_status.matching


@line("C80")
def test_aliases_stand_for_the_beginning_of_a_key_whoever_declared_them() -> None:
    with accepted("client") as (ours, node):
        got = Taken()
        ours.declare_subscriber("c80/own/**", got)
        [alias] = wait_for(node, DeclareKeyExpr)
        assert alias.key == key("c80/own")
        ours.declare_subscriber("c80/their/**", got)
        wait_for(node, DeclareSubscriber, 2)
        node.send(declare(DeclareKeyExpr(900, key("c80/thei"))))
        node.send(put(WireExpr(alias.id, "/a", sender=False), b"1"))
        node.send(put(WireExpr(900, "r/bx"), b"2"))
        node.send(put(WireExpr(901, "/x"), b"unknown alias"))
        node.send(put(key("c80/own/**/**"), b"no canonical key"))
        node.send(Request(5, WireExpr(901, "/x"), Query(), qos=DATA))
        assert [one.id for one in wait_for(node, ResponseFinal)] == [5]
        assert got.reach(2)
        assert [str(one.key_expr) for one in got.items] == ["c80/own/a", "c80/their/bx"]
        assert not node.closed


@line("C85", "M181")
@pytest.mark.parametrize("form", ["id 0 and key", "id", "id and empty key", "id and key"])
def test_undeclarations_name_what_they_end_in_any_form(form: str) -> None:
    with accepted("client") as (ours, node):
        seen = Taken()
        ours.liveliness().declare_subscriber("m181/*", seen)
        publisher, querier = ours.declare_publisher("m181/a"), ours.declare_querier("m181/a")
        for interest in wait_for(node, Interest, 3):
            node.send(final(interest.id))
        with_id = 0 if form == "id 0 and key" else 4
        expr = {"id": None, "id and empty key": key("")}.get(form, key("m181/a"))
        if with_id:
            node.send(declare(DeclareToken(4, key("m181/a"))))
            node.send(declare(DeclareSubscriber(4, key("m181/a"))))
            node.send(declare(DeclareQueryable(4, key("m181/a"))))
            assert eventually(lambda: publisher.matching_status.matching)
            assert eventually(lambda: querier.matching_status.matching)
            node.send(declare(UndeclareSubscriber(4, expr)))
            node.send(declare(UndeclareQueryable(4, expr)))
        node.send(declare(UndeclareToken(with_id, expr)))
        assert seen.reach(2 if with_id else 1)
        assert seen.changes[-1] == ("m181/a", "DELETE")
        assert eventually(lambda: not publisher.matching_status.matching)
        assert eventually(lambda: not querier.matching_status.matching)


@line("C89")
def test_an_error_of_the_router_has_no_key() -> None:
    with accepted("client") as (ours, node):
        replies: list[Any] = []
        asking = in_thread(lambda: replies.extend(ours.get("c89", timeout=20)))
        [request] = wait_for(node, Request)
        node.send(Response(request.id, key(""), Err(b"Timeout"), qos=DATA))
        node.send(Response(request.id, key("c89"), Reply(Put(b"one")), qos=DATA))
        node.send(ResponseFinal(request.id, qos=DATA))
        asking.join(20)
        assert sorted(bytes((one.ok or one.err).payload) for one in replies) == [b"Timeout", b"one"]


UNKNOWN = Extras(unknown=(Extension(0x0B),))


@line("M182")
def test_unknown_extensions_that_may_be_ignored_are() -> None:
    with accepted("client") as (ours, node):
        got = Taken()
        ours.declare_subscriber("m182", got)
        publisher = ours.declare_publisher("m182/p")
        [interest] = wait_for(node, Interest)
        node.send(
            Declare(DeclareSubscriber(1, key("m182/p")), interest.id, QOS_DECLARE, extras=UNKNOWN)
        )
        node.send(Declare(DeclareFinal(extras=UNKNOWN), interest.id, QOS_DECLARE))
        node.send(
            Interest(3, InterestMode.CURRENT_FUTURE, EVERYTHING, qos=QOS_DECLARE, extras=UNKNOWN)
        )
        node.send(Push(key("m182"), Put(b"1", extras=UNKNOWN), DATA, extras=UNKNOWN))
        assert got.reach(1)
        assert publisher.matching_status.matching
        settled(ours, node)
        assert not node.closed


# To a peer


@line("P99", "P98")
def test_a_peer_that_has_not_told_all_gets_everything() -> None:
    with accepted("peer", PEER) as (ours, node):
        wait_for(node, DeclareFinal)
        ours.put("p99", b"before")
        wait_for(node, Push)
        node.send(declare(DeclareSubscriber(1, key("p99/wanted"))))
        node.send(final(0))
        settled(ours, node)
        ours.put("p99", b"nobody wants it")
        ours.put("p99/wanted", b"wanted")
        pushes = wait_for(node, Push, 2)
        assert [one.body.payload for one in pushes if isinstance(one.body, Put)] == [
            b"before",
            b"wanted",
        ]


@line("P95", "P101")
def test_a_peer_tells_all_it_has_and_says_when_it_is_done() -> None:
    with accepted("peer", PEER, more={"open/return_conditions/declares": False}) as (ours, node):
        wait_for(node, DeclareFinal)
        [end] = [one for one in heard(node, Declare) if isinstance(one.body, DeclareFinal)]
        assert end.interest_id == 0
        assert interests(node) == []
    with accepted("peer") as (ours, node):
        ours.declare_subscriber("p101", Taken())
        wait_for(node, DeclareSubscriber)
        assert heard(node, DeclareFinal) == []


@line("P102")
def test_a_peer_asks_routers_and_not_peers() -> None:
    with accepted("peer", PEER) as (ours, node):
        node.send(final(0))
        publisher = ours.declare_publisher("p102")
        ours.declare_subscriber("p102/s", Taken())
        wait_for(node, DeclareSubscriber)
        assert interests(node) == []
        publisher.undeclare()
    with accepted("peer") as (ours, node):
        publisher = ours.declare_publisher("p102")
        [interest] = wait_for(node, Interest)
        assert interest.mode is InterestMode.CURRENT_FUTURE
        publisher.undeclare()


@line("P111")
def test_a_peer_answers_the_interest_of_a_peer() -> None:
    with accepted("peer", PEER) as (ours, node):
        node.send(final(0))
        ours.declare_subscriber("p111/s", Taken())
        ours.declare_queryable("p111/q", Taken())
        token = ours.liveliness().declare_token("p111/t")
        wait_for(node, DeclareToken)
        before = len(heard(node, Declare))
        node.send(
            Interest(5, InterestMode.CURRENT_FUTURE, EVERYTHING, key("p111/**"), qos=QOS_DECLARE)
        )
        node.run_until(
            lambda: any(
                isinstance(one.body, DeclareFinal) and one.interest_id == 5
                for one in heard(node, Declare)
            )
        )
        answers = heard(node, Declare)[before:]
        assert {type(one.body) for one in answers if one.interest_id == 5} == {
            DeclareSubscriber,
            DeclareQueryable,
            DeclareToken,
            DeclareFinal,
        }
        token.undeclare()


@line("P110")
def test_a_peer_tells_a_router_who_its_neighbours_are() -> None:
    with accepted("peer", more={"scouting/gossip/enabled": True}) as (_, node):
        wait_for(node, Oam)


@line("P105", "P106")
def test_the_interest_of_a_client_waits_for_the_gateway() -> None:
    endpoint = free_endpoint()
    with accepted("peer", more={"listen/endpoints": [endpoint]}) as (_, gateway):
        below = Node.dial(port_of(endpoint), Offer(zid=b"\x0e\x3e", whatami=2))
        options = OPTION_KEYEXPRS | OPTION_SUBSCRIBERS
        below.send(Interest(1, InterestMode.CURRENT_FUTURE, options, key("p105"), qos=QOS_DECLARE))
        [forwarded] = wait_for(gateway, Interest)
        assert heard(below, DeclareFinal) == []
        gateway.send(declare(DeclareSubscriber(9, key("p105")), forwarded.id))
        gateway.send(final(forwarded.id))
        wait_for(below, DeclareFinal)
        assert len(heard(below, DeclareSubscriber)) == 1
        below.close()


@line("M180")
def test_a_small_client_gets_one_answer_for_all_that_matches() -> None:
    # As zenoh-pico asks: short batches, no priorities, one declaration for the whole interest.
    endpoint = free_endpoint()
    with session(ELEA, "peer", listen=endpoint) as ours:
        small = Node.dial(
            port_of(endpoint), Offer(zid=b"\x0e\x5e", whatami=2, batch_len=2_048, qos=False)
        )
        first = ours.declare_subscriber("m180/a", Taken())
        second = ours.declare_subscriber("m180/b", Taken())
        options = OPTION_KEYEXPRS | OPTION_SUBSCRIBERS | OPTION_AGGREGATE
        small.send(
            Interest(1, InterestMode.CURRENT_FUTURE, options, key("m180/*"), qos=QOS_DECLARE)
        )
        wait_for(small, DeclareFinal)
        [answer] = heard(small, DeclareSubscriber)
        texts = {one.id: one.key.suffix for one in heard(small, DeclareKeyExpr)}
        assert texts.get(answer.key.scope, "") + answer.key.suffix == "m180/*"
        first.undeclare()
        got = Taken()
        ours.declare_subscriber("m180/big", got)
        small.send(put(key("m180/big"), bytes(20_000)))
        assert got.reach(1)
        assert heard(small, UndeclareSubscriber) == []
        second.undeclare()
        small.close()


# Batches, in any form


@line("T51", "T52")
def test_one_batch_holds_frames_of_both_kinds_and_keep_alives() -> None:
    with accepted("client") as (ours, node):
        got = Taken()
        ours.declare_subscriber("t51", got)
        first = node.transport.agreed.own_initial_sn
        [(sock, _)] = node.links.values()
        batch = encode_batch(
            [
                Frame(first, True),
                put(key("t51"), b"1"),
                put(key("t51"), b"2"),
                KeepAlive(),
                Frame(first, False),
                put(key("t51"), b"3"),
                KeepAlive(),
                Frame(first, True, 1),
                put(key("t51"), b"4"),
            ]
        )
        sock.sendall(frame(b""))  # an empty batch means nothing
        sock.sendall(frame(batch))
        assert got.reach(4)
        assert got.payloads == [b"1", b"2", b"3", b"4"]


@line("T48", "T49")
def test_a_message_that_was_interrupted_is_given_up_and_the_next_arrives() -> None:
    with accepted("client") as (ours, node):
        got = Taken()
        ours.declare_subscriber("t49", got)
        first = node.transport.agreed.own_initial_sn
        [(sock, _)] = node.links.values()
        whole = encode_batch([put(key("t49"), b"x" * 100)])

        def part(sn: int, data: bytes, *, more: bool, begins: bool = False) -> None:
            fragment = Fragment((first + sn) & 0x0FFF_FFFF, data, more=more, first=begins)
            sock.sendall(frame(encode_batch([fragment])))

        part(0, whole[:50], more=True, begins=True)
        part(2, whole[50:], more=False)  # number 1 is missing
        part(3, whole[:50], more=True, begins=True)
        part(4, whole[:60], more=True, begins=True)  # begins anew
        part(5, whole[60:], more=False)
        part(6, whole[50:], more=False)  # the end of nothing
        sock.sendall(frame(encode_batch([Frame((first + 7) & 0x0FFF_FFFF), put(key("t49"), b"2")])))
        assert got.reach(2)
        assert [len(one) for one in got.payloads] == [100, 1]


# Garbage in the middle of a conversation


@line("M183")
@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff\xff" + b"\xff" * 100,
        frame(b"\x00"),
        frame(b"\x1f" * 40),
        frame(encode_batch([Frame(1 << 27), put(key("m183"), b"1")])[:-4] + b"\xff" * 9),
    ],
    ids=["too long", "no message", "no transport message", "no network message"],
)
def test_garbage_in_a_conversation_ends_that_link_alone(garbage: bytes) -> None:
    endpoint = free_endpoint()
    with (
        session(ELEA, "peer", listen=endpoint) as ours,
        session("eclipse", "client", connect=endpoint) as theirs,
    ):
        node = Node.dial(port_of(endpoint), Offer(zid=b"\x0e\x4e", whatami=2))
        [(sock, _)] = node.links.values()
        sock.sendall(garbage)
        sock.settimeout(20)
        with contextlib.suppress(ConnectionError):  # a reset is an end as well
            while sock.recv(65_536):
                pass
        assert eventually(lambda: len(ours.info.transports()) == 1)
        exchange(ours, theirs, "m183")
        again = Node.dial(port_of(endpoint), Offer(zid=b"\x0e\x4e", whatami=2))
        assert eventually(lambda: len(ours.info.transports()) == 2)
        again.close()
        node.release()
