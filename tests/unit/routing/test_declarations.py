"""Who is told what, and when it is taken back (behaviour.md 3)."""

from __future__ import annotations

import pytest
from tests.unit.routing.mesh import K, Mesh, Q, S, Session, T

from elea.limits import Limits
from elea.routing.regions import BOUND_SOUTH, CLIENT, PEER, ROUTER
from elea.routing.stats import Drop
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import InterestMode


def subscribe(face: Session, number: int, key: str) -> None:
    face.say(Declare(DeclareSubscriber(number, WireExpr(0, key))))


def test_two_subscribers_on_one_key_are_declared_once() -> None:
    """3.1: the U_SUBSCRIBER goes with the last one."""
    node = Mesh().node("c", "client")
    one, two = node.session(), node.session()
    router = node.neighbour(ROUTER)
    first, again, second = one.subscriber("a/b"), one.subscriber("a/b"), two.subscriber("a/b")
    assert router.heard() == ['D_KEYEXPR 1 "a/b"', "D_SUBSCRIBER id 1 (1)"]
    one.no_subscriber(first)
    one.no_subscriber(again)
    assert router.heard() == []
    two.no_subscriber(second)
    assert router.heard() == ["U_SUBSCRIBER id 1"]


def test_different_keys_are_never_merged() -> None:
    node = Mesh().node("c", "client")
    session = node.session()
    router = node.neighbour(ROUTER)
    session.subscriber("a/*")
    session.subscriber("a/b")
    heard = [word for word in router.heard() if word.startswith("D_SUBSCRIBER")]
    assert heard == ['D_SUBSCRIBER id 1 (1,"/*")', "D_SUBSCRIBER id 2 (2)"]


def test_declaring_again_takes_a_new_id() -> None:
    """3.10."""
    node = Mesh().node("c", "client")
    session = node.session()
    router = node.neighbour(ROUTER)
    session.no_subscriber(session.subscriber("a"))
    session.subscriber("a")
    assert router.heard() == [
        'D_KEYEXPR 1 "a"',
        "D_SUBSCRIBER id 1 (1)",
        "U_SUBSCRIBER id 1",
        "D_SUBSCRIBER id 2 (1)",
    ]


def test_several_ids_of_one_face_count_as_one() -> None:
    """3.10: the key stays until the last id is undeclared."""
    node = Mesh().node("p")
    client, peer = node.neighbour(CLIENT), node.neighbour(PEER)
    peer.heard()
    subscribe(client, 1, "a")
    subscribe(client, 2, "a")
    assert peer.heard() == ['D_KEYEXPR 1 "a"', "D_SUBSCRIBER id 1 (1)"]
    client.say(Declare(UndeclareSubscriber(1)))
    assert peer.heard() == []
    client.say(Declare(UndeclareSubscriber(2)))
    assert peer.heard() == ["U_SUBSCRIBER id 1"]


def test_an_id_declared_again_with_another_key_leaves_nothing_behind() -> None:
    node = Mesh().node("p")
    client, peer = node.neighbour(CLIENT), node.neighbour(PEER)
    subscribe(client, 1, "a")
    subscribe(client, 1, "b")
    assert peer.mirror.known() == {("S", "b"): (False, 0)}


def test_a_peer_tells_peers_of_its_own_and_its_clients_only() -> None:
    """3.2."""
    node = Mesh().node("p")
    session, client = node.session(), node.neighbour(CLIENT, zid=b"c")
    one, two = node.neighbour(PEER, zid=b"1"), node.neighbour(PEER, zid=b"2")
    router = node.neighbour(ROUTER, zid=b"r")
    session.publisher("**")
    session.subscriber("own")
    subscribe(client, 1, "of/client")
    subscribe(one, 1, "of/peer")
    subscribe(router, 1, "of/router")
    mine = {("S", "own"): (False, 0), ("S", "of/client"): (False, 0)}
    assert one.mirror.known() == mine
    assert two.mirror.known() == mine
    assert router.mirror.known() == mine


def test_a_client_is_told_only_what_it_asks_for() -> None:
    """3.2: of local sessions, other clients, peers and gateways; never of itself."""
    node = Mesh().node("p")
    session, client = node.session(), node.neighbour(CLIENT, zid=b"c")
    other, peer = node.neighbour(CLIENT, zid=b"o"), node.neighbour(PEER, zid=b"p")
    router = node.neighbour(ROUTER, zid=b"r")
    for face, key in ((client, "x/1"), (other, "x/2"), (peer, "x/3"), (other, "y")):
        subscribe(face, 1 if key != "y" else 2, key)
    session.subscriber("x/4")
    assert client.heard() == []
    client.interest(InterestMode.CURRENT_FUTURE, S, "x/*")
    subscribe(router, 1, "x/5")
    assert sorted(client.mirror.known()) == [("S", f"x/{n}") for n in (2, 3, 4, 5)]


