"""A daemon in this process, on loopback, with sessions that look at it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.unit.cli.ends import WAIT_S

import elea
from elea.config.kinds import Value
from elea.daemon.daemon import Daemon
from elea.daemon.effective import Options
from elea.daemon.services import Start
from elea.json5 import Json
from elea.session.session import Session

MODE = "router"
ANYWHERE = "tcp/127.0.0.1:0"


def options(*cfg: str, **more: Any) -> Options:
    """Options of a daemon of the role the tests are for."""
    given: dict[str, Any] = {"listen": (ANYWHERE,), **more}
    return Options(cfg=(f'mode:"{MODE}"', *cfg), **given)


@contextmanager
def running(chosen: Options, **services: Start) -> Iterator[Daemon]:
    """A daemon that runs, in a thread of its own."""

    def find(name: str) -> Installed | None:
        return Installed(services[name]) if name in services else None

    daemon = Daemon(chosen, find=find)
    daemon.start()
    thread = threading.Thread(target=daemon.run)
    thread.start()
    try:
        yield daemon
    finally:
        daemon.stop()
        thread.join(WAIT_S)
        daemon.close()
        assert not thread.is_alive()


@dataclass
class Installed:
    """A service as if a package had brought it."""

    start: Start
    value: str = "package:start"

    def load(self) -> Start:
        return self.start


@dataclass
class Recorder:
    """A service that writes down what happens to it."""

    log: list[str] = field(default_factory=list)
    settings: dict[str, Value] = field(default_factory=dict)

    def __call__(self, session: Session, settings: dict[str, Value]) -> Recorder:
        self.log.append("start")
        self.settings = settings
        return self

    def status(self) -> Mapping[str, Json]:
        return {"starts": self.log.count("start")}

    def stop(self) -> None:
        self.log.append("stop")


@contextmanager
def client_of(daemon: Daemon, mode: str = "client") -> Iterator[elea.Session]:
    """A session that is connected to it."""
    config = {
        "mode": mode,
        "listen": {"endpoints": []},
        "connect": {"endpoints": [daemon.locators()[0]]},
    }
    with elea.open(config) as session:
        yield session


def root_of(daemon: Daemon) -> str:
    return f"@/{daemon.session.zid()}/{daemon.config.mode}"


def ask(session: Any, selector: str) -> dict[str, bytes]:
    """Keys and payloads of the replies to a query."""
    target = elea.QueryTarget.ALL
    replies = [one.ok for one in session.get(selector, target=target, timeout=WAIT_S)]
    assert None not in replies
    return {str(one.key_expr): one.payload.to_bytes() for one in replies}


def read(session: Any, key: str) -> Any:
    """The JSON at one key."""
    [payload] = ask(session, key).values()
    return json.loads(payload)
