"""A router of Elea beside one of the eclipse-zenoh wheel: TCP on loopback, one run.

    python bench/router.py                          every figure, as JSON lines
    python bench/router.py --only fan_out,frozen    some of them
    python bench/router.py --scale 0.1 --rounds 1   a tenth of the work

Each router is a process of its own, and so are the clients, which come from the wheel unless the
figure says otherwise. Rounds are interleaved; a figure is the median of its rounds, and `ratio` is
Elea's by the wheel's.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

ROUTERS: Final = ("elea", "zenoh")
KEY: Final = "bench/router/key"
PATIENCE_S: Final = 5.0  # with samples that do not arrive
START_S: Final = 30.0
FROZEN_RATE: Final = 5_000  # samples per second
DECLARED_COUNT: Final = 10_000

Figures = dict[str, float]


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def free_port() -> int:
    while True:  # below those that systems give to whoever connects
        port = 12_000 + int.from_bytes(os.urandom(4)) % 20_000
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def rss_kib(pid: int) -> int:
    """The resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"process {pid} has no memory")


def cpu_s(pid: int) -> float:
    """The time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


# The processes.


class Router:
    """A router in a process; `restart` begins it anew at the same port."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.port = free_port()
        self._process = self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        endpoint = f"tcp/127.0.0.1:{self.port}"
        if self.kind == "elea":
            command = "import sys; from elea.cli.main import main; sys.exit(main())"
            options = ["router", "--listen", endpoint, "--no-multicast-scouting", "--log", "error"]
            arguments = [sys.executable, "-c", command, *options]
        else:
            arguments = [sys.executable, __file__, "--role", "wheel_router", str(self.port)]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + START_S
        while True:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return process
            if process.poll() is not None or time.monotonic() > deadline:
                process.kill()
                raise RuntimeError(f"the router ({self.kind}) did not start")
            time.sleep(0.005)


