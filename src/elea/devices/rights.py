"""What a device may do by the access rules of the router, besides `access` of its own section."""

from __future__ import annotations

from collections.abc import Callable

from elea.session.rights import Action as RuleAction
from elea.session.rights import Flow, Rights, bucket_of, identity_of
from elea.session.session import Session
from elea.xrce.declarations import Action

Allows = Callable[[bytes, Action, tuple[str, ...]], bool]

# What a client would need that does the same: one rule each way.
_NEEDED = {
    Action.READ: ((RuleAction.DECLARE_SUBSCRIBER, Flow.INGRESS), (RuleAction.PUT, Flow.EGRESS)),
    Action.ASK: ((RuleAction.QUERY, Flow.INGRESS), (RuleAction.REPLY, Flow.EGRESS)),
    Action.WRITE: ((RuleAction.PUT, Flow.INGRESS),),
    Action.DELETE: ((RuleAction.DELETE, Flow.INGRESS),),
    Action.DECLARE: (),
}
_COUNTED = {
    Action.ASK: RuleAction.QUERY,
    Action.WRITE: RuleAction.PUT,
    Action.DELETE: RuleAction.DELETE,
}


class DeviceRights:
    """What the section `access` and the rules of the node together allow to devices.

    Args:
        session: Of the node.
        allows: What the section says; None: everything.
        is_proven: Whether devices prove their ids, which are then names of users, in hexadecimal.
        host_of: The host of a device that has a session, by which quotas go where ids are not
            proven; None: this one.
    """

    def __init__(
        self,
        session: Session,
        allows: Allows | None,
        *,
        is_proven: bool,
        host_of: Callable[[bytes], str | None],
    ) -> None:
        self._rights = Rights(session)
        self._allows = allows
        self._is_proven = is_proven
        self._host_of = host_of

    def revision(self) -> object:
        """What the rules are now: another object as soon as they changed."""
        return self._rights.revision()

    def allow(self, pid: bytes, action: Action, key_exprs: tuple[str, ...]) -> bool:
        """Whether a device may do something with all keys of these key expressions."""
        if self._allows is not None and not self._allows(pid, action, key_exprs):
            return False
        if not self._rights.are_limited:
            return True
        identity = identity_of("xrce", "", user=pid.hex() if self._is_proven else None)
        return all(
            self._rights.refusal(identity, needed, key, flow=flow) is None
            for key in key_exprs
            for needed, flow in _NEEDED[action]
        )

    def exceed(self, pid: bytes, action: Action, key: str, length: int) -> bool:
        """Count a message of a device; whether quotas or filters keep it back."""
        if self._is_proven:
            identity = identity_of("xrce", "", user=pid.hex())
        else:  # it may call itself as it likes
            identity = identity_of("xrce", bucket_of(self._host_of(pid) or ""))
        return self._rights.excess(identity, _COUNTED[action], key, length=length) is not None
