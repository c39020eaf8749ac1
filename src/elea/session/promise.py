"""Promise: what becomes of something that another thread ends, for one who waits or a loop.

A lock, where `concurrent.futures.Future` has a condition: who waits goes on sooner.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Promise(Generic[T]):
    """A result or an error to come."""

    __slots__ = ("_error", "_gate", "_is_done", "_result", "_then")

    def __init__(self) -> None:
        self._gate = threading.Lock()  # held until it is done
        self._gate.acquire()
        self._is_done = False
        self._result: T | None = None
        self._error: BaseException | None = None
        self._then: Callable[[], object] | None = None

    def done(self) -> bool:
        """Whether it has ended."""
        return self._is_done

    def set_result(self, result: T) -> None:
        """End it, once."""
        self._result = result
        self._end()

    def set_exception(self, error: BaseException) -> None:
        """End it, once."""
        self._error = error
        self._end()

    def result(self) -> T:
        """Wait for the end: the result, or the error is raised."""
        with self._gate:
            if self._error is not None:
                raise self._error
            result: T = self._result  # type: ignore[assignment]  # T may be optional itself
            return result

    def then(self, call: Callable[[], object]) -> None:
        """Have a function called at the end, in any thread; maybe twice."""
        self._then = call
        if self._is_done:
            call()

    def _end(self) -> None:
        self._is_done = True
        self._gate.release()
        if self._then is not None:
            self._then()
