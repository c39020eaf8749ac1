"""The admin space beside Eclipse Zenoh's: the same questions, the same answers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import zenoh
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    _replies,
    eventually,
    free_endpoint,
    module_of,
    replies_to,
    session,
)
from tests.unit.daemon.rig import ANYWHERE, MODE, options, running

from elea.cli.main import main

ZID = "a1"
ROOT = f"@/{ZID}/{MODE}"
GOSSIP = {"scouting/gossip/enabled": True}
Answers = dict[str, tuple[str, bytes]]  # by key: encoding and payload


@contextmanager
def elea_node(**more: Any) -> Iterator[str]:
    chosen = options('metadata:{name: "gate"}', id=ZID, **more)
    with running(chosen) as daemon:
        yield daemon.locators()[0]


@contextmanager
def eclipse_node(**more: Any) -> Iterator[str]:
    endpoint = free_endpoint()
    described = {"adminspace/enabled": True, "metadata": {"name": "gate"}}
    settings = {"id": ZID, **GOSSIP, **described, **more}
    with session(ECLIPSE, MODE, listen=endpoint, more=settings):
        yield endpoint


NODES = {ELEA: elea_node, ECLIPSE: eclipse_node}


def ask(asker: Any, selector: str) -> Answers:
    target = module_of(asker).QueryTarget.ALL
    found = [one.ok for one in _replies(asker, selector, target=target)]
    assert all(one is not None and one.timestamp is None for one in found)
    return {str(one.key_expr): (str(one.encoding), one.payload.to_bytes()) for one in found}


def settled(asker: Any, selector: str, enough: Callable[[Answers], bool]) -> Answers:
    """The answers, once they are those that are waited for."""
    got: Answers = {}

    def look() -> bool:
        got.clear()
        got.update(ask(asker, selector))
        return enough(got)

    assert eventually(look), got
    return got


@contextmanager
def crowd(endpoint: str) -> Iterator[Any]:
    """A client that has declared one of each, others that have less, and one to ask by."""
    with (
        session(ECLIPSE, "router", connect=endpoint, more={"id": "a2", **GOSSIP}) as router,
        session(ECLIPSE, "peer", connect=endpoint, more={"id": "b1", **GOSSIP}) as peer,
        session(ECLIPSE, "client", connect=endpoint, more={"id": "c1"}) as busy,
        session(ECLIPSE, "client", connect=endpoint, more={"id": "c2"}) as asker,
    ):
        entities = [
            router.declare_subscriber("far"),
            router.declare_subscriber("s/x"),
            peer.declare_subscriber("beside"),
            peer.declare_publisher("p/b"),
            busy.declare_subscriber("s/**"),
            busy.declare_subscriber("s/x"),
            busy.declare_queryable("q/a"),
            busy.liveliness().declare_token("t/a"),
            busy.declare_publisher("p/a"),
            busy.declare_querier("q/*"),
        ]
        yield asker
        assert len(entities) == 10


def told(name: str) -> Answers:
    """All that a node tells of itself below its own key, to an Eclipse client."""
    with NODES[name]() as endpoint, crowd(endpoint) as asker:
        kinds = ("subscriber/beside", "queryable/q/a", "token/t/a", "publisher/p/b", "querier/q/*")
        wanted = {f"{ROOT}/{kind}" for kind in (*kinds, "subscriber/far", "publisher/p/a")}
        wanted.add(f"{ROOT}/route/successor/src/a2/dst/a2")
        shared = f"{ROOT}/subscriber/s/x"

        def complete(found: Answers) -> bool:
            return wanted <= found.keys() and b"a2" in found.get(shared, ("", b""))[1]

        return settled(asker, f"{ROOT}/**", complete)


@pytest.mark.line("R161", "R162")
def test_an_eclipse_client_is_told_the_same_by_both() -> None:
    ours, theirs = told(ELEA), told(ECLIPSE)
    assert ours.keys() == theirs.keys()
    assert {key: one[0] for key, one in ours.items()} == {
        key: one[0] for key, one in theirs.items()
    }
    shared = f"{ROOT}/subscriber/s/x"  # whose routers come in no particular order
    for found in (ours, theirs):
        shown = json.loads(found.pop(shared)[1])
        assert (sorted(shown["routers"]), shown["clients"]) == (["a1", "a2"], ["c1"])
    for key in ours.keys() - {ROOT, f"{ROOT}/metrics"}:
        assert ours[key] == theirs[key], key
    node, other = (json.loads(one[ROOT][1]) for one in (ours, theirs))
    assert list(node) == list(other)
    assert (node["zid"], node["metadata"]) == (other["zid"], other["metadata"])
    by_peer = [{one["peer"]: one for one in found["sessions"]} for found in (node, other)]
    assert by_peer[0].keys() == by_peer[1].keys()
    for zid, one in by_peer[0].items():
        like = by_peer[1][zid]
        assert list(one) == list(like)
        assert [list(link) for link in one["links"]] == [list(link) for link in like["links"]]
        assert {**one, "links": 0, "shm": 0} == {**like, "links": 0, "shm": 0}
    for found in (ours, theirs):
        lines = gzip.decompress(found[f"{ROOT}/metrics"][1]).decode().splitlines()
        assert lines[1] == "# TYPE zenoh_build info"
        start = f'zenoh_build_info{{local_id="{ZID}",local_whatami="{MODE}",version="v'
        assert lines[2].startswith(start)


@pytest.mark.line("R163")
@pytest.mark.parametrize("name", [ELEA, ECLIPSE])
def test_the_at_sign_must_be_said(name: str) -> None:
    with NODES[name]() as endpoint, session(ECLIPSE, "client", connect=endpoint) as asker:
        assert ROOT in ask(asker, "@/**")
        assert list(ask(asker, f"@/*/{MODE}")) == [ROOT]
        assert list(ask(asker, f"@/{ZID}/*")) == [ROOT]
        replies = replies_to(asker.get, "**", target=zenoh.QueryTarget.ALL, timeout=0.5)
        assert not any(one.ok for one in replies)


@pytest.mark.parametrize("name", [ELEA, ECLIPSE])
def test_an_elea_client_reads_both(name: str) -> None:
    with NODES[name]() as endpoint, session(ELEA, "client", connect=endpoint) as asker:
        mine = str(asker.zid())
        node = json.loads(ask(asker, ROOT)[ROOT][1])
        assert [one["peer"] for one in node["sessions"]] == [mine]
        with asker.declare_subscriber("s/a"):
            key = f"{ROOT}/subscriber/s/a"
            found = settled(asker, f"{ROOT}/subscriber/**", lambda found: key in found)
            assert json.loads(found[key][1])["clients"] == [mine]


@pytest.mark.line("R164")
@pytest.mark.parametrize("may_write", [True, False])
def test_an_eclipse_client_changes_the_configuration_if_it_may(
    may_write: bool, caplog: pytest.LogCaptureFixture
) -> None:
    permissions = "rw" if may_write else "r"
    endpoint = free_endpoint()
    with (
        elea_node(adminspace_permissions=permissions) as first,
        session(ECLIPSE, "client", connect=first) as writer,
    ):
        publisher = writer.declare_publisher(f"{ROOT}/config/**")
        assert eventually(lambda: publisher.matching_status.matching)
        writer.put(f"{ROOT}/config/listen/endpoints", json.dumps([ANYWHERE, endpoint]))
        writer.put(f"{ROOT}/config/metadata", '{name: "new"}')
        if not may_write:
            assert eventually(lambda: caplog.text.count("writing is not allowed") == 2)
        new = "new" if may_write else "gate"
        named = f'"metadata":{{"name":"{new}"}}'.encode()
        found = settled(writer, ROOT, lambda found: named in found[ROOT][1])
        assert (endpoint in json.loads(found[ROOT][1])["locators"]) is may_write
        if may_write:
            writer.delete(f"{ROOT}/config/metadata")
            settled(writer, ROOT, lambda found: b'"metadata":null' in found[ROOT][1])


@pytest.mark.parametrize("name", [ELEA, ECLIPSE])
def test_without_permission_nothing_is_told_and_nothing_changes(name: str) -> None:
    closed: dict[str, dict[str, Any]] = {
        ELEA: {"adminspace_permissions": "none"},
        ECLIPSE: {"adminspace/permissions/read": False},
    }
    with (
        NODES[name](**closed[name]) as endpoint,
        session(ECLIPSE, "client", connect=endpoint) as asker,
    ):
        assert ask(asker, f"{ROOT}/**") == {}


def test_the_commands_for_operators_read_an_eclipse_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with eclipse_node() as endpoint, crowd(endpoint) as asker:
        settled(asker, f"{ROOT}/publisher/**", lambda found: f"{ROOT}/publisher/p/a" in found)
        assert main(["ls", "--connect", endpoint]) == 0
        assert capsys.readouterr().out.splitlines() == [
            "beside  subscriber: peer b1",
            "far     subscriber: behind a router",
            "p/a     publisher: client c1",
            "p/b     publisher: peer b1",
            "q/*     querier: client c1",
            "q/a     queryable: client c1",
            "s/**    subscriber: client c1",
            "s/x     subscriber: client c1",
            "t/a     token: client c1",
        ]

        def graph() -> list[str]:
            assert main(["graph", "--connect", endpoint]) == 0
            found = capsys.readouterr().out.splitlines()
            assert found[0] == f"{MODE} 'gate', {endpoint}"
            return [line.partition(",")[0] for line in found[1:]]

        # The node may not know yet that the commands before are gone.
        expected = ["  client c1", "  client c2", "  peer b1", "  router a2"]
        assert eventually(lambda: graph() == expected), graph()
