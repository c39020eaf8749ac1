"""Plan: what a world consists of, by a seed: which nodes, how they are connected, how they are set.

Shapes: a full mesh of peers, a chain of peers, clients below one peer, clients below several; and,
if asked for, a network of routers with clients and peers below them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from elea.choices import SIM_ROUTERS, SIM_SECONDS, SIM_SHAPES
from elea.ids import WhatAmI
from elea.limits import DEFAULT_LIMITS, Limits
from elea.locator import Endpoint
from elea.node.settings import MS_NS, NodeSettings, RetrySettings
from elea.routing.roles.subregions import Filter
from elea.transport.negotiation import Offer

_REGIONS: Final = ("plant", "yard")
_RETRY: Final = RetrySettings(init_ns=200 * MS_NS, max_ns=1_000 * MS_NS, factor=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a caller fixes; the seed decides the rest."""

    nodes_count: int | None = None
    seconds: float = SIM_SECONDS  # of the phase with faults
    faults: str | None = None
    shape: str | None = None  # one of SIM_SHAPES, or SIM_ROUTERS


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node and how many sessions it starts with."""

    name: str
    settings: NodeSettings
    limits: Limits
    sessions_count: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A world before it starts."""

    seed: int
    shape: str
    scheme: str
    faults: str
    seconds: float
    pace_ns: int  # the longest pause between two things that sessions do
    sessions_share: float  # of sessions that are real ones; the others use the node alone
    nodes: tuple[NodePlan, ...]

    def __str__(self) -> str:
        roles = "".join(str(one.settings.whatami)[0] for one in self.nodes)
        return f"{self.shape} of {roles} over {self.scheme}, faults {self.faults}"


def draw(seed: int, options: Options, rng: Random) -> Plan:
    """The plan of a seed."""
    # Most worlds are rough; the others keep the laws honest that hold without faults alone.
    faults = options.faults or rng.choice(("none", "calm", "rough", "rough", "rough"))
    count = options.nodes_count or rng.choice((2, 2, 3, 3, 4, 5))
    scheme = rng.choice(("tcp", "tcp", "tcp", "udp"))
    shape = rng.choice(SIM_SHAPES)
    shape = options.shape or shape
    both_dial = rng.random() < 0.3
    edges = _edges(shape, count, rng)
    common = _common(rng, scheme)
    limits = replace(
        DEFAULT_LIMITS,
        tx_queue_len=rng.choice((2_048, 16_384, 1024 * 1024)),
        backlog_len=rng.choice((4_096, 65_536, 1024 * 1024)),
    )
    nodes = []
    for index in range(count):
        role = _role(shape, index, count)
        is_below = role is WhatAmI.CLIENT or (shape == SIM_ROUTERS and role is WhatAmI.PEER)
        targets = [far for near, far in edges if near == index]
        if both_dial:
            targets += [n for n, far in edges if far == index and _listens(shape, n, count)]
        settings = replace(
            common.offering(zid=zid(index, 0), whatami=role.index),
            listen=() if is_below else ((_endpoint(scheme, index),),),
            timestamping=role is WhatAmI.ROUTER,
            connect=tuple((_endpoint(scheme, target),) for target in targets),
        )
        nodes.append(NodePlan(f"n{index}", settings, limits, rng.choice((1, 1, 2, 3))))
    pace_ns = rng.choice((30, 120, 120, 400)) * MS_NS
    share = rng.choice((0.0, 0.5, 1.0))
    if shape == SIM_ROUTERS and rng.random() < 0.4:
        nodes = [replace(one, settings=_in_subregion(one.settings, rng)) for one in nodes]
    return Plan(seed, shape, scheme, faults, options.seconds, pace_ns, share, tuple(nodes))


def zid(index: int, generation: int) -> bytes:
    """The identity of a node; another one after each restart that changes it."""
    return bytes((index + 1, generation + 1))


def _common(rng: Random, scheme: str) -> NodeSettings:
    """What all nodes of a world share, as far as links are concerned."""
    # Small numbers wrap often. On datagrams a late duplicate could then look new, by design.
    resolutions = (0x0A, 0x0A, 0x09) if scheme == "udp" else (0x0A, 0x0A, 0x09, 0x08)
    return NodeSettings(
        connect_timeout_ns=-1,
        retry=_RETRY,
        offered=Offer(
            zid=b"\x01",
            whatami=WhatAmI.PEER.index,
            lease_ms=rng.choice((1_000, 2_000, 10_000)),
            batch_len=rng.choice((65_535, 65_535, 4_096, 512)),
            resolution=rng.choice(resolutions),
            qos=rng.random() < 0.8,
        ),
        wait_before_close_ns=rng.choice((1_000, 5_000)) * MS_NS,
    )


def _edges(shape: str, count: int, rng: Random) -> list[tuple[int, int]]:
    """Who dials whom."""
    if shape == "mesh":
        return [(near, far) for near in range(count) for far in range(near)]
    if shape == "chain":
        return [(near, near - 1) for near in range(1, count)]
    if shape == "star":
        return [(near, 0) for near in range(1, count)]
    peers = _peers_count(count)
    if shape == SIM_ROUTERS:  # any connected graph, and one router for everybody else
        ways = [(near, rng.randrange(near)) for near in range(1, peers)]
        more = [(near, far) for near in range(peers) for far in range(near) if rng.random() < 0.4]
        below = [(one, rng.randrange(peers)) for one in range(peers, count)]
        return list(dict.fromkeys(ways + more)) + below
    mesh = [(near, far) for near in range(peers) for far in range(near)]
    return mesh + [(client, rng.randrange(peers)) for client in range(peers, count)]


def _role(shape: str, index: int, count: int) -> WhatAmI:
    if shape == SIM_ROUTERS and index < _peers_count(count):
        return WhatAmI.ROUTER
    is_client = (shape == "star" and index > 0) or (
        shape in ("tree", SIM_ROUTERS) and index >= _peers_count(count)
    )
    # Of those below routers every second is a peer.
    return WhatAmI.CLIENT if is_client and (shape != SIM_ROUTERS or index % 2) else WhatAmI.PEER


def _listens(shape: str, index: int, count: int) -> bool:
    return _role(shape, index, count) is (WhatAmI.ROUTER if shape == SIM_ROUTERS else WhatAmI.PEER)


def _peers_count(count: int) -> int:
    return max(1, (count + 1) // 2)


def _in_subregion(settings: NodeSettings, rng: Random) -> NodeSettings:
    """Routers with two subregions, and everybody else in one of them."""
    if settings.whatami is WhatAmI.ROUTER:
        subregions = tuple((Filter(region_names=frozenset({name})),) for name in _REGIONS)
        return replace(settings, subregions=subregions)
    return settings.offering(region_name=rng.choice(_REGIONS))


def _endpoint(scheme: str, index: int) -> Endpoint:
    return Endpoint.parse(f"{scheme}/n{index}:7447")
