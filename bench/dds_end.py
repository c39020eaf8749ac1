"""The Zenoh end of bench/dds.py, in a process of its own: counts, or publishes, as told."""

import sys
import time

from tests.dds.peers import config_of

import elea
from elea.sample import Sample


def main() -> None:
    endpoint, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    seen = [0]
    ages: list[float] = []

    def take(sample: Sample) -> None:
        seen[0] += 1
        payload = sample.payload.to_bytes()
        if size == 8:
            ages.append((time.time_ns() - int.from_bytes(payload[12:20], "little")) / 1e6)

    with elea.open(config_of(connect=endpoint)) as session:
        subscriber = session.declare_subscriber("Out", take)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        for line in sys.stdin:
            if line.strip() == "publish":
                payload = b"\0\1\0\0" + bytes(4) + size.to_bytes(4, "little") + bytes(size)
                publisher = session.declare_publisher(
                    "In", congestion_control=elea.CongestionControl.BLOCK
                )
                while not publisher.matching_status.matching:
                    time.sleep(0.01)
                for _ in range(count):
                    publisher.put(payload)
            middle = sorted(ages)[len(ages) // 2] if ages else 0
            sys.stdout.write(f"{seen[0]} {middle}\n")
            sys.stdout.flush()
        subscriber.undeclare()


if __name__ == "__main__":
    main()
