"""Chain: all that decides over the messages of one neighbour, one way.

It is a list of stages, one per interceptor, in the order of `elea.policy.filters.INTERCEPTORS`. The
steps that they have for a kind of message and key are asked for once and remembered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from elea.errors import KeyExprError, LimitError
from elea.keyexpr.canon import validate
from elea.policy.access import Verdict
from elea.policy.actions import Action, Flow, sizes
from elea.policy.interceptor import Denial, Reason, Stage, Step
from elea.policy.rules import OPEN, Ruled, RulesFor
from elea.policy.service_keys import Demand, demands, is_service_key
from elea.records import dataclass, replace
from elea.wire.codec import NetworkMessage
from elea.wire.data.query import Query
from elea.wire.network.request import Request


@dataclass(frozen=True, slots=True)
class Refusal:
    """A message that did not pass; its reason is a `Reason`, or an interceptor's own word."""

    reason: str
    flow: Flow
    action: Action
    key: str
    rule_id: str | None
    why: str


class Chain:
    """What is configured for one neighbour, one way.

    Args:
        flow: Which way.
        plans_max: Of so many pairs of action and key it is remembered what applies.
        stages: In order; one of them is that of the rules.
        takes_link_state: Whether it may say who is connected to whom.
        is_router: Whether it may tell of services elsewhere: `elea/roles` names it as a router.
    """

    __slots__ = (
        "_is_limiting",
        "_is_router",
        "_plans",
        "_plans_max",
        "_rules",
        "_stages",
        "flow",
        "takes_link_state",
    )

    def __init__(
        self,
        flow: Flow,
        plans_max: int,
        stages: Sequence[Stage],
        *,
        takes_link_state: bool = True,
        is_router: bool = False,
    ) -> None:
        self.flow = flow
        self.takes_link_state = takes_link_state
        self._plans_max = plans_max
        self._stages = stages
        self._rules = next(one for one in stages if isinstance(one, RulesFor))
        self._is_limiting = any(one.LIMITS for one in stages)
        self._is_router = is_router
        self._plans: dict[tuple[Action, str], _Plan] = {}

    def __bool__(self) -> bool:
        """Whether there is anything to check."""
        return bool(self._rules) or len(self._stages) > 1 or not self.takes_link_state

    def check(
        self, action: Action, key: str, message: NetworkMessage, reliable: bool, now_ns: int
    ) -> NetworkMessage | Refusal:
        """The message, perhaps with another QoS, or why it may not pass."""
        plan = self._plans.get((action, key))
        if plan is None or plan.until_ns is not None:
            plan = self._plan(action, key, now_ns)
        if not plan.acting:
            return message
        for step in plan.acting:
            outcome = step.apply(message, reliable, now_ns)
            if isinstance(outcome, Denial):
                return self._refuse(outcome, action, key)
            message = outcome
        return message

    def excess(
        self, action: Action, key: str, parameters: str, length: int, now_ns: int
    ) -> Refusal | None:
        """Why limits keep a message back that access control lets pass.

        It counts as a message: down-sampling keeps back the next one.

        Args:
            parameters: Of a query.
            length: Of payload and attachment.
        """
        plan = self._plan(action, key, now_ns)
        denial = plan.limit(length, now_ns)
        if denial is None and plan.is_service:
            needed = demands(action, key, parameters, length > 0)
            denial = self.excess_of(action, needed, length, now_ns)
        return None if denial is None else self._refuse(denial, action, key)

    def excess_of(
        self, action: Action, needed: Sequence[Demand], length: int, now_ns: int
    ) -> Denial | None:
        """Why limits keep back what a service would write for a query."""
        if action is not Action.QUERY:
            return None
        for one in needed:
            if one.door is not None or one.actions not in _WRITE:
                continue
            [write] = one.actions
            denial = self._plan(write, one.key, now_ns).limit(length, now_ns)
            if denial is not None:
                return replace(denial, about=(write, one.key))
        return None

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
        if not (plan.ruled.verdict.allowed and plan.is_service):
            return plan.ruled.verdict
        needed = demands(action, key, parameters, has_payload)
        return self.ruled(action, key, needed, now_ns).verdict if needed else plan.ruled.verdict

    def ruled(self, action: Action, key: str, needed: Sequence[Demand], now_ns: int) -> Ruled:
        """Whether all that a service does for a message is allowed; the first that is not."""
        access = self._rules.access
        ruled = _OPEN
        for one in needed:
            if one.door is not None:
                if access is None:
                    continue  # the authorizer was asked about the service's key
                ruled = Ruled(access.opens(action, key, one), Reason.ACCESS)
            else:
                found = [self._whole(each, one.key, now_ns) for each in one.actions]
                verdict = next((each for each in found if each.allowed), found[0])
                verdict = replace(verdict, why=f"{one.actions[0]} on {one.key}: {verdict.why}")
                ruled = Ruled(verdict, self._plan(one.actions[0], one.key, now_ns).ruled.reason)
            if not ruled.verdict.allowed:
                break
        return ruled

    def _whole(self, action: Action, key: str, now_ns: int) -> Verdict:
        """What access control says of an action on all keys of `key`.

        What a service answers is not filtered as the samples of a subscription are.
        """
        verdict = self.verdict(action, key, now_ns)
        access = self._rules.access
        if verdict.allowed and access is not None and action is Action.DECLARE_SUBSCRIBER:
            whole = access.decide(action, key)
            return verdict if whole.allowed else whole
        return verdict

    def _refuse(self, denial: Denial, action: Action, key: str) -> Refusal:
        if denial.about is not None:
            action, key = denial.about
        return Refusal(denial.reason, self.flow, action, key, denial.rule_id, denial.why)

    def _plan(self, action: Action, key: str, now_ns: int) -> _Plan:
        plan = self._plans.get((action, key))
        if plan is None or (plan.until_ns is not None and now_ns >= plan.until_ns):
            if len(self._plans) >= self._plans_max:
                self._plans.clear()
            plan = self._plans[action, key] = self._compute(action, key, now_ns)
        return plan

    def _compute(self, action: Action, key: str, now_ns: int) -> _Plan:
        if not _is_key(key):
            # Routing drops it. Only an answer without a key, a router's own, means something; it
            # does not pass rules, as in Eclipse.
            verdict = Verdict(not self._rules, None, "not a key expression")
            return _Plan([Ruled(verdict, Reason.KEY)], is_service=False)
        is_service = self._is_service(action, key)
        steps: list[Step] = []
        for stage in self._stages:
            steps += stage.steps(action, key, now_ns)
            if is_service and stage is self._rules:
                steps.append(_ServiceStep(self, action, key))
        return _Plan(steps, is_service=is_service)

    def _is_service(self, action: Action, key: str) -> bool:
        """Whether a service acts on a message: what it does has to be allowed as well."""
        if action is Action.DECLARE_QUERYABLE and self._is_router:
            return False
        # Limits hold for what a service writes, and it writes for queries alone.
        guarded = bool(self._rules) or (action is Action.QUERY and self._is_limiting)
        return guarded and self.flow is Flow.INGRESS and is_service_key(action, key)


