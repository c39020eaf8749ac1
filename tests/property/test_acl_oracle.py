"""Access control against an oracle that knows no key expressions. Threat T32."""

from __future__ import annotations

import pytest
from tests.property import acl_oracle

import elea.policy.access as access


@pytest.mark.parametrize("seed", range(4))
def test_rules_and_oracle_agree(seed: int) -> None:
    assert list(acl_oracle.disagreements(seed, 25_000)) == []


def test_a_subscription_is_sent_no_sample_that_it_could_not_name() -> None:
    """One that is denied in part is accepted, and gets what the rest of it may have."""
    assert list(acl_oracle.leaks(0, 2_000)) == []


def test_the_oracle_notices_samples_that_are_not_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_denies_reading", lambda rule: False)
    assert next(acl_oracle.leaks(0, 2_000), None) is not None


def test_the_world_of_the_oracle_tells_expressions_apart() -> None:
    assert acl_oracle.keys_of("a/*") & acl_oracle.keys_of("*/b")
    assert not acl_oracle.keys_of("a/**") & acl_oracle.keys_of("b/**")
    assert not acl_oracle.keys_of("**") & acl_oracle.keys_of("@x")
    assert acl_oracle.keys_of("a/**") & ~acl_oracle.keys_of("a/*")


@pytest.mark.parametrize("name", ["includes", "intersects"])
def test_the_oracle_notices_the_wrong_relation(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Denying by inclusion, as Eclipse does, or allowing by intersection."""
    other = {"includes": "intersects", "intersects": "includes"}[name]
    monkeypatch.setattr(access, name, getattr(access, other))
    assert next(acl_oracle.disagreements(0, 5_000), None) is not None
