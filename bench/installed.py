"""The wheel that a user installs beside the eclipse-zenoh wheel, by one pair of programs.

Builds the wheel with pip in isolation, installs it and eclipse-zenoh into an empty environment, and
runs a publisher and a subscriber that import `zenoh`, as zenoh-python's z_pub_thr and z_sub_thr do.
ELEA_AS_ZENOH=1 makes that Elea, so both run the same text. Rounds alternate; the result is the
ratio of the medians. Prints JSON lines. `python bench/installed.py --rounds 3 --lengths 8,1024`;
`--wheel FILE` takes a wheel that was built before.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).parent.parent
SIDES = {"elea": {"ELEA_AS_ZENOH": "1"}, "zenoh": {}}
_HIDDEN = ("PYTHONPATH", "CC", "ELEA_AS_ZENOH", "ELEA_COMPILE", "ELEA_PURE", "VIRTUAL_ENV")

_COMMON = """
import json, sys, threading, time
import zenoh
config = zenoh.Config()
for key, value in json.loads(sys.argv[1]).items():
    config.insert_json5(key, json.dumps(value))
"""
SUBSCRIBER = (
    _COMMON
    + """
seconds, count, first, last = float(sys.argv[2]), 0, None, None
done = threading.Event()
def listener(sample):
    global count, first, last
    if first is None:
        first = time.perf_counter()
    count += 1
    if not count & 1023:
        last = time.perf_counter()
        if last - first >= seconds:
            done.set()
with zenoh.open(config) as session:
    subscriber = session.declare_subscriber("test/thr", listener)
    print("ready", zenoh.__name__, flush=True)
    if not done.wait(seconds + 60):
        sys.exit("too few samples came")
    print(count / (last - first), flush=True)
"""
)
PUBLISHER = (
    _COMMON
    + """
payload = bytes(int(sys.argv[2]))
with zenoh.open(config) as session:
    publisher = session.declare_publisher(
        "test/thr", congestion_control=zenoh.CongestionControl.BLOCK
    )
    while True:
        publisher.put(payload)
"""
)


def environment(**changes: str) -> dict[str, str]:
    """The environment without what chooses a build, or reaches packages of this one."""
    kept = {name: value for name, value in os.environ.items() if name not in _HIDDEN}
    return {**kept, "ELEA_NO_SCOUTING": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", **changes}


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout[-4_000:]}")
    return done.stdout


def build_wheel(folder: Path) -> Path:
    """The wheel of this checkout, built from a copy of its files alone."""
    clone = folder / "clone"
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in listed.stdout.decode().split("\0")[:-1]:
        if (ROOT / name).is_file():
            (clone / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, clone / name)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", folder, clone)
    [wheel] = folder.glob("elea-*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> Path:
    """The Python of an empty environment with the two wheels."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    both = (wheel, f"eclipse-zenoh=={version('eclipse-zenoh')}")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *both)
    return python


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def measure(python: Path, side: str, length: int, seconds: float) -> float:
    """Samples a second that a callback gets from a publisher in another process."""
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    alone = {
        "mode": "peer",
        "listen/endpoints": [],
        "scouting/multicast/enabled": False,
        "scouting/gossip/enabled": False,
    }
    here = json.dumps({**alone, "listen/endpoints": [endpoint]})
    there = json.dumps({**alone, "connect/endpoints": [endpoint]})
    variables = environment(**SIDES[side])
    subscriber = subprocess.Popen(
        [python, "-c", SUBSCRIBER, here, str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
        env=variables,
    )
    assert subscriber.stdout is not None
    try:
        ready = subscriber.stdout.readline().split()
        if ready != ["ready", "elea" if side == "elea" else "zenoh"]:
            raise SystemExit(f"{side}: the subscriber said {ready}")
        publisher = subprocess.Popen([python, "-c", PUBLISHER, there, str(length)], env=variables)
        try:
            return float(subscriber.stdout.readline() or "nan")
        finally:
            publisher.kill()
            publisher.wait()
    finally:
        subscriber.kill()
        subscriber.wait()
        subscriber.stdout.close()


def main() -> int:
    """Print one line per length and side, and the ratio; 1 if Elea is slower anywhere."""
    parser = argparse.ArgumentParser(description="Throughput of the installed wheel.")
    parser.add_argument("--wheel", type=Path, help="a wheel of Elea; built if it is not given")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    parser.add_argument("--lengths", default="8,1024", help="bytes of payloads, with commas")
    args = parser.parse_args()
    slower = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = args.wheel or build_wheel(folder)
        python = install(wheel, folder / "env")
        about = run(python, "-m", "elea", "--version").splitlines()
        print(json.dumps({"wheel": wheel.name, "elea": about}), flush=True)
        for length in map(int, args.lengths.split(",")):
            rates: dict[str, list[float]] = {side: [] for side in SIDES}
            for _ in range(args.rounds):
                for side in SIDES:
                    rates[side].append(measure(python, side, length, args.seconds))
            medians = {side: statistics.median(found) for side, found in rates.items()}
            ratio = medians["elea"] / medians["zenoh"]
            slower = slower or not ratio >= 1
            shown = {side: round(rate) for side, rate in medians.items()}
            line = {"figure": f"installed_{length}", "unit": "msg/s", **shown}
            print(json.dumps({**line, "ratio": round(ratio, 2)}), flush=True)
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
