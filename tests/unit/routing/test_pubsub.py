"""Samples: who gets them, once each, in which form (behaviour.md 5.1, 5.2)."""

from __future__ import annotations

import pytest
from tests.unit.routing.mesh import Mesh, Session

from elea.limits import Limits
from elea.routing.regions import CLIENT, PEER, ROUTER
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.fields import Stamp, WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push


def subscribe(face: Session, key: str) -> None:
    face.say(Declare(DeclareSubscriber(next(face.ids), WireExpr(0, key))))


def pushes(face: Session) -> list[str]:
    return [word for word in face.heard() if word.startswith("PUSH")]


def test_a_face_gets_one_copy_however_many_subscribers_match() -> None:
    node = Mesh().node("p")
    session, client, other = node.session(), node.neighbour(CLIENT), node.session()
    for key in ("a/b", "a/*", "**"):
        subscribe(client, key)
        other.subscriber(key)
    session.put("a/b")
    assert pushes(client) == pushes(other) == ['PUSH "a/b" x']


def test_nothing_comes_back() -> None:
    node = Mesh().node("p")
    session, client = node.session(), node.neighbour(CLIENT)
    session.subscriber("a")
    subscribe(client, "a")
    session.put("a", "1")
    client.say(Push(WireExpr(0, "a"), Put(b"2")))
    assert pushes(session) == ['PUSH "a" 2']
    assert pushes(client) == ['PUSH "a" 1']
    assert node.routing.stats.dropped() == {}


def test_a_sample_that_nobody_wants_is_counted() -> None:
    node = Mesh().node("p")
    session = node.session()
    session.subscriber("a")  # its own: the session serves itself
    session.put("a")
    session.put("b")
    assert node.routing.stats.dropped() == {"no_subscriber": 2}


def test_samples_do_not_cross_between_peers() -> None:
    """3.2, checklist 97."""
    node = Mesh().node("p")
    one, two = node.neighbour(PEER, zid=b"1"), node.neighbour(PEER, zid=b"2")
    router = node.neighbour(ROUTER, zid=b"3")
    session, client = node.session(), node.neighbour(CLIENT, zid=b"4")
    for face in (one, two, session, client):
        subscribe(face, "a")
    one.say(Push(WireExpr(0, "a"), Put(b"x")))
    assert [pushes(face) for face in (two, router)] == [[], []]
    assert [pushes(face) for face in (session, client)] == [['PUSH "a" x']] * 2
    router.say(Push(WireExpr(0, "a"), Put(b"y")))
    assert [pushes(face) for face in (one, two)] == [[], []]
    assert [pushes(face) for face in (session, client)] == [['PUSH "a" y']] * 2


def test_a_peer_gets_everything_until_it_has_told_everything() -> None:
    """4.7, checklist 98, 99; what comes from the north is not for it."""
    node = Mesh().node("p")
    session, peer = node.session(), node.neighbour(PEER, zid=b"1")
    router = node.neighbour(ROUTER, zid=b"2")
    session.put("a", "1")
    router.say(Push(WireExpr(0, "a"), Put(b"2")))
    assert pushes(peer) == ['PUSH "a" 1']
    assert not node.routing.is_ready(peer.face_id)
    peer.say(Declare(DeclareFinal(), 0))
    assert node.routing.is_ready(peer.face_id)
    session.put("a", "3")
    assert pushes(peer) == []


def test_what_a_sample_carries_is_kept() -> None:
    node = Mesh().node("p")
    client, peer = node.neighbour(CLIENT), node.neighbour(PEER)
    subscribe(peer, "a/*")
    body = Put(b"x", timestamp=Stamp(7, b"t"))
    push = Push(WireExpr(0, "a/b"), body, 0x13, Stamp(9, b"u"), node_id=4)
    peer.heard()
    client.say(push, reliable=False)
    assert peer.got == [Push(WireExpr(0, "a/b"), body, 0x13, Stamp(9, b"u"))]
    assert push.node_id == 4  # messages are shared and never changed


@pytest.mark.parametrize("reliable", [True, False])
def test_reliability_is_kept(reliable: bool) -> None:
    mesh = Mesh()
    one, two = mesh.node("1"), mesh.node("2")
    mesh.connect(one, two)
    session, other = one.session(), two.session()
    other.subscriber("a")
    session.put("a", reliable=reliable)
    assert other.heard() == ['PUSH "a" x']
    assert two.reliable == {other.face_id: reliable}