class Client:
    """A process with sessions, which is asked by lines and answers by lines."""

    def __init__(self, role: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--role", role, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.hear()

    @property
    def pid(self) -> int:
        return self._process.pid

    def hear(self) -> list[float]:
        """The next answer; that a client is ready is an empty one."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a client ended too soon; its errors stand above")
        return [float(word) for word in line.split()]

    def say(self, *words: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def ask(self, *words: object) -> list[float]:
        self.say(*words)
        return self.hear()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def clients(*roles: tuple[object, ...]) -> Iterator[list[Client]]:
    """Client processes, which end with the block."""
    made: list[Client] = []
    try:
        for role, *arguments in roles:
            made.append(Client(str(role), *arguments))
        yield made
    finally:
        for client in made:
            client.end()


# What they do.


def open_client(library: str, port: int) -> Any:
    zenoh = importlib.import_module(library)
    config = zenoh.Config()
    for key, value in {
        "mode": "client",
        "connect/endpoints": [f"tcp/127.0.0.1:{port}"],
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
    }.items():
        config.insert_json5(key, json.dumps(value))
    return zenoh.open(config)


def answer(*numbers: float) -> None:
    print(*numbers, flush=True)


def wheel_router(port: str) -> None:
    zenoh = importlib.import_module("zenoh")
    config = zenoh.Config()
    for key, value in {
        "mode": "router",
        "listen/endpoints": [f"tcp/127.0.0.1:{port}"],
        "scouting/multicast/enabled": False,
        "transport/shared_memory/enabled": False,
    }.items():
        config.insert_json5(key, json.dumps(value))
    session = zenoh.open(config)
    sys.stdin.readline()  # until it is killed
    session.close()


def subscribers(library: str, port: str, count: str) -> None:
    """Sessions with a subscriber each; asked, it tells how many samples came, and the last time."""
    received = 0
    last = 0.0

    def take(sample: object) -> None:
        nonlocal received, last
        received += 1
        last = time.monotonic()

    sessions = [open_client(library, int(port)) for _ in range(int(count))]
    kept = [session.declare_subscriber(KEY, take) for session in sessions]
    answer()
    for _ in sys.stdin:
        answer(received, last)
    del kept


def publisher(library: str, port: str) -> None:
    """Told a time, a length and a rate (0: as fast as it gets), it publishes.

    It answers how many, when it began, and the longest that one put took.
    """
    zenoh = importlib.import_module(library)
    session = open_client(library, int(port))
    kept = session.declare_publisher(KEY, congestion_control=zenoh.CongestionControl.BLOCK)
    answer()
    for line in sys.stdin:
        seconds, length, rate = (float(word) for word in line.split())
        payload = bytes(int(length))
        burst = 500 if not rate else max(1, int(rate / 100))
        sent, stall, began = 0, 0.0, time.monotonic()
        while (now := time.monotonic()) - began < seconds:
            for _ in range(burst):
                kept.put(payload)
            sent += burst
            stall = max(stall, time.monotonic() - now)
            if rate:
                time.sleep(max(0.0, began + sent / rate - time.monotonic()))
        answer(sent, began, stall)


def declarer(library: str, port: str) -> None:
    """Told how many, it declares so many subscribers more; it answers when the router knows."""
    session = open_client(library, int(port))
    echo = session.declare_queryable(f"{KEY}/echo", lambda query: query.reply(query.key_expr, b""))
    made: list[Any] = []
    answer()
    for line in sys.stdin:
        began = time.monotonic()
        for _ in range(int(line)):
            made.append(session.declare_subscriber(f"bench/many/{len(made)}/x", lambda _: None))
        # A query comes back through the router, behind the declarations.
        list(session.get(f"{KEY}/echo", timeout=60))
        answer(time.monotonic() - began)
    del echo


def opener(library: str, port: str) -> None:
    """Told how often, it opens a session and closes it; it answers how long each took."""
    open_client(library, int(port)).close()  # what is imported late is imported now
    answer()
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            began = time.monotonic()
            with suppress(OSError):
                open_client(library, int(port)).close()
                times.append(time.monotonic() - began)
        answer(*times)


ROLES: Final[dict[str, Callable[..., None]]] = {
    role.__name__: role for role in (wheel_router, subscribers, publisher, declarer, opener)
}


# The figures.


@dataclass(frozen=True)
class Work:
    """How much of it: 1.0 is what the table in docs/topics/performance.md shows."""

    scale: float
    sessions_count: int
    silent_count: int

    def seconds(self, full: float) -> float:
        return max(0.3, full * self.scale)

    def count(self, full: int, least: int = 1) -> int:
        return max(least, int(full * self.scale))


def arrived(client: Client, wanted: float) -> tuple[float, float]:
    """How many samples came, and when the last one did; what never comes is not waited for."""
    count, last = client.ask("count")
    changed = time.monotonic()
    while count < wanted and time.monotonic() - changed < PATIENCE_S:
        time.sleep(0.01)
        now_count, last = client.ask("count")
        if now_count > count:
            count, changed = now_count, time.monotonic()
    return count, last


def warmed(giver: Client, taker: Client, count: int, *how: float) -> float:
    """Publish until all of it arrives, which is when all know of each other; how many came."""
    for _ in range(5):
        before, _ = taker.ask("count")
        wanted = before + count * giver.ask(*how)[0]
        got, _ = arrived(taker, wanted)
        if got == wanted:
            return got
    raise RuntimeError(f"{wanted - got} of {wanted} samples are lost before anything is measured")


def flow(router: str, library: str, count: int, seconds: float, length: int) -> Figures:
    """Samples through a router, as fast as they get there."""
    with (
        Router(router) as hub,
        clients(("subscribers", library, hub.port, count), ("publisher", library, hub.port)) as two,
    ):
        taker, giver = two
        warm = warmed(giver, taker, count, 0.05, length, 100)
        before_s = cpu_s(hub.pid)
        sent, began, _ = giver.ask(seconds, length, 0)
        got, last = arrived(taker, warm + sent * count)
        got -= warm
        used = (cpu_s(hub.pid) - before_s) / got * 1e6
        return {"rate": got / (last - began), "lost": sent * count - got, "router_us": used}


def one_to_one(router: str, work: Work) -> Figures:
    """8 B from one client to another, all from the wheel: samples/s."""
    return flow(router, "zenoh", 1, work.seconds(3), 8)


def end_to_end(router: str, work: Work) -> Figures:
    """8 B, router and clients of Elea, or all from the wheel: samples/s."""
    return flow(router, router, 1, work.seconds(3), 8)


def fan_out(router: str, work: Work) -> Figures:
    """8 B from one client to fifty: deliveries/s."""
    return flow(router, "zenoh", work.count(50, 2), work.seconds(2), 8)


def large(router: str, work: Work) -> Figures:
    """1 MB from one client to another, no shared memory: samples/s."""
    return flow(router, "zenoh", 1, work.seconds(3), 1_000_000)


def declarations(router: str, work: Work) -> Figures:
    """Ten thousand subscribers of one client (of Elea; one from the wheel is slower than both).

    `slower`: the time for the last tenth by the time for the first.
    """
    total = work.count(DECLARED_COUNT, 20)
    part = total // 10
    with Router(router) as hub:
        with clients(("declarer", "elea", hub.port)) as [warm]:
            warm.ask(part)
        time.sleep(0.5)
        base = rss_kib(hub.pid)
        walls: list[float] = []
        used: list[float] = []
        with clients(("declarer", "elea", hub.port)) as [client]:
            for _ in range(10):
                before_s = cpu_s(hub.pid)
                walls += client.ask(part)
                used.append(cpu_s(hub.pid) - before_s)
            full = rss_kib(hub.pid)
        after = settled_rss(hub.pid, base)
        return {
            "rate": part / walls[-1],
            "rate_at_first": part / walls[0],
            "slower": walls[-1] / walls[0],
            "router_slower": used[-1] / used[0] if used[0] else 0.0,
            "mib": (full - base) / 1024,
            "left_percent": 100 * (after - base) / base,
        }


def settled_rss(pid: int, base: int) -> int:
    """The memory of a process some time after it could have given it back."""
    deadline = time.monotonic() + PATIENCE_S
    least = rss_kib(pid)
    while time.monotonic() < deadline and least > base:
        time.sleep(0.1)
        least = min(least, rss_kib(pid))
    return least


def sessions(router: str, work: Work) -> Figures:
    """Many sessions that subscribe, and 100 puts: deliveries that are missing."""
    count, puts = work.sessions_count, 100
    began = time.monotonic()
    with Router(router) as hub:
        base = rss_kib(hub.pid)
        halves = [("subscribers", "zenoh", hub.port, part) for part in (count // 2, -(-count // 2))]
        with clients(*halves, ("publisher", "zenoh", hub.port)) as made:
            opened = time.monotonic()
            held = rss_kib(hub.pid)
            sent, first, _ = made[2].ask(puts / 1_000, 8, 1_000)
            times, got = [], 0.0
            for part, (_, _, _, sessions_count) in zip(made, halves, strict=False):
                here, last = arrived(part, sent * sessions_count)
                got += here
                times.append(last - first)
        return {
            "sessions": count,
            "puts": sent,
            "missing": sent * count - got,
            "deliver_s": max(times),
            "open_s": opened - began,
            "kib_each": (held - base) / count,
        }


def silent(router: str, work: Work) -> Figures:
    """Connections that say nothing, while others connect: p99 in ms."""
    count = work.silent_count
    with Router(router) as hub, clients(("opener", "elea", hub.port)) as [client]:
        quiet = [
            # From many addresses: one alone pushes only its own ones out.
            socket.create_connection(
                ("127.0.0.1", hub.port), source_address=(f"127.0.1.{1 + number % 100}", 0)
            )
            for number in range(count)
        ]
        asked = work.count(100, 5)
        times = client.ask(asked)
        held = sum(is_open(one) for one in quiet)
        for one in quiet:
            one.close()
        return {
            "silent": count,
            "held": held,
            "failed": asked - len(times),
            **({"p50_ms": percentile(times, 0.5) * 1e3} if times else {}),
            **({"p99_ms": percentile(times, 0.99) * 1e3} if times else {}),
        }


def is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False


def frozen(router: str, work: Work) -> Figures:
    """One of ten subscribers is stopped, 1 kB at 5 000/s: what the others lose, the longest put."""
    with (
        Router(router) as hub,
        clients(
            ("subscribers", "zenoh", hub.port, 9),
            ("subscribers", "zenoh", hub.port, 1),
            ("publisher", "zenoh", hub.port),
        ) as [nine, one, giver],
    ):
        warm = warmed(giver, nine, 9, work.seconds(2), 1_000, FROZEN_RATE)
        base = peak = rss_kib(hub.pid)
        one.signal(signal.SIGSTOP)
        try:
            giver.say(work.seconds(20), 1_000, FROZEN_RATE)
            stop = threading.Event()

            def watch() -> None:
                nonlocal peak
                while not stop.wait(0.05):
                    peak = max(peak, rss_kib(hub.pid))

            watcher = threading.Thread(target=watch)
            watcher.start()
            sent, _, stall = giver.hear()
            got, _ = arrived(nine, warm + 9 * sent)
            stop.set()
            watcher.join()
        finally:
            one.signal(signal.SIGCONT)
        return {
            "lost": 9 * sent - (got - warm),
            "stall_s": stall,
            "grown_mib": (peak - base) / 1024,
            "sent": sent,
        }


def restart(router: str, work: Work) -> Figures:
    """kill -9, start again: seconds until a sample gets through, from when it listens again."""
    times: list[float] = []
    with (
        Router(router) as hub,
        clients(("subscribers", "zenoh", hub.port, 1), ("publisher", "zenoh", hub.port)) as [
            taker,
            giver,
        ],
    ):
        giver.ask(0.05, 8, 100)
        for _ in range(work.count(10, 1)):
            hub.kill()
            hub.restart()
            began = time.monotonic()
            before, _ = taker.ask("count")
            while taker.ask("count")[0] == before:
                if time.monotonic() - began > START_S:
                    raise RuntimeError("the clients did not come back")
                giver.ask(0.001, 8, 1_000)
            times.append(taker.ask("count")[1] - began)
    return {"p50_s": statistics.median(times), "max_s": max(times)}


@dataclass(frozen=True)
class Figure:
    """How a row is measured, and its number that is compared."""

    measure: Callable[[str, Work], Figures]
    main: str
    rounds: int = 5


FIGURES: Final = {
    "one_to_one": Figure(one_to_one, "rate"),
    "end_to_end": Figure(end_to_end, "rate"),
    "fan_out": Figure(fan_out, "rate"),
    "large": Figure(large, "rate"),
    "declarations": Figure(declarations, "slower", 1),
    "sessions": Figure(sessions, "missing", 1),
    "silent": Figure(silent, "p99_ms", 1),
    "frozen": Figure(frozen, "stall_s", 1),
    "restart": Figure(restart, "p50_s", 1),
}


def run(name: str, work: Work, rounds: int) -> dict[str, Any]:
    """One row: the medians of both, and their ratio where both have one."""
    figure = FIGURES[name]
    found: dict[str, list[Figures]] = {router: [] for router in ROUTERS}
    for number in range(rounds or figure.rounds):
        for router in ROUTERS:
            progress(f"{name}: round {number + 1}, {router}")
            found[router].append(figure.measure(router, work))
    row: dict[str, Any] = {
        "bench": "router",
        "figure": name,
        "what": (figure.measure.__doc__ or "").split("\n")[0],
    }
    for router, values in found.items():
        row[router] = {
            key: round(statistics.median(one[key] for one in values), 3) for key in values[0]
        }
    ours, theirs = (row[router].get(figure.main) for router in ROUTERS)
    row["ratio"] = round(ours / theirs, 2) if theirs and ours is not None else None
    row |= {"rounds": rounds or figure.rounds, "scale": work.scale}
    return row | {"python": platform.python_version(), "cores": os.cpu_count()}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(FIGURES), help="figures, with commas between")
    parser.add_argument("--rounds", type=int, default=0, help="of every figure (default: its own)")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the work (default: 1)")
    parser.add_argument("--sessions", type=int, default=500, help="sessions held (default: 500)")
    parser.add_argument("--silent", type=int, default=500, help="silent connections (default: 500)")
    parser.add_argument("--role", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.role:
        ROLES[args.role[0]](*args.role[1:])
        return 0
    unknown = [name for name in args.only.split(",") if name not in FIGURES]
    if unknown:
        parser.error(f"no figure {', '.join(unknown)}; there are {', '.join(FIGURES)}")
    work = Work(args.scale, args.sessions, args.silent)
    for name in args.only.split(","):
        print(json.dumps(run(name, work, args.rounds)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
