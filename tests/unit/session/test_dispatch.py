"""Functions of the user run in order, and none holds up another: with real threads."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from tests.unit.session.fake_node import FakeDriver

from elea.config.config import Config
from elea.sample import Sample
from elea.session import dispatch
from elea.session.dispatch import Dispatcher
from elea.session.handlers import Callback
from elea.session.outlet import END, CallbackOutlet, DueQueue, OwnQueue
from elea.session.ports import CallbackThread
from elea.session.query import Query
from elea.session.session import Session

PATIENCE_S = 20.0  # until a test gives up; nothing here takes so long


class Bench:
    """A dispatcher and the queue it works off."""

    def __init__(self, mode: CallbackThread) -> None:
        self.due = DueQueue()
        self.due_now = DueQueue()
        self.own = OwnQueue()
        self.relieved = threading.Event()
        self.dispatcher = Dispatcher(self.due, self.due_now, self.own, mode, self._relieve)

    def _relieve(self) -> bool:
        self.relieved.set()
        return True

    def send(self, outlet: CallbackOutlet, *values: object, on_io: bool = False) -> None:
        for value in values:
            self.due.put(outlet, value)
        self.dispatcher.deliver(on_io=on_io)


@pytest.fixture(params=[CallbackThread.SESSION, CallbackThread.IO])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    bench = Bench(request.param)
    yield bench
    bench.dispatcher.close()


def test_values_come_in_order_and_one_at_a_time(bench: Bench) -> None:
    got: list[object] = []
    inside = threading.Lock()
    done = threading.Event()

    def receive(value: object) -> None:
        assert inside.acquire(blocking=False)
        got.append(value)
        inside.release()

    outlet = CallbackOutlet(receive, done.set, indirect=True)

    def send() -> None:
        for number in range(500):
            bench.send(outlet, number)

    senders = [threading.Thread(target=send) for _ in range(2)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    bench.send(outlet, END)
    assert done.wait(PATIENCE_S)
    assert len(got) == 1_000
    assert sorted(map(str, got)) == sorted(map(str, [*range(500), *range(500)]))


def test_a_slow_function_does_not_hold_up_another(bench: Bench) -> None:
    go_on, other, done = threading.Event(), threading.Event(), threading.Event()
    got: list[object] = []

    def slow(value: object) -> None:
        got.append(value)
        if value == 0:
            assert other.wait(PATIENCE_S)
            assert go_on.wait(PATIENCE_S)

    held = CallbackOutlet(slow, done.set, indirect=True)
    quick = CallbackOutlet(lambda value: other.set(), None, indirect=True)
    io_thread = threading.Thread(target=lambda: bench.send(held, 0, on_io=True))
    io_thread.start()
    bench.send(held, 1, 2)
    bench.send(quick, "x")
    assert other.wait(PATIENCE_S)
    bench.send(held, 3, END)
    go_on.set()
    assert done.wait(PATIENCE_S)
    io_thread.join(PATIENCE_S)
    assert got == [0, 1, 2, 3]


def test_the_io_thread_is_relieved_when_its_function_waits() -> None:
    bench = Bench(CallbackThread.IO)
    done = threading.Event()

    def waits(value: object) -> None:
        assert dispatch.in_callback()
        dispatch.about_to_wait()
        assert bench.relieved.is_set()

    bench.send(CallbackOutlet(waits, done.set, indirect=True), 1, END, on_io=True)
    assert done.wait(PATIENCE_S)
    assert not dispatch.in_callback()
    bench.dispatcher.close()


def test_quick_functions_run_on_the_io_thread() -> None:
    bench = Bench(CallbackThread.IO)
    threads: list[threading.Thread] = []
    outlet = CallbackOutlet(
        lambda value: threads.append(threading.current_thread()), None, indirect=True
    )
    bench.send(outlet, 1, on_io=True)
    assert threads == [threading.current_thread()]
    bench.dispatcher.close()


def test_functions_that_are_not_indirect_run_where_the_value_came_from(bench: Bench) -> None:
    threads: list[threading.Thread] = []
    outlet = CallbackOutlet(
        lambda value: threads.append(threading.current_thread()), None, indirect=False
    )
    bench.own.put(outlet, 1)
    bench.dispatcher.deliver(on_io=False)
    assert threads == [threading.current_thread()]
    bench.due_now.put(outlet, 2)
    bench.dispatcher.deliver(on_io=True)
    assert threads == [threading.current_thread()] * 2


def test_a_session_asks_itself_from_inside_a_function() -> None:
    """A subscriber's function that waits for a queryable's function of the same session."""
    session = Session(Config(), FakeDriver(CallbackThread.SESSION))
    got: list[str] = []
    done = threading.Event()

    def answer(query: Query) -> None:
        query.reply("q", "42")

    def receive(sample: Sample) -> None:
        got.extend(reply.result.payload.to_string() for reply in session.get("q"))
        done.set()

    session.declare_queryable("q", answer)
    session.declare_subscriber("a", receive)
    session.put("a", "1")
    assert done.wait(PATIENCE_S)
    assert got == ["42"]
    session.close()


def test_a_put_does_not_run_functions_in_the_callers_thread() -> None:
    session = Session(Config(), FakeDriver(CallbackThread.SESSION))
    held_by_caller = threading.Lock()
    done = threading.Event()

    def receive(sample: Sample) -> None:
        with held_by_caller:
            done.set()

    session.declare_subscriber("a", receive)
    with held_by_caller:
        session.put("a", "1")
    assert done.wait(PATIENCE_S)
    session.close()


def test_the_interpreter_stays_until_what_is_due_is_delivered() -> None:
    """The main thread ends while a function is at work, and another one was never begun."""
    code = """
