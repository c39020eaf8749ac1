"""Short verbs against a router whose access rules refuse them: told on stderr, exit code 1."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.cli.ends import WAIT_S
from tests.unit.daemon.rig import options, running

import elea
from elea.cli.main import main

RULES = """{access_control: {
  enabled: true, default_permission: "deny",
  rules: [{id: "open", permission: "allow", flows: ["ingress", "egress"], key_exprs: ["open/**"],
    messages: ["put", "delete", "declare_subscriber", "query", "reply", "declare_queryable"]}],
  subjects: [{id: "all"}],
  policies: [{rules: ["open"], subjects: ["all"]}],
}}"""


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[str]:
    file = tmp_path / "router.json5"
    file.write_text(RULES, encoding="utf-8")
    with running(options(config=str(file))) as daemon:
        yield daemon.locators()[0]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "elea", *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ELEA_NO_SCOUTING": "1"},
        check=False,
    )


def test_a_refused_put_was_silent(endpoint: str) -> None:
    """The command closed before the notice of the router arrived, with exit code 0."""
    done = run("put", "fleet/a", "b", "--json", "--connect", endpoint)
    assert done.returncode == 1
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.startswith("elea: refused by router ")
    assert line.endswith(
        ": put on fleet/a: its access rules do not allow it; its audit names the rule"
    )


@pytest.mark.parametrize(
    ("arguments", "action", "key"),
    [
        (["put", "fleet/a", "b"], "put", "fleet/a"),
        (["delete", "fleet/a"], "delete", "fleet/a"),
        (["get", "fleet/a?x=1"], "query", "fleet/a"),
        (["sub", "fleet/**", "--timeout", "0"], "declare_subscriber", "fleet/**"),
        (["put", "a", "b", "--cfg", 'namespace:"fleet"'], "put", "fleet/a"),
        (["pub", "fleet/a", "b", "--count", "2", "--interval", "0"], "put", "fleet/a"),
        (["queryable", "fleet/a", "b", "--timeout", "0"], "declare_queryable", "fleet/a"),
        (["querier", "fleet/a", "--count", "1"], "query", "fleet/a"),
        (["liveliness", "token", "fleet/a", "--timeout", "0"], "liveliness_token", "fleet/a"),
        (["liveliness", "get", "fleet/*"], "liveliness_query", "fleet/*"),
        (
            ["liveliness", "sub", "fleet/*", "--timeout", "0"],
            "declare_liveliness_subscriber",
            "fleet/*",
        ),
    ],
    ids=lambda one: " ".join(one[:2]) if isinstance(one, list) else None,
)
def test_what_is_refused_is_told_and_fails(
    endpoint: str,
    arguments: list[str],
    action: str,
    key: str,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*arguments, "--connect", endpoint]) == 1
    assert f": {action} on {key}: its access rules do not allow it" in caplog.text
    told = capsys.readouterr().err
    assert "no reply" not in told  # a second reason, and a wrong one
    assert "nothing is there" not in told


def test_a_recorder_that_was_refused_ended_with_0(endpoint: str, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    arguments = ["record", "fleet/**", "--to", str(tmp_path / "log"), "--duration", "0.5"]
    done = run(*arguments, "--connect", endpoint)
    assert done.returncode == 1
    assert "declare_subscriber on fleet/**: its access rules do not allow it" in done.stderr


def test_the_doctor_tells_of_a_refusal_once(endpoint: str) -> None:
    """It was logged, too, in the middle of the checks."""
    done = run("doctor", "--timeout", "5", "--connect", endpoint)
    assert done.returncode == 0
    assert done.stderr == ""
    assert "its access rules refuse declare_subscriber on elea/doctor/" in done.stdout


def test_values_without_a_subscriber_were_not_refused(
    endpoint: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """A publisher sends nothing while there is no subscriber, and `pub` ended with 0."""
    arguments = ["--count", "1", "--json", "--connect", endpoint]
    assert main(["pub", "fleet/a", "b", *arguments]) == 1
    assert capsys.readouterr().out == ""
    assert main(["pub", "open/a", "b", *arguments]) == 0
    assert '"sent":1,"dropped":0' in capsys.readouterr().out.replace(" ", "")
    assert caplog.text.count("refused by router") == 1


def test_what_is_allowed_is_done(
    endpoint: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    with elea.open({"mode": "client", "connect": {"endpoints": [endpoint]}}) as session:
        subscriber = session.declare_subscriber("open/**")
        assert main(["put", "open/a", "b", "--connect", endpoint]) == 0
        assert str(subscriber.recv(timeout=WAIT_S).key_expr) == "open/a"
        assert main(["delete", "open/a", "--connect", endpoint]) == 0
        assert main(["sub", "open/**", "--timeout", "0", "--connect", endpoint]) == 0
        assert session.info.refusals() == []
    assert "refused" not in caplog.text


def test_a_long_payload_of_low_priority_is_waited_for(
    endpoint: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The question to the router would overtake what is still queued."""
    (tmp_path / "long").write_bytes(bytes(4_000_000))
    arguments = ["put", "fleet/long", "--file", str(tmp_path / "long"), "--priority", "background"]
    assert main([*arguments, "--connect", endpoint]) == 1
    assert ": put on fleet/long: " in caplog.text


def test_a_program_asks_what_was_refused(endpoint: str) -> None:
    from elea.session.refusals import wait_decided

    with elea.open({"mode": "client", "connect": {"endpoints": [endpoint]}}) as session:
        session.put("fleet/a", b"")
        session.put("open/a", b"")
        assert wait_decided(session._context, "fleet/a", WAIT_S)
        [refusal] = session.info.refusals()
        assert (refusal.action, refusal.key_expr) == ("put", "fleet/a")
        assert [refusal.zid] == session.info.routers_zid()
        assert str(refusal).startswith(f"refused by router {refusal.zid}: put on fleet/a: ")


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (["ping"], "put on test/ping and declare_subscriber on test/pong"),
        (["ping", "--key", "open/a"], "declare_subscriber on test/pong"),
        (["ping", "--reply-key", "open/a"], "put on test/ping"),
        (["throughput", "send"], "put on test/thr"),
        (["throughput", "receive"], "declare_subscriber on test/thr"),
    ],
    ids=lambda one: " ".join(one[:2]) if isinstance(one, list) else None,
)
def test_who_was_refused_was_advised_to_start_the_other_side(
    endpoint: str, arguments: list[str], refused: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--timeout", "0.2", "--connect", endpoint]) == 1
    told = capsys.readouterr().err
    assert f"the access rules of a router refuse {refused}: have them allow it" in told
    assert "start `elea" not in told


def test_without_a_pong_the_advice_is_to_start_it(
    endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["--key", "open/a", "--reply-key", "open/b"]
    assert main(["ping", *keys, "--timeout", "0.2", "--connect", endpoint]) == 1
    assert "no subscriber for open/a: start `elea pong`" in capsys.readouterr().err
