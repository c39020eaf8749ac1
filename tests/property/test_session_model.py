"""Sessions at one node against a model: who gets which samples, replies and tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.unit.session.fake_node import World

from elea.keyexpr.match import includes, intersects
from elea.provenance import SampleKind
from elea.qos import Locality
from elea.query import ConsolidationMode, QueryTarget
from elea.sample import Sample
from elea.session.handlers import Handler
from elea.session.listeners import MatchingListener
from elea.session.liveliness import LivelinessToken
from elea.session.matching import MatchingStatus
from elea.session.publisher import Publisher
from elea.session.query import Query
from elea.session.queryable import Queryable
from elea.session.session import Session
from elea.session.subscriber import Subscriber

KEYS = ("a", "a/b", "a/c", "b")
EXPRESSIONS = (*KEYS, "a/*", "**", "*", "a/**")
keys = st.sampled_from(KEYS)
expressions = st.sampled_from(EXPRESSIONS)
localities = st.sampled_from(Locality)
targets = st.sampled_from([QueryTarget.ALL, QueryTarget.ALL_COMPLETE])
which = st.integers(0, 1_000)


@dataclass
class Sub:
    owner: Session
    inner: Subscriber[Handler[Sample]]
    key: str
    origin: Locality
    expected: list[str] = field(default_factory=list)


@dataclass
class Watch:
    inner: Subscriber[Handler[Sample]]
    key: str
    expected: list[tuple[SampleKind, str]] = field(default_factory=list)


@dataclass
class Answers:
    owner: Session
    inner: Queryable[None]
    key: str
    complete: bool
    origin: Locality
    name: str


@dataclass
class Pub:
    owner: Session
    inner: Publisher
    key: str
    destination: Locality
    listener: MatchingListener[Handler[MatchingStatus]]
    told: bool = False  # by the listener


def reaches(local: bool, destination: Locality, origin: Locality) -> bool:
    side = Locality.SESSION_LOCAL if local else Locality.REMOTE
    return destination in (Locality.ANY, side) and origin in (Locality.ANY, side)


class Sessions(RuleBasedStateMachine):
    """Three sessions; what they declare is also written down."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.sessions = [self.world.open() for _ in range(3)]
        self.subscribers: list[Sub] = []
        self.publishers: list[Pub] = []
        self.queryables: list[Answers] = []
        self.tokens: list[tuple[LivelinessToken, str]] = []
        self.watchers: list[Watch] = []
        self.count = 0

    def session(self, number: int) -> Session:
        return self.sessions[number % len(self.sessions)]

    @rule(number=which, key=expressions, origin=localities)
    def subscribe(self, number: int, key: str, origin: Locality) -> None:
        owner = self.session(number)
        inner = owner.declare_subscriber(key, allowed_origin=origin)
        self.subscribers.append(Sub(owner, inner, key, origin))

    @precondition(lambda self: self.subscribers)
    @rule(number=which)
    def unsubscribe(self, number: int) -> None:
        gone = self.subscribers.pop(number % len(self.subscribers))
        self.check_subscriber(gone)
        gone.inner.undeclare()

    @rule(number=which, key=keys, destination=localities)
    def put(self, number: int, key: str, destination: Locality) -> None:
        owner = self.session(number)
        text = self.published(owner, key, destination)
        owner.put(key, text, allowed_destination=destination)

    @rule(number=which, key=expressions, destination=localities)
    def declare_publisher(self, number: int, key: str, destination: Locality) -> None:
        owner = self.session(number)
        inner = owner.declare_publisher(key, allowed_destination=destination)
        listener = inner.declare_matching_listener()
        self.publishers.append(Pub(owner, inner, key, destination, listener))

    @precondition(lambda self: self.publishers)
    @rule(number=which)
    def publish(self, number: int) -> None:
        one = self.publishers[number % len(self.publishers)]
        one.inner.put(self.published(one.owner, one.key, one.destination))

    @precondition(lambda self: self.publishers)
    @rule(number=which)
    def undeclare_publisher(self, number: int) -> None:
        self.publishers.pop(number % len(self.publishers)).inner.undeclare()

    def published(self, owner: Session, key: str, destination: Locality) -> str:
        self.count += 1
        text = str(self.count)
        for one in self.subscribers:
            if intersects(one.key, key) and reaches(one.owner is owner, destination, one.origin):
                one.expected.append(text)
        return text

    @rule(number=which, key=expressions, complete=st.booleans(), origin=localities)
    def declare_queryable(self, number: int, key: str, complete: bool, origin: Locality) -> None:
        owner = self.session(number)
        self.count += 1
        name = str(self.count)

        def answer(query: Query) -> None:
            query.reply(query.key_expr, name)

        inner = owner.declare_queryable(key, answer, complete=complete, allowed_origin=origin)
        self.queryables.append(Answers(owner, inner, key, complete, origin, name))

    @precondition(lambda self: self.queryables)
    @rule(number=which)
    def undeclare_queryable(self, number: int) -> None:
        self.queryables.pop(number % len(self.queryables)).inner.undeclare()

    @rule(number=which, key=expressions, wanted=targets, destination=localities)
    def ask(self, number: int, key: str, wanted: QueryTarget, destination: Locality) -> None:
        owner = self.session(number)
        replies = owner.get(
            key,
            target=wanted,
            consolidation=ConsolidationMode.NONE,
            allowed_destination=destination,
        )
        reached = [
            one
            for one in self.queryables
            if intersects(one.key, key) and reaches(one.owner is owner, destination, one.origin)
        ]
        # Between sessions only those count that have all of the key; a session that is asked asks
        # all that call themselves complete.
        asked = [
            owner,
            *(
                one.owner
                for one in self.queryables
                if one.complete
                and one.origin is not Locality.SESSION_LOCAL
                and includes(one.key, key)
            ),
        ]
        expected = [
            one.name
            for one in reached
            if wanted is QueryTarget.ALL or (one.complete and one.owner in asked)
        ]
        got = [reply.result.payload.to_string() for reply in replies]
        assert sorted(got) == sorted(expected)

    @rule(number=which, key=keys)
    def declare_token(self, number: int, key: str) -> None:
        if key not in [other for _, other in self.tokens]:
            self.tell(SampleKind.PUT, key)
        token = self.session(number).liveliness().declare_token(key)
        self.tokens.append((token, key))

    @precondition(lambda self: self.tokens)
    @rule(number=which)
    def undeclare_token(self, number: int) -> None:
        token, key = self.tokens.pop(number % len(self.tokens))
        token.undeclare()
        if key not in [other for _, other in self.tokens]:
            self.tell(SampleKind.DELETE, key)

    @rule(number=which, key=expressions)
    def watch(self, number: int, key: str) -> None:
        watcher = Watch(
            self.session(number).liveliness().declare_subscriber(key, history=True), key
        )
        alive = dict.fromkeys(other for _, other in self.tokens if intersects(other, key))
        watcher.expected += [(SampleKind.PUT, other) for other in alive]
        self.watchers.append(watcher)

    def tell(self, kind: SampleKind, key: str) -> None:
        for watcher in self.watchers:
            if intersects(watcher.key, key):
                watcher.expected.append((kind, key))

    @rule(number=which, key=expressions)
    def ask_for_tokens(self, number: int, key: str) -> None:
        replies = self.session(number).liveliness().get(key)
        got = [str(reply.ok.key_expr) for reply in replies if reply.ok]
        alive = {other for _, other in self.tokens if intersects(other, key)}
        assert sorted(got) == sorted(alive)

    def check_subscriber(self, one: Sub) -> None:
        assert [sample.payload.to_string() for sample in one.inner.drain()] == one.expected
        one.expected.clear()

    @invariant()
    def everybody_got_what_the_model_says(self) -> None:
        for one in self.subscribers:
            self.check_subscriber(one)
        for watcher in self.watchers:
            got = [(sample.kind, str(sample.key_expr)) for sample in watcher.inner.drain()]
            assert sorted(got, key=str) == sorted(watcher.expected, key=str)
            watcher.expected.clear()

    @invariant()
    def publishers_know_whether_they_are_heard(self) -> None:
        for pub in self.publishers:
            heard = any(
                intersects(one.key, pub.key)
                and reaches(one.owner is pub.owner, pub.destination, one.origin)
                for one in self.subscribers
            )
            assert pub.inner.matching_status.matching == heard
            for status in pub.listener.drain():
                assert status.matching != pub.told
                pub.told = status.matching
            assert pub.told == heard

    def teardown(self) -> None:
        for session in self.sessions:
            session.close()
        assert self.world.node.faces == {}


TestSessions = Sessions.TestCase
TestSessions.settings = settings(max_examples=40, stateful_step_count=40)
