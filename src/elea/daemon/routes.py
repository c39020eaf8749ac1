"""`route/<action>/<key>` of the admin space: what this node does with a key, and why.

`elea trace` asks for it, hop by hop: `from` names the neighbour that a message comes from, `root`
the router where it entered the network.
"""

from __future__ import annotations

from typing import Final

from elea.ids import WhatAmI, ZenohId
from elea.json5 import Json
from elea.node.node import Node
from elea.node.views import NeighbourView
from elea.parameters import Parameters
from elea.policy.actions import Action as PolicyAction
from elea.policy.actions import Flow
from elea.query import QueryTarget
from elea.routing.explain import Action, Hop, explain

_ACTIONS: Final = {
    Action.PUT: PolicyAction.PUT,
    Action.GET: PolicyAction.QUERY,
    Action.SUBSCRIBE: PolicyAction.DECLARE_SUBSCRIBER,
}
_DROPS: Final = ("dropped_congestion", "dropped_too_long", "dropped_closed", "dropped_link")


def route(node: Node, action: Action, key: str, parameters: Parameters) -> Json:
    """Where a message goes on to; under the node's lock.

    Raises:
        ValueError: a parameter is no id, or no target.
    """
    sender, root = (_zid(parameters, name) for name in ("from", "root"))
    target = _target(parameters)
    views = {view.zid: view for view in node.views()}
    known = sender if sender in views else None
    shown: dict[str, Json] = {
        "action": action.value,
        "key": key,
        "from": None if known is None else str(ZenohId(known)),
    }
    if action is Action.GET:
        shown["target"] = target.name.lower()
    face_id = None if known is None else node.face_of(known)
    if face_id is not None:
        shown |= _access(node, face_id, Flow.INGRESS, action, key)
    shown["hops"] = [
        {
            **_hop(one, views.get(one.face.spec.zid)),
            **_access(node, one.face.id, Flow.EGRESS, action, key),
        }
        for one in explain(node.routing, action, key, sender, root, target.value)
    ]
    return shown


def _access(node: Node, face_id: int, flow: Flow, action: Action, key: str) -> dict[str, Json]:
    verdict = node.guards.verdict(face_id, flow, _ACTIONS[action], key)
    if verdict is None:
        return {}
    told: Json = {"allowed": verdict.allowed, "rule": verdict.rule_id, "why": verdict.why}
    return {"access": told}


def _target(parameters: Parameters) -> QueryTarget:
    name = parameters.get("target") or QueryTarget.DEFAULT.name
    try:
        return QueryTarget[name.upper()]
    except KeyError:
        names = ", ".join(one.name.lower() for one in QueryTarget)
        raise ValueError(f"invalid target {name!r}: expected one of {names}") from None


def _zid(parameters: Parameters, name: str) -> bytes | None:
    text = parameters.get(name)
    return ZenohId.parse(text).to_bytes() if text else None


def _hop(hop: Hop, view: NeighbourView | None) -> dict[str, Json]:
    spec = hop.face.spec
    shown: dict[str, Json] = {
        "zid": str(ZenohId(spec.zid)),
        "whatami": str(WhatAmI.from_index(spec.whatami)),
        "region": spec.region.name,
        "local": spec.local,
        "group": spec.multicast,
        "why": list(hop.why),
    }
    if view is not None and not spec.local:
        shown["sent_messages"] = view.counters["sent_messages"]
        shown["dropped_messages"] = sum(view.counters[name] for name in _DROPS)
        shown["waiting_messages"] = view.waiting_count
    return shown
