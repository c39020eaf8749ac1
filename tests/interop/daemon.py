"""`elea router` as a process of its own, seen from outside alone."""

from __future__ import annotations

import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import zenoh
from tests.interop.ends import WAIT_S, Taken, eventually, module_of

_ASK_S = 5  # an Eclipse client may miss the end of its query: ask again after so long


@dataclass
class Router:
    """The process, once it is ready."""

    process: subprocess.Popen[str]
    zid: str
    endpoints: list[str]
    log: IO[str]

    @property
    def endpoint(self) -> str:
        """Where it listens first."""
        return self.endpoints[0]

    def said(self) -> str:
        """What it has logged."""
        self.log.seek(0)
        return self.log.read()

    def kill(self) -> None:
        """End it without a word."""
        self.process.kill()
        self.process.wait(WAIT_S)

    def stop(self) -> None:
        """End it in good order."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(WAIT_S) == 0


@contextmanager
def elea_router(
    *,
    listen: str | Sequence[str] = "tcp/127.0.0.1:0",
    connect: Sequence[str] = (),
    zid: str | None = None,
    more: Mapping[str, object] | None = None,
) -> Iterator[Router]:
    """A router process that listens; it must end with nothing worse in its log than warnings."""
    settings = {"scouting/multicast/enabled": False, **(more or {})}
    command = [sys.executable, "-m", "elea.cli.main", "router"]
    for endpoint in [listen] if isinstance(listen, str) else listen:
        command += ["--listen", endpoint]
    for endpoint in connect:
        command += ["--connect", endpoint]
    for key, value in settings.items():
        command += ["--cfg", f"{key}:{json.dumps(value)}"]
    if zid is not None:
        command += ["--id", zid]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(one for one in sys.path if one)}
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
        ) as process,
    ):
        try:
            assert process.stdout is not None
            words = process.stdout.readline().split()
            router = Router(process, words[2] if words else "", words[3:], log)
            assert words[:2] == ["ready:", "router"], router.said()
            yield router
            assert "Traceback" not in router.said()
        finally:
            process.kill()


def asked(client: Any, selector: str, **options: Any) -> list[Any]:
    """The replies to one query of an Eclipse client, as many as came until its end."""
    return _collected(functools.partial(client.get, selector, timeout=_ASK_S, **options))


def alive_at(client: Any, key: str) -> list[str]:
    """The keys of tokens, as an Eclipse client is told them, sorted."""
    found = _collected(functools.partial(client.liveliness().get, key, timeout=_ASK_S))
    return sorted(str(one.ok.key_expr) for one in found if one.ok is not None)


def texts(replies: Sequence[Any]) -> list[str]:
    """The payloads of the replies that are no errors, sorted."""
    return sorted(one.ok.payload.to_string() for one in replies if one.ok is not None)


def answered(client: Any, selector: str, expected: Sequence[str], **options: Any) -> bool:
    """Ask until the answers are those that are expected."""
    return eventually(lambda: texts(asked(client, selector, **options)) == sorted(expected))


def linked(source: Any, target: Any, key: str) -> Taken:
    """A subscriber of `target` on `key` that `source` is known to reach; what it takes."""
    got = Taken()
    target.declare_subscriber(key, got)
    probe = key.replace("$*", "").replace("**", "probe").replace("*", "probe")

    def arrives() -> bool:
        source.put(probe, b"probe")
        return got.reach(1, 0.2)

    assert eventually(arrives)
    numbers = itertools.count()

    def ended() -> bool:  # the last one that was sent has arrived: no other is on its way
        end = b"end of probes %d" % next(numbers)
        source.put(probe, end, congestion_control=module_of(source).CongestionControl.BLOCK)
        return eventually(lambda: end in got.payloads, 1)

    assert eventually(ended)
    got.items.clear()
    return got


def _collected(ask: Any) -> list[Any]:
    found: list[Any] = []
    ended = threading.Event()
    ask(zenoh.handlers.Callback(found.append, ended.set))
    ended.wait(_ASK_S)
    return found
