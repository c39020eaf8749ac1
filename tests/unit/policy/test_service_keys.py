"""What services do on behalf of a neighbour is subject to its rules, whatever their keys."""

from __future__ import annotations

from typing import Any

import pytest

from elea.config.config import Config
from elea.policy.actions import Action, Flow
from elea.policy.identity import Identity
from elea.policy.owners import Owners
from elea.policy.policy import Policy
from elea.policy.service_keys import demands, only_reads

ALL = [
    *("put", "delete", "declare_subscriber", "query", "declare_queryable", "reply"),
    *("liveliness_token", "declare_liveliness_subscriber", "liveliness_query"),
]
MALLORY = Identity(zid="1", user="mallory")
ANNA = Identity(zid="2", user="anna")


def allow(*keys: str, messages: list[str] = ALL, **more: Any) -> dict[str, Any]:
    name = f"allow {keys}"
    return {"id": name, "permission": "allow", "messages": messages, "key_exprs": [*keys], **more}


def deny(*keys: str, messages: list[str] = ALL, **more: Any) -> dict[str, Any]:
    name = f"deny {keys}"
    return {"id": name, "permission": "deny", "messages": messages, "key_exprs": [*keys], **more}


def verdict(
    rules: list[dict[str, Any]],
    selector: str,
    *,
    action: Action = Action.QUERY,
    default: str = "allow",
    payload: bool = False,
    who: Identity = MALLORY,
) -> bool:
    config = {
        "enabled": True,
        "default_permission": default,
        "rules": rules,
        "subjects": [{"id": "mallory", "usernames": ["mallory"]}],
        "policies": [{"rules": [one["id"]], "subjects": ["mallory"]} for one in rules],
    }
    policy = Policy.from_config(Config.from_mapping({"access_control": config}))
    key, _, parameters = selector.partition("?")
    return policy.chain(who, Flow.INGRESS).verdict(action, key, 0, parameters, payload).allowed


PUTS = [
    "@elea/log/all/put/secret/pin",
    "@elea/log/*/put/secret/pin",
    "@elea/*/*/put/secret/pin",
    "@elea/l$*/*/pu$*/secret/pin",
    "@elea/log/*/put/**",
    "@elea/log/*/put/*/pin",
    "@elea/**/put/secret/pin",
    "@elea/log/**",
    "@elea/**",
    "@elea/log/*/*/secret/pin",
]


@pytest.mark.parametrize("key", PUTS)
@pytest.mark.parametrize("parameters", ["", "kind=delete", "kind=put", "zid=1;eid=2;sn=3"])
def test_a_denied_key_is_not_reached_through_a_recorder(key: str, parameters: str) -> None:
    for payload in (False, True):
        assert not verdict([deny("secret/**")], f"{key}?{parameters}", payload=payload)


def test_other_keys_are_reached_through_a_recorder() -> None:
    key = "@elea/log/*/put/fleet/1"
    assert verdict([deny("secret/**")], key, payload=True)
    assert verdict([deny("secret/**")], f"{key}?kind=delete")
    assert verdict([], "@elea/log/*/put/secret/pin", payload=True)
    assert verdict([deny("secret/**")], "@elea/log/*/put/secret/pin", payload=True, who=ANNA)


@pytest.mark.parametrize(
    ("allowed", "parameters", "payload", "expected"),
    [
        (["put"], "", True, True),
        (["put"], "kind=put", False, True),
        (["put"], "kind=delete", False, False),
        (["put"], "kind=delete", True, False),
        (["put"], "kind=put;kind=delete", True, False),
        (["put"], "zid=1;eid=2;sn=3", False, True),
        (["delete"], "", True, False),
        (["delete"], "kind=delete", False, True),
        (["delete"], "zid=1;eid=2;sn=3", False, True),
        (["declare_subscriber"], "zid=1;eid=2;sn=3", False, False),
    ],
)
def test_what_a_recorder_does_is_what_has_to_be_allowed(
    allowed: list[str], parameters: str, payload: bool, expected: bool
) -> None:
    rules = [allow("@elea/log/*/put/**", messages=["query"]), allow("fleet/**", messages=allowed)]
    selector = f"@elea/log/*/put/fleet/1?{parameters}"
    assert verdict(rules, selector, default="deny", payload=payload) is expected


