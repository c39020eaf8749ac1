"""A router: clients and peers below it, other routers beside it (behaviour.md 8.6, 8.7)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tests.unit.routing.mesh import Mesh, Node, Session
from tests.unit.routing.router_model import SETTLED_S, check_tables

from elea.answers import DROPPED
from elea.limits import DEFAULT_LIMITS, Limits
from elea.routing.regions import CLIENT, PEER, ROUTER
from elea.routing.settings import RoutingSettings
from elea.routing.stats import Drop
from elea.wire.data.delete import Del
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.fields import Stamp, WireExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest, InterestMode
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam
from elea.wire.network.push import Push
from elea.wire.network.request import Request


def router(mesh: Mesh | None = None, name: str = "r") -> Node:
    return (mesh or Mesh()).node(name, "router")


def linkstate(*records: LinkState) -> Oam:
    return Oam(ID_LINKSTATE, LinkStateList(records))


def told(session: Session) -> list[LinkState]:
    """The records that came in the messages received since the last call."""
    found = [one for one in session.got if isinstance(one, Oam)]
    session.got.clear()
    return [state for one in found if isinstance(one.body, LinkStateList) for state in one.body]


# Clients and peers below.


def test_nothing_is_said_to_who_did_not_ask() -> None:
    node = router()
    client, peer = node.neighbour(CLIENT, zid=b"c"), node.neighbour(PEER, zid=b"p")
    other = node.neighbour(CLIENT, zid=b"d")
    other.subscriber("a")
    other.token("t")
    assert client.heard() == []
    assert peer.heard() == []


def test_samples_go_between_clients_by_subscription() -> None:
    node = router()
    one, two, three = (node.neighbour(CLIENT, zid=zid) for zid in (b"1", b"2", b"3"))
    one.subscriber("a/**")
    one.subscriber("a/b")
    two.put("a/b")
    assert one.heard() == ['PUSH "a/b" x']
    assert (two.heard(), three.heard()) == ([], [])


def test_current_and_future_interests_end_at_once() -> None:
    node = router()
    one, two = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    one.subscriber("a")
    number = two.publisher("a")
    assert two.heard() == [f'D_SUBSCRIBER I={number} id 1 "a"', f"D_FINAL I={number}"]
    watching = two.watch("t")
    assert two.heard() == [f"D_FINAL I={watching}"]  # routers end these too
    one.token("t")
    assert two.heard() == ['D_TOKEN id 2 "t"']


def test_peers_are_not_bridged_and_hear_of_clients() -> None:
    node = router()
    one, two = node.neighbour(PEER, zid=b"1"), node.neighbour(PEER, zid=b"2")
    client = node.neighbour(CLIENT, zid=b"c")
    two.subscriber("a")
    client.subscriber("a")
    number = one.publisher("a")
    assert one.heard() == [f'D_SUBSCRIBER I={number} id 1 "a"', f"D_FINAL I={number}"]
    one.put("a")
    assert two.heard() == []
    assert client.heard() == ['PUSH "a" x']
    client.put("a")
    assert two.heard() == ['PUSH "a" x']


def test_peers_are_introduced_to_each_other() -> None:
    node = router(Mesh(settings=RoutingSettings()))
    one = node.neighbour(PEER, zid=b"1")
    assert one.heard() == ["OAM"]  # empty, but it says that the router is ready
    one.say(linkstate(LinkState(0, 1, b"1", 2, ("tcp/h:1",))))
    two = node.neighbour(PEER, zid=b"2")
    assert [(one.zid, one.locators) for one in told(two)] == [(b"1", ("tcp/h:1",))]
    two.say(linkstate(LinkState(0, 1, b"2", 2, ("tcp/h:2",))))
    assert [(one.zid, one.locators) for one in told(one)] == [(b"2", ("tcp/h:2",))]
    assert [one.zid for one in node.routing.connect_candidates()] == []
    two.say(linkstate(LinkState(1, 1, b"3", 2, ("tcp/h:3",))))
    assert told(one) == []  # what a peer says of others is not handed on
    assert [one.zid for one in node.routing.connect_candidates()] == [b"3"]


def test_clients_and_routers_hear_no_gossip_of_peers() -> None:
    node = router(Mesh(settings=RoutingSettings()))
    node.neighbour(PEER, zid=b"1")
    assert node.neighbour(CLIENT, zid=b"c").heard() == []
    assert [one.zid for one in told(node.neighbour(ROUTER, zid=b"s"))] == [b"r", b"s"]


def test_a_group_is_among_the_peers() -> None:
    node = router()
    members, client = node.group(), node.neighbour(CLIENT, zid=b"c")
    peer = node.neighbour(PEER, zid=b"p")
    client.put("a")
    peer.put("b")
    assert members.heard() == ['PUSH "a" x']


# Several routers for one peer.


def two_gateways(own: str, other: bytes) -> tuple[Node, Session, Session]:
    """A router, a router beside it, and a peer that says it is connected to both."""
    mesh = Mesh(settings=RoutingSettings())
    node = router(mesh, own)
    beside, peer = node.neighbour(ROUTER, zid=other), node.neighbour(PEER, zid=b"p")
    beside.say(linkstate(LinkState(0, 2, other, 1, (), [1]), LinkState(1, 0, node.zid, 1)))
    mesh.wait(SETTLED_S)
    peer.say(
        linkstate(
            LinkState(1, 0, other, 1, None, gateway=True),
            LinkState(0, 2, b"p", 2, (), [1]),
        )
    )
    beside.say(Declare(DeclareSubscriber(0, WireExpr(0, "**"))))
    peer.subscriber("**")
    beside.got.clear()
    peer.got.clear()
    return node, beside, peer


def test_the_greatest_of_several_routers_carries() -> None:
    _, beside, peer = two_gateways("m", b"l")
    peer.put("a")
    assert beside.heard() == ['PUSH "a" x']
    beside.put("b")
    assert peer.heard() == []  # its source is a router of that peer, which told it


def test_the_lesser_of_several_routers_leaves_it_to_the_other() -> None:
    node, beside, peer = two_gateways("m", b"n")
    client = node.neighbour(CLIENT, zid=b"c")
    client.subscriber("a")
    beside.got.clear()
    peer.put("a")
    assert beside.heard() == []
    assert client.heard() == ['PUSH "a" x']
    beside.put("b")
    assert peer.heard() == []


def test_a_router_that_is_gone_carries_nothing() -> None:
    node, beside, peer = two_gateways("m", b"n")
    beside.close()
    third = node.neighbour(ROUTER, zid=b"k")
    third.say(linkstate(LinkState(0, 2, b"k", 1, (), [1]), LinkState(1, 0, b"m", 1)))
    node.mesh.wait(SETTLED_S)
    third.say(Declare(DeclareSubscriber(0, WireExpr(0, "**"))))
    third.got.clear()
    peer.put("a")
    assert third.heard() == ['PUSH "a" x']


def test_a_peer_that_loses_one_of_its_routers_is_served_by_the_other() -> None:
    mesh = Mesh(settings=RoutingSettings())
    lesser, greater, peer = router(mesh, "l"), router(mesh, "m"), mesh.node("p", "peer")
    for one, other in ((lesser, greater), (peer, lesser), (peer, greater)):
        mesh.connect(one, other)
    taker = greater.session()
    taker.subscriber("k")
    mesh.wait(SETTLED_S)
    source = peer.session()
    far = mesh.node("f", "router")
    mesh.connect(far, lesser)
    mesh.wait(SETTLED_S)
    distant = far.session()
    distant.subscriber("k")
    source.put("k")
    assert (taker.heard(), distant.heard()) == (['PUSH "k" x'], ['PUSH "k" x'])
    mesh.cut(peer, greater)
    mesh.wait(SETTLED_S)
    source.put("k")
    assert (taker.heard(), distant.heard()) == (['PUSH "k" x'], ['PUSH "k" x'])


# Routers beside it.


def test_two_routers_say_what_two_eclipse_routers_say() -> None:
    mesh = Mesh(settings=RoutingSettings())
    node = router(mesh, "a")
    node.routing.set_locators(("tcp/h:1",))
    node.session().subscriber("k/**")
    other = node.neighbour(ROUTER, zid=b"b")
    first = told(other)
    assert [(one.psid, one.zid, list(one.links)) for one in first] == [
        (0, b"a", [1]),
        (1, b"b", []),
    ]
    assert [(one.whatami, one.locators) for one in first] == [(1, ("tcp/h:1",)), (1, None)]
    assert first[1].sn == 0
    other.say(linkstate(LinkState(0, 2, b"b", 1, (), [1]), LinkState(1, 0, b"a", 1)))
    assert [(one.psid, one.sn, one.zid, list(one.links)) for one in told(other)] == [
        (1, 2, b"b", [0])
    ]
    assert other.heard() == []
    mesh.wait(0.2)
    assert other.heard() == ['D_KEYEXPR 1 "k"', 'D_SUBSCRIBER id 0 (1,"/**")']


def line(count: int = 3) -> list[Node]:
    mesh = Mesh()
    nodes = [router(mesh, f"r{number}") for number in range(count)]
    for a, b in pairwise(nodes):
        mesh.connect(a, b)
    mesh.wait(SETTLED_S)
    return nodes


def test_declarations_name_their_router_and_end_with_their_key() -> None:
    mesh = Mesh()
    a, b = router(mesh, "a"), router(mesh, "b")
    mesh.connect(a, b)
    c = b.neighbour(ROUTER, zid=b"c")
    c.say(linkstate(LinkState(0, 2, b"c", 1, (), [1]), LinkState(1, 0, b"b", 1)))
    mesh.wait(SETTLED_S)
    numbers = {one.zid: one.psid for one in told(c)}
    session = a.session()
    number = session.subscriber("k")
    session.no_subscriber(number)
    declared = [one for one in c.got if isinstance(one, Declare)][1:]
    assert c.heard() == ['D_KEYEXPR 1 "k"', "D_SUBSCRIBER id 0 (1)", 'U_SUBSCRIBER id 0 "k"']
    assert [one.node_id for one in declared] == [numbers[b"a"]] * 2
    b.session().subscriber("k")
    [mine] = [one for one in c.got if isinstance(one, Declare)]
    assert mine.node_id == 0


def test_samples_pass_only_where_they_are_wanted() -> None:
    a, b, c = line()
    session, near = c.session(), b.session()
    near.subscriber("k")
    for one, other in ((a, b), (b, c)):
        one.to(other)
    a.session().put("k")
    assert a.to(b) == ["PUSH (M=0 1) x"]
    assert b.to(c) == []
    assert session.heard() == []
    assert near.heard() == ['PUSH "k" x']


def test_a_late_router_learns_everything() -> None:
    nodes = line()
    mesh = nodes[0].mesh
    for number, node in enumerate(nodes):
        session = node.session()
        session.subscriber(f"s/{number}")
        session.queryable("q", complete=number == 1)
        session.token("t")
    late = router(mesh, "late")
    mesh.connect(late, nodes[2])
    mesh.wait(SETTLED_S)
    check_tables([*nodes, late])


def test_a_router_that_leaves_takes_its_declarations_along() -> None:
    a, b, c = line()
    c.session().token("t")
    watcher = a.session()
    watcher.watch("t", history=True)
    watcher.got.clear()
    a.mesh.cut(b, c)
    assert watcher.heard() == ['U_TOKEN id 1 "t"']
    a.mesh.wait(SETTLED_S)
    check_tables([a, b])


def test_a_client_with_many_declarations_leaves_in_turns() -> None:
    mesh = Mesh(limits=Limits(declarations_turn_count=4))
    node = router(mesh)
    client, other = (node.neighbour(CLIENT, zid=zid) for zid in (b"c", b"o"))
    other.publisher("s/**")
    other.querier("q")
    other.watch("t/**", history=True)
    for number in range(9):
        client.subscriber(f"s/{number}")
        client.token(f"t/{number}")
    client.queryable("q")
    known = len(other.mirror.entities)
    asked = other.get("q")
    other.got.clear()

    client.close()
    assert other.heard()[-1] == f"RESPONSE_FINAL {asked}"  # at once: nobody waits for it
    assert len(other.mirror.entities) == known - 4
    node.routing.close_face(client.face_id, mesh.now_ns)  # once more does nothing
    assert len(other.mirror.entities) == known - 4
    assert other.put("s/8") == DROPPED  # still routed there, where nobody takes it
    late = other.get("q")
    node.neighbour(CLIENT, zid=b"c").subscriber("s/8")  # it is back already

    mesh.wait(1)
    assert f"RESPONSE_FINAL {late}" in other.heard()
    assert other.mirror.known() == {("S", "s/8"): (False, 0)}
    assert len(node.routing.tables.faces) == 2
    check_tables([node])


def test_a_long_answer_is_told_in_turns() -> None:
    mesh = Mesh(limits=Limits(declarations_turn_count=4))
    node = router(mesh)
    client, other = (node.neighbour(CLIENT, zid=zid) for zid in (b"c", b"o"))
    numbers = [client.subscriber(f"s/{number}") for number in range(9)]
    asked = other.publisher("s/**")
    assert len(other.mirror.entities) == 4
    assert f"D_FINAL I={asked}" not in other.heard()
    client.no_subscriber(numbers[0])  # told
    client.no_subscriber(numbers[8])  # not yet
    client.subscriber("s/9")  # news

    mesh.wait(1)
    heard = other.heard()
    assert heard[-1] == f"D_FINAL I={asked}"
    assert heard.count(f"D_FINAL I={asked}") == 1
    assert other.mirror.known() == {("S", f"s/{one}"): (False, 0) for one in (*range(1, 8), 9)}
    assert not any('"s/8"' in one for one in heard)
    check_tables([node])


def test_who_takes_an_interest_back_is_told_no_more() -> None:
    mesh = Mesh(limits=Limits(declarations_turn_count=4))
    node = router(mesh)
    client, asking, leaving = (node.neighbour(CLIENT, zid=zid) for zid in (b"c", b"o", b"l"))
    for number in range(9):
        client.subscriber(f"s/{number}")
    asked = asking.publisher("s/**")
    leaving.publisher("s/**")
    asking.over(asked)
    leaving.close()
    mesh.wait(20)
    assert len(asking.mirror.entities) == 4
    assert not any("D_FINAL" in one for one in asking.heard())
    client.close()
    asking.close()
    mesh.wait(1)
    assert node.routing.is_empty()


def test_interests_of_routers_are_ignored() -> None:
    node = router()
    other = node.neighbour(ROUTER, zid=b"b")
    other.got.clear()
    other.say(Interest(1, InterestMode.CURRENT_FUTURE, 3, WireExpr(0, "a")))
    assert other.got == []
    assert node.routing.stats.drops[Drop.INTEREST_IGNORED] == 1


def test_routers_that_were_never_introduced_mean_nothing() -> None:
    node = router()
    client = node.neighbour(CLIENT, zid=b"c")
    client.subscriber("a")
    other = node.neighbour(ROUTER, zid=b"b")
    other.got.clear()
    other.say(Declare(DeclareSubscriber(0, WireExpr(0, "a")), node_id=7))
    other.say(Declare(UndeclareSubscriber(0, WireExpr(0, "a")), node_id=7))
    other.say(Declare(UndeclareSubscriber(0, None)))
    other.say(Push(WireExpr(0, "a"), Put(b"x"), node_id=7))
    other.say(Request(1, WireExpr(0, "a"), Query(), node_id=7))
    assert client.heard() == []
    assert other.heard() == ["RESPONSE_FINAL 1"]
    drops = node.routing.stats.drops
    assert (drops[Drop.UNKNOWN_NODE], drops[Drop.UNKNOWN_ENTITY]) == (3, 2)


def test_older_descriptions_are_ignored() -> None:
    node = router()
    other = node.neighbour(ROUTER, zid=b"b")
    other.say(
        linkstate(
            LinkState(0, 5, b"b", 1, (), [1, 2]), LinkState(1, 0, b"r", 1), LinkState(2, 1, b"c", 1)
        )
    )
    network = node.routing.network
    assert network is not None
    assert set(network.nodes) == {b"r", b"b", b"c"}
    other.say(linkstate(LinkState(0, 4, None, 1, (), [1])))
    assert set(network.nodes) == {b"r", b"b", b"c"}
    other.say(linkstate(LinkState(0, 6, None, 1, (), [1])))
    assert set(network.nodes) == {b"r", b"b"}


def test_a_description_of_an_earlier_life_is_outdone() -> None:
    node = router()
    other = node.neighbour(ROUTER, zid=b"b")
    other.got.clear()
    other.say(linkstate(LinkState(0, 5, b"b", 1, (), [1]), LinkState(1, 40, b"r", 1, (), [0])))
    assert 41 in [one.sn for one in told(other) if one.psid == 0]


def test_weights_choose_the_way() -> None:
    mesh = Mesh(settings=RoutingSettings(gossip=False, weights={b"r1": 10}))
    nodes = [router(mesh, f"r{number}") for number in range(3)]
    for a, b in ((0, 1), (1, 2), (0, 2)):
        mesh.connect(nodes[a], nodes[b])
    mesh.wait(SETTLED_S)
    for here, there in ((0, 2), (2, 0)):
        network = nodes[here].routing.network
        assert network is not None
        hop = network.hop(nodes[here].zid, nodes[there].zid)
        assert hop is not None
        assert hop.spec.zid == b"r1"


def test_values_are_stamped_where_they_go_on() -> None:
    node = router()
    stamp = Stamp(1, b"r")
    node.routing.stamp_samples(
        lambda push: Push(push.key, Put(b"x", stamp)) if isinstance(push.body, Put) else None
    )
    one, two = node.neighbour(CLIENT, zid=b"1"), node.neighbour(CLIENT, zid=b"2")
    two.put("a")
    one.subscriber("a")
    two.put("a")
    [push] = one.got
    assert isinstance(push, Push)
    assert isinstance(push.body, Put)
    assert push.body.timestamp == stamp
    two.say(Push(WireExpr(0, "a"), Del()))
    assert node.routing.stats.drops[Drop.FUTURE] == 1


def test_what_a_router_may_say_of_another_is_bounded() -> None:
    node = router(Mesh(limits=replace(DEFAULT_LIMITS, router_declarations_count=2)))
    other = node.neighbour(ROUTER, zid=b"b")
    for key in ("a", "b", "c", "a"):
        other.say(Declare(DeclareSubscriber(0, WireExpr(0, key))))
    assert node.routing.tables.count() == 2
    assert node.routing.stats.drops[Drop.DECLARATION_LIMIT] == 1
    other.close()
    assert node.routing.is_empty()
