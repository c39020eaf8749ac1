"""A neighbour calls itself a router and tells of networks that do not exist, as fast as it can.

To a router that names its routers (`elea/roles`): it is not admitted, and as a peer it is not
believed. And to one that names none, as the healthy pair's: others are served meanwhile.
"""

from __future__ import annotations

import random
from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

from elea.wire.fields_hot import QOS_DECLARE
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam

THREAT: Final = "roles, floods of link state"
RSS_GROWTH: Final = 32 * MIB
SIZES: Final = {"small": 20, "full": 2_000}  # messages of 16 kB
_ROUTER: Final = 0
_PEER: Final = 1
_NODES: Final = 300
_LINKS: Final = 20
_ROLES: Final = {"elea/roles": {"router": [{"usernames": ["known"]}], "linkstate": []}}


def attack(target: Target, size: int) -> list[Check]:
    """Flood a router that believes it, then one that does not."""
    raw = Raw.connect(target.port, zid=b"\x66" * 16, whatami=_ROUTER)
    for number in range(size):
        raw.send([network(2 + number, seed=number)])
    served = until(lambda: target.counter("elea_sessions") >= 1)
    raw.close()
    with target.session() as session:  # what it told delays nobody
        subscriber = session.declare_subscriber("link_state/**")
        session.put("link_state/a", "x")
        arrived = until(lambda: subscriber.try_recv() is not None)
    checks = [Check("not_served", float(not served), 0), Check("lost", float(not arrived), 0)]
    if target.peer == "elea":
        with Target("elea", settings=_ROLES) as strict:
            checks += refused(strict, min(size, 300))
    return checks


def refused(target: Target, size: int) -> list[Check]:
    """Connect as routers, which is refused, and as a peer, whose word is not taken."""
    admitted = 0
    for _ in range(size):
        try:
            Raw.connect(target.port, whatami=_ROUTER).close()
        except ConnectionError:
            continue
        admitted += 1
    peer = Raw.connect(target.port, whatami=_PEER)
    peer.send([network(2 + number, seed=number) for number in range(size)])
    counted = target.counter("elea_links_refused_total", reason="role")
    taken = not until(lambda: _refused_count(target) >= size)
    peer.close()
    return [
        Check("routers_admitted", admitted, 0),
        Check("not_counted", float(counted < size), 0),
        Check("link_state_taken", float(taken), 0),
    ]


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


def _refused_count(target: Target) -> float:
    return target.counter("elea_refused_messages_total", action="link_state")
