"""A program that falls is started again, after longer and longer pauses; and ends when told to."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from elea.demo.supervisor import State, Supervisor
from elea.errors import EleaError


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.01)


def python(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_it_is_started_again_and_given_up(tmp_path: Path) -> None:
    clock = Clock()
    fails = python("import sys; print('it rained'); sys.exit(3)")
    one = Supervisor(fails, tmp_path / "out", restarts_max=2, clock=clock)
    for number, pause_s in enumerate((1.0, 2.0)):
        until(lambda: one.tend() is State.WAITING)
        assert one.restarts == number
        assert one.tend() is State.WAITING  # no time has passed
        clock.now_s += pause_s
        assert one.tend() is State.RUNNING
    until(lambda: one.tend() is State.FAILED)
    assert one.restarts == 2
    assert one.last_words() == "it rained"
    assert (tmp_path / "out").read_text().count("it rained") == 3
    assert one.stop(30)


def test_one_that_ran_long_begins_anew(tmp_path: Path) -> None:
    clock = Clock()
    one = Supervisor(python("raise SystemExit(1)"), tmp_path / "out", restarts_max=1, clock=clock)
    for _ in range(3):
        clock.now_s += 1_000  # it ran so long before it fell
        until(lambda: one.tend() is State.WAITING)
        clock.now_s += 1
        assert one.tend() is State.RUNNING
    one.stop(30)


def test_one_that_is_done_is_left_alone(tmp_path: Path) -> None:
    one = Supervisor(python("pass"), tmp_path / "out")
    until(lambda: one.tend() is State.ENDED)
    assert one.restarts == 0
    assert one.last_words() == ""


def test_it_ends_when_told_to(tmp_path: Path) -> None:
    kind = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0)); print('here',"
    one = Supervisor(python(kind + " flush=True); time.sleep(60)"), tmp_path / "out")
    until(lambda: one.last_words() == "here")
    assert one.tend() is State.RUNNING
    assert one.stop(30)
    assert one.state is State.STOPPED
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True)"
    other = Supervisor(python(deaf + "; time.sleep(60)"), tmp_path / "deaf")
    until(lambda: other.last_words() == "deaf")
    assert not other.stop(timeout_s=0.1)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(EleaError, match="nothing-there cannot be started"):
        Supervisor([str(tmp_path / "nothing-there")], tmp_path / "out")
