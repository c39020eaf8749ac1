"""One sample, written once by a DDS participant, and seen by eight others.

    python examples/one_sample.py

A router on loopback bridges a DDS domain with the names of ROS 2, serves XRCE devices and REST, and
records. Every observer is the real thing: Cyclone DDS, an XRCE device, Elea, Eclipse Zenoh, REST,
the log, a Spark table and a node of ROS 2.

Needs: pip install 'elea[demo,dds,ros,web]' eclipse-zenoh

DDS stays on 127.0.0.1; `--domain` chooses another domain if number 92 is used on this host.
"""

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import zenoh
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import final
from cyclonedds.idl.types import float64
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic

import elea
import elea.spark
from elea import ros
from elea.devices.device import Device
from elea.store.log.reader import LogReader

KEY = "robot1/point"  # of Zenoh; /robot1/point of ROS 2 and XRCE, rt/robot1/point of DDS
LAYOUT = "{x: f64, y: f64, z: f64}"
WAIT_S = 60.0

LOOPBACK = """<CycloneDDS><Domain><General><Interfaces><NetworkInterface address="127.0.0.1"/>
</Interfaces><AllowMulticast>false</AllowMulticast></General><Discovery>
<ParticipantIndex>auto</ParticipantIndex><Peers><Peer address="127.0.0.1"/></Peers>
</Discovery></Domain></CycloneDDS>"""


@dataclass
@final
class Point(IdlStruct, typename="geometry_msgs::msg::dds_::Point_"):
    """`geometry_msgs/msg/Point`, as a ROS 2 node on DDS has it."""

    x: float64
    y: float64
    z: float64


SENT = Point(x=1.5, y=-2.25, z=40.0)


@dataclass
class Sighting:
    """What one observer saw, and under which name."""

    observer: str
    name: str
    x: float
    y: float
    z: float

    @classmethod
    def of_cdr(cls, observer: str, name: str, payload: bytes) -> "Sighting":
        """Of an observer that gets CDR: four bytes of header, then the members."""
        return cls(observer, name, *struct.unpack("<3d", payload[4:28]))


def configuration(directory: Path, domain: int) -> dict[str, Any]:
    """The router: a bridge with ROS names, a gateway, REST, a value to ask for, and a recorder."""
    return {
        "mode": "router",
        "scouting": {"multicast": {"enabled": False}},
        "timestamping": {"enabled": True},
        "plugins": {
            "dds": {"__required__": True, "domain": domain, "names": "ros2"},
            "xrce": {"__required__": True, "listen": ["udp/127.0.0.1:0"]},
            "rest": {"__required__": True, "http_port": "127.0.0.1:0"},
            "storage_manager": {"storages": {"last": {"key_expr": KEY, "volume": "memory"}}},
            "recorder": {
                "__required__": True,
                "directory": str(directory / "log"),
                "recordings": {"robots": {"key_exprs": ["robot1/**"]}},
            },
        },
    }


@contextmanager
def router(directory: Path, domain: int) -> Iterator[tuple[str, str, str]]:
    """Run it as a process; gives the addresses for Zenoh, XRCE and REST."""
    file = directory / "router.json5"
    file.write_text(json.dumps(configuration(directory, domain)))
    command = [sys.executable, "-m", "elea", "router", "--config", str(file)]
    command += ["--listen", "tcp/127.0.0.1:0", "--adminspace-permissions", "r"]
    log = (directory / "router.log").open("w")
    pipe = subprocess.PIPE
    with log, subprocess.Popen(command, stdout=pipe, stderr=log, text=True) as process:  # noqa: S603
        try:
            assert process.stdout is not None
            endpoint = process.stdout.readline().split()[-1]  # ready: router ID ENDPOINT
            with client(elea, endpoint) as session:
                gateway = status(session, "xrce/gateway")["listen"][0]
                url = status(session, "rest/url")
            yield endpoint, gateway, url
        finally:
            process.terminate()


def status(session: elea.Session, name: str) -> Any:
    """What a service of the router says of itself in the admin space."""
    [reply] = session.get(f"@/*/router/status/plugins/{name}")
    assert reply.ok is not None
    return json.loads(reply.ok.payload.to_bytes())


def until(condition: Callable[[], Any]) -> Any:
    """Wait for a condition, and return what it gave."""
    end_s = time.monotonic() + WAIT_S
    while not (found := condition()):
        if time.monotonic() > end_s:
            raise TimeoutError("not seen in time")
        time.sleep(0.02)
    return found


def client(package: Any, endpoint: str) -> Any:
    """A session of Elea or of Eclipse Zenoh: the API is the same."""
    config = package.Config()
    config.insert_json5("mode", '"client"')
    config.insert_json5("connect/endpoints", json.dumps([endpoint]))
    config.insert_json5("scouting/multicast/enabled", "false")
    return package.open(config)


