"""Peers telling of peers (behaviour.md 6.7)."""

from __future__ import annotations

from tests.unit.routing.mesh import Mesh, Session

from elea.limits import Limits
from elea.routing.effects import Candidate
from elea.routing.regions import CLIENT, PEER, ROUTER
from elea.routing.settings import RoutingSettings
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import Oam

HERE = ("tcp/10.0.0.1:7447",)
THERE = ("tcp/10.0.0.2:7447",)
GOSSIP = RoutingSettings()


def told(face: Session) -> list[LinkState]:
    """The records received since the last look."""
    records = [
        record
        for message in face.got
        if isinstance(message, Oam) and isinstance(message.body, LinkStateList)
        for record in message.body
    ]
    face.got.clear()
    return records


def say(face: Session, *records: LinkState) -> None:
    face.say(Oam(1, LinkStateList(records)))


def test_a_new_peer_is_told_of_this_node_and_its_neighbours() -> None:
    node = Mesh(settings=GOSSIP).node("self")
    node.routing.set_locators(HERE)
    one = node.neighbour(PEER, zid=b"1")
    [own] = told(one)
    assert own == LinkState(0, 3, b"self", 2, HERE)  # one for the locators, one for the neighbour
    say(one, LinkState(0, 2, b"1", 2, THERE))
    two = node.neighbour(PEER, zid=b"2")
    assert told(two) == [
        LinkState(0, 4, b"self", 2, HERE),
        LinkState(1, 2, b"1", 2, THERE),
    ]
    assert told(one) == []  # only gateways are told of newcomers


def test_a_gateway_is_told_of_links_and_of_gateways() -> None:
    """5.5 needs it: who of several gateways forwards is chosen by these."""
    node = Mesh(settings=GOSSIP).node("self")
    one = node.neighbour(ROUTER, zid=b"r1")
    [own] = told(one)
    assert (list(own.links), own.gateway) == ([1], False)
    two = node.neighbour(ROUTER, zid=b"r2")
    newcomer, own = told(one)
    assert (newcomer.zid, newcomer.gateway, newcomer.psid) == (b"r2", True, 2)
    assert (own.zid, own.psid, list(own.links)) == (None, 0, [1, 2])
    own, other = told(two)
    assert (own.zid, list(own.links)) == (b"self", [1, 2])
    assert (other.zid, other.gateway, other.whatami) == (b"r1", True, 1)


def test_what_a_neighbour_says_of_itself_is_handed_on_once() -> None:
    node = Mesh(settings=GOSSIP).node("self")
    one, two = node.neighbour(PEER, zid=b"1"), node.neighbour(PEER, zid=b"2")
    for face in (one, two):
        told(face)
    say(one, LinkState(0, 5, b"1", 2, THERE))
    assert told(two) == [LinkState(1, 5, b"1", 2, THERE)]
    say(one, LinkState(0, 5, b"1", 2, HERE))  # not newer
    say(one, LinkState(0, 6, b"1", 2, THERE))  # not news
    say(one, LinkState(0, 7, b"1", 2))  # locators left out: unchanged
    assert told(two) == []
    say(one, LinkState(0, 8, None, 2, HERE))  # its own number, introduced before
    assert told(two) == [LinkState(1, 8, b"1", 2, HERE)]
    assert told(one) == []


def test_what_a_neighbour_says_of_others_is_a_candidate_and_not_handed_on() -> None:
    node = Mesh(settings=GOSSIP).node("self")
    one, two = node.neighbour(PEER, zid=b"1"), node.neighbour(PEER, zid=b"2")
    told(two)
    say(
        one,
        LinkState(1, 1, b"3", 2, THERE),
        LinkState(2, 1, b"r", None, HERE),  # no role: a router
        LinkState(3, 1, b"4", 4),  # nowhere to be reached
        LinkState(4, 1, b"2", 2, THERE),  # connected already
        LinkState(5, 1, b"self", 2, HERE),
        LinkState(6, 1, None, 2, HERE),  # a number nobody introduced
    )
    assert told(two) == []
    assert node.routing.connect_candidates() == [
        Candidate(b"3", 1, THERE, one.face_id),
        Candidate(b"r", 0, HERE, one.face_id),
    ]
    assert node.routing.connect_candidates() == []
    say(one, LinkState(1, 2, None, 2, HERE))
    assert node.routing.connect_candidates() == [Candidate(b"3", 1, HERE, one.face_id)]


