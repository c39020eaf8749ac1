"""Planted bugs: a node that does one thing wrong breaks the law that is there for it.

The same seeds pass with nodes that do nothing wrong: `test_sound_nodes_pass`.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from elea.answers import SENT
from elea.node.node import Node
from elea.node.ports import NeighbourDown, NeighbourUp
from elea.routing.effects import Output
from elea.sample import Reply
from elea.session.core import SessionCore
from elea.session.outlet import END
from elea.session.queries import Gets, PendingGet
from elea.sim.campaign.plan import Options
from elea.sim.campaign.run import run
from elea.wire.codec import NetworkMessage
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.push import Push
from elea.wire.network.response_final import ResponseFinal

SEEDS = range(24)


def broken_laws(node_type: type[Node], faults: str, law: str) -> set[str]:
    """The laws that seeds find broken, up to the one that is looked for."""
    found: set[str] = set()
    for seed in SEEDS:
        result = run(seed, Options(seconds=4, faults=faults), node_type=node_type)
        found |= {one.partition(":")[0] for one in result.violations}
        if law in found:
            break
    return found


class Planted(Node):
    """A node whose bugs concern what goes to sessions, or to neighbours."""

    def _output(self) -> Output:
        return self

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        """In place of the egress."""
        result = SENT
        for one in self.changed(message, to_session=self._is_session(face_id)):
            result = self.egress.send(face_id, one, reliable)
        return result

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        """What is sent instead."""
        return [message]

    def _is_session(self, face_id: int) -> bool:
        face = self.routing.tables.faces.get(face_id)
        return face is not None and face.spec.local


class Swaps(Planted):
    """Every other sample waits for the next one."""

    held: Push | None = None

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        if not to_session or not isinstance(message, Push):
            return [message]
        held, self.held = self.held, None
        if held is None:
            self.held = message
            return []
        return [message, held]


class Doubles(Planted):
    """Sessions get every sample twice."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        return [message, message] if to_session and isinstance(message, Push) else [message]


class Cuts(Planted):
    """Samples lose their last octet."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        if to_session and isinstance(message, Push) and isinstance(message.body, Put):
            return [Push(message.key, Put(message.body.payload[:-1]), message.qos)]
        return [message]


class Renames(Planted):
    """Samples arrive under another key."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        if to_session and isinstance(message, Push):
            key = "a/1" if message.key.suffix != "a/1" else "a/2"
            return [Push(WireExpr(0, key), message.body, message.qos)]
        return [message]


class Deaf(Node):
    """Subscribers cannot be taken back."""

    def local_send(self, face_id: int, message: NetworkMessage, reliable: bool, now_ns: int) -> int:
        if isinstance(message, Declare) and isinstance(message.body, UndeclareSubscriber):
            return SENT
        return super().local_send(face_id, message, reliable, now_ns)


class Endless(Planted):
    """Sessions never learn that a query is over."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        return [] if to_session and isinstance(message, ResponseFinal) else [message]


class EndsTwice(Planted):
    """Sessions learn twice that a query is over."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        twice = to_session and isinstance(message, ResponseFinal)
        return [message, message] if twice else [message]


class Unsettled(Planted):
    """Sessions never learn that they were told everything."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        final = isinstance(message, Declare) and isinstance(message.body, DeclareFinal)
        return [] if to_session and final else [message]


class Loses(Planted):
    """Every fifth sample is lost."""

    count = 0

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        if isinstance(message, Push):
            self.count += 1
            return [] if self.count % 5 == 0 else [message]
        return [message]


class Mourns(Planted):
    """Whoever is told of a token is told at once that it is gone."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        if to_session and isinstance(message, Declare) and isinstance(message.body, DeclareToken):
            body = UndeclareToken(message.body.id, message.body.key)
            return [message, Declare(body, qos=message.qos)]
        return [message]


class Mute(Planted):
    """Sessions are never told that a token is gone."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        token = isinstance(message, Declare) and isinstance(message.body, UndeclareToken)
        return [] if to_session and token else [message]


class Deserted(Planted):
    """Sessions are never told that a subscriber is gone: their publishers match for ever."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        gone = isinstance(message, Declare) and isinstance(message.body, UndeclareSubscriber)
        return [] if to_session and gone else [message]


class Spills(Node):
    """Every tenth batch to a neighbour is lost."""

    count = 0

    def pull(self, link_id: int, now_ns: int) -> bytes | None:
        data = super().pull(link_id, now_ns)
        if data is not None and self.intake(link_id) is not None:
            self.count += 1
            if self.count % 10 == 0:
                return super().pull(link_id, now_ns)
        return data


