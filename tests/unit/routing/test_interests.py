"""Interests: asked, answered, passed on (behaviour.md 4)."""

from __future__ import annotations

import pytest
from tests.unit.routing.mesh import A, K, Mesh, Q, S, T

from elea.limits import Limits
from elea.routing.regions import CLIENT, PEER, ROUTER
from elea.routing.stats import Drop
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest, InterestMode

CUR, FUT, CURFUT = InterestMode.CURRENT, InterestMode.FUTURE, InterestMode.CURRENT_FUTURE


def test_the_answer_to_a_client_and_its_updates() -> None:
    """4.3, 4.4."""
    hub = Mesh().node("hub")
    session, client = hub.session(), hub.neighbour(CLIENT)
    one = session.subscriber("a/1")
    session.queryable("a/1", complete=True)
    session.token("a/1")
    session.subscriber("b")
    client.interest(CURFUT, S | Q | T, "a/*")
    assert client.heard() == [
        'D_SUBSCRIBER I=1 id 1 "a/1"',
        'D_QUERYABLE I=1 id 2 "a/1" complete',
        'D_TOKEN I=1 id 3 "a/1"',
        "D_FINAL I=1",
    ]
    session.subscriber("a/2")
    session.no_subscriber(one)
    session.subscriber("c")
    assert client.heard() == ['D_SUBSCRIBER id 4 "a/2"', "U_SUBSCRIBER id 1"]


def test_a_further_interest_repeats_with_the_same_id() -> None:
    """4.4: one entity is told once per face for the future, however many interests match."""
    hub = Mesh().node("hub")
    session, client = hub.session(), hub.neighbour(CLIENT)
    session.subscriber("a/1")
    client.interest(CURFUT, S, "a/*")
    client.heard()
    client.interest(CURFUT, S, "a/1")
    assert client.heard() == ['D_SUBSCRIBER I=2 id 1 "a/1"', "D_FINAL I=2"]
    session.subscriber("a/1")
    assert client.heard() == []


def test_an_interest_without_a_key_asks_for_everything() -> None:
    hub = Mesh().node("hub")
    session, client = hub.session(), hub.neighbour(CLIENT)
    session.subscriber("@verbatim/a")
    client.interest(CURFUT, S, None)
    session.subscriber("b")
    assert client.heard() == [
        'D_SUBSCRIBER I=1 id 1 "@verbatim/a"',
        "D_FINAL I=1",
        'D_SUBSCRIBER id 2 "b"',
    ]


def test_an_interest_id_in_use_is_answered_but_not_registered() -> None:
    """4.3."""
    hub = Mesh().node("hub")
    session, client = hub.session(), hub.neighbour(CLIENT)
    session.subscriber("a")
    session.subscriber("b")
    client.interest(CURFUT, S, "a")
    client.heard()
    client.say(Interest(1, CURFUT, K | S, WireExpr(0, "b")))
    assert client.heard() == ['D_SUBSCRIBER I=1 id 2 "b"', "D_FINAL I=1"]
    session.subscriber("b/new")
    client.over(1)
    session.subscriber("a/new")
    assert client.heard() == []


def test_after_final_a_client_still_hears_of_the_end_of_what_it_was_told() -> None:
    """4.4: and gets it again under the same id; news are not told."""
    hub = Mesh().node("hub")
    session, client = hub.session(), hub.neighbour(CLIENT)
    one = session.subscriber("a/1")
    client.over(client.interest(CURFUT, S, "a/*"))
    client.heard()
    session.subscriber("a/2")
    assert client.heard() == []
    client.interest(CURFUT, S, "a/1")
    assert client.heard() == ['D_SUBSCRIBER I=2 id 1 "a/1"', "D_FINAL I=2"]
    client.over(2)
    session.no_subscriber(one)
    assert client.heard() == ["U_SUBSCRIBER id 1"]


