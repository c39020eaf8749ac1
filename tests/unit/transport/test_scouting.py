"""Scouter and Responder: when is asked, who is answered, and how often at most."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.vectors.loader import load

from elea.limits import DEFAULT_LIMITS
from elea.transport.scouting import Responder, Scouter
from elea.wire.batches import decode_scouting, encode_scouting
from elea.wire.scouting.hello import Hello
from elea.wire.scouting.scout import Scout

SECOND = 1_000_000_000
LOCATORS = ("tcp/127.0.0.1:7447",)
ROUTER, PEER, CLIENT = 0, 1, 2


def here() -> tuple[str, ...]:
    return LOCATORS


def test_the_first_question_at_once_then_ever_more_patiently() -> None:
    scouter = Scouter(7, b"\x0a", now_ns=5 * SECOND)
    asked = []
    for _ in range(8):
        now_ns = scouter.next_timer_ns()
        assert scouter.handle_timer(now_ns - 1) is None
        assert scouter.handle_timer(now_ns) == bytes.fromhex("010907")
        asked.append(now_ns // SECOND)
    assert asked == [5, 6, 8, 12, 20, 28, 36, 44]


def test_the_captured_question_and_answer() -> None:
    question, answer = load("scouting_router.jsonl")[:2]
    assert Scouter(7, b"\x0a", 0).handle_timer(0) == question.octets
    hello = decode_scouting(answer.octets)
    assert isinstance(hello, Hello)
    assert hello.locators is not None
    locators = hello.locators
    responder = Responder(hello.zid, hello.whatami)
    assert responder.receive(question.octets, "127.0.0.1", lambda: locators, 0) == answer.octets
    assert Scouter(7, b"\x0a", 0).receive(answer.octets) == hello


@pytest.mark.parametrize("what", range(8))
@pytest.mark.parametrize("role", [ROUTER, PEER, CLIENT])
def test_only_wanted_roles_answer_and_are_heard(what: int, role: int) -> None:
    wanted = bool(what >> role & 1)
    responder = Responder(b"\x0b", role)
    answer = responder.receive(encode_scouting(Scout(what)), "a", here, 0)
    assert (answer is not None) == wanted
    hello = Hello(b"\x0b", role, LOCATORS)
    heard = Scouter(what, b"\x0a", 0).receive(encode_scouting(hello))
    assert heard == (hello if wanted else None)


def test_another_version_is_answered_all_the_same() -> None:
    assert Responder(b"\x0b", ROUTER).receive(encode_scouting(Scout(1, version=8)), "a", tuple, 0)


@pytest.mark.parametrize("datagram", [b"", b"\xff", b"\x01", b"\x02\x09"])
def test_garbage_is_ignored(datagram: bytes) -> None:
    assert Scouter(7, b"\x0a", 0).receive(datagram) is None
    assert Responder(b"\x0b", ROUTER).receive(datagram, "a", here, 0) is None


def test_neither_side_takes_the_others_message_nor_its_own() -> None:
    scout, hello = encode_scouting(Scout(7)), encode_scouting(Hello(b"\x0b", ROUTER, LOCATORS))
    assert Scouter(7, b"\x0a", 0).receive(scout) is None
    assert Scouter(7, b"\x0b", 0).receive(hello) is None
    responder = Responder(b"\x0b", ROUTER)
    assert responder.receive(hello, "a", here, 0) is None
    assert responder.receive(encode_scouting(Scout(7, zid=b"\x0b")), "a", here, 0) is None
    assert responder.receive(encode_scouting(Scout(7, zid=b"\x0a")), "a", here, 0) is not None


def test_no_locators_are_an_empty_list() -> None:
    answer = Responder(b"\x0b", PEER).receive(encode_scouting(Scout(7)), "a", tuple, 0)
    assert answer is not None
    assert decode_scouting(answer) == Hello(b"\x0b", PEER, ())


def test_one_address_gets_ten_answers_a_second() -> None:
    responder = Responder(b"\x0b", ROUTER)
    scout = encode_scouting(Scout(7))
    for start_ns in (0, SECOND, 3 * SECOND):
        answers = [responder.receive(scout, "a", here, start_ns + n) for n in range(50)]
        assert sum(answer is not None for answer in answers) == 10
        assert responder.receive(scout, "b", here, start_ns) is not None
    assert responder.refused == 120


def test_a_flood_of_forged_addresses_gets_a_hundred_answers_a_second() -> None:
    responder = Responder(b"\x0b", ROUTER)
    scout = encode_scouting(Scout(7))
    answered = 0
    for n in range(100_000):  # 10 000 a second for ten seconds
        answer = responder.receive(scout, f"10.0.{n >> 8 & 255}.{n & 255}", here, n * 100_000)
        answered += answer is not None
    assert answered == 1_000
    assert len(responder._sources) <= DEFAULT_LIMITS.scout_sources_count


def test_addresses_are_remembered_up_to_a_bound() -> None:
    limits = replace(DEFAULT_LIMITS, scout_sources_count=5)
    responder = Responder(b"\x0b", ROUTER, limits=limits)
    scout = encode_scouting(Scout(7))
    for n in range(20):
        responder.receive(scout, str(n), here, 0)
    assert len(responder._sources) == 5
    assert responder.receive(scout, "19", here, SECOND) is not None


def test_an_answer_is_one_short_datagram() -> None:
    responder = Responder(b"\x0b", ROUTER)
    locators = tuple(f"tcp/node{n}.a-rather-long-domain-name.example.org:7447" for n in range(100))
    answer = responder.receive(encode_scouting(Scout(7)), "a", lambda: locators, 0)
    assert answer is not None
    assert len(answer) <= DEFAULT_LIMITS.hello_len
    hello = decode_scouting(answer)
    assert isinstance(hello, Hello)
    assert hello.locators is not None
    assert hello.locators == locators[: len(hello.locators)]
    assert len(hello.locators) > 20
