"""FaceGuard: one neighbour's messages, one way, before a policy.

Keys are read through the aliases of the face. What is refused is answered for, so that nobody waits
(behaviour.md 4.10, 7.5), and a refused declaration is remembered: its undeclaration is refused
too, and when the rules change it may pass after all.
"""

from __future__ import annotations

from collections.abc import Callable

from elea.fast.egress import Egress, Outlet
from elea.fast.sink import FaceSink
from elea.policy.access import Verdict
from elea.policy.actions import ACTIONS, Action, Flow, classify, sizes, undeclares
from elea.policy.chain import Chain, Refusal
from elea.policy.identity import Identity
from elea.policy.interceptor import Reason
from elea.policy.owners import Owners
from elea.policy.quota import Account
from elea.policy.service_keys import consumer_of
from elea.records import dataclass, field, replace
from elea.routing.core import Routing
from elea.routing.now import Now
from elea.routing.tables import Kind, distance_of, is_complete
from elea.wire.codec import NetworkMessage
from elea.wire.fields import QOS_DECLARE, QOS_REQUEST, WireExpr
from elea.wire.network.declaration.codec import Declaration
from elea.wire.network.declaration.final import DeclareFinal
from elea.wire.network.declaration.queryable import DeclareQueryable, UndeclareQueryable
from elea.wire.network.declaration.subscriber import DeclareSubscriber, UndeclareSubscriber
from elea.wire.network.declaration.token import DeclareToken, UndeclareToken
from elea.wire.network.declare import Declare
from elea.wire.network.interest import Interest, InterestMode
from elea.wire.network.oam import Oam
from elea.wire.network.refused import refused
from elea.wire.network.request import Request
from elea.wire.network.response_final import ResponseFinal

_HEADER_LEN = 16  # about what a message has besides its key, payload and attachment
_RULES = (Reason.ACCESS, Reason.AUTHORIZER)  # what a change of rules may undo
_TOLD = (*_RULES, Reason.QUOTA)  # what a neighbour is told that it may not do
_TOLD_COUNT_MAX = 64  # of one neighbour: who goes on all the same knows enough
_KINDS = {
    Action.DECLARE_SUBSCRIBER: Kind.SUBSCRIBER,
    Action.DECLARE_QUERYABLE: Kind.QUERYABLE,
    Action.LIVELINESS_TOKEN: Kind.TOKEN,
}

Withheld = dict[tuple[Action, int], Declare]  # with keys as text


@dataclass(slots=True)
class Guarded:
    """One neighbour or group, as guards know it."""

    face_id: int
    identity: Identity
    sink: FaceSink
    outlet: Outlet
    links: dict[int, None]
    account: Account | None = None
    refused_count: int = 0
    # What a router told, or was to be told, and was refused; it is said once, and by key.
    unsaid: dict[Flow, set[tuple[Action, str]]] = field(
        default_factory=lambda: {flow: set() for flow in Flow}
    )
    told: set[tuple[Action, str]] = field(default_factory=set)  # what it knows that it may not do
    withheld: dict[Flow, Withheld] = field(default_factory=lambda: {flow: {} for flow in Flow})


@dataclass(slots=True)
class Surroundings:
    """What all guards of a node share."""

    routing: Routing
    egress: Egress
    now: Now
    withheld_count: int
    on_refusal: Callable[[Guarded, Refusal], None]
    on_excess: Callable[[Guarded], None]
    owners: Owners


