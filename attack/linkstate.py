"""Anybody who calls itself a router, and floods of link state from those who may not tell any."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

from elea.wire.network.linkstate import LinkState, LinkStateList
from elea.wire.network.oam import ID_LINKSTATE, Oam

THREAT: Final = "roles"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 20, "full": 300}
_ROUTER: Final = 0
_PEER: Final = 1
_NODES: Final = 300
_LINKS: Final = 20


def services(folder: Path, port: int) -> dict[str, object]:
    """The routers that are known: none."""
    return {"elea/roles": {"router": [{"usernames": ["nobody"]}], "linkstate": []}}


def attack(target: Target, size: int) -> list[Check]:
    """Connect as routers, which is refused, and as a peer, whose word is not taken."""
    admitted = 0
    for _ in range(size):
        try:
            Raw.connect(target.port, whatami=_ROUTER).close()
        except ConnectionError:
            continue
        admitted += 1
    flood = Oam(ID_LINKSTATE, LinkStateList(tuple(_states())))
    peer = Raw.connect(target.port, whatami=_PEER)
    peer.send([flood] * size)
    refused = target.counter("elea_links_refused_total", reason="role")
    taken = not until(lambda: _refused_count(target) >= size)
    peer.close()
    return [
        Check("routers_admitted", admitted, 0),
        Check("not_counted", float(refused < size), 0),
        Check("link_state_taken", float(taken), 0),
    ]


def _refused_count(target: Target) -> float:
    return target.counter("elea_refused_messages_total", action="link_state")


def _states() -> list[LinkState]:
    zids = [os.urandom(16) for _ in range(_NODES)]
    return [
        LinkState(
            psid=number,
            sn=1,
            zid=zid,
            whatami=1,
            links=tuple((number + step) % _NODES for step in range(1, _LINKS + 1)),
        )
        for number, zid in enumerate(zids)
    ]


SERVICES: Final = services