@pytest.mark.parametrize("verb", ["puts", "put$*", "p$*"])
def test_a_denied_key_is_not_reached_by_a_batch_of_samples(verb: str) -> None:
    """Only single puts were checked: what a spool forwards was written whatever rules said."""
    for parameters in ("", "kind=put", "kind=delete", "kind=put;kind=delete"):
        key = f"@elea/log/*/{verb}/secret/pin?{parameters}"
        assert not verdict([deny("secret/**")], key, payload=True)


@pytest.mark.parametrize(
    ("allowed", "parameters", "expected"),
    [
        (["put"], "kind=put", True),
        (["put"], "kind=delete", False),
        (["put"], "", False),
        (["delete"], "kind=delete", True),
        (["delete"], "kind=put", False),
        (["put"], "kind=put;kind=delete", False),
        (["put", "delete"], "", True),
    ],
)
def test_a_batch_needs_what_its_samples_are(
    allowed: list[str], parameters: str, expected: bool
) -> None:
    rules = [allow("@elea/log/*/puts/**", messages=["query"]), allow("fleet/**", messages=allowed)]
    selector = f"@elea/log/*/puts/fleet/1?{parameters}"
    assert verdict(rules, selector, default="deny", payload=True) is expected


SERVES = ["@elea/log/all/put/**", "@elea/**", "@elea", "n/@elea/log/*/info", "@sql/lake/**"]


@pytest.mark.parametrize("key", SERVES)
@pytest.mark.parametrize("default", ["allow", "deny"])
def test_who_answers_in_the_place_of_a_service_needs_a_rule_that_names_it(
    key: str, default: str
) -> None:
    asks: dict[str, Any] = {"action": Action.DECLARE_QUERYABLE, "default": default}
    assert not verdict([], key, **asks)
    assert not verdict([allow("**")], key, **asks)
    named = "@sql/**" if "@sql" in key else "@elea/**"
    named = f"n/{named}" if key.startswith("n/") else named
    assert verdict([allow(named)], key, **asks)
    assert not verdict([allow(named, messages=["query"])], key, **asks)
    assert not verdict([allow(named), deny(named)], key, **asks)


def test_other_queryables_need_no_rule() -> None:
    for key in ("a/**", "**", "*/log", "@/ab/router/x", "a/@adv/pub/1"):
        assert verdict([deny("secret/pin")], key, action=Action.DECLARE_QUERYABLE) is (key != "**")


def test_a_router_that_is_named_tells_of_services_elsewhere() -> None:
    access = {"enabled": True, "default_permission": "allow"}
    config: dict[str, Any] = {
        "access_control": {**access, "rules": [], "subjects": [], "policies": []},
        "elea": {"roles": {"router": [{"usernames": ["anna"]}]}},
    }
    policy = Policy.from_config(Config.from_mapping(config))
    for who, expected in ((ANNA, True), (MALLORY, False)):
        chain = policy.chain(who, Flow.INGRESS)
        assert chain.allows(Action.DECLARE_QUERYABLE, "@elea/log/all/put/**", 0) is expected


def test_the_key_lies_in_the_namespace_of_the_recorder() -> None:
    rules = [deny("plant/secret/**")]
    assert not verdict(rules, "plant/@elea/log/all/put/secret/pin", payload=True)
    assert not verdict(rules, "*/@elea/log/all/put/secret/pin", payload=True)
    assert not verdict(rules, "**/@elea/log/all/put/secret/pin", payload=True)
    assert verdict(rules, "@elea/log/all/put/secret/pin", payload=True)


def test_configuration_is_not_written_through_a_recorder() -> None:
    key = "@elea/log/all/put/@/ab/router/config/access_control/rules"
    assert not verdict([deny("secret/**")], key, payload=True)
    assert not verdict([deny("@/**")], key, payload=True)


READS = [
    "@elea/log/all/read/0?lo=0;hi=9",
    "@elea/log/*/read/0?lo=0;hi=9",
    "@elea/log/all/*/0?lo=0;hi=9",
    "@elea/**/0?lo=0;hi=9",
    "@sql/lake?q=select 1",
    "@sql/**",
]


@pytest.mark.parametrize("selector", READS)
@pytest.mark.parametrize(
    "rule",
    [
        deny("secret/**"),
        deny("secret/**", messages=["query"]),
        deny("secret/**", messages=["declare_subscriber"]),
        deny("secret/**", messages=["reply"], flows=["egress"]),
        deny("secret/**", messages=["put"], flows=["egress"]),
    ],
)
def test_rows_in_bulk_are_not_for_those_from_whom_a_key_is_hidden(
    selector: str, rule: dict[str, Any]
) -> None:
    assert not verdict([rule], selector)
    assert not verdict([rule, allow("@elea/**")], selector) or selector.startswith("@sql")


