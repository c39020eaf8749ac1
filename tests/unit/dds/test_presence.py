"""What a bridge says of participants that it does not find."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from elea.dds.presence import Presence
from elea.dds.settings import DdsSettings

LATER_NS = 11_000_000_000


@pytest.mark.parametrize(
    ("said", "localhost_only", "lines"),
    [
        ({}, True, 1),  # who has nodes elsewhere does not know that the default is loopback
        ({"localhost_only": True}, True, 0),
        ({"localhost_only": False}, False, 0),
    ],
)
def test_a_bridge_that_was_told_to_use_loopback_advised_against_it(
    said: dict[str, Any], localhost_only: bool, lines: int, caplog: pytest.LogCaptureFixture
) -> None:
    """`elea demo` showed the advice, a line without origin, whenever Spark took long to start."""
    bridge = SimpleNamespace(
        settings=DdsSettings(said=said, localhost_only=localhost_only),
        session=SimpleNamespace(zid=lambda: "a1"),
        now_ns=lambda: 0,
    )
    presence = Presence(cast(Any, bridge))
    for now_ns in (0, LATER_NS, 2 * LATER_NS):
        presence.tell_quiet(now_ns)
    assert [record.message[:31] for record in caplog.records] == [
        "no DDS participant was found on"
    ] * lines
