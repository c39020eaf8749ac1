"""The object that is driven: faces, aliases, counters."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.unit.routing.mesh import Mesh, Node

from elea.answers import QUEUED
from elea.errors import LocalProtocolError
from elea.limits import Limits
from elea.routing.core import Routing
from elea.routing.face import FaceSpec, local_face
from elea.routing.regions import CLIENT, CLIENTS, PEER, ROUTER
from elea.routing.roles.client import CLIENT_ROLE
from elea.routing.roles.peer import PEER_ROLE
from elea.routing.stats import Drop
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push


class Full:
    """An output without room."""

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        return QUEUED


def test_a_face_id_is_used_once_at_a_time() -> None:
    routing = Routing(b"z", CLIENT_ROLE, Full())
    routing.open_face(1, local_face(b"z", CLIENT), 0)
    with pytest.raises(LocalProtocolError, match="face 1 is open"):
        routing.open_face(1, local_face(b"z", CLIENT), 0)
    routing.close_face(1, 0)
    routing.close_face(1, 0)
    routing.open_face(1, local_face(b"z", CLIENT), 0)


def test_a_region_of_another_role_is_refused() -> None:
    routing = Routing(b"z", CLIENT_ROLE, Full())
    with pytest.raises(LocalProtocolError, match=r"use Role\.place"):
        routing.open_face(1, FaceSpec(zid=b"c", whatami=CLIENT, region=CLIENTS), 0)
    assert routing.is_empty()


def test_messages_behind_the_end_of_a_face_are_counted() -> None:
    routing = Routing(b"z", PEER_ROLE, Full())
    push = Push(WireExpr(0, "a"), Put(b""))
    routing.receive(9, push, True, 0)
    routing.push(9, "a", push, True)
    routing.receive(9, Declare(UndeclareKeyExpr(1)), True, 0)
    assert routing.stats.drops[Drop.UNKNOWN_FACE] == 3
    assert routing.stats.drops[Drop.UNKNOWN_FACE] == 3  # reading changes nothing
    assert not routing.is_ready(9)


def test_push_answers_with_the_worst_of_its_outputs() -> None:
    routing = Routing(b"z", PEER_ROLE, Full())
    push = Push(WireExpr(0, "a"), Put(b""))
    for face_id in (1, 2):
        routing.open_face(face_id, local_face(b"z", PEER), 0)
    assert routing.push(1, "a", push, True) == 0
    routing.receive(2, Declare(DeclareSubscriber(1, WireExpr(0, "a"))), True, 0)
    assert routing.push(1, "a", push, True) == QUEUED
    assert routing.receive_push(1, push, True) == QUEUED


class _Outspoken(Node):
    """A node of which one session does something from inside `send`, once."""

    then: Callable[[], None] | None = None
    speaker: int = 1

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        answer = super().send(face_id, message, reliable)
        if face_id == self.speaker and self.then is not None:
            then, self.then = self.then, None
            then()
        return answer


def test_an_interest_taken_back_while_it_is_answered() -> None:
    """Callbacks run inside `send`, and undeclare."""
    node = Mesh().node("p", cls=_Outspoken)
    assert isinstance(node, _Outspoken)
    session, other = node.session(), node.session()
    router = node.neighbour(ROUTER)
    other.subscriber("a/1")
    other.subscriber("a/2")
    router.heard()
    node.then = lambda: session.over(1)
    session.publisher("a/*")
    assert "D_FINAL I=1" not in session.heard()
    assert router.heard()[1:] == ['INTEREST 3 CURFUT K+S+R (3,"/*")', "INTEREST 3 FINAL"]
    for face in (session, other, router):
        face.close()
    assert node.routing.is_empty()


def test_a_session_that_answers_a_loss_by_declaring_again() -> None:
    node = Mesh().node("p", cls=_Outspoken)
    assert isinstance(node, _Outspoken)
    session, client, peer = node.session(), node.neighbour(CLIENT, zid=b"c"), node.neighbour(PEER)
    client.subscriber("a")
    session.publisher("a")
    session.heard()
    peer.heard()
    node.then = lambda: (session.subscriber("a"), session.put("a"), None)[2]
    client.close()
    assert session.heard() == ['U_SUBSCRIBER id 1 "a"']
    assert peer.mirror.known() == {("S", "a"): (False, 0)}
    session.close()
    assert peer.mirror.known() == {}


def test_a_lost_gateway_is_not_asked_again_by_who_hears_of_it() -> None:
    node = Mesh().node("p", cls=_Outspoken)
    assert isinstance(node, _Outspoken)
    session, router = node.session(), node.neighbour(ROUTER)
    session.publisher("a")
    router.heard()
    node.then = lambda: (session.put("b"), session.get("b"), session.querier("c"), None)[3]
    router.close()
    assert session.heard() == ["D_FINAL I=1", "RESPONSE_FINAL 2", "D_FINAL I=3"]
    session.close()
    assert node.routing.is_empty()


def test_an_alias_declared_twice() -> None:
    """3.4: the same key is no news; another key is ignored, and counted."""
    node = Mesh().node("p")
    session, peer = node.session(), node.neighbour(PEER)
    session.subscriber("a")
    for key in ("a", "a", "b"):
        peer.say(Declare(DeclareKeyExpr(9, WireExpr(0, key))))
    peer.say(Push(WireExpr(9), Put(b"x")))
    assert session.heard() == ['PUSH "a" x']
    assert node.routing.stats.dropped() == {"alias_conflict": 1}
    peer.say(Declare(UndeclareKeyExpr(9)))
    peer.say(Declare(DeclareKeyExpr(9, WireExpr(0, "b"))))
    peer.say(Push(WireExpr(9), Put(b"y")))
    assert node.routing.stats.dropped() == {"alias_conflict": 1, "no_subscriber": 1}


def test_what_a_session_will_use_often_gets_an_alias_on_every_link_north() -> None:
    node = Mesh().node("p")
    session, before, client = node.session(), node.neighbour(PEER), node.neighbour(CLIENT)
    before.heard(), client.heard()
    session.say(Declare(DeclareKeyExpr(1, WireExpr(0, "demo/often"))))
    session.say(Declare(DeclareKeyExpr(2, WireExpr(0, "wild/*/x"))))
    assert before.heard() == ['D_KEYEXPR 1 "demo/often"', 'D_KEYEXPR 2 "wild"']
    assert client.heard() == []
    after = node.neighbour(PEER, zid=b"later")
    assert after.heard()[:2] == ['D_KEYEXPR 1 "demo/often"', 'D_KEYEXPR 2 "wild"']
    for peer in (before, after):
        peer.say(Declare(DeclareFinal(), interest_id=0))
        peer.subscriber("**")
    session.put("demo/often")
    assert before.heard() == after.heard() == ["PUSH (1) x"]
    session.say(Declare(UndeclareKeyExpr(1)))
    session.put("demo/often")
    assert before.heard() == ["PUSH (1) x"]  # an alias once told stays


def test_aliases_that_cannot_be_kept() -> None:
    node = Mesh(limits=Limits(aliases_count=2)).node("p")
    peer = node.neighbour(PEER)
    peer.say(Declare(DeclareKeyExpr(1, WireExpr(3, "a"))))  # on top of another one
    peer.say(Declare(DeclareKeyExpr(1, WireExpr(0, "a//b"))))
    peer.say(Declare(DeclareKeyExpr(0, WireExpr(0, "a"))))  # 0 means "no alias"
    for number in (1, 2, 3):
        peer.say(Declare(DeclareKeyExpr(number, WireExpr(0, f"a/{number}"))))
    peer.say(Declare(UndeclareKeyExpr(3)))
    assert node.routing.stats.dropped() == {
        "alias_scope": 2,
        "invalid_key": 1,
        "alias_limit": 1,
        "unknown_entity": 1,
    }


def test_our_own_aliases_stop_at_the_bound() -> None:
    node = Mesh(limits=Limits(aliases_count=2)).node("p")
    session, peer = node.session(), node.neighbour(PEER)
    for number in range(4):
        session.subscriber(f"a{number}/**")
    assert [word for word in peer.heard() if word.startswith("D_SUB")] == [
        'D_SUBSCRIBER id 1 (1,"/**")',
        'D_SUBSCRIBER id 2 (2,"/**")',
        'D_SUBSCRIBER id 3 "a2/**"',
        'D_SUBSCRIBER id 4 "a3/**"',
    ]


def test_declarations_with_unusable_keys_are_dropped() -> None:
    node = Mesh().node("p")
    client = node.neighbour(CLIENT)
    for wire in (WireExpr(5, "/x"), WireExpr(0, "a//b"), WireExpr(0, "a/**/**"), WireExpr(0)):
        client.say(Declare(DeclareSubscriber(1, wire)))
    assert node.routing.stats.dropped() == {"unknown_scope": 1, "invalid_key": 3}
    client.close()
    assert node.routing.is_empty()


def test_keys_over_the_default_limits_work_where_they_are_allowed() -> None:
    key = "k" * 3_000
    node = Mesh(limits=Limits(keyexpr_len=4_096)).node("p")
    session, other = node.session(), node.session()
    session.publisher(key)
    other.subscriber(key)
    session.put(key)
    assert len(other.heard()) == 1
    strict = Mesh().node("p")
    strict.session().subscriber(key)
    assert strict.routing.stats.dropped() == {"invalid_key": 1}
