"""Fixtures of the link tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.link.loops import LOOPS, Loop
from tests.link.rig import Case, Pair, Rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Callable[[Case], Rig]]:
    """Makes rigs that are closed at the end."""
    made: list[Rig] = []

    def make(case: Case) -> Rig:
        made.append(Rig(case, tmp_path))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def pair(rig: Callable[[Case], Rig]) -> Callable[[Case], Pair]:
    """Makes connected pairs."""
    return lambda case: rig(case).pair()


@pytest.fixture(params=LOOPS, ids=["thread", "asyncio"])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    """Each kind of poller."""
    made: Loop = request.param()
    yield made
    made.close()
