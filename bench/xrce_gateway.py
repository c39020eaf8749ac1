"""A thousand XRCE devices at one router, over UDP on loopback: memory of each, and samples.

    python bench/xrce_gateway.py                  JSON lines
    python bench/xrce_gateway.py --devices 100    fewer devices
    python bench/xrce_gateway.py --quick          fewer samples

The router is a process of its own, and all devices are another one, each with its own socket and
session. `kib_per_device` is what the router's resident memory grew by, for each device that has a
session (bar: 16 KiB); `kib_per_publisher` the same when each has declared a resource and a
publisher, which the data space is asked about. `samples_per_s` are reliable samples of 8 octets,
from the first write to the last acknowledgement; a client of the router counts what it receives.
`samples_per_cpu_s` is by the processor time of the router.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import elea
from elea.devices.device import device_settings, why
from elea.version import COMPILED
from elea.xrce.client import Client
from elea.xrce.session.session import Ended

BAR_KIB: Final = 16
PATIENCE_S: Final = 120.0
LEASE_S: Final = 60  # so that a busy machine ends no session
LOOK_S: Final = 0.05  # between two looks at all devices
_START_S: Final = 60.0


def rss_kib(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"process {pid} has no memory")


def cpu_s(pid: int) -> float:
    """The processor time of a process."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def router(udp_port: int) -> Iterator[tuple[int, str]]:
    """A router that serves devices: its process, and where Zenoh is spoken."""
    command = [sys.executable, "-m", "elea.cli.main", "router", "--listen", "tcp/127.0.0.1:0"]
    command += ["--xrce", f"udp/127.0.0.1:{udp_port}", "--no-multicast-scouting", "--log", "error"]
    command += ["--cfg", f"plugins/xrce/lease_ms:{LEASE_S * 1_000}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stdout is not None
        try:
            words = process.stdout.readline().split()
            if words[:1] != ["ready:"]:
                raise RuntimeError(f"the router did not start: {words}")
            yield process.pid, words[3]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(_START_S)


class Fleet:
    """Devices, each with a socket, driven by one loop."""

    def __init__(self, first: int, count: int, port: int) -> None:
        self._selector = selectors.DefaultSelector()
        self.devices: list[tuple[Client, socket.socket]] = []
        self._looked_s = 0.0
        for number in range(first, first + count):
            sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            sock.setblocking(False)
            sock.connect(("127.0.0.1", port))
            client = Client(device_settings(number.to_bytes(4, "big"), lease_s=LEASE_S))
            self._selector.register(sock, selectors.EVENT_READ, client)
            self.devices.append((client, sock))

    def run(self, until: Callable[[], bool]) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        looked_s = 0.0
        while True:
            now_s = time.monotonic()
            if now_s - looked_s > LOOK_S:
                looked_s = now_s
                if until():
                    return
            if now_s > deadline_s:
                raise RuntimeError("it takes too long")
            self.turn()

    def turn(self, wait_s: float = 0.005) -> list[Client]:
        """Read what came; those it came for."""
        now_ns = time.monotonic_ns()
        heard = []
        for key, _ in self._selector.select(wait_s):
            assert isinstance(key.fileobj, socket.socket)
            client: Client = key.data
            heard.append(client)
            try:
                while True:
                    client.receive(key.fileobj.recv(65_535), now_ns)
            except BlockingIOError:
                pass
            self.flush(client, key.fileobj)
        if time.monotonic() - self._looked_s > LOOK_S:
            self._looked_s = time.monotonic()
            for client, sock in self.devices:
                due_ns = client.next_timer_ns()
                if due_ns is not None and due_ns <= now_ns:
                    client.handle_timer(now_ns)
                    self.flush(client, sock)
        return heard

    def flush(self, client: Client, sock: socket.socket) -> None:
        for frame in client.data_to_send(time.monotonic_ns()):
            try:
                sock.send(frame)
            except BlockingIOError:
                break  # as if the network had lost it
        while (event := client.next_event()) is not None:
            if isinstance(event, Ended):
                raise RuntimeError(f"a device lost its session: {why(event)}")

    def open(self) -> None:
        for number in range(0, len(self.devices), 50):  # not all at once
            some = self.devices[number : number + 50]
            for client, sock in some:
                client.open(time.monotonic_ns())
                self.flush(client, sock)
            self.run(lambda some=some: all(client.is_open for client, _ in some))  # type: ignore[misc]

    def declare(self) -> list[int]:
        rids = []
        for number, (client, sock) in enumerate(self.devices):
            rid = client.resource(f"/bench/xrce/{number}/value")
            client.publisher(rid)
            client.commit()
            self.flush(client, sock)
            rids.append(rid)
        self.run(lambda: all(not client.unacknowledged_count for client, _ in self.devices))
        return rids

    def write(self, rids: list[int], rounds: int) -> float:
        """Seconds from the first write to the last acknowledgement."""
        started_s = time.perf_counter()
        pairs = zip(rids, self.devices, strict=True)
        places = {id(client): (rid, sock) for rid, (client, sock) in pairs}
        left = dict.fromkeys(places, rounds)
        ready = [client for client, _ in self.devices]
        while left:
            for client in ready:
                rid, sock = places[id(client)]
                while left.get(id(client)) and client.write(rid, b"8 octets", time.monotonic_ns()):
                    left[id(client)] -= 1
                    if not left[id(client)]:
                        del left[id(client)]
                self.flush(client, sock)
            ready = self.turn()
        self.run(lambda: all(not client.unacknowledged_count for client, _ in self.devices))
        return time.perf_counter() - started_s

    def close(self) -> None:
        for _, sock in self.devices:
            sock.close()
        self._selector.close()


def measure(devices_count: int, rounds: int) -> dict[str, object]:
    port = free_port()
    with router(port) as (pid, endpoint):
        received = 0

        def count(_sample: elea.Sample) -> None:
            nonlocal received
            received += 1

        config = {"mode": "client", "connect": {"endpoints": [endpoint]}}
        fleet = Fleet(1, devices_count, port)
        warm = Fleet(0, 1, port)  # what the first device makes the router load
        warm.open()
        warm.declare()
        before_kib = rss_kib(pid)
        fleet.open()
        idle_kib = rss_kib(pid)
        rids = fleet.declare()
        declared_kib = rss_kib(pid)
        with elea.open(config) as session, session.declare_subscriber("bench/xrce/**", count):
            fleet.run(
                lambda: all(
                    client.is_matched(rid)
                    for (client, _), rid in zip(fleet.devices, rids, strict=True)
                )
            )
            written = devices_count * rounds
            spent_s = cpu_s(pid)
            seconds = fleet.write(rids, rounds)
            deadline_s = time.monotonic() + PATIENCE_S
            while received < written and time.monotonic() < deadline_s:
                time.sleep(0.01)
            spent_s = cpu_s(pid) - spent_s
        busy_kib = rss_kib(pid)
        fleet.close()
        warm.close()
    return {
        "bench": "xrce gateway",
        "devices": devices_count,
        "kib_per_device": round((idle_kib - before_kib) / devices_count, 1),
        "bar_kib": BAR_KIB,
        "holds": (idle_kib - before_kib) / devices_count <= BAR_KIB,
        "kib_per_publisher": round((declared_kib - before_kib) / devices_count, 1),
        "kib_per_device_busy": round((busy_kib - before_kib) / devices_count, 1),
        "samples": written,
        "received": received,
        "samples_per_s": round(written / seconds),
        "samples_per_cpu_s": round(written / spent_s),
        "compiled": COMPILED,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, default=1_000, help="how many (default: 1000)")
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    args = parser.parse_args()
    print(json.dumps(measure(args.devices, 10 if args.quick else 100)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
