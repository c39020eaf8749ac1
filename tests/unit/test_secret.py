from __future__ import annotations

import copy
import json
import pickle

import pytest

from elea.secret import Secret

CANARY = "canary-5f2d"


def test_no_way_of_printing_shows_it() -> None:
    secret = Secret(CANARY)
    shown = [str(secret), repr(secret), f"{secret}", f"{secret!r:>20}", f"{secret:>10}"]
    shown += [f"{[secret]} {secret!a}", str({"password": secret})]
    assert all(CANARY not in text and "***" in text for text in shown)
    assert secret.reveal() == CANARY


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_it_is_never_pickled(protocol: int) -> None:
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(Secret(CANARY), protocol)


def test_it_is_no_json() -> None:
    with pytest.raises(TypeError):
        json.dumps(Secret(CANARY))


def test_it_compares_with_its_kind_only() -> None:
    assert Secret(CANARY) == Secret(CANARY)
    assert Secret(CANARY) != Secret("other")
    assert Secret(CANARY) != CANARY
    assert Secret("\ud800") == Secret("\ud800")


def test_its_hash_tells_nothing() -> None:
    assert hash(Secret("a")) == hash(Secret("b"))


def test_copies_are_itself() -> None:
    secret = Secret(CANARY)
    assert copy.copy(secret) is secret
    assert copy.deepcopy([secret])[0] is secret
