"""Routing objects wired back to back in memory, and sessions that talk to them.

Messages between nodes go through the codec, so that everything said can be written; `pump` delivers
them first in, first out. Sessions are faces of the local region that write down what they receive
and answer queries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from elea.answers import DROPPED, SENT
from elea.limits import DEFAULT_LIMITS, Limits
from elea.routing.core import Routing
from elea.routing.face import FaceSpec, local_face
from elea.routing.regions import (
    BOUND_NORTH,
    BOUND_SOUTH,
    PEER,
    SOUTH_PEERS,
    Bound,
    Placement,
    Region,
)
from elea.routing.roles.client import CLIENT_ROLE
from elea.routing.roles.peer import PEER_ROLE
from elea.routing.roles.role import Role
from elea.routing.roles.router import ROUTER_ROLE
from elea.routing.roles.subregions import Newcomer
from elea.routing.settings import RoutingSettings
from elea.wire.buffer import Writer
from elea.wire.codec import NetworkMessage, decode_one, encode
from elea.wire.data.put import Put
from elea.wire.data.query import Query
from elea.wire.data.reply import Reply
from elea.wire.fields import QOS_REQUEST, WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.keyexpr import DeclareKeyExpr, UndeclareKeyExpr
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest, InterestMode
from elea.wire.network.oam import Oam
from elea.wire.network.push import Push
from elea.wire.network.request import Request
from elea.wire.network.response import Response
from elea.wire.network.response_final import ResponseFinal

ROLES = {"client": CLIENT_ROLE, "peer": PEER_ROLE, "router": ROUTER_ROLE}
K, S, Q, T, A = 1, 2, 4, 8, 0x80


def says(message: NetworkMessage) -> str:
    """A message in the notation of behaviour.md, as `D_SUBSCRIBER I=1 id 2 (3,"/**")`."""
    match message:
        case Declare():
            tag = "" if message.interest_id is None else f" I={message.interest_id}"
            head, rest = _declaration(message.body)
            return f"{head}{tag}{rest}"
        case Interest():
            if message.mode is InterestMode.FINAL:
                return f"INTEREST {message.id} FINAL"
            mode = {1: "CUR", 2: "FUT", 3: "CURFUT"}[message.mode]
            kinds = [name for bit, name in enumerate("KSQT") if message.options >> bit & 1]
            kinds += ["R"] if message.key is not None else []
            kinds += ["A"] if message.options & A else []
            key = "" if message.key is None else " " + _key(message.key)
            return f"INTEREST {message.id} {mode} {'+'.join(kinds)}{key}"
        case Push():
            payload = message.body.payload.decode() if isinstance(message.body, Put) else "DEL"
            return f"PUSH {_key(message.key)} {payload}"
        case Request():
            return f"REQUEST {message.id} {_key(message.key)}"
        case Response():
            body = message.body
            if isinstance(body, Reply):
                text = body.body.payload.decode() if isinstance(body.body, Put) else "DEL"
                return f"RESPONSE {message.id} {_key(message.key)} {text}"
            return f"RESPONSE {message.id} ERR {body.payload.decode()}"
        case ResponseFinal():
            return f"RESPONSE_FINAL {message.id}"
        case Oam():
            return "OAM"


def _declaration(body: Declaration) -> tuple[str, str]:
    match body:
        case DeclareKeyExpr():
            return "D_KEYEXPR", f' {body.id} "{body.key.suffix}"'
        case UndeclareKeyExpr():
            return "U_KEYEXPR", f" {body.id}"
        case DeclareSubscriber():
            return "D_SUBSCRIBER", f" id {body.id} {_key(body.key)}"
        case DeclareQueryable():
            info = " complete" if body.complete else ""
            info += f" distance {body.distance}" if body.distance else ""
            return "D_QUERYABLE", f" id {body.id} {_key(body.key)}{info}"
        case DeclareToken():
            return "D_TOKEN", f" id {body.id} {_key(body.key)}"
        case UndeclareSubscriber():
            return "U_SUBSCRIBER", f" id {body.id}{_gone(body.key)}"
        case UndeclareQueryable():
            return "U_QUERYABLE", f" id {body.id}{_gone(body.key)}"
        case UndeclareToken():
            return "U_TOKEN", f" id {body.id}{_gone(body.key)}"
        case DeclareFinal():
            return "D_FINAL", ""


def _key(key: WireExpr) -> str:
    if key.scope == 0:
        return f'"{key.suffix}"'
    mapping = "" if key.sender else "M=0 "
    return f"({mapping}{key.scope}" + (f',"{key.suffix}")' if key.suffix else ")")


def _gone(key: WireExpr | None) -> str:
    if key is None:
        return ""
    return f" {_key(key)}" if key.scope or key.suffix else " empty"


Answer = Callable[["Session", Request], None]


class Mirror:
    """What a neighbour knows by what it was told: the other end of the tables."""

    def __init__(self) -> None:
        self.aliases: dict[int, str] = {}  # of the node
        self.own: dict[int, str] = {}  # this neighbour's, if it declared any
        self.entities: dict[tuple[str, int], tuple[str, bool, int]] = {}  # by kind and id

    def hear(self, message: NetworkMessage) -> None:
        if not isinstance(message, Declare):
            return
        body = message.body
        match body:
            case DeclareKeyExpr():
                text = self.resolve(body.key)
                # Once, or again in answer to an interest in aliases.
                assert body.id not in self.aliases or message.interest_id is not None
                assert self.aliases.setdefault(body.id, text) == text
            case DeclareSubscriber():
                self._add("S", body.id, body.key, False, 0)
            case DeclareQueryable():
                self._add("Q", body.id, body.key, body.complete, body.distance)
            case DeclareToken():
                self._add("T", body.id, body.key, False, 0)
            case UndeclareSubscriber():
                self._remove("S", body.id)
            case UndeclareQueryable():
                self._remove("Q", body.id)
            case UndeclareToken():
                self._remove("T", body.id)
            case UndeclareKeyExpr() | DeclareFinal():
                pass

    def resolve(self, key: WireExpr) -> str:
        if key.scope == 0:
            return key.suffix
        return (self.aliases if key.sender else self.own)[key.scope] + key.suffix

    def _add(self, kind: str, id_: int, key: WireExpr, complete: bool, distance: int) -> None:
        if id_ != 0:
            known = self.entities.get((kind, id_))
            text = self.resolve(key)
            assert known is None or known[0] == text, "an id never changes its key"
            self.entities[kind, id_] = (text, complete, distance)

    def _remove(self, kind: str, id_: int) -> None:
        if id_ != 0:
            del self.entities[kind, id_]  # what was told, once

    def known(self) -> dict[tuple[str, str], tuple[bool, int]]:
        """Kind and key to completeness and distance; one id for each."""
        found: dict[tuple[str, str], tuple[bool, int]] = {}
        for (kind, _), (key, complete, distance) in self.entities.items():
            assert (kind, key) not in found, "one declaration for each kind and key"
            found[kind, key] = (complete, distance)
        return found


@dataclass(eq=False, repr=False)
class Session:
    """A local session, or a scripted neighbour: what it received, and verbs in wire messages."""

    node: Node
    face_id: int
    got: list[NetworkMessage] = field(default_factory=list)
    mirror: Mirror = field(default_factory=lambda: Mirror())
    answer: Answer | None = None
    ids: count[int] = field(default_factory=lambda: count(1))

    def heard(self) -> list[str]:
        """What was received since the last call, in words."""
        words = [says(message) for message in self.got]
        self.got.clear()
        return words

    def say(self, message: NetworkMessage, *, reliable: bool = True) -> None:
        self.node.routing.receive(self.face_id, message, reliable, self.node.mesh.now_ns)
        self.node.mesh.pump()

    def _declare(self, body: Declaration) -> None:
        self.say(Declare(body))

    def subscriber(self, key: str) -> int:
        number = next(self.ids)
        self._declare(DeclareSubscriber(number, WireExpr(0, key)))
        return number

    def no_subscriber(self, number: int) -> None:
        self._declare(UndeclareSubscriber(number))

    def queryable(self, key: str, *, complete: bool = False, distance: int = 0) -> int:
        number = next(self.ids)
        self._declare(DeclareQueryable(number, WireExpr(0, key), complete, distance))
        return number

    def no_queryable(self, number: int) -> None:
        self._declare(UndeclareQueryable(number))

    def token(self, key: str) -> int:
        number = next(self.ids)
        self._declare(DeclareToken(number, WireExpr(0, key)))
        return number

    def no_token(self, number: int) -> None:
        self._declare(UndeclareToken(number))

    def interest(self, mode: InterestMode, options: int, key: str | None) -> int:
        number = next(self.ids)
        wire = None if key is None else WireExpr(0, key)
        self.say(Interest(number, mode, options | K, wire))
        return number

    def publisher(self, key: str) -> int:
        return self.interest(InterestMode.CURRENT_FUTURE, S, key)

    def querier(self, key: str) -> int:
        return self.interest(InterestMode.CURRENT_FUTURE, Q, key)

    def watch(self, key: str, *, history: bool = False) -> int:
        mode = InterestMode.CURRENT_FUTURE if history else InterestMode.FUTURE
        return self.interest(mode, T, key)

    def tokens(self, key: str) -> int:
        return self.interest(InterestMode.CURRENT, T, key)

    def over(self, number: int) -> None:
        self.say(Interest(number, InterestMode.FINAL))

    def put(self, key: str, payload: str = "x", *, reliable: bool = True) -> int:
        push = Push(WireExpr(0, key), Put(payload.encode()))
        answer = self.node.routing.push(self.face_id, key, push, reliable)
        self.node.mesh.pump()
        return answer

    def get(self, key: str, *, target: int = 0, timeout_ms: int | None = 10_000) -> int:
        number = next(self.ids)
        self.say(
            Request(number, WireExpr(0, key), Query(), QOS_REQUEST, target, timeout_ms=timeout_ms)
        )
        return number

    def reply(self, request_id: int, key: str, payload: str) -> None:
        self.say(Response(request_id, WireExpr(0, key), Reply(Put(payload.encode()))))

    def done(self, request_id: int) -> None:
        self.say(ResponseFinal(request_id))

    def close(self) -> None:
        del self.node.sessions[self.face_id]
        self.node.routing.close_face(self.face_id, self.node.mesh.now_ns)
        self.node.mesh.pump()


@dataclass(eq=False, repr=False)
class Link:
    """One direction of a connection: where it leads, and what went over it."""

    node: Node
    face_id: int
    log: list[str] = field(default_factory=list)


@dataclass(eq=False, repr=False)
class Node:
    """A Routing object and its surroundings; it is the Routing's output."""

    mesh: Mesh
    name: str
    role: Role
    routing: Routing = field(init=False)
    links: dict[int, Link] = field(default_factory=dict)  # by own face id
    sessions: dict[int, Session] = field(default_factory=dict)
    reliable: dict[int, bool] = field(default_factory=dict)  # of the last sample to each session
    face_ids: count[int] = field(default_factory=lambda: count(1))

    @property
    def zid(self) -> bytes:
        return self.name.encode()

    def send(self, face_id: int, message: NetworkMessage, reliable: bool) -> int:
        session = self.sessions.get(face_id)
        if session is not None:
            session.got.append(message)
            if isinstance(message, Push):
                self.reliable[face_id] = reliable
            session.mirror.hear(message)
            if isinstance(message, Request) and session.answer is not None:
                self.mesh.later(lambda: _answer(session, message))
            return SENT
        if self.routing.tables.faces[face_id].leaving:
            return DROPPED
        link = self.links[face_id]
        link.log.append(says(message))
        writer = Writer()
        encode(writer, message)
        data = writer.to_bytes()
        self.mesh.later(lambda: self._arrive(link, data, reliable))
        return SENT

    def _arrive(self, link: Link, data: bytes, reliable: bool) -> None:
        if link.face_id in link.node.links:
            link.node.routing.receive(link.face_id, decode_one(data), reliable, self.mesh.now_ns)

    def open(
        self, face_id: int, zid: bytes, whatami: int, placement: Placement, *, elea: bool = False
    ) -> None:
        spec = FaceSpec(
            zid=zid,
            whatami=whatami,
            region=placement.region,
            gateway=placement.gateway,
            elea=elea,
        )
        self.routing.open_face(face_id, spec, self.mesh.now_ns)

    def session(self) -> Session:
        """A local session."""
        session = self._scripted()
        spec = local_face(self.zid, self.role.whatami)
        self.routing.open_face(session.face_id, spec, self.mesh.now_ns)
        self.mesh.pump()
        return session

    def neighbour(
        self, whatami: int, *, zid: bytes = b"n", elea: bool = False, bound: int | None = None
    ) -> Session:
        """A neighbour that says what a test tells it to."""
        neighbour = self._scripted()
        placement = self.role.place(whatami, bound)
        assert placement is not None
        self.open(neighbour.face_id, zid, whatami, placement, elea=elea)
        self.mesh.pump()
        return neighbour

    def group(self) -> Session:
        """A multicast group."""
        members = self._scripted()
        region = self.role.groups
        spec = FaceSpec(zid=b"group", whatami=PEER, region=region, multicast=True)
        self.routing.open_face(members.face_id, spec, self.mesh.now_ns)
        self.mesh.pump()
        return members

    def _scripted(self) -> Session:
        session = Session(self, next(self.face_ids))
        self.sessions[session.face_id] = session
        return session

    def to(self, other: Node) -> list[str]:
        """What was said to a neighbour since the last call, in words."""
        words = [word for link in self.links.values() if link.node is other for word in link.log]
        for link in self.links.values():
            if link.node is other:
                link.log.clear()
        return words


