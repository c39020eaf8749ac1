"""Somebody calls itself a router and tells of networks that do not exist, as fast as it can."""

from __future__ import annotations

import random
from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

from elea.wire.fields_hot import QOS_DECLARE
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam

THREAT: Final = "floods of link state"
RSS_GROWTH: Final = 32 * MIB
SIZES: Final = {"small": 20, "full": 2_000}  # messages of 16 kB
_ROUTER: Final = 0
_NODES: Final = 300
_LINKS: Final = 20


def attack(target: Target, size: int) -> list[Check]:
    raw = Raw.connect(target.port, zid=b"\x66" * 16, whatami=_ROUTER)
    for number in range(size):
        raw.send([network(2 + number, seed=number)])
    served = until(lambda: target.counter("elea_sessions") >= 1)
    raw.close()
    with target.session() as session:  # nobody has to wait for what was told
        subscriber = session.declare_subscriber("link_state/**")
        session.put("link_state/a", "x")
        arrived = until(lambda: subscriber.try_recv() is not None)
    return [Check("not_served", float(not served), 0), Check("lost", float(not arrived), 0)]


def network(sn: int, seed: int) -> Oam:
    """Routers that are all linked both ways, anew each time."""
    rng = random.Random(seed)
    links: dict[int, set[int]] = {number: set() for number in range(_NODES)}
    for number in links:
        for _ in range(_LINKS // 2):
            other = rng.randrange(_NODES)
            if other != number:
                links[number].add(other)
                links[other].add(number)
    states = [LinkState(0, sn, b"\x66" * 16, 1, None, sorted(links[0]))]
    for number in range(1, _NODES):
        zid = number.to_bytes(8, "big") + b"made up"
        states.append(LinkState(number, sn, zid, 1, None, sorted(links[number])))
    return Oam(ID_LINKSTATE, LinkStateList(states), QOS_DECLARE)
