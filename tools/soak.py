"""Let nodes come and go at routers for as long as wanted, and see that nothing of them stays.

python tools/soak.py tcp/127.0.0.1:7447 --seconds 600            ten minutes at one router
python tools/soak.py tcp/127.0.0.1:7447 --library zenoh --seed 7  with the nodes of Eclipse Zenoh

Each turn a client, a peer or a router appears, or one does something, or leaves. In the end the
admin space of the routers must say what it said in the beginning. One JSON object per ten seconds.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import random
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Final

MODES: Final = ("client", "client", "peer", "router")
VISITORS_MAX: Final = 8
ACTS_COUNT: Final = 5  # of a turn
ENTITIES_MAX: Final = 20  # of one visitor
SETTLE_S: Final = 30
REPORT_S: Final = 10
_ASK_S: Final = 5
_KEPT_MAX: Final = 1_000  # questions that wait for ever

# What every visitor is told, so that it talks to the routers alone.
_ALONE: Final[dict[str, object]] = {
    "listen/endpoints": [],
    "scouting/multicast/enabled": False,
    "scouting/gossip/enabled": False,
}


def opened(library: ModuleType, mode: str, endpoint: str) -> Any:
    """A session of a node that is connected to `endpoint` and to nobody else."""
    config = library.Config()
    settings = {**_ALONE, "mode": mode, "connect/endpoints": [endpoint]}
    for key, value in settings.items():
        config.insert_json5(key, json.dumps(value))
    return library.open(config)


class Soak:
    """Visitors of routers.

    Args:
        library: `elea`, or `zenoh` for nodes of Eclipse Zenoh.
        endpoints: Where the routers are.
        seed: Of what happens; when it happens is up to the machine.
    """

    def __init__(self, library: ModuleType, endpoints: Sequence[str], seed: int) -> None:
        self._library = library
        self._endpoints = list(endpoints)
        self._rng = random.Random(seed)
        self._visitors: list[tuple[Any, list[Any]]] = []
        self._kept: deque[Any] = deque(maxlen=_KEPT_MAX)
        self._number = 0
        self.turns = 0

    def turn(self) -> None:
        """One thing happens."""
        self.turns += 1
        if len(self._visitors) < self._rng.randrange(VISITORS_MAX + 1):
            self._arrive()
        elif self._visitors and self._rng.random() < 0.3:
            session, _ = self._visitors.pop(self._rng.randrange(len(self._visitors)))
            session.close()
        elif self._rng.random() < 0.1:
            self._knock()
        elif self._visitors:
            for _ in range(ACTS_COUNT):
                self._act(*self._rng.choice(self._visitors))

    def leave(self) -> None:
        """All visitors go."""
        while self._visitors:
            self._visitors.pop()[0].close()

    def _arrive(self) -> None:
        mode, endpoint = self._rng.choice(MODES), self._rng.choice(self._endpoints)
        self._visitors.append((opened(self._library, mode, endpoint), []))

    def _knock(self) -> None:
        """Somebody connects who is no node."""
        address = self._rng.choice(self._endpoints).partition("/")[2]
        host, _, port = address.rpartition(":")
        # Whether the router hangs up first does not matter.
        with (
            contextlib.suppress(OSError),
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ASK_S) as link,
        ):
            link.sendall(self._rng.randbytes(self._rng.choice((0, 1, 40))))

    def _act(self, session: Any, kept: list[Any]) -> None:
        self._number += 1
        key = f"soak/{self._rng.choice('abcd')}/{self._number % 50}"
        wild = self._rng.choice((key, "soak/*/1", "soak/**", f"{key}/**"))
        acts: list[Callable[[], Any]] = [
            lambda: session.declare_subscriber(wild, lambda sample: None),
            lambda: session.declare_queryable(wild, self._rng.choice((_answer, self._keep))),
            lambda: session.declare_publisher(key),
            lambda: session.declare_querier(wild),
            lambda: session.liveliness().declare_token(key),
            lambda: session.liveliness().declare_subscriber(
                wild, lambda sample: None, history=True
            ),
        ]
        what = self._rng.randrange(len(acts) + 6)
        if what < len(acts) and len(kept) < ENTITIES_MAX:
            kept.append(acts[what]())
        elif kept and what < len(acts) + 1:
            kept.pop(self._rng.randrange(len(kept))).undeclare()
        elif what < len(acts) + 3:
            session.put(key, self._rng.randbytes(self._rng.choice((8, 1_000, 200_000))))
        else:
            # Not waited for: it may be open when its session goes, or who should answer it.
            session.get(wild, lambda reply: None, timeout=60)

    def _keep(self, query: Any) -> None:
        """Not answered while its session is there."""
        self._kept.append(query)


def _answer(query: Any) -> None:
    query.reply(str(query.key_expr).replace("**", "x").replace("*", "x"), b"answer")
    query.drop()


def told(library: ModuleType, endpoint: str) -> dict[str, str]:
    """What the routers that are reached say of themselves, without what always changes."""
    found: dict[str, str] = {}
    ended = threading.Event()

    def take(reply: Any) -> None:
        if reply.ok is not None and not str(reply.ok.key_expr).endswith("/metrics"):
            found[str(reply.ok.key_expr)] = _steady(bytes(reply.ok.payload))

    with opened(library, "client", endpoint) as observer:
        handler = library.handlers.Callback(take, ended.set)
        observer.get("@/*/router/**", handler, target=library.QueryTarget.ALL, timeout=_ASK_S)
        ended.wait(_ASK_S)
    return found


def _steady(payload: bytes) -> str:
    text = payload.decode(errors="replace")
    try:
        record = json.loads(text)
    except ValueError:
        return text
    if isinstance(record, dict) and "sessions" in record:
        record["sessions"] = len(record["sessions"])  # who asks is one of them
    return json.dumps(record, sort_keys=True)


def remains(library: ModuleType, endpoint: str, before: dict[str, str]) -> dict[str, str]:
    """What is said now and was not said before, once it had the time to go."""
    deadline_s = time.monotonic() + SETTLE_S
    while True:
        after = told(library, endpoint)
        left = {key: text for key, text in after.items() if before.get(key) != text}
        if (not left and after) or time.monotonic() > deadline_s:
            return left
        threading.Event().wait(0.5)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until the time is over; 1 if something stayed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("endpoint", nargs="+", help="where a router is")
    parser.add_argument("--seconds", type=float, default=600, help="how long (default: 600)")
    parser.add_argument("--every-ms", type=float, default=100, help="between turns (default: 100)")
    parser.add_argument("--library", choices=("elea", "zenoh"), default="elea", help="whose nodes")
    parser.add_argument("--seed", type=int, default=1, help="of what happens (default: 1)")
    args = parser.parse_args(arguments)
    library = importlib.import_module(args.library)
    before = told(library, args.endpoint[0])
    soak = Soak(library, args.endpoint, args.seed)
    start_s = reported_s = time.monotonic()
    while time.monotonic() - start_s < args.seconds:
        soak.turn()
        threading.Event().wait(args.every_ms / 1_000)
        if time.monotonic() - reported_s > REPORT_S:
            reported_s = time.monotonic()
            print(json.dumps({"seconds": round(reported_s - start_s), "turns": soak.turns}))
    soak.leave()
    left = remains(library, args.endpoint[0], before)
    print(json.dumps({"turns": soak.turns, "left": left}))
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
