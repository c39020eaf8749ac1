"""Applications that come, go, declare, publish and ask at the nodes of a mesh, as rules.

Every sample, reply and token arrives exactly once, from wherever it can arrive, and from nowhere
else. A machine says which nodes there are and which of them reach each other.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from tests.unit.routing.mesh import Mesh, Node, Session

from elea.keyexpr.match import intersects
from elea.wire.data.reply import Reply
from elea.wire.network.declaration.token import DeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push
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


def answer(session: Session, request: Request) -> None:
    session.reply(request.id, request.key.suffix, "v")
    session.done(request.id)


class Applications(RuleBasedStateMachine):
    """The rules; links are the matter of a subclass."""

    mesh: Mesh

    def __init__(self) -> None:
        super().__init__()
        self.apps: list[App] = []

    def reaches(self, one: App, other: App) -> bool:
        """Whether what one says is for the other's ears."""
        raise AssertionError("a subclass knows its links")

    def settle(self) -> None:
        """Let everything be known to everybody, and forget what was heard."""
        for app in self.apps:
            app.session.got.clear()

    def reached(self, source: App, kind: str, key: str) -> list[App]:
        return [
            app
            for app in self.apps
            if app is not source and self.reaches(source, app) and app.has(kind, key)
        ]

    @precondition(lambda self: len(self.apps) < 6)
    @rule(data=st.data())
    def launch(self, data: st.DataObject) -> None:
        node = data.draw(st.sampled_from(self.mesh.nodes))
        app = App(node, node.session())
        app.session.answer = answer
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
        self.settle()
        source.session.put(key)
        expected = self.reached(source, "S", key)
        for app in self.apps:
            samples = [one.key.suffix for one in app.session.got if isinstance(one, Push)]
            assert samples == ([key] if app in expected else [])

    @precondition(lambda self: self.apps)
    @rule(data=st.data(), key=st.sampled_from(PLAIN))
    def get(self, data: st.DataObject, key: str) -> None:
        source = data.draw(st.sampled_from(self.apps))
        self.settle()
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
        self.settle()
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
