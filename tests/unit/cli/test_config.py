"""`elea config explain`."""

from __future__ import annotations

import json

import pytest

from elea.cli.main import main


def test_what_is_set_where_it_comes_from_and_what_it_opens(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["config", "explain", "--id", "a1", "--cfg", "scouting/timeout:7"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert 'id = "a1"  (--id)' in shown
    assert "scouting/timeout = 7  (--cfg scouting/timeout)" in shown
    assert "what this opens:" in shown
    assert "  tcp/127.0.0.1:7447: open to this host only, not encrypted" in shown
    assert not any(line.startswith("scouting/delay") for line in shown)


def test_defaults_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "explain", "--all"]) == 0
    assert "transport/link/tx/lease = 10000  (default)" in capsys.readouterr().out


def test_a_configuration_that_would_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "explain", "-l", "tcp/0.0.0.0:7447"]) == 1
    shown = capsys.readouterr().out
    assert "it would not start: listen/endpoints: tcp/0.0.0.0:7447 is not encrypted" in shown
    assert main(["config", "explain", "-l", "tcp/0.0.0.0:7447", "--allow-plain"]) == 0
    assert main(["config", "explain", "--plugin", "no-such-service"]) == 1
    assert "plugins/no-such-service: it is required" in capsys.readouterr().out


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "explain", "--json", "-l", "tcp/0.0.0.0:7447"]) == 1
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"key": "mode", "value": "router", "origin": "elea router"} in lines
    assert {"exposes": "tcp/0.0.0.0:7447: open to other hosts, not encrypted"} in lines
    assert "--allow-plain" in lines[-1]["problem"]


def test_what_it_keeps(capsys: pytest.CaptureFixture[str]) -> None:
    storages = {
        "a": {"key_expr": "a/**", "volume": {"id": "disk", "dir": "x"}},
        "b": {"key_expr": "b", "volume": "other"},
    }
    kept = {"volumes": {"disk": {"backend": "fs"}}, "storages": storages}
    setting = f"plugins/storage_manager:{json.dumps(kept)}"
    assert main(["config", "explain", "--cfg", setting]) == 0
    shown = capsys.readouterr().out
    assert "  storage a: keeps a/** in fs, dir x\n" in shown
    assert "  storage b: keeps b in a volume that is not configured\n" in shown
    assert "storages/b/volume: saw 'other'; the volumes that are configured are disk" in shown
    assert "it would be left out" in shown
    assert main(["config", "explain", "--json", "--cfg", setting]) == 0
    assert '{"keeps": "storage a: keeps a/** in fs, dir x"}' in capsys.readouterr().out
    wrong = "plugins/storage_manager:{storages: {a: {volume: 'memory'}}}"
    assert main(["config", "explain", "--cfg", wrong]) == 1
    assert "it would not start: plugins/storage_manager/storages/a/key_expr" in (
        capsys.readouterr().out
    )


def test_secrets_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    setting = 'transport/auth/usrpwd:{user: "u", password: "geheim"}'
    assert main(["config", "explain", "--cfg", setting]) == 0
    shown = capsys.readouterr().out
    assert "geheim" not in shown
    assert "***" in shown


def test_a_verb_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config"]) == 2
    assert "VERB" in capsys.readouterr().err


def test_one_key_tells_what_it_does_and_what_does_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["config", "explain", "transport/link/rx/max_message_size"]) == 0
    shown = capsys.readouterr().out
    assert "longer ones are dropped and counted" in shown
    assert "in effect: 67108864  (default)" in shown
    assert main(["config", "explain", "transport/auth/pubkey/known_keys_file"]) == 0
    shown = capsys.readouterr().out
    assert "refused: nodes do not authenticate by public keys" in shown
    assert "any value but the default is refused at start" in shown
    assert main(["config", "explain", "--json", "mode"]) == 0
    assert json.loads(capsys.readouterr().out)["value"] == "router"


def test_a_key_without_effect_would_not_start(capsys: pytest.CaptureFixture[str]) -> None:
    setting = 'transport/auth/pubkey/known_keys_file:"/etc/keys"'
    assert main(["config", "explain", "--cfg", setting]) == 1
    assert "it would not start: transport/auth/pubkey/known_keys_file" in capsys.readouterr().out
