"""Access rules and filters of a router, with Eclipse clients; where both agree, with both routers.

What must not arrive is shown by what was sent after it, over the same way, and does arrive.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import zenoh
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    WAIT_S,
    Taken,
    eventually,
    free_endpoint,
    free_port,
    matched,
    node_of,
    session,
    word,
)
from tests.link.certificates import CLIENT_NAME, certificates
from tests.unit.daemon import rig

from elea.daemon.audit import verify_file

line = pytest.mark.line
routers = pytest.mark.parametrize("router", [ELEA, ECLIPSE])

ALL = [
    *("put", "delete", "declare_subscriber", "query", "declare_queryable", "reply"),
    *("liveliness_token", "declare_liveliness_subscriber", "liveliness_query"),
]
LATER_S = 3 * WAIT_S  # a timeout that nobody waits for


def rule(name: str, *keys: str, permission: str = "allow", **more: object) -> dict[str, object]:
    return {
        "id": name,
        "permission": permission,
        "messages": ALL,
        "flows": ["ingress", "egress"],
        "key_exprs": list(keys),
        **more,
    }


def acl(
    *rules: Mapping[str, object],
    default: str = "deny",
    subjects: tuple[Mapping[str, object], ...] = ({"id": "all"},),
    policies: list[dict[str, object]] | None = None,
) -> dict[str, object]:
    """A configuration in which all rules are for all subjects, if not said otherwise."""
    everything = [
        {"rules": [one["id"] for one in rules], "subjects": [one["id"] for one in subjects]}
    ]
    return {
        "access_control": {
            "enabled": True,
            "default_permission": default,
            "rules": list(rules),
            "subjects": list(subjects),
            "policies": policies or everything,
        }
    }


@contextmanager
def ruled(router: str, more: Mapping[str, object]) -> Iterator[tuple[Any, Any, Any]]:
    """A router with rules, and two Eclipse clients of it."""
    endpoint = free_endpoint()
    with (
        session(router, "router", listen=endpoint, more=more) as node,
        session(ECLIPSE, "client", connect=endpoint) as one,
        session(ECLIPSE, "client", connect=endpoint) as other,
    ):
        yield node, one, other


def subscribe(subscriber: Any, key: str, taken: Taken) -> None:
    """Subscribe; what several subscribers take stays in the order in which it came."""
    subscriber.declare_subscriber(key, zenoh.handlers.Callback(taken, indirect=False))


def put(publisher: Any, key: str, payload: bytes, **more: object) -> None:
    """Publish what may not be dropped because the machine is busy."""
    publisher.put(key, payload, congestion_control=zenoh.CongestionControl.BLOCK, **more)


def delete(publisher: Any, key: str) -> None:
    """The same for a delete."""
    publisher.delete(key, congestion_control=zenoh.CongestionControl.BLOCK)


def fenced(publisher: Any, taken: Taken, fence: str, count: int = 1) -> None:
    """Publish on a key that is allowed until it arrives: then the subscriber is known."""

    def arrived() -> bool:
        put(publisher, fence, b"fence")
        return taken.reach(count, 0.05)

    assert eventually(arrived)
    taken.items.clear()


def asked(client: Any, selector: str, **more: object) -> list[Any] | None:
    """The replies to a query that ends long before its timeout; None if it does not."""
    found: list[Any] = []
    ended = threading.Event()
    handler = zenoh.handlers.Callback(found.append, ended.set)
    client.get(selector, handler, timeout=LATER_S, **more)
    return found if ended.wait(WAIT_S) else None


def answered(client: Any, selector: str) -> bool:
    """Whether a query is answered, once its queryable is known."""
    return eventually(lambda: bool(asked(client, selector)))


@line("R165")
@routers
def test_samples_need_a_rule_that_includes_their_key(router: str) -> None:
    with ruled(router, acl(rule("open", "open/**"), rule("one", "part/a"))) as (_, one, other):
        taken = Taken()
        for key in ("open/**", "shut/**", "part/*"):
            subscribe(one, key, taken)
        fenced(other, taken, "open/fence")
        put(other, "shut/a", b"no")
        delete(other, "shut/a")
        put(other, "part/a", b"no")  # it may be put, but `part/*` may not be subscribed to
        put(other, "open/a", b"yes")
        delete(other, "open/a")
        assert eventually(lambda: ("open/a", "DELETE") in taken.changes)
        assert [one for one in taken.changes if one[0] != "open/fence"] == [
            ("open/a", "PUT"),
            ("open/a", "DELETE"),
        ]


@line("R165", "R167")
@routers
def test_queries_need_a_rule_and_end_at_once_without_one(router: str) -> None:
    with ruled(router, acl(rule("open", "open/**"))) as (_, one, other):
        for key in ("open/q", "shut/q"):
            one.declare_queryable(key, lambda query: query.reply(query.key_expr, b"answer"))
        assert answered(other, "open/q")
        assert asked(other, "shut/q") == []
        assert asked(other, "*/q") == []  # wider than the rule


@line("R165", "R167")
@routers
@pytest.mark.parametrize("flow", ["ingress", "egress"])
@pytest.mark.parametrize("message", ["query", "reply"])
def test_what_is_denied_on_either_side_ends_the_query_at_once(
    router: str, message: str, flow: str
) -> None:
    shut = rule("shut", "shut/**", permission="deny", messages=[message], flows=[flow])
    with ruled(router, acl(shut, default="allow")) as (_, one, other):
        for key in ("open/q", "shut/q"):
            one.declare_queryable(key, lambda query: query.reply(query.key_expr, b"answer"))
        assert answered(other, "open/q")
        assert asked(other, "shut/q") == []


@line("R165")
@routers
def test_liveliness_needs_a_rule(router: str) -> None:
    with ruled(router, acl(rule("open", "open/**"))) as (_, one, other):
        tokens = [one.liveliness().declare_token(key) for key in ("shut/t", "open/t")]

        def alive(selector: str) -> list[str] | None:
            found: list[Any] = []
            ended = threading.Event()
            handler = zenoh.handlers.Callback(found.append, ended.set)
            other.liveliness().get(selector, handler, timeout=LATER_S)
            return [str(one.ok.key_expr) for one in found] if ended.wait(WAIT_S) else None

        assert eventually(lambda: alive("open/*") == ["open/t"])
        assert alive("shut/*") == []
        assert alive("*/t") == []  # wider than the rule
        seen = Taken()
        direct = zenoh.handlers.Callback(seen, indirect=False)
        other.liveliness().declare_subscriber("shut/*", direct)
        other.liveliness().declare_subscriber("open/*", direct, history=True)
        assert seen.reach(1)
        for token in tokens:
            token.undeclare()
        assert seen.reach(2)
        assert seen.changes == [("open/t", "PUT"), ("open/t", "DELETE")]


@line("R165")
def test_a_wider_subscription_does_not_lead_around_a_deny_rule() -> None:
    """Eclipse denies by inclusion: there, `secret/*` would be given `secret/a`."""
    secret = rule("secret", "secret/a", permission="deny", messages=["declare_subscriber"])
    with ruled(ELEA, acl(secret, default="allow")) as (node, one, other):
        taken = Taken()
        subscribe(one, "secret/*", taken)
        subscribe(one, "open/*", taken)
        fenced(other, taken, "open/fence")
        put(other, "secret/a", b"no")
        delete(other, "secret/a")
        put(other, "secret/b", b"yes")
        put(other, "open/a", b"yes")
        assert eventually(lambda: ("open/a", "PUT") in taken.changes)
        assert [key for key, _ in taken.changes if key.startswith("secret")] == ["secret/b"]
        found = {tuple(part.value for part in one) for one in node_of(node).guards.refused}
        assert found == {("access_control", "egress", kind) for kind in ("put", "delete")}


@line("R168")
@routers
@pytest.mark.parametrize("flow", ["ingress", "egress"])
def test_samples_are_thinned_out_by_rule_and_not_by_key(router: str, flow: str) -> None:
    slow = {
        "flows": [flow],
        "messages": ["put"],
        "rules": [{"key_expr": "slow/**", "freq": 0.001}, {"key_expr": "never/**", "freq": 0}],
    }
    with ruled(router, {"downsampling": [slow]}) as (_, one, other):
        taken = Taken()
        subscribe(one, "**", taken)
        fenced(other, taken, "open/fence")
        for index in range(20):
            put(other, f"slow/{index}", b"x")
        delete(other, "slow/gone")  # of another kind
        put(other, "never/a", b"x")
        put(other, "open/a", b"x")
        assert eventually(lambda: ("open/a", "PUT") in taken.changes)
        assert [one for one in taken.changes if one[0] != "open/fence"] == [
            ("slow/0", "PUT"),
            ("slow/gone", "DELETE"),
            ("open/a", "PUT"),
        ]


@line("R169")
@routers
@pytest.mark.parametrize("flow", ["ingress", "egress"])
def test_large_messages_do_not_pass(router: str, flow: str) -> None:
    small = {"flows": [flow], "messages": ["put", "query"], "key_exprs": ["small/**"]}
    limits = [{**small, "size_limit": 100}, {**small, "size_limit": 10}]
    with ruled(router, {"low_pass_filter": limits}) as (_, one, other):
        taken = Taken()
        subscribe(one, "**", taken)
        one.declare_queryable("small/q", lambda query: query.reply("small/q", b"answer"))
        fenced(other, taken, "open/fence")
        put(other, "small/a", bytes(10))
        put(other, "small/b", bytes(11))
        put(other, "small/c", bytes(6), attachment=bytes(5))
        put(other, "small/d", bytes(6), attachment=bytes(4))
        put(other, "open/a", bytes(11))
        assert eventually(lambda: ("open/a", "PUT") in taken.changes)
        assert [key for key, _ in taken.changes if key != "open/fence"] == [
            *("small/a", "small/d", "open/a")
        ]
        assert answered(other, "small/q")
        assert asked(other, "small/q", payload=bytes(11)) == []


@line("R170")
@routers
@pytest.mark.parametrize("flow", ["ingress", "egress"])
def test_the_qos_is_overwritten(router: str, flow: str) -> None:
    urgent = {
        "flows": [flow],
        "messages": ["put"],
        "key_exprs": ["urgent/**"],
        "qos": {"congestion_control": "drop"},
        "payload_size": "2..3",
        "overwrite": {"priority": "real_time", "congestion_control": "block", "express": True},
    }
    with ruled(router, {"qos/network": [urgent]}) as (_, one, other):
        taken = Taken()
        subscribe(one, "**", taken)
        fenced(other, taken, "open/fence")

        def sent(key: str, size: int, congestion: Any) -> tuple[str, str, bool]:
            def arrived() -> bool:
                other.put(key, bytes(size), congestion_control=congestion)
                return eventually(lambda: (key, "PUT") in taken.changes, 0.2)

            assert eventually(arrived)
            sample = next(one for one in taken.items if str(one.key_expr) == key)
            return word(sample.priority), word(sample.congestion_control), sample.express

        drop, block = zenoh.CongestionControl.DROP, zenoh.CongestionControl.BLOCK
        assert sent("urgent/a", 2, drop) == ("REAL_TIME", "BLOCK", True)
        assert sent("urgent/b", 3, drop) == ("REAL_TIME", "BLOCK", True)
        assert sent("urgent/c", 1, drop) == ("DATA", "DROP", False)
        assert sent("urgent/d", 4, drop) == ("DATA", "DROP", False)
        assert sent("urgent/e", 2, block) == ("DATA", "BLOCK", False)
        assert sent("other/a", 2, drop) == ("DATA", "DROP", False)


# Who it is about


ZID = "7a1"
USER: dict[str, object] = {
    "transport/auth/usrpwd/user": "alice",
    "transport/auth/usrpwd/password": "wonderland",
}


@pytest.fixture
def secured(tmp_path: Path) -> dict[str, object]:
    """Settings of both sides for passwords and mutual TLS."""
    users = tmp_path / "users"
    users.write_text("alice:wonderland\n", encoding="utf-8")
    users.chmod(0o600)
    made = certificates()
    texts = {
        "root_ca_certificate": made.root_text,
        "listen_certificate": made.server.certificate_text,
        "listen_private_key": made.server.key_text,
        "connect_certificate": made.client.certificate_text,
        "connect_private_key": made.client.key_text,
    }
    found: dict[str, object] = {"transport/link/tls/enable_mtls": True}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
        found[f"transport/link/tls/{name}"] = str(tmp_path / name)
    return found | {"transport/auth/usrpwd/dictionary_file": str(users)}


@line("R166")
@routers
@pytest.mark.parametrize(
    ("protocol", "by", "right", "wrong"),
    [
        ("tcp", "interfaces", "lo", "eth99"),
        ("tcp", "link_protocols", "tcp", "udp"),
        ("tcp", "zids", ZID, "7a2"),
        ("tcp", "usernames", "alice", "bob"),
        ("tls", "cert_common_names", CLIENT_NAME, "robot-8"),
    ],
)
def test_subjects(
    router: str, protocol: str, by: str, right: str, wrong: str, secured: dict[str, object]
) -> None:
    puts: dict[str, Any] = {"messages": ["put"], "flows": ["ingress"]}
    subjects = ({"id": "all"}, {"id": "right", by: [right]}, {"id": "wrong", by: [wrong]})
    rules = (
        rule("all", "open/**"),
        rule("rest", "who/**", messages=["declare_subscriber"]),
        rule("out", "who/**", messages=["put"], flows=["egress"]),
        rule("right", "who/right", **puts),
        rule("wrong", "who/wrong", **puts),
    )
    policies: list[dict[str, object]] = [
        {"rules": ["all", "rest", "out"], "subjects": ["all"]},
        {"rules": ["right"], "subjects": ["right"]},
        {"rules": ["wrong"], "subjects": ["wrong"]},
    ]
    endpoint = f"{protocol}/127.0.0.1:{free_port()}"
    rules_of = acl(*rules, subjects=subjects, policies=policies)
    client = secured | USER
    client.pop("transport/auth/usrpwd/dictionary_file")
    with (
        session(router, "router", listen=endpoint, more=secured | rules_of),
        session(ECLIPSE, "client", connect=endpoint, more=client) as one,
        session(ECLIPSE, "client", connect=endpoint, more=client | {"id": ZID}) as other,
    ):
        taken = Taken()
        subscribe(one, "who/**", taken)
        subscribe(one, "open/**", taken)
        fenced(other, taken, "open/fence")
        put(other, "who/wrong", b"x")
        put(other, "who/right", b"x")
        put(other, "open/a", b"x")
        assert eventually(lambda: ("open/a", "PUT") in taken.changes)
        assert ("who/right", "PUT") in taken.changes
        assert ("who/wrong", "PUT") not in taken.changes


def test_rules_are_about_who_somebody_is(secured: dict[str, object]) -> None:
    """Placeholders are Elea's; Eclipse needs a rule for each name."""
    own = rule("own", "by/${cert_common_name}/${username}/**")
    endpoint = f"tls/127.0.0.1:{free_port()}"
    client = secured | USER
    client.pop("transport/auth/usrpwd/dictionary_file")
    with (
        session(ELEA, "router", listen=endpoint, more=secured | acl(own)),
        session(ECLIPSE, "client", connect=endpoint, more=client) as one,
        session(ECLIPSE, "client", connect=endpoint, more=client) as other,
    ):
        taken = Taken()
        for key in ("by/robot-7/alice/**", "by/robot-8/alice/**", "by/**"):
            subscribe(one, key, taken)
        fenced(other, taken, "by/robot-7/alice/fence")
        put(other, "by/robot-8/alice/x", b"no")
        put(other, "by/robot-7/bob/x", b"no")
        put(other, "by/robot-7/alice/x", b"yes")
        assert eventually(lambda: ("by/robot-7/alice/x", "PUT") in taken.changes)
        assert {key.rpartition("/")[2] for key, _ in taken.changes} <= {"x", "fence"}
        assert {key.rpartition("/")[0] for key, _ in taken.changes} == {"by/robot-7/alice"}


