"""A peer of Elea for the command to talk to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.unit.cli.ends import free_endpoint

import elea


@dataclass
class Hub:
    session: elea.Session
    endpoint: str

    @property
    def connect(self) -> tuple[str, str]:
        return ("--connect", self.endpoint)


@pytest.fixture
def hub() -> Iterator[Hub]:
    endpoint = free_endpoint()
    config = {"mode": "peer", "listen": {"endpoints": [endpoint]}}
    with elea.open(config) as session:
        yield Hub(session, endpoint)
