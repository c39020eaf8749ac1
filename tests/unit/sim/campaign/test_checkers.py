"""The laws over a history: each holds for a sound one and names what breaks it."""

from __future__ import annotations

import pytest

from elea.routing.tables import Kind
from elea.sim.campaign.checkers import (
    SETTLING_NS,
    Events,
    Law,
    at_most_once,
    interests_settle_once,
    no_false_ends,
    no_missed_ends,
    nothing_comes_late,
    nothing_is_lost,
    only_declared_get,
    only_published_is_delivered,
    order_is_kept,
    queries_end_once,
)
from elea.sim.campaign.history import (
    Asked,
    Attached,
    CalledLate,
    Cancelled,
    Declared,
    Delivered,
    Ended,
    Event,
    Fault,
    Interested,
    Left,
    LostNeighbour,
    Published,
    Replied,
    Requested,
    Retracted,
    Settled,
    Undeclared,
    Vanished,
)

SUB = Declared(2, Kind.SUBSCRIBER, 1, "a/*")
UNSUB = Undeclared(2, Kind.SUBSCRIBER, 1)
QUERYABLE = Declared(2, Kind.QUERYABLE, 2, "a/*")
TOKEN = Declared(1, Kind.TOKEN, 1, "a/1")
WATCH = Interested(2, 5, Kind.TOKEN, "**", True, True)
GONE = Vanished(2, Kind.TOKEN, "a/1")
HOMES: list[Event] = [Attached(1, "x"), Attached(2, "y")]


def put(number: int, *, blocking: bool = True) -> Published:
    return Published(1, "a/1", number, blocking)


def got(number: int, *, session: int = 2, whole: bool = True) -> Delivered:
    return Delivered(session, 1, "a/1", number, whole)


def history(*events: Event, step_ns: int = 1) -> Events:
    return [(index * step_ns, event) for index, event in enumerate(events)]


@pytest.mark.parametrize(
    ("law", "events", "breaks"),
    [
        (order_is_kept, [got(1), got(3), got(4)], False),
        (order_is_kept, [got(1), got(3), got(2)], True),
        (order_is_kept, [got(2), got(1, session=3)], False),
        (only_declared_get, [SUB, got(1), UNSUB], False),
        (only_declared_get, [got(1), SUB], True),
        (only_declared_get, [SUB, UNSUB, got(1)], True),
        (only_declared_get, [SUB, Left(2), got(1)], True),
        (only_declared_get, [QUERYABLE, Asked(1, 7, "a/1"), Requested(2, 1, 7)], False),
        (only_declared_get, [SUB, Asked(1, 7, "a/1"), Requested(2, 1, 7)], True),
        (nothing_comes_late, [SUB, got(1), UNSUB], False),
        (nothing_comes_late, [SUB, UNSUB, CalledLate(2, Kind.SUBSCRIBER, 1)], True),
        (at_most_once, [got(1), got(2), got(1, session=3)], False),
        (at_most_once, [got(1), got(2), got(1)], True),
        (at_most_once, [got(1, whole=False)], True),
        (at_most_once, [got(1, session=1)], True),
        (at_most_once, [Requested(2, 1, 7), Requested(2, 1, 7)], True),
        (only_published_is_delivered, [put(1), got(1)], False),
        (only_published_is_delivered, [put(1), got(2)], True),
        (queries_end_once, [Asked(1, 7, "a"), Replied(1, 7, 2), Ended(1, 7)], False),
        (queries_end_once, [Asked(1, 7, "a"), Replied(1, 7, 2)], True),
        (queries_end_once, [Asked(1, 7, "a"), Ended(1, 7), Ended(1, 7)], True),
        (queries_end_once, [Asked(1, 7, "a"), Ended(1, 7), Replied(1, 7, 2)], True),
        (queries_end_once, [Asked(1, 7, "a"), Cancelled(1, 7)], False),
        (queries_end_once, [Asked(1, 7, "a"), Cancelled(1, 7), Ended(1, 7)], True),
        (queries_end_once, [Asked(1, 7, "a"), Left(1)], False),
        (interests_settle_once, [WATCH, Settled(2, 5)], False),
        (interests_settle_once, [WATCH], True),
        (interests_settle_once, [WATCH, Settled(2, 5), Settled(2, 5)], True),
        (interests_settle_once, [WATCH, Retracted(2, 5)], False),
        (interests_settle_once, [WATCH, Left(2)], False),
        (interests_settle_once, [Interested(2, 5, Kind.TOKEN, "**", False, True)], False),
    ],
)
def test_a_law_is_broken_or_not(law: Law, events: list[Event], breaks: bool) -> None:
    assert bool(law(history(*events))) is breaks