def _choice(node: Node, other: Node) -> Region | None:
    return node.role.choose(Newcomer(zid=other.zid, whatami=other.role.whatami))


def _bound(chosen: Region | None) -> int | None:
    if chosen is None:
        return None
    return BOUND_SOUTH if chosen.bound is Bound.SOUTH else BOUND_NORTH


def _answer(session: Session, request: Request) -> None:
    if session.answer is not None and session.face_id in session.node.sessions:
        session.answer(session, request)


class Mesh:
    """Nodes, what is on its way between them, and the time."""

    def __init__(
        self, *, limits: Limits = DEFAULT_LIMITS, settings: RoutingSettings | None = None
    ) -> None:
        self.now_ns = 0
        self.limits = limits
        self.settings = settings or RoutingSettings(gossip=False)
        self.nodes: list[Node] = []
        self._queue: deque[Callable[[], None]] = deque()
        self._pumping = False
        self.held = False

    def node(self, name: str, role: str | Role = "peer", *, cls: type[Node] = Node) -> Node:
        node = cls(self, name, ROLES[role] if isinstance(role, str) else role)
        node.routing = Routing(node.zid, node.role, node, self.limits, self.settings)
        self.nodes.append(node)
        return node

    def connect(
        self, a: Node, b: Node, *, elea: bool = False, south: bool = False
    ) -> tuple[int, int]:
        """Open a face on both sides. `south`: `a` is configured to have `b` in its south."""
        a_face, b_face = next(a.face_ids), next(b.face_ids)
        a.links[a_face] = Link(b, b_face)
        b.links[b_face] = Link(a, a_face)
        a_choice = SOUTH_PEERS if south else _choice(a, b)
        b_choice = _choice(b, a)
        a_side = a.role.place(b.role.whatami, _bound(b_choice), a_choice)
        b_side = b.role.place(a.role.whatami, _bound(a_choice), b_choice)
        for node, face_id, other, side in ((a, a_face, b, a_side), (b, b_face, a, b_side)):
            assert side is not None
            node.open(face_id, other.zid, other.role.whatami, side, elea=elea)
        self.pump()
        return a_face, b_face

    def cut(self, a: Node, b: Node) -> None:
        """Lose the connection: what is on its way is lost, then both sides notice."""
        for one, other in ((a, b), (b, a)):
            for face_id, link in list(one.links.items()):
                if link.node is other:
                    del one.links[face_id]
                    one.routing.close_face(face_id, self.now_ns)
        self.pump()

    def later(self, action: Callable[[], None]) -> None:
        self._queue.append(action)

    def pump(self) -> None:
        """Deliver what is on its way, and what that makes them say, until all is quiet."""
        if self._pumping or self.held:
            return
        self._pumping = True
        try:
            while self._queue:
                self._queue.popleft()()
        finally:
            self._pumping = False

    def wait(self, seconds: float) -> None:
        """Let time pass, timer by timer."""
        end_ns = self.now_ns + int(seconds * 1_000_000_000)
        while True:
            due = [
                timer for node in self.nodes if (timer := node.routing.next_timer_ns()) is not None
            ]
            if not due or min(due) > end_ns:
                break
            self.now_ns = max(self.now_ns, min(due))
            for node in self.nodes:
                node.routing.handle_timer(self.now_ns)
            self.pump()
        self.now_ns = end_ns
