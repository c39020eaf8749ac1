"""Why `open` may not return: each reason once."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import cast

import pytest

from elea.errors import LinkError
from elea.ids import WhatAmI
from elea.link.discovery import Discovery
from elea.link.opening import Opening
from elea.link.pump import PEER_CLOSED
from elea.locator import Endpoint
from elea.node.neighbour import ConnectionState
from elea.node.node import Node
from elea.node.ports import ConnectFailed

REASON = "none of tcp/127.0.0.1:7447 may be dialled"


def opening(*, connect: tuple[str, ...]) -> Opening:
    settings = SimpleNamespace(connect=connect, exit_on_failure=True, scouting_delay_ns=0)
    node = SimpleNamespace(
        whatami=WhatAmI.CLIENT,
        settings=settings,
        connection_state=lambda: ConnectionState.FAILED,
    )
    made = Opening(cast(Node, node), threading.Lock(), lambda: 1, 0)
    for connector_id in range(3):
        made.noticed(
            ConnectFailed(connector_id, REASON, (), is_news=True, is_learned=True, is_final=True)
        )
    made.noticed(ConnectFailed(3, "busy", (), is_news=True, is_learned=True, is_final=True))
    return made


def test_one_reason_of_three_attempts_was_told_three_times() -> None:
    discovery = cast(Discovery, SimpleNamespace(nobody=lambda: "no router answers"))
    with pytest.raises(LinkError) as scouted:
        opening(connect=()).is_over(0, discovery)
    assert str(scouted.value) == (
        f"no router answers; not connected: {REASON}; not connected: busy"
    )
    with pytest.raises(LinkError) as configured:
        opening(connect=("tcp/127.0.0.1:1",)).is_over(0, None)
    assert str(configured.value) == f"cannot connect: {REASON}; busy"


def test_an_open_that_retries_for_ever_said_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """`connect/timeout_ms` -1 with `exit_on_failure`: the wait had no line in any log."""
    waiting = opening(connect=("tcp/127.0.0.1:1",))
    assert not caplog.records  # final failures are raised
    place = Endpoint.parse("tcp/127.0.0.1:1")
    retried = ConnectFailed(4, "refused", (place,), is_news=True, is_learned=False, is_final=False)
    waiting.noticed(retried)
    assert [one.getMessage() for one in caplog.records] == [
        "cannot connect to tcp/127.0.0.1:1: refused; retrying"
    ]


def test_a_tls_peer_that_hung_up_was_said_to_expect_tls(caplog: pytest.LogCaptureFixture) -> None:
    """The usual reason is our certificate: the hint said `tls/`, which it was."""
    waiting = opening(connect=("tls/127.0.0.1:1",))
    places = (Endpoint.parse("tls/127.0.0.1:1"),)
    waiting.noticed(
        ConnectFailed(4, PEER_CLOSED, places, is_news=True, is_learned=False, is_final=False)
    )
    (line,) = [one.getMessage() for one in caplog.records]
    assert "does not accept our certificate" in line
    assert "expect another scheme" not in line
