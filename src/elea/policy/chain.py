"""Chain: all that decides over the messages of one neighbour, one way.

The order is Eclipse Zenoh's: down-sampling, access control, QoS overwrite, low pass. All that
depends on the key alone is looked up once and remembered; the rest is a comparison per message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from enum import Enum
from functools import partial
from typing import Final, TypeAlias

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.canon import validate
from elea.policy.access import Access, Verdict
from elea.policy.actions import Action, Flow, sizes
from elea.policy.filters import Downsampler, Limiter, LowPass, Overwrite
from elea.policy.identity import Identity
from elea.policy.service_keys import Demand, demands, is_service_key
from elea.records import dataclass
from elea.wire.codec_hot import NetworkMessage
from elea.wire.data.query import Query
from elea.wire.network.request import Request

# Asked after the rules: identity, action, key. It never raises.
Authorize: TypeAlias = Callable[[Identity, str, str], Verdict]


class Reason(Enum):
    """Why a message was refused."""

    ACCESS = "access_control"
    AUTHORIZER = "authorizer"
    DOWNSAMPLING = "downsampling"
    LOW_PASS = "low_pass_filter"  # noqa: S105  # not a password
    QUOTA = "quota"
    KEY = "key"  # not a key expression, or an alias that nobody declared


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that did not pass."""

    reason: Reason
    flow: Flow
    action: Action
    key: str
    rule_id: str | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorizer:
    """A function of the user that has the last word, and how long its answer holds."""

    authorize: Authorize
    age_ns: int


