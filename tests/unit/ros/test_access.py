"""Access rules of a router from a policy of SROS 2, as `elea acl` reads them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from elea.cli.main import main
from elea.errors import ConfigError, EleaError
from elea.ros.access import access_control, read_only

line = pytest.mark.line
POLICY = """<policy version="0.2.0"><enclaves><!-- two -->
  <enclave path="/cell/arm"><profiles><profile ns="/cell" node="arm">
    <topics publish="ALLOW"><topic>pose</topic><topic>~/state</topic></topics>
    <topics subscribe="ALLOW"><topic>/clock</topic><topic>sensors/*</topic></topics>
    <topics subscribe="DENY"><topic>sensors/secret</topic></topics>
    <services reply="ALLOW"><service>~/get_parameters</service></services>
    <services request="ALLOW"><service>/map/load</service></services>
    <actions execute="ALLOW"><action>move</action></actions>
  </profile></profiles></enclave>
  <enclave path="/operator"><profiles><profile ns="/" node="panel">
    <actions call="ALLOW"><action>/cell/move</action></actions>
  </profile></profiles></enclave>
</enclaves></policy>"""
ARM, PANEL = "/cell/arm", "/operator"
ALLOWED, DENIED = 0, 1


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("acl")
    (place / "router.json5").write_text(json.dumps({"access_control": access_control(POLICY, 3)}))
    return place / "router.json5"


def explained(config: Path, subject: str, flow: str, action: str, key: str) -> int:
    options = ["--subject", f"cert={subject}", "--flow", flow]
    return main(["acl", "explain", str(config), *options, action, key])


@line("R2-815")
@pytest.mark.parametrize(
    ("subject", "flow", "action", "key", "verdict"),
    [
        (ARM, "ingress", "put", "3/cell/pose/T/H", ALLOWED),
        (ARM, "ingress", "put", "3/cell/pose/T/H/_buf_cpu", ALLOWED),
        (ARM, "ingress", "reply", "3/cell/pose/T/H/@adv/pub/a/1/_", ALLOWED),
        (ARM, "egress", "declare_subscriber", "3/cell/pose/T/*", ALLOWED),
        (ARM, "ingress", "put", "3/cell/arm/state/T/H", ALLOWED),
        (ARM, "ingress", "put", "0/cell/pose/T/H", DENIED),  # another domain
        (ARM, "ingress", "put", "3/clock/T/H", DENIED),
        (ARM, "ingress", "declare_subscriber", "3/clock/T/*", ALLOWED),
        (ARM, "egress", "put", "3/clock/T/H", ALLOWED),
        (ARM, "egress", "put", "3/cell/sensors/left/T/H", ALLOWED),
        (ARM, "egress", "put", "3/cell/sensors/secret/T/H", DENIED),
        (ARM, "ingress", "declare_queryable", "3/cell/arm/get_parameters/T/H", ALLOWED),
        (ARM, "ingress", "query", "3/map/load/T/H", ALLOWED),
        (ARM, "ingress", "query", "3/map/save/T/H", DENIED),
        (ARM, "egress", "query", "3/cell/move/_action/send_goal/T/H", ALLOWED),
        (ARM, "ingress", "put", "3/cell/move/_action/feedback/T/H", ALLOWED),
        (PANEL, "ingress", "query", "3/cell/move/_action/send_goal/T/H", ALLOWED),
        (PANEL, "egress", "put", "3/cell/move/_action/status/T/H", ALLOWED),
        (PANEL, "ingress", "put", "3/cell/pose/T/H", DENIED),
        (PANEL, "ingress", "liveliness_token", "@ros2_lv/3/a/0/0/NN/%/%/panel", ALLOWED),
        (PANEL, "ingress", "liveliness_token", "@ros2_lv/0/a/0/0/NN/%/%/panel", DENIED),
        ("/stranger", "ingress", "put", "3/cell/pose/T/H", DENIED),
    ],
)
def test_a_policy_becomes_rules(
    config: Path, subject: str, flow: str, action: str, key: str, verdict: int
) -> None:
    assert explained(config, subject, flow, action, key) == verdict


@line("R2-815")
@pytest.mark.parametrize(
    ("flow", "action", "key", "verdict"),
    [
        ("ingress", "declare_subscriber", "0/robot/imu/T/*", ALLOWED),
        ("egress", "put", "0/robot/imu/T/H", ALLOWED),
        ("ingress", "put", "0/robot/cmd/T/H", DENIED),
        ("ingress", "query", "0/robot/reset/T/H", DENIED),
        ("ingress", "liveliness_token", "@ros2_lv/0/a/0/1/MS/%/%/n/%t/T/H/q", ALLOWED),
        ("ingress", "liveliness_token", "@ros2_lv/0/a/0/1/MP/%/%/n/%t/T/H/q", DENIED),
        ("egress", "liveliness_token", "@ros2_lv/0/a/0/1/MP/%/%/n/%t/T/H/q", ALLOWED),
        ("ingress", "declare_liveliness_subscriber", "@ros2_lv/0/**", ALLOWED),
    ],
)
def test_an_observer_changes_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    flow: str,
    action: str,
    key: str,
    verdict: int,
) -> None:
    assert main(["acl", "ros2", "--read-only", "dashboard"]) == 0
    said = capsys.readouterr().out
    assert json.loads(said) == {"access_control": read_only("dashboard")}
    (tmp_path / "router.json5").write_text(said)
    assert explained(tmp_path / "router.json5", "dashboard", flow, action, key) == verdict


@pytest.mark.parametrize(
    ("policy", "reason"),
    [
        ("", "expected XML"),
        ("<policy>", "expected XML"),
        ("<rules/>", "expected <policy><enclaves>"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><policy/>', "entities"),
        ("<policy>" + " " * 1_100_000 + "</policy>", "exceeds"),
        (POLICY.replace('path="/operator"', ""), "has no path"),
        (POLICY.replace("DENY", "MAYBE"), "expected ALLOW or DENY"),
        (POLICY.replace("<services reply", "<services publish"), "has no permission"),
        (POLICY.replace("/map/load", "/map//load"), "expected a ROS name"),
        (POLICY.replace("/map/load", "/map/lo*d"), "expected a ROS name"),
    ],
)
def test_what_is_no_policy_is_refused(policy: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        access_control(policy)


def test_the_command_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.xml").write_text(POLICY)
    assert main(["acl", "ros2", str(tmp_path / "policy.xml"), "--domain", "3"]) == 0
    assert json.loads(capsys.readouterr().out) == {"access_control": access_control(POLICY, 3)}
    assert main(["acl", "ros2"]) == 2
    assert "give a policy, or --read-only" in capsys.readouterr().err
    assert main(["acl", "ros2", str(tmp_path / "none.xml")]) == 2
    with pytest.raises(EleaError):
        access_control(POLICY, 500)
