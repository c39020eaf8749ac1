"""Tokens (behaviour.md 3.7, 5.12)."""

from __future__ import annotations

import pytest
from tests.unit.routing.mesh import Mesh

from elea.routing.regions import CLIENT, PEER, ROUTER
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare


def test_a_session_sees_its_own_tokens() -> None:
    node = Mesh().node("p")
    session = node.session()
    session.watch("t/*")
    number = session.token("t/1")
    session.no_token(number)
    assert session.heard() == ['D_TOKEN id 1 "t/1"', 'U_TOKEN id 1 "t/1"']
    session.token("t/2")
    session.heard()
    get = session.tokens("t/*")
    assert session.heard() == [f'D_TOKEN I={get} id 0 "t/2"', f"D_FINAL I={get}"]


def test_tokens_on_one_key_count_as_one() -> None:
    """5.12: PUT with the first, DELETE with the last, wherever they are."""
    node = Mesh().node("p")
    one, two, watcher = node.session(), node.session(), node.session()
    peer = node.neighbour(PEER)
    watcher.watch("t")
    first, second = one.token("t"), two.token("t")
    peer.say(Declare(DeclareToken(1, WireExpr(0, "t"))))
    assert watcher.heard() == ['D_TOKEN id 1 "t"']
    one.no_token(first)
    two.no_token(second)
    assert watcher.heard() == []
    peer.say(Declare(UndeclareToken(1)))
    assert watcher.heard() == ['U_TOKEN id 1 "t"']


def test_a_second_owner_of_an_old_token_is_no_news() -> None:
    """Without history, the token was alive before and still is."""
    node = Mesh().node("p")
    one, two, watcher = node.session(), node.session(), node.session()
    first = one.token("t")
    watcher.watch("t")
    second = two.token("t")
    one.no_token(first)
    assert watcher.heard() == []
    two.no_token(second)
    assert watcher.heard() == ['U_TOKEN id 0 "t"']


def test_history_tells_what_is_there() -> None:
    node = Mesh().node("p")
    holder, watcher = node.session(), node.session()
    number = holder.token("t/1")
    watch = watcher.watch("t/*", history=True)
    assert watcher.heard() == [f'D_TOKEN I={watch} id 1 "t/1"', f"D_FINAL I={watch}"]
    holder.no_token(number)
    assert watcher.heard() == ['U_TOKEN id 1 "t/1"']


@pytest.mark.parametrize("how", ["undeclared", "lost"])
def test_peers_see_each_others_tokens_and_their_clients(how: str) -> None:
    """Checklist 107, 84."""
    mesh = Mesh()
    one, two, below = mesh.node("1"), mesh.node("2"), mesh.node("3", "client")
    mesh.connect(one, two)
    mesh.connect(below, one)
    holder, client, watcher = one.session(), below.session(), two.session()
    watcher.watch("t/*")
    tokens = holder.token("t/peer"), client.token("t/client")
    assert watcher.heard() == ['D_TOKEN id 1 "t/peer"', 'D_TOKEN id 2 "t/client"']
    if how == "lost":
        mesh.cut(one, two)
    else:
        holder.no_token(tokens[0])
        client.no_token(tokens[1])
    assert watcher.heard() == ['U_TOKEN id 1 "t/peer"', 'U_TOKEN id 2 "t/client"']


def test_a_token_from_below_that_answers_an_interest_is_dropped() -> None:
    """3.7."""
    node = Mesh().node("p")
    watcher, client = node.session(), node.neighbour(CLIENT)
    watcher.watch("t")
    client.say(Declare(DeclareToken(1, WireExpr(0, "t")), 4))
    assert watcher.heard() == []
    assert node.routing.stats.dropped() == {"token_answer": 1}


def test_a_token_that_a_peer_pushes_under_interest_0_is_a_plain_one() -> None:
    """6.11: zenoh-pico peers."""
    node = Mesh().node("p")
    watcher, peer = node.session(), node.neighbour(PEER)
    watcher.watch("t")
    peer.say(Declare(DeclareToken(3, WireExpr(0, "t")), 0))
    assert watcher.heard() == ['D_TOKEN id 1 "t"']


