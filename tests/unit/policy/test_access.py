"""Access rules: how they are read, whom they are about, what they decide."""

from __future__ import annotations

from typing import Any

import pytest

from elea.config.config import Config
from elea.errors import ConfigError
from elea.policy.access import AccessControl
from elea.policy.actions import ACTIONS, Action, Flow
from elea.policy.identity import Identity, LinkIdentity

RULE: dict[str, Any] = {
    "id": "r",
    "permission": "allow",
    "messages": ["put"],
    "key_exprs": ["a/**"],
}
POLICY: dict[str, Any] = {"rules": ["r"], "subjects": ["all"]}


def control(
    *rules: dict[str, Any], subjects: list[dict[str, Any]] | None = None, **more: Any
) -> AccessControl:
    given = {
        "enabled": True,
        "rules": list(rules),
        "subjects": subjects or [{"id": "all"}],
        "policies": [{**POLICY, "rules": [one["id"] for one in rules]}],
        **more,
    }
    made = AccessControl.from_config(Config.from_mapping({"access_control": given}))
    assert made is not None
    return made


def may(
    access_control: AccessControl, key: str, identity: Identity | None = None, action: str = "put"
) -> bool:
    access = access_control.access(identity or Identity(zid="1"), Flow.INGRESS)
    return access.decide(Action(action), key).allowed


def test_nothing_is_checked_unless_it_is_enabled() -> None:
    assert AccessControl.from_config(Config()) is None


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rules": None}, "access_control/rules: .*needs rules, subjects and policies"),
        ({"subjects": None}, "access_control/subjects: .*write \\[\\] for a list"),
        ({"policies": None}, "access_control/policies"),
        ({"rules": [RULE, RULE]}, "'r' used twice"),
        ({"subjects": [{"id": "all"}, {"id": "all"}]}, "'all' used twice"),
        ({"subjects": [{"id": " "}]}, "an id is empty"),
        ({"policies": [{"rules": ["x"], "subjects": ["all"]}]}, "'x' is none of the ids in"),
        ({"policies": [{"rules": ["r"], "subjects": ["x"]}]}, "'x' is none of the ids in"),
        ({"policies": [{"rules": [], "subjects": ["all"]}]}, "names no rules"),
        ({"policies": [{"rules": ["r"], "subjects": []}]}, "names no subjects"),
        ({"rules": [{**RULE, "key_exprs": ["a//b"]}]}, "key expression"),
        ({"rules": [{**RULE, "key_exprs": ["a/${name}"]}]}, "key expression"),
        ({"rules": [{k: v for k, v in RULE.items() if k != "key_exprs"}]}, "'r' names no key"),
        ({"rules": [{**RULE, "messages": ["push"]}]}, "expected one of"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, Any], complaint: str) -> None:
    given = {"enabled": True, "rules": [RULE], "subjects": [{"id": "all"}], "policies": [POLICY]}
    changed = {name: value for name, value in {**given, **changes}.items() if value is not None}
    with pytest.raises(ConfigError, match=complaint):
        AccessControl.from_config(Config.from_mapping({"access_control": changed}))


def test_allow_by_inclusion_and_deny_by_intersection() -> None:
    rules = control(RULE, {**RULE, "id": "d", "permission": "deny", "key_exprs": ["a/b/c"]})
    assert may(rules, "a/x")
    assert may(rules, "a/x/*")
    assert not may(rules, "**")  # wider than what is allowed
    assert not may(rules, "a/b/c")
    assert not may(rules, "a/**")  # has a key in common with what is denied
    assert not may(rules, "b")


def test_a_deny_rule_of_any_subject_counts() -> None:
    """Eclipse would let the subject that allows overrule the other."""
    rules = control(
        RULE,
        {**RULE, "id": "d", "permission": "deny"},
        subjects=[{"id": "all"}, {"id": "anna", "usernames": ["anna"]}],
        policies=[
            {"rules": ["r"], "subjects": ["all"]},
            {"rules": ["d"], "subjects": ["anna"]},
        ],
    )
    assert may(rules, "a/x")
    assert not may(rules, "a/x", Identity(zid="1", user="anna"))


def test_the_default_decides_for_strangers() -> None:
    deny = {**RULE, "permission": "deny"}
    some = [{"id": "all", "usernames": ["anna"]}]
    assert may(control(deny, subjects=some, default_permission="allow"), "a/x")
    assert not may(control(RULE, subjects=some), "a/x")


def test_flows_and_messages() -> None:
    rules = control({**RULE, "flows": ["egress"], "messages": ["put", "reply"]})
    access = rules.access(Identity(zid="1"), Flow.EGRESS)
    assert [one.value for one in ACTIONS if access.decide(one, "a/x").allowed] == ["put", "reply"]
    assert not may(rules, "a/x")