class FaceGuard:
    """`elea.fast.egress.Guard` of one face, one way."""

    __slots__ = ("_around", "_chain", "_face", "_is_ingress", "_withheld")

    def __init__(self, face: Guarded, chain: Chain, around: Surroundings) -> None:
        self._face = face
        self._chain = chain
        self._around = around
        self._is_ingress = chain.flow is Flow.INGRESS
        self._withheld = face.withheld[chain.flow]

    def check(self, message: NetworkMessage, reliable: bool) -> NetworkMessage | None:
        """The message, perhaps with another QoS; None if it was refused."""
        now_ns = self._around.now.ns
        if self._is_ingress and self._face.account is not None:
            self._spend(self._face.account, message, now_ns)
        found = classify(message)
        if found is None:
            if isinstance(message, Oam) and not self._chain.takes_link_state:
                why = "elea/roles/linkstate does not name it"
                refusal = Refusal(Reason.ACCESS, Flow.INGRESS, Action.LINK_STATE, "", None, why)
                self._refuse(message, refusal)
                return None
            return message if self._takes_back(message, now_ns) else None
        action, wire = found
        key = self._text(wire)
        if key is None:
            if self._is_ingress:
                return message  # routing cannot resolve it either: it counts and ends it
            unknown = Refusal(Reason.KEY, Flow.EGRESS, action, "", None, "an unknown alias")
            self._refuse(message, unknown)
            return None
        excess = None if self._face.account is None else self._over_quota(action, key)
        outcome = excess or self._chain.check(action, key, message, reliable, now_ns)
        if action is Action.QUERY and self._is_ingress and not isinstance(outcome, Refusal):
            outcome = self._of_another(key) or outcome
        if isinstance(outcome, Refusal):
            self._refuse(message, outcome)
            return None
        if self._withheld and isinstance(message, Declare):
            self._withheld.pop((action, _entity_id(message)), None)
        return outcome

    def verdict(self, action: Action, key: str) -> Verdict:
        """What access control says of an action, for operators; nothing is counted."""
        return self._chain.verdict(action, key, self._around.now.ns)

    def must_retell(self) -> bool:
        """Whether the rules, which changed, apply to what was exchanged with a router.

        Routers tell each other by key, once, and of many others: they have to connect again.
        """
        flooding = self._around.routing.flooding
        now_ns, face_id = self._around.now.ns, self._face.face_id
        unsaid = self._face.unsaid[self._chain.flow]
        if any(self._chain.allows(action, key, now_ns) for action, key in unsaid):
            return True
        if flooding is None or not self._chain:
            return False
        known = flooding.said_by(face_id) if self._is_ingress else flooding.told_to(face_id)
        return any(
            not self._chain.allows(_action(kind), key, now_ns)
            for kind, key in known
            if (_action(kind), key) not in unsaid
        )

    def review(self) -> None:
        """The rules changed: what they forbid now is taken back, what they allow now is given."""
        now_ns = self._around.now.ns
        for action, kind in _KINDS.items():
            for declare, key in self._known(kind):
                if not self._chain.allows(action, key, now_ns):
                    self._pass_on(Declare(_undeclaration(declare.body), qos=QOS_DECLARE))
                    self._withhold(action, declare)
        for (action, entity_id), declare in list(self._withheld.items()):
            if self._chain.allows(action, _key_of(declare), now_ns):
                del self._withheld[action, entity_id]
                self._pass_on(declare)

    def _spend(self, account: Account, message: NetworkMessage, now_ns: int) -> None:
        payload_len, attachment_len = sizes(message)
        if not account.spend(_HEADER_LEN + payload_len + attachment_len, now_ns):
            self._around.on_excess(self._face)

    def _over_quota(self, action: Action, key: str) -> Refusal | None:
        account = self._face.account
        if not self._is_ingress or account is None or action not in _KINDS:
            return None
        most = account.quota.declarations
        if most is None:
            return None
        faces = self._around.routing.tables.faces
        count = sum(faces[one].declared_count for one in account.faces if one in faces)
        if count < most:
            return None
        why = f"{count} declarations, {most} are allowed"
        return Refusal(Reason.QUOTA, Flow.INGRESS, action, key, account.quota.id, why)

    def _of_another(self, key: str) -> Refusal | None:
        """Why a consumer's offsets may not be moved: it belongs to another identity."""
        consumer = consumer_of(key)
        if consumer is None:
            return None
        why = self._around.owners.refusal(consumer, self._face.identity)
        if why is None:
            return None
        return Refusal(Reason.ACCESS, Flow.INGRESS, Action.QUERY, key, None, why)

    def _text(self, wire: WireExpr) -> str | None:
        """A key in full. An alias is the sender's if M is set, else the receiver's."""
        if wire.scope == 0:
            return wire.suffix
        source = self._around.routing.push_source(self._face.face_id)
        if source is None:
            return None
        theirs = wire.sender is self._is_ingress
        head = (source.peer if theirs else source.own).get(wire.scope)
        return None if head is None else head + wire.suffix

    def _takes_back(self, message: NetworkMessage, now_ns: int) -> bool:
        """Whether a message passes that no rule is about."""
        found = undeclares(message)
        if found is None:
            return True
        action, entity_id, wire = found
        if entity_id != 0 or self._is_ingress:
            return self._withheld.pop((action, entity_id), None) is None
        # Known by its key alone: whoever may not know the key is not told that it is gone.
        key = None if wire is None else self._text(wire)
        return key is None or self._chain.allows(action, key, now_ns)

    def _refuse(self, message: NetworkMessage, refusal: Refusal) -> None:
        self._face.refused_count += 1
        self._around.on_refusal(self._face, refusal)
        if self._is_ingress and refusal.reason in _TOLD and refusal.action in ACTIONS:
            self._tell(refusal)
        if isinstance(message, Request):
            self._answer(ResponseFinal(message.id, QOS_REQUEST))
        elif isinstance(message, Interest):
            if message.mode in (InterestMode.CURRENT, InterestMode.CURRENT_FUTURE):
                self._answer(Declare(DeclareFinal(), message.id, QOS_DECLARE))
        elif isinstance(message, Declare) and refusal.reason in _RULES:
            body = _with_key(message.body, refusal.key)
            if body is not None and body.id != 0:
                self._withhold(refusal.action, Declare(body, None, message.qos))
            elif body is not None:
                unsaid = self._face.unsaid[self._chain.flow]
                if len(unsaid) < self._around.withheld_count:
                    unsaid.add((refusal.action, refusal.key))

    def _tell(self, refusal: Refusal) -> None:
        """Let a neighbour know what it may not do, once: silence would look like nobody is there.

        Zenoh has no answer to a declaration, and a refused query just ends; so it is a word between
        nodes of Elea, which others ignore. Which rule it was stays here.
        """
        face, told = self._face, (refusal.action, refusal.key)
        if not face.identity.zid or told in face.told or len(face.told) >= _TOLD_COUNT_MAX:
            return  # a group is nobody
        face.told.add(told)
        self._around.egress.send(face.face_id, refused(refusal.action.value, refusal.key), True)

    def _withhold(self, action: Action, declare: Declare) -> None:
        if len(self._withheld) < self._around.withheld_count:
            self._withheld[action, _entity_id(declare)] = declare

    def _answer(self, message: NetworkMessage) -> None:
        """Say to who sent a message what its receiver would have said in the end."""
        if self._is_ingress:
            self._around.egress.send(self._face.face_id, message, True)
        else:
            now_ns = self._around.now.ns
            self._around.routing.receive(self._face.face_id, message, True, now_ns)

    def _pass_on(self, message: NetworkMessage) -> None:
        """Let a message go the way of this guard, past it."""
        face_id = self._face.face_id
        if self._is_ingress:
            self._around.routing.receive(face_id, message, True, self._around.now.ns)
        else:
            self._around.egress.send(face_id, message, True)

    def _known(self, kind: Kind) -> list[tuple[Declare, str]]:
        """What was declared this way and is in effect, by numbers, with its keys."""
        tables = self._around.routing.tables
        face = tables.faces.get(self._face.face_id)
        if face is None or face.spec.multicast or face.is_router:
            return []
        found = []
        if self._is_ingress:
            for name, key in face.remote[kind].items():
                entry = tables.get(kind, key)
                owner = None if entry is None else entry.owner(face)
                if isinstance(name, int) and owner is not None:
                    found.append((_declaration(kind, name, key, owner.infos[name]), key))
            return found
        for key in face.told[kind]:
            entry = tables.get(kind, key)
            if entry is not None:
                told = entry.told[face.id]
                found.append((_declaration(kind, told.id, key, told.info), key))
        return [one for one in found if (_action(kind), _entity_id(one[0])) not in self._withheld]


