"""A publisher and a subscriber that behave: how long samples take, and whether all arrive.

Started by the harness; writes how long opening took, works until a line comes in, then writes what
it measured.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from typing import Final

import elea

KEY: Final = "healthy/samples"
_PERIOD_S: Final = 0.005
_LAST_S: Final = 20.0  # for what is under way at the end


def main() -> None:
    config = json.loads(sys.argv[1])
    begun_s = time.monotonic()
    took_s: dict[int, float] = {}

    def heard(sample: elea.Sample) -> None:
        number, sent_s = sample.payload.to_string().split()
        took_s[int(number)] = time.monotonic() - float(sent_s)

    with (
        elea.open(config) as receiver,
        elea.open(config) as sender,
        receiver.declare_subscriber(KEY, heard),
    ):
        publisher = sender.declare_publisher(
            KEY, congestion_control=elea.CongestionControl.BLOCK, express=True
        )
        while not publisher.matching_status.matching:
            time.sleep(0.01)
        print((time.monotonic() - begun_s) * 1e3, flush=True)
        stop = threading.Event()

        def wait_for_the_end() -> None:
            sys.stdin.readline()
            stop.set()

        threading.Thread(target=wait_for_the_end, daemon=True).start()
        sent = stall_s = 0.0
        while not stop.wait(_PERIOD_S):
            before_s = time.monotonic()
            publisher.put(f"{int(sent)} {before_s}")
            stall_s = max(stall_s, time.monotonic() - before_s)
            sent += 1
        deadline_s = time.monotonic() + _LAST_S
        while len(took_s) < sent and time.monotonic() < deadline_s:
            time.sleep(0.01)
    ordered = sorted(took_s.values())
    figures = {
        "sent": sent,
        "lost": sent - len(ordered),
        "p50_ms": ordered[len(ordered) // 2] * 1e3 if ordered else -1,
        "p99_ms": ordered[len(ordered) * 99 // 100] * 1e3 if ordered else -1,
        "stall_ms": stall_s * 1e3,
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
