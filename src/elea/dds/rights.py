"""What access rules of the node allow to a domain, besides `allow` and `deny` (D-814).

Participants of DDS prove nothing: all of a domain together are the user `dds`, linked by `dds`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from elea.dds.routes import Direction
from elea.dds.settings import DdsSettings
from elea.session.rights import Action, Flow, Rights, identity_of
from elea.session.session import Session

USER: Final = "dds"

# What a client would need that does the same: one rule each way.
_NEEDED: Final = {
    Direction.FROM_DDS: ((Action.PUT, Flow.INGRESS),),
    Direction.TO_DDS: ((Action.DECLARE_SUBSCRIBER, Flow.INGRESS), (Action.PUT, Flow.EGRESS)),
    Direction.SERVICE_SRV: (
        (Action.DECLARE_QUERYABLE, Flow.INGRESS),
        (Action.QUERY, Flow.EGRESS),
        (Action.REPLY, Flow.INGRESS),
    ),
    Direction.SERVICE_CLI: ((Action.QUERY, Flow.INGRESS), (Action.REPLY, Flow.EGRESS)),
}


class DomainRights:
    """The rules of a node for the participants of a domain. Any thread may ask."""

    def __init__(self, session: Session) -> None:
        self._rights = Rights(session)
        self._identity = identity_of(USER, "", user=USER)
        self._revision = self._rights.revision()

    def have_changed(self) -> bool:
        """Whether the rules are others than when this was asked last."""
        before, self._revision = self._revision, self._rights.revision()
        return before is not self._revision

    def ruled(self, settings: DdsSettings) -> DdsSettings:
        """Return settings whose filter asks the rules as well."""
        rules = partial(self._allow_route, settings)
        return replace(settings, filter=replace(settings.filter, rules=rules))

    def allow_put(self, key: str) -> bool:
        """Whether the domain may put on a key."""
        return self._allow(Action.PUT, key)

    def allow_delete(self, key: str) -> bool:
        """Whether the domain may delete a key."""
        return self._allow(Action.DELETE, key)

    def show_delete(self, key: str) -> bool:
        """Whether the domain may see that a key is deleted."""
        return self._allow(Action.DELETE, key, flow=Flow.EGRESS)

    def allow_query(self, key_expr: str, parameters: str) -> bool:
        """Whether the domain may ask for something."""
        return self._allow(Action.QUERY, key_expr, parameters)

    def show_reply(self, key: str) -> bool:
        """Whether the domain may see what is replied on a key."""
        return self._allow(Action.REPLY, key, flow=Flow.EGRESS)

    def _allow_route(self, settings: DdsSettings, key: str, direction: Direction) -> bool:
        """Whether all samples of a route may pass; deletions are asked for one by one."""
        keys = (key, f"{key}/*") if settings.has_instances(key) else (key,)
        return all(
            self._allow(action, one, flow=flow)
            for one in keys
            for action, flow in _NEEDED[direction]
        )

    def _allow(
        self, action: Action, key: str, parameters: str = "", *, flow: Flow = Flow.INGRESS
    ) -> bool:
        refusal = self._rights.refusal(self._identity, action, key, parameters, flow=flow)
        return refusal is None
