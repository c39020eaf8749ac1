"""Processes fork with sessions open: each child has a link of its own, and nothing is lost.

Parent and child use every object of the parent's sessions at the same time; children end in every
way there is. What either puts arrives once, and the parent's session goes on.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from attack.harness import MIB, PATIENCE_S, Check, Target, start, until

import elea

THREAT: Final = "sessions after a fork"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 500, "full": 3_000}  # puts of parent and of each child
WAYS: Final = ("close", "exit", "os._exit", "multiprocessing", "busy")
OBJECTS: Final = ("publisher", "session")
_BLOCK: Final = elea.CongestionControl.BLOCK


def attack(target: Target, size: int) -> list[Check]:
    settings = json.dumps(target.client_settings())
    wrong: list[object] = []
    with target.session() as session:
        for way in (f"{way} {name}" for way in WAYS for name in OBJECTS):
            if problem := _count(session, way, size, settings):
                wrong.append((way, problem))
    for way in ("objects", "aio"):
        if not _run(way, f"forks/{way}", size, settings):
            wrong.append(way)
    for one in wrong:
        print(one, file=sys.stderr)
    return [Check("wrong_after_fork", len(wrong), 0)]


def _count(session: elea.Session, way: str, size: int, settings: str) -> str:
    """What became of the puts of a parent and its child, if anything was wrong with them."""
    got: Counter[str] = Counter()
    key = f"forks/{way.replace(' ', '/')}"
    expected = {f"{who} {number}" for who in ("parent", "child") for number in range(size)}

    def receive(sample: elea.Sample) -> None:
        got.update([sample.payload.to_string()])

    with session.declare_subscriber(f"{key}/**", receive):
        if not _run(way, key, size, settings):
            return "never ended, or failed"
        until(lambda: set(got) >= expected)
    lost, twice = expected - set(got), sum(got.values()) - len(got)
    if not lost and not twice:
        return ""
    return f"lost {len(lost)} ({sorted(lost)[:3]} ...), twice {twice}"


def _run(way: str, key: str, size: int, settings: str) -> bool:
    process = start([sys.executable, "-m", "attack.forks", way, key, str(size), settings])
    try:
        process.communicate(timeout=2 * PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return False
    return process.returncode == 0


def publish(session: elea.Session, publisher: elea.Publisher | None, key: str, who: str) -> None:
    for number in range(int(sys.argv[3])):
        if publisher is not None:
            publisher.put(f"{who} {number}")
        else:
            session.put(f"{key}/{who}", f"{who} {number}", congestion_control=_BLOCK)


def share(way: str, name: str, key: str, settings: dict[str, object]) -> None:
    """Parent and child publish at the same time, with one session of the parent."""
    session = elea.open(settings)
    publisher = None
    if name == "publisher":
        publisher = session.declare_publisher(f"{key}/p", congestion_control=_BLOCK)
        while not publisher.matching_status.matching:
            time.sleep(0.02)
    stop = threading.Event()
    if way == "busy":  # the fork comes in the middle of what other threads do
        for _ in range(3):
            threading.Thread(target=_keep_busy, args=(session, stop), daemon=True).start()
    if way == "multiprocessing":
        context = multiprocessing.get_context("fork")
        child = context.Process(target=publish, args=(session, publisher, key, "child"))
        child.start()
        publish(session, publisher, key, "parent")
        child.join(PATIENCE_S)
        code = child.exitcode
    else:
        pid = os.fork()
        if pid == 0:
            _child(way, session, lambda: publish(session, publisher, key, "child"))
        publish(session, publisher, key, "parent")
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    stop.set()
    # The end of a child is nothing to the parent.
    with session.declare_subscriber(f"{key}/after") as after:
        session.put(f"{key}/after", "after")
        after.recv(timeout=PATIENCE_S)
    session.close()
    if code != 0:
        raise SystemExit(f"the child ended with {code}")


def _keep_busy(session: elea.Session, stop: threading.Event) -> None:
    while not stop.is_set():
        with session.declare_subscriber("forks/busy", lambda _sample: None):
            session.put("forks/busy", "x")


def _child(
    way: str, session: elea.Session | elea.aio.AsyncSession, work: Callable[[], object]
) -> None:
    try:
        work()
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        os._exit(1)
    if way in ("close", "busy"):
        session.close()
    if way == "os._exit" and isinstance(session, elea.Session):
        # The system resets a TCP link that ends with something unread, and drops what it has not
        # sent. A reply shows that the router read everything before it.
        list(session.get("forks/nothing", timeout=PATIENCE_S))
    if way == "exit":
        sys.exit(0)
    os._exit(0)


def objects(key: str, settings: dict[str, object]) -> None:
    """Every other object, used by a child while the parent goes on using it."""
    session = elea.open(settings)
    other = elea.open(settings)
    subscriber = session.declare_subscriber(f"{key}/*")
    ring = session.declare_subscriber(f"{key}/*", elea.handlers.RingChannel(8))
    queryable = session.declare_queryable(f"{key}/q")
    querier = session.declare_querier(f"{key}/answer", timeout=2)
    token = session.liveliness().declare_token(f"{key}/token")
    answering = other.declare_queryable(
        f"{key}/answer", lambda query: query.reply(query.key_expr, "yes")
    )

    def work() -> None:
        _receive(settings, key, subscriber)
        _receive(settings, key, ring)
        # `other` is the parent's too: its queryable is declared anew when it is used.
        assert other.zid() is not None
        if not until(lambda: list(querier.get())):
            raise TimeoutError("no reply came")
        asking = elea.open(settings)
        pending = asking.get(f"{key}/q", timeout=PATIENCE_S)
        query = None
        until_got = time.monotonic() + PATIENCE_S
        while query is None and time.monotonic() < until_got:
            query = queryable.try_recv()
        assert query is not None
        query.reply(f"{key}/q", "child")
        query.drop()
        del pending
        asking.close()

    pid = os.fork()
    if pid == 0:
        _child("close", session, work)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    _receive(settings, key, subscriber)
    assert next(iter(querier.get())).ok is not None
    token.undeclare()
    answering.undeclare()
    session.close()
    other.close()
    if code != 0:
        raise SystemExit(f"the child ended with {code}")


def _receive(
    settings: dict[str, object], key: str, subscriber: elea.Subscriber[elea.Handler[elea.Sample]]
) -> None:
    """A sample of somebody else arrives, although only `try_recv` asks for it."""
    with elea.open(settings) as sender:

        def got() -> object:
            sender.put(f"{key}/x", "1")
            return subscriber.try_recv()

        if not until(got):
            raise TimeoutError("nothing was received")


async def on_loop(key: str, settings: dict[str, object]) -> None:
    """A session on an event loop: the child is told to open its own, and the parent goes on."""
    async with elea.aio.open(settings) as session:
        subscriber = session.declare_subscriber(f"{key}/x")
        pid = os.fork()
        if pid == 0:
            _child("os._exit", session, lambda: _refused(session.blocking, key))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        await session.put(f"{key}/x", "1")
        await subscriber.recv(timeout=PATIENCE_S)
    if code != 0:
        raise SystemExit(f"the child ended with {code}")


def _refused(session: elea.Session, key: str) -> None:
    try:
        session.put(f"{key}/x", "1")
    except elea.ClosedError as error:
        if "open a session in the child" not in str(error):
            raise
    else:
        raise AssertionError("a put after a fork was taken, and goes nowhere")
    session.close()


def main() -> None:
    way, key, _, text = sys.argv[1:]
    settings = json.loads(text)
    if way == "objects":
        objects(key, settings)
    elif way == "aio":
        asyncio.run(on_loop(key, settings))
    else:
        way, name = way.split(" ")
        share(way, name, key, settings)


if __name__ == "__main__":
    main()
