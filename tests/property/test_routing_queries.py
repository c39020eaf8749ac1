"""Every query ends exactly once, whatever its destinations do; who is asked, by a naive rule."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.routing.mesh import Mesh, Node, Session

from elea.keyexpr.match import includes, intersects
from elea.routing.regions import CLIENT, PEER
from elea.wire.data.error import Err
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.data.reply import Reply
from elea.wire.fields import QOS_REQUEST, WireExpr
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declare import Declare
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal

KEYS = ["a", "a/b", "a/*", "**", "b"]
REGION = {"session": "local", "client": "clients", "peer": "north"}
STARS = ("local", "clients")
BEST, ALL_COMPLETE = 0, 2


@dataclass(eq=False, repr=False)
class Party:
    """A face that asks and answers."""

    kind: str
    script: Session
    offers: dict[int, tuple[str, bool]] = field(default_factory=dict)
    to_answer: list[int] = field(default_factory=list)  # request ids it owes an end
    asked: list[str] = field(default_factory=list)  # keys of requests since the last look
    mine: dict[int, int] = field(default_factory=dict)  # own request ids to ends received
    ready: bool = False

    @property
    def region(self) -> str:
        return REGION[self.kind]

    def listen(self) -> None:
        for message in self.script.got:
            if isinstance(message, Request):
                self.to_answer.append(message.id)
                self.asked.append(self.script.mirror.resolve(message.key))
            elif isinstance(message, ResponseFinal):
                self.mine[message.id] += 1
            elif isinstance(message, Response):
                assert self.mine[message.id] == 0, "nothing comes behind the end"
        self.script.got.clear()


class QueriesMachine(RuleBasedStateMachine):
    """Parties come, offer, ask, answer or not, and go; time passes."""

    def __init__(self) -> None:
        super().__init__()
        self.parties: list[Party] = []
        self.next_id = 1

    @initialize()
    def start(self) -> None:
        self.mesh = Mesh()
        self.node: Node = self.mesh.node("node")

    def chosen(self, asking: Party, key: str, target: int) -> list[Party]:
        """Who is asked (behaviour.md 5.6), region by region."""
        found: list[Party] = []
        for region in ("local", "clients", "north"):
            if region == asking.region and region not in STARS:
                continue
            candidates: list[tuple[Party, bool, bool]] = []
            for party in self.parties:
                if party.region != region or party is asking:
                    continue
                for offered, _ in party.offers.values():
                    if intersects(offered, key):
                        # Queryables of one face on one key are one: complete if any is.
                        whole = any(
                            other == offered and done for other, done in party.offers.values()
                        )
                        candidates.append((party, whole and includes(offered, key), False))
                if party.kind == "peer" and not party.ready and asking.region != "north":
                    candidates.append((party, False, True))
            if target == ALL_COMPLETE:
                found += [party for party, whole, unknown in candidates if whole or unknown]
            elif target == BEST and any(whole for _, whole, _ in candidates):
                best = [party for party, whole, _ in candidates if whole]
                found.append(min(best, key=lambda party: party.script.face_id))
            else:
                found += [party for party, _, _ in candidates]
        return found

    @precondition(lambda self: len(self.parties) < 6)
    @rule(kind=st.sampled_from(["session", "session", "client", "client", "peer"]))
    def open(self, kind: str) -> None:
        if kind == "session":
            script = self.node.session()
        else:
            number = self.next_id = self.next_id + 1
            whatami = {"client": CLIENT, "peer": PEER}[kind]
            script = self.node.neighbour(whatami, zid=b"n%d" % number)
        self.parties.append(Party(kind, script))

    @precondition(lambda self: self.parties)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        party = data.draw(st.sampled_from(self.parties))
        self.parties.remove(party)
        party.script.close()

    @precondition(lambda self: self.parties)
    @rule(
        data=st.data(),
        number=st.integers(1, 3),
        key=st.sampled_from(KEYS),
        complete=st.booleans(),
    )
    def offer(self, data: st.DataObject, number: int, key: str, complete: bool) -> None:
        party = data.draw(st.sampled_from(self.parties))
        party.offers[number] = (key, complete)
        party.script.say(Declare(DeclareQueryable(number, WireExpr(0, key), complete)))

    @precondition(lambda self: any(party.offers for party in self.parties))
    @rule(data=st.data())
    def withdraw(self, data: st.DataObject) -> None:
        party = data.draw(st.sampled_from([party for party in self.parties if party.offers]))
        number = data.draw(st.sampled_from(sorted(party.offers)))
        del party.offers[number]
        party.script.say(Declare(UndeclareQueryable(number)))

    @precondition(lambda self: any(party.kind == "peer" for party in self.parties))
    @rule(data=st.data())
    def ready(self, data: st.DataObject) -> None:
        party = data.draw(st.sampled_from([one for one in self.parties if one.kind == "peer"]))
        party.ready = True
        party.script.say(Declare(DeclareFinal(), 0))

    @precondition(lambda self: self.parties)
    @rule(
        data=st.data(),
        key=st.sampled_from(KEYS),
        wanted=st.integers(0, 2),
        timeout_ms=st.sampled_from([None, 50, 5_000]),
    )
    def ask(self, data: st.DataObject, key: str, wanted: int, timeout_ms: int | None) -> None:
        party = data.draw(st.sampled_from(self.parties))
        expected = self.chosen(party, key, wanted)
        number = self.next_id = self.next_id + 1
        party.mine[number] = 0
        request = Request(number, WireExpr(0, key), Query(), QOS_REQUEST, wanted)
        request.timeout_ms = timeout_ms
        party.script.say(request)
        for one in self.parties:
            one.listen()
            assert one.asked == ([key] if one in expected else []), one.kind
            one.asked.clear()
        assert party.mine[number] == (0 if expected else 1)

    @precondition(lambda self: any(party.to_answer for party in self.parties))
    @rule(data=st.data(), count=st.integers(0, 2), end=st.booleans(), failed=st.booleans())
    def answer(self, data: st.DataObject, count: int, end: bool, failed: bool) -> None:
        party = data.draw(st.sampled_from([party for party in self.parties if party.to_answer]))
        number = data.draw(st.sampled_from(party.to_answer))
        body = Err(b"no") if failed else Reply(Put(b"v"))
        for _ in range(count):
            party.script.say(Response(number, WireExpr(0, "a"), body))
        if end:
            party.to_answer.remove(number)
            party.script.say(ResponseFinal(number))

    @precondition(lambda self: any(party.mine for party in self.parties))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        party = data.draw(st.sampled_from([party for party in self.parties if party.mine]))
        number = data.draw(st.sampled_from(sorted(party.mine)))
        party.listen()
        if self.node.routing.cancel_query(party.script.face_id, number):
            assert party.mine[number] == 0
            del party.mine[number]

    @rule(seconds=st.sampled_from([0.05, 1, 6]))
    def wait(self, seconds: float) -> None:
        self.mesh.wait(seconds)

    @invariant()
    def nothing_ends_twice(self) -> None:
        for party in self.parties:
            party.listen()
            assert all(ends <= 1 for ends in party.mine.values())

    def teardown(self) -> None:
        if not hasattr(self, "mesh"):
            return
        self.mesh.wait(61)
        for party in self.parties:
            party.listen()
            assert all(ends == 1 for ends in party.mine.values())
            party.script.close()
        assert self.node.routing.is_empty()
        assert self.node.routing.next_timer_ns() is None


TestQueries = QueriesMachine.TestCase
