"""Policy: everything that a configuration says about what may pass, for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from elea.config.config import Config
from elea.limits import DEFAULT_LIMITS, Limits
from elea.policy.actions import Flow
from elea.policy.chain import Chain
from elea.policy.filters import INTERCEPTORS
from elea.policy.identity import Identity
from elea.policy.interceptor import Interceptor
from elea.policy.quota import PATH as QUOTAS
from elea.policy.quota import Quota
from elea.policy.roles import EVERYBODY, Roles
from elea.policy.roles import PATH as ROLES
from elea.policy.rules import Authorize, Rules
from elea.records import dataclass

KEYS: Final = (  # of the configuration, that a policy is read from
    *(path for one in INTERCEPTORS for path in one.PATHS),
    QUOTAS,
    ROLES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What may pass. An empty one lets everything pass, and costs nothing.

    Args:
        interceptors: In the order in which messages meet them; one of them is `Rules`.
        quotas: How much altogether.
        roles: Who may be a router or a peer.
    """

    interceptors: tuple[Interceptor, ...] = (Rules(),)
    quotas: tuple[Quota, ...] = ()
    roles: Roles = EVERYBODY

    @classmethod
    def from_config(cls, config: Config, authorize: Authorize | None = None) -> Self:
        """Read a configuration; `authorize` is what `elea/authorizer` names.

        Raises:
            ConfigError: rules, subjects and policies do not fit together.
        """
        found = (
            Rules.from_config(config, authorize) if kind is Rules else kind.from_config(config)
            for kind in INTERCEPTORS
        )
        return cls(
            interceptors=tuple(one for one in found if one is not None),
            quotas=tuple(Quota.from_config(config)),
            roles=Roles.from_config(config),
        )

    @property
    def rules(self) -> Rules:
        """Access control and the authorizer."""
        return next(one for one in self.interceptors if isinstance(one, Rules))

    @property
    def is_limiting(self) -> bool:
        """Whether rates, sizes or quotas are limited."""
        return any(one.LIMITS for one in self.interceptors) or bool(self.quotas)

    def renewed(self) -> list[Interceptor]:
        """Return interceptors that remember no message."""
        return [one.renewed() for one in self.interceptors]

    def chain(
        self,
        identity: Identity,
        flow: Flow,
        limits: Limits = DEFAULT_LIMITS,
        interceptors: Sequence[Interceptor] | None = None,
    ) -> Chain:
        """What applies to a neighbour, one way.

        Args:
            interceptors: Those of `renewed`, with what they remember; else new ones.
        """
        found = (one.at(identity, flow) for one in interceptors or self.renewed())
        return Chain(
            flow,
            limits.plans_count,
            [stage for stage in found if stage is not None],
            takes_link_state=flow is Flow.EGRESS or self.roles.believe(identity),
            is_router=self.roles.is_router(identity),
        )

    def quota(self, identity: Identity) -> Quota | None:
        """The quota of a neighbour: the first that selects it."""
        return next((one for one in self.quotas if one.selection.matches(identity)), None)


OPEN_POLICY: Final = Policy()
