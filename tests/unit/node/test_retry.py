"""The pauses between attempts to connect and to listen."""

from __future__ import annotations

import os
from typing import Any

import pytest

from elea.config.config import Config
from elea.node.settings import MS_NS, NodeSettings


@pytest.mark.parametrize(
    "retry",
    [
        {"period_init_ms": 0},
        {"period_max_ms": 0},
        {"period_increase_factor": 0},
        {"period_increase_factor": 0.1},
        {"period_increase_factor": 1e308},
    ],
    ids=str,
)
@pytest.mark.parametrize("side", ["connect", "listen"])
def test_attempts_without_a_pause_filled_a_core(side: str, retry: dict[str, Any]) -> None:
    """53 % of a core, and nothing in the log; a factor beyond any number ended the retries."""
    config = Config.from_mapping({side: {"retry": retry}})
    settings = NodeSettings.from_config(config, os.urandom)
    made = settings.retry if side == "connect" else settings.listen_retry
    pauses = [made.init_ns]
    for _ in range(20):
        pauses.append(made.pause_after(pauses[-1]))
    assert min(pauses) >= 10 * MS_NS
    assert max(pauses) <= 4_000 * MS_NS