@pytest.mark.parametrize("default", ["allow", "deny"])
def test_a_message_of_no_known_kind_is_denied(default: str) -> None:
    rules = control(RULE, default_permission=default)
    assert not rules.access(Identity(zid="1"), Flow.INGRESS).decide(Action.UNKNOWN, "a/x").allowed


@pytest.mark.parametrize(
    ("template", "user", "cert", "allowed", "denied"),
    [
        ("t/${username}/**", "anna", None, ["t/anna", "t/anna/x"], ["t/otto", "t/*", "t/*/x"]),
        ("t/${username}/**", None, "anna", [], ["t/anna", "t/*", "t"]),
        ("t/${cert_common_name}", None, "robot", ["t/robot"], ["t/other"]),
        ("t/x-${username}", "anna", None, ["t/x-anna"], ["t/anna", "t/x-otto"]),
        ("t/${username}", "a/b", None, [], ["t/a/b", "t/a"]),
        ("t/${username}", "*", None, [], ["t/*", "t/a"]),
        ("t/${username}", "**", None, [], ["t/a/b", "t/a"]),
        ("t/${username}", "$*", None, [], ["t/a"]),
        ("t/${username}", "", None, [], ["t"]),
        ("t/${zid}", None, None, ["t/1"], ["t/2"]),
        ("${username}/${cert_common_name}", "a", "b", ["a/b"], ["b/a"]),
    ],
)
def test_placeholders(
    template: str, user: str | None, cert: str | None, allowed: list[str], denied: list[str]
) -> None:
    link = LinkIdentity(protocol="tls", common_name=cert)
    who = Identity(zid="1", user=user, links=(link,))
    for field in ("key_exprs", "key_expr_templates"):
        rule = {name: value for name, value in RULE.items() if name != "key_exprs"}
        rules = control({**rule, field: [template]})
        assert [key for key in (*allowed, *denied) if may(rules, key, who)] == allowed


@pytest.mark.parametrize("user", [None, "a/b", "*"])
def test_a_deny_rule_without_a_name_denies_every_name(user: str | None) -> None:
    rule = {**RULE, "permission": "deny", "key_exprs": ["t/${username}/**", "x-${username}"]}
    rules = control(rule, default_permission="allow")
    who = Identity(zid="1", user=user)
    assert not may(rules, "t/anna/x", who)
    assert not may(rules, "x-anna", who)
    assert may(rules, "other", who)


def test_subjects_go_by_what_a_link_has() -> None:
    link = LinkIdentity(protocol="tls", interfaces=("eth0",), common_name="t42")
    who = Identity(zid="a1", user="anna", links=(link, LinkIdentity(protocol="tcp")))
    found = {
        "user": {"usernames": ["otto", "anna"]},
        "cert": {"cert_common_names": ["t42"]},
        "prefix": {"cert_common_name_prefixes": ["t"]},
        "face": {"interfaces": ["eth0", "lo"]},
        "link": {"link_protocols": ["tls"], "interfaces": ["eth0"]},
        "zid": {"zids": ["a1"]},
        "all": {},
    }
    missed = {
        "user-": {"usernames": ["otto"]},
        "prefix-": {"cert_common_name_prefixes": ["x"]},
        "links-": {"link_protocols": ["tcp"], "interfaces": ["eth0"]},  # not of one link
        "both-": {"usernames": ["anna"], "zids": ["b2"]},
    }
    subjects = [{"id": name, **some} for name, some in {**found, **missed}.items()]
    rules = control(RULE, subjects=subjects)
    assert rules.subjects(who) == tuple(found)


def test_a_subscription_is_denied_by_a_rule_for_all_of_it_alone() -> None:
    denied = {**RULE, "id": "d", "permission": "deny", "messages": ["declare_subscriber"]}
    rules = control({**denied, "key_exprs": ["a/b/**"]}, default_permission="allow")
    ingress, egress = (rules.access(Identity(zid="1"), flow) for flow in Flow)
    assert ingress.subscribe("a/**").allowed
    assert ingress.subscribe("a/**").why == (
        "allowed without samples on a/b/**, where it is denied"
    )
    assert not ingress.subscribe("a/b/*").allowed
    assert not ingress.decide(Action.DECLARE_SUBSCRIBER, "a/**").allowed  # not all of it
    for action in (Action.PUT, Action.DELETE):
        assert not egress.decide(action, "a/b/c").allowed
        assert not egress.decide(action, "a/*/c").allowed
        assert egress.decide(action, "a/c").allowed
        assert ingress.decide(action, "a/b/c").allowed  # it may publish there
    assert egress.decide(Action.REPLY, "a/b/c").allowed
