"""T11: a flood of SCOUT, which would make a router an amplifier. Loopback multicast alone."""

from __future__ import annotations

import socket
import time
from typing import Final

from attack.harness import MIB, Check, Target
from tests.ports import free_port

from elea.wire.batches import encode_scouting
from elea.wire.scouting.scout import Scout

THREAT: Final = "T11"
RSS_GROWTH: Final = 8 * MIB
SIZES: Final = {"small": 2_000, "full": 100_000}
_GROUP: Final = "224.0.0.224"
_PORT: Final = free_port()
_PER_S: Final = 10  # what one address may have in a second
_RATE: Final = 10_000  # SCOUTs per second
SETTINGS: Final = {
    "scouting/multicast/enabled": True,
    "scouting/multicast/interface": "lo",
    "scouting/multicast/address": f"{_GROUP}:{_PORT}",
}


def attack(target: Target, size: int) -> list[Check]:
    datagram = encode_scouting(Scout(0b111))
    answers = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        sock.setblocking(False)
        begun_s = time.monotonic()
        for number in range(size):
            sock.sendto(datagram, (_GROUP, _PORT))
            if number % 100 == 0:
                time.sleep(100 / _RATE)
                answers += _read(sock)
        time.sleep(0.2)
        answers += _read(sock)
        seconds = time.monotonic() - begun_s
    bound = round(_PER_S * (seconds + 2))
    return [Check("hellos", answers, bound), Check("unanswered", float(answers == 0), 0)]


def _read(sock: socket.socket) -> int:
    count = 0
    while True:
        try:
            sock.recv(65_536)
        except BlockingIOError:
            return count
        count += 1
