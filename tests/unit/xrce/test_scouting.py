"""Who answers a Scout."""

from __future__ import annotations

import pytest
from tests.xrce_session import BROKER, messages, settings

from elea.xrce.encode import encode
from elea.xrce.message_records import Hello, Message, Scout
from elea.xrce.session.acceptor import Acceptor
from elea.xrce.session.rates import RateLimit
from elea.xrce.session.scouting import Role, ScoutAnswerer

LOCATORS = (b"udp/127.0.0.1:7447", b"tcp/127.0.0.1:7447")
SECOND_NS = 1_000_000_000


def asked(mask: int, roles: Role = Role.BROKER) -> list[tuple[str, Message]]:
    acceptor = Acceptor[str](settings(BROKER), scouting=ScoutAnswerer(roles, LOCATORS))
    acceptor.receive(encode(Scout(mask=mask)), "here", 0)
    assert acceptor.pids() == []
    out = acceptor.data_to_send(0)
    return [(source, one) for source, frame in out for one in messages(frame)]


@pytest.mark.line("X-026")
@pytest.mark.parametrize("mask", [1, 3, 16_383, 2**63 + 1])
def test_a_broker_answers_who_looks_for_one(mask: int) -> None:
    assert asked(mask) == [("here", Hello(mask=1, locators=LOCATORS))]


@pytest.mark.line("X-025")
@pytest.mark.parametrize("mask", [0, 2, 8, 16, 2**40])
def test_a_broker_does_not_answer_others(mask: int) -> None:
    assert asked(mask) == []


@pytest.mark.line("X-027")
def test_durability_is_told_only_where_it_is() -> None:
    [(_, hello)] = asked(2, Role.BROKER | Role.DURABILITY)
    assert hello == Hello(mask=3, locators=LOCATORS)
    assert encode(hello).hex(" ").startswith("02 03 02 12 75")


def test_who_looks_for_peers_learns_which_groups_are_heard() -> None:
    """Peers write to groups alone: without one they would have no way to write to us."""
    answerer = ScoutAnswerer(Role.BROKER, LOCATORS)
    answerer.groups = (b"udp/239.255.0.1:7447",)
    acceptor = Acceptor[str](
        settings(BROKER), scouting=answerer, is_stream=lambda source: source == "stream"
    )

    def locators(mask: int, source: str) -> tuple[bytes, ...]:
        acceptor.receive(encode(Scout(mask=mask)), source, 0)
        [(_, frame)] = acceptor.data_to_send(0)
        [hello] = messages(frame)
        assert isinstance(hello, Hello)
        return hello.locators

    peers = Role.PEER | Role.BROKER
    assert locators(peers, "datagrams") == (b"udp/239.255.0.1:7447", *LOCATORS)
    assert locators(peers, "stream") == (b"tcp/0.0.0.0:0", *LOCATORS), "all of its connections"
    assert locators(Role.BROKER, "datagrams") == locators(Role.BROKER, "stream") == LOCATORS


def test_nobody_answers_where_scouting_is_off() -> None:
    acceptor = Acceptor[str](settings(BROKER))
    acceptor.receive(encode(Scout(mask=1)), "here", 0)
    assert acceptor.data_to_send(0) == []


@pytest.mark.line("X-029")
def test_a_flood_of_scouts_is_not_answered() -> None:
    answerer = ScoutAnswerer(Role.BROKER, LOCATORS)
    scout = Scout(mask=1)
    answered = [answerer.answer(scout, "here", 0) is not None for _ in range(100)]
    assert answered == [True] * 20 + [False] * 80
    assert answerer.rate.refused_count == 80
    assert answerer.answer(scout, "there", 0) is not None
    assert answerer.answer(scout, "here", SECOND_NS) is not None


def test_rates_are_bounded_in_total_and_in_memory() -> None:
    rate = RateLimit(source_count=5, total_count=8, sources_count=3)
    assert [rate.allows(source, 0) for source in ("a", "b", "c", "d", "a")] == [
        *(True, True, True),
        *(False, True),
    ]
    assert sum(rate.allows("a", 0) for _ in range(9)) == 3
    assert sum(rate.allows("b", 0) for _ in range(9)) == 1
