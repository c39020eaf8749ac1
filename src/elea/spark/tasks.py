"""What is done once in each Python process that runs tasks of Spark."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import wraps
from types import TracebackType
from typing import Final, ParamSpec, TypeVar

from elea.errors import EleaError

P = ParamSpec("P")
T = TypeVar("T")
_HIDE: Final = "SPARK_HIDE_TRACEBACK"  # of Spark: what is raised is told by its message alone
_SOURCE_RUNNER: Final = "pyspark.sql.streaming.python_streaming_source_runner"
_SETTLED: Final = threading.Event()  # `gc.get_freeze_count` walks all that is frozen: 18 ms a call


def settle() -> None:
    """Take what is loaded by now for what stays, in a process that runs tasks.

    After every task Spark collects garbage, and looks at all modules for it: 50 ms of a processor,
    as much as for 50 000 rows. What is frozen is not looked at.
    """
    if _SETTLED.is_set() or "pyspark" not in sys.modules:
        return
    from pyspark import TaskContext  # late: logs are read without Spark, too

    if TaskContext.get() is not None:
        _SETTLED.set()
        gc.freeze()


def told_briefly(method: Callable[P, T]) -> Callable[P, T]:
    """Have Spark show an error of Elea by its message: a mistake of a user needs no traceback."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return method(*args, **kwargs)
        except EleaError as error:
            _hide_traceback()
            raise error.with_traceback(None) from None

    return call


def rows_told_briefly(method: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Do the same for a method whose errors come with its rows."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        try:
            yield from method(*args, **kwargs)
        except EleaError as error:
            _hide_traceback()
            raise error.with_traceback(None) from None

    return call


def _hide_traceback() -> None:
    """In a process of Spark, which ends after any error: have it leave out its traceback."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name.startswith("pyspark."):
        os.environ[_HIDE] = "1"


def end_quietly() -> None:
    """In the process that answers Spark for a stream: say nothing when Spark closes it.

    It is ended by closing its connection, in the middle of an answer if need be. That is an orderly
    end of a query, and 40 lines of traceback for each of them otherwise.
    """
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    if main is not None and main.name == _SOURCE_RUNNER:
        sys.excepthook = _tell_others


def _tell_others(
    kind: type[BaseException], error: BaseException, traceback: TracebackType | None
) -> None:
    if not isinstance(error, (ConnectionError, EOFError)):
        sys.__excepthook__(kind, error, traceback)