import threading, elea
began = threading.Event()
config = elea.Config.from_mapping({"listen/endpoints": [], "scouting/multicast/enabled": False})
session = elea.open(config)
def slow(sample):
    began.set()
    threading.Event().wait(0.2)
    print(sample.payload.to_string())
callback = elea.handlers.Callback(slow, drop=lambda: print("dropped"))
session.declare_subscriber("a", callback)
session.put("a", "1")
began.wait()
session.put("a", "2")
session.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.stdout.split(), done.stderr) == (["1", "2", "dropped"], "")


ENDINGS = (KeyboardInterrupt, SystemExit, GeneratorExit, BaseException)


def no_threads_left(dispatcher: Dispatcher) -> bool:
    deadline_s = time.monotonic() + PATIENCE_S
    while dispatcher._thread_count and time.monotonic() < deadline_s:
        time.sleep(0.001)
    return not dispatcher._thread_count


@pytest.mark.parametrize("kind", ENDINGS)
@pytest.mark.parametrize("on_io", [False, True])
def test_a_function_that_raises_no_exception_ends_nothing(
    bench: Bench, kind: type[BaseException], on_io: bool, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[object] = []
    ended = threading.Event()

    def receive(value: object) -> None:
        got.append(value)
        raise kind("by the user")

    def drop() -> None:
        ended.set()
        raise kind("at the end")

    outlet = CallbackOutlet(receive, drop, indirect=True)
    bench.send(outlet, 1, 2, 3, on_io=on_io)
    bench.send(outlet, END, on_io=on_io)
    assert ended.wait(PATIENCE_S)
    assert got == [1, 2, 3]
    bench.dispatcher.close()
    assert no_threads_left(bench.dispatcher)
    assert outlet.finished
    assert bench.dispatcher._busy_count == 0
    assert [one.message for one in caplog.records] == ["callback error"] * 4


@pytest.mark.parametrize("kind", ENDINGS)
def test_a_slow_function_that_raises_no_exception_ends_nothing(
    bench: Bench, kind: type[BaseException]
) -> None:
    go_on, inside, other = threading.Event(), threading.Event(), threading.Event()
    got: list[object] = []

    def slow(value: object) -> None:
        got.append(value)
        inside.set()
        go_on.wait(PATIENCE_S)
        raise kind("late")

    ended = threading.Event()
    outlet = CallbackOutlet(slow, ended.set, indirect=True)
    bench.send(outlet, 1, 2)
    assert inside.wait(PATIENCE_S)
    bench.send(CallbackOutlet(lambda _: other.set(), None, indirect=True), 1)
    assert other.wait(PATIENCE_S)
    bench.send(outlet, 3, END)
    bench.dispatcher.close()
    go_on.set()
    assert ended.wait(PATIENCE_S)
    assert got == [1, 2, 3]
    assert no_threads_left(bench.dispatcher)


def test_what_a_function_raises_is_raised_by_the_thread_that_brought_the_value(
    bench: Bench,
) -> None:
    got: list[object] = []
    others = threading.Event()

    def receive(value: object) -> None:
        got.append(value)
        if value == 1:
            raise KeyboardInterrupt

    bench.own.put(CallbackOutlet(receive, None, indirect=False), 1)
    bench.own.put(CallbackOutlet(receive, None, indirect=False), 2)
    bench.own.put(CallbackOutlet(lambda _: others.set(), None, indirect=False), 3)
    with pytest.raises(KeyboardInterrupt):
        bench.dispatcher.deliver(on_io=False)
    assert others.wait(PATIENCE_S)  # a thread of the session goes on with the rest
    assert got == [1, 2]


def test_a_put_calls_its_function_itself_though_other_threads_deliver_meanwhile() -> None:
    with Session(Config(), FakeDriver(CallbackThread.SESSION)) as session:
        context = session._context
        callers: list[int] = []

        def receive(_sample: Sample) -> None:
            callers.append(threading.get_ident())
            raise KeyboardInterrupt

        def deliver_elsewhere() -> None:
            """Deliver in another thread, after the lock was released and before `put` goes on."""
            other = threading.Thread(target=lambda: context._dispatcher.deliver(on_io=True))
            other.start()
            other.join(PATIENCE_S)

        session.declare_subscriber("a", Callback(receive, indirect=False))
        context.core.outbox.flush = deliver_elsewhere
        with pytest.raises(KeyboardInterrupt):
            session.put("a", "1")
        assert callers == [threading.get_ident()]


def test_a_call_of_the_application_raises_nothing_of_what_the_network_brought(
    bench: Bench,
) -> None:
    callers: list[int] = []
    called = threading.Event()

    def receive(_value: object) -> None:
        callers.append(threading.get_ident())
        called.set()
        raise KeyboardInterrupt

    bench.due_now.put(CallbackOutlet(receive, None, indirect=False), 1)
    bench.dispatcher.deliver(on_io=False)  # any call, between what the I/O thread does
    bench.dispatcher.deliver(on_io=True)
    assert called.wait(PATIENCE_S)
    assert len(callers) == 1


def test_values_that_a_thread_gave_up_are_not_overtaken(bench: Bench) -> None:
    got: list[object] = []
    inside, go_on, done = threading.Event(), threading.Event(), threading.Event()

    def hold(_value: object) -> None:
        inside.set()
        go_on.wait(PATIENCE_S)

    def receive(value: object) -> None:
        got.append(value)
        if value == 3:
            done.set()

    bench.due_now.put(CallbackOutlet(hold, None, indirect=False), 0)
    io = threading.Thread(target=lambda: bench.dispatcher.deliver(on_io=True))
    io.start()
    assert inside.wait(PATIENCE_S)
    outlet = CallbackOutlet(receive, None, indirect=False)
    for value in (1, 2):
        bench.own.put(outlet, value)
        bench.dispatcher.deliver(on_io=False)
    go_on.set()
    bench.own.put(outlet, 3)
    bench.dispatcher.deliver(on_io=False)
    assert done.wait(PATIENCE_S)
    io.join(PATIENCE_S)
    assert got == [1, 2, 3]


def test_one_thread_raises_what_a_function_raised_and_goes_on_with_the_rest_later() -> None:
    bench = Bench(CallbackThread.CALLER)
    got: list[object] = []

    def receive(value: object) -> None:
        got.append(value)
        if value == 1:
            raise SystemExit(3)

    outlet = CallbackOutlet(receive, None, indirect=True)
    with pytest.raises(SystemExit):
        bench.send(outlet, 1, 2)
    bench.send(outlet, 3)
    assert got == [1, 2, 3]
    assert bench.dispatcher._busy_count == 0


def test_what_becomes_due_after_closing_leaves_no_thread(bench: Bench) -> None:
    done = threading.Event()
    outlet = CallbackOutlet(lambda _: done.set(), None, indirect=True)
    bench.dispatcher.close()  # there is no thread yet that could be told
    bench.send(outlet, 1)
    assert done.wait(PATIENCE_S)
    assert no_threads_left(bench.dispatcher)


def test_the_io_thread_that_delivers_while_a_session_closes_leaves_no_thread(
    bench: Bench,
) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def receive(_value: object) -> None:
        inside.set()
        go_on.wait(PATIENCE_S)

    outlet = CallbackOutlet(receive, None, indirect=True)
    io = threading.Thread(target=lambda: bench.send(outlet, 1, on_io=True))
    io.start()
    assert inside.wait(PATIENCE_S)
    bench.dispatcher.close()
    go_on.set()
    io.join(PATIENCE_S)
    bench.send(outlet, 2, on_io=True)
    assert no_threads_left(bench.dispatcher)


def test_a_burst_of_calls_starts_one_thread() -> None:
    bench = Bench(CallbackThread.SESSION)
    outlet = CallbackOutlet(lambda _: None, None, indirect=True)
    with bench.dispatcher._lock:  # no thread gets to look yet
        for _ in range(10):
            bench.send(outlet, 1)
        assert bench.dispatcher._thread_count == 1
    bench.dispatcher.close()
    assert no_threads_left(bench.dispatcher)
