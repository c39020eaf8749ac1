"""`elea acl`: answers with reasons."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from elea.cli.main import main
from elea.daemon.audit import START, chained

CONFIG: dict[str, Any] = {
    "access_control": {
        "enabled": True,
        "default_permission": "deny",
        "rules": [
            {
                "id": "own",
                "permission": "allow",
                "messages": ["put", "declare_subscriber"],
                "flows": ["ingress"],
                "key_exprs": ["fleet/${username}/**"],
            },
            {
                "id": "secret",
                "permission": "deny",
                "messages": ["put"],
                "key_exprs": ["fleet/*/key"],
            },
        ],
        "subjects": [{"id": "drivers", "usernames": ["anna"], "link_protocols": ["tls"]}],
        "policies": [{"rules": ["own", "secret"], "subjects": ["drivers"]}],
    }
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "router.json5"
    path.write_text(json.dumps(CONFIG))
    return str(path)


ANNA = ["--subject", "user=anna,protocol=tls"]


def test_what_is_allowed_names_its_rule(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["acl", "explain", config, *ANNA, "--flow", "ingress", "put", "fleet/anna/pose"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ingress: allowed by rule own: allowed on fleet/anna/**",
        "  subjects: drivers",
        "  rules for put: allow own, deny secret",
    ]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ([*ANNA, "--flow", "ingress", "put", "fleet/anna/key"], "secret"),
        ([*ANNA, "--flow", "ingress", "put", "fleet/**"], "secret"),
        ([*ANNA, "--flow", "ingress", "query", "fleet/anna/pose"], None),
        (["--subject", "user=otto,protocol=tls", "put", "fleet/otto/pose"], None),
        (["put", "fleet/anna/pose"], None),
    ],
)
def test_what_is_denied_says_so(
    arguments: list[str], rule: str | None, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["acl", "explain", config, "--json", *arguments]) == 1
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["rule"] for one in records} == {rule}
    assert not any(one["allowed"] for one in records)


def test_both_ways_must_be_allowed(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["acl", "explain", config, *ANNA, "declare_subscriber", "fleet/anna/*"]) == 1
    out = capsys.readouterr().out
    assert "ingress: allowed by rule own" in out
    assert "egress: denied by the default" in out


def test_without_access_control_all_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "open.json5"
    path.write_text("{}")
    assert main(["acl", "explain", str(path), "put", "a"]) == 0
    assert "access control is not enabled" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--subject", "name=anna", "put", "a"], "legal are user=..., cert=..."),
        (["--subject", "zid=XYZ", "put", "a"], "XYZ"),
        (["put", "a//b"], "a//b"),
    ],
)
def test_a_question_that_makes_no_sense_is_no_answer(
    arguments: list[str], complaint: str, config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["acl", "explain", config, *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_wrong_usage(config: str) -> None:
    assert main(["acl", "explain", config, "fly", "a"]) == 2
    assert main(["acl", "explain", "no-such-file", "put", "a"]) == 2


def test_an_audit_file_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "audit"
    first, digest = chained({"event": "a"}, START)
    second, _ = chained({"event": "b"}, digest)
    file.write_text(f"{first}\n{second}\n")
    assert main(["acl", "verify", str(file)]) == 0
    file.write_text(f"{second}\n{first}\n")
    assert main(["acl", "verify", str(file)]) == 1
    assert "a line is missing before line 2" in capsys.readouterr().out
    assert main(["acl", "verify", str(tmp_path / "none")]) == 2
