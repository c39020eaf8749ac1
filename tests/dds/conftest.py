"""One bridge, one DDS peer and two sessions for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest
from tests.dds.peers import Peer, bridge, kept_domain, matched_here, peer, session_pair, until

from elea.dds.bridge import Bridge
from elea.dds.routes import Direction
from elea.session.session import Session


@dataclass
class Rig:
    """A bridge on the session `near`, a user's session `far`, and a DDS participant."""

    near: Session
    far: Session
    bridge: Bridge
    peer: Peer
    domain: int

    def route(self, direction: str, key: str) -> object:
        """The route of a key, once it is there."""

        def found() -> object:
            return next(
                (
                    one
                    for id_, one in list(self.bridge.routes.items())
                    if id_.key == key and id_.direction is Direction(direction)
                ),
                None,
            )

        return until(found, f"route {direction} {key}")

    def matched_here(self, key: str, count: int) -> None:
        """Wait until the mirrors of a key have matched so many endpoints, in all."""
        matched_here(self.bridge, key, count)

    def matched(self, *names: str) -> None:
        """Wait until endpoints of the peer are matched."""
        for name in names:
            until(partial(self.peer.matched, name), f"match of {name}")


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with (
        kept_domain() as domain,
        session_pair() as (near, far),
        bridge(near, domain, linger=0.5, pattern_writers=True, instances=["^Keys$"]) as made,
        peer(domain) as other,
    ):
        yield Rig(near, far, made, other, domain)
