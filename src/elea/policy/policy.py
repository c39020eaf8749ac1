"""Policy: everything that a configuration says about what may pass, for whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from elea.config.config import Config
from elea.limits import DEFAULT_LIMITS, Limits
from elea.policy.access import AccessControl
from elea.policy.actions import Flow
from elea.policy.chain import Authorize, Authorizer, Chain
from elea.policy.filters import Downsampler, Downsampling, LowPass, Overwrite
from elea.policy.identity import Identity
from elea.policy.quota import Quota
from elea.policy.roles import EVERYBODY, Roles
from elea.policy.roles import PATH as ROLES
from elea.records import dataclass

AUTHORIZER: Final = "elea/authorizer"
KEYS: Final = (  # of the configuration, that a policy is read from
    "access_control/enabled",
    "access_control/default_permission",
    "access_control/rules",
    "access_control/subjects",
    "access_control/policies",
    "downsampling",
    "low_pass_filter",
    "qos/network",
    AUTHORIZER,
    "elea/authorizer_max_age",
    "elea/quotas",
    ROLES,
)
_MS_NS: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What may pass. An empty one lets everything pass, and costs nothing."""

    access: AccessControl | None = None
    authorizer: Authorizer | None = None
    downsampling: tuple[Downsampling, ...] = ()
    low_pass: tuple[LowPass, ...] = ()
    overwrites: tuple[Overwrite, ...] = ()
    quotas: tuple[Quota, ...] = ()
    roles: Roles = EVERYBODY

    @classmethod
    def from_config(cls, config: Config, authorize: Authorize | None = None) -> Self:
        """Read a configuration; `authorize` is what `elea/authorizer` names.

        Raises:
            ConfigError: rules, subjects and policies do not fit together.
        """
        age_ns = config.value("elea/authorizer_max_age", int) * _MS_NS
        return cls(
            access=AccessControl.from_config(config),
            authorizer=(
                None if authorize is None else Authorizer(authorize=authorize, age_ns=age_ns)
            ),
            downsampling=tuple(Downsampling.from_config(config)),
            low_pass=tuple(LowPass.from_config(config)),
            overwrites=tuple(Overwrite.from_config(config)),
            quotas=tuple(Quota.from_config(config)),
            roles=Roles.from_config(config),
        )

    def chain(
        self,
        identity: Identity,
        flow: Flow,
        limits: Limits = DEFAULT_LIMITS,
        downsamplers: Sequence[Downsampler] | None = None,
    ) -> Chain:
        """What applies to a neighbour, one way.

        Args:
            downsamplers: One for each of `downsampling`, with what they remember; else new ones.
        """
        if downsamplers is None:
            downsamplers = [Downsampler(one) for one in self.downsampling]
        return Chain(
            identity,
            flow,
            limits.plans_count,
            [one for one in downsamplers if one.item.scope.selects(identity, flow)],
            None if self.access is None else self.access.access(identity, flow),
            self.authorizer,
            [one for one in self.overwrites if one.scope.selects(identity, flow)],
            [one for one in self.low_pass if one.scope.selects(identity, flow)],
            flow is Flow.EGRESS or self.roles.believe(identity),
            self.roles.is_router(identity),
        )

    def quota(self, identity: Identity) -> Quota | None:
        """The quota of a neighbour: the first that selects it."""
        return next((one for one in self.quotas if one.selection.matches(identity)), None)


OPEN_POLICY: Final = Policy()
