"""What an operator chooses about routing, beside the bounds of `elea.limits`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from elea.records import dataclass, field

SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RoutingSettings:
    """Defaults as in Eclipse Zenoh (behaviour.md appendix A)."""

    interests_timeout_ns: int = 10 * SECOND_NS  # `routing/interests/timeout`
    queries_timeout_ns: int = 10 * SECOND_NS  # `queries_default_timeout`
    gossip: bool = True  # `scouting/gossip/enabled`
    gossip_multihop: bool = False  # `scouting/gossip/multihop`
    gossip_target: int = 0b011  # roles that are told, as scouting bits: router and peer
    # `routing/router/linkstate/transport_weights`, by the router's id in wire order
    weights: Mapping[bytes, int] = field(default_factory=dict)
