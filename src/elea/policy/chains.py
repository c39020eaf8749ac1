"""Chains of users that come and go: those of services, which have no face.

A chain can be made again at any time, but for what its interceptors remember: down-sampling knows
when a message passed last. They are kept by the name of the identity, and forgotten only while
idle. Otherwise, somebody with many names could have those of others forgotten, or its own.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, TypeAlias

from elea.limits import DEFAULT_LIMITS, Limits
from elea.policy.actions import Flow
from elea.policy.chain import Chain
from elea.policy.identity import Identity
from elea.policy.interceptor import Interceptor
from elea.policy.policy import Policy
from elea.records import dataclass, field

_CHECKED_COUNT: Final = 32  # names looked at to make room for one more

_ChainKey: TypeAlias = tuple[Identity, Flow]


@dataclass(slots=True)
class _Rates:
    """The interceptors of one name, and the chains that have them."""

    interceptors: list[Interceptor]
    chains: set[_ChainKey] = field(default_factory=set)

    def is_idle(self, now_ns: int) -> bool:
        return all(one.is_idle(now_ns) for one in self.interceptors)


class Chains:
    """The chains of one policy.

    Args:
        policy: What may pass.
        limits: `user_chains_count` chains are at hand, `user_rates_count` names have rates of their
            own. While those of all names are in use, further names share one set.
    """

    __slots__ = ("_kept", "_limits", "_policy", "_rates", "_shared")

    def __init__(self, policy: Policy, limits: Limits = DEFAULT_LIMITS) -> None:
        self._policy = policy
        self._limits = limits
        self._kept: OrderedDict[_ChainKey, Chain] = OrderedDict()
        self._rates: dict[str, _Rates] = {}
        self._shared = _Rates(self._policy.renewed())

    def get(self, identity: Identity, flow: Flow, now_ns: int) -> Chain:
        """Return what applies to a user, one way."""
        key = (identity, flow)
        chain = self._kept.get(key)
        if chain is not None:
            self._kept.move_to_end(key)
            return chain
        rates = self._rates_of(identity.name, now_ns)
        chain = self._policy.chain(identity, flow, self._limits, rates.interceptors)
        if rates is not self._shared:  # it gets its own as soon as there is room
            self._keep(key, chain, rates)
        return chain

    def _keep(self, key: _ChainKey, chain: Chain, rates: _Rates) -> None:
        if len(self._kept) >= self._limits.user_chains_count:
            (identity, flow), _ = self._kept.popitem(last=False)
            self._rates[identity.name].chains.discard((identity, flow))
        self._kept[key] = chain
        rates.chains.add(key)

    def _rates_of(self, name: str, now_ns: int) -> _Rates:
        rates = self._rates.get(name)
        if rates is not None:
            return rates
        if len(self._rates) >= self._limits.user_rates_count and not self._make_room(now_ns):
            return self._shared
        rates = self._rates[name] = _Rates(self._policy.renewed())
        return rates

    def _make_room(self, now_ns: int) -> bool:
        """Forget a name that is idle, of those not looked at for longest; False: none is."""
        for _ in range(min(_CHECKED_COUNT, len(self._rates))):
            name = next(iter(self._rates))
            rates = self._rates.pop(name)
            if rates.is_idle(now_ns):
                for key in rates.chains:
                    del self._kept[key]
                return True
            self._rates[name] = rates  # at the end
        return False
