"""What pages cost a router. Prints JSON lines.

`python bench/ui.py --rate 1000 --seconds 8 --viewers 0 1 8`. A router of its own process, a
publisher of 40 keys, and viewers that speak the live protocol as the page does: all values in
view, the status, and up to 30 frames a second. Then the tree of 100 000 keys, and a plot of ten
minutes of one key among nine at ten a second, as a browser asks for it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path

from websockets.asyncio.client import connect
from websockets.typing import Origin, Subprotocol

import elea
from elea.encoding import Encoding
from elea.ids import ZenohId
from elea.provenance import SampleKind
from elea.sample import Sample
from elea.store.log.log import Log
from elea.store.recorder.rows import batch_of, sample_row
from elea.timestamp import NTP64, Timestamp
from elea.web.ui.assets import Assets
from elea.web.ui.index import Index

KEYS = [f"fleet/r{n:02}/imu" for n in range(40)]
FRAMES_PER_S = 30
UI = "/@elea/ui"


def cpu_s(pid: int) -> float:
    """Processor time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def view(url: str, until_s: float, counts: list[int]) -> None:
    """One page: ask for frames until some time."""
    request = urllib.request.Request(f"{url}{UI}/ticket", b"{}", method="POST")
    with urllib.request.urlopen(request) as answer:
        ticket = json.load(answer)["ticket"]
    address = url.replace("http", "ws", 1) + f"{UI}/live"
    async with connect(
        address,
        origin=Origin(url),
        subprotocols=[Subprotocol("elea.live.v1")],
        proxy=None,
        compression=None,
    ) as socket:
        await socket.send(json.dumps({"hello": 1, "ticket": ticket}))
        await socket.send(json.dumps({"want": {"id": 1, "kind": "rows", "keys": KEYS}}))
        await socket.send(json.dumps({"want": {"id": 2, "kind": "status"}}))
        while time.monotonic() < until_s:
            await socket.send('{"next": 1, "seen": 0}')
            data = await socket.recv()
            assert isinstance(data, bytes)
            [length] = struct.unpack_from("<I", data)
            counts[0] += 1
            counts[1] += 4 + length
            await asyncio.sleep(1 / FRAMES_PER_S)


async def viewed(url: str, viewers: int, seconds: float) -> list[int]:
    counts = [0, 0]
    until_s = time.monotonic() + seconds
    await asyncio.gather(*(view(url, until_s, counts) for _ in range(viewers)))
    await asyncio.sleep(max(0.0, until_s - time.monotonic()))
    return counts


def publish(port: int, rate: int, stop: threading.Event, counts: list[int]) -> None:
    """So many samples a second, over all keys, to a subscriber behind the router."""
    endpoint = {"mode": "client", "connect": {"endpoints": [f"tcp/127.0.0.1:{port}"]}}

    def received(_: elea.Sample) -> None:
        counts[0] += 1

    with (
        elea.open(endpoint) as sender,
        elea.open(endpoint) as taker,
        taker.declare_subscriber("fleet/*/imu", received),
    ):
        publishers = [sender.declare_publisher(key) for key in KEYS]
        begun_s, sent = time.monotonic(), 0
        while not stop.wait(0.01):
            for _ in range(int((time.monotonic() - begun_s) * rate) - sent):
                publishers[sent % len(KEYS)].put(f'{{"n": {sent}, "temp": 41.5}}')
                sent += 1
        for publisher in publishers:
            publisher.undeclare()


