"""The conversations of behaviour.md, appendix B, message by message."""

from __future__ import annotations

from tests.unit.routing.mesh import A, K, Mesh, Q, S, Session

from elea.routing.regions import CLIENT, PEER, ROUTER
from elea.routing.settings import RoutingSettings
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.data.reply import Reply
from elea.wire.fields import QOS_REQUEST, WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import InterestMode
from elea.wire.network.request import Request
from elea.wire.network.response import Response


def test_a_subscriber_and_a_publisher_of_two_clients() -> None:
    """B.1, with a peer in the place of the router."""
    mesh = Mesh()
    hub, one, two = mesh.node("hub"), mesh.node("one", "client"), mesh.node("two", "client")
    mesh.connect(one, hub)
    mesh.connect(two, hub)
    subscriber, publisher = one.session(), two.session()
    number = subscriber.subscriber("demo/**")
    assert one.to(hub) == ['D_KEYEXPR 1 "demo"', 'D_SUBSCRIBER id 1 (1,"/**")']
    publisher.publisher("demo/a")
    assert two.to(hub) == ['D_KEYEXPR 1 "demo/a"', "INTEREST 1 CURFUT K+S+R (1)"]
    assert hub.to(two) == ['D_SUBSCRIBER I=1 id 1 "demo/**"', "D_FINAL I=1"]
    publisher.put("demo/a", "x")
    assert two.to(hub) == ["PUSH (1) x"]
    assert hub.to(one) == ['PUSH (M=0 1,"/a") x']
    assert subscriber.heard() == ['PUSH "demo/a" x']
    subscriber.no_subscriber(number)
    assert one.to(hub) == ["U_SUBSCRIBER id 1"]
    assert hub.to(two) == ["U_SUBSCRIBER id 1"]
    publisher.put("demo/a", "y")
    assert two.to(hub) == []


def test_a_query_through_a_broker() -> None:
    """B.2: request ids of each hop's own, the answer in full text, with the query's QoS."""
    mesh = Mesh()
    hub, one, two = mesh.node("hub"), mesh.node("one", "client"), mesh.node("two", "client")
    mesh.connect(one, hub)
    mesh.connect(two, hub)
    queryable, querier = one.session(), two.session()
    queryable.queryable("q/**")
    one.to(hub)
    querier.say(Request(41, WireExpr(0, "q/x"), Query(), QOS_REQUEST, timeout_ms=10_000))
    assert two.to(hub) == ['REQUEST 1 "q/x"']
    assert hub.to(one) == ['REQUEST 1 (M=0 1,"/x")']
    assert queryable.heard() == ['REQUEST 1 "q/x"']
    queryable.say(Response(1, WireExpr(0, "q/x"), Reply(Put(b"v")), qos=5))
    queryable.done(1)
    assert one.to(hub) == ['RESPONSE 1 "q/x" v', "RESPONSE_FINAL 1"]
    assert hub.to(two) == ['RESPONSE 1 "q/x" v', "RESPONSE_FINAL 1"]
    response = querier.got[0]
    assert isinstance(response, Response)
    assert response.qos == QOS_REQUEST
    assert querier.heard() == ['RESPONSE 41 "q/x" v', "RESPONSE_FINAL 41"]


def test_a_peer_meets_a_peer() -> None:
    """B.3: link state, all declarations without I, then D_FINAL for id 0."""
    mesh = Mesh(settings=RoutingSettings())
    node = mesh.node("a")
    session = node.session()
    session.subscriber("s/*")
    session.queryable("q", complete=True)
    session.token("t")
    peer = node.neighbour(PEER)
    assert peer.heard() == [
        "OAM",
        'D_KEYEXPR 1 "s"',
        'D_SUBSCRIBER id 1 (1,"/*")',
        'D_KEYEXPR 2 "q"',
        "D_QUERYABLE id 2 (2) complete",
        'D_KEYEXPR 3 "t"',
        "D_TOKEN id 3 (3)",
        "D_FINAL I=0",
    ]


