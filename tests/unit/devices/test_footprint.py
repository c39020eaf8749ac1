"""What a device costs a router in memory: a process of its own, and a thousand devices."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from elea.xrce.declaration_records import (
    CommitDecl,
    PublisherDecl,
    ResourceDecl,
    SubscriberDecl,
)
from elea.xrce.encode import encode
from elea.xrce.framing import read_frame
from elea.xrce.message_records import AckNack, Declare, Message, Ping, Pong

DEVICES = 1_000
BEFORE = 100  # what all devices share is there, and tables have grown
BOUND_KIB = 16.0
WAIT_S = 60.0


@contextmanager
def router() -> Iterator[tuple[int, tuple[str, int]]]:
    """A router as it is started by its command: its process, and where devices are served."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "elea.cli.main", "router", "--listen", "tcp/127.0.0.1:0"]
    command += ["--xrce", f"udp/127.0.0.1:{port}", "--cfg", "scouting/multicast/enabled:false"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert "ready" in process.stdout.readline()
            yield process.pid, ("127.0.0.1", port)
        finally:
            process.terminate()


class Sensor:
    """A device that answers what a session needs, and nothing else."""

    def __init__(self, address: tuple[str, int], number: int) -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.connect(address)
        self._number = number
        pid = number.to_bytes(8, "big")
        self._opening = b"\x03\x01\x08" + pid + b"\x00\x00"

    def join(self) -> None:
        """Have a session, two resources, a publisher and a subscriber."""
        declarations = (
            ResourceDecl(rid=2, resource=b"/fleet/%d/t" % self._number),
            ResourceDecl(rid=4, resource=b"/fleet/%d/u" % self._number),
            PublisherDecl(rid=2),
            SubscriberDecl(id=4, mode=1),
            CommitDecl(commit_id=0),
        )
        self._sock.send(self._opening)
        self._sock.send(
            encode(Declare(sync=True, committed=False, sn=0, declarations=declarations))
        )
        deadline_s = time.monotonic() + WAIT_S
        while not any(isinstance(one, Declare) for one in self.hear(1.0)):
            assert time.monotonic() < deadline_s

    def hear(self, wait_s: float) -> list[Message]:
        """Answer what has come."""
        self._sock.settimeout(wait_s)
        try:
            found = [one.message for one in read_frame(self._sock.recv(2_048))]
        except (TimeoutError, BlockingIOError):
            return []
        for one in found:
            if isinstance(one, Ping):
                self._sock.send(encode(Pong(hash=one.hash)))
            elif isinstance(one, Declare):
                self._sock.send(encode(AckNack(sn=one.sn + 1)))
        return found

    def meet(self) -> None:
        """Return when the router has done all that this device made it do."""
        deadline_s = time.monotonic() + WAIT_S
        found: list[Message] = []
        while not any(isinstance(one, Pong) for one in found):
            assert time.monotonic() < deadline_s
            self._sock.send(encode(Ping(hash=self._number)))
            while (heard := self.hear(1.0)) and not any(isinstance(one, Pong) for one in heard):
                pass  # what the router said before
            found = heard

    def close(self) -> None:
        self._sock.close()


def private_kib(pid: int) -> int:
    """Memory that no other process has."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    return sum(map(int, re.findall(r"^Private_\w+:\s+(\d+) kB$", text, re.MULTILINE)))


def settled_kib(pid: int, sensors: list[Sensor]) -> int:
    """The memory of a process once it no longer changes."""
    before, deadline_s = 0, time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        for sensor in sensors:
            sensor.meet()
        now = private_kib(pid)
        if abs(now - before) < 16:
            return now
        before = now
    return before


@pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="only Linux tells what is private"
)
def test_a_device_with_four_declarations_costs_a_router_no_more_than_16_kib() -> None:
    sensors: list[Sensor] = []
    with router() as (pid, address):
        try:
            for number in range(1, BEFORE + 1):
                sensors.append(Sensor(address, number))
                sensors[-1].join()
            before = settled_kib(pid, sensors)
            for number in range(BEFORE + 1, BEFORE + DEVICES + 1):
                sensors.append(Sensor(address, number))
                sensors[-1].join()
            each = (settled_kib(pid, sensors) - before) / DEVICES
        finally:
            for sensor in sensors:
                sensor.close()
    assert each <= BOUND_KIB, f"{each:.2f} KiB"
