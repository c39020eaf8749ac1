"""A talker and a listener in two DDS domains, joined by one router; the samples become a table.

    python examples/two_domains.py

The router has one bridge for each domain. What the talker writes reaches the listener in the other
domain, a subscriber of Zenoh, and a Spark table whose columns come from the type that the talker
announced: there is no IDL file.

Needs: pip install 'elea[demo,dds]'

DDS stays on 127.0.0.1; `--domains` chooses others if numbers 10 and 11 are used on this host.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cyclonedds.core import Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import int32
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

import elea
import elea.spark
from elea.store.log.reader import LogReader

TOPIC = "Chatter"  # the key in Zenoh, too
COUNT = 5
WAIT_S = 60.0
RELIABLE = Qos(Policy.Reliability.Reliable(duration(seconds=10)), Policy.History.KeepAll)

LOOPBACK = """<CycloneDDS><Domain><General><Interfaces><NetworkInterface address="127.0.0.1"/>
</Interfaces><AllowMulticast>false</AllowMulticast></General><Discovery>
<ParticipantIndex>auto</ParticipantIndex><Peers><Peer address="127.0.0.1"/></Peers>
</Discovery></Domain></CycloneDDS>"""


@dataclass
class Line(IdlStruct, typename="demo::Line"):
    """What the talker says."""

    number: int32
    text: str


SAID = [Line(number=number, text=f"hello {number}") for number in range(COUNT)]


@contextmanager
def router(directory: Path, domains: list[int]) -> Iterator[str]:
    """Run the router as a process: two bridges and a recorder. Gives its address."""
    recording = {"key_exprs": [TOPIC, "@schema/**"]}
    plugins = {
        "dds": {"__required__": True, "domains": [{"domain": one} for one in domains]},
        "recorder": {
            "__required__": True,
            "directory": str(directory / "log"),
            "recordings": {"talk": recording},
        },
    }
    file = directory / "router.json5"
    scouting = {"multicast": {"enabled": False}}
    file.write_text(json.dumps({"mode": "router", "scouting": scouting, "plugins": plugins}))
    command = [sys.executable, "-m", "elea", "router", "--config", str(file)]
    command += ["--listen", "tcp/127.0.0.1:0"]
    log = (directory / "router.log").open("w")
    pipe = subprocess.PIPE
    with log, subprocess.Popen(command, stdout=pipe, stderr=log, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[-1]  # ready: router ID ENDPOINT
        finally:
            process.terminate()


def until(condition: Callable[[], Any]) -> Any:
    """Wait for a condition, and return what it gave."""
    end_s = time.monotonic() + WAIT_S
    while not (found := condition()):
        if time.monotonic() > end_s:
            raise TimeoutError("not seen in time")
        time.sleep(0.02)
    return found


def client(endpoint: str) -> elea.Session:
    """A session of the router."""
    config = elea.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", json.dumps([endpoint]))
    config.insert_json5("scouting/multicast/enabled", "false")
    return elea.open(config)


def recorded(log: Path) -> list[str]:
    """The keys of the samples in a log."""
    if not log.is_dir():
        return []
    reader = LogReader(log)
    return [
        key
        for shard in range(reader.shards_count)
        for batch in reader.read(shard, reader.bounds(shard).first, columns=["key"])
        for key in batch.column("key").to_pylist()
    ]


def table(log: Path) -> list[tuple[int, str]]:
    """The rows of the log as Spark has them, with a column for each member."""
    spark = elea.spark.session("two domains", quick=True)
    try:
        source = spark.read.format("zenoh").option("log", str(log)).option("decode", "auto")
        rows = source.load().where(f"key = '{TOPIC}'").orderBy("number")
        return [(row.number, row.text) for row in rows.select("number", "text").collect()]
    finally:
        spark.stop()


def run(directory: Path, domains: list[int]) -> dict[str, list[tuple[int, str]]]:
    """Start everything, talk, and collect what arrived where."""
    log = directory / "log" / "talk"
    with router(directory, domains) as endpoint, client(endpoint) as session:
        subscriber = session.declare_subscriber(TOPIC)
        kept = [Domain(one, LOOPBACK) for one in domains]  # they have to outlive the participants
        near, far = (DomainParticipant(one) for one in domains)
        reader: Any = DataReader(far, Topic(far, TOPIC, Line), qos=RELIABLE)
        writer: Any = DataWriter(near, Topic(near, TOPIC, Line), qos=RELIABLE)
        until(lambda: writer.get_publication_matched_status().current_count)
        until(lambda: reader.get_subscription_matched_status().current_count)
        # Answered once the router knows the subscriber, and both bridges have their endpoints.
        list(session.liveliness().get("**"))
        until(lambda: has_token(session, domains[0], "W") and has_token(session, domains[1], "R"))

        for one in SAID:
            writer.write(one)

        heard = [until(lambda: reader.take(1))[0] for _ in SAID]
        samples = [until(subscriber.try_recv) for _ in SAID]
        until(lambda: recorded(log).count(TOPIC) >= COUNT)
        until(lambda: any(key.startswith("@schema/cdr/") for key in recorded(log)))
        del kept
    lines = [Line.deserialize(one.payload.to_bytes()) for one in samples]
    return {
        "listener in the other domain": [(one.number, one.text) for one in heard],
        "subscriber of Zenoh": [(one.number, one.text) for one in lines],
        "Spark table": table(log),
    }


def has_token(session: elea.Session, domain: int, kind: str) -> bool:
    """Whether a bridge announces an endpoint of the topic: W a writer, R a reader."""
    return bool(list(session.liveliness().get(f"@/*/@dds/{domain}/{kind}/*/{TOPIC}")))


def main() -> None:
    """Print what arrived; fails unless everything arrived everywhere, once and in order."""
    parser = argparse.ArgumentParser(description="Join two DDS domains, and make a table.")
    parser.add_argument("--domains", type=int, nargs=2, default=[10, 11], help="default: 10 11")
    domains = parser.parse_args().domains
    with tempfile.TemporaryDirectory() as directory:
        found = run(Path(directory), domains)
    sent = [(one.number, one.text) for one in SAID]
    print(f"written in domain {domains[0]}: {len(sent)} samples")
    for name, got in found.items():
        print(f"{name}: {len(got)} samples, {'equal' if got == sent else f'differ: {got}'}")
    if any(got != sent for got in found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