def test_a_peer_meets_a_router() -> None:
    """B.4: link state, interests as CURFUT, declarations; no D_FINAL."""
    mesh = Mesh(settings=RoutingSettings())
    node = mesh.node("p")
    session = node.session()
    session.publisher("pub")
    session.querier("get")
    session.watch("t/**")
    session.subscriber("sub")
    router = node.neighbour(ROUTER)
    assert router.heard() == [
        "OAM",
        'D_KEYEXPR 1 "pub"',
        "INTEREST 1 CURFUT K+S+R (1)",
        'D_KEYEXPR 2 "get"',
        "INTEREST 2 CURFUT K+Q+R (2)",
        'D_KEYEXPR 3 "t"',
        'INTEREST 3 CURFUT K+T+R (3,"/**")',
        'D_KEYEXPR 4 "sub"',
        "D_SUBSCRIBER id 4 (4)",
    ]


def test_a_client_with_nothing_declared_says_nothing() -> None:
    """Checklist 60."""
    node = Mesh().node("c", "client")
    node.session()
    assert node.neighbour(ROUTER).heard() == []


def test_liveliness_between_a_client_and_its_broker() -> None:
    """B.5, from the side of who answers."""
    mesh = Mesh()
    hub = mesh.node("hub")
    holder = hub.session()
    old = holder.token("t/0")
    client = hub.neighbour(CLIENT)
    client.interest(InterestMode.FUTURE, 8, "t/**")
    assert client.heard() == []  # a peer does not end FUT; Eclipse routers do
    new = holder.token("t/1")
    assert client.heard() == ['D_TOKEN id 1 "t/1"']
    holder.no_token(new)
    assert client.heard() == ["U_TOKEN id 1 empty"]
    holder.no_token(old)
    assert client.heard() == ['U_TOKEN id 0 "t/0"']
    holder.token("t/2")
    client.heard()
    client.interest(InterestMode.CURRENT, 8, "t/**")
    assert client.heard() == ['D_TOKEN I=2 id 0 "t/2"', "D_FINAL I=2"]


def test_liveliness_between_a_client_and_a_router() -> None:
    """B.5, from the side of who asks: what the router says reaches the session."""
    node = Mesh().node("c", "client")
    session = node.session()
    router = node.neighbour(ROUTER)
    session.watch("t/**")
    # More than the session wants: its node has to know when the last token with a key goes.
    assert router.heard() == ['D_KEYEXPR 1 "t"', 'INTEREST 1 CURFUT K+T+R (1,"/**")']
    router.say(Declare(DeclareToken(7, WireExpr(0, "t/7")), 1))
    router.say(Declare(DeclareFinal(), 1))
    assert session.heard() == []  # the session did not ask for what is there
    router.say(Declare(UndeclareToken(7, WireExpr(0, "", False))))
    assert session.heard() == ['U_TOKEN id 0 "t/7"']
    router.say(Declare(DeclareToken(1, WireExpr(0, "t/1"))))
    assert session.heard() == ['D_TOKEN id 1 "t/1"']
    router.say(Declare(UndeclareToken(1, WireExpr(0, "", False))))
    assert session.heard() == ['U_TOKEN id 1 "t/1"']
    router.say(Declare(UndeclareToken(0, WireExpr(0, "t/0"))))
    assert session.heard() == ['U_TOKEN id 0 "t/0"']
    number = session.tokens("t/**")
    assert router.heard() == ['INTEREST 2 CUR K+T+R (1,"/**")']
    router.say(Declare(DeclareToken(0, WireExpr(0, "t/5")), 2))
    router.say(Declare(DeclareToken(0, WireExpr(0, "t/5")), 2))
    router.say(Declare(DeclareFinal(), 2))
    assert session.heard() == [f'D_TOKEN I={number} id 0 "t/5"', f"D_FINAL I={number}"]


def test_a_client_reconnects() -> None:
    """B.6: interests as CURFUT even if they were FUT, then entities, with ids from 1."""
    mesh = Mesh()
    node = mesh.node("c", "client")
    session = node.session()
    first = node.neighbour(ROUTER)
    session.watch("t/**")
    session.subscriber("s")
    session.token("t/me")
    first.heard()
    first.close()
    second = node.neighbour(ROUTER)
    assert second.heard() == [
        'D_KEYEXPR 1 "t"',
        'INTEREST 1 CURFUT K+T+R (1,"/**")',
        'D_KEYEXPR 2 "s"',
        "D_SUBSCRIBER id 2 (2)",
        'D_KEYEXPR 3 "t/me"',
        "D_TOKEN id 3 (3)",
    ]


