"""The DDS bridge against loops of raw take and put, subscriber and raw write, in one run (D-901..).

    python bench/dds.py             a minute, JSON lines
    python bench/dds.py --quick     fewer samples
    python bench/dds.py --only D-904

Peers are processes of their own, on loopback. CPU is that of the process with the bridge or the
loop, per sample; only ratios count. D-903 compares samples per second of CPU: on a host with fewer
cores than processes, samples per second of time (`per_s`) are those of the peers.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # run as a script: find `tests`

from tests.dds.peers import Peer, bridge, config_of, next_domain, peer, until
from tests.ports import free_port

import elea
from elea.cli import collector
from elea.dds.bridge import Route
from elea.dds.cyclone import CycloneDomain
from elea.dds.port import NO_ROOM, Endpoint
from elea.dds.qos import CDR1, MirrorLimits, ReaderClass, mirror_reader, mirror_writer
from elea.dds.routes import Direction
from elea.dds.settings import DdsSettings
from elea.dds.state import State
from elea.sample import Sample
from elea.session.session import Session

ROOT: Final = Path(__file__).resolve().parent.parent
BARS: Final = {
    "D-901": 2.0,
    "D-902": 2.0,
    "D-903": 3.0,
    "D-904": 2.5,
    "D-905": 1.5,
    "D-906": 50,
    "D-908": 1.1,
}
LINES: Final = [f"D-{number}" for number in range(901, 909)]


class End:
    """The Zenoh end in a process of its own."""

    def __init__(self, endpoint: str, count: int, size: int) -> None:
        environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"}
        command = [sys.executable, str(ROOT / "bench" / "dds_end.py"), endpoint]
        self._process = subprocess.Popen(
            [*command, str(count), str(size)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def ask(self, word: str = "") -> tuple[int, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        seen, middle = self._process.stdout.readline().split()
        return int(seen), float(middle)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)


@contextmanager
def ends(count: int, size: int) -> Iterator[tuple[Session, End, Peer, int]]:
    """A session, the Zenoh end, a DDS peer, and their domain."""
    domain = next_domain()
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with elea.open(config_of(listen=endpoint)) as session, peer(domain) as other:
        end = End(endpoint, count, size)
        try:
            yield session, end, other, domain
        finally:
            end.close()


def discovered(dds: CycloneDomain, other: Peer, *, writer: bool) -> Endpoint:
    """The endpoint of the peer; others may use the domain."""
    prefix = bytes.fromhex(other.guid)[:12]
    while True:
        dds.wait(10_000_000)
        for one in dds.discovered(64):
            if not isinstance(one, Endpoint) or one.guid[:12] != prefix:
                continue
            if one.is_writer == writer:
                return one


def timed(run: Callable[[], bool]) -> tuple[float, float]:
    """Seconds and CPU seconds of this process until `run` says that all arrived."""
    wall, cpu = time.monotonic(), time.process_time()
    until(run, limit_s=120)
    return time.monotonic() - wall, time.process_time() - cpu


def from_dds(kind: str, count: int, size: int) -> tuple[float, float]:
    """CPU microseconds per sample, and samples per second, of one way from DDS."""
    with ends(count, size) as (session, end, other, domain):
        other.writer("w", "Out", "Blob", depth=0, samples_max=2_000, blocking=60)
        if kind == "bridge":
            with bridge(session, domain):
                until(lambda: other.matched("w"))
                other.send("raw_burst", name="w", count=count, size=size)
                wall, cpu = timed(lambda: end.ask()[0] >= count)
                other.answer()
        else:
            wall, cpu = _loop_from(kind, session, end, other, domain, count, size)
    return cpu / count * 1e6, count / wall


def _loop_from(
    kind: str, session: Session, end: End, other: Peer, domain: int, count: int, size: int
) -> tuple[float, float]:
    dds = CycloneDomain(DdsSettings.read({"domain": domain}))
    endpoint = discovered(dds, other, writer=True)
    type_ = dds.resolve(endpoint.guid, 10**9)
    assert type_ is not None
    qos = mirror_reader(ReaderClass.of(endpoint.qos), "", MirrorLimits())
    mirror = dds.make_reader("Out", type_, qos)
    publisher = session.declare_publisher("Out", congestion_control=elea.CongestionControl.BLOCK)
    until(lambda: other.matched("w") and publisher.matching_status.matching)
    stop = threading.Event()
    take = dds.take if kind == "raw" else _typed_take(dds)

    def loop() -> None:
        while not stop.is_set():
            dds.wait(100_000_000)
            for payload, _info in take(mirror.handle, 256):
                publisher.put(payload)

    thread = threading.Thread(target=loop)
    thread.start()
    other.send("raw_burst", name="w", count=count, size=size)
    found = timed(lambda: end.ask()[0] >= count)
    other.answer()
    stop.set()
    thread.join()
    dds.close()
    return found


def _typed_take(dds: CycloneDomain) -> Callable[[int, int], list[Any]]:
    """Take as the Python binding does: each sample becomes an object, and bytes again."""
    through = _through_object()

    def take(reader: int, count: int) -> list[Any]:
        return [(through(payload), info) for payload, info in dds.take(reader, count)]

    return take


def _through_object() -> Callable[[bytes], bytes]:
    """Bytes of type Blob to an object of the Python binding, and back."""
    from tests.dds.idl_types import TYPES

    blob = TYPES["Blob"]
    blob.__idl__.populate()

    def through(payload: bytes) -> bytes:
        found: bytes = blob.deserialize(payload).serialize()
        return found + bytes(-len(found) % 4)

    return through


def to_dds(kind: str, count: int, size: int) -> tuple[float, float]:
    """CPU microseconds per sample, and samples per second, of one way to DDS."""
    with ends(count, size) as (session, end, other, domain):
        other.reader("r", "In", "Blob", depth=0)
        if kind == "bridge":
            with bridge(session, domain):
                until(lambda: other.matched("r"))
                return _measure_to(end, other, count)
        dds = CycloneDomain(DdsSettings.read({"domain": domain}))
        endpoint = discovered(dds, other, writer=False)
        type_ = dds.resolve(endpoint.guid, 10**9)
        assert type_ is not None
        qos = mirror_writer([endpoint.qos], "", CDR1, MirrorLimits())
        writer = dds.make_writer("In", type_, qos).handle
        until(lambda: other.matched("r"))

        through = _through_object() if kind == "typed" else bytes

        def write(sample: Sample) -> None:
            payload = through(sample.payload.to_bytes())
            while dds.write(writer, payload, time.time_ns()) == NO_ROOM:
                dds.flush(writer)
                time.sleep(0.0005)

        def flush() -> None:
            while not stop.wait(0.002):
                dds.flush(writer)

        stop = threading.Event()
        flusher = threading.Thread(target=flush)
        flusher.start()
        subscriber = session.declare_subscriber("In", write)
        try:
            return _measure_to(end, other, count)
        finally:
            subscriber.undeclare()
            stop.set()
            flusher.join()
            dds.close()


def _measure_to(end: End, other: Peer, count: int) -> tuple[float, float]:
    other.send("sink", name="r", count=count, limit_s=120)
    wall, cpu = time.monotonic(), time.process_time()
    end.ask("publish")
    seen = other.answer()
    assert seen == count, seen
    took, used = time.monotonic() - wall, time.process_time() - cpu
    return used / count * 1e6, count / took


def against_raw(
    line: str, way: Callable[[str, int, int], tuple[float, float]], count: int, size: int
) -> None:
    """CPU per sample against a loop that does the least."""
    raw, _ = way("raw", count, size)
    made, rate = way("bridge", count, size)
    tell(line, size=size, raw_us=raw, bridge_us=made, ratio=made / raw, per_s=rate)


def versus_typed(
    way: Callable[[str, int, int], tuple[float, float]], name: str, count: int
) -> None:
    """Samples per second of CPU against a bridge that makes objects: in turns, the best of each."""
    rounds = [(way("bridge", count, 84), way("typed", count, 84)) for _ in range(3)]
    made, typed = (min(one[place] for one in rounds) for place in (0, 1))
    tell(
        "D-903",
        way=name,
        typed_us=typed[0],
        bridge_us=made[0],
        ratio=typed[0] / made[0],
        typed_per_s=typed[1],
        per_s=made[1],
    )


def latency(count: int) -> tuple[float, float]:
    """p50 in milliseconds of DDS alone and through the bridge, at 200 Hz."""
    with ends(count, 8) as (session, end, other, domain):
        other.writer("w", "Out", "Blob")
        with peer(domain) as second, bridge(session, domain):
            second.reader("r", "Out", "Blob")
            until(lambda: other.matched("w") == 2)
            second.send("latencies", name="r", count=count)
            other.pings("w", count, 0.005)
            alone = sorted(second.answer())
            until(lambda: end.ask()[0] >= count)
            return alone[len(alone) // 2], end.ask()[1]


def scale(count: int) -> dict[str, float]:
    """So many writers and readers of one peer are all routed: times, CPU and memory per route."""
    domain = next_domain()
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    with (
        elea.open(config_of(listen=endpoint)) as session,
        peer(domain) as other,
        bridge(session, domain) as made,
    ):
        until(lambda: made.presence.participants)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        wall, cpu = time.monotonic(), time.process_time()
        other.send("many", prefix="W", type="Chatter", count=count, side="writer")
        other.answer()
        other.send("many", prefix="R", type="Chatter", count=count, side="reader")
        other.answer()
        created = time.monotonic() - wall
        until(lambda: len(made.routes) == 2 * count, limit_s=120)
        until(lambda: all(map(_is_routed, list(made.routes.values()))), limit_s=120)
        routed = time.monotonic() - wall
        used = time.process_time() - cpu
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
        idle = time.process_time()
        time.sleep(2)
        idle = (time.process_time() - idle) / 2
    return {
        "created_s": created,
        "routed_s": routed,
        "ratio": routed / created,
        "cpu_ms_per_route": used / (2 * count) * 1e3,
        "kb_per_route": grown / (2 * count),
        "idle_percent": idle * 100,
    }


def _is_routed(route: Route) -> bool:
    """Whether a route has the mirrors that it needs: without a subscriber, it needs no reader."""
    needed = State.ACTIVE if route.id.direction is Direction.TO_DDS else State.WAITING
    return route.state.value is needed


def large(size: int, count: int, period_s: float) -> int:
    """How many samples of a size arrive, sent at a rate."""
    with ends(count, size) as (session, end, other, domain):
        other.writer("w", "Out", "Blob", depth=0, blocking=60)
        with bridge(session, domain):
            until(lambda: other.matched("w"))
            for _ in range(count):
                other.raw_burst("w", 1, size)
                time.sleep(period_s)
            until(lambda: end.ask()[0] >= count, limit_s=60)
            return end.ask()[0]


def stalled(seconds: float) -> dict[str, float]:
    """A reader stops reading: the longest gap of another thread, and losses of another route."""
    with ends(1, 8) as (session, _end, other, domain), bridge(session, domain) as made:
        stop, gaps = threading.Event(), [0.0]

        def tick() -> None:
            last = time.monotonic()
            while not stop.wait(0.001):
                now = time.monotonic()
                gaps.append(now - last)
                last = now

        with peer(domain) as sleeper:
            sleeper.reader("stalled", "Stalled", "Blob", depth=0, samples_max=8)
            other.reader("free", "Free", "Blob", depth=0)
            until(lambda: sleeper.matched("stalled") and other.matched("free"))
            blob = b"\0\1\0\0" + bytes(4) + (60_000).to_bytes(4, "little") + bytes(60_000)
            small = b"\0\1\0\0" + bytes(4) + (4).to_bytes(4, "little") + bytes(4)
            ticker = threading.Thread(target=tick)
            ticker.start()
            sent, begun = 0, time.monotonic()
            while time.monotonic() - begun < seconds:
                session.put("Stalled", blob, congestion_control=elea.CongestionControl.DROP)
                session.put("Free", small, congestion_control=elea.CongestionControl.BLOCK)
                sent += 1
                time.sleep(0.005)
            stop.set()
            ticker.join()
            arrived = other.sink("free", sent, 30)
            sleeper.kill()
        return {
            "longest_gap_ms": max(gaps) * 1e3,
            "no_room": made.counts.no_room,
            "lost_elsewhere": sent - arrived,
        }


def soak(turns: int, samples: int) -> dict[str, float]:
    """Routes that come and go, and samples: memory after a tenth, and at the end (D-908)."""
    with ends(samples, 84) as (session, end, other, domain), bridge(session, domain, linger=0.0):
        other.writer("w", "Out", "Blob", depth=0, samples_max=2_000, blocking=60)
        until(lambda: other.matched("w"))
        first = 0
        for part in range(10):
            for number in range(turns // 10):
                other.reader("r", f"Turn{number % 7}", "Chatter")
                other.delete("r")
            other.raw_burst("w", samples // 10, 84)
            until(partial(_has, end, (part + 1) * (samples // 10)), limit_s=300)
            if part == 0:
                first = _resident_kb()
        last = _resident_kb()
    return {"first_kb": first, "last_kb": last, "ratio": last / first}


def _has(end: End, count: int) -> bool:
    return end.ask()[0] >= count


def _resident_kb() -> int:
    for row in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if row.startswith("VmRSS:"):
            return int(row.split()[1])
    return 0


def tell(line: str, **values: Any) -> None:
    rounded = {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in values.items()
    }
    print(json.dumps({"line": line, **rounded, "bar": BARS.get(line)}), flush=True)


def main() -> None:
    collector.begin()  # as the program `elea dds` does
    collector.settle()
    os.environ["ELEA_NO_SCOUTING"] = "1"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer samples")
    parser.add_argument("--only", metavar="LINE", action="append", choices=LINES, help="of LINES")
    args = parser.parse_args()
    lines, quick = args.only or LINES, args.quick
    count = 20_000 if quick else 100_000
    for size in (84, 1_000):
        if "D-901" in lines:
            against_raw("D-901", from_dds, count, size)
        if "D-902" in lines:
            against_raw("D-902", to_dds, count, size)
    if "D-903" in lines:
        versus_typed(from_dds, "from", count // 5)
        versus_typed(to_dds, "to", count // 5)
    if "D-905" in lines:
        alone, bridged = latency(200 if quick else 1_000)
        tell("D-905", dds_ms=alone, bridge_ms=bridged, ratio=(bridged - alone) / alone)
    if "D-904" in lines:
        tell("D-904", **scale(200 if quick else 1_000))
    if "D-906" in lines:
        tell("D-906", **stalled(2.0 if quick else 10.0))
    if "D-907" in lines:
        arrived = large(1_000_000, 30 if quick else 150, 1 / 30)
        tell("D-907", one_mb=arrived, ten_mb=large(10_000_000, 3, 0.2))
    if "D-908" in lines:
        tell("D-908", **(soak(200, 100_000) if quick else soak(2_000, 1_000_000)))


if __name__ == "__main__":
    main()