def test_rows_in_bulk_are_for_those_a_rule_names() -> None:
    rules = [deny("secret/**"), allow("@elea/log/*/read/**"), allow("@sql/lake/**")]
    assert verdict(rules, "@elea/log/all/read/0?lo=0;hi=9")
    assert verdict(rules, "@sql/lake?q=select 1")
    assert not verdict(rules, "@sql/other?q=select 1")


def test_rows_in_bulk_are_for_those_who_may_read_everything() -> None:
    for rules in ([], [deny("secret/**", messages=["put"], flows=["ingress"])], [deny("@/**")]):
        assert verdict(rules, "@elea/log/all/read/0?lo=0;hi=9")
        assert verdict(rules, "@sql/lake?q=select 1")
    rules = [allow("**"), allow("@elea/**")]
    assert verdict(rules, "@elea/log/all/read/0?lo=0;hi=9", default="deny")
    rules = [allow("fleet/**"), allow("@elea/**")]
    assert not verdict(rules, "@elea/log/all/read/0?lo=0;hi=9", default="deny")


def test_rows_of_some_keys_are_for_those_who_may_query_them() -> None:
    rules = [allow("fleet/**"), allow("@elea/**")]
    read = "@elea/log/all/read/0?lo=0;hi=9;keyexpr="
    assert verdict(rules, f"{read}fleet/1|fleet/2/*", default="deny")
    assert not verdict(rules, f"{read}fleet/1|secret/pin", default="deny")
    assert not verdict(rules, f"{read}fleet/1;keyexpr=secret/pin", default="deny")
    assert not verdict([deny("secret/**")], f"{read}*/pin")
    assert not verdict([deny("secret/**")], f"{read}se//cret")


@pytest.mark.parametrize(
    "key", ["@elea/log/all/commit/spark", "@elea/log/*/commit/*", "@elea/log/all/*/spark"]
)
def test_offsets_are_moved_by_those_a_rule_names(key: str) -> None:
    assert not verdict([], key, payload=True)
    assert not verdict([allow("@elea/**")], key, payload=True)
    assert not verdict([allow("@elea/**"), allow("**")], key, payload=True, default="deny")
    assert not verdict([allow("@elea/log/*/commit/other")], key, payload=True)


def test_a_rule_binds_consumers_to_users() -> None:
    rules = [allow("@elea/log/*/commit/${username}")]
    assert verdict(rules, "@elea/log/all/commit/mallory", payload=True)
    assert not verdict(rules, "@elea/log/all/commit/anna", payload=True)


def test_who_is_denied_a_key_does_not_change_the_rules() -> None:
    key = "@/ab/router/config/access_control/rules"
    for action in (Action.PUT, Action.DELETE):
        assert verdict([], key, action=action)
        assert not verdict([deny("secret/**")], key, action=action)
        assert not verdict([deny("secret/**")], "@/*/*/config/**", action=action)
        assert verdict([deny("secret/**"), allow("@/**")], key, action=action)


@pytest.mark.parametrize(
    "key", ["secret/pin/@adv/**", "**/@adv/pub/**", "*/pin/@adv/pub/1/2/_", "a/**/@adv/*/*/*/*"]
)
def test_a_denied_key_is_not_read_from_the_cache_of_its_publisher(key: str) -> None:
    denied = deny("secret/**", "a/**", messages=["query", "declare_subscriber"])
    assert not verdict([denied], f"{key}?_anyke;_max=10")
    assert verdict([], f"{key}?_anyke")


@pytest.mark.parametrize("key", ["secret/pin/@dds_pub_cache/*", "**/@dds_pub_cache/a1"])
def test_a_denied_key_is_not_read_from_the_cache_of_a_dds_bridge(key: str) -> None:
    denied = deny("secret/**", messages=["query", "declare_subscriber"])
    assert not verdict([denied], key)
    assert verdict([], key)
    assert verdict([denied], "fleet/1/@dds_pub_cache/*")


def test_a_cache_is_for_those_who_may_subscribe_to_its_key_or_query_it() -> None:
    key = "fleet/1/@adv/pub/1/2/_?_anyke"
    asks = allow("fleet/*/@adv/**", messages=["query"])
    for message in ("query", "declare_subscriber"):
        rules = [asks, {**allow("fleet/**", messages=[message]), "id": message}]
        assert verdict(rules, key, default="deny")
    assert not verdict([asks], key, default="deny")