def test_history_of_one_session_is_no_news_for_another() -> None:
    """A token that a router had all along is told to who asked for what is there, only."""
    node = Mesh().node("c", "client")
    news, history = node.session(), node.session()
    router = node.neighbour(ROUTER)
    news.watch("t/*")
    router.say(Declare(DeclareToken(1, WireExpr(0, "t/old")), 1))
    router.say(Declare(DeclareFinal(), 1))
    watch = history.watch("t/*", history=True)
    assert history.heard() == [f'D_TOKEN I={watch} id 1 "t/old"', f"D_FINAL I={watch}"]
    assert news.heard() == []
    router.say(Declare(DeclareToken(2, WireExpr(0, "t/new"))))
    assert history.heard() == ['D_TOKEN id 2 "t/new"']
    assert news.heard() == ['D_TOKEN id 1 "t/new"']
    router.say(Declare(UndeclareToken(1)))
    assert history.heard() == ['U_TOKEN id 1 "t/old"']
    assert news.heard() == ['U_TOKEN id 0 "t/old"']


def test_who_watches_the_future_on_a_client_is_told_the_last_end_alone() -> None:
    """A token of another node was there before: one of the client with its key is no news."""
    node = Mesh().node("c", "client")
    watcher, other = node.session(), node.session()
    router = node.neighbour(ROUTER)
    watcher.watch("t/*")
    router.say(Declare(DeclareToken(1, WireExpr(0, "t/1")), 1))
    router.say(Declare(DeclareFinal(), 1))
    token = other.token("t/1")
    other.no_token(token)
    assert watcher.heard() == []
    router.say(Declare(UndeclareToken(1, WireExpr(0, "", False))))
    assert watcher.heard() == ['U_TOKEN id 0 "t/1"']


def test_an_end_is_not_missed_after_another_session_has_stopped_watching() -> None:
    """The router does not repeat what it told before, and names the end by the id of then."""
    node = Mesh().node("c", "client")
    first, second = node.session(), node.session()
    router = node.neighbour(ROUTER)
    watch = first.watch("t/*", history=True)
    router.say(Declare(DeclareToken(1, WireExpr(0, "t/1")), 1))
    router.say(Declare(DeclareFinal(), 1))
    first.over(watch)
    second.watch("t/*")
    router.say(Declare(DeclareToken(1, WireExpr(0, "t/1")), 2))
    router.say(Declare(DeclareFinal(), 2))
    assert second.heard() == []
    router.say(Declare(UndeclareToken(1, WireExpr(0, "", False))))
    assert second.heard() == ['U_TOKEN id 0 "t/1"']


def test_two_questions_of_one_session_are_both_answered() -> None:
    # Found by `elea sim --seed 11991`: the second was not, as the session knew the token by then.
    node = Mesh().node("c", "client")
    session = node.session()
    router = node.neighbour(ROUTER)
    wide = session.watch("**", history=True)
    narrow = session.watch("t/*", history=True)
    for question in (1, 2):
        router.say(Declare(DeclareToken(7, WireExpr(0, "t/1")), question))
        router.say(Declare(DeclareToken(7, WireExpr(0, "t/1")), question))
        router.say(Declare(DeclareFinal(), question))
    assert session.heard() == [
        f'D_TOKEN I={wide} id 1 "t/1"',
        f"D_FINAL I={wide}",
        f'D_TOKEN I={narrow} id 1 "t/1"',
        f"D_FINAL I={narrow}",
    ]


