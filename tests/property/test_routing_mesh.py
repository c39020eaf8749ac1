"""Meshes of peers and clients that change all the time: who is reached follows from the links.

A client is where its peer is. Two places reach each other if they are the same or directly linked;
nothing is passed on between peers (behaviour.md 5.4).
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from tests.property.applications import App, Applications
from tests.unit.routing.mesh import Mesh


class MeshMachine(Applications):
    """Links appear and vanish between three peers; clients wander; applications come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[tuple[int, int]] = set()
        self.homes: dict[int, int | None] = {}

    @initialize(elea=st.booleans())
    def start(self, elea: bool) -> None:
        self.mesh = Mesh()
        self.elea = elea
        self.peers = [self.mesh.node(f"p{number}") for number in range(3)]
        self.clients = [self.mesh.node(f"c{number}", "client") for number in range(2)]
        self.homes = dict.fromkeys(range(2))

    def place(self, app: App) -> int | None:
        if app.node in self.peers:
            return self.peers.index(app.node)
        return self.homes[self.clients.index(app.node)]

    def reaches(self, one: App, other: App) -> bool:
        if one.node is other.node:
            return True
        here, there = self.place(one), self.place(other)
        if here is None or there is None:
            return False
        return here == there or (min(here, there), max(here, there)) in self.links

    @rule(a=st.integers(0, 2), b=st.integers(0, 2))
    def link_or_cut_peers(self, a: int, b: int) -> None:
        if a == b:
            return
        pair = (min(a, b), max(a, b))
        if pair in self.links:
            self.links.remove(pair)
            self.mesh.cut(self.peers[a], self.peers[b])
        else:
            self.links.add(pair)
            self.mesh.connect(self.peers[a], self.peers[b], elea=self.elea)

    @rule(client=st.integers(0, 1), home=st.sampled_from([None, 0, 1, 2]))
    def move_client(self, client: int, home: int | None) -> None:
        before = self.homes[client]
        if before is not None:
            self.mesh.cut(self.clients[client], self.peers[before])
        if home is not None:
            self.mesh.connect(self.clients[client], self.peers[home], elea=self.elea)
        self.homes[client] = home

    @invariant()
    def nothing_is_pending(self) -> None:
        """All have answered: no interest waits, no query is open."""
        for node in self.mesh.nodes:
            assert node.routing.next_timer_ns() is None

    def teardown(self) -> None:
        if not hasattr(self, "mesh"):
            return
        for app in self.apps:
            app.session.close()
        for a, b in sorted(self.links):
            self.mesh.cut(self.peers[a], self.peers[b])
        for client, home in self.homes.items():
            if home is not None:
                self.mesh.cut(self.clients[client], self.peers[home])
        for node in self.mesh.nodes:
            assert node.routing.is_empty()


TestMesh = MeshMachine.TestCase