@pytest.mark.parametrize("elea", [False, True])
def test_after_final_peers_below_and_elea_nodes_hear_nothing_more(elea: bool) -> None:
    """4.4; the specification's Final ends it between Elea nodes."""
    mesh = Mesh()
    hub = mesh.node("hub")
    session = hub.session()
    below = mesh.node("below", "client" if elea else "peer")
    mesh.connect(hub, below, elea=elea, south=not elea)
    publisher = below.session()
    one = session.subscriber("a/1")
    number = publisher.publisher("a/*")
    assert hub.to(below) == ['D_SUBSCRIBER I=1 id 1 (M=0 1,"/1")', "D_FINAL I=1"]
    publisher.over(number)
    session.no_subscriber(one)
    assert hub.to(below) == []
    session.subscriber("a/1")
    publisher.publisher("a/*")
    assert hub.to(below) == ['D_SUBSCRIBER I=2 id 2 (M=0 1,"/1")', "D_FINAL I=2"]


def test_final_is_silent_although_it_drops_what_a_gateway_declared() -> None:
    mesh = Mesh()
    hub, below = mesh.node("hub"), mesh.node("below")
    router = hub.neighbour(ROUTER)
    mesh.connect(hub, below, south=True)
    session = below.session()
    number = session.publisher("a")
    router.say(Declare(DeclareSubscriber(1, WireExpr(0, "a")), 1))
    router.say(Declare(DeclareFinal(), 1))
    hub.to(below)
    session.over(number)
    assert hub.to(below) == []


def test_what_another_interest_still_wants_is_not_forgotten() -> None:
    hub = Mesh().node("hub")
    session = hub.session()
    client = hub.neighbour(CLIENT, elea=True)
    one = session.subscriber("a/1")
    wide, narrow = client.interest(CURFUT, S, "a/*"), client.interest(CURFUT, S, "a/1")
    client.heard()
    client.over(wide)
    session.no_subscriber(one)
    assert client.heard() == ['U_SUBSCRIBER id 1 "a/1"']
    client.over(narrow)


@pytest.mark.parametrize("options", [S, Q, S | T, K])
def test_eclipse_nodes_get_no_snapshot_but_of_tokens(options: int) -> None:
    """4.3: not even D_FINAL."""
    hub = Mesh().node("hub")
    hub.session().subscriber("a")
    client = hub.neighbour(CLIENT)
    client.interest(CUR, options, "a")
    assert client.heard() == []
    assert hub.routing.stats.dropped() == {"interest_ignored": 1}


def test_elea_nodes_get_a_snapshot_of_every_kind() -> None:
    """The specification: matching declarations, then D_FINAL; nothing is remembered."""
    hub = Mesh().node("hub")
    session = hub.session()
    session.subscriber("a")
    session.queryable("a")
    session.token("a")
    client = hub.neighbour(CLIENT, elea=True)
    client.interest(CUR, S | Q | T, "a")
    assert client.heard() == [
        'D_SUBSCRIBER I=1 id 0 "a"',
        'D_QUERYABLE I=1 id 0 "a"',
        'D_TOKEN I=1 id 0 "a"',
        "D_FINAL I=1",
    ]
    session.close()
    assert client.heard() == []


def test_an_aggregated_snapshot_between_elea_nodes() -> None:
    hub = Mesh().node("hub")
    session = hub.session()
    session.subscriber("a/1")
    session.subscriber("a/2")
    client = hub.neighbour(CLIENT, elea=True)
    client.interest(CUR, S | Q | A, "a/*")
    assert client.heard() == ['D_SUBSCRIBER I=1 id 0 "a/*"', "D_FINAL I=1"]


def test_an_elea_node_is_told_the_aliases_it_asks_for() -> None:
    """The specification's K: D_KEYEXPR of what was declared to the asker."""
    node = Mesh().node("c", "client")
    session = node.session()
    session.subscriber("a/**")
    session.subscriber("b")
    router = node.neighbour(ROUTER, elea=True)
    router.heard()
    router.interest(CUR, K, "a/**")
    assert router.heard() == ['D_KEYEXPR I=1 1 "a"', "D_FINAL I=1"]


