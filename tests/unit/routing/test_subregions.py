"""Gateways with subregions: who reaches whom through them, and how often."""

from __future__ import annotations

import pytest
from tests.unit.routing.mesh import Mesh, Node, Session
from tests.unit.routing.test_reachability import reaches

from elea.routing.roles.peer import PEER_ROLE
from elea.routing.roles.role import Role
from elea.routing.roles.router import ROUTER_ROLE
from elea.routing.roles.subregions import Filter
from elea.routing.settings import RoutingSettings

SETTLED_S = 1


def with_subregions(role: Role, *zids: str) -> Role:
    """A role with a subregion for each text: the nodes whose names are letters of it."""
    named = (frozenset(letter.encode() for letter in text) for text in zids)
    return role.with_subregions(tuple((Filter(zids=one),) for one in named))


class Gate:
    """A gateway with a and b below in one subregion, c and the client d in another, n north."""

    def __init__(self, role: Role) -> None:
        mesh = self.mesh = Mesh(settings=RoutingSettings())
        self.gate = mesh.node("g", with_subregions(role, "ab", "cd"))
        roles = {"d": "client", "n": "router" if role is ROUTER_ROLE else "peer"}
        self.nodes = {name: mesh.node(name, roles.get(name, "peer")) for name in "abcdn"}
        for node in self.nodes.values():
            mesh.connect(node, self.gate)
        mesh.wait(SETTLED_S)

    def session(self, name: str) -> Session:
        return self.nodes[name].session()


@pytest.mark.parametrize("role", [PEER_ROLE, ROUTER_ROLE])
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("ab", False),  # peers of one subregion are to be connected
        ("ac", True),
        ("ad", True),
        ("cd", True),
        ("an", True),
        ("cn", True),
        ("dn", True),
    ],
)
def test_who_meets_through_a_gateway(role: Role, names: str, expected: bool) -> None:
    for pair in (names, names[::-1]):
        gate = Gate(role)
        assert reaches(gate.session(pair[0]), gate.session(pair[1])) is expected


@pytest.mark.parametrize("role", [PEER_ROLE, ROUTER_ROLE])
def test_nothing_stays_when_all_have_left(role: Role) -> None:
    gate = Gate(role)
    sessions = [gate.session(name) for name in "acdn"]
    for session in sessions:
        session.subscriber("k")
        session.publisher("k")
        session.put("k", "v")
        session.get("k")
    for session in sessions:
        session.close()
    for node in gate.nodes.values():
        gate.mesh.cut(node, gate.gate)
    gate.mesh.wait(60)
    assert gate.gate.routing.is_empty()


def two_gateways(low: str, high: str) -> tuple[Mesh, dict[str, Node]]:
    """Two gateways, connected; a peer below both, a peer north of both."""
    mesh = Mesh(settings=RoutingSettings())
    role = with_subregions(PEER_ROLE, "s")
    nodes = {name: mesh.node(name, role) for name in (low, high)}
    nodes |= {name: mesh.node(name) for name in "ns"}
    mesh.connect(nodes[low], nodes[high])
    for name in "ns":
        for gateway in (low, high):
            mesh.connect(nodes[name], nodes[gateway])
    return mesh, nodes


# Not "sl": as with Eclipse, what is at the gateway that does not forward hears a peer twice.
@pytest.mark.parametrize("pair", ["ns", "sn", "hs", "sh", "ls"])
def test_of_two_gateways_of_a_peer_one_forwards(pair: str) -> None:
    _, nodes = two_gateways("l", "z")
    nodes["h"] = nodes["z"]
    assert reaches(nodes[pair[0]].session(), nodes[pair[1]].session())  # once


@pytest.mark.parametrize("lost", ["l", "z"])
@pytest.mark.parametrize("pair", ["ns", "sn"])
def test_when_one_of_two_gateways_is_lost_the_other_forwards(lost: str, pair: str) -> None:
    mesh, nodes = two_gateways("l", "z")
    for name in "ns":
        mesh.cut(nodes[lost], nodes[name])
    mesh.cut(nodes["l"], nodes["z"])
    assert reaches(nodes[pair[0]].session(), nodes[pair[1]].session())


def test_peers_are_introduced_within_their_subregion() -> None:
    gate = Gate(PEER_ROLE)
    for name, others in (("a", {b"b"}), ("b", {b"a"}), ("c", set()), ("n", set())):
        node = gate.nodes[name]
        node.routing.connect_candidates()
        for other in gate.nodes.values():
            other.routing.set_locators((f"tcp/{other.zid.decode()}:1",))
        gate.mesh.pump()
        assert {one.zid for one in node.routing.connect_candidates()} == others
        for other in gate.nodes.values():
            other.routing.set_locators(())
        gate.mesh.pump()
