"""A fleet with more tokens than a stranger may declare is seen whole by a client of its router."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from tests.interop.ends import ELEA, free_endpoint, session

import elea.ros as ros
from elea.limits import DEFAULT_LIMITS
from elea.ros.formats.tokens import Kind, Token

SESSIONS = 6


@pytest.mark.line("R2-901", "R2-152")
def test_a_large_fleet_is_seen_whole() -> None:
    count = DEFAULT_LIMITS.declarations_count // SESSIONS + 200
    endpoint = free_endpoint()
    with ExitStack() as stack:
        stack.enter_context(session(ELEA, "router", listen=endpoint))
        kept = []
        for _ in range(SESSIONS):
            robots = stack.enter_context(session(ELEA, "client", connect=endpoint))
            zid = str(robots.zid())
            for number in range(count):
                token = Token(0, zid, number, number, Kind.NODE, f"/r{number}", "n")
                kept.append(robots.liveliness().declare_token(token.key))
        with ros.Context(connect=endpoint, ask_fleet=False) as context:
            total = SESSIONS * count
            assert context.graph.wait_until(lambda: len(context.graph._tokens) == total, 120)
        assert total > DEFAULT_LIMITS.declarations_count
