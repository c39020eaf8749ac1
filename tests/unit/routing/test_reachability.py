"""Who reaches whom (behaviour.md 5.4), by samples, queries and tokens, without routers."""

from __future__ import annotations

import pytest
from tests.unit.routing.mesh import Mesh, Node, Session

from elea.wire.network.request import Request


def _answer(session: Session, request: Request) -> None:
    session.reply(request.id, "k", "v")
    session.done(request.id)


def reaches(producer: Session, consumer: Session) -> bool:
    """Whether a sample, a query and a token get from one to the other: all or none, once."""
    consumer.subscriber("k")
    consumer.queryable("k")
    consumer.token("k")
    consumer.answer = _answer
    consumer.heard()
    producer.put("k", "undeclared")
    producer.publisher("k")
    producer.put("k", "declared")
    samples = [word for word in consumer.heard() if word.startswith("PUSH")]
    producer.heard()
    number = producer.get("k")
    replies = producer.heard()
    assert replies[-1] == f"RESPONSE_FINAL {number}"
    number = producer.tokens("k")
    tokens = producer.heard()
    assert tokens[-1] == f"D_FINAL I={number}"
    assert len(samples) in (0, 2)
    assert len(replies) - 1 == len(tokens) - 1 == len(samples) / 2
    return bool(samples)


class Lines:
    """p1 - p2, p1 - p3, and clients below: c1 and d1 of p1, c2 of p2."""

    def __init__(self) -> None:
        mesh = self.mesh = Mesh()
        self.p1, self.p2, self.p3 = mesh.node("p1"), mesh.node("p2"), mesh.node("p3")
        self.c1, self.d1 = mesh.node("c1", "client"), mesh.node("d1", "client")
        self.c2 = mesh.node("c2", "client")
        mesh.connect(self.p1, self.p2)
        mesh.connect(self.p3, self.p1)
        mesh.connect(self.c1, self.p1)
        mesh.connect(self.d1, self.p1)
        mesh.connect(self.c2, self.p2)

    def __getitem__(self, name: str) -> Node:
        node = vars(self)[name]
        assert isinstance(node, Node)
        return node


@pytest.mark.parametrize(
    ("producer", "consumer", "expected"),
    [
        ("p1", "p1", True),  # two sessions of one node
        ("p1", "p2", True),
        ("p2", "p1", True),
        ("c1", "p1", True),
        ("p1", "c1", True),
        ("c1", "d1", True),
        ("c1", "p2", True),
        ("p2", "c1", True),
        ("c1", "c2", True),
        ("c2", "c1", True),
        ("p2", "p3", False),  # a peer does not bridge peers
        ("c2", "p3", False),
        ("p3", "c2", False),
    ],
)
def test_lines_of_peers_and_clients(producer: str, consumer: str, expected: bool) -> None:
    lines = Lines()
    assert reaches(lines[producer].session(), lines[consumer].session()) is expected


@pytest.mark.parametrize("names", [("n1", "n2"), ("n2", "n1"), ("south", "n1"), ("n1", "south")])
def test_a_gateway_between_its_peers_and_its_north(names: tuple[str, str]) -> None:
    """A peer with others below it, as RemoteBound makes it: north and south meet through it."""
    mesh = Mesh()
    gateway, north, south = mesh.node("g"), mesh.node("n"), mesh.node("s")
    mesh.connect(gateway, north)
    mesh.connect(gateway, south, south=True)
    nodes = {"n1": north, "n2": gateway, "south": south}
    assert reaches(nodes[names[0]].session(), nodes[names[1]].session())


def test_peers_below_one_gateway_do_not_meet_through_it() -> None:
    mesh = Mesh()
    gateway, one, two = mesh.node("g"), mesh.node("1"), mesh.node("2")
    mesh.connect(gateway, one, south=True)
    mesh.connect(gateway, two, south=True)
    assert not reaches(one.session(), two.session())


def test_a_peer_reached_twice_gets_one_copy() -> None:
    """Checklist 103: directly and through a gateway."""
    mesh = Mesh()
    gateway, one, two = mesh.node("g"), mesh.node("1"), mesh.node("2")
    mesh.connect(gateway, one, south=True)
    mesh.connect(gateway, two, south=True)
    mesh.connect(one, two)
    assert reaches(one.session(), two.session())


def test_everything_is_gone_when_everybody_left() -> None:
    """I8."""
    lines = Lines()
    sessions = [lines[name].session() for name in ("p1", "p2", "p3", "c1", "d1", "c2")]
    for producer in sessions:
        reaches(producer, sessions[0]) if producer is not sessions[0] else None
    for session in sessions:
        session.close()
    for one, other in (("p1", "p2"), ("p1", "p3"), ("c1", "p1"), ("d1", "p1"), ("c2", "p2")):
        lines.mesh.cut(lines[one], lines[other])
    assert [node.routing.is_empty() for node in lines.mesh.nodes] == [True] * 6