def test_a_mesh_grows_from_one_contact() -> None:
    """1.15: connect C to B only; A and C learn of each other."""
    mesh = Mesh(settings=GOSSIP)
    a, b, c = mesh.node("a"), mesh.node("b"), mesh.node("c")
    for node, locators in ((a, ("tcp/a:1",)), (b, ("tcp/b:1",)), (c, ("tcp/c:1",))):
        node.routing.set_locators(locators)
    mesh.connect(a, b)
    mesh.connect(c, b)
    for node, other in ((a, "c"), (c, "a")):
        [candidate] = node.routing.connect_candidates()
        assert (candidate.zid, candidate.locators) == (other.encode(), (f"tcp/{other}:1",))
    assert b.routing.connect_candidates() == []


def test_new_locators_are_told() -> None:
    node = Mesh(settings=GOSSIP).node("self")
    one = node.neighbour(PEER, zid=b"1")
    told(one)
    node.routing.set_locators(HERE)
    node.routing.set_locators(HERE)
    [record] = told(one)
    assert (record.zid, record.locators, record.sn) == (None, HERE, 3)


def test_numbers_of_lost_neighbours_are_used_again() -> None:
    node = Mesh(settings=GOSSIP).node("self")
    one = node.neighbour(PEER, zid=b"1")
    node.neighbour(PEER, zid=b"2")
    one.close()
    router = node.neighbour(ROUTER, zid=b"3")
    own, other = told(router)
    assert list(own.links) == [2, 1]
    assert other.psid == 2


def test_clients_neither_gossip_nor_listen() -> None:
    node = Mesh(settings=GOSSIP).node("c", "client")
    router = node.neighbour(ROUTER)
    assert router.heard() == []
    say(router, LinkState(1, 1, b"3", 2, THERE))
    node.routing.set_locators(HERE)
    assert node.routing.connect_candidates() == []
    assert router.heard() == []
    assert node.routing.stats.dropped() == {"gossip_ignored": 1}


def test_gossip_from_below_is_ignored() -> None:
    """T16."""
    node = Mesh(settings=GOSSIP).node("p")
    client = node.neighbour(CLIENT)
    say(client, LinkState(1, 1, b"3", 2, THERE))
    client.say(Oam(9, b"?"))
    assert node.routing.connect_candidates() == []
    assert node.routing.stats.dropped() == {"gossip_ignored": 1, "oam_unknown": 1}


def test_gossip_can_be_switched_off_and_aimed() -> None:
    silent = Mesh(settings=RoutingSettings(gossip=False)).node("p")
    assert silent.neighbour(ROUTER).heard() == []
    routers_only = Mesh(settings=RoutingSettings(gossip_target=0b001)).node("p")
    assert routers_only.neighbour(PEER).heard() == ["D_FINAL I=0"]
    assert routers_only.neighbour(ROUTER, zid=b"r").heard() == ["OAM"]


def test_a_gateway_is_ready_when_its_link_state_has_come() -> None:
    """1.12: what `open` of a peer waits for; an empty list will do."""
    node = Mesh(settings=GOSSIP).node("p")
    router = node.neighbour(ROUTER)
    assert not node.routing.is_ready(router.face_id)
    say(router)
    assert node.routing.is_ready(router.face_id)
    without = Mesh().node("p")
    assert without.routing.is_ready(without.neighbour(ROUTER).face_id)


def test_what_gossip_makes_a_node_remember_is_bounded() -> None:
    node = Mesh(settings=GOSSIP, limits=Limits(gossip_nodes_count=2)).node("p")
    one = node.neighbour(PEER, zid=b"1")
    say(one, *(LinkState(number, 1, bytes([number]), 2, THERE) for number in range(10, 20)))
    assert len(node.routing.connect_candidates()) == 2
    say(one, *(LinkState(number, 2, None, 2, THERE) for number in range(10, 20)))
    assert len(node.routing.connect_candidates()) == 2
