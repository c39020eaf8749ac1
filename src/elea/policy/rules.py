"""Rules: the interceptor that says who may do what, whatever is in a message.

Access control decides first; what it allows, an authorizer may still deny.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, Self, TypeAlias

from elea.config.config import Config
from elea.policy.access import Access, AccessControl, Verdict
from elea.policy.actions import Action, Flow
from elea.policy.identity import Identity
from elea.policy.interceptor import Denial, Interceptor, Reason, Stage, Step
from elea.records import dataclass
from elea.wire.codec import NetworkMessage

AUTHORIZER: Final = "elea/authorizer"
_MAX_AGE: Final = "elea/authorizer_max_age"
_MS_NS: Final = 1_000_000

# Asked after the rules: identity, action, key. It never raises.
Authorize: TypeAlias = Callable[[Identity, str, str], Verdict]


@dataclass(frozen=True, slots=True, kw_only=True)
class Authorizer:
    """A function of the user that has the last word, and how long its answer holds."""

    authorize: Authorize
    age_ns: int


class Rules(Interceptor):
    """Access control and the authorizer, as far as they are configured."""

    __slots__ = ("access", "authorizer")
    PATHS = (
        "access_control/enabled",
        "access_control/default_permission",
        "access_control/rules",
        "access_control/subjects",
        "access_control/policies",
        AUTHORIZER,
        _MAX_AGE,
    )

    def __init__(
        self, access: AccessControl | None = None, authorizer: Authorizer | None = None
    ) -> None:
        self.access = access
        self.authorizer = authorizer

    @classmethod
    def from_config(cls, config: Config, authorize: Authorize | None = None) -> Self:
        """Read a configuration; `authorize` is what `elea/authorizer` names.

        Raises:
            ConfigError: rules, subjects and policies do not fit together.
        """
        age_ns = config.value(_MAX_AGE, int) * _MS_NS
        return cls(
            AccessControl.from_config(config),
            None if authorize is None else Authorizer(authorize=authorize, age_ns=age_ns),
        )

    def __bool__(self) -> bool:
        """Whether anything is ruled at all."""
        return self.access is not None or self.authorizer is not None

    def at(self, identity: Identity, flow: Flow) -> RulesFor:
        """Return the rules for a neighbour and direction, even if there are none."""
        access = None if self.access is None else self.access.access(identity, flow)
        return RulesFor(identity, flow, access, self.authorizer)


class RulesFor(Stage):
    """The rules for one neighbour and direction."""

    __slots__ = ("_authorizer", "_flow", "_identity", "access")

    def __init__(
        self,
        identity: Identity,
        flow: Flow,
        access: Access | None,
        authorizer: Authorizer | None,
    ) -> None:
        self.access = access
        self._identity = identity
        self._flow = flow
        self._authorizer = authorizer

    def __bool__(self) -> bool:
        """Whether anything is ruled at all."""
        return self.access is not None or self._authorizer is not None

    def steps(self, action: Action, key: str, now_ns: int) -> Iterable[Step]:
        """Return the verdict, as a step."""
        return (self._decide(action, key, now_ns),)

    def _decide(self, action: Action, key: str, now_ns: int) -> Ruled:
        verdict = OPEN
        if self.access is not None:
            subscribes = action is Action.DECLARE_SUBSCRIBER and self._flow is Flow.INGRESS
            decide = self.access.subscribe if subscribes else partial(self.access.decide, action)
            verdict = decide(key)
        authorizer = self._authorizer
        if not verdict.allowed or authorizer is None or action is Action.UNKNOWN:
            return Ruled(verdict, Reason.ACCESS)
        verdict = authorizer.authorize(self._identity, action.value, key)
        return Ruled(verdict, Reason.AUTHORIZER, now_ns + authorizer.age_ns)


class Ruled(Step):
    """A verdict, who gave it, and the time at which they must be asked again; None: never."""

    __slots__ = ("reason", "until_ns", "verdict")

    def __init__(self, verdict: Verdict, reason: Reason, until_ns: int | None = None) -> None:
        self.verdict = verdict
        self.reason = reason
        self.until_ns = until_ns

    def apply(
        self, message: NetworkMessage, reliable: bool, now_ns: int
    ) -> NetworkMessage | Denial:
        """Let all messages pass, or none."""
        if self.verdict.allowed:
            return message
        return Denial(self.reason, self.verdict.rule_id, self.verdict.why)


OPEN: Final = Verdict(True, None, "access control is off")
