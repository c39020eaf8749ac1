"""Rights: what a user of a service may do, by the access rules of the node the service runs on.

A session of the node's own process passes unchecked. A service that acts for users of its own, such
as REST, asks here on behalf of each: as if the user were a client connected to the node.
"""

from __future__ import annotations

from typing import Any

from elea.link.interfaces import interfaces_of
from elea.policy.access import Verdict
from elea.policy.actions import Action, Flow
from elea.policy.addresses import bucket_of
from elea.policy.chains import Chains
from elea.policy.identity import Identity, LinkIdentity
from elea.policy.interceptor import Reason
from elea.policy.owners import Owners
from elea.policy.policy import OPEN_POLICY, Policy
from elea.policy.service_keys import consumer_of, only_reads
from elea.records import dataclass
from elea.session.session import Session

__all__ = [
    "Action",
    "Excess",
    "Flow",
    "Identity",
    "Reason",
    "Rights",
    "bucket_of",
    "identity_of",
    "only_reads",
]


@dataclass(frozen=True, slots=True)
class Excess:
    """A message that is too long, or too many."""

    reason: str
    why: str
    wait_ns: int = 0  # until one may pass, if that is known


class Rights:
    """The access rules of a session's node, for users that are not its neighbours.

    Rules that change apply to the next question. Any thread may ask.
    """

    def __init__(self, session: Session) -> None:
        self._context = session._context
        self._policy: Policy = OPEN_POLICY
        self._chains = Chains(OPEN_POLICY)

    @property
    def are_limited(self) -> bool:
        """Whether there are rules at all."""
        return bool(self._current().rules)

    def revision(self) -> object:
        """What the rules are now: another object as soon as they changed."""
        return self._current()

    def refusal(
        self,
        identity: Identity,
        action: Action,
        key: str,
        parameters: str = "",
        *,
        has_payload: bool = False,
        flow: Flow = Flow.INGRESS,
    ) -> str | None:
        """Why a user may not do something on a key; None: it may."""
        if not self.are_limited:
            return None
        verdict = self._verdict(identity, action, key, parameters, has_payload, flow)
        if verdict.allowed:
            asks = action is Action.QUERY and flow is Flow.INGRESS
            return self._foreign_consumer(identity, key) if asks else None
        rule = "the default" if verdict.rule_id is None else f"rule {verdict.rule_id}"
        return f"{action} on {key} is denied by {rule}: {verdict.why}"

    def excess(
        self, identity: Identity, action: Action, key: str, parameters: str = "", *, length: int
    ) -> Excess | None:
        """Count a message of a user; why it is more than filters and quotas let pass, or None.

        Args:
            length: Of its payload.
        """
        if not self._current().is_limiting:
            return None
        driver = self._context.driver
        with driver.lock:
            now_ns = driver.now_ns()
            chain = self._chains.get(identity, Flow.INGRESS, now_ns)
            refusal = chain.excess(action, key, parameters, length, now_ns)
            if refusal is not None:
                return Excess(refusal.reason, f"{action} on {key}: {refusal.why}")
            over = self._guards().spend(identity, length, now_ns)
        if over is None:
            return None
        quota, wait_ns = over
        return Excess(Reason.QUOTA, f"more than quota {quota} allows", wait_ns)

    def _verdict(
        self,
        identity: Identity,
        action: Action,
        key: str,
        parameters: str,
        has_payload: bool,
        flow: Flow,
    ) -> Verdict:
        driver = self._context.driver
        with driver.lock:  # chains remember what they decided
            now_ns = driver.now_ns()
            chain = self._chains.get(identity, flow, now_ns)
            return chain.verdict(action, key, now_ns, parameters, has_payload)

    def _foreign_consumer(self, identity: Identity, key: str) -> str | None:
        """Why a user may not move a consumer's offsets: it belongs to another identity."""
        consumer = consumer_of(key)
        if consumer is None:
            return None
        with self._context.driver.lock:
            owners: Owners = self._guards().owners
            return owners.refusal(consumer, identity)

    def _guards(self) -> Any:
        """The guards of the node; None: a simulated node has none."""
        return getattr(self._context.driver.node, "guards", None)

    def _current(self) -> Policy:
        guards = self._guards()
        policy = OPEN_POLICY if guards is None else guards.policy
        if policy is not self._policy:
            with self._context.driver.lock:
                self._policy = policy
                self._chains = Chains(policy, guards.limits)
        assert isinstance(policy, Policy)
        return policy


def identity_of(
    protocol: str,
    address: str,
    *,
    user: str | None = None,
    common_name: str | None = None,
    server_address: str | None = None,
) -> Identity:
    """The identity of a user of a service.

    Args:
        protocol: As rules name it in `link_protocols`.
        address: Where the user is.
        user: Its name, if it has proven one.
        common_name: Of its certificate, if that was verified.
        server_address: Where it reached us, which tells the interface.
    """
    interfaces = () if server_address is None else interfaces_of(server_address)
    link = LinkIdentity(
        protocol=protocol, interfaces=interfaces, common_name=common_name, address=address
    )
    return Identity(zid="", user=user, links=(link,))