def test_an_elea_router_may_ask_its_clients() -> None:
    """Eclipse ignores interests from the north; the specification knows no such exception."""
    node = Mesh().node("c", "client")
    session = node.session()
    session.subscriber("a")
    eclipse, elea = node.neighbour(ROUTER), node.neighbour(ROUTER, zid=b"2", elea=True)
    for router in (eclipse, elea):
        router.heard()
        router.interest(CURFUT, S, "a")
    assert eclipse.heard() == []
    assert elea.heard() == ['D_KEYEXPR I=1 1 "a"', "D_SUBSCRIBER I=1 id 1 (1)", "D_FINAL I=1"]


def test_a_peer_answers_an_explicit_interest_of_a_peer() -> None:
    """4.7, checklist 111: D_x with I under the known id, then D_FINAL; A is dropped."""
    node = Mesh().node("p")
    node.session().subscriber("a")
    peer = node.neighbour(PEER)
    assert peer.heard() == ['D_KEYEXPR 1 "a"', "D_SUBSCRIBER id 1 (1)", "D_FINAL I=0"]
    peer.interest(CURFUT, S | A, "a")
    assert peer.heard() == ["D_SUBSCRIBER I=1 id 1 (1)", "D_FINAL I=1"]
    peer.interest(FUT, S, "a")
    peer.interest(CUR, T, "a")
    assert peer.heard() == ["D_FINAL I=3"]


def test_a_final_for_an_unknown_interest_is_ignored() -> None:
    hub = Mesh().node("hub")
    client = hub.neighbour(CLIENT)
    client.over(9)
    client.say(Declare(DeclareFinal(), 9))
    client.say(Declare(DeclareFinal()))
    assert client.heard() == []
    assert hub.routing.stats.dropped() == {"unknown_interest": 3}


def test_the_end_comes_when_every_gateway_has_ended() -> None:
    """4.6, checklist 105."""
    node = Mesh().node("p")
    one, two = node.neighbour(ROUTER, zid=b"1"), node.neighbour(ROUTER, zid=b"2")
    client = node.neighbour(CLIENT)
    client.interest(CURFUT, S, "a")
    assert one.heard() == two.heard() == ['D_KEYEXPR 1 "a"', "INTEREST 1 CURFUT K+S+R (1)"]
    one.say(Declare(DeclareSubscriber(1, WireExpr(1)), 1))
    one.say(Declare(DeclareFinal(), 1))
    assert client.heard() == []  # the scope is no alias of the router's own
    two.say(Declare(DeclareSubscriber(1, WireExpr(1, "", False)), 1))
    assert client.heard() == ['D_SUBSCRIBER id 1 "a"']
    two.say(Declare(DeclareFinal(), 1))
    assert client.heard() == ["D_FINAL I=1"]


def test_the_end_comes_when_a_silent_gateway_is_lost() -> None:
    node = Mesh().node("p")
    router, client = node.neighbour(ROUTER), node.neighbour(CLIENT)
    client.interest(CURFUT, S, "a")
    client.interest(CUR, T, "a")
    assert client.heard() == []
    router.close()
    assert client.heard() == ["D_FINAL I=1", "D_FINAL I=2"]


def test_the_end_comes_after_ten_seconds_anyway() -> None:
    """4.6: and data is sent unfiltered all the same."""
    mesh = Mesh()
    node = mesh.node("p")
    router, client = node.neighbour(ROUTER), node.neighbour(CLIENT)
    client.interest(CURFUT, S, "a")
    client.interest(CUR, T, "t")
    mesh.wait(9.9)
    assert client.heard() == []
    mesh.wait(0.2)
    assert client.heard() == ["D_FINAL I=1", "D_FINAL I=2"]
    router.heard()
    client.put("a")
    assert router.heard() == ["PUSH (1) x"]
    router.say(Declare(DeclareFinal(), 1))
    router.say(Declare(DeclareFinal(), 2))
    assert client.heard() == []


def test_final_while_the_end_is_outstanding() -> None:
    """FINAL upstream, and no D_FINAL any more, neither now nor when the time is over."""
    mesh = Mesh()
    node = mesh.node("p")
    router, client = node.neighbour(ROUTER), node.neighbour(CLIENT)
    client.over(client.interest(CURFUT, S, "a"))
    assert router.heard()[1:] == ["INTEREST 1 CURFUT K+S+R (1)", "INTEREST 1 FINAL"]
    router.say(Declare(DeclareFinal(), 1))
    mesh.wait(20)
    assert client.heard() == []
    assert node.routing.next_timer_ns() is None


