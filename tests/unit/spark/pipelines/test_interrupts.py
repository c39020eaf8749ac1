"""A signal while `elea pipeline run` ends."""

from __future__ import annotations

import argparse
import signal
import threading
from types import FrameType
from typing import Any

import pytest

from elea.cli import pipeline_runs
from elea.cli.exit_codes import Terminated
from elea.spark import jvm
from elea.spark import pipelines as dp


class Ended:
    """A run that has ended by itself."""

    def wait(self, _timeout_s: float) -> bool:
        return True


class Spark:
    """It ends while SIGTERM comes."""

    def stop(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_run_that_is_done_is_told_though_a_signal_comes_as_spark_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The exit code was 143, without a word of what is in the tables."""

    def terminate(number: int, _frame: FrameType | None) -> None:
        raise Terminated(number)

    made = Ended()
    monkeypatch.setattr(dp, "run", lambda *_args, **_more: made)
    monkeypatch.setattr(jvm, "jvm_end", lambda _error: None)
    args = argparse.Namespace(once=True, final=False, duration=None, every=2.0, quiet=True)
    progress: Any = argparse.Namespace(status=None)
    before = signal.signal(signal.SIGTERM, terminate)
    pipeline: Any = None
    try:
        told = pipeline_runs._finished(args, pipeline, Spark(), progress, threading.Event())
        assert signal.getsignal(signal.SIGTERM) is terminate
    except Terminated:
        pytest.fail("the signal ended it")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert told is made  # type: ignore[comparison-overlap]
