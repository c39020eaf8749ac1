"""What is tried again, asked and logged: how often, and how long it may take."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tests.meta.tree import ROOT

from elea.dds.history import HistoryQueries, Question
from elea.dds.port import Endpoint, Tier, TopicType
from elea.dds.qos import Qos
from elea.dds.routes import Direction, Plan, RouteId
from elea.dds.schedule import Schedule
from elea.dds.settings import DdsSettings
from elea.dds.state import State, StateCell
from elea.dds.types import TypeStore
from elea.limits import DEFAULT_LIMITS

line = pytest.mark.line
SECOND = 1_000_000_000
HASH = b"h" * 14


def route(key: str) -> RouteId:
    return RouteId(Direction.FROM_DDS, key, key, "", "T", HASH)


@line("D-209", "D-832")
def test_failed_work_is_tried_later_each_time_and_never_in_bursts() -> None:
    schedule = Schedule()
    delays = [schedule.retry(route("a"), attempts, 0) // SECOND for attempts in range(1, 9)]
    assert delays == [1, 2, 4, 8, 16, 32, 60, 60]
    schedule = Schedule()
    dues = sorted(schedule.retry(route(f"k{number}"), 1, 0) for number in range(35))
    for first, eleventh in zip(dues, dues[10:], strict=False):
        assert eleventh - first >= SECOND


class _Library:
    def __init__(self, answers: int) -> None:
        self.asked: list[tuple[bytes, int]] = []
        self._answers = answers

    def resolve(self, guid: bytes, timeout_ns: int) -> TopicType | None:
        self.asked.append((guid, timeout_ns))
        return TopicType("T", Tier.EXACT) if len(self.asked) >= self._answers else None


def plan(key: str, count: int = 1) -> Plan:
    guids = [bytes([number]) * 15 + b"\x03" for number in range(count)]
    return Plan(
        route(key), tuple(Endpoint(one, one, True, key, "T", Qos(), 0, HASH) for one in guids)
    )


@line("D-210", "D-262")
def test_types_are_asked_for_briefly_one_peer_at_a_time_and_once() -> None:
    library: Any = _Library(answers=2)
    store = TypeStore(library, DdsSettings(), DEFAULT_LIMITS)
    found, again_ns = store.of(plan("a", 3), 0)
    assert found is None
    assert again_ns is not None
    assert len(library.asked) == 1  # the others of the plan are not waited for
    assert store.of(plan("a", 3), again_ns)[0] is not None
    assert [guid for guid, _ in library.asked] == [b"\0" * 15 + b"\x03", b"\1" * 15 + b"\x03"]
    assert all(timeout_ns <= 20_000_000 for _, timeout_ns in library.asked)
    # Another route of the same type makes no traffic.
    assert store.of(plan("b"), again_ns)[0] is not None
    assert len(library.asked) == 2


class _Session:
    def __init__(self) -> None:
        self.running: list[Any] = []
        self.most = 0

    def get(self, _selector: Any, handler: Any, **_options: Any) -> None:
        self.running.append(handler)
        self.most = max(self.most, len(self.running))


def _note(done: list[int], number: int, _items: object, _beyond: int) -> None:
    done.append(number)


@line("D-567")
def test_history_is_asked_for_a_few_at_a_time() -> None:
    session: Any = _Session()
    posted: list[Callable[[int], None]] = []
    rights: Any = SimpleNamespace(allow_query=lambda *_: True)
    queries = HistoryQueries(
        session,
        posted.append,
        rights,
        timeout_s=5.0,
        running_max=32,
        waiting_max=1_000,
        samples_max=10,
    )
    done: list[int] = []
    for number in range(1_000):
        queries.ask(Question(f"k{number}", "", partial(_note, done, number)))
    assert len(session.running) == 32
    while session.running:
        session.running.pop(0).drop()
        while posted:
            posted.pop(0)(0)
    assert session.most == 32
    assert sorted(done) == list(range(1_000))


@line("D-567")
def test_a_refused_history_query_lets_the_next_one_be_asked() -> None:
    session: Any = _Session()
    posted: list[Callable[[int], None]] = []
    rights: Any = SimpleNamespace(allow_query=lambda key, _parameters: key != "k1")
    queries = HistoryQueries(
        session,
        posted.append,
        rights,
        timeout_s=5.0,
        running_max=1,
        waiting_max=10,
        samples_max=10,
    )
    done: list[int] = []
    for number in range(3):
        queries.ask(Question(f"k{number}", "", partial(_note, done, number)))
    while session.running:
        session.running.pop(0).drop()
        while posted:
            posted.pop(0)(0)
    assert done == [0, 1, 2]


@line("D-755")
def test_a_state_and_reason_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "elea.dds")
    cell = StateCell(RouteId(Direction.TO_DDS, "a\nb", "t\x1b[31m", "", "T"))
    for second in range(0, 120, 10):
        cell.set(State.FAILED, second * SECOND, "no\nroom")
        cell.set(State.ACTIVE, second * SECOND + 1)
    told = [record.getMessage() for record in caplog.records]
    assert len([one for one in told if "Failed" in one]) == 2
    assert len([one for one in told if "Active" in one]) == 2
    assert all("\n" not in one and "\x1b" not in one for one in told)


@line("D-267", "D-605", "D-640", "D-737")
@pytest.mark.parametrize(
    "sentence",
    [
        "Big-endian peers that send no type information are not supported.",
        "Strengths of exclusive owners are not carried",
        "Rings through several Zenoh networks and several domains are not detected.",
        "DDS-XRCE 1.0 of the OMG (micro-ROS) is another protocol, and not served.",
    ],
)
def test_known_limits_are_documented(sentence: str) -> None:
    assert sentence in (ROOT / "docs/howto/dds-bridge.md").read_text(encoding="utf-8")
