"""What `--log elea.link=debug` prints of neighbours."""

from __future__ import annotations

import logging

import pytest
from tests.unit.cli.ends import eventually, free_endpoint

import elea


def test_neighbours_were_logged_as_raw_objects(caplog: pytest.LogCaptureFixture) -> None:
    endpoint = free_endpoint()
    with (
        caplog.at_level(logging.DEBUG, "elea.link"),
        elea.open({"listen": {"endpoints": [endpoint]}}) as listener,
    ):
        with elea.open({"mode": "client", "connect": {"endpoints": [endpoint]}}) as client:
            zid = str(client.zid())
            assert eventually(lambda: f"connected to client {zid}" in caplog.text)
        assert eventually(lambda: f"disconnected from client {zid}: " in caplog.text)
        assert not listener.is_closed()
    assert "Neighbour" not in caplog.text
    assert "b'" not in caplog.text
