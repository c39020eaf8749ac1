from __future__ import annotations

import argparse
import io

import pytest

from elea.cli.progress import Progress, Span, add_ending_options, summarise


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, time_s: float) -> None:
        self.slept.append(time_s)
        self.now_s += time_s


class Source:
    """Gives numbers, one per half second, as a subscriber would."""

    flood = False  # whether the next one is always there

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.last = 0

    def recv(self, timeout: float | None = None) -> int:
        if timeout is not None and timeout < 0.5 and not self.flood:
            self.clock.now_s += timeout
            raise TimeoutError
        self.clock.now_s += 0.5
        self.last += 1
        return self.last


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("count_max", "timeout_s", "received", "code"),
    [(2, None, 2, 0), (2, 5.0, 2, 0), (None, 1.2, 2, 0), (9, 1.2, 2, 1), (9, 0.0, 0, 1)],
)
def test_receiving_ends(
    count_max: int | None, timeout_s: float | None, received: int, code: int
) -> None:
    clock = Clock()
    span = Span(count_max, timeout_s, clock)
    assert list(span.receive(Source(clock))) == list(range(1, received + 1))
    assert (span.count, span.code) == (received, code)


def test_a_source_that_is_never_empty_ends_in_time() -> None:
    clock = Clock()
    source = Source(clock)
    source.flood = True
    assert list(Span(None, 1.2, clock).receive(source)) == [1, 2, 3]


def test_a_slow_turn_is_caught_up() -> None:
    clock = Clock()
    span = Span(5, None, clock)
    for number in span.paced(1.0, clock.sleep):
        clock.now_s += 2.5 if number == 1 else 0.0
    assert clock.slept == [1.0, 0.5]
    assert (span.count, span.elapsed_s) == (5, 4.0)


def test_pacing_stops_at_the_end_of_the_time() -> None:
    clock = Clock()
    span = Span(None, 2.5, clock)
    assert list(span.paced(1.0, clock.sleep)) == [0, 1, 2]
    assert clock.slept == [1.0, 1.0, 0.5]


def test_the_last_turn_does_not_wait() -> None:
    clock = Clock()
    assert list(Span(1, None, clock).paced(60.0, clock.sleep)) == [0]
    assert clock.slept == []


def test_a_terminal_sees_the_rate_every_second() -> None:
    clock, terminal = Clock(), Terminal()
    progress = Progress(terminal, clock)
    progress.update(10)
    clock.now_s += 2
    progress.update(2_000, ", 3 dropped")
    progress.update(2_001)
    progress.end()
    assert terminal.getvalue() == "\r2000 done, 1,000.0/s, 3 dropped\x1b[K\n"


def test_a_file_sees_no_progress() -> None:
    clock, file = Clock(), io.StringIO()
    progress = Progress(file, clock)
    clock.now_s += 2
    progress.update(2_000)
    progress.end()
    assert file.getvalue() == ""


def test_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    span = Span(None, None, clock)
    span.count = 10
    summarise("sample", span)
    clock.now_s += 4
    summarise("sample", span, dropped_count=2)
    assert capsys.readouterr().err.splitlines() == [
        "elea: 10 samples in 0.0 s, 0 dropped",
        "elea: 10 samples in 4.0 s, 2.5/s, 2 dropped",
    ]


def test_the_options() -> None:
    parser = argparse.ArgumentParser()
    add_ending_options(parser, "samples")
    args = parser.parse_args(["--count", "3", "--timeout", "0.5"])
    assert (args.count, args.timeout) == (3, 0.5)