FORGED = [
    (Action.DECLARE_QUERYABLE, "secret/pin/@adv/pub/1/2/_"),
    (Action.DECLARE_QUERYABLE, "**/@adv/**"),
    (Action.DECLARE_QUERYABLE, "secret/pin/@dds_pub_cache/1"),
    (Action.LIVELINESS_TOKEN, "secret/pin/@adv/pub/1/2/_"),
    (Action.PUT, "secret/pin/@adv/pub/1/2/_"),
    (Action.REPLY, "secret/pin"),
]


@pytest.mark.parametrize(("action", "key"), FORGED)
def test_samples_of_a_denied_key_are_not_put_as_answers_of_a_cache(
    action: Action, key: str
) -> None:
    """A recorder, and who asks for history, takes them for samples of its publisher."""
    messages = ["put", "delete", "declare_queryable"]
    assert not verdict([deny("secret/**", messages=messages)], key, action=action)
    assert verdict([], key, action=action)
    assert verdict([deny("other/**", messages=["put"])], "secret/pin", action=Action.REPLY)


def test_who_may_put_on_a_key_keeps_its_samples_and_tells_of_them() -> None:
    own = [allow("fleet/1", messages=["put", "reply"])]
    says = ["declare_queryable", "liveliness_token", "put"]
    cache = {**allow("fleet/*/@adv/**", messages=says), "id": "cache"}
    for action in (Action.DECLARE_QUERYABLE, Action.LIVELINESS_TOKEN, Action.PUT):
        assert verdict([*own, cache], "fleet/1/@adv/pub/1/2/_", action=action, default="deny")
        assert not verdict([*own, cache], "fleet/2/@adv/pub/1/2/_", action=action, default="deny")
    assert verdict([*own, cache], "fleet/1", action=Action.REPLY, default="deny")
    subscriber = {**allow("fleet/**", messages=["declare_subscriber"]), "id": "sub"}
    for action in (Action.LIVELINESS_TOKEN,):
        assert verdict([subscriber, cache], "fleet/1/@adv/sub/1/2/_", action=action, default="deny")


@pytest.mark.parametrize("action", [Action.QUERY, Action.PUT])
@pytest.mark.parametrize(
    "key", ["@elea/replay/1/seek", "@elea/re$*/*/stop", "n/@elea/replay/1/speed"]
)
def test_a_replay_that_may_publish_a_denied_key_is_not_controlled(action: Action, key: str) -> None:
    assert verdict([], key, action=action)
    assert not verdict([deny("secret/**")], key, action=action)
    assert verdict([deny("secret/**"), allow("@elea/replay/**")], "@elea/replay/1/seek")


def test_what_no_service_answers_needs_nothing_else() -> None:
    for key in ("a/b", "**", "@/ab/router", "@elea/log/all/info", "a/@elea"):
        assert demands(Action.QUERY, key) == []
    for key in ("@elea/replay/1/status", "@elea/replay/*/*", "@elea/replay/**"):
        assert demands(Action.QUERY, key) == demands(Action.PUT, key) == []
    assert demands(Action.PUT, "@elea/log/all/put/a") == []
    assert demands(Action.DECLARE_SUBSCRIBER, "@elea/**") == []
    assert demands(Action.DECLARE_QUERYABLE, "a/**") == []


@pytest.mark.parametrize("key", [*PUTS, "@elea/log/a/commit/b", "@elea/replay/a/stop", "@elea/x"])
def test_what_may_write_is_told_from_what_reads(key: str) -> None:
    assert not only_reads(key)


def test_a_consumer_belongs_to_who_committed_first() -> None:
    owners = Owners(2)
    key = "@elea/log/all/commit/spark"
    nobody = Identity(zid="3")
    assert owners.refusal(key, nobody) is None
    assert owners.refusal(key, ANNA) is None
    assert owners.refusal(key, MALLORY) == "consumer spark belongs to user:anna"
    assert owners.refusal(key, nobody) is not None
    assert owners.refusal(key, ANNA) is None
    assert owners.refusal(f"{key}2", MALLORY) is None
    assert "consumer_owners_count is 2" in (owners.refusal(f"{key}3", MALLORY) or "")


def test_one_identity_does_not_claim_all_consumers() -> None:
    owners = Owners(8)
    refusals = [owners.refusal(f"@elea/log/all/commit/{one}", MALLORY) for one in range(8)]
    assert refusals[:2] == [None, None]
    assert all("user:mallory owns 2 consumers" in (one or "") for one in refusals[2:])
    assert owners.refusal("@elea/log/all/commit/spark", ANNA) is None
