"""Gossip over several hops (behaviour.md 6.3, 6.7)."""

from __future__ import annotations

from itertools import pairwise

from tests.unit.routing.mesh import Mesh, Session

from elea.limits import Limits
from elea.routing.effects import Candidate
from elea.routing.regions import CLIENT, PEER, ROUTER
from elea.routing.settings import RoutingSettings
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import Oam

HERE = ("tcp/10.0.0.1:7447",)
THERE = ("tcp/10.0.0.2:7447",)
MULTIHOP = RoutingSettings(gossip_multihop=True)


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


def shown(record: LinkState) -> tuple[bytes | None, int, list[int]]:
    return record.zid, record.sn, list(record.links)


def test_a_line_knows_its_ends() -> None:
    mesh = Mesh(settings=MULTIHOP)
    nodes = [mesh.node(name) for name in "abcd"]
    for node in nodes:
        node.routing.set_locators((f"tcp/{node.zid.decode()}:1",))
    for one, two in pairwise(nodes):
        mesh.connect(one, two)
    for node, others in zip(nodes, ("cd", "d", "a", "ab"), strict=True):
        found = {(one.zid, one.locators) for one in node.routing.connect_candidates()}
        assert found == {(other.encode(), (f"tcp/{other}:1",)) for other in others}


def test_a_new_neighbour_is_told_of_everybody_and_others_of_it() -> None:
    node = Mesh(settings=MULTIHOP).node("self")
    one = node.neighbour(PEER, zid=b"1")
    assert [shown(record) for record in told(one)] == [(b"self", 2, [1]), (b"1", 0, [])]
    two = node.neighbour(PEER, zid=b"2")
    assert [shown(record) for record in told(one)] == [(b"2", 0, []), (None, 3, [1, 2])]
    assert [shown(record) for record in told(two)] == [
        (b"self", 3, [1, 2]),
        (b"1", 0, []),
        (b"2", 0, []),
    ]


def test_what_is_new_goes_to_all_and_news_to_all_but_who_said_it() -> None:
    node = Mesh(settings=MULTIHOP).node("self")
    one, two = node.neighbour(PEER, zid=b"1"), node.neighbour(PEER, zid=b"2")
    for face in (one, two):
        told(face)
    say(
        one,
        LinkState(0, 2, b"1", 2, HERE, [1, 2]),
        LinkState(1, 1, b"self", 2),
        LinkState(2, 1, b"3", 2, THERE, [0]),
    )
    expected = [(b"1", 2, [0, 3]), (b"3", 1, [1])]
    assert [shown(record) for record in told(one)] == expected  # which tells our numbers
    assert [shown(record) for record in told(two)] == expected
    assert node.routing.connect_candidates() == [Candidate(b"3", 1, THERE, one.face_id)]
    say(one, LinkState(2, 2, None, 2, HERE, [0]))
    assert told(one) == []
    assert [shown(record) for record in told(two)] == [(None, 2, [1])]
    assert node.routing.connect_candidates() == [Candidate(b"3", 1, HERE, one.face_id)]
    say(one, LinkState(2, 2, None, 2, THERE, [0]))  # not newer
    assert told(two) == []
    assert node.routing.connect_candidates() == []


def test_whom_nobody_is_linked_to_is_forgotten() -> None:
    node = Mesh(settings=MULTIHOP).node("self")
    one, two = node.neighbour(PEER, zid=b"1"), node.neighbour(PEER, zid=b"2")
    say(one, LinkState(0, 2, b"1", 2, HERE, [1]), LinkState(1, 1, b"3", 2, THERE, [0]))
    told(two)
    say(one, LinkState(0, 3, None, 2, HERE, []))
    assert [shown(record) for record in told(two)] == [(None, 3, [])]
    assert node.routing.connect_candidates() == []
    one.close()
    assert [shown(record) for record in told(two)] == [(None, 4, [2])]
    two.close()
    assert node.routing.is_empty()


def test_who_has_no_business_telling_is_not_heard() -> None:
    node = Mesh(settings=MULTIHOP).node("self")
    client, router = node.neighbour(CLIENT, zid=b"c"), node.neighbour(ROUTER, zid=b"r")
    say(client, LinkState(0, 2, b"c", 4, HERE))
    assert told(client) == []
    assert node.routing.connect_candidates() == []
    say(router, LinkState(9, 2, None, 2, HERE))  # a number nobody introduced
    say(router)  # an empty list is legal
    assert node.routing.connect_candidates() == []


def test_how_much_is_remembered_is_bounded() -> None:
    mesh = Mesh(settings=MULTIHOP, limits=Limits(gossip_nodes_count=5))
    node = mesh.node("self")
    one = node.neighbour(PEER, zid=b"1")
    strangers = [LinkState(n, 1, bytes([n]), 2, HERE) for n in range(1, 100)]
    say(one, LinkState(0, 2, b"1", 2, HERE, list(range(1, 100))), *strangers)
    assert len(node.routing.connect_candidates()) <= 5
    node.neighbour(PEER, zid=b"z")  # for which there is no room any more
    one.close()


def test_only_chosen_roles_are_told() -> None:
    settings = RoutingSettings(gossip_multihop=True, gossip_target=0b001)
    node = Mesh(settings=settings).node("self")
    assert told(node.neighbour(PEER, zid=b"1")) == []
    assert told(node.neighbour(ROUTER, zid=b"2")) != []
    node.routing.set_locators(HERE)
    node.routing.set_locators(HERE)
