"""How long a verb goes on, and what it tells about that: counts, rates, a summary."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol, TextIO, TypeVar

from elea.cli.connection import note
from elea.cli.output import counted
from elea.cli.payloads import count, seconds

T_co = TypeVar("T_co", covariant=True)

_TOLD_EVERY_S: Final = 1.0


class Source(Protocol[T_co]):
    """What can be received from."""

    def recv(self, timeout: float | None = None) -> T_co: ...


def add_ending_options(parser: argparse.ArgumentParser, what: str) -> None:
    """Add `--count` and `--timeout`, for a verb that goes on until it is interrupted."""
    parser.add_argument("--count", type=count, metavar="N", help=f"end after N {what}")
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="S",
        help="end after S seconds; exit code 1 if --count was not reached",
    )


class Span:
    """How long a verb goes on: until it has counted enough, or the time is over.

    Args:
        count_max: how many; None is no bound.
        timeout_s: how long; None is for ever.
    """

    def __init__(
        self,
        count_max: int | None,
        timeout_s: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count = 0
        self._count_max = count_max
        self._clock = clock
        self._start_s = clock()
        self._end_s = None if timeout_s is None else self._start_s + timeout_s

    @property
    def elapsed_s(self) -> float:
        """How long it went on so far."""
        return self._clock() - self._start_s

    @property
    def left_s(self) -> float | None:
        """How long it may still go on."""
        return None if self._end_s is None else max(self._end_s - self._clock(), 0.0)

    @property
    def is_full(self) -> bool:
        """Whether it has counted enough."""
        return self._count_max is not None and self.count >= self._count_max

    @property
    def is_over(self) -> bool:
        """Whether it ends here."""
        return self.is_full or self.left_s == 0.0

    @property
    def code(self) -> int:
        """The exit code: 1 if the time was over before enough was counted."""
        return 0 if self._count_max is None or self.is_full else 1

    def receive(self, source: Source[T_co]) -> Iterator[T_co]:
        """What comes from a source; each counts."""
        while not self.is_over:  # a source that is never empty ends in time, too
            try:
                value = source.recv(timeout=self.left_s)
            except TimeoutError:
                return
            self.count += 1
            yield value

    def paced(
        self, interval_s: float, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[int]:
        """Numbers from 0, one per interval by the clock, so that a slow turn is caught up."""
        while not self.is_over:
            yield self.count
            self.count += 1
            due_s = self._start_s + self.count * interval_s
            if self._end_s is not None:
                due_s = min(due_s, self._end_s)
            if not self.is_full and due_s > self._clock():
                sleep(due_s - self._clock())


class Progress:
    """One line on a terminal that is written again every second; elsewhere nothing."""

    def __init__(
        self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._told_s = clock()
        self._told_count = 0
        self._shown = False

    def update(self, done_count: int, rest: str = "") -> None:
        """Tell how many are done, and the rate since it was told last."""
        passed_s = self._clock() - self._told_s
        if passed_s < _TOLD_EVERY_S or not self._stream.isatty():
            return
        rate = (done_count - self._told_count) / passed_s
        self._stream.write(f"\r{done_count} done, {rate:,.1f}/s{rest}\x1b[K")
        self._stream.flush()
        self._told_s, self._told_count, self._shown = self._clock(), done_count, True

    def end(self) -> None:
        """Leave the line as it is; what comes next begins a new one."""
        if self._shown:
            self._stream.write("\n")


def summarise(noun: str, span: Span, *, rest: str = "", dropped_count: int = 0) -> None:
    """The last line of a long run: how many of `noun`, how long it took, what was dropped."""
    elapsed_s = span.elapsed_s
    rate = f", {span.count / elapsed_s:,.1f}/s" if elapsed_s > 0 else ""
    total = counted(span.count, noun)
    note(f"{total}{rest} in {elapsed_s:.1f} s{rate}, {dropped_count} dropped")
