"""Neighbours call themselves routers and tell of networks that do not exist, as fast as they can.

To a router that names none, as the healthy pair's: they flood it with link state, then send samples
in the name of every router they made up, so that it needs the tree of each, and ask it for the ways
between all of them. Others are served meanwhile, and each sample arrives once.

To a router that names its routers (`elea/roles`): they are not admitted, and as peers not believed.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Raw, Target, until

from elea.wire.data.put import Put
from elea.wire.fields import QOS_DECLARE, WireExpr
from elea.wire.network.declaration.subscriber import DeclareSubscriber
from elea.wire.network.declare import Declare
from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam
from elea.wire.network.push import Push

THREAT: Final = "roles, floods of link state"
RSS_GROWTH: Final = 48 * MIB
SIZES: Final = {"small": 20, "full": 2_000}  # messages of 16 kB
_ROUTER: Final = 0
_PEER: Final = 1
_NODES: Final = 300
_LINKS: Final = 20
_LARGE_NODES: Final = 1_500
_LARGE_LINKS: Final = 4
_TELLER: Final = b"\x66" * 16
_TREE_TELLER: Final = b"\x65" * 16
_OTHER: Final = b"\x67" * 16
_FAR: Final = b"\x68" * 16
_SOURCES: Final = 300  # routers of the large network that send
_KEY: Final = "link_state/far"
_QOS_BLOCK: Final = 0x0D  # of data that is not dropped
_ROLES: Final = {"elea/roles": {"router": [{"usernames": ["known"]}], "linkstate": []}}


def attack(target: Target, size: int) -> list[Check]:
    """Flood a router that believes it, then one that does not."""
    raw = Raw.connect(target.port, zid=_TELLER, whatami=_ROUTER)
    for number in range(size):
        raw.send([network(_TELLER, raw.peer_zid, number, _NODES, _LINKS)])
    served = until(lambda: target.counter("elea_sessions") >= 1)
    raw.close()
    with target.session() as session:  # what it told delays nobody
        subscriber = session.declare_subscriber("link_state/**")
        session.put("link_state/a", "x")
        arrived = until(lambda: subscriber.try_recv() is not None)
    checks = [Check("not_served", float(not served), 0), Check("lost", float(not arrived), 0)]
    if target.peer == "elea":
        checks += trees(target, size)
        with Target("elea", settings=_ROLES) as strict:
            checks += refused(strict, min(size, 300))
    return checks


def trees(target: Target, size: int) -> list[Check]:
    """Send in the name of many made-up routers to one that is made up behind another neighbour."""
    teller = Raw.connect(target.port, zid=_TREE_TELLER, whatami=_ROUTER)
    other = Raw.connect(target.port, zid=_OTHER, whatami=_ROUTER)
    own = teller.peer_zid
    teller.send([network(_TREE_TELLER, own, size, _LARGE_NODES, _LARGE_LINKS)])
    links = [
        LinkState(0, 2, _OTHER, 1, None, [1, 2]),
        LinkState(1, 1, own),
        LinkState(2, 1, _FAR, 1, None, [0]),
    ]
    wanted = Declare(DeclareSubscriber(0, WireExpr(0, _KEY)), qos=QOS_DECLARE, node_id=2)
    other.send([Oam(ID_LINKSTATE, LinkStateList(links), QOS_DECLARE), wanted])
    got: Counter[bytes] = Counter()

    def receive() -> bool:
        """Whether samples of a router that is far away come through."""
        teller.drain()
        for one in other.messages():
            if isinstance(one, Push) and isinstance(one.body, Put):
                got[one.body.payload] += 1
        return bool(got)

    deadline_s = time.monotonic() + PATIENCE_S
    while not receive() and time.monotonic() < deadline_s:  # until paths are computed
        teller.send([sample(1, b"probe")])
        time.sleep(0.05)
    for source in range(1, _SOURCES + 1):
        teller.send([sample(source, b"%d" % source)])
        receive()
    expected = {b"%d" % source for source in range(1, _SOURCES + 1)}
    until(lambda: receive() and set(got) >= expected)
    answers, served = successors(target)
    teller.close()
    other.close()
    twice = sum(got[one] - 1 for one in expected & set(got))
    return [
        Check("samples_of_made_up_routers_lost", len(expected - set(got)), 0),
        Check("samples_of_made_up_routers_twice", twice, 0),
        Check("successors_not_answered", float(answers == 0), 0),
        Check("not_served_meanwhile", float(not served), 0),
    ]


def successors(target: Target) -> tuple[int, bool]:
    """Ask for the way from every router to every other; whether others are served then."""
    with target.session() as asker, target.session() as session:
        everything = asker.get("@/*/router/route/successor/**", timeout=PATIENCE_S)
        subscriber = session.declare_subscriber("link_state/meanwhile")
        session.put("link_state/meanwhile", "x")
        served = until(lambda: subscriber.try_recv() is not None)
        first = next((one for one in everything if one.ok is not None), None)
    return int(first is not None), served


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
    peer.send([network(_TELLER, b"", number, _NODES, _LINKS) for number in range(size)])
    counted = target.counter("elea_links_refused_total", reason="role")
    taken = not until(lambda: _refused_count(target) >= size)
    peer.close()
    return [
        Check("routers_admitted", admitted, 0),
        Check("not_counted", float(counted < size), 0),
        Check("link_state_taken", float(taken), 0),
    ]


def sample(source: int, payload: bytes) -> Push:
    """A sample that entered the network at a made-up router."""
    return Push(WireExpr(0, _KEY), Put(payload), _QOS_BLOCK, None, source)


def network(teller: bytes, own: bytes, number: int, nodes: int, links_count: int) -> Oam:
    """Routers that are all linked both ways, anew each time; the first one to router `own`."""
    rng = random.Random(number)
    sn = number + 2
    links: dict[int, set[int]] = {number: set() for number in range(nodes)}
    for node in links:
        others = {(node + 1) % nodes}
        others |= {rng.randrange(nodes) for _ in range(links_count // 2 - 1)}
        for other in others - {node}:
            links[node].add(other)
            links[other].add(node)
    near = sorted(links[0]) + ([nodes] if own else [])
    states = [LinkState(0, sn, teller, 1, None, near)]
    if own:
        states.append(LinkState(nodes, 1, own))
    for node in range(1, nodes):
        zid = node.to_bytes(8, "big") + b"made up"
        states.append(LinkState(node, sn, zid, 1, None, sorted(links[node])))
    return Oam(ID_LINKSTATE, LinkStateList(states), QOS_DECLARE)


def _refused_count(target: Target) -> float:
    return target.counter("elea_refused_messages_total", action="link_state")
