"""Many names: nobody has the rates or debts of others forgotten, and newcomers cost little."""

from __future__ import annotations

from typing import Any

import pytest

from elea.config.config import Config
from elea.limits import Limits
from elea.policy.accounts import Accounts
from elea.policy.actions import Action, Flow
from elea.policy.chains import Chains
from elea.policy.filters import Downsampler, Limiter
from elea.policy.identity import Identity, LinkIdentity, Selection
from elea.policy.interceptor import Reason
from elea.policy.policy import Policy
from elea.policy.quota import Account, Quota

SECOND = 1_000_000_000
LIMITS = Limits(user_chains_count=4, user_rates_count=8)
SLOW = {"messages": ["put"], "rules": [{"key_expr": "**", "freq": 0.1}]}
ALLOW_OWN = {
    "enabled": True,
    "default_permission": "deny",
    "rules": [
        {
            "id": "own",
            "permission": "allow",
            "messages": ["put"],
            "flows": ["ingress"],
            "key_exprs": ["home/${username}"],
        }
    ],
    "subjects": [{"id": "all", "usernames": ["anna", "otto"]}],
    "policies": [{"rules": ["own"], "subjects": ["all"]}],
}


def chains_of(**config: Any) -> Chains:
    return Chains(Policy.from_config(Config.from_mapping(config)), LIMITS)


def user(name: str, address: str = "10.0.0.1") -> Identity:
    return Identity(zid="", user=name, links=(LinkIdentity(protocol="http", address=address),))


def at(address: str) -> Identity:
    return Identity(zid="", links=(LinkIdentity(protocol="http", address=address),))


def counted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[Any]:
    """The calls of a method from now on, by what they return."""
    called: list[Any] = []
    method = getattr(owner, name)

    def call(*given: Any) -> Any:
        called.append(method(*given))
        return called[-1]

    monkeypatch.setattr(owner, name, call)
    return called


def passes(chains: Chains, identity: Identity, now_ns: int) -> bool:
    """Whether a put passes down-sampling."""
    refusal = chains.get(identity, Flow.INGRESS, now_ns).excess(Action.PUT, "a", "", 1, now_ns)
    assert refusal is None or refusal.reason is Reason.DOWNSAMPLING
    return refusal is None


def test_many_names_do_not_reset_the_rate_of_another() -> None:
    """The 257th name had the first one forgotten: it could put again at once."""
    chains = chains_of(downsampling=[SLOW])
    assert passes(chains, user("anna"), 0)
    for number in range(100):
        passes(chains, user(f"mallory {number}"), number)
        assert not passes(chains, user("anna"), number)
    assert passes(chains, user("anna"), 10 * SECOND)


def test_many_names_share_one_rate_once_all_others_are_in_use() -> None:
    chains = chains_of(downsampling=[SLOW])
    count = sum(passes(chains, user(f"mallory {number}"), 0) for number in range(100))
    assert count == LIMITS.user_rates_count + 1
    assert passes(chains, user("anna"), 10 * SECOND)  # the others are idle: she gets her own
    assert not passes(chains, user("anna"), 11 * SECOND)
    assert passes(chains, user("otto"), 11 * SECOND)


def test_many_addresses_of_a_user_have_one_rate() -> None:
    """Each address, and each address of an IPv6 network, had a clock of its own."""
    chains = chains_of(downsampling=[SLOW])
    assert [passes(chains, user("anna", f"10.0.0.{n}"), n) for n in range(20)].count(True) == 1
    assert [passes(chains, at(f"2001:db8::{n}"), n) for n in range(20)].count(True) == 1
    assert passes(chains, at("10.0.0.8"), 0)


