"""Transactions: collected, held, answered; asked for no faster than a peer can take them."""

from __future__ import annotations

import dataclasses

import pytest
from tests.unit.xrce.test_declarations import resource, subscriber

from elea.errors import LimitError
from elea.limits import DEFAULT_LIMITS
from elea.xrce.declaration_records import CommitDecl, Declaration, ResultDecl
from elea.xrce.encode import encode
from elea.xrce.message_records import Declare
from elea.xrce.status import RefusedError, Status
from elea.xrce.transactions import Incoming, Outgoing


def declare(*declarations: Declaration) -> Declare:
    return Declare(sync=False, committed=False, sn=0, declarations=declarations)


def commit(commit_id: int) -> CommitDecl:
    return CommitDecl(commit_id=commit_id)


def success(commit_id: int) -> ResultDecl:
    return ResultDecl(commit_id=commit_id, status=0)


@pytest.mark.line("X-052")
def test_nothing_is_decided_before_the_commit() -> None:
    incoming = Incoming(7)
    incoming.receive(declare(resource(2)), 0)
    incoming.receive(declare(), 0)
    assert incoming.next() is None


@pytest.mark.line("X-054")
def test_a_transaction_spans_messages_of_one_conduit() -> None:
    incoming = Incoming(7)
    incoming.receive(declare(resource(2)), 0)
    incoming.receive(declare(resource(8)), 1)
    incoming.receive(declare(subscriber(2), success(9)), 0)
    incoming.receive(declare(commit(5)), 0)
    found = incoming.next()
    assert found is not None
    assert (found.commit_id, found.declarations) == (5, (resource(2), subscriber(2)))
    incoming.receive(declare(commit(6)), 1)
    found = incoming.next()
    assert found is not None
    assert found.declarations == (resource(8),)


@pytest.mark.line("X-053", "X-055")
def test_one_result_with_the_id_of_the_commit() -> None:
    incoming = Incoming(7)
    incoming.receive(declare(commit(5)), 0)  # nothing queued
    found = incoming.next()
    assert found is not None
    assert found.result() == success(5)
    refused = found.result(RefusedError(Status.CONFLICT, 2, ""))
    assert refused == ResultDecl(commit_id=5, status=2, id=2)


@pytest.mark.line("X-057")
def test_a_commit_that_is_not_last_drops_its_transaction() -> None:
    incoming = Incoming(7)
    incoming.receive(declare(resource(2)), 0)
    incoming.receive(declare(commit(5), resource(4)), 0)
    found = incoming.next()
    assert found is not None
    assert (found.declarations, found.result()) == ((), ResultDecl(commit_id=5, status=5, id=0))
    incoming.receive(declare(commit(6)), 0)
    found = incoming.next()
    assert found is not None
    assert (found.declarations, found.result().status) == ((), 0)
    incoming.receive(declare(commit(7), commit(8)), 0)
    answered = [one.result() for _ in range(2) if (one := incoming.next()) is not None]
    assert [(one.commit_id, one.status) for one in answered] == [(7, 5), (8, 5)]


@pytest.mark.line("X-064")
def test_more_transactions_than_may_be_held_are_refused() -> None:
    incoming = Incoming(1)
    for commit_id in range(4):
        incoming.receive(declare(resource(2 + 2 * commit_id), commit(commit_id)), 0)
    answered = []
    while (found := incoming.next()) is not None:
        answered.append((found.commit_id, len(found.declarations), found.result().status))
    assert answered == [(0, 1, 0), (1, 1, 0), (2, 0, 3), (3, 0, 3)]
    assert incoming.refused_count == 2
    for number in range(1_000):
        incoming.receive(declare(commit(number % 256)), 0)
    assert incoming.held_count == 256, "no more than there are ids"


def test_a_transaction_that_is_too_large() -> None:
    incoming = Incoming(7, dataclasses.replace(DEFAULT_LIMITS, xrce_transaction_count=2))
    for _ in range(3):
        incoming.receive(declare(resource(2)), 0)
    incoming.receive(declare(commit(5)), 0)
    found = incoming.next()
    assert found is not None
    assert found.result() == ResultDecl(commit_id=5, status=3, id=0)


@pytest.mark.line("X-063")
def test_without_commit_mode_everything_waits_for_the_result() -> None:
    outgoing = Outgoing(0, 1_472)
    outgoing.ask([resource(2)])
    outgoing.ask([resource(4)])
    assert outgoing.next() == (resource(2), commit(0))
    assert outgoing.next() is None
    settled = outgoing.result(success(0))
    assert settled is not None
    assert (settled.declarations, settled.status) == ((resource(2),), Status.SUCCESS)
    assert outgoing.next() == (resource(4), commit(1))


@pytest.mark.line("X-063")
def test_with_commit_mode_1_the_second_commit_waits() -> None:
    outgoing = Outgoing(1, 1_472)
    outgoing.ask([resource(2)])
    outgoing.ask([resource(4)])
    outgoing.ask([resource(6)])
    assert outgoing.next() == (resource(2), commit(0))
    assert outgoing.next() == (resource(4),)
    assert outgoing.next() is None
    assert outgoing.result(success(0)) is not None
    assert outgoing.next() == (commit(1),)
    assert outgoing.next() == (resource(6),)


def test_a_refused_transaction_and_results_that_answer_nothing() -> None:
    outgoing = Outgoing(7, 1_472)
    outgoing.ask([resource(2)])
    assert outgoing.next() is not None
    assert outgoing.result(success(77)) is None
    settled = outgoing.result(ResultDecl(commit_id=0, status=99, id=2))
    assert settled is not None
    assert (settled.status, settled.id) == (Status.OTHER, 2)
    assert outgoing.result(success(0)) is None
    assert outgoing.strays_count == 2


def test_a_transaction_is_spread_over_messages_that_fit() -> None:
    outgoing = Outgoing(7, 48)
    declared = [resource(2 * number, f"/lab/{number}") for number in range(1, 20)]
    outgoing.ask(declared)
    sent: list[Declaration] = []
    while (found := outgoing.next()) is not None:
        assert len(encode(declare(*found))) <= 48
        sent += found
    assert sent == [*declared, commit(0)]


def test_what_fits_nowhere_is_sent_alone() -> None:
    outgoing = Outgoing(7, 20)
    long = resource(2, "/" + "x" * 60)
    outgoing.ask([long, subscriber(2)])
    assert outgoing.next() == (long,)
    assert outgoing.next() == (subscriber(2), commit(0))


def test_commit_ids_wrap_and_unanswered_ones_are_passed_over() -> None:
    outgoing = Outgoing(7, 1_472)
    outgoing.ask([resource(2)])
    assert outgoing.next() == (resource(2), commit(0))  # never answered
    for number in range(600):
        outgoing.ask([])
        found = outgoing.next()
        assert found is not None
        assert isinstance(found[0], CommitDecl)
        assert found[0].commit_id != 0
        assert found[0].commit_id == (number % 255) + 1
        assert outgoing.result(success(found[0].commit_id)) is not None


def test_waiting_transactions_are_bounded() -> None:
    outgoing = Outgoing(0, 1_472, waiting_count=2)
    outgoing.ask([resource(2)])
    outgoing.ask([resource(4)])
    with pytest.raises(LimitError):
        outgoing.ask([resource(6)])