def test_who_joins_a_question_under_way_gets_the_answer_too() -> None:
    node = Mesh().node("c", "client")
    one, two = node.session(), node.session()
    router = node.neighbour(ROUTER)
    first = one.watch("t/*", history=True)
    router.say(Declare(DeclareToken(1, WireExpr(0, "t/1")), 1))
    second = two.watch("t/*", history=True)
    router.say(Declare(DeclareToken(2, WireExpr(0, "t/2")), 1))
    router.say(Declare(DeclareFinal(), 1))
    for session, number in ((one, first), (two, second)):
        assert session.heard() == [
            f'D_TOKEN I={number} id 1 "t/1"',
            f'D_TOKEN I={number} id 2 "t/2"',
            f"D_FINAL I={number}",
        ]


def test_a_session_that_asks_while_a_new_router_answers_hides_nothing_from_others() -> None:
    """After a reconnection everything is news for everybody, whoever joined meanwhile."""
    node = Mesh().node("c", "client")
    old = node.session()
    old.watch("t/*", history=True)
    old.heard()
    router = node.neighbour(ROUTER)
    joined = node.session()
    number = joined.watch("t/*", history=True)
    router.say(Declare(DeclareToken(1, WireExpr(0, "t/1")), 1))
    router.say(Declare(DeclareFinal(), 1))
    assert old.heard() == ['D_TOKEN id 1 "t/1"']
    assert joined.heard() == ['D_TOKEN id 1 "t/1"', f"D_FINAL I={number}"]


@pytest.mark.parametrize(("role", "entity_id"), [("client", 0), ("peer", 1)])
def test_a_token_that_was_never_told_vanishes(role: str, entity_id: int) -> None:
    """5.12: Eclipse routers say it with id 0 to clients, with an id of their own to peers."""
    node = Mesh().node("n", role)
    watcher, router = node.session(), node.neighbour(ROUTER)
    watcher.watch("t/*")
    router.say(Declare(UndeclareToken(entity_id, WireExpr(0, "t/old"))))
    assert watcher.heard() == ['U_TOKEN id 0 "t/old"']
    router.say(Declare(UndeclareToken(entity_id, WireExpr(0, "u/old"))))
    router.say(Declare(UndeclareToken(7, WireExpr(0, "", False))))
    router.say(Declare(UndeclareToken(7, WireExpr(9))))
    assert watcher.heard() == []
    assert node.routing.stats.dropped() == {"unknown_entity": 1, "unknown_scope": 1}


def test_a_vanished_token_that_another_keeps_alive_is_not_reported() -> None:
    node = Mesh().node("c", "client")
    holder, watcher = node.session(), node.session()
    router = node.neighbour(ROUTER)
    holder.token("t")
    watcher.watch("t")
    router.say(Declare(UndeclareToken(0, WireExpr(0, "t"))))
    assert watcher.heard() == []


def test_a_get_below_a_peer_reaches_the_gateway() -> None:
    """4.6."""
    mesh = Mesh()
    peer, below = mesh.node("p"), mesh.node("c", "client")
    mesh.connect(below, peer)
    router = peer.neighbour(ROUTER)
    session = below.session()
    peer.session().token("t/here")
    number = session.tokens("t/*")
    assert router.heard()[-1] == 'INTEREST 2 CUR K+T+R (2,"/*")'
    router.say(Declare(DeclareToken(0, WireExpr(0, "t/far")), 2))
    router.say(Declare(DeclareToken(0, WireExpr(0, "t/here")), 2))
    assert session.heard() == [
        f'D_TOKEN I={number} id 0 "t/here"',
        f'D_TOKEN I={number} id 0 "t/far"',
    ]
    router.say(Declare(DeclareFinal(), 2))
    assert session.heard() == [f"D_FINAL I={number}"]


def test_a_late_part_of_a_snapshot_is_not_remembered() -> None:
    """It has id 0 and will never be taken back; nobody waits for it. Found by seed 50861."""
    node = Mesh().node("p")
    session, peer = node.session(), node.neighbour(PEER)
    session.watch("t/*")
    session.heard()
    peer.say(Declare(DeclareToken(0, WireExpr(0, "t/1")), interest_id=77))
    assert session.heard() == []
    assert node.routing.tables.count() == 0
