"""What a device may do by the access rules of the router, besides `access` of its own section."""

from __future__ import annotations

from collections.abc import Callable

from elea.session.rights import Action as RuleAction
from elea.session.rights import Flow, Rights, identity_of
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


class DeviceRights:
    """What the section `access` and the rules of the node together allow to devices.

    Args:
        session: Of the node.
        allows: What the section says; None: everything.
        is_proven: Whether devices prove their ids, which are then names of users, in hexadecimal.
    """

    def __init__(self, session: Session, allows: Allows | None, *, is_proven: bool) -> None:
        self._rights = Rights(session)
        self._allows = allows
        self._is_proven = is_proven

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