def _action(kind: Kind) -> Action:
    return next(action for action, one in _KINDS.items() if one is kind)


def _declaration(kind: Kind, entity_id: int, key: str, info: int) -> Declare:
    wire = WireExpr(0, key)
    body: Declaration
    if kind is Kind.SUBSCRIBER:
        body = DeclareSubscriber(entity_id, wire)
    elif kind is Kind.TOKEN:
        body = DeclareToken(entity_id, wire)
    else:
        body = DeclareQueryable(entity_id, wire, is_complete(info), distance_of(info))
    return Declare(body, None, QOS_DECLARE)


def _undeclaration(body: Declaration) -> Declaration:
    if isinstance(body, DeclareSubscriber):
        return UndeclareSubscriber(body.id)
    if isinstance(body, DeclareQueryable):
        return UndeclareQueryable(body.id)
    assert isinstance(body, DeclareToken)
    return UndeclareToken(body.id)


def _with_key(
    body: Declaration, key: str
) -> DeclareSubscriber | DeclareQueryable | DeclareToken | None:
    if isinstance(body, (DeclareSubscriber, DeclareQueryable, DeclareToken)):
        return replace(body, key=WireExpr(0, key))
    return None


def _entity_id(declare: Declare) -> int:
    return int(getattr(declare.body, "id", 0))


def _key_of(declare: Declare) -> str:
    body = declare.body
    assert isinstance(body, (DeclareSubscriber, DeclareQueryable, DeclareToken))
    return body.key.suffix
