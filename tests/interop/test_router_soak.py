"""Clients, peers and routers come and go at two Elea routers, and nothing of them stays."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from tests.interop.daemon import elea_router
from tests.interop.ends import ELEA, MODULES, eventually, free_endpoint, node_of, session
from tools import soak

TURNS = 150


@pytest.mark.line("M184")
@pytest.mark.parametrize("library", MODULES)
def test_coming_and_going_at_routers_leaves_nothing_behind(library: str) -> None:
    here = free_endpoint()
    with (
        elea_router() as outside,
        session(ELEA, "router", listen=here, connect=outside.endpoint) as inside,
    ):
        node = node_of(inside)
        module = MODULES[library]
        assert eventually(lambda: len(soak.told(module, here)) > 1)
        before = soak.told(module, here)
        churn = soak.Soak(module, [here, outside.endpoint], seed=len(library))
        for _ in range(TURNS):
            churn.turn()
        churn.leave()
        assert soak.remains(module, here, before) == {}
        # Nobody is left but the other router, nothing is open and nothing is waited for.
        assert eventually(lambda: len(node.neighbours()) == 1)
        assert [str(one) for one in inside.info.routers_zid()] == [outside.zid]
        assert eventually(node.routing.is_quiet)
        faces = node.routing.tables.faces.values()
        assert all(not face.aliases.peer for face in faces if face.spec.local)
        assert "Traceback" not in outside.said()
    assert node.is_empty()


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*more: str) -> Sequence[str]:
        with elea_router() as router:
            short = ["--seconds", "0.5", "--every-ms", "1"]
            assert soak.main([router.endpoint, *short, *more]) == 0
        return capsys.readouterr().out.splitlines()

    [line] = run("--seed", "3")
    assert json.loads(line)["left"] == {}
