"""What only the poller with a thread of its own does: forking, ending, staying out of the way."""

from __future__ import annotations

import os
import select
import selectors
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.link.cases import TCP, TLS, WS
from tests.link.loops import ThreadLoop
from tests.link.rig import Case, Pair

from elea.link.poller import SelectorPoller, _Waker
from elea.link.pump import LinkPump

SOURCE = Path(__file__).resolve().parents[2] / "src"


def nothing() -> None:
    """For callbacks that a test has no use for."""


def in_child(work: Callable[[], None]) -> None:
    """Fork; the child must do the work and leave, within bounds."""
    with warnings.catch_warnings():
        # From Python 3.12 on: forking with threads is what this is about.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_forked_child_starts_anew_and_the_parent_does_not_notice() -> None:
    dropped: list[str] = []
    poller = SelectorPoller(on_fork=lambda: dropped.append("by the owner"))
    one, other = socket.socketpair()
    heard: list[bytes] = []
    poller.register(one.fileno(), lambda: heard.append(one.recv(9)), nothing)
    got = threading.Event()
    poller.call_soon_threadsafe(got.set)
    assert got.wait(20)

    def child() -> None:
        assert dropped == ["by the owner"]
        near, far = socket.socketpair()
        echoed = threading.Event()
        poller.register(near.fileno(), echoed.set, nothing)
        far.send(b"in the child")
        assert echoed.wait(20)
        # What the parent watches is not watched here: this octet is the parent's.
        other.send(b"x")
        assert heard == []
        poller.stop()

    in_child(child)
    assert dropped == []
    again = threading.Event()
    poller.call_soon_threadsafe(again.set)
    assert again.wait(20)
    for _ in range(1_000):
        again.clear()
        poller.call_soon_threadsafe(again.set)
        assert again.wait(20)
        if heard:
            break
    assert heard == [b"x"]
    poller.stop()
    one.close()
    other.close()


@pytest.mark.parametrize("case", [TCP, TLS, WS], ids=str)
def test_a_child_that_gives_its_links_up_does_not_end_the_parents(
    case: Case, pair: Callable[[Case], Pair]
) -> None:
    pumps: list[LinkPump] = []
    dropped: list[LinkPump] = []

    def drop() -> None:
        for pump in pumps:
            pump.abort()
            dropped.append(pump)

    ends = pair(case)
    poller = SelectorPoller(on_fork=drop)
    heard: list[bytes] = []
    closed: list[str] = []
    arrived = threading.Event()

    def on_data(data: bytes, now_ns: int) -> None:
        heard.append(data)
        arrived.set()

    for link in (ends.near, ends.far):
        pumps.append(LinkPump(link, poller, on_data=on_data, on_closed=closed.append))
        pumps[-1].start()

    def child() -> None:
        assert len(dropped) == 2
        assert pumps[0].send([b"from the child"]) == 0

    in_child(child)
    pumps[0].send([b"from the parent"])
    assert arrived.wait(20)
    poller.stop()
    assert heard == [b"from the parent"]
    assert closed == []


def test_a_poller_that_was_never_used_survives_a_fork_and_needs_no_thread() -> None:
    poller = SelectorPoller()
    before = threading.active_count()
    in_child(poller.stop)
    assert threading.active_count() == before
    poller.stop()


def test_a_loop_that_is_running_does_not_keep_the_interpreter_alive() -> None:
    program = (
        "import socket\n"
        "from elea.link.poller import SelectorPoller, _Waker\n"
        "poller = SelectorPoller()\n"
        "one, other = socket.socketpair()\n"
        "poller.register(one.fileno(), lambda: None, lambda: None)\n"
        "other.send(b'x')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        timeout=60,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_the_thread_has_a_name_and_ends() -> None:
    poller = SelectorPoller(name="elea-io-test")
    names: list[str] = []
    ran = threading.Event()
    poller.call_soon_threadsafe(lambda: names.append(threading.current_thread().name))
    poller.call_soon_threadsafe(ran.set)
    assert ran.wait(20)
    assert names == ["elea-io-test"]
    poller.stop()
    assert "elea-io-test" not in [thread.name for thread in threading.enumerate()]


def test_stopping_does_not_wait_for_ever_for_a_callback_that_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("elea.link.poller._STOP_WAIT_S", 0.01)
    release = threading.Event()
    entered = threading.Event()
    poller = SelectorPoller()

    def hang() -> None:
        entered.set()
        release.wait()

    poller.call_soon_threadsafe(hang)
    assert entered.wait(20)
    poller.stop()  # returns while the callback hangs
    release.set()


def test_leaving_by_sys_exit_in_a_callback_is_reported_and_does_not_end_the_thread() -> None:
    loop = ThreadLoop()
    loop.poller.call_soon_threadsafe(sys.exit)
    loop.until(lambda: bool(loop.errors))
    assert isinstance(loop.errors[0], SystemExit)
    loop.run(nothing)
    loop.close()


def test_an_error_hook_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(error: BaseException) -> None:
        raise ValueError("the hook itself")

    poller = SelectorPoller(on_error=fail)

    def raise_one() -> None:
        raise RuntimeError("in a callback")

    poller.call_soon_threadsafe(raise_one)
    ran = threading.Event()
    poller.call_soon_threadsafe(ran.set)
    assert ran.wait(20)
    poller.stop()
    assert "the hook itself" in caplog.text


def test_selectors_that_do_not_see_changes_while_they_wait_are_woken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(select, "epoll")
    monkeypatch.setattr(selectors, "DefaultSelector", selectors.PollSelector)
    monkeypatch.delattr(os, "eventfd")  # and wake-ups go through a socket pair
    loop = ThreadLoop()
    one, other = socket.socketpair()
    heard: list[bytes] = []
    loop.run(nothing)
    loop.poller.register(one.fileno(), lambda: heard.append(one.recv(9)), nothing)
    other.send(b"x")
    loop.until(lambda: heard == [b"x"])
    loop.close()
    one.close()
    other.close()


def test_a_waker_is_not_closed_while_somebody_rings_it() -> None:
    waker = _Waker()
    with waker._lock:  # as while ringing
        closing = threading.Thread(target=waker.close)
        closing.start()
        closing.join(0.05)
        os.fstat(waker.fd)
    closing.join(5)
    assert waker.fd == -1
    waker.ring()