def test_tokens_of_a_lost_router_vanish_and_come_back() -> None:
    """5.12: DELETE at the loss, PUT after the reconnection, without history too."""
    node = Mesh().node("c", "client")
    session = node.session()
    router = node.neighbour(ROUTER)
    session.watch("t/**")
    router.say(Declare(DeclareToken(7, WireExpr(0, "t/1"))))
    session.heard()
    router.close()
    assert session.heard() == ['U_TOKEN id 1 "t/1"']
    again = node.neighbour(ROUTER)
    again.say(Declare(DeclareToken(3, WireExpr(0, "t/1")), 1))
    assert session.heard() == ['D_TOKEN id 2 "t/1"']


def test_an_aggregate_interest_of_a_small_client() -> None:
    """4.5: one declaration on the interest's own key, while anything matches."""
    hub = Mesh().node("hub")
    session = hub.session()
    pico = hub.neighbour(CLIENT)
    pico.interest(InterestMode.CURRENT_FUTURE, S | Q | A, "a/*")
    assert pico.heard() == ["D_FINAL I=1"]
    one, two = session.subscriber("a/1"), session.subscriber("a/2")
    assert pico.heard() == ['D_SUBSCRIBER id 1 "a/*"']
    session.no_subscriber(one)
    assert pico.heard() == []
    session.no_subscriber(two)
    assert pico.heard() == ["U_SUBSCRIBER id 1"]
    part = session.queryable("a/1", complete=True)
    assert pico.heard() == ['D_QUERYABLE id 2 "a/*"']  # complete for a part only
    whole = session.queryable("a/**", complete=True)
    assert pico.heard() == ['D_QUERYABLE id 2 "a/*" complete']
    session.no_queryable(whole)
    assert pico.heard() == ['D_QUERYABLE id 2 "a/*"']
    session.no_queryable(part)
    assert pico.heard() == ["U_QUERYABLE id 2 empty"]


def test_an_aggregate_interest_in_what_is_there() -> None:
    hub = Mesh().node("hub")
    session = hub.session()
    session.subscriber("a/1")
    session.subscriber("a/2")
    session.queryable("a/**", complete=True)
    pico = hub.neighbour(CLIENT)
    pico.interest(InterestMode.CURRENT_FUTURE, S | Q | A, "a/*")
    assert pico.heard() == [
        'D_SUBSCRIBER I=1 id 1 "a/*"',
        'D_QUERYABLE I=1 id 2 "a/*" complete',
        "D_FINAL I=1",
    ]


def test_an_aggregate_interest_in_the_future_alone() -> None:
    """What was there is not told, and so not taken back either."""
    hub = Mesh().node("hub")
    session = hub.session()
    pico = hub.neighbour(CLIENT)
    old = session.subscriber("a/1")
    pico.interest(InterestMode.FUTURE, S | A, "a/*")
    session.no_subscriber(old)
    assert pico.heard() == []
    session.no_subscriber(session.subscriber("a/2"))
    assert pico.heard() == ['D_SUBSCRIBER id 1 "a/*"', "U_SUBSCRIBER id 1"]


def test_an_aggregate_interest_does_not_count_the_asker() -> None:
    hub = Mesh().node("hub")
    pico = hub.neighbour(CLIENT)
    pico.interest(InterestMode.CURRENT_FUTURE, S | A, "a/*")
    number = pico.subscriber("a/1")
    assert pico.heard() == ["D_FINAL I=1"]
    session = hub.session()
    other = session.subscriber("a/1")
    assert pico.heard() == ['D_SUBSCRIBER id 1 "a/*"']
    pico.no_subscriber(number)
    session.no_subscriber(other)
    assert pico.heard() == ["U_SUBSCRIBER id 1"]


def test_an_aggregate_interest_without_a_key_is_only_ended() -> None:
    hub = Mesh().node("hub")
    hub.session().subscriber("a")
    pico = hub.neighbour(CLIENT)
    pico.interest(InterestMode.CURRENT_FUTURE, S | A, None)
    assert pico.heard() == ["D_FINAL I=1"]
    hub.session().subscriber("b")
    assert pico.heard() == []


def declared(session: Session, number: int, key: str, interest: int | None = None) -> None:
    session.say(Declare(DeclareSubscriber(number, WireExpr(0, key)), interest))


