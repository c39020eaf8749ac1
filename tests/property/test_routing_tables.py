"""One node among scripted faces, against a naive model that computes everything from scratch.

After every step each face must know exactly what the model says it should, nothing may be told
twice or taken back twice (the mirror of each face asserts that), samples must go to exactly the
faces that the model names, and when all faces are closed nothing may be left.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.unit.routing.mesh import A, K, Mesh, Node, Q, S, Session, T

from elea.keyexpr.match import includes, intersects
from elea.routing.regions import CLIENT, PEER, ROUTER, SOUTH_PEERS, Placement
from elea.wire.data.put import Put
from elea.wire.fields import WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest, InterestMode
from elea.wire.network.push import Push

KEYS = ["a", "a/b", "a/b/c", "a/*", "a/**", "**", "b", "*/b", "@v/a", "a/b$*"]
PLAIN = [key for key in KEYS if "*" not in key]
BITS = {"S": S, "Q": Q, "T": T}
REGION = {
    "session": "local",
    "client": "clients",
    "elea": "clients",
    "pico": "clients",  # asks for aggregates
    "peer": "north",
    "router": "north",
    "below": "peers",
}
STARS = ("local", "clients")
Info = tuple[bool, int]
Entity = tuple[str, str]  # kind and key


@dataclass(eq=False, repr=False)
class Modelled:
    """A face, as the model sees it."""

    kind: str
    script: Session
    declared: dict[tuple[str, int], tuple[str, Info]] = field(default_factory=dict)
    interests: dict[int, tuple[int, str | None]] = field(default_factory=dict)
    told: set[Entity] = field(default_factory=set)
    ready: bool = False
    ended: set[int] = field(default_factory=set)  # of a router: interests it has answered
    asked: dict[int, tuple[InterestMode, int, str | None]] = field(default_factory=dict)

    @property
    def region(self) -> str:
        return REGION[self.kind]

    def wants(self, entity: Entity) -> bool:
        kind, key = entity
        return any(
            options & BITS[kind] and (wanted is None or intersects(wanted, key))
            for options, wanted in self.interests.values()
        )

    def listen(self) -> list[str]:
        """Take in what was received; the keys of samples, as this face understands them."""
        samples = []
        for message in self.script.got:
            if isinstance(message, Interest):
                if message.mode is InterestMode.FINAL:
                    del self.asked[message.id]
                    self.ended.discard(message.id)
                else:
                    key = None if message.key is None else self.script.mirror.resolve(message.key)
                    self.asked[message.id] = (message.mode, message.options, key)
            elif isinstance(message, Push):
                samples.append(self.script.mirror.resolve(message.key))
        self.script.got.clear()
        return samples


def merged(infos: list[Info]) -> Info:
    complete = [distance for is_complete, distance in infos if is_complete]
    return (True, min(complete)) if complete else (False, min(distance for _, distance in infos))


class TablesMachine(RuleBasedStateMachine):
    """Faces come, declare, ask, go."""

    def __init__(self) -> None:
        super().__init__()
        self.faces: list[Modelled] = []
        self.visible_before: dict[int, set[Entity]] = {}

    @initialize(role=st.sampled_from(["peer", "client"]))
    def start(self, role: str) -> None:
        self.mesh = Mesh()
        self.role = role
        self.node: Node = self.mesh.node("node", role)

    # The model

    def visible(self, face: Modelled) -> dict[Entity, Info]:
        """What a face may know, from nothing but who declared what."""
        found: dict[Entity, list[Info]] = {}
        for owner in self.faces:
            for (kind, _), (key, info) in owner.declared.items():
                if owner is face:
                    seen = kind == "T" and face.region in STARS
                elif owner.region == face.region:
                    seen = face.region in STARS
                else:
                    seen = True
                if seen:
                    found.setdefault((kind, key), []).append(info)
        return {entity: merged(infos) for entity, infos in found.items()}

    def settle(self, *, snapshot: tuple[Modelled, int] | None = None) -> None:
        """Bring the model's idea of what was told up to date after a step."""
        for router in self.faces:
            if router.kind == "router":
                # Only what somebody below wants is kept.
                for name, (key, _) in list(router.declared.items()):
                    if not self.is_wanted((name[0], key)):
                        del router.declared[name]
        for face in self.faces:
            if face.region == "north":
                continue
            now = set(self.visible(face))
            before = self.visible_before.get(id(face), set())
            face.told &= now
            for entity in now:
                if face.wants(entity) and (entity[0] != "T" or entity not in before):
                    face.told.add(entity)
            if snapshot is not None and snapshot[0] is face:
                options, wanted = face.interests[snapshot[1]]
                face.told |= {
                    (kind, key)
                    for kind, key in now
                    if options & BITS[kind] and (wanted is None or intersects(wanted, key))
                }
        self.visible_before = {id(face): set(self.visible(face)) for face in self.faces}

    def is_wanted(self, entity: Entity) -> bool:
        return any(face.wants(entity) for face in self.faces if face.region != "north")

    def expected(self, face: Modelled) -> dict[Entity, Info]:
        visible = self.visible(face)
        if face.region == "north":
            return visible
        if face.kind == "pico":
            return self.aggregated(face, visible)
        return {entity: info for entity, info in visible.items() if entity in face.told}

    @staticmethod
    def aggregated(face: Modelled, visible: dict[Entity, Info]) -> dict[Entity, Info]:
        """One declaration on the key of each interest that anything matches (4.5)."""
        found: dict[Entity, Info] = {}
        for options, wanted in face.interests.values():
            assert wanted is not None
            for kind in "SQ":
                matching = [key for one, key in visible if one == kind and intersects(wanted, key)]
                if options & BITS[kind] and matching:
                    whole = [
                        visible["Q", key]
                        for key in matching
                        if kind == "Q" and includes(key, wanted) and visible["Q", key][0]
                    ]
                    found[kind, wanted] = merged(whole) if whole else (False, 0)
        return found

    def takers(self, source: Modelled, key: str) -> list[Modelled]:
        """Who gets a sample."""
        found = []
        for face in self.faces:
            crosses = face.region != source.region or face.region in STARS
            if face is source or not crosses:
                continue
            subscribed = any(
                kind == "S" and intersects(declared, key)
                for (kind, _), (declared, _) in face.declared.items()
            )
            unsure = source.region != "north" and (
                (face.kind == "peer" and not face.ready)
                or (face.kind == "router" and not self.is_settled(face, key))
            )
            if subscribed or unsure:
                found.append(face)
        return found

    @staticmethod
    def is_settled(router: Modelled, key: str) -> bool:
        return "*" not in key and any(
            asked_key == key and options & S and mode & InterestMode.CURRENT
            for number, (mode, options, asked_key) in router.asked.items()
            if number in router.ended
        )

    # The steps

    @precondition(lambda self: len(self.faces) < 6)
    @rule(kind=st.sampled_from(sorted(REGION)))
    def open(self, kind: str) -> None:
        if self.role == "client" and kind not in ("session", "router"):
            return
        number = len(self.faces) + 1
        if kind == "session":
            script = self.node.session()
        elif kind == "below":
            script = self.node._scripted()
            zid = b"b%d" % number
            self.node.open(script.face_id, zid, PEER, Placement(SOUTH_PEERS))
        else:
            whatami = {"peer": PEER, "router": ROUTER}.get(kind, CLIENT)
            script = self.node.neighbour(whatami, zid=b"n%d" % number, elea=kind == "elea")
        self.faces.append(Modelled(kind, script))
        self.settle()

    @precondition(lambda self: self.faces)
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        face = data.draw(st.sampled_from(self.faces))
        self.faces.remove(face)
        face.script.close()
        self.settle()

    @precondition(lambda self: self.faces)
    @rule(
        data=st.data(),
        kind=st.sampled_from("SQT"),
        number=st.integers(1, 4),
        key=st.sampled_from(KEYS),
        info=st.tuples(st.booleans(), st.integers(0, 3)),
    )
    def declare(self, data: st.DataObject, kind: str, number: int, key: str, info: Info) -> None:
        face = data.draw(st.sampled_from(self.faces))
        info = info if kind == "Q" else (False, 0)
        known = face.declared.pop((kind, number), None)
        if known is not None and known[0] != key:
            self.settle()  # taken back first
        if face.kind == "router" and known is None:
            for name, (other, _) in list(face.declared.items()):
                if name[0] == kind and other == key:
                    del face.declared[name]  # a gateway names a key once
        face.declared[kind, number] = (key, info)
        wire = WireExpr(0, key)
        body: Declaration = DeclareSubscriber(number, wire)
        if kind == "Q":
            body = DeclareQueryable(number, wire, *info)
        elif kind == "T":
            body = DeclareToken(number, wire)
        face.script.say(Declare(body))
        self.settle()

    @precondition(lambda self: any(face.declared for face in self.faces))
    @rule(data=st.data())
    def undeclare(self, data: st.DataObject) -> None:
        face = data.draw(st.sampled_from([face for face in self.faces if face.declared]))
        kind, number = data.draw(st.sampled_from(sorted(face.declared)))
        del face.declared[kind, number]
        body: Declaration = UndeclareSubscriber(number)
        if kind == "Q":
            body = UndeclareQueryable(number)
        elif kind == "T":
            body = UndeclareToken(number)
        face.script.say(Declare(body))
        self.settle()

    @precondition(lambda self: any(face.region != "north" for face in self.faces))
    @rule(
        data=st.data(),
        number=st.integers(1, 3),
        options=st.sampled_from([S, Q, T, S | Q, S | T, T]),
        future_only=st.booleans(),
        key=st.sampled_from([*KEYS, None]),
    )
    def ask(
        self, data: st.DataObject, number: int, options: int, future_only: bool, key: str | None
    ) -> None:
        face = data.draw(st.sampled_from([one for one in self.faces if one.region != "north"]))
        if number in face.interests:
            return
        if face.kind == "pico":
            options = options & (S | Q) or S
            if key is None or any(key == other for _, other in face.interests.values()):
                return
        mode = InterestMode.CURRENT_FUTURE
        if future_only and options == T:
            mode = InterestMode.FUTURE
        face.interests[number] = (options, key)
        wire = None if key is None else WireExpr(0, key)
        aggregate = A if face.kind == "pico" else 0
        face.script.say(Interest(number, mode, options | K | aggregate, wire))
        snapshot = (face, number) if mode is InterestMode.CURRENT_FUTURE else None
        self.settle(snapshot=snapshot)

    @precondition(lambda self: any(face.interests for face in self.faces))
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        face = data.draw(st.sampled_from([face for face in self.faces if face.interests]))
        number = data.draw(st.sampled_from(sorted(face.interests)))
        _, wanted = face.interests.pop(number)
        if face.kind == "pico":
            forget = [
                name for name, told in face.script.mirror.entities.items() if told[0] == wanted
            ]
            for name in forget:
                del face.script.mirror.entities[name]
        if face.kind in ("below", "elea"):
            # They forget what they do not ask for any more; and so must the node, silently.
            forgotten = {entity for entity in face.told if not face.wants(entity)}
            face.told -= forgotten
            entities = face.script.mirror.entities
            for name, (key, _, _) in list(entities.items()):
                if (name[0], key) in forgotten:
                    del entities[name]
        face.script.say(Interest(number, InterestMode.FINAL))
        self.settle()

    @precondition(lambda self: any(face.region == "north" for face in self.faces))
    @rule(data=st.data())
    def north_has_told_everything(self, data: st.DataObject) -> None:
        face = data.draw(st.sampled_from([face for face in self.faces if face.region == "north"]))
        if face.kind == "peer":
            face.ready = True
            face.script.say(Declare(DeclareFinal(), 0))
        else:
            for number in sorted(face.asked):
                face.ended.add(number)
                face.script.say(Declare(DeclareFinal(), number))

    @precondition(lambda self: self.faces)
    @rule(data=st.data(), number=st.integers(1, 3), key=st.sampled_from(PLAIN))
    def alias(self, data: st.DataObject, number: int, key: str) -> None:
        face = data.draw(st.sampled_from(self.faces))
        if face.kind != "session":
            face.script.mirror.own.setdefault(number, key)
            face.script.say(Declare(DeclareKeyExpr(number, WireExpr(0, key))))

    @precondition(lambda self: self.faces)
    @rule(data=st.data(), key=st.sampled_from(KEYS))
    def push(self, data: st.DataObject, key: str) -> None:
        source = data.draw(st.sampled_from(self.faces))
        takers = self.takers(source, key)
        source.script.say(Push(WireExpr(0, key), Put(b"x")))
        for face in self.faces:
            assert face.listen() == ([key] if face in takers else []), face.kind

    # The laws

    @invariant()
    def every_face_knows_what_it_should(self) -> None:
        for face in self.faces:
            face.listen()
            assert face.script.mirror.known() == self.expected(face), face.kind

    @invariant()
    def gateways_are_asked_once_for_what_is_wanted(self) -> None:
        wanted = {
            one for face in self.faces if face.region != "north" for one in face.interests.values()
        }
        for face in self.faces:
            if face.kind == "router":
                asked = [
                    (options & ~K, key)
                    for mode, options, key in face.asked.values()
                    if mode & InterestMode.FUTURE
                ]
                assert set(asked) == wanted
                # At most twice: for the future, and later for the present too.
                assert all(asked.count(one) <= 2 for one in asked)

    def teardown(self) -> None:
        for face in self.faces:
            face.script.close()
        assert not hasattr(self, "node") or self.node.routing.is_empty()


TestTables = TablesMachine.TestCase