def test_a_name_that_shares_a_rate_keeps_its_own_rules() -> None:
    chains = chains_of(downsampling=[SLOW], access_control=ALLOW_OWN)
    for number in range(20):
        passes(chains, user(f"mallory {number}"), 0)
    for name in ("anna", "otto"):
        chain = chains.get(user(name), Flow.INGRESS, 1)
        assert [chain.allows(Action.PUT, f"home/{one}", 1) for one in ("anna", "otto")] == [
            name == "anna",
            name == "otto",
        ]


def test_what_is_kept_of_users_is_bounded() -> None:
    chains = chains_of(downsampling=[SLOW])
    for number in range(500):
        now_ns = number * 11 * SECOND // 4
        for flow in Flow:
            chains.get(user(f"user {number % 50}", f"10.0.0.{number % 7}"), flow, now_ns)
        passes(chains, user(f"user {number % 50}"), now_ns)
        assert len(chains._kept) <= LIMITS.user_chains_count
        assert len(chains._rates) <= LIMITS.user_rates_count
        assert {key for one in chains._rates.values() for key in one.chains} == set(chains._kept)


def test_a_newcomer_looks_at_few_names(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = Limits(user_rates_count=1_000)
    chains = Chains(Policy.from_config(Config.from_mapping({"downsampling": [SLOW]})), limits)
    for number in range(1_000):
        assert passes(chains, user(f"mallory {number}"), 0)
    checked = counted(monkeypatch, Downsampler, "is_idle")
    for number in range(10):
        passes(chains, user(f"late {number}"), 1)
    assert 0 < len(checked) <= 10 * 32


def test_a_limiter_is_idle_if_it_has_nothing_to_remember() -> None:
    limiter = Limiter(10)
    assert limiter.is_idle(0)
    assert limiter.passes(0)
    assert [limiter.is_idle(now_ns) for now_ns in (0, 9, 10)] == [False, False, True]
    never = Limiter(None)
    assert (never.passes(0), never.is_idle(0)) == (False, True)


QUOTA = Quota(id="few", selection=Selection(), messages_per_second=10)


def test_many_names_do_not_pay_the_debt_of_one() -> None:
    """The oldest of those who left were forgotten, whatever they owed."""
    accounts = Accounts(64)
    for _ in range(100):
        accounts.get(QUOTA, "debtor", 0).spend(1, 0)
    for number in range(1_000):
        accounts.get(QUOTA, f"mallory {number}", 1).spend(1, 1)
        assert len(accounts) <= 64
    assert accounts.get(QUOTA, "debtor", 1).wait_ns(1) > 8 * SECOND


def test_who_is_connected_is_not_forgotten_for_those_who_left() -> None:
    accounts = Accounts(4)
    connected = accounts.get(QUOTA, "anna", 0)
    accounts.join(connected, 7)
    for number in range(20):
        accounts.get(QUOTA, f"mallory {number}", 0).spend(1, 0)
    assert accounts.get(QUOTA, "anna", 0) is connected
    assert len(accounts) == 5
    accounts.leave(connected, 7, 0)
    assert accounts.get(QUOTA, "anna", 0) is connected
    assert len(accounts) == 4


def test_a_newcomer_is_compared_with_few_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each message of a user of REST looked at all accounts."""
    accounts = Accounts(1_024)
    checked = counted(monkeypatch, Account, "debt_ns")
    for number in range(10_000):
        accounts.get(QUOTA, f"user {number}", 0).spend(1, 0)
    assert len(checked) <= 10_000 * 9
    checked.clear()
    for _ in range(1_000):
        accounts.get(QUOTA, "user 9999", 0).spend(1, 0)
    assert checked == []


def test_addresses_of_one_network_have_one_account() -> None:
    """A host with an IPv6 network had as many quotas as addresses: 2 ** 64."""
    assert at("2001:db8::1").name == at("2001:db8::ffff").name == "address:2001:db8::/64"
    assert at("::ffff:10.0.0.1").name == at("10.0.0.1").name == "address:10.0.0.1"
    assert at("2001:db8:0:1::1").name != at("2001:db8::1").name