def test_the_interests_of_a_lost_client_are_taken_back() -> None:
    """Eclipse leaves them at its gateways; we do not."""
    node = Mesh().node("p")
    router, client = node.neighbour(ROUTER), node.neighbour(CLIENT)
    client.interest(CURFUT, S, "a")
    client.interest(CUR, T, "t")
    router.heard()
    client.close()
    assert router.heard() == ["INTEREST 1 FINAL"]
    router.close()
    assert node.routing.is_empty()


def test_a_future_interest_is_passed_on_as_such_and_made_current_when_needed() -> None:
    node = Mesh().node("c", "client")
    one, two = node.session(), node.session()
    router = node.neighbour(ROUTER)
    first = one.interest(FUT, S, "t/*")
    assert router.heard()[1:] == ['INTEREST 1 FUT K+S+R (1,"/*")']
    second = two.interest(CURFUT, S, "t/*")
    assert router.heard() == ['INTEREST 2 CURFUT K+S+R (1,"/*")']
    one.over(first)
    two.over(second)
    assert router.heard() == ["INTEREST 1 FINAL", "INTEREST 2 FINAL"]


def test_a_snapshot_of_subscribers_from_an_eclipse_router() -> None:
    """It would not answer CUR: ask for the future too, and take that back."""
    node = Mesh().node("c", "client")
    session, router = node.session(), node.neighbour(ROUTER)
    number = session.interest(CUR, S | Q, "a")
    assert router.heard()[1:] == ["INTEREST 1 CURFUT K+S+Q+R (1)"]
    router.say(Declare(DeclareSubscriber(5, WireExpr(0, "a")), 1))
    router.say(Declare(DeclareQueryable(6, WireExpr(0, "a"), True), 1))
    router.say(Declare(DeclareFinal(), 1))
    assert router.heard() == ["INTEREST 1 FINAL"]
    assert session.heard() == [
        f'D_SUBSCRIBER I={number} id 0 "a"',
        f'D_QUERYABLE I={number} id 0 "a" complete',
        f"D_FINAL I={number}",
    ]
    router.say(Declare(UndeclareSubscriber(5)))
    assert session.heard() == []


def test_a_snapshot_from_an_elea_router_is_asked_for_directly() -> None:
    node = Mesh().node("c", "client")
    session, router = node.session(), node.neighbour(ROUTER, elea=True)
    number = session.interest(CUR, S, "a")
    assert router.heard()[1:] == ["INTEREST 1 CUR K+S+R (1)"]
    router.say(Declare(DeclareFinal(), 1))
    assert router.heard() == []
    assert session.heard() == [f"D_FINAL I={number}"]


def test_a_snapshot_given_up_is_taken_back_too() -> None:
    mesh = Mesh()
    node = mesh.node("c", "client")
    session, router = node.session(), node.neighbour(ROUTER)
    session.interest(CUR, S, "a")
    router.heard()
    mesh.wait(11)
    assert router.heard() == ["INTEREST 1 FINAL"]


def test_a_snapshot_asks_one_gateway_and_the_peers_that_are_not_ready() -> None:
    """4.6."""
    node = Mesh().node("p")
    one, two = node.neighbour(ROUTER, zid=b"1"), node.neighbour(ROUTER, zid=b"2")
    ready, late = node.neighbour(PEER, zid=b"3"), node.neighbour(PEER, zid=b"4")
    ready.say(Declare(DeclareFinal(), 0))
    session = node.session()
    for face in (one, two, ready, late):
        face.heard()
    number = session.tokens("t/*")
    assert one.heard()[1:] == ['INTEREST 1 CUR K+T+R (1,"/*")']
    assert late.heard()[1:] == ['INTEREST 1 CUR K+T+R (1,"/*")']
    assert two.heard() == ready.heard() == []
    one.say(Declare(DeclareToken(0, WireExpr(0, "t/1")), 1))
    late.say(Declare(DeclareToken(0, WireExpr(0, "t/1")), 1))
    late.say(Declare(DeclareFinal(), 1))
    assert session.heard() == [f'D_TOKEN I={number} id 0 "t/1"']
    one.say(Declare(DeclareFinal(), 1))
    assert session.heard() == [f"D_FINAL I={number}"]


