"""Eclipse Zenoh clients ask a historian of Elea, through routers of both; history, then live."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import zenoh
from tests.interop.ends import (
    ECLIPSE,
    ELEA,
    _replies,
    eclipse_router,
    eventually,
    free_endpoint,
    session,
)
from tests.unit.store.historian.rig import at, historian, keep, sample, text

import elea
from elea.limits import Limits
from elea.store.historian.historian import Historian
from elea.store.log.log import Log

line = pytest.mark.line


@pytest.fixture(params=[ELEA, ECLIPSE])
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    """A router of either kind."""
    if request.param == ECLIPSE:
        with eclipse_router() as (_, where):
            yield where
        return
    where = free_endpoint()
    with session(ELEA, "router", listen=where):
        yield where


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with Log(tmp_path / "log") as opened:
        keep(opened, [sample("f/a", n, {"n": n}, sn=n) for n in range(10)])
        keep(opened, [sample("f/b", 3, {"n": 30}), sample("f/b", 20), sample("f/c", 4, {"n": 4})])
        yield opened


@pytest.fixture
def ours(endpoint: str) -> Iterator[Any]:
    with session(ELEA, "client", connect=endpoint) as opened:
        yield opened


@pytest.fixture
def made(ours: Any, log: Log, tmp_path: Path) -> Iterator[Historian]:
    with historian(ours, tmp_path / "log", key_exprs="f/**") as running:
        yield running


@pytest.fixture
def asker(made: Historian, endpoint: str) -> Iterator[Any]:
    with session(ECLIPSE, "client", connect=endpoint) as opened:
        assert eventually(lambda: _replies(opened, "f/c"))
        yield opened


def values(asker: Any, selector: str) -> list[tuple[str, Any]]:
    found = []
    for reply in _replies(asker, selector):
        assert reply.ok is not None, reply.err.payload.to_bytes()
        found.append((str(reply.ok.key_expr), json.loads(reply.ok.payload.to_bytes())))
    return found


@line("H1")
def test_an_eclipse_client_gets_the_last_values(asker: Any) -> None:
    assert sorted(values(asker, "f/**"), key=str) == [("f/a", {"n": 9}), ("f/c", {"n": 4})]
    [reply] = _replies(asker, "f/a")
    assert str(reply.ok.timestamp) == str(at(9))
    assert reply.ok.encoding == zenoh.Encoding("application/json")
    assert reply.ok.attachment.to_bytes() == b"attached"
    assert reply.ok.source_info.source_sn == 9


@line("H2")
def test_an_eclipse_client_gets_all_versions_of_a_range(asker: Any) -> None:
    # Its default consolidation keeps all replies if there is `_time`.
    numbers = [{"n": n} for n in range(10)]
    assert [one for _, one in values(asker, "f/a?_time=[..]")] == numbers
    assert [one for _, one in values(asker, f"f/a?_time=[{text(2)}..{text(5)}[")] == numbers[2:5]
    assert [one for _, one in values(asker, f"f/a?_time=[{text(2)};2s]")] == numbers[2:5]
    assert [one for _, one in values(asker, "f/a?_time=[..];_order=desc;_max=2")] == numbers[:7:-1]


@line("H3")
def test_an_eclipse_client_gets_the_state_as_of_a_time(asker: Any) -> None:
    found = values(asker, f"f/*?_at={text(3.5)}")
    assert sorted(found, key=str) == [("f/a", {"n": 3}), ("f/b", {"n": 30})]


@line("H4")
def test_an_eclipse_client_filters_and_projects(asker: Any) -> None:
    found = values(asker, "f/**?_time=[..];_filter=n > 7 AND key LIKE 'f/a';_project=n AS x")
    assert found == [("f/a", {"x": 8}), ("f/a", {"x": 9})]


@line("H5")
def test_an_eclipse_client_is_told_what_was_cut(
    ours: Any, log: Log, tmp_path: Path, endpoint: str
) -> None:
    limits = Limits(historian_rows_count=4)
    with (
        historian(ours, tmp_path / "log", key_exprs="f/**", limits=limits),
        session(ECLIPSE, "client", connect=endpoint) as asker,
    ):
        assert eventually(lambda: _replies(asker, "f/c"))
        *found, last = _replies(asker, "f/a?_time=[..]")
        assert len(found) == 4
        told = json.loads(last.err.payload.to_bytes())
        assert told["error"] == "cut"
        [following] = told["next"]
        assert json.loads(_replies(asker, following)[0].ok.payload.to_bytes()) == {"n": 4}


@line("H6")
def test_history_and_then_what_an_eclipse_client_publishes(
    asker: Any, endpoint: str, made: Historian
) -> None:
    with session(ELEA, "client", connect=endpoint) as own:
        assert eventually(lambda: list(own.get("f/c", timeout=5)))
        subscriber = own.declare_subscriber("f/a", since=at(7))
        for _ in range(3):
            assert subscriber.recv(20).payload.to_string().startswith('{"n": ')
        assert eventually(lambda: subscriber.history.is_live)
        publisher = asker.declare_publisher("f/a")
        assert eventually(lambda: publisher.matching_status.matching)
        publisher.put(b"live")
        assert subscriber.recv(20).payload.to_bytes() == b"live"
        assert subscriber.history.history_count == 3
        assert isinstance(subscriber, elea.Subscriber)