@dataclass(frozen=True, slots=True)
class Chain:
    """What is configured for one neighbour, one way.

    Args:
        identity: Who it is.
        flow: Which way.
        plans_max: Of so many pairs of action and key it is remembered what applies.
        takes_link_state: Whether it may say who is connected to whom.
        is_router: Whether it may tell of services elsewhere: `elea/roles` names it as a router.
    """

    identity: Identity
    flow: Flow
    plans_max: int
    downsamplers: Sequence[Downsampler] = ()
    access: Access | None = None
    authorizer: Authorizer | None = None
    overwrites: Sequence[Overwrite] = ()
    low_passes: Sequence[LowPass] = ()
    takes_link_state: bool = True
    is_router: bool = False
    _plans: dict[tuple[Action, str], _Plan] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to check."""
        rules = self.access is not None or self.authorizer is not None
        filters = self.downsamplers or self.overwrites or self.low_passes
        return rules or bool(filters) or not self.takes_link_state

    def check(
        self, action: Action, key: str, message: NetworkMessage, reliable: bool, now_ns: int
    ) -> NetworkMessage | Refusal:
        """The message, perhaps with another QoS, or why it may not pass."""
        plan = self._plans.get((action, key))
        if plan is None or plan.until_ns is not None:
            plan = self._plan(action, key, now_ns)
        if plan.is_clear:
            return message
        if not _pass(plan.limiters, now_ns):
            return self._refuse(Reason.DOWNSAMPLING, action, key, None, _TOO_SOON)
        if not plan.verdict.allowed:
            verdict = plan.verdict
            return self._refuse(plan.reason, action, key, verdict.rule_id, verdict.why)
        if plan.is_service:
            needed = demands(action, key, *_asked(message))
            verdict, reason = self._needed(action, key, needed, now_ns)
            if not verdict.allowed:
                return self._refuse(reason, action, key, verdict.rule_id, verdict.why)
            refusal = self._excess_of(action, needed, sum(sizes(message)), now_ns)
            if refusal is not None:
                return refusal
        for overwrite in plan.overwrites:
            message = overwrite.apply(message, reliable)
        if plan.low_pass is not None:
            return self._too_long(plan.low_pass, action, key, sum(sizes(message))) or message
        return message

    def excess(
        self, action: Action, key: str, parameters: str, length: int, now_ns: int
    ) -> Refusal | None:
        """Why down-sampling or the size keep a message back that access control lets pass.

        It counts as a message: down-sampling keeps back the next one.

        Args:
            parameters: Of a query.
            length: Of payload and attachment.
        """
        plan = self._plan(action, key, now_ns)
        if not _pass(plan.limiters, now_ns):
            return self._refuse(Reason.DOWNSAMPLING, action, key, None, _TOO_SOON)
        if plan.low_pass is not None:
            refusal = self._too_long(plan.low_pass, action, key, length)
            if refusal is not None:
                return refusal
        if not plan.is_service:
            return None
        needed = demands(action, key, parameters, length > 0)
        return self._excess_of(action, needed, length, now_ns)

    def _excess_of(
        self, action: Action, needed: Sequence[Demand], length: int, now_ns: int
    ) -> Refusal | None:
        """Why down-sampling or the size keep back what a service would write for a query."""
        if action is not Action.QUERY:
            return None
        for one in needed:
            if one.door is not None or one.actions not in _WRITE:
                continue
            [write] = one.actions
            plan = self._plan(write, one.key, now_ns)
            if not _pass(plan.limiters, now_ns):
                return self._refuse(Reason.DOWNSAMPLING, write, one.key, None, _TOO_SOON)
            if plan.low_pass is not None:
                refusal = self._too_long(plan.low_pass, write, one.key, length)
                if refusal is not None:
                    return refusal
        return None

    def _too_long(self, low_pass: LowPass, action: Action, key: str, length: int) -> Refusal | None:
        if length <= low_pass.len_max:
            return None
        why = f"{length} bytes, at most {low_pass.len_max} pass"
        return self._refuse(Reason.LOW_PASS, action, key, low_pass.scope.id, why)

    def allows(self, action: Action, key: str, now_ns: int) -> bool:
        """Whether access control lets an action pass, whatever the message."""
        return self.verdict(action, key, now_ns).allowed

    def verdict(
        self,
        action: Action,
        key: str,
        now_ns: int,
        parameters: str = "",
        has_payload: bool = False,
    ) -> Verdict:
        """What access control says of an action; parameters and payload are those of a query."""
        plan = self._plan(action, key, now_ns)
        if not (plan.verdict.allowed and plan.is_service):
            return plan.verdict
        needed = demands(action, key, parameters, has_payload)
        verdict, _ = self._needed(action, key, needed, now_ns)
        return verdict if needed else plan.verdict

    def _needed(
        self, action: Action, key: str, needed: Sequence[Demand], now_ns: int
    ) -> tuple[Verdict, Reason]:
        """Whether all that a service does for a message is allowed; the first that is not."""
        verdict = _OPEN
        for one in needed:
            if one.door is not None:
                if self.access is None:
                    continue  # the authorizer was asked about the service's key
                verdict = self.access.opens(action, key, one)
                reason = Reason.ACCESS
            else:
                found = [self._whole(each, one.key, now_ns) for each in one.actions]
                verdict = next((each for each in found if each.allowed), found[0])
                reason = self._plan(one.actions[0], one.key, now_ns).reason
                verdict = replace(verdict, why=f"{one.actions[0]} on {one.key}: {verdict.why}")
            if not verdict.allowed:
                return verdict, reason
        return verdict, Reason.ACCESS

    def _whole(self, action: Action, key: str, now_ns: int) -> Verdict:
        """What access control says of an action on all keys of `key`.

        What a service answers is not filtered as the samples of a subscription are.
        """
        verdict = self.verdict(action, key, now_ns)
        if verdict.allowed and self.access is not None and action is Action.DECLARE_SUBSCRIBER:
            whole = self.access.decide(action, key)
            return verdict if whole.allowed else whole
        return verdict

    def _refuse(
        self, reason: Reason, action: Action, key: str, rule_id: str | None, why: str
    ) -> Refusal:
        return Refusal(reason, self.flow, action, key, rule_id, why)

    def _plan(self, action: Action, key: str, now_ns: int) -> _Plan:
        plan = self._plans.get((action, key))
        if plan is None or (plan.until_ns is not None and now_ns >= plan.until_ns):
            if len(self._plans) >= self.plans_max:
                self._plans.clear()
            plan = self._plans[action, key] = self._compute(action, key, now_ns)
        return plan

    def _compute(self, action: Action, key: str, now_ns: int) -> _Plan:
        if not _is_key(key):
            # Routing drops it. Only an answer without a key, a router's own, means something; it
            # does not pass rules, as in Eclipse.
            passes = self.access is None and self.authorizer is None
            verdict = Verdict(passes, None, "not a key expression")
            return _Plan(verdict, Reason.KEY, (), (), None, None, passes, False)
        verdict, reason = _OPEN, Reason.ACCESS
        until_ns: int | None = None
        if self.access is not None:
            subscribes = action is Action.DECLARE_SUBSCRIBER and self.flow is Flow.INGRESS
            decide = self.access.subscribe if subscribes else partial(self.access.decide, action)
            verdict = decide(key)
        if verdict.allowed and self.authorizer is not None and action is not Action.UNKNOWN:
            verdict = self.authorizer.authorize(self.identity, action.value, key)
            reason = Reason.AUTHORIZER
            until_ns = now_ns + self.authorizer.age_ns
        found = (one.limiter(action, key) for one in self.downsamplers)
        limiters = tuple(one for one in found if one is not None)
        overwrites = tuple(one for one in self.overwrites if one.concerns(action, key))
        bounds = [one for one in self.low_passes if one.concerns(action, key)]
        low_pass = min(bounds, key=lambda one: one.len_max, default=None)
        guarded = self.access is not None or self.authorizer is not None
        if action is Action.QUERY and (self.downsamplers or self.low_passes):
            guarded = True  # they hold for what a service writes as well
        is_service = guarded and self.flow is Flow.INGRESS and is_service_key(action, key)
        if action is Action.DECLARE_QUERYABLE and self.is_router:
            is_service = False
        is_clear = not (limiters or overwrites or low_pass or is_service) and verdict.allowed
        return _Plan(
            verdict, reason, limiters, overwrites, low_pass, until_ns, is_clear, is_service
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """What applies to messages of one kind on one key."""

    verdict: Verdict
    reason: Reason
    limiters: tuple[Limiter, ...]
    overwrites: tuple[Overwrite, ...]
    low_pass: LowPass | None
    until_ns: int | None  # an answer of the authorizer holds no longer
    is_clear: bool  # nothing but the verdict, and that is good
    is_service: bool  # a service acts on it: what it does has to be allowed as well


def _asked(message: NetworkMessage) -> tuple[str, bool]:
    """The parameters of a query, and whether it has a payload."""
    if isinstance(message, Request) and isinstance(message.body, Query):
        return message.body.parameters, message.body.body is not None
    return "", False


def _is_key(text: str) -> bool:
    try:
        validate(text)
    except (KeyExprError, LimitError):
        return False
    return True


def _pass(limiters: Sequence[Limiter], now_ns: int) -> bool:
    """Whether all let a message pass now; those after the first that does not are not asked."""
    return all(limiter.passes(now_ns) for limiter in limiters)


_OPEN: Final = Verdict(True, None, "access control is off")
_TOO_SOON: Final = "too soon"
_WRITE: Final = ((Action.PUT,), (Action.DELETE,))  # what a service does for a query that writes