def test_a_subscriber_of_two_clients_is_news_for_each_of_them() -> None:
    """3.5: with the second the first learns that it is not alone, and unlearns it with it."""
    node = Mesh().node("p")
    one, two = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    for face in (one, two):
        face.interest(InterestMode.CURRENT_FUTURE, S, "a")
        face.heard()
    subscribe(one, 1, "a")
    assert (one.heard(), two.heard()) == ([], ['D_SUBSCRIBER id 1 "a"'])
    subscribe(two, 1, "a")
    assert (one.heard(), two.heard()) == (['D_SUBSCRIBER id 1 "a"'], [])
    one.say(Declare(UndeclareSubscriber(1)))
    assert (one.heard(), two.heard()) == ([], ["U_SUBSCRIBER id 1"])


def test_a_region_that_keeps_a_key_alone_is_told_that_others_have_it_no_more() -> None:
    """3.5, last owner: exactly one region still knows the key."""
    node = Mesh().node("p")
    session, client = node.session(), node.neighbour(CLIENT)
    peer = node.neighbour(PEER)
    number = session.subscriber("a")
    subscribe(client, 1, "a")
    subscribe(peer, 1, "a")
    client.interest(InterestMode.CURRENT_FUTURE, S, "a")
    session.publisher("a")
    for face in (session, client, peer):
        face.heard()
    client.say(Declare(UndeclareSubscriber(1)))
    assert (session.heard(), peer.heard()) == ([], [])
    session.no_subscriber(number)
    assert (session.heard(), peer.heard(), client.heard()) == ([], ["U_SUBSCRIBER id 1"], [])
    peer.say(Declare(UndeclareSubscriber(1)))
    assert client.heard() == ["U_SUBSCRIBER id 1"]


@pytest.mark.parametrize(
    ("infos", "merged"),
    [
        ([(False, 3), (False, 1)], " distance 1"),
        ([(False, 1), (True, 7)], " complete distance 7"),
        ([(True, 7), (True, 2), (False, 0)], " complete distance 2"),
        ([(True, 0)], " complete"),
        ([(False, 0)], ""),
    ],
)
def test_queryables_on_one_key_are_merged(infos: list[tuple[bool, int]], merged: str) -> None:
    """3.6."""
    node = Mesh().node("c", "client")
    session = node.session()
    for complete, distance in infos:
        session.queryable("q", complete=complete, distance=distance)
    router = node.neighbour(ROUTER)
    assert router.heard() == ['D_KEYEXPR 1 "q"', f"D_QUERYABLE id 1 (1){merged}"]


def test_a_changed_merge_is_declared_again_with_the_same_id() -> None:
    """3.6, checklist 66."""
    node = Mesh().node("c", "client")
    one, two = node.session(), node.session()
    router = node.neighbour(ROUTER)
    one.queryable("q")
    number = two.queryable("q", complete=True)
    two.no_queryable(number)
    assert router.heard() == [
        'D_KEYEXPR 1 "q"',
        "D_QUERYABLE id 1 (1)",
        "D_QUERYABLE id 1 (1) complete",
        "D_QUERYABLE id 1 (1)",
    ]


def test_the_info_of_a_queryable_can_be_replaced() -> None:
    """3.6: the receiver replaces the info of (face, id)."""
    node = Mesh().node("p")
    client, peer = node.neighbour(CLIENT), node.neighbour(PEER)
    client.say(Declare(DeclareQueryable(1, WireExpr(0, "q"), True)))
    client.say(Declare(DeclareQueryable(1, WireExpr(0, "q"), False, 4)))
    assert peer.mirror.known() == {("Q", "q"): (False, 4)}


def test_a_broker_merges_without_the_asker_itself() -> None:
    node = Mesh().node("p")
    one, two = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    for face in (one, two):
        face.interest(InterestMode.CURRENT_FUTURE, Q, "q")
    one.say(Declare(DeclareQueryable(1, WireExpr(0, "q"), True)))
    two.say(Declare(DeclareQueryable(1, WireExpr(0, "q"), False, 2)))
    assert one.mirror.known() == {("Q", "q"): (False, 2)}
    assert two.mirror.known() == {("Q", "q"): (True, 0)}