def test_a_publisher_is_filtered_by_what_its_router_declares() -> None:
    """4.8: sent until D_FINAL, then while an intersecting subscriber is declared."""
    node = Mesh().node("c", "client")
    session = node.session()
    router = node.neighbour(ROUTER)
    session.publisher("p/a")
    router.heard()
    session.put("p/a", "before")
    assert router.heard() == ["PUSH (1) before"]
    router.say(Declare(DeclareFinal(), 1))
    session.put("p/a", "nobody")
    session.put("p/b", "undeclared")
    assert router.heard() == ['PUSH "p/b" undeclared']
    declared(router, 4, "p/*")
    session.put("p/a", "somebody")
    assert router.heard() == ["PUSH (1) somebody"]
    router.say(Declare(UndeclareSubscriber(4)))
    session.put("p/a", "gone")
    assert router.heard() == []


def test_without_its_publisher_a_key_is_not_filtered() -> None:
    node = Mesh().node("c", "client")
    one, two = node.session(), node.session()
    router = node.neighbour(ROUTER)
    numbers = one.publisher("p"), two.interest(InterestMode.CURRENT_FUTURE, S | Q, "p")
    router.say(Declare(DeclareFinal(), 1))
    router.say(Declare(DeclareFinal(), 2))
    router.heard()
    one.put("p")
    one.over(numbers[0])
    one.put("p")
    assert router.heard() == ["INTEREST 1 FINAL"]
    two.over(numbers[1])
    one.put("p")
    assert router.heard() == ["INTEREST 2 FINAL", "PUSH (1) x"]


def test_a_publisher_on_a_wildcard_is_never_filtered() -> None:
    node = Mesh().node("c", "client")
    session = node.session()
    router = node.neighbour(ROUTER)
    session.publisher("p/*")
    router.say(Declare(DeclareFinal(), 1))
    router.heard()
    session.put("p/a", "1")
    session.put("p/*", "2")
    assert router.heard() == ['PUSH (1,"/a") 1', 'PUSH (1,"/*") 2']


def test_what_is_filtered_at_one_router_is_sent_to_another() -> None:
    node = Mesh().node("p")
    session = node.session()
    one, two = node.neighbour(ROUTER, zid=b"1"), node.neighbour(ROUTER, zid=b"2")
    session.publisher("p/a")
    assert one.heard() == two.heard() == ['D_KEYEXPR 1 "p/a"', "INTEREST 1 CURFUT K+S+R (1)"]
    one.say(Declare(DeclareFinal(), 1))
    session.put("p/a")
    assert one.heard() == []
    assert two.heard() == ["PUSH (1) x"]


def test_a_query_that_is_filtered_everywhere_ends_at_once() -> None:
    node = Mesh().node("c", "client")
    session = node.session()
    router = node.neighbour(ROUTER)
    session.querier("q/a")
    router.say(Declare(DeclareFinal(), 1))
    session.heard()
    router.heard()
    number = session.get("q/a")
    assert session.heard() == [f"RESPONSE_FINAL {number}"]
    assert router.heard() == []
    session.get("q/b")
    assert router.heard() == ['REQUEST 1 "q/b"']


def test_two_publishers_share_one_interest() -> None:
    """4.2: of one session or of several; FINAL with the last."""
    node = Mesh().node("c", "client")
    one, two = node.session(), node.session()
    router = node.neighbour(ROUTER)
    first, second = one.publisher("p"), two.publisher("p")
    assert router.heard() == ['D_KEYEXPR 1 "p"', "INTEREST 1 CURFUT K+S+R (1)"]
    one.over(first)
    assert router.heard() == []
    two.over(second)
    assert router.heard() == ["INTEREST 1 FINAL"]


def test_a_second_publisher_learns_what_is_known() -> None:
    node = Mesh().node("c", "client")
    one, two = node.session(), node.session()
    router = node.neighbour(ROUTER)
    one.publisher("p")
    declared(router, 9, "p", 1)
    router.say(Declare(DeclareFinal(), 1))
    number = two.publisher("p")
    assert two.heard() == [f'D_SUBSCRIBER I={number} id 1 "p"', f"D_FINAL I={number}"]


def test_the_options_that_a_client_may_allow() -> None:
    """K alone: D_FINAL only."""
    hub = Mesh().node("hub")
    hub.session().subscriber("a")
    client = hub.neighbour(CLIENT)
    client.interest(InterestMode.CURRENT_FUTURE, K, "a")
    assert client.heard() == ["D_FINAL I=1"]
