"""Sessions of Elea and of Eclipse Zenoh talk to each other, in every topology, both ways."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import zenoh
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    WAIT_S,
    _replies,
    eventually,
    free_endpoint,
    module_of,
    replies_to,
    session,
)

import elea

# Who listens, then who connects to it; the two marked * talk.
TOPOLOGIES: dict[str, list[tuple[str, str]]] = {
    "elea and eclipse clients at an eclipse router": [
        (ECLIPSE, "router"),
        (ELEA, "client*"),
        (ECLIPSE, "client*"),
    ],
    "elea clients at an eclipse router": [
        (ECLIPSE, "router"),
        (ELEA, "client*"),
        (ELEA, "client*"),
    ],
    "elea peer and eclipse client at an eclipse router": [
        (ECLIPSE, "router"),
        (ELEA, "peer*"),
        (ECLIPSE, "client*"),
    ],
    "elea peer listens to an eclipse peer": [(ELEA, "peer*"), (ECLIPSE, "peer*")],
    "eclipse peer listens to an elea peer": [(ECLIPSE, "peer*"), (ELEA, "peer*")],
    "elea peers": [(ELEA, "peer*"), (ELEA, "peer*")],
    "eclipse client of an elea peer": [(ELEA, "peer*"), (ECLIPSE, "client*")],
    "elea client of an eclipse peer": [(ECLIPSE, "peer*"), (ELEA, "client*")],
    "clients of an elea peer": [(ELEA, "peer"), (ECLIPSE, "client*"), (ELEA, "client*")],
}


@pytest.fixture(params=[False, True], ids=["forth", "back"])
def swap(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=TOPOLOGIES)
def ends(request: pytest.FixtureRequest, swap: bool) -> Iterator[tuple[Any, Any]]:
    """Two sessions that talk, the second one serves."""
    endpoint = free_endpoint()
    talking: list[Any] = []
    with ExitStack() as stack:
        for number, (name, mode) in enumerate(TOPOLOGIES[request.param]):
            made = stack.enter_context(
                session(
                    name,
                    mode.rstrip("*"),
                    listen=endpoint if number == 0 else None,
                    connect=endpoint if number else None,
                )
            )
            if mode.endswith("*"):
                talking.append(made)
        first, second = reversed(talking) if swap else talking
        yield first, second


line = pytest.mark.line


@line("P96", "K1", "K2", "K4", "K20", "C62")
def test_publications_arrive_once_and_whole(ends: tuple[Any, Any]) -> None:
    here, there = ends
    names = module_of(here)
    got: list[tuple[object, ...]] = []

    def take(sample: Any) -> None:
        attachment = None if sample.attachment is None else bytes(sample.attachment)
        got.append(
            (
                str(sample.key_expr),
                bytes(sample.payload),
                str(sample.kind).rpartition(".")[2],
                str(sample.encoding),
                str(sample.priority).rpartition(".")[2],
                sample.express,
                attachment,
            )
        )

    subscriber = there.declare_subscriber("demo/**", take)
    publisher = here.declare_publisher("demo/p", congestion_control=names.CongestionControl.BLOCK)
    assert eventually(lambda: publisher.matching_status.matching)
    large = bytes(range(256)) * 1_200
    here.put(
        "demo/a",
        b"value",
        encoding="text/plain;utf-8",
        priority=names.Priority.REAL_TIME,
        express=True,
        attachment=b"note",
    )
    assert eventually(lambda: len(got) == 1)
    here.put("demo/large", large, congestion_control=names.CongestionControl.BLOCK)
    publisher.put(b"by publisher")
    here.delete("demo/a", congestion_control=names.CongestionControl.BLOCK)
    assert eventually(lambda: len(got) == 4), got
    plain = ("zenoh/bytes", "DATA", False, None)
    assert got == [
        ("demo/a", b"value", "PUT", "text/plain;utf-8", "REAL_TIME", True, b"note"),
        ("demo/large", large, "PUT", *plain),
        ("demo/p", b"by publisher", "PUT", *plain),
        ("demo/a", b"", "DELETE", *plain),
    ]
    subscriber.undeclare()
    assert eventually(lambda: not publisher.matching_status.matching)


@line("P96", "T53")
def test_order_is_kept_and_nothing_is_lost(ends: tuple[Any, Any]) -> None:
    here, there = ends
    names = module_of(here)
    got: list[int] = []
    subscriber = there.declare_subscriber(
        "count", lambda sample: got.append(int(bytes(sample.payload)))
    )
    publisher = here.declare_publisher("count", congestion_control=names.CongestionControl.BLOCK)
    assert eventually(lambda: publisher.matching_status.matching)
    for number in range(5_000):
        publisher.put(str(number))
    assert eventually(lambda: len(got) == 5_000), len(got)
    assert got == list(range(5_000))
    subscriber.undeclare()


@line("P96", "K8", "K9", "K13", "K17", "C70", "C71")
def test_queries_are_answered_refused_and_ended(ends: tuple[Any, Any]) -> None:
    here, there = ends

    def answer(query: Any) -> None:
        with query:
            given = b"" if query.payload is None else bytes(query.payload)
            query.reply(query.key_expr, b"to " + given, attachment=b"why")
            if "err" in str(query.parameters):
                query.reply_err(b"refused", encoding="text/plain")
            if "del" in str(query.parameters):
                query.reply_del(query.key_expr)

    queryable = there.declare_queryable("svc/*", answer, complete=True)
    querier = here.declare_querier("svc/x")
    assert eventually(lambda: querier.matching_status.matching)

    def ask(selector: str) -> list[tuple[str, bytes]]:
        found = []
        for reply in _replies(here, selector, payload=b"me"):
            if reply.ok is not None:
                kind = str(reply.ok.kind).rpartition(".")[2]
                found.append((kind, bytes(reply.ok.payload)))
            else:
                found.append(("ERR", bytes(reply.err.payload)))
        return sorted(found)

    assert ask("svc/x") == [("PUT", b"to me")]
    assert ask("svc/x?err") == [("ERR", b"refused"), ("PUT", b"to me")]
    assert ask("svc/x?del") == [("DELETE", b"")]  # consolidated: the latest of the key
    assert ask("svc/nobody/here") == []
    assert [bytes(reply.ok.payload) for reply in replies_to(querier.get, payload=b"q")] == [b"to q"]
    queryable.undeclare()
    assert eventually(lambda: not querier.matching_status.matching)


@line("P107", "C82", "C84", "K16")
def test_liveliness_is_seen_asked_for_and_lost(
    ends: tuple[Any, Any], request: pytest.FixtureRequest
) -> None:
    here, there = ends
    seen: list[tuple[str, str]] = []
    first = there.liveliness().declare_token("alive/1")
    watcher = here.liveliness().declare_subscriber(
        "alive/*",
        lambda sample: seen.append((str(sample.key_expr), str(sample.kind).rpartition(".")[2])),
        history=True,
    )
    assert eventually(lambda: ("alive/1", "PUT") in seen)
    second = there.liveliness().declare_token("alive/2")
    assert eventually(lambda: ("alive/2", "PUT") in seen)

    def alive() -> list[str]:
        return sorted(
            str(reply.ok.key_expr)
            for reply in replies_to(here.liveliness().get, "alive/*", timeout=WAIT_S)
        )

    # An Eclipse client now and then ends its query before the answers to it, and hands those to its
    # liveliness subscriber; with Eclipse nodes alone as well, and more often if their processes
    # differ. What travels is the same each time.
    hasty = is_eclipse_client(here, request)
    assert alive() == ["alive/1", "alive/2"] or hasty
    second.undeclare()
    assert eventually(lambda: ("alive/2", "DELETE") in seen)
    first.undeclare()
    assert eventually(lambda: ("alive/1", "DELETE") in seen)
    assert len(set(seen)) == 4
    assert len(seen) == 4 or hasty
    watcher.undeclare()


def is_eclipse_client(made: Any, request: pytest.FixtureRequest) -> bool:
    nodes = TOPOLOGIES[request.node.callspec.params["ends"]]
    return module_of(made) is zenoh and (ECLIPSE, "client*") in nodes


def test_the_elea_module_answers_to_the_names_of_zenoh() -> None:
    missing = [name for name in ("open", "Session", "Config") if not hasattr(elea, name)]
    assert missing == []
    assert importlib.import_module("elea.handlers")
