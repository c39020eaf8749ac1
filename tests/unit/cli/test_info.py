from __future__ import annotations

import json

import pytest
from tests.unit.cli.conftest import Hub

from elea.cli.main import main


def test_who_is_connected(hub: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    zid = str(hub.session.zid())
    assert main(["info", *hub.connect]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:3] == ["mode: client", f"peer: {zid}"]
    assert f" to {hub.endpoint}, mtu " in lines[3]
    assert main(["info", "--json", *hub.connect]) == 0
    values = json.loads(capsys.readouterr().out)
    assert (values["mode"], values["routers"], values["peers"]) == ("client", [], [zid])
    assert values["transports"] == [{"zid": zid, "whatami": "peer", "is_qos": True}]
    assert values["links"][0]["dst"] == hub.endpoint


def test_nobody_is_connected(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--listen", "tcp/127.0.0.1:0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == ["mode: peer", "connected to no node"]