@pytest.mark.parametrize(
    ("elea", "forms"),
    [
        (False, ["U_SUBSCRIBER id 1", "U_QUERYABLE id 2 empty", "U_TOKEN id 3 empty"]),
        (True, ['U_SUBSCRIBER id 1 "k"', 'U_QUERYABLE id 2 "k"', 'U_TOKEN id 3 "k"']),
    ],
)
def test_the_forms_of_undeclarations(elea: bool, forms: list[str]) -> None:
    """3.8; the specification asks for the key, and Elea nodes give it to each other."""
    node = Mesh().node("c", "client")
    session = node.session()
    router = node.neighbour(ROUTER, elea=elea)
    numbers = session.subscriber("k"), session.queryable("k"), session.token("k")
    router.heard()
    session.no_subscriber(numbers[0])
    session.no_queryable(numbers[1])
    session.no_token(numbers[2])
    assert router.heard() == forms


@pytest.mark.parametrize("key", [None, WireExpr(0, "", False), WireExpr(0, "k")])
def test_undeclarations_are_accepted_in_every_form(key: WireExpr | None) -> None:
    """Checklist 181."""
    node = Mesh().node("p")
    client, peer = node.neighbour(CLIENT), node.neighbour(PEER)
    client.say(Declare(DeclareSubscriber(1, WireExpr(0, "k"))))
    client.say(Declare(DeclareQueryable(1, WireExpr(0, "k"))))
    client.say(Declare(DeclareToken(1, WireExpr(0, "k"))))
    assert len(peer.mirror.known()) == 3
    client.say(Declare(UndeclareSubscriber(1, key)))
    client.say(Declare(UndeclareQueryable(1, key)))
    client.say(Declare(UndeclareToken(1, key)))
    assert peer.mirror.known() == {}


def test_unknown_ids_in_undeclarations_are_ignored() -> None:
    node = Mesh().node("p")
    client = node.neighbour(CLIENT)
    client.say(Declare(UndeclareSubscriber(5)))
    client.say(Declare(UndeclareToken(0, WireExpr(0, "t"))))
    client.say(Declare(UndeclareToken(0)))
    assert node.routing.stats.drops[Drop.UNKNOWN_ENTITY] == 3


def test_entities_with_id_0_are_known_by_their_keys() -> None:
    """3.3."""
    node = Mesh().node("p")
    session, peer = node.session(), node.neighbour(PEER)
    session.publisher("**")
    session.heard()
    subscribe(peer, 0, "a")
    subscribe(peer, 0, "b")
    assert session.heard() == ['D_SUBSCRIBER id 1 "a"', 'D_SUBSCRIBER id 2 "b"']
    peer.say(Declare(UndeclareSubscriber(0, WireExpr(0, "a"))))
    assert session.heard() == ['U_SUBSCRIBER id 1 "a"']


def test_a_lost_client_takes_its_entities_with_it() -> None:
    """1.10, checklist 108."""
    node = Mesh().node("p")
    client, peer = node.neighbour(CLIENT), node.neighbour(PEER)
    client.say(Declare(DeclareSubscriber(1, WireExpr(0, "k"))))
    client.say(Declare(DeclareQueryable(2, WireExpr(0, "k"))))
    client.say(Declare(DeclareToken(3, WireExpr(0, "k"))))
    peer.heard()
    client.close()
    assert peer.heard() == ["U_SUBSCRIBER id 1", "U_QUERYABLE id 2 empty", "U_TOKEN id 3 empty"]


def test_a_peer_below_is_told_on_interest_and_never_of_its_region() -> None:
    """0.4: a south region of peers, as a custom gateway has it."""
    mesh = Mesh()
    hub, one, two = mesh.node("hub"), mesh.node("one"), mesh.node("two")
    mesh.connect(hub, one, south=True)
    mesh.connect(hub, two, south=True)
    north = hub.neighbour(PEER)
    session = two.session()
    session.subscriber("a/two")
    subscribe(north, 1, "a/north")
    hub.session().subscriber("a/hub")
    assert hub.to(one) == []
    publisher = one.session()
    publisher.publisher("a/*")
    assert sorted(publisher.mirror.known()) == [("S", "a/hub"), ("S", "a/north")]
    publisher.put("a/two")
    publisher.put("a/north")
    assert session.heard() == []
    assert north.heard()[-1].startswith("PUSH")
    assert one.routing.is_ready(1)


def test_a_gateway_among_peers_is_told_no_d_final() -> None:
    """0.4: RemoteBound 1 makes a peer a gateway."""
    node = Mesh().node("p")
    node.session().publisher("a")
    gateway = node.neighbour(PEER, bound=BOUND_SOUTH)
    assert gateway.heard() == ['D_KEYEXPR 1 "a"', "INTEREST 1 CURFUT K+S+R (1)"]


def test_what_a_gateway_declares_unasked_is_not_kept() -> None:
    node = Mesh().node("p")
    session, router = node.session(), node.neighbour(ROUTER)
    subscribe(router, 1, "a")
    assert node.routing.stats.dropped() == {"unsolicited": 1}
    session.publisher("a")
    assert session.heard() == []  # its D_FINAL is the router's to give


