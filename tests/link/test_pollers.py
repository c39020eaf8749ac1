"""Both pollers do the same: one suite, run for each."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

import pytest
from tests.link.loops import Loop

from elea.errors import ClosedError
from elea.link.base import READ, WRITE
from elea.link.timers import Timers


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    for end in (one, other):
        end.setblocking(False)
    yield one, other
    one.close()
    other.close()


Ends = tuple[socket.socket, socket.socket]


def nothing() -> None:
    """For callbacks that a test has no use for."""


def test_readable_is_told_until_it_is_read(loop: Loop, ends: Ends) -> None:
    one, other = ends
    seen: list[bytes] = []
    loop.poller.register(one.fileno(), lambda: seen.append(one.recv(1)), nothing)
    other.send(b"ab")
    loop.until(lambda: len(seen) == 2)
    assert seen == [b"a", b"b"]
    other.send(b"c")
    loop.until(lambda: len(seen) == 3)


def test_writable_is_told_only_when_it_is_wanted(loop: Loop, ends: Ends) -> None:
    fd = ends[0].fileno()
    told: list[str] = []

    def writable() -> None:
        told.append("w")
        loop.poller.modify(fd, READ)

    loop.poller.register(fd, nothing, writable)
    loop.run(nothing)
    assert told == []
    loop.poller.modify(fd, READ | WRITE)
    loop.until(lambda: told == ["w"])
    loop.run(nothing)
    assert told == ["w"]


def test_a_descriptor_can_be_watched_for_nothing_and_again(loop: Loop, ends: Ends) -> None:
    one, other = ends
    seen: list[bytes] = []
    loop.poller.register(one.fileno(), lambda: seen.append(one.recv(9)), nothing, 0)
    other.send(b"x")
    loop.run(nothing)
    assert seen == []
    loop.poller.modify(one.fileno(), READ)
    loop.until(lambda: seen == [b"x"])
    loop.poller.modify(one.fileno(), 0)
    other.send(b"y")
    loop.run(nothing)
    assert seen == [b"x"]


def test_what_is_unregistered_is_not_called_even_in_the_same_turn(loop: Loop) -> None:
    pairs = [socket.socketpair() for _ in range(2)]
    called: list[int] = []

    def drop_both(index: int) -> Callable[[], None]:
        def call() -> None:
            called.append(index)
            for near, _ in pairs:
                loop.poller.unregister(near.fileno())

        return call

    def set_up() -> None:  # on the loop, so that both are ready in one turn
        for index, (near, far) in enumerate(pairs):
            far.send(b"x")
            loop.poller.register(near.fileno(), drop_both(index), nothing)

    loop.run(set_up)
    loop.until(lambda: bool(called))
    loop.run(nothing)
    assert len(called) == 1
    for near, far in pairs:
        near.close()
        far.close()


def test_registering_twice_is_refused_and_forgetting_twice_is_not(loop: Loop, ends: Ends) -> None:
    fd = ends[0].fileno()

    def twice() -> None:
        loop.poller.register(fd, nothing, nothing)
        with pytest.raises(ValueError, match="registered already"):
            loop.poller.register(fd, nothing, nothing)
        loop.poller.unregister(fd)
        loop.poller.unregister(fd)
        loop.poller.modify(fd, WRITE)
        loop.poller.register(fd, nothing, nothing)

    loop.run(twice)
    assert loop.errors == []


def test_calls_from_other_threads_run_on_the_loop_in_order(loop: Loop) -> None:
    seen: list[tuple[int, bool]] = []

    def note(number: int) -> None:
        seen.append((number, loop.poller.in_loop()))

    def work() -> None:
        for number in range(500):
            loop.poller.call_soon_threadsafe(partial(note, number))

    caller = threading.Thread(target=work)
    caller.start()
    caller.join()
    assert not loop.poller.in_loop()
    loop.until(lambda: len(seen) == 500)
    assert seen == [(number, True) for number in range(500)]


def test_a_call_that_adds_itself_again_does_not_starve_the_others(loop: Loop, ends: Ends) -> None:
    one, other = ends
    seen: list[bytes] = []

    def again() -> None:
        if not seen:
            loop.poller.call_soon_threadsafe(again)

    loop.poller.call_soon_threadsafe(again)
    loop.poller.register(one.fileno(), lambda: seen.append(one.recv(9)), nothing)
    other.send(b"x")
    loop.until(lambda: seen == [b"x"])


def test_a_deadline_is_called_once_and_not_early(loop: Loop) -> None:
    due = time.monotonic_ns() + 20_000_000
    called: list[int] = []
    loop.poller.set_deadline(due, lambda: called.append(time.monotonic_ns()))
    loop.until(lambda: bool(called))
    assert called[0] >= due
    loop.run(nothing)
    assert len(called) == 1


def test_a_new_deadline_takes_the_place_of_the_last(loop: Loop) -> None:
    called: list[str] = []
    far = time.monotonic_ns() + 3_600_000_000_000
    loop.poller.set_deadline(far, lambda: called.append("far"))
    loop.run(nothing)
    loop.poller.set_deadline(time.monotonic_ns() + 5_000_000, lambda: called.append("near"))
    loop.until(lambda: bool(called))
    loop.poller.set_deadline(time.monotonic_ns(), lambda: called.append("next"))
    loop.until(lambda: len(called) == 2)
    assert called == ["near", "next"]
    loop.poller.set_deadline(far, lambda: called.append("never"))
    loop.poller.set_deadline(None, None)
    loop.run(nothing)
    assert called == ["near", "next"]


def test_a_deadline_that_moves_back_is_not_called_at_its_first_time(loop: Loop) -> None:
    called: list[int] = []
    begin = time.monotonic_ns()
    loop.poller.set_deadline(begin + 1_000_000, nothing)
    loop.poller.set_deadline(begin + 30_000_000, lambda: called.append(time.monotonic_ns()))
    loop.until(lambda: bool(called))
    assert called[0] >= begin + 30_000_000


def test_an_error_in_a_callback_is_told_and_the_loop_goes_on(loop: Loop, ends: Ends) -> None:
    one, other = ends

    def fail() -> None:
        one.recv(9)
        raise RuntimeError("in a callback")

    def fail_too() -> None:
        raise RuntimeError("in a call")

    loop.poller.register(one.fileno(), fail, nothing)
    other.send(b"x")
    loop.until(lambda: len(loop.errors) == 1)
    loop.poller.call_soon_threadsafe(fail_too)
    loop.poller.set_deadline(time.monotonic_ns(), fail_too)
    loop.until(lambda: len(loop.errors) == 3)
    assert [str(error) for error in loop.errors] == ["in a callback", "in a call", "in a call"]
    other.send(b"y")
    loop.until(lambda: len(loop.errors) == 4)


def test_after_stop_nothing_is_called_and_everything_is_refused(loop: Loop, ends: Ends) -> None:
    one, other = ends
    called: list[str] = []
    loop.poller.register(one.fileno(), lambda: called.append("read"), nothing)
    loop.run(nothing)
    loop.poller.stop()
    loop.poller.stop()
    other.send(b"x")
    refusals: list[Callable[[], None]] = [
        lambda: loop.poller.register(other.fileno(), nothing, nothing),
        lambda: loop.poller.call_soon_threadsafe(nothing),
        lambda: loop.poller.set_deadline(0, nothing),
    ]
    for refused in refusals:
        with pytest.raises(ClosedError, match="stopped"):
            refused()
    loop.poller.unregister(one.fileno())
    loop.poller.set_deadline(None, None)
    assert called == []


def test_what_was_asked_for_before_the_end_is_done(loop: Loop) -> None:
    done: list[int] = []

    def ask_and_stop() -> None:
        for number in range(3):
            loop.poller.call_soon_threadsafe(partial(done.append, number))
        loop.poller.stop()

    loop.run(ask_and_stop)
    loop.wait_for_the_end()
    assert done == [0, 1, 2]


def test_stop_on_the_loop_itself(loop: Loop) -> None:
    loop.run(loop.poller.stop)
    with pytest.raises(ClosedError):
        loop.poller.call_soon_threadsafe(nothing)


def test_timers_share_the_deadline_and_keep_their_order(loop: Loop) -> None:
    timers = Timers(loop.poller)
    seen: list[str] = []
    now = time.monotonic_ns()
    timers.call_at(now + 20_000_000, lambda: seen.append("second"))
    cancelled = timers.call_at(now + 5_000_000, lambda: seen.append("never"))
    timers.call_at(now + 10_000_000, lambda: seen.append("first"))
    timers.call_at(now + 20_000_000, lambda: seen.append("third"))
    cancelled.cancel()
    loop.until(lambda: len(seen) == 3)
    assert seen == ["first", "second", "third"]
    assert cancelled.cancelled


def test_a_timer_that_fails_does_not_stop_the_others(loop: Loop) -> None:
    timers = Timers(loop.poller)
    seen: list[str] = []

    def fail() -> None:
        raise RuntimeError("a timer")

    timers.call_at(time.monotonic_ns(), fail)
    timers.call_at(time.monotonic_ns(), lambda: seen.append("next"))
    loop.until(lambda: seen == ["next"])
    assert [str(error) for error in loop.errors] == ["a timer"]


def test_a_timer_may_stop_its_own_poller(loop: Loop) -> None:
    timers = Timers(loop.poller)
    stopped: list[bool] = []

    def stop() -> None:
        loop.poller.stop()
        stopped.append(True)

    timers.call_at(1 << 62, nothing)
    timers.call_at(time.monotonic_ns(), stop)
    with suppress(ClosedError):  # the loop may stop between two of these turns
        loop.until(lambda: bool(stopped))
    assert loop.errors == []


def test_cancelled_timers_do_not_pile_up(loop: Loop) -> None:
    timers = Timers(loop.poller)
    for _ in range(10_000):
        timers.call_at(1 << 62, nothing).cancel()
    assert len(timers) < 200
