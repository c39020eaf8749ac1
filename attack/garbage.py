"""T01: octets that are no message, before and after the handshake. Each link goes, nobody else."""

from __future__ import annotations

import random
import socket
from typing import Final

from attack.harness import MIB, Check, Raw, Target, until

THREAT: Final = "T01"
RSS_GROWTH: Final = 16 * MIB
SIZES: Final = {"small": 60, "full": 3_000}


def attack(target: Target, size: int) -> list[Check]:
    dice = random.Random(1)
    open_count = 0
    for number in range(size):
        octets = dice.randbytes(dice.randrange(1, 400))
        if number % 2:
            raw = Raw.connect(target.port)
            raw.send_batch(octets)
            # Some of it may be legal by chance; a header that no message has never is.
            raw.send_batch(b"\x1f" + octets)
            open_count += not until(raw.is_closed)
            raw.close()
        else:
            with socket.create_connection(("127.0.0.1", target.port)) as sock:
                sock.sendall(octets)
    return [Check("left_open", open_count, 0)]
