"""The attacks at small size, one after the other, against the same routers.

Nothing here depends on how fast the machine is: what is asserted is that nobody healthy loses
anything, that memory stays within bounds, that the hostile session is refused, cut or closed, and
that it is counted.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attack.harness import Healthy, Target
from attack.run import ATTACKS, assault, load, needs_own, target_for

SERVICES = [name for name in ATTACKS if needs_own(name)]
PLAIN = [name for name in ATTACKS if name not in SERVICES and not hasattr(load(name), "SCHEME")]


@pytest.fixture(scope="module")
def plain() -> Iterator[Target]:
    # Of all attacks only this one needs settings, and they hurt none of the others.
    with target_for("scouting", "elea") as target:
        yield target


@pytest.fixture(scope="module")
def healthy(plain: Target) -> Iterator[Healthy]:
    one = Healthy(plain)
    try:
        yield one
    finally:
        one.kill()


@pytest.mark.parametrize("name", PLAIN)
def test_the_router_keeps_its_bounds(name: str, plain: Target, healthy: Healthy) -> None:
    broken = [one for one in assault(name, plain, "small") if not (one.held or one.timed)]
    assert broken == []


def test_nobody_healthy_lost_anything_meanwhile(healthy: Healthy) -> None:
    figures = healthy.stop()
    assert figures["sent"] > 100
    assert figures["lost"] == 0


@pytest.mark.parametrize("name", SERVICES)
def test_services_keep_their_bounds(name: str) -> None:
    with target_for(name, "elea") as target:
        broken = [one for one in assault(name, target, "small") if not (one.held or one.timed)]
    assert broken == []


def test_a_tls_listener_keeps_its_bounds() -> None:
    with target_for("silent_tls", "elea") as target:
        broken = [
            one for one in assault("silent_tls", target, "small") if not (one.held or one.timed)
        ]
    assert broken == []