# Rules that change


@line("R164")
def test_rules_change_while_clients_stay(tmp_path: Path) -> None:
    """What was refused passes once it is allowed, without being declared again; and back."""
    audit = tmp_path / "audit"
    rules = acl(rule("open", "open/**"))["access_control"]
    config = tmp_path / "router.json5"
    config.write_text(
        json.dumps({"access_control": rules, "elea": {"audit": {"file": str(audit)}}})
    )
    with rig.running(rig.options(config=str(config))) as daemon:
        endpoint = daemon.locators()[0]
        with (
            session(ECLIPSE, "client", connect=endpoint) as one,
            session(ECLIPSE, "client", connect=endpoint) as other,
        ):
            taken = Taken()
            subscribe(one, "open/**", taken)
            subscribe(one, "later/**", taken)
            publisher = other.declare_publisher("later/**")
            fenced(other, taken, "open/fence")
            put(other, "later/a", b"no")
            fenced(other, taken, "open/fence")
            assert not publisher.matching_status.matching

            def change(*keys: str) -> None:
                changed = acl(rule("open", *keys))["access_control"]
                config.write_text(
                    json.dumps({"access_control": changed, "elea": {"audit": {"file": str(audit)}}})
                )
                daemon.reload()

            change("open/**", "later/**")
            assert matched(publisher)
            fenced(other, taken, "later/fence")
            change("open/**")
            assert matched(publisher, by_somebody=False)
            fenced(other, taken, "open/fence")
            put(other, "later/b", b"no")
            put(other, "open/b", b"yes")
            assert eventually(lambda: ("open/b", "PUT") in taken.changes)
            assert ("later/b", "PUT") not in taken.changes
            assert len(node_of(daemon.session).neighbours()) == 2
    lines = [json.loads(text) for text in audit.read_text().splitlines()]
    assert verify_file(audit) is None
    assert [one["event"] for one in lines].count("login") == 2
    changes = [one for one in lines if one["event"] == "config"]
    assert [one["keys"] for one in changes] == [["access_control/rules"]] * 2
    refused = {(one["action"], one["key"]) for one in lines if one["event"] == "refused"}
    assert ("declare_subscriber", "later/**") in refused