def routers(rate: int, seconds: float, viewers: list[int], port: int) -> None:
    command = [sys.executable, "-m", "elea", "router", "--ui", "--log", "warn"]
    command += ["--listen", f"tcp/127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as router:
        assert router.stdout is not None
        url = ""
        while not url:
            line = router.stdout.readline()
            assert line, "the router ended"
            url = line.removeprefix("page: ").strip().rstrip("/") if "page: " in line else ""
        stop, counts = threading.Event(), [0]
        thread = threading.Thread(target=publish, args=(port, rate, stop, counts))
        thread.start()
        try:
            time.sleep(2)
            for count in viewers:
                measure_viewers(router.pid, url, count, seconds, counts)
        finally:
            stop.set()
            thread.join()
            router.terminate()


def measure_viewers(pid: int, url: str, count: int, seconds: float, counts: list[int]) -> None:
    cpu_before, received_before, begun_s = cpu_s(pid), counts[0], time.monotonic()
    frames, length = asyncio.run(viewed(url, count, seconds))
    took_s = time.monotonic() - begun_s
    print_line(
        "viewers",
        viewers=count,
        routed_per_s=round((counts[0] - received_before) / took_s),
        frames_per_s=round(frames / took_s, 1),
        kb_per_s=round(length / took_s / 1e3, 1),
        router_cpu=round((cpu_s(pid) - cpu_before) / took_s, 3),
        router_mb=round(memory_mb(pid), 1),
    )


def tree(count: int) -> None:
    keys = {f"site{n % 50:02}/r{n // 50 % 2000:04}/k{n}": "p" for n in range(count)}
    begun_s = time.perf_counter()
    index = Index(keys)
    built_s = time.perf_counter() - begun_s
    rows_s = timed(lambda: index.rows(frozenset(), 0, 60))
    open_s = timed(lambda: index.rows(frozenset({"site01"}), 0, 60))
    find_s = timed(lambda: index.search("site01 k4", 0, 60))
    milliseconds = {
        f"{name}_ms": round(seconds * 1e3, 2)
        for name, seconds in (
            ("built", built_s),
            ("rows", rows_s),
            ("open", open_s),
            ("search", find_s),
        )
    }
    print_line("tree", keys=count, **milliseconds)


def history() -> None:
    """A plot of ten minutes at ten a second, from a log: seconds, and those of the processor."""
    with tempfile.TemporaryDirectory() as folder:
        until_s = write_log(Path(folder) / "log")
        command = [sys.executable, "-m", "elea", "ui", str(Path(folder) / "log")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as shown:
            try:
                assert shown.stdout is not None
                url = next(line for line in shown.stdout if line.startswith("page: "))
                url = url.removeprefix("page: ").strip().rstrip("/")
                body = {"key": "fleet/r3/imu", "fields": ["temp"], "columns": 900}
                asked = json.dumps({**body, "since": until_s - 600, "until": until_s}).encode()
                took_s, used_s = [], []
                for _ in range(7):
                    begun_s, cpu_before = time.perf_counter(), cpu_s(shown.pid)
                    request = urllib.request.Request(f"{url}{UI}/series", asked, method="POST")
                    with urllib.request.urlopen(request) as answer:
                        told = json.load(answer)
                    took_s.append(time.perf_counter() - begun_s)
                    used_s.append(cpu_s(shown.pid) - cpu_before)
                print_line(
                    "history",
                    rows=told["rows"],
                    points=len(told["series"]["temp"][0]),
                    best_ms=round(min(took_s) * 1e3, 1),
                    median_ms=round(statistics.median(took_s) * 1e3, 1),
                    cpu_ms=round(statistics.median(used_s) * 1e3, 1),
                )
            finally:
                shown.terminate()


def write_log(folder: Path) -> float:
    """Ten minutes of nine keys, in blocks as a recorder writes them; when they end."""
    until_s = time.time()
    with Log(folder) as log:
        for second in range(0, 600, 2):
            rows = []
            for number in range(second * 10, second * 10 + 20):
                at_ns = round((until_s - 600 + number / 10) * 1e9)
                stamp = Timestamp(NTP64.from_nanos(at_ns), ZenohId(b"\x01"))
                for robot in range(9):
                    sample = Sample(
                        key_expr=f"fleet/r{robot}/imu",
                        payload=b'{"n": %d, "ax": 0.5, "temp": %d}' % (number, number % 50),
                        kind=SampleKind.PUT,
                        encoding=Encoding.APPLICATION_JSON,
                        timestamp=stamp,
                        attachment=None,
                        source_info=None,
                    )
                    rows.append(sample_row(sample, at_ns // 1_000))
            log.store(batch_of(rows))
    return until_s


def timed(run: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    run()
    return time.perf_counter() - begun_s


def print_line(name: str, **values: float) -> None:
    print(json.dumps({"bench": "ui", "case": name, "load": os.getloadavg()[0], **values}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=1_000, help="samples per second")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--viewers", type=int, nargs="+", default=[0, 1, 8])
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--port", type=int, default=17_561)
    args = parser.parse_args()
    print_line("page", compressed_bytes=sum(Assets().sizes().values()))
    tree(args.keys)
    history()
    routers(args.rate, args.seconds, args.viewers, args.port)


if __name__ == "__main__":
    main()
