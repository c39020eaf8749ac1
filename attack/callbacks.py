"""Functions of the user raise what is no Exception: delivery goes on, and their process ends.

Each kind of function raises in a process of its own, three times, beside its function for the end.
On an event loop KeyboardInterrupt and SystemExit end the loop, as any of its callbacks would.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from attack.harness import MIB, PATIENCE_S, Check, Target, start

import elea
from elea.handlers import Callback

THREAT: Final = "functions that raise"
RSS_GROWTH: Final = 16 * MIB
ERRORS_LEN: Final = 4_000  # of what a process wrote to stderr, shown if it failed
SIZES: Final = {"small": 3, "full": 50}  # calls of each function
KINDS: Final[dict[str, type[BaseException]]] = {
    kind.__name__: kind
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError)
} | {"BaseException": BaseException}


def attack(target: Target, size: int) -> list[Check]:
    settings = json.dumps(target.client_settings())
    flavours = [(flavour, kind) for flavour in ("threads", "plain", "coroutine") for kind in KINDS]
    hung, failed = [], []
    for flavour, kind in flavours:
        command = [sys.executable, "-m", "attack.callbacks", flavour, kind, str(size), settings]
        process = start(command, subprocess.PIPE)
        try:
            output, errors = process.communicate(timeout=2 * PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            _, errors = process.communicate()
            hung.append((flavour, kind, errors[-ERRORS_LEN:]))
            continue
        if output != expected(flavour, kind):
            failed.append((flavour, kind, output, errors[-ERRORS_LEN:]))
    for problem in (*hung, *failed):
        print(*problem, sep="\n", file=sys.stderr)
    return [Check("never_ended", len(hung), 0), Check("stopped_delivery", len(failed), 0)]


def expected(flavour: str, kind: str) -> str:
    """What a process says when all is well."""
    if flavour != "threads" and kind in ("KeyboardInterrupt", "SystemExit"):
        return f"the loop ended with {kind}\n"
    return "went on\n"


class Raising:
    """Functions that count their calls and raise."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind
        self.calls: Counter[str] = Counter()
        self._changed = threading.Condition()

    def called(self, name: str) -> None:
        with self._changed:
            self.calls[name] += 1
            self._changed.notify_all()

    def function(self, name: str) -> Callable[..., object]:
        def raising(*_args: object) -> object:
            self.called(name)
            raise self.kind(name)

        return raising

    def callback(self, name: str) -> Callback[Any]:
        return Callback(self.function(name), self.function(f"{name} end"))

    def until(self, name: str, count: int = 1) -> None:
        with self._changed:
            there = self._changed.wait_for(lambda: self.calls[name] >= count, PATIENCE_S)
        if not there:
            raise TimeoutError(f"{name} was not called {count} times: {dict(self.calls)}")


def in_threads(settings: dict[str, object], raising: Raising, size: int) -> None:
    """Every kind of function, called by threads of sessions."""
    server, client = elea.open(settings), elea.open(settings)
    called, function, callback, until = (
        raising.called,
        raising.function,
        raising.callback,
        raising.until,
    )

    def answer(query: elea.Query) -> None:
        query.reply(query.key_expr, "x")
        called("answered")
        raise raising.kind("answered")

    server.declare_subscriber("c/sample/*", callback("subscriber"))
    server.declare_subscriber("c/direct/*", Callback(function("direct"), indirect=False))
    pair = server.declare_subscriber("c/pair/*", (function("pair"), object()))
    server.declare_queryable("c/question/*", callback("queryable"))
    server.declare_queryable("c/answer/*", answer)
    server.liveliness().declare_subscriber("c/token/*", callback("liveliness"))
    publisher = client.declare_publisher("c/matched")
    listener = publisher.declare_matching_listener(callback("matching"))
    wait_until_served(client)
    for count in range(1, size + 1):
        for name in ("sample", "direct", "pair"):
            client.put(f"c/{name}/x", "1")
        list(client.get("c/question/x", timeout=PATIENCE_S))
        client.get("c/answer/x", callback("reply"), timeout=PATIENCE_S)
        token = client.liveliness().declare_token(f"c/token/{count}")
        for name in ("subscriber", "direct", "pair", "queryable", "reply", "reply end"):
            until(name, count)
        until("liveliness", 2 * count - 1)
        token.undeclare()
        until("liveliness", 2 * count)
        matching = server.declare_subscriber("c/matched", function("never"))
        until("matching", 2 * count - 1)
        matching.undeclare()
        until("matching", 2 * count)
    listener.undeclare()
    pair.undeclare()
    until("matching end")
    own_put(client, raising)

    def closing(_sample: elea.Sample) -> None:
        client.close()
        called("closing")
        raise raising.kind("closing")

    client.declare_subscriber("c/close/*", closing)
    while not raising.calls["closing"]:
        server.put("c/close/x", "1")
        time.sleep(0.02)
    client.close()
    server.close()
    for name in ("subscriber end", "queryable end", "liveliness end"):
        until(name)


def wait_until_served(client: elea.Session) -> None:
    """Until what the other session declared is known here."""
    deadline_s = time.monotonic() + PATIENCE_S
    with client.declare_querier("c/answer/x") as querier:
        while not querier.matching_status.matching and time.monotonic() < deadline_s:
            time.sleep(0.02)


def own_put(session: elea.Session, raising: Raising) -> None:
    """A function called by the thread that puts: what it raises is raised there, at once."""
    own = session.declare_subscriber(
        "c/own", Callback(raising.function("own"), indirect=False), allowed_origin=elea.Locality.ANY
    )
    others = session.declare_subscriber("c/own")
    for count in range(1, 4):
        try:
            session.put("c/own", "1")
        except raising.kind:
            assert raising.calls["own"] == count
        else:
            raise AssertionError("a function called by put raised, and put did not")
        others.recv(timeout=PATIENCE_S)
    own.undeclare()
    others.undeclare()


async def on_loop(
    settings: dict[str, object], raising: Raising, size: int, *, coroutine: bool
) -> None:
    """A function, or a coroutine, called on the application's event loop."""
    heard: asyncio.Queue[str] = asyncio.Queue()
    sender = elea.open(settings)
    async with elea.aio.open(settings) as session:

        def plain(_sample: elea.Sample) -> None:
            heard.put_nowait("plain")
            raise raising.kind("plain")

        async def awaited(_sample: elea.Sample) -> None:
            heard.put_nowait("awaited")
            raise raising.kind("awaited")

        key = f"c/loop/{session.zid()}"
        try:
            session.declare_subscriber(key, awaited if coroutine else plain)
            for _ in range(size):
                got = None
                while got is None:
                    sender.put(key, "1")
                    with suppress(TimeoutError):
                        got = await asyncio.wait_for(heard.get(), 0.2)
        finally:
            sender.close()


def main() -> None:
    flavour, name, count, settings = sys.argv[1:]
    raising, size = Raising(KINDS[name]), int(count)
    if flavour == "threads":
        in_threads(json.loads(settings), raising, size)
    else:
        try:
            asyncio.run(
                on_loop(json.loads(settings), raising, size, coroutine=flavour == "coroutine")
            )
        except (KeyboardInterrupt, SystemExit) as error:
            print(f"the loop ended with {type(error).__name__}", flush=True)
            return
    print("went on", flush=True)


if __name__ == "__main__":
    main()
