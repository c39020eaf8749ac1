"""Who may not do something learns it, by a line in its own log."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.unit.cli.ends import WAIT_S, eventually
from tests.unit.daemon.rig import options, running

import elea
from elea.cli.main import main
from elea.daemon.daemon import Daemon
from elea.link.refusal_log import RefusalLog

RULES = """access_control: {
  enabled: true, default_permission: "deny",
  rules: [{id: "open", permission: "allow", flows: ["ingress", "egress"], key_exprs: ["open/**"],
    messages: ["put", "delete", "declare_subscriber", "query", "reply", "declare_queryable"]}],
  subjects: [{id: "all"}],
  policies: [{rules: ["open"], subjects: ["all"]}],
}"""


@contextmanager
def guarded(tmp_path: Path) -> Iterator[Daemon]:
    file = tmp_path / "router.json5"
    file.write_text(f"{{{RULES}}}", encoding="utf-8")
    with running(options(config=str(file))) as daemon:
        yield daemon


def client(daemon: Daemon) -> elea.Session:
    config = {"mode": "client", "connect": {"endpoints": [daemon.locators()[0]]}}
    return elea.open(config)


def test_what_is_declared_and_published_is_told_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A control room that was refused printed `connected`, and stayed silent for ever."""
    with guarded(tmp_path) as daemon, client(daemon) as session:
        session.declare_subscriber("fleet/**")
        session.declare_queryable("fleet/map")
        session.liveliness().declare_token("fleet/here")
        for _ in range(3):
            session.put("fleet/pose", b"1")
        session.declare_subscriber("open/**")
        actions = ("declare_subscriber", "declare_queryable", "liveliness_token", "put")
        assert eventually(lambda: all(f": {one} on fleet/" in caplog.text for one in actions))
        assert list(session.get("fleet/map", timeout=WAIT_S)) == []  # so all of it was handled
    lines = [one.getMessage() for one in caplog.records if one.name == "elea.link"]
    assert len(lines) == 5
    assert all("refused by router " in one and "its audit names the rule" in one for one in lines)
    assert all(one.levelno == logging.WARNING for one in caplog.records if one.name == "elea.link")


@pytest.mark.parametrize("verb", ["ls", "graph", "top", "get"])
def test_operators_are_told_the_true_reason(
    verb: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It was `no node has an admin space`, of a router that has one."""
    more = {"top": ["--once", "--interval", "0.2"], "get": ["@/*/*"]}.get(verb, [])
    with guarded(tmp_path) as daemon:
        assert main([verb, "--connect", daemon.locators()[0], *more]) == 1
    assert ": query on @/*/*" in caplog.text  # which a command prints, as any Python program does
    assert "that may be read" in capsys.readouterr().err or verb == "get"


def test_rules_that_change_are_told_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with guarded(tmp_path) as daemon, client(daemon) as session:
        session.put("fleet/pose", b"1")
        assert eventually(lambda: ": put on fleet/pose" in caplog.text)
        assert daemon._driver is not None
        [face] = daemon._driver.node.guards._faces.values()
        assert len(face.told) == 1
        daemon._driver.change_policy(daemon._driver.node.guards.policy)
        assert face.told == set()


def test_a_neighbour_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    log = RefusalLog()
    for number in range(1_000):
        log(b"\x01", 0, "put", f"a/\x1b{number}" * 1_000)
        log(b"\x01", 0, "put", f"a/{number}")
    assert len(caplog.records) == 101
    assert caplog.records[-1].getMessage() == "further refusals are not logged"
    assert all("\x1b" not in one.getMessage() for one in caplog.records)
    assert max(len(one.getMessage()) for one in caplog.records) < 1_200