def test_what_a_gateway_declared_is_dropped_with_the_interest() -> None:
    """4.4: a router forgets it silently, so nobody would ever take it back."""
    node = Mesh().node("p")
    session, router = node.session(), node.neighbour(ROUTER)
    first = session.publisher("a/1")
    second = session.publisher("a/*")
    subscribe(router, 1, "a/1")
    subscribe(router, 2, "a/2")
    session.heard()
    session.over(second)
    assert session.heard() == ['U_SUBSCRIBER id 2 "a/2"']
    session.over(first)
    assert session.heard() == ['U_SUBSCRIBER id 1 "a/1"']
    router.say(Declare(UndeclareSubscriber(1)))  # too late, and harmless
    assert node.routing.stats.dropped() == {"unknown_entity": 1}


def test_a_new_id_of_a_gateway_replaces_the_old_one() -> None:
    """An id that the gateway forgot while it was on its way must not stay for ever."""
    node = Mesh().node("p")
    session, router = node.session(), node.neighbour(ROUTER)
    session.publisher("a")
    subscribe(router, 1, "a")
    subscribe(router, 2, "a")
    session.heard()
    router.say(Declare(UndeclareSubscriber(2)))
    assert session.heard() == ['U_SUBSCRIBER id 1 "a"']


def test_an_id_of_a_gateway_that_becomes_one_of_another_key_leaves_nothing_behind() -> None:
    """Also if nobody asked for the other key."""
    node = Mesh().node("p")
    session, router = node.session(), node.neighbour(ROUTER)
    session.publisher("a")
    subscribe(router, 1, "a")
    session.heard()
    subscribe(router, 1, "b")
    assert session.heard() == ['U_SUBSCRIBER id 1 "a"']
    assert node.routing.stats.dropped() == {"unsolicited": 1}


def test_declarations_of_one_face_are_bounded() -> None:
    """T23: dropped, counted; and then what the face has is unknown."""
    node = Mesh(limits=Limits(declarations_count=2)).node("p")
    session, peer = node.session(), node.neighbour(PEER)
    peer.say(Declare(DeclareQueryable(1, WireExpr(0, "q"))))
    subscribe(peer, 2, "a")
    subscribe(peer, 3, "b")
    subscribe(peer, 4, "c")
    assert node.routing.stats.dropped() == {"declaration_limit": 2}
    subscribe(peer, 2, "a")  # known already: no new one
    assert node.routing.stats.dropped() == {"declaration_limit": 2}
    for number in range(20):
        session.subscriber(f"mine/{number}")  # its own sessions a process may trust
    assert len(peer.mirror.known()) == 20
    subscribe(peer, 9, "d")
    peer.close()


def test_data_is_sent_to_a_peer_whose_declarations_did_not_fit() -> None:
    mesh = Mesh(limits=Limits(declarations_count=1))
    one, two = mesh.node("1"), mesh.node("2")
    mesh.connect(one, two)
    publisher, subscriber = one.session(), two.session()
    subscriber.subscriber("a")
    subscriber.subscriber("b")
    publisher.put("b")
    assert subscriber.heard() == ['PUSH "b" x']


def test_a_multicast_group_hears_of_subscribers_only() -> None:
    """1.20: id 0, full keys, never taken back; declared again if they come again."""
    node = Mesh().node("p")
    session, group = node.session(), node.group()
    number = session.subscriber("a/b")
    session.queryable("q")
    session.token("t")
    session.no_subscriber(number)
    session.subscriber("a/b")
    assert group.heard() == ['D_SUBSCRIBER id 0 "a/b"', 'D_SUBSCRIBER id 0 "a/b"']


def test_a_group_says_nothing_but_samples_and_subscribers() -> None:
    node = Mesh().node("p")
    session, group = node.session(), node.group()
    session.publisher("a")
    session.heard()
    group.say(Declare(DeclareSubscriber(0, WireExpr(0, "a"))))
    assert session.heard() == ['D_SUBSCRIBER id 1 "a"']
    group.say(Declare(DeclareSubscriber(1, WireExpr(0, "b"))))
    group.say(Declare(DeclareSubscriber(1, WireExpr(0, "a"))))  # of another member
    group.say(Declare(DeclareKeyExpr(1, WireExpr(0, "a"))))
    assert session.heard() == []
    group.queryable("q")
    group.token("t")
    group.get("q")
    group.interest(InterestMode.CURRENT_FUTURE, K | S | Q | T, None)
    assert group.heard() == []
    assert node.routing.stats.dropped() == {"multicast": 4, "interest_ignored": 1}
