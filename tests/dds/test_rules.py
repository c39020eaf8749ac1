"""Access rules of the router hold for a domain: all its participants are the user `dds`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from tests.dds.peers import LIMIT_S, Peer, bridge, config_of, next_domain, peer, put, served, until
from tests.dds.test_bridges import chatter, number
from tests.ports import free_port

import elea
from elea.dds.bridge import Bridge
from elea.policy.policy import Policy
from elea.sample import Sample
from elea.session.session import Session

line = pytest.mark.line


def access(*messages: str, subject: dict[str, list[str]] | None = None, on: bool = True) -> str:
    """Rules that deny something on `Secret` and below it to the domain."""
    keys = ["Secret/**", "Secret/@adv/**", "Secret/@dds_pub_cache/*"]
    rule = {"id": "deny", "permission": "deny", "messages": list(messages), "key_exprs": keys}
    return json.dumps(
        {
            "enabled": on,
            "default_permission": "allow",
            "rules": [rule],
            "subjects": [{"id": "domain", **(subject or {"usernames": ["dds"]})}],
            "policies": [{"rules": ["deny"], "subjects": ["domain"]}],
        }
    )


@contextmanager
def ruled(rules: str) -> Iterator[tuple[Session, Session]]:
    """A session that bridges, with access rules, and a client of it."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    config = config_of(listen=endpoint, mode="router")
    config.insert_json5("access_control", rules)
    with (
        elea.open(config) as near,
        elea.open(config_of(connect=endpoint, mode="client")) as far,
    ):
        yield near, far


def verdict_of(made: Bridge, topic: str) -> Any:
    """What became of the endpoint of a topic, once it was discovered."""

    def found() -> str | None:
        for guid, endpoint in list(made.table.endpoints.items()):
            if endpoint.topic == topic:
                routed = list(made.table.routed(guid).values())
                return routed[0].verdict.value if routed else None
        return None

    return until(found, f"an endpoint of {topic}")


@line("D-814")
@pytest.mark.parametrize("subject", [{"usernames": ["dds"]}, {"link_protocols": ["dds"]}])
def test_a_domain_puts_no_key_that_is_denied_to_it(subject: dict[str, list[str]]) -> None:
    domain, seen = next_domain(), list[Sample]()
    with (
        ruled(access("put", subject=subject)) as (near, far),
        bridge(near, domain) as made,
        peer(domain) as other,
        far.declare_subscriber("**", seen.append),
    ):
        other.writer("denied", "Secret", "Chatter")
        other.writer("open", "Open", "Chatter")
        assert verdict_of(made, "Secret") == "NotAllowed"
        until(lambda: other.matched("open"))
        other.write("denied", [{"number": 1, "text": ""}])
        other.write("open", [{"number": 2, "text": ""}])
        until(lambda: any(str(one.key_expr) == "Open" for one in seen))
        assert {id_.key for id_ in list(made.routes)} == {"Open"}
        keys = [str(one.key_expr) for one in seen if not str(one.key_expr).startswith("@")]
        assert keys == ["Open"]


@line("D-814")
@pytest.mark.parametrize("message", ["declare_subscriber", "put"])
def test_a_domain_reads_no_key_that_is_denied_to_it(message: str) -> None:
    domain = next_domain()
    with (
        ruled(access(message)) as (near, far),
        bridge(near, domain) as made,
        peer(domain) as other,
    ):
        other.reader("denied", "Secret", "Chatter")
        other.reader("open", "Open", "Chatter")
        assert verdict_of(made, "Secret") == "NotAllowed"
        until(lambda: other.matched("open"))
        far.put("Secret", chatter(1))
        put(far, "Open", chatter(2))
        assert [x["value"]["number"] for x in other.taken("open", 1)] == [2]
        assert not other.take("denied")
        assert {id_.topic for id_ in list(made.routes)} == {"Open"}


@line("D-814")
def test_rules_that_change_end_the_routes_that_they_deny() -> None:
    domain = next_domain()
    off = access("put", "declare_subscriber", on=False)
    with (
        ruled(off) as (near, far),
        bridge(near, domain) as made,
        peer(domain) as other,
    ):
        subscriber = far.declare_subscriber("Secret")
        other.writer("w", "Secret", "Chatter")
        until(lambda: other.matched("w"))
        other.write("w", [{"number": 1, "text": ""}])
        assert number(subscriber.handler.recv(LIMIT_S)) == 1
        context = near._context
        policy = made.rights._rights.revision()
        with context.driver.lock:
            config = config_of()
            config.insert_json5("access_control", access("put", "declare_subscriber"))
            guards = context.driver.node.guards  # type: ignore[attr-defined]
            guards.change(Policy.from_config(config))
        assert made.rights._rights.revision() is not policy
        until(lambda: not made.routes)
        until(lambda: not other.matched("w"))


