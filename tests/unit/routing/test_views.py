"""What operators are told about routing, as Eclipse Zenoh's admin space tells it."""

from __future__ import annotations

from tests.unit.routing.mesh import Mesh, Node, Session

from elea.routing.regions import CLIENT, PEER, ROUTER
from elea.routing.settings import RoutingSettings
from elea.routing.tables import Kind
from elea.routing.views import (
    Sources,
    declared,
    graphs,
    region_of,
    router_map,
    wanted,
    weights,
)
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import Oam

GOSSIP = RoutingSettings()


def names(found: dict[str, Sources]) -> dict[str, tuple[list[bytes], list[bytes], list[bytes]]]:
    return {
        key: (list(one.routers), list(one.peers), list(one.clients)) for key, one in found.items()
    }


def peer() -> tuple[Node, Session, Session, Session]:
    node = Mesh().node("self")
    return (
        node,
        node.session(),
        node.neighbour(CLIENT, zid=b"c"),
        node.neighbour(PEER, zid=b"p"),
    )


def test_what_comes_from_below_is_this_nodes_as_well() -> None:
    node, session, client, other = peer()
    session.subscriber("own")
    client.subscriber("below")
    other.subscriber("beside")
    assert names(declared(node.routing, Kind.SUBSCRIBER)) == {
        "own": ([], [b"self"], [b"self"]),
        "below": ([], [b"self"], [b"c"]),
        "beside": ([], [b"p"], []),
    }
    assert declared(node.routing, Kind.TOKEN) == {}


def test_a_node_is_named_once_however_often_it_declared() -> None:
    node, session, client, _ = peer()
    for one in (session, client, session):
        one.token("alive")
    assert names(declared(node.routing, Kind.TOKEN)) == {"alive": ([], [b"self"], [b"self", b"c"])}


def test_what_was_taken_back_is_not_shown() -> None:
    node, _, client, _ = peer()
    client.no_subscriber(client.subscriber("below"))
    assert declared(node.routing, Kind.SUBSCRIBER) == {}


def test_publishers_and_queriers_are_who_wants_to_know() -> None:
    node, session, client, _ = peer()
    session.publisher("p/own")
    client.publisher("p/below")
    client.querier("q/*")
    assert names(wanted(node.routing, Kind.SUBSCRIBER)) == {
        "p/own": ([], [], [b"self"]),
        "p/below": ([], [], [b"c"]),
    }
    assert names(wanted(node.routing, Kind.QUERYABLE)) == {"q/*": ([], [], [b"c"])}


def test_a_client_names_who_is_upstream_by_its_role() -> None:
    node = Mesh().node("self", "client")
    router = node.neighbour(ROUTER, zid=b"r")
    node.session().publisher("a")
    [asked] = [one for one in router.got if isinstance(one, Interest)]
    router.say(Declare(DeclareSubscriber(1, WireExpr(0, "a")), interest_id=asked.id))
    assert names(declared(node.routing, Kind.SUBSCRIBER)) == {"a": ([b"r"], [], [])}


def test_regions_have_eclipses_names() -> None:
    node, session, client, other = peer()
    shown = [region_of(node.routing, one.face_id) for one in (session, client, other)]
    assert shown == ["local", "south:0:client", "north"]
    assert region_of(node.routing, 99) == "unknown"


def test_gossip_over_one_hop_knows_neighbours() -> None:
    node = Mesh(settings=GOSSIP).node("self")
    node.neighbour(PEER, zid=b"p")
    node.neighbour(CLIENT, zid=b"c")
    [(region, graph)] = graphs(node.routing).items()
    assert graph is not None
    assert (region, graph.nodes, graph.edges) == ("north", [b"self", b"p"], {})
    assert graphs(Mesh().node("silent").routing) == {"north": None}
    assert graphs(Mesh().node("client", "client").routing) == {}


def test_gossip_over_several_hops_knows_links_that_both_ends_tell_of() -> None:
    node = Mesh(settings=RoutingSettings(gossip_multihop=True)).node("self")
    near = node.neighbour(PEER, zid=b"p")
    records = [
        LinkState(0, 1, b"p", 2, (), [1, 2]),
        LinkState(1, 1, b"self", 2, (), [0]),
        LinkState(2, 1, b"far", 2, (), [0]),
    ]
    near.say(Oam(1, LinkStateList(records)))
    graph = graphs(node.routing)["north"]
    assert graph is not None
    assert graph.nodes == [b"self", b"p", b"far"]
    assert list(graph.edges) == [(1, 0), (2, 1)]
    assert all(100 <= weight <= 101 for weight in graph.edges.values())


def three_in_a_line() -> tuple[Node, Node, Node]:
    """Three routers."""
    mesh = Mesh(settings=RoutingSettings(weights={b"2": 7}))
    one, two, three = (mesh.node(name, "router") for name in "123")
    mesh.connect(one, two)
    mesh.connect(two, three)
    mesh.wait(2)
    return one, two, three


def test_a_router_knows_what_routers_have_and_on_which_way() -> None:
    one, _, three = three_in_a_line()
    three.session().subscriber("far")
    one.neighbour(PEER, zid=b"p").subscriber("near")
    one.session().publisher("far")
    assert names(declared(one.routing, Kind.SUBSCRIBER)) == {
        "far": ([b"3"], [], []),
        "near": ([b"1"], [b"p"], []),
    }
    assert names(wanted(one.routing, Kind.SUBSCRIBER)) == {"far": ([], [], [b"1"])}
    routers = router_map(one.routing)
    for source in (b"1", b"2", b"3"):
        assert routers.successors(source) == {b"2": b"2", b"3": b"2"}


def test_a_router_knows_the_network_and_its_peers() -> None:
    one, _, three = three_in_a_line()
    one.neighbour(PEER, zid=b"p")
    found = graphs(one.routing)
    network, peers = found["north"], found["south:0:peer"]
    assert network is not None
    assert peers is not None
    assert (network.nodes, list(network.edges)) == ([b"1", b"2", b"3"], [(1, 0), (2, 1)])
    assert (peers.nodes, peers.edges) == ([b"1", b"p"], {})
    assert weights(one.routing, b"2") == (7, 0)
    assert weights(three.routing, b"2") == (7, 0)
    assert weights(one.routing, b"3") is None
    assert weights(one.routing, b"p") is None


def test_nobody_but_a_router_has_weights_and_successors() -> None:
    node, *_ = peer()
    assert weights(node.routing, b"p") is None
    assert router_map(node.routing).nodes == ()
