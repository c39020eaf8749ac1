"""Meshes of peers and clients that change all the time: who is reached follows from the links.

A client is where its peer is. Two places reach each other if they are the same or directly linked;
nothing is passed on between peers (behaviour.md 5.4). Every sample, reply and token arrives exactly
once, from wherever it can arrive, and from nowhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.routing.mesh import Mesh, Node, Session

from elea.keyexpr.match_hot import intersects
from elea.wire.data.reply import Reply
from elea.wire.network.declaration.token import DeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.push_hot import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal

KEYS = ["a", "a/b", "a/*", "**", "c"]
PLAIN = ["a", "a/b", "c", "d"]
ALL = 1


@dataclass(eq=False)
class App:
    """An application: a session and what it declared, by kind and number."""

    node: Node
    session: Session
    declared: dict[tuple[str, int], str] = field(default_factory=dict)
    publishers: list[int] = field(default_factory=list)

    def has(self, kind: str, key: str) -> bool:
        return any(
            one == kind and intersects(declared, key)
            for (one, _), declared in self.declared.items()
        )


def _answer(session: Session, request: Request) -> None:
    session.reply(request.id, request.key.suffix, "v")
    session.done(request.id)


class MeshMachine(RuleBasedStateMachine):
    """Links appear and vanish between three peers; clients wander; applications come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.apps: list[App] = []
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

    def reached(self, source: App, kind: str, key: str) -> list[App]:
        return [
            app
            for app in self.apps
            if app is not source and self.reaches(source, app) and app.has(kind, key)
        ]

    def hush(self) -> None:
        for app in self.apps:
            app.session.got.clear()

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

    @precondition(lambda self: len(self.apps) < 5)
    @rule(data=st.data())
    def launch(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from([*self.peers, *self.clients]))
        app = App(node, node.session())
        app.session.answer = _answer
        self.apps.append(app)

    @precondition(lambda self: self.apps)
    @rule(data=st.data())
    def quit(self, data: st.DataObject) -> None:
        app = data.draw(st.sampled_from(self.apps))
        self.apps.remove(app)
        app.session.close()

    @precondition(lambda self: self.apps)
    @rule(data=st.data(), kind=st.sampled_from("SQT"), key=st.sampled_from(KEYS))
    def declare(self, data: st.DataObject, kind: str, key: str) -> None:
        app = data.draw(st.sampled_from(self.apps))
        verb = {"S": app.session.subscriber, "Q": app.session.queryable, "T": app.session.token}
        app.declared[kind, verb[kind](key)] = key

    @precondition(lambda self: any(app.declared for app in self.apps))
    @rule(data=st.data())
    def undeclare(self, data: st.DataObject) -> None:
        app = data.draw(st.sampled_from([app for app in self.apps if app.declared]))
        kind, number = data.draw(st.sampled_from(sorted(app.declared)))
        del app.declared[kind, number]
        session = app.session
        verb = {"S": session.no_subscriber, "Q": session.no_queryable, "T": session.no_token}
        verb[kind](number)

    @precondition(lambda self: self.apps)
    @rule(data=st.data(), key=st.sampled_from(KEYS), queries=st.booleans(), end=st.booleans())
    def publisher(self, data: st.DataObject, key: str, queries: bool, end: bool) -> None:
        app = data.draw(st.sampled_from(self.apps))
        if app.publishers and end:
            app.session.over(app.publishers.pop())
        else:
            verb = app.session.querier if queries else app.session.publisher
            app.publishers.append(verb(key))

    @precondition(lambda self: self.apps)
    @rule(data=st.data(), key=st.sampled_from([*PLAIN, "a/*"]))
    def put(self, data: st.DataObject, key: str) -> None:
        source = data.draw(st.sampled_from(self.apps))
        self.hush()
        source.session.put(key)
        expected = self.reached(source, "S", key)
        for app in self.apps:
            samples = [one.key.suffix for one in app.session.got if isinstance(one, Push)]
            assert samples == ([key] if app in expected else [])

    @precondition(lambda self: self.apps)
    @rule(data=st.data(), key=st.sampled_from(PLAIN))
    def get(self, data: st.DataObject, key: str) -> None:
        source = data.draw(st.sampled_from(self.apps))
        self.hush()
        number = source.session.get(key, target=ALL)
        replies = [
            one
            for one in source.session.got
            if isinstance(one, Response) and isinstance(one.body, Reply)
        ]
        assert len(replies) == len(self.reached(source, "Q", key))
        ends = [one.id for one in source.session.got if isinstance(one, ResponseFinal)]
        assert ends == [number]

    @precondition(lambda self: self.apps)
    @rule(data=st.data(), key=st.sampled_from(KEYS))
    def look_for_tokens(self, data: st.DataObject, key: str) -> None:
        source = data.draw(st.sampled_from(self.apps))
        self.hush()
        number = source.session.tokens(key)
        found = [
            one.body.key.suffix
            for one in source.session.got
            if isinstance(one, Declare)
            and isinstance(one.body, DeclareToken)
            and one.interest_id == number
        ]
        alive = {
            declared
            for app in self.apps
            if app is source or self.reaches(source, app)
            for (kind, _), declared in app.declared.items()
            if kind == "T" and intersects(declared, key)
        }
        assert sorted(found) == sorted(alive)

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
