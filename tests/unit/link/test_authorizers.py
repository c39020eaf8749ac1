"""Authorizers: found by name, and never trusted to answer properly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from elea.config.config import Config
from elea.errors import ConfigError
from elea.link.authorizers import guarded, read_authorizer
from elea.policy.identity import Identity

WHO = Identity(zid="1", user="anna")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that brings authorizers."""
    (tmp_path / "gatekeeper.py").write_text(
        "def authorize(identity, action, key):\n"
        "    return identity.user == 'anna' and action == 'put' and key == 'a'\n"
    )
    made = tmp_path / "gatekeeper-1.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: gatekeeper\nVersion: 1\n")
    (made / "entry_points.txt").write_text(
        "[elea.authorizers]\nmine = gatekeeper:authorize\nbroken = gatekeeper:missing\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gatekeeper", raising=False)


def named(name: str) -> Config:
    return Config.from_mapping({"elea": {"authorizer": name}})


def test_none_is_asked_unless_one_is_named() -> None:
    assert read_authorizer(Config()) is None


@pytest.mark.usefixtures("installed")
def test_the_one_of_a_name_is_asked() -> None:
    authorize = read_authorizer(named("mine"))
    assert authorize is not None
    assert authorize(WHO, "put", "a").allowed
    assert not authorize(WHO, "put", "b").allowed


@pytest.mark.usefixtures("installed")
def test_one_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'other'.*installed: broken, mine"):
        read_authorizer(named("other"))
    with pytest.raises(ConfigError, match="gatekeeper:missing cannot be loaded"):
        read_authorizer(named("broken"))


def test_one_that_raises_denies(caplog: pytest.LogCaptureFixture) -> None:
    def authorize(identity: Identity, action: str, key: str) -> bool:
        raise ZeroDivisionError

    verdict = guarded(authorize)(WHO, "put", "a")
    assert not verdict.allowed
    assert verdict.why == "the authorizer raised ZeroDivisionError"
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize("answer", [None, 1, "yes", False])
def test_only_true_allows(answer: object) -> None:
    assert not guarded(lambda identity, action, key: answer)(WHO, "put", "a").allowed