class _Plan:
    """What applies to messages of one kind on one key."""

    __slots__ = ("_steps", "acting", "is_service", "ruled", "until_ns")

    def __init__(self, steps: Sequence[Step], *, is_service: bool) -> None:
        self.is_service = is_service
        self.ruled = next(one for one in steps if isinstance(one, Ruled))
        self.until_ns = self.ruled.until_ns
        self._steps = steps
        # A verdict that allows has nothing to do: most plans are empty.
        self.acting = tuple(
            one for one in steps if one is not self.ruled or not self.ruled.verdict.allowed
        )

    def limit(self, length: int, now_ns: int) -> Denial | None:
        """Why a limit keeps a message back; steps after the first that does are not asked."""
        for step in self._steps:
            denial = step.limit(length, now_ns)
            if denial is not None:
                return denial
        return None


class _ServiceStep(Step):
    """Refuses a message for which a service would do something that is not allowed."""

    __slots__ = ("_action", "_chain", "_key")

    def __init__(self, chain: Chain, action: Action, key: str) -> None:
        self._chain = chain
        self._action = action
        self._key = key

    def apply(
        self, message: NetworkMessage, reliable: bool, now_ns: int
    ) -> NetworkMessage | Denial:
        """Ask about each thing that the service would do."""
        chain, action, key = self._chain, self._action, self._key
        needed = demands(action, key, *_asked(message))
        outcome = chain.ruled(action, key, needed, now_ns).apply(message, reliable, now_ns)
        if isinstance(outcome, Denial):
            return outcome
        return chain.excess_of(action, needed, sum(sizes(message)), now_ns) or message


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


_OPEN: Final = Ruled(OPEN, Reason.ACCESS)
_WRITE: Final = ((Action.PUT,), (Action.DELETE,))  # what a service does for a query that writes
