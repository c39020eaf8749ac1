"""Networks of routers: every connected graph of up to five, and networks that change all the time.

Whoever subscribed gets exactly one copy of a sample, over whatever links; tables equal what is
computed from scratch by `router_model`.
"""

from __future__ import annotations

from itertools import islice

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from tests.property.applications import ALL, App, Applications, answer
from tests.scale import scaled
from tests.unit.routing.mesh import Mesh, Node, Session
from tests.unit.routing.router_model import SETTLED_S, check_tables, graphs, linked, routers

from elea.wire.network.push import Push
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal


def _samples(session: Session) -> list[str]:
    got = [one.key.suffix for one in session.got if isinstance(one, Push)]
    session.got.clear()
    return got


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_exactly_one_copy_in_every_connected_graph(count: int) -> None:
    step = scaled(8, 1) if count == 5 else 1  # of 728 graphs with five nodes
    for number, edges in islice(enumerate(graphs(count)), 0, None, step):
        nodes = routers(edges, count, prefix=f"{number:x}/")
        mesh = nodes[0].mesh
        clients = [mesh.node(f"c{where}", "client") for where in range(count)]
        for client, node in zip(clients, nodes, strict=True):
            mesh.connect(client, node)
        apps = [client.session() for client in clients] + [nodes[0].session()]
        for app in apps:
            app.subscriber("k/*")
            app.queryable("q")
            app.answer = answer
        mesh.wait(SETTLED_S)
        check_tables(nodes)
        for source in apps:
            source.put("k/1")
            for app in apps:
                assert _samples(app) == ([] if app is source else ["k/1"]), (edges, number)
        request = apps[0].get("q", target=ALL)
        replies = [one for one in apps[0].got if isinstance(one, Response)]
        assert len(replies) == len(apps) - 1
        assert [one.id for one in apps[0].got if isinstance(one, ResponseFinal)] == [request]


class RoutersMachine(Applications):
    """Links between four routers come and go; clients and peers wander; applications too."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[tuple[int, int]] = set()
        self.homes: dict[int, int | None] = {}

    @initialize(prefix=st.text("abcdef", min_size=1, max_size=3))
    def start(self, prefix: str) -> None:
        self.mesh = Mesh()
        self.routers = [self.mesh.node(f"{prefix}{number}", "router") for number in range(4)]
        self.below = [
            *(self.mesh.node(f"k{number}", "client") for number in range(2)),
            *(self.mesh.node(f"p{number}", "peer") for number in range(2)),
        ]
        self.homes = dict.fromkeys(range(4))

    def place(self, app: App) -> Node | None:
        if app.node in self.routers:
            return app.node
        home = self.homes[self.below.index(app.node)]
        return None if home is None else self.routers[home]

    def reaches(self, one: App, other: App) -> bool:
        if one.node is other.node:
            return True
        here, there = self.place(one), self.place(other)
        if here is None or there is None:
            return False
        if here is there and one.node.name[0] == other.node.name[0] == "p":
            return False  # a router does not bridge its peers
        return there.zid in linked(self.routers)[here.zid]

    def settle(self) -> None:
        self.mesh.wait(SETTLED_S)
        super().settle()

    @rule(a=st.integers(0, 3), b=st.integers(0, 3), pause=st.sampled_from([0, 0.05, 0.3]))
    def link_or_cut(self, a: int, b: int, pause: float) -> None:
        if a == b:
            return
        pair = (min(a, b), max(a, b))
        if pair in self.links:
            self.links.remove(pair)
            self.mesh.cut(self.routers[a], self.routers[b])
        else:
            self.links.add(pair)
            self.mesh.connect(self.routers[a], self.routers[b])
        self.mesh.wait(pause)

    @rule(who=st.integers(0, 3), home=st.sampled_from([None, 0, 1, 2, 3]))
    def move(self, who: int, home: int | None) -> None:
        before = self.homes[who]
        if before is not None:
            self.mesh.cut(self.below[who], self.routers[before])
        if home is not None:
            self.mesh.connect(self.below[who], self.routers[home])
        self.homes[who] = home

    @rule()
    def tables_are_true(self) -> None:
        self.settle()
        check_tables(self.routers)
        for node in self.mesh.nodes:
            assert node.routing.next_timer_ns() is None

    def teardown(self) -> None:
        if not hasattr(self, "mesh"):
            return
        for app in self.apps:
            app.session.close()
        for a, b in list(self.links):
            self.mesh.cut(self.routers[a], self.routers[b])
        for who, home in self.homes.items():
            if home is not None:
                self.mesh.cut(self.below[who], self.routers[home])
        for node in [*self.routers, *self.below]:
            assert node.routing.is_empty()


TestRouters = RoutersMachine.TestCase