def test_interests_of_one_face_are_bounded() -> None:
    """T24: over the bound there is no answer, which would say that nothing is there."""
    mesh = Mesh(limits=Limits(interests_count=2))
    node = mesh.node("p")
    router, client, session = node.neighbour(ROUTER), node.neighbour(CLIENT), node.session()
    client.interest(CURFUT, S, "a")
    client.interest(CUR, T, "t")
    router.heard()
    client.interest(CURFUT, S, "b")
    client.interest(CUR, T, "u")
    assert router.heard() == []
    assert node.routing.stats.dropped() == {"interest_limit": 2}
    router.say(Declare(DeclareFinal(), 2))
    client.interest(CUR, T, "u")
    assert len(router.heard()) == 2
    for number in range(5):
        session.publisher(f"p/{number}")
    assert node.routing.stats.dropped() == {"interest_limit": 2}


def test_an_interest_on_an_unknown_alias_is_ignored() -> None:
    hub = Mesh().node("hub")
    client = hub.neighbour(CLIENT)
    client.say(Interest(1, CURFUT, K | S, WireExpr(3, "/x")))
    assert client.heard() == []
    client.say(Declare(DeclareKeyExpr(3, WireExpr(0, "a"))))
    client.say(Interest(1, CURFUT, K | S, WireExpr(3, "/x")))
    assert client.heard() == ["D_FINAL I=1"]
    assert hub.routing.stats.dropped() == {"unknown_scope": 1}


def test_the_future_of_a_subscriber_alone() -> None:
    """The specification's Future: no snapshot, no D_FINAL; also towards Elea nodes."""
    hub = Mesh().node("hub")
    session, client = hub.session(), hub.neighbour(CLIENT, elea=True)
    session.subscriber("a/1")
    client.interest(FUT, S, "a/*")
    assert client.heard() == []
    session.subscriber("a/2")
    assert client.heard() == ['D_SUBSCRIBER id 1 "a/2"']


def test_who_asks_for_everything_again_waits_for_the_answer() -> None:
    """T24: the first answer comes at once, the second when the first is paid off."""
    second_ns = 1_000_000_000
    limits = Limits(answer_ns=second_ns, answers_debt_ns=5 * second_ns, interests_count=3)
    mesh = Mesh(limits=limits)
    hub = mesh.node("hub")
    session, client, other = hub.session(), hub.neighbour(CLIENT), hub.neighbour(CLIENT)
    for number in range(10):
        session.subscriber(f"a/{number}")
    for _ in range(4):
        client.interest(CURFUT, S, "a/*")
    assert client.heard()[-1] == "D_FINAL I=1"
    assert hub.routing.stats.drops[Drop.INTEREST_LIMIT] == 1  # two wait, and that is all
    other.interest(CURFUT, S, "a/*")
    assert other.heard()[-1] == "D_FINAL I=1"
    mesh.wait(4.9)
    assert client.heard() == []
    mesh.wait(0.2)
    assert client.heard()[-1] == "D_FINAL I=2"
    client.over(3)
    mesh.wait(100)
    assert client.heard() == []
    assert hub.routing.stats.drops[Drop.UNKNOWN_INTEREST] == 0


def test_interests_that_wait_are_gone_with_who_asked() -> None:
    hub = Mesh(limits=Limits(answer_ns=10, answers_debt_ns=5)).node("hub")
    session, client = hub.session(), hub.neighbour(CLIENT)
    session.subscriber("a")
    client.interest(CURFUT, S, None)
    client.interest(CURFUT, S, None)
    client.close()
    session.close()
    assert hub.routing.is_empty()
    assert hub.routing.next_timer_ns() is None