def recorded(log: Path) -> list[bytes]:
    """The payloads in a log."""
    if not log.is_dir():
        return []
    reader = LogReader(log)
    return [
        payload
        for shard in range(reader.shards_count)
        for batch in reader.read(shard, reader.bounds(shard).first, columns=["payload"])
        for payload in batch.column("payload").to_pylist()
    ]


def table(log: Path) -> Any:
    """The rows of the log as Spark has them, with a column for each member."""
    schemas = log.parent / "schemas.toml"
    schemas.write_text(f'[[schema]]\nkey = "{KEY}"\ndecoder = "cdr"\nlayout = "{LAYOUT}"\n')
    spark = elea.spark.session("one sample", quick=True)
    try:
        source = spark.read.format("zenoh").option("log", str(log))
        rows = source.option("decode", "auto").option("schemas", str(schemas)).load()
        return rows.select("key", "x", "y", "z").collect()
    finally:
        spark.stop()


def observe(directory: Path, domain: int) -> list[Sighting]:
    """Start everything, write one sample, and collect what each observer saw."""
    seen: list[Sighting] = []
    log = directory / "log" / "robots"
    with ExitStack() as stack:
        endpoint, gateway, url = stack.enter_context(router(directory, domain))
        alone = Domain(domain, LOOPBACK)
        participant = DomainParticipant(domain)
        topic = Topic(participant, f"rt/{KEY}", Point)
        reader = DataReader(participant, topic)
        writer: Any = DataWriter(participant, topic)
        sessions = [stack.enter_context(client(one, endpoint)) for one in (elea, zenoh)]
        here, eclipse = (one.declare_subscriber(KEY) for one in sessions)
        device = stack.enter_context(Device(gateway, timeout_s=WAIT_S))
        device.subscriber(f"/{KEY}")
        node = stack.enter_context(ros.Node("observer", connect=endpoint))
        subscription = until(lambda: subscribed(node))
        for session in (*sessions, node.context.session):
            list(session.liveliness().get("**"))  # answered once the router has what was declared
        until(lambda: writer.get_publication_matched_status().current_count == 2)  # with the bridge

        writer.write(SENT)

        [point] = until(lambda: reader.take(1))
        seen.append(Sighting("DDS reader", f"topic rt/{KEY}", point.x, point.y, point.z))
        received = until(lambda: device.receive(1.0))
        seen.append(Sighting.of_cdr("XRCE device", f"resource /{KEY}", received.payload))
        for name, subscriber in (("Elea", here), ("Eclipse Zenoh", eclipse)):
            sample = until(subscriber.try_recv)
            seen.append(Sighting.of_cdr(name, f"key {KEY}", sample.payload.to_bytes()))
        path = f"{url}/{KEY}?_raw"
        payload = until(lambda: urllib.request.urlopen(path, timeout=WAIT_S).read())  # noqa: S310
        seen.append(Sighting.of_cdr("REST", f"GET /{KEY}", payload))
        [payload] = until(lambda: recorded(log))
        seen.append(Sighting.of_cdr("log", "log/robots", payload))
        [row] = table(log)
        seen.append(Sighting("Spark table", f"key = '{row.key}'", row.x, row.y, row.z))
        message = subscription.take(timeout=WAIT_S)
        seen.append(Sighting("ROS 2 node", f"topic /{KEY}", message.x, message.y, message.z))
        del alone  # it had to outlive the participant
    return seen


def subscribed(node: ros.Node) -> Any:
    """A subscription of the topic, whose type the bridge's token tells."""
    return node.subscribe(f"/{KEY}") if node.graph.publishers(f"/{KEY}") else None


def main() -> None:
    """Print the table; fails unless every observer saw what was sent."""
    parser = argparse.ArgumentParser(description="Show one sample to eight observers.")
    parser.add_argument("--domain", type=int, default=92, help="the DDS domain (default: 92)")
    domain = parser.parse_args().domain
    with tempfile.TemporaryDirectory() as directory:
        seen = observe(Path(directory), domain)
    print(f"sent by a DDS writer: x={SENT.x} y={SENT.y} z={SENT.z}\n")
    print(f"{'seen by':<15}{'as':<26}{'x':>8}{'y':>8}{'z':>8}")
    for one in seen:
        print(f"{one.observer:<15}{one.name:<26}{one.x:>8}{one.y:>8}{one.z:>8}")
    same = sum((one.x, one.y, one.z) == (SENT.x, SENT.y, SENT.z) for one in seen)
    print(f"\n{same} of {len(seen)} saw the same sample")
    if same != len(seen):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