def test_aliases_of_the_destination_are_preferred() -> None:
    """3.4: the longest known; of two equals, the destination's own."""
    node = Mesh().node("p")
    session, peer = node.session(), node.neighbour(PEER)
    peer.say(Declare(DeclareKeyExpr(8, WireExpr(0, "a"))))
    subscribe(peer, "a/**")
    session.put("a/b/c")
    assert pushes(peer) == ['PUSH (M=0 8,"/b/c") x']
    session.publisher("z")  # no gateway: nothing is declared
    session.subscriber("a/b")  # declares an alias of our own
    session.put("a/b/c")
    assert pushes(peer) == ['PUSH (1,"/c") x']
    peer.say(Declare(DeclareKeyExpr(9, WireExpr(0, "a/b"))))
    session.put("a/b/c")
    assert pushes(peer) == ['PUSH (M=0 9,"/c") x']
    peer.say(Declare(UndeclareKeyExpr(9)))
    session.put("a/b/c")
    assert pushes(peer) == ['PUSH (1,"/c") x']


def test_keys_are_resolved_by_plain_concatenation() -> None:
    """3.4, checklist 80."""
    node = Mesh().node("p")
    session, peer = node.session(), node.neighbour(PEER)
    session.subscriber("a/bx")
    session.subscriber("a/b")
    peer.say(Declare(DeclareKeyExpr(7, WireExpr(0, "a/b"))))
    peer.say(Push(WireExpr(7, "x"), Put(b"1")))
    peer.say(Push(WireExpr(7), Put(b"2")))
    peer.say(Push(WireExpr(2, "", False), Put(b"3")))  # our alias for a/b
    assert pushes(session) == ['PUSH "a/bx" 1', 'PUSH "a/b" 2', 'PUSH "a/b" 3']
    for wire in (WireExpr(6), WireExpr(7, "", False), WireExpr(0, "a//b"), WireExpr(0)):
        peer.say(Push(wire, Put(b"x")))
    assert pushes(session) == []
    assert node.routing.stats.dropped() == {"unknown_scope": 2, "invalid_key": 2}


def test_verbatim_chunks_are_matched_by_themselves_only() -> None:
    """Checklist 94."""
    node = Mesh().node("p")
    session, other = node.session(), node.session()
    other.subscriber("**")
    session.put("@x/a")
    assert pushes(other) == []
    other.subscriber("@x/**")
    session.put("@x/a")
    assert pushes(other) == ['PUSH "@x/a" x']


def test_deletes_are_samples() -> None:
    node = Mesh().node("p")
    client, session = node.neighbour(CLIENT), node.session()
    session.subscriber("a")
    client.say(Push(WireExpr(0, "a"), Del()))
    assert pushes(session) == ['PUSH "a" DEL']


def test_routes_follow_every_change() -> None:
    node = Mesh().node("p")
    session, other = node.session(), node.session()
    number = other.subscriber("a")
    session.put("a", "1")
    other.no_subscriber(number)
    session.put("a", "2")
    number = other.subscriber("a")
    session.put("a", "3")
    third = node.session()
    third.subscriber("*")
    session.put("a", "4")
    other.close()
    session.put("a", "5")
    assert pushes(other) == ['PUSH "a" 1', 'PUSH "a" 3', 'PUSH "a" 4']
    assert pushes(third) == ['PUSH "a" 4', 'PUSH "a" 5']


def test_the_route_cache_is_bounded() -> None:
    node = Mesh(limits=Limits(routes_count=3)).node("p")
    session, other = node.session(), node.session()
    other.subscriber("**")
    other.queryable("**")
    for number in range(10):
        session.put(f"k/{number}")
        session.get(f"k/{number}")
        caches = node.routing._tables.caches.values()
        assert all(len(one.samples) <= 3 and len(one.queries) <= 3 for one in caches)
    assert len(pushes(other)) == 10


def test_a_multicast_group_gets_every_sample_in_full_text() -> None:
    """1.20: and nothing goes from one group to another."""
    node = Mesh().node("p")
    session, one, two = node.session(), node.group(), node.group()
    client = node.neighbour(CLIENT)
    session.put("a", "1")
    client.say(Push(WireExpr(0, "a"), Put(b"2")))
    assert pushes(one) == pushes(two) == ['PUSH "a" 1', 'PUSH "a" 2']
    session.subscriber("a")
    one.say(Push(WireExpr(0, "a"), Put(b"3")))
    assert pushes(session) == ['PUSH "a" 3']
    assert pushes(two) == []


def test_a_client_without_an_upstream_drops_what_it_puts() -> None:
    """5.14."""
    node = Mesh().node("c", "client")
    session = node.session()
    session.put("a")
    number = session.get("a")
    assert session.heard() == [f"RESPONSE_FINAL {number}"]