class Secretive(Planted):
    """Sessions are never told of tokens."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        token = isinstance(message, Declare) and isinstance(message.body, DeclareToken)
        return [] if to_session and token else [message]


class Mumbles(Planted):
    """Every third declaration to a neighbour is lost."""

    count = 0

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        if to_session or not isinstance(message, Declare):
            return [message]
        if not isinstance(message.body, (DeclareSubscriber, UndeclareSubscriber)):
            return [message]
        self.count += 1
        return [] if self.count % 3 == 0 else [message]


class Stale(Node):
    """Cached routes outlive the tables they were computed from."""

    def local_send(self, face_id: int, message: NetworkMessage, reliable: bool, now_ns: int) -> int:
        caches = self.routing.tables.caches
        before = {name: dict(cache.samples) for name, cache in caches.items()}
        result = super().local_send(face_id, message, reliable, now_ns)
        for name, routes in before.items():
            caches[name].samples.update(routes)
        return result


class GivesUp(Node):
    """What was connected once is not connected again."""

    def _announce(self, event: NeighbourUp | NeighbourDown) -> None:
        super()._announce(event)
        if isinstance(event, NeighbourDown):
            self._dialling.clear()


class Timeless(Node):
    """Queries that nobody answers stay open: connected nodes are never told the time."""

    def handle_timer(self, now_ns: int) -> None:
        if not self._neighbours:
            super().handle_timer(now_ns)

    def next_timer_ns(self) -> int | None:
        return None if self._neighbours else super().next_timer_ns()


class Hoards(Node):
    """Sessions that leave are not forgotten."""

    def detach(self, face_id: int, now_ns: int) -> None:
        self._sessions._by_face.pop(face_id, None)
        self.egress.outlets.pop(face_id, None)


class Provincial(Planted):
    """Samples do not leave the node."""

    def changed(self, message: NetworkMessage, *, to_session: bool) -> Iterable[NetworkMessage]:
        return [] if isinstance(message, Push) and not to_session else [message]


@pytest.mark.parametrize(
    ("node_type", "faults", "law"),
    [
        (Swaps, "none", "order_is_kept"),
        (Deaf, "none", "only_declared_get"),
        (Doubles, "none", "at_most_once"),
        (Cuts, "none", "at_most_once"),
        (Renames, "none", "only_published_is_delivered"),
        (Endless, "none", "queries_end_once"),
        (EndsTwice, "none", "queries_end_once"),
        (Unsettled, "none", "interests_settle_once"),
        (Loses, "none", "nothing_is_lost"),
        (Mourns, "none", "no_false_ends"),
        (Mute, "none", "no_missed_ends"),
        (Secretive, "none", "sessions_know_the_truth"),
        (Deserted, "none", "sessions_know_the_truth"),
        (Spills, "none", "no_number_is_missing"),
        (Mumbles, "none", "neighbours_agree"),
        (Stale, "none", "tables_equal_fresh_ones"),
        (GivesUp, "rough", "all_are_connected"),
        (Timeless, "none", "nothing_is_under_way"),
        (Provincial, "none", "probes_arrive"),
        (Hoards, "none", "all_is_forgotten"),
    ],
)
def test_a_planted_bug_is_found(node_type: type[Node], faults: str, law: str) -> None:
    assert law in broken_laws(node_type, faults, law)


def test_a_session_that_calls_functions_after_their_end_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SessionCore, "unsubscribe", lambda *_: None)
    assert "nothing_comes_late" in broken_laws(Node, "none", "nothing_comes_late")


def test_a_session_that_repeats_the_end_of_a_query_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    end = Gets.end

    def ends_twice(self: Gets, get: PendingGet, error: Reply | None = None) -> None:
        was_over = get.ended
        end(self, get, error)
        if not was_over:
            self.face.emit(get.outlet, END)

    monkeypatch.setattr(Gets, "end", ends_twice)
    assert "queries_end_once" in broken_laws(Node, "none", "queries_end_once")


@pytest.mark.parametrize("faults", ["none", "rough"])
def test_sound_nodes_pass(faults: str) -> None:
    assert broken_laws(Node, faults, "any") == set()


def test_a_node_that_raises_is_a_violation() -> None:
    class Raises(Node):
        def local_send(
            self, face_id: int, message: NetworkMessage, reliable: bool, now_ns: int
        ) -> int:
            raise RuntimeError("planted")

    result = run(1, Options(seconds=1), node_type=Raises)
    assert "RuntimeError: planted" in result.violations[0]
