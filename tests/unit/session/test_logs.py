from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from elea.errors import InvalidValueError
from elea.session.logs import init_log_from_env_or, try_init_log_from_env


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("RUST_LOG", raising=False)
    names = ("elea", "elea.net")
    before = {
        name: (logging.getLogger(name).level, logging.getLogger(name).handlers[:]) for name in names
    }
    yield
    for name, (level, handlers) in before.items():
        logging.getLogger(name).setLevel(level)
        logging.getLogger(name).handlers[:] = handlers


def test_without_the_variable_nothing_changes() -> None:
    try_init_log_from_env()
    assert logging.getLogger("elea").handlers == []


def test_a_level_and_one_line_per_message(capsys: pytest.CaptureFixture[str]) -> None:
    init_log_from_env_or("info")
    init_log_from_env_or("info")
    logging.getLogger("elea.session").info("it runs")
    logging.getLogger("elea.session").debug("in detail")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith("elea.session: it runs")


def test_modules_of_zenoh_mean_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUST_LOG", "warn,zenoh::net=debug,nonsense")
    init_log_from_env_or("off")
    assert logging.getLogger("elea").level == logging.WARNING
    assert logging.getLogger("elea.net").level == logging.DEBUG


def test_no_level() -> None:
    with pytest.raises(InvalidValueError, match="loud"):
        init_log_from_env_or("loud")


def test_a_level_is_a_text() -> None:
    with pytest.raises(TypeError, match="level"):
        init_log_from_env_or(1)  # type: ignore[arg-type]  # what is refused