@line("D-814")
@pytest.mark.parametrize("message", ["query", "reply"])
def test_a_domain_gets_no_history_that_is_denied_to_it(message: str) -> None:
    domain = next_domain()
    with (
        ruled(access(message)) as (near, far),
        bridge(near, domain) as made,
        peer(domain) as other,
        far.declare_queryable("Secret/@adv/pub/x", lambda query: query.reply("Secret", chatter(1))),
    ):
        served(near, "Secret/@adv/pub/x")
        other.reader("r", "Secret", "Chatter", durability="transient_local")
        until(lambda: other.matched("r"))
        put(far, "Secret", chatter(2))
        assert [x["value"]["number"] for x in other.taken("r", 1)] == [2]
        assert (made.history.asked_count > 0) is (message == "reply")


def add_service(other: Peer, name: str, *, is_server: bool) -> None:
    """The endpoints of a server, or of a client, of a ROS service."""
    make = (other.reader, other.writer) if is_server else (other.writer, other.reader)
    make[0](f"{name} requests", f"rq/{name}Request", "AddRequest", depth=0)
    make[1](f"{name} replies", f"rr/{name}Reply", "AddReply", depth=0)


def refused(made: Bridge) -> list[str]:
    """Why endpoints of services have no route."""
    return list(made.services.refused.values())


@line("D-814", "D-666")
@pytest.mark.parametrize("message", ["declare_queryable", "query", "reply"])
def test_a_domain_serves_no_key_that_is_denied_to_it(message: str) -> None:
    domain = next_domain()
    with (
        ruled(access(message)) as (near, far),
        bridge(near, domain, names="ros2", queries_timeout=LIMIT_S) as made,
        peer(domain) as other,
    ):
        for name in ("Secret", "Open"):
            add_service(other, name, is_server=True)
        served(far, "Open")
        until(lambda: refused(made) == ["NotAllowed"] * 2)
        assert {id_.key for id_ in list(made.routes)} == {"Open"}
        assert list(far.get("Secret", payload=b"\0\1\0\0" + bytes(16))) == []
        replies = far.get("Open", payload=b"\0\1\0\0" + bytes(16), timeout=LIMIT_S)
        [request] = other.taken("Open requests", 1)
        until(lambda: other.matched("Open replies"))
        asked = {one: request["value"][one] for one in ("client", "sequence")}
        other.write("Open replies", [{**asked, "sum": 3}])
        [reply] = list(replies)
        assert reply.ok is not None
        assert reply.ok.payload.to_bytes() == b"\0\1\0\0\3" + bytes(7)
        assert other.matched("Secret requests") == other.matched("Secret replies") == 0


@line("D-814", "D-666")
@pytest.mark.parametrize("message", ["query", "reply"])
def test_a_domain_asks_no_key_that_is_denied_to_it(message: str) -> None:
    domain = next_domain()
    asked: list[str] = []

    def answer(query: elea.Query) -> None:
        with query:
            asked.append(str(query.key_expr))
            query.reply(query.key_expr, b"\0\1\0\0\3" + bytes(7))

    with (
        ruled(access(message)) as (near, far),
        bridge(near, domain, names="ros2", queries_timeout=LIMIT_S) as made,
        peer(domain) as other,
        far.declare_queryable("Secret", answer),
        far.declare_queryable("Open", answer),
    ):
        for name in ("Secret", "Open"):
            add_service(other, name, is_server=False)
        for name in ("Open requests", "Open replies"):
            until(partial(other.matched, name))
        until(lambda: refused(made) == ["NotAllowed"] * 2)
        other.write("Open requests", [{"client": 9, "sequence": 4, "a": 1, "b": 2}])
        [heard] = other.taken("Open replies", 1)
        assert heard["value"] == {"client": 9, "sequence": 4, "sum": 3}
        assert asked == ["Open"]
        assert {id_.key for id_ in list(made.routes)} == {"Open"}
        assert other.matched("Secret requests") == other.matched("Secret replies") == 0


@line("D-814", "D-668")
def test_rules_that_change_end_the_services_that_they_deny() -> None:
    domain = next_domain()
    with (
        ruled(access("query", on=False)) as (near, far),
        bridge(near, domain, names="ros2", queries_timeout=LIMIT_S) as made,
        peer(domain) as other,
    ):
        add_service(other, "Secret", is_server=True)
        served(far, "Secret")
        replies = far.get("Secret", payload=b"\0\1\0\0" + bytes(16), timeout=LIMIT_S)
        other.taken("Secret requests", 1)
        context = near._context
        with context.driver.lock:
            config = config_of()
            config.insert_json5("access_control", access("query"))
            guards = context.driver.node.guards  # type: ignore[attr-defined]
            guards.change(Policy.from_config(config))
        [reply] = list(replies)
        assert reply.err is not None
        until(lambda: not made.routes and not other.matched("Secret requests"))
        assert refused(made) == ["NotAllowed"] * 2
