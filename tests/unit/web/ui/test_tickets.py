"""Tickets are good once, for a while, from one address; and there are so many."""

from __future__ import annotations

from dataclasses import replace

from elea.limits import DEFAULT_LIMITS
from elea.session.rights import identity_of
from elea.web.ui.tickets import Tickets

IDENTITY = identity_of("http", "10.0.0.7")
LATER_NS = DEFAULT_LIMITS.ui_ticket_ns


def test_a_ticket_is_good_once() -> None:
    tickets = Tickets(DEFAULT_LIMITS)
    text = tickets.issue(IDENTITY, 0)
    assert tickets.take("x" + text, "10.0.0.7", 0) is None
    assert tickets.take(text, "10.0.0.7", LATER_NS - 1) is IDENTITY
    assert tickets.take(text, "10.0.0.7", 0) is None


def test_an_old_ticket_and_one_of_another_address_are_not() -> None:
    tickets = Tickets(DEFAULT_LIMITS)
    assert tickets.take(tickets.issue(IDENTITY, 0), "10.0.0.7", LATER_NS) is None
    assert tickets.take(tickets.issue(IDENTITY, 0), "10.0.0.8", 0) is None


def test_the_oldest_makes_room() -> None:
    tickets = Tickets(replace(DEFAULT_LIMITS, ui_tickets_count=2))
    first, second, third = (tickets.issue(IDENTITY, 0) for _ in range(3))
    assert len(tickets) == 2
    assert tickets.take(first, "10.0.0.7", 0) is None
    assert tickets.take(second, "10.0.0.7", 0) is tickets.take(third, "10.0.0.7", 0) is IDENTITY
