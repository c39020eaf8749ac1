"""Filters and quotas for users of services: many names or addresses escape none of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import elea
from elea.session.rights import Action, Identity, Reason, Rights, identity_of

SLOW = {"messages": ["put"], "rules": [{"key_expr": "**", "freq": 0.001}]}
FEW = {"id": "few", "messages_per_second": 1}


@contextmanager
def rights(**config: object) -> Iterator[Rights]:
    """The rights of users on a node that neither listens nor connects."""
    text = json.dumps({"mode": "router", "listen": {"endpoints": []}, **config})
    with elea.open(elea.Config.from_json5(text)) as session:
        yield Rights(session)


def reason(asked: Rights, identity: Identity) -> str | None:
    excess = asked.excess(identity, Action.PUT, "a", length=1)
    return None if excess is None else excess.reason


def test_users_that_come_do_not_reset_the_rate_of_one_that_is_there() -> None:
    """Chains of 256 users were kept, and the oldest forgotten with what it knew."""
    anna = identity_of("http", "10.0.0.1", user="anna")
    with rights(downsampling=[SLOW]) as asked:
        assert reason(asked, anna) is None
        for number in range(600):
            assert reason(asked, identity_of("http", "10.0.0.2", user=f"user {number}")) is None
        assert reason(asked, anna) is Reason.DOWNSAMPLING


def test_addresses_of_a_network_spend_one_quota() -> None:
    with rights(elea={"quotas": [FEW]}) as asked:
        found = [reason(asked, identity_of("http", f"2001:db8::{n:x}")) for n in range(64)]
    assert found.count(Reason.QUOTA) > 32


def test_users_that_come_do_not_pay_the_debt_of_one_that_left() -> None:
    """Beyond 1,024 accounts the oldest was forgotten, with what it owed."""
    debtor = identity_of("http", "10.0.0.1", user="debtor")
    quota = {"id": "few", "bytes_per_second": 1}
    with rights(elea={"quotas": [quota]}) as asked:
        assert asked.excess(debtor, Action.PUT, "a", length=1_000_000) is None
        assert reason(asked, debtor) is Reason.QUOTA
        for number in range(1_100):
            reason(asked, identity_of("http", "10.0.0.2", user=f"user {number}"))
        assert reason(asked, debtor) is Reason.QUOTA
