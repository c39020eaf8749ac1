"""`elea trace` where access rules apply."""

from __future__ import annotations

import pytest
from tests.unit.cli.ends import eventually
from tests.unit.daemon.rig import ask, client_of, options, root_of, running

from elea.cli.main import main

RULES = """access_control: {
  enabled: true, default_permission: "allow",
  rules: [
    {id: "r1", permission: "deny", messages: ["put"], flows: ["egress"], key_exprs: ["secret/**"]},
    {id: "r2", permission: "deny", messages: ["put"], flows: ["ingress"], key_exprs: ["closed/**"]},
  ],
  subjects: [{id: "all"}], policies: [{rules: ["r1", "r2"], subjects: ["all"]}]}"""


def test_rules_on_the_way(capsys: pytest.CaptureFixture[str]) -> None:
    key, _, value = RULES.partition(":")
    with running(options(f"{key}:{value}", id="a1")) as daemon, client_of(daemon) as client:
        kept = [client.declare_subscriber(one) for one in ("secret/x", "closed/x", "open/x")]
        assert eventually(lambda: ask(client, f"{root_of(daemon)}/subscriber/open/x"))
        at = ["--connect", daemon.locators()[0]]
        assert main(["trace", "secret/x", *at]) == 1
        assert "does not get it: denied on secret/** (rule r1)" in capsys.readouterr().out
        assert main(["trace", "closed/x", *at]) == 1
        assert "lets nothing in: denied on closed/** (rule r2)" in capsys.readouterr().out
        assert main(["trace", "open/x", *at]) == 0
        assert len(kept) == 3