def everywhere(one: str, other: str) -> bool:
    return True


def nowhere(one: str, other: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("events", "breaks"),
    [
        ([*HOMES, SUB, put(1), got(1), Fault("end")], False),
        ([*HOMES, SUB, put(1), Fault("end")], True),
        ([*HOMES, SUB, put(1, blocking=False), Fault("end")], False),
        ([*HOMES, SUB, UNSUB, put(1), Fault("end")], False),
        ([*HOMES, SUB, LostNeighbour("x"), put(1), Fault("end")], False),
    ],
)
def test_what_is_wanted_and_may_not_be_dropped_arrives(events: list[Event], breaks: bool) -> None:
    slow = history(*events, step_ns=2 * SETTLING_NS)
    assert bool(nothing_is_lost(slow, everywhere)) is breaks
    assert nothing_is_lost(slow, nowhere) == []
    # Who declared only now may miss it.
    assert nothing_is_lost(history(*events), everywhere) == []


@pytest.mark.parametrize(
    ("events", "breaks"),
    [
        ([*HOMES, TOKEN, WATCH, GONE], True),
        ([*HOMES, TOKEN, WATCH, Undeclared(1, Kind.TOKEN, 1), GONE], False),
        ([*HOMES, TOKEN, WATCH, Left(1), GONE], False),
        ([*HOMES, TOKEN, GONE], False),
        ([*HOMES, TOKEN, WATCH, Retracted(2, 5), GONE], False),
        ([*HOMES, TOKEN, WATCH, Vanished(2, Kind.SUBSCRIBER, "a/1")], False),
        ([*HOMES, TOKEN, Fault("cut"), WATCH, GONE], False),
    ],
)
def test_a_token_that_lives_is_not_mourned(events: list[Event], breaks: bool) -> None:
    slow = history(*events, step_ns=2 * SETTLING_NS)
    assert bool(no_false_ends(slow, everywhere)) is breaks
    assert no_false_ends(slow, nowhere) == []


UNTOKEN = Undeclared(1, Kind.TOKEN, 1)
OTHER = Declared(3, Kind.TOKEN, 9, "a/1")
THREE: list[Event] = [*HOMES, Attached(3, "z")]


@pytest.mark.parametrize(
    ("events", "breaks"),
    [
        ([*THREE, TOKEN, WATCH, UNTOKEN, GONE, Left(2)], False),
        ([*THREE, TOKEN, WATCH, UNTOKEN, Left(1), Left(2)], True),
        ([*THREE, TOKEN, WATCH, Left(1), Left(2), Left(3)], True),
        ([*THREE, TOKEN, WATCH, OTHER, UNTOKEN, Left(1), Left(2)], False),  # another has it
        ([*THREE, WATCH, Retracted(2, 5), TOKEN, UNTOKEN, Left(2)], False),
        ([*THREE, TOKEN, WATCH, Fault("cut"), UNTOKEN, Left(1), Left(2)], False),
    ],
)
def test_the_end_of_a_token_is_told_to_who_watches(events: list[Event], breaks: bool) -> None:
    slow = history(*events, step_ns=SETTLING_NS)
    assert bool(no_missed_ends(slow, everywhere)) is breaks
    assert no_missed_ends(slow, nowhere) == []


def test_an_empty_history_breaks_nothing() -> None:
    assert nothing_is_lost([], everywhere) == no_false_ends([], everywhere) == []
    assert no_missed_ends([], everywhere) == []
